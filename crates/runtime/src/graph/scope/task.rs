//! How a dynamic task runs, releases its successors and ends.

use super::Scope;
use crate::executable::{Executable, Header, foreign_task};
use crate::graph::GraphCore;
use crate::graph::context::Context;
use crate::graph::slab::NodeRef;
use crate::pool::PoolShared;
use crate::process;
use crate::worker::WorkerCore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// The kind of the tasks of dynamic graphs.
pub(super) struct Task;

impl Executable for Task {
    const OBSERVED: bool = true;

    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is that of a dynamic task's node.
        let node = unsafe { NodeRef::from_header(header) };
        // SAFETY: a core lives as long as the memory of the nodes that point to it. A task that a policy kept, and that was discarded
        // meanwhile, has none.
        let Some(graph) = (unsafe { node.graph().as_ref() }) else {
            foreign_task()
        };
        let pool = worker.pool();
        graph.check_pool(pool);
        worker.settle_unless(std::ptr::from_ref(graph).cast());
        worker.graph.run(graph);
        // SAFETY: this is the task's only run, and it has not ended.
        let body = unsafe {
            if pool.graphs.slab.is_large() {
                node.prefetch_first();
            }
            node.take_body().expect("a task runs once")
        };
        let context = Context {
            graph,
            pool,
            worker: Some(worker),
            outside: None,
        };
        // SAFETY: the core, the pool and the worker outlive this call.
        let scope = unsafe { Scope::new(context) };
        // SAFETY: the body was erased with a `Scope`. The run is not over, so what the body borrows is alive.
        let work = || unsafe {
            if graph.must_skip() {
                body.discard()
            } else {
                body.call(&scope)
            }
        };
        let result = catch_unwind(AssertUnwindSafe(work));
        worker.end_if_forked();
        worker.graph.run(std::ptr::null());
        if let Err(payload) = result {
            graph.panicked(payload);
            // A payload that is dropped runs code of the user's.
            worker.end_if_forked();
        }
    }

    unsafe fn graph(header: NonNull<Header>) -> *const GraphCore {
        // SAFETY: the header is that of a dynamic task's node.
        unsafe { NodeRef::from_header(header) }.graph()
    }

    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: as in `run_body`. The task has not ended, so it has a graph.
        let (node, graph) = unsafe {
            let node = NodeRef::from_header(header);
            (node, &*node.graph())
        };
        let slab = &worker.pool().graphs.slab;
        let more = {
            let mut released = worker.released.borrow_mut();
            let before = released.len();
            let release = |next: NodeRef| released.extend(next.drop_edges(1));
            // SAFETY: the task has run, and ends here only.
            unsafe { node.end(release, |lent| worker.graph.give_borrowed(slab, lent)) };
            released.len() - before
        };
        worker.graph.give_node(slab, node);
        graph.count_open(Some(worker), -1);
        graph.exchange(worker, more);
    }
}

/// Drops the tasks in `nodes` without running them: the tasks that are left of a run that is over.
pub(in crate::graph) fn discard(pool: &PoolShared, nodes: &[NodeRef]) {
    let mut free = Vec::with_capacity(nodes.len());
    for node in nodes {
        // SAFETY: no worker will run the task: it never became ready, or the pool has no workers any more (in this process).
        if let Some(body) = unsafe { node.take_body() } {
            // A panic of one drop must not keep the others from being dropped.
            // SAFETY: `Pool::scope` has not returned, so `'scope` is alive.
            let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { body.discard() }));
            if let Err(payload) = dropped {
                // Dropping it might panic, too, and must not keep the others from being dropped, either.
                std::mem::forget(payload);
                process::report(format_args!(
                    "a task that was never run panicked while it was dropped"
                ));
            }
        }
        if pool.is_forked() {
            // This is a child process, forked in that drop. The other tasks are the parent's; here they are leaked.
            return;
        }
        // SAFETY: the task's body was taken, and it ends here only: no worker ends it.
        unsafe { node.end(|_| (), |lent| free.push(lent)) };
        if !node.is_used_up() {
            free.push(*node);
        }
    }
    // A policy that has lost tasks may find them again, and read their hints while another thread fills their nodes. So these nodes serve
    // no other task.
    if pool.poisoned().is_none() {
        pool.graphs.slab.give_back(&mut free, 0);
    }
}
