//! The part of a worker that belongs to the graph layer.

use super::GraphCore;
use super::slab::{NodeRef, Slab};
use crate::worker::WorkerCore;
use crate::worker::held::Held;
use std::cell::{Cell, RefCell};

/// Free nodes that a worker takes from its pool at once. With more than twice as many, it returns some to the pool.
const NODE_CACHE: usize = 256;

/// What one worker keeps for the graph layer.
pub(crate) struct GraphLocal {
    /// A cache of free nodes.
    nodes: RefCell<Vec<NodeRef>>,
    /// The graph of the task whose body this worker runs, or null.
    running: Cell<*const GraphCore>,
    /// What this worker holds back of the countdown of a graph or a room.
    pub(crate) held: Held<WorkerCore>,
    /// Whether this worker runs tasks inside of a registration.
    pub(super) helps: Cell<bool>,
}

impl Default for GraphLocal {
    fn default() -> Self {
        GraphLocal {
            nodes: RefCell::default(),
            running: Cell::new(std::ptr::null()),
            held: Held::default(),
            helps: Cell::new(false),
        }
    }
}

impl GraphLocal {
    /// Stores the graph of the task whose body runs on this worker from now on. Null: none does, and a graph that an observer or a policy
    /// begins here is inside of no other.
    #[inline]
    pub(crate) fn run(&self, graph: *const GraphCore) {
        self.running.set(graph);
    }

    /// Returns the graph of the task whose body runs on this worker, or null. That graph has not ended.
    pub(crate) fn running(&self) -> *const GraphCore {
        self.running.get()
    }

    /// Returns a free node. Asks `slab` once in [`NODE_CACHE`] calls at most.
    #[inline]
    pub(super) fn take_node(&self, slab: &Slab) -> NodeRef {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.is_empty() {
            slab.refill(&mut nodes, NODE_CACHE);
        }
        Slab::pop(&mut nodes)
    }

    /// Takes back a node whose task has ended.
    #[inline]
    pub(super) fn give_node(&self, slab: &Slab, node: NodeRef) {
        if node.is_used_up() {
            return;
        }
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(node);
        if nodes.len() > 2 * NODE_CACHE {
            slab.give_back(&mut nodes, NODE_CACHE);
        }
    }

    /// As [`GraphLocal::give_node`], for a node whose block a task had, as few do: out of line, so that the end of others stays short.
    #[cold]
    #[inline(never)]
    pub(super) fn give_borrowed(&self, slab: &Slab, node: NodeRef) {
        self.give_node(slab, node);
    }
}
