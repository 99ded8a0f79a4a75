//! A graph that a task runs on its own pool and waits for.
//!
//! The waiting worker may run tasks of that graph only: were it to take any other, a long stranger would hold up the waiting task,
//! and a stranger that waits in its turn would bury it deeper. So ready tasks of a nested graph go into a list of the graph's own,
//! which the waiting worker serves; and for each a *ticket* with the same hint goes to the dispatcher, by which any idle worker may
//! claim the task first. Whoever comes second finds nothing and goes on.

use super::GraphCore;
use crate::pool::PoolShared;
use crate::graph::slab::{Cold, ErasedBody, Executable, Header, NodeRef};
use crate::worker::{self, WorkerCore};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use tanada_policy::{Origin, Ready};

/// The ready tasks of a nested graph.
#[derive(Default)]
pub(super) struct Nested {
    on: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The run that the entries belong to; tickets of an earlier one are void.
    run: u64,
    /// Number of the first entry.
    base: u64,
    /// Taken entries are `None` until they reach the front.
    entries: VecDeque<Option<Ready>>,
}

impl Nested {
    pub(super) fn begin(&self, run: u64, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        let mut list = self.list.lock();
        list.run = run;
        list.base = 0;
        list.entries.clear();
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Puts a ready task into the list and its ticket before the dispatcher.
    pub(super) fn offer(
        &self,
        graph: &GraphCore,
        pool: &PoolShared,
        worker: Option<&WorkerCore>,
        task: Ready,
    ) {
        // SAFETY: the task is ready and has not run, so its header lives.
        let hints = unsafe { Header::hints(Header::of(&task)) };
        pool.add_ticket();
        // The ticket is made before the task can be claimed: once it is, the run may end at any moment.
        let node = worker::take_node(pool, worker);
        let (run, number) = {
            let mut list = self.list.lock();
            list.entries.push_back(Some(task));
            (list.run, list.base + list.entries.len() as u64 - 1)
        };
        let home = GraphPtr(NonNull::from(graph));
        let body = ErasedBody::new(move |claim: &Claim| {
            let graph = home.get();
            graph.check_pool(claim.pool);
            claim.task.set(graph.nested.take(run, number));
        });
        let cold = Cold {
            name: "ticket",
            index: number,
            hints,
        };
        // SAFETY: `node` is free and ours; the core of a graph lives as long as its pool; the body borrows nothing else.
        let ticket = unsafe {
            node.fill(std::ptr::null_mut(), &Ticket::KIND, cold, 0, 0, body);
            node.get().state.drop_edges(1);
            Header::ready(node.header())
        };
        match worker {
            Some(worker) => worker.make_ready(ticket),
            None => pool.inject(ticket),
        }
    }

    /// The oldest ready task, for the waiting worker.
    pub(super) fn pop(&self) -> Option<Ready> {
        let mut list = self.list.lock();
        while let Some(entry) = list.entries.pop_front() {
            list.base += 1;
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    /// The task of a ticket, unless it is taken.
    fn take(&self, run: u64, number: u64) -> Option<Ready> {
        let mut list = self.list.lock();
        if list.run != run {
            return None;
        }
        let at = number.checked_sub(list.base)?;
        list.entries
            .get_mut(usize::try_from(at).expect("fewer tasks than addresses"))?
            .take()
    }
}

/// What a ticket claims.
struct Claim {
    /// The pool whose worker claims; only compared.
    pool: *const PoolShared,
    task: Cell<Option<Ready>>,
}

#[derive(Clone, Copy)]
struct GraphPtr(NonNull<GraphCore>);

// SAFETY: `GraphCore` is shared between threads by design, and lives as long as its pool.
unsafe impl Send for GraphPtr {}

impl GraphPtr {
    fn get(&self) -> &GraphCore {
        // SAFETY: as the type says.
        unsafe { self.0.as_ref() }
    }
}

/// The right to claim a task of a nested graph.
struct Ticket;

impl Executable for Ticket {
    const OBSERVED: bool = false;

    unsafe fn run(header: NonNull<Header>, worker: &WorkerCore) {
        let claim = Claim {
            pool: worker.pool(),
            task: Cell::new(None),
        };
        // SAFETY: the header is a ticket's node, this is its only run, and its body was erased with `Claim`.
        unsafe { NodeRef::from_header(header).take_body().call(&claim) };
        if let Some(task) = claim.task.take() {
            worker.execute(task, Origin::Pool);
        }
    }

    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is a ticket's node.
        let node = unsafe { NodeRef::from_header(header) };
        worker.pool().drop_ticket();
        drop(node.end());
        worker::free_node(worker, node);
    }
}
