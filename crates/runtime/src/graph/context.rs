//! The way of a task that became ready, from its graph to the policy.

use super::GraphCore;
use super::slab::NodeRef;
use crate::pool::PoolShared;
use crate::worker::WorkerCore;
use tanada_policy::Ready;

/// The graph, the pool and the worker, if any, for which graph code runs.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) graph: &'a GraphCore,
    pub(super) pool: &'a PoolShared,
    /// The worker that this thread is; `None` on a thread outside of `pool`.
    pub(super) worker: Option<&'a WorkerCore>,
}

impl Context<'_> {
    /// Counts a task that became ready as active, and routes it.
    pub(super) fn activate(self, task: Ready) {
        self.graph.activate(1);
        self.route(task);
    }

    /// Passes an active task on: to the table of its graph if that is nested, to the graph's observer if that holds tasks back, else to the
    /// policy. The run may be over when this returns.
    #[inline]
    pub(super) fn route(self, task: Ready) {
        let graph = self.graph;
        if graph.nested.is_on() {
            return self.offer([task]);
        }
        let task = match self.worker {
            Some(_) => Some(task),
            None => graph
                .watch
                .observer()
                .inject(graph.run_id(), self.pool, task),
        };
        if let Some(task) = task {
            self.dispatch(task);
        }
    }

    /// Hands a task or ticket to the policy: through the worker, or from outside.
    #[inline]
    pub(super) fn dispatch(self, task: Ready) {
        match self.worker {
            Some(worker) => worker.dispatch(task),
            // In a child process, forked in the policy, another thread may have held the policy's lock.
            None if self.pool.is_forked() => {}
            None => self.pool.inject(task),
        }
    }

    /// Returns a free node of the pool.
    #[inline]
    pub(super) fn take_node(self) -> NodeRef {
        let slab = &self.pool.graphs.slab;
        match self.worker {
            Some(worker) => worker.graph.take_node(slab),
            None => slab.take_one(),
        }
    }
}
