//! The part of a worker that belongs to the graph layer.

use super::slab::{NodeRef, Slab};
use std::cell::RefCell;

/// Free nodes that a worker takes from its pool at once. With more than twice as many, it gives some back.
const NODE_CACHE: usize = 256;

/// What one worker keeps for the graph layer: a cache of free nodes.
#[derive(Default)]
pub(crate) struct GraphLocal {
    nodes: RefCell<Vec<NodeRef>>,
}

impl GraphLocal {
    /// Returns a free node. Asks `slab` once in [`NODE_CACHE`] calls at most.
    #[inline]
    pub(super) fn take_node(&self, slab: &Slab) -> NodeRef {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.is_empty() {
            slab.refill(&mut nodes, NODE_CACHE);
        }
        nodes.pop().expect("just refilled")
    }

    /// Takes back a node whose task has ended.
    #[inline]
    pub(super) fn give_node(&self, slab: &Slab, node: NodeRef) {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(node);
        if nodes.len() > 2 * NODE_CACHE {
            slab.give_back(&mut nodes, NODE_CACHE);
        }
    }
}
