//! The nodes of a pool: the memory of dynamic tasks, from their registration to their end.
//!
//! A pool keeps the memory of its nodes for as long as it lives. So a stale [`NodeRef`] still points to a node, and the node's
//! generation shows whether it holds the same task. Nodes of ended tasks are reused: a program that registers at a steady rate
//! allocates nothing after its first round.

mod count;
mod node;

pub(crate) use count::{MAX_COUNT, Surplus};
pub(crate) use node::NodeRef;

use super::GraphCore;
use node::Node;
use parking_lot::Mutex;
use std::ptr::NonNull;

/// Nodes per allocation.
const CHUNK: usize = 256;

/// All nodes of a pool.
#[derive(Default)]
pub(crate) struct Slab {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    chunks: Vec<Chunk>,
    free: Vec<NodeRef>,
}

/// An owned array of nodes. The pointer is from `Box::into_raw`: a `Box` would claim that no [`NodeRef`] points into it.
struct Chunk(NonNull<[Node]>);

// SAFETY: a chunk owns its nodes, which are `Send` and `Sync`.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new() -> Self {
        let nodes: Box<[Node]> = (0..CHUNK).map(|_| Node::free()).collect();
        Chunk(NonNull::new(Box::into_raw(nodes)).expect("a box is not null"))
    }

    fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeRef> {
        let first = self.0.cast::<Node>();
        // SAFETY: the offsets stay inside the chunk.
        (0..self.0.len()).map(move |offset| NodeRef(unsafe { first.add(offset) }))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, freed once. The pool drops its slab after its workers, so no `NodeRef` is used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Slab {
    /// Moves up to `wanted` free nodes into `cache`, at least one. Allocates a chunk if no node is free.
    pub(crate) fn refill(&self, cache: &mut Vec<NodeRef>, wanted: usize) {
        let mut inner = self.inner.lock();
        if inner.free.is_empty() {
            let chunk = Chunk::new();
            inner.free.extend(chunk.nodes().rev());
            inner.chunks.push(chunk);
        }
        let keep = inner.free.len().saturating_sub(wanted);
        cache.extend(inner.free.drain(keep..));
    }

    /// Returns a free node, for a thread without a cache.
    pub(crate) fn take_one(&self) -> NodeRef {
        if let Some(node) = self.inner.lock().free.pop() {
            return node;
        }
        let mut one = Vec::new();
        self.refill(&mut one, 1);
        one[0]
    }

    /// Frees the nodes of `cache` behind the first `keep`.
    pub(crate) fn give_back(&self, cache: &mut Vec<NodeRef>, keep: usize) {
        let keep = keep.min(cache.len());
        self.inner.lock().free.extend(cache.drain(keep..));
    }

    /// Returns the nodes whose tasks belong to `graph`. Looks at every node of the pool, so it is for errors only.
    pub(crate) fn of_graph(&self, graph: *const GraphCore) -> Vec<NodeRef> {
        let inner = self.inner.lock();
        let nodes = inner.chunks.iter().flat_map(Chunk::nodes);
        nodes
            .filter(|node| std::ptr::eq(node.graph(), graph))
            .collect()
    }
}
