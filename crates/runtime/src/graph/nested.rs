//! A graph that a task runs on its own pool and waits for.
//!
//! The waiting worker runs tasks of that graph only. Any other task could take long and hold up the waiting task; and if it waited for a
//! nested graph in its turn, the first one could end only after it. So the ready tasks of a nested graph go into a list of the graph,
//! which the waiting worker serves. For each of them a *ticket* with the same hint goes to the policy, and the worker that gets the
//! ticket claims the task, unless the waiting worker has taken it already. A ticket without a task ends at once.

use super::context::Context;
use super::slab::NodeRef;
use crate::executable::{self, Description, ErasedBody, Executable, Header};
use crate::pool::PoolShared;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use tanada_policy::{Origin, Ready};

/// The ready tasks of a nested graph.
#[derive(Default)]
pub(super) struct Nested {
    on: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The run that the entries belong to. Tickets of an earlier run claim nothing.
    run_id: u64,
    /// Number of the first entry.
    base: u64,
    /// Taken entries are `None` until they reach the front.
    entries: VecDeque<Option<Ready>>,
}

impl Nested {
    /// A run begins, which is nested if `on`.
    pub(super) fn begin(&self, run_id: u64, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        let mut list = self.list.lock();
        list.run_id = run_id;
        list.base = 0;
        list.entries.clear();
    }

    /// Whether the graph that runs is nested.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Appends a task. Returns the run and the task's number, by which a ticket claims it.
    fn push(&self, task: Ready) -> (u64, u64) {
        let mut list = self.list.lock();
        list.entries.push_back(Some(task));
        (list.run_id, list.base + list.entries.len() as u64 - 1)
    }

    /// Takes the oldest ready task: for the waiting worker.
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

    /// Takes the task `number` of the run `run_id`, unless it was taken before: for a ticket.
    fn claim(&self, run_id: u64, number: u64) -> Option<Ready> {
        let mut list = self.list.lock();
        if list.run_id != run_id {
            return None;
        }
        let at = number.checked_sub(list.base)?;
        list.entries
            .get_mut(usize::try_from(at).expect("fewer tasks than addresses"))?
            .take()
    }
}

impl Context<'_> {
    /// Puts a ready task of a nested graph into the graph's list, and hands its ticket to the policy.
    pub(super) fn offer(self, task: Ready) {
        let hints = executable::hints(&task);
        self.pool.graphs.add_ticket();
        // The node is taken before the task can be claimed: from then on the run may end at any moment.
        let node = self.take_node();
        let (run_id, number) = self.graph.nested.push(task);
        let graph = AtomicPtr::new(std::ptr::from_ref(self.graph).cast_mut());
        let body = ErasedBody::new(move |claim: &Claim| {
            // SAFETY: the pool keeps its cores for as long as it keeps its nodes, and this ticket is in one of them.
            let graph = unsafe { &*graph.into_inner() };
            graph.check_pool(claim.pool);
            claim.task.set(graph.nested.claim(run_id, number));
        });
        let description = Description {
            name: "ticket",
            index: number,
            hints,
        };
        // SAFETY: the node is free and this thread's; the ticket belongs to no graph; its body borrows nothing. A `Ticket` is a node whose
        // body is called with a `Claim`.
        unsafe { node.fill(std::ptr::null(), &Ticket::KIND, description, 0, 0, body) };
        let ticket = node.drop_edges(1);
        self.dispatch(ticket.expect("a ticket waits for nothing but the guard"));
    }
}

/// What a ticket's body is called with.
struct Claim {
    /// The pool whose worker claims; only compared.
    pool: *const PoolShared,
    /// The claimed task.
    task: Cell<Option<Ready>>,
}

/// The kind of tickets.
struct Ticket;

impl Executable for Ticket {
    const OBSERVED: bool = false;

    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore) {
        let claim = Claim {
            pool: worker.pool(),
            task: Cell::new(None),
        };
        // SAFETY: the header is that of a ticket's node, and this is its only run.
        let body = unsafe { NodeRef::from_header(header).take_body() };
        // SAFETY: the body was erased with a `Claim`, and borrows nothing.
        unsafe { body.expect("a ticket runs once").call(&claim) };
        if let Some(task) = claim.task.take() {
            worker.execute(task, Origin::Pool);
        }
    }

    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is that of a ticket's node.
        let node = unsafe { NodeRef::from_header(header) };
        let graphs = &worker.pool().graphs;
        graphs.drop_ticket();
        drop(node.end());
        worker.graph.give_node(&graphs.slab, node);
    }
}
