//! A graph that a task runs on its own pool and waits for.
//!
//! The waiting worker runs tasks of that graph only. Any other task could take long, could wait for a lock that the waiting task holds, or
//! could wait for a nested graph in its turn, so that the first one could end only after it. A dispatcher cannot be asked for the tasks of
//! one graph. So a nested graph has a dispatcher of its own, of the same policy ([`Order`]), which the waiting worker asks. It orders
//! numbers; the tasks themselves lie in a table beside it. If the policy has none for the waiting worker although the table holds some
//! (because it keeps them for other workers, or has lost them), the worker takes the oldest.
//!
//! Other workers learn of the graph by *tickets*: a ticket goes through the pool's dispatcher with the hint of a ready task, and the worker
//! that gets it runs one task of the graph, which it asks for as the waiting worker does. It first sends another ticket if there are more
//! tasks. A ticket without a task ends at once; it serves the next nested graph that has the same core, too. So a core has at most one
//! ticket less than the pool has workers, however many graphs and tasks come by.

mod order;

pub(crate) use order::{Entries, Order, Own};

use super::context::Context;
use super::slab::NodeRef;
use crate::executable::{self, Description, Executable, Header, foreign_task};
use crate::pool::PoolShared;
use crate::process;
use crate::worker::{EndOnPanic, WorkerCore};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;
use tanada_policy::{Hints, Origin, Ready, WorkerId};

/// The ready tasks of a nested graph.
#[derive(Default)]
pub(super) struct Nested {
    on: AtomicBool,
    ready: Mutex<ReadyTasks>,
    /// The [`here`] of the thread that has locked `ready`; 0 if none has.
    holder: AtomicUsize,
}

thread_local! {
    static HERE: u8 = const { 0 };
}

/// Returns a number of this thread that no other live thread has, and that is not 0.
fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The locked table of a nested graph. The policy, which is called under the lock, must not come back to the graph.
struct Table<'a> {
    holder: &'a AtomicUsize,
    ready: MutexGuard<'a, ReadyTasks>,
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}

/// A call of a policy that takes longer is reported: it may wait for the thread that waits for it.
const LONG_CALL: Duration = Duration::from_secs(5);

/// Ends the process and never returns: the thread would wait for a lock that it holds.
#[cold]
fn entered_again() -> ! {
    process::report(format_args!(
        "a policy resolved a task of the nested graph that it was ordering; the process cannot go on"
    ));
    std::process::abort();
}

#[derive(Default)]
struct ReadyTasks {
    entries: Entries,
    /// The number of the next entry. No number comes twice.
    next: u64,
    /// The policy that orders the numbers of the entries.
    order: Option<Box<dyn Order>>,
    /// How many numbers the policy holds: those of the entries, unless the waiting worker took entries past it.
    held: usize,
    /// Tickets that are under way.
    tickets: u16,
}

impl ReadyTasks {
    /// Adds tasks that one task released on this worker, or on a thread that is no worker.
    fn add(
        &mut self,
        pool: &PoolShared,
        worker: Option<WorkerId>,
        tasks: impl IntoIterator<Item = Ready>,
    ) {
        let mut numbers = SmallVec::<[Ready; 6]>::new();
        for task in tasks {
            let hints = executable::hints(&task);
            self.next += 1;
            self.entries.insert(self.next, (task, hints));
            // SAFETY: a number of this graph's own engine, which is looked up in the table and comes once.
            numbers.push(unsafe { Ready::new(self.next, hints.digest()) });
        }
        self.held += numbers.len();
        let order = self.order.get_or_insert_with(|| pool.order());
        order.ready(pool, &self.entries, worker, &mut numbers);
    }

    /// Takes and returns the task that this worker runs next.
    fn take(&mut self, pool: &PoolShared, worker: WorkerId) -> Option<(Ready, Origin)> {
        let order = self.order.as_mut()?;
        while !self.entries.is_empty()
            && let Some((number, origin)) = order.next(pool, &self.entries, worker)
        {
            if number.address().is_some() {
                foreign_task();
            }
            self.held = self.held.saturating_sub(1);
            if let Some((task, _)) = self.entries.remove(&number.handle()) {
                return Some((task, origin));
            }
        }
        if order.keeps() {
            return None;
        }
        let (_, (task, _)) = self.entries.pop_first()?;
        Some((task, Origin::Pool))
    }

    /// Counts one more ticket and returns its hint, if there are tasks and not too many tickets.
    fn ticket(&mut self, pool: &PoolShared) -> Option<Hints> {
        let (_, (_, hints)) = self.entries.first_key_value()?;
        let wanted = self.tickets + 1 < pool.placement.workers();
        self.tickets += u16::from(wanted);
        wanted.then_some(*hints)
    }
}

impl Nested {
    /// A run begins, which is nested if `on`.
    pub(super) fn begin(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        if on {
            let mut table = self.lock();
            let held = std::mem::take(&mut table.ready.held);
            // Numbers of entries that are gone would pile up. The policy is dropped behind the lock: that runs code of the user's.
            let order = (held > 0).then(|| table.ready.order.take());
            drop(table);
            EndOnPanic::around(|| drop(order));
        }
    }

    fn lock(&self) -> Table<'_> {
        let here = here();
        if self.holder.load(Ordering::Relaxed) == here {
            entered_again();
        }
        let ready = self.ready.try_lock_for(LONG_CALL).unwrap_or_else(|| {
            process::report(format_args!(
                "a policy has not returned for some seconds from ordering the tasks of a nested graph; if it waits for another thread \
                 that resolves one of them, the graph never ends"
            ));
            self.ready.lock()
        });
        self.holder.store(here, Ordering::Relaxed);
        Table {
            holder: &self.holder,
            ready,
        }
    }

    /// Returns whether the graph that runs is nested.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

impl Context<'_> {
    /// Adds ready tasks of a nested graph to the graph's table, and wakes the waiting worker and another one.
    pub(super) fn offer(&self, tasks: impl IntoIterator<Item = Ready>) {
        // Once the tasks can be taken, the run may end at any moment. Its core stays.
        let waiter = self.graph.waiter();
        let ticket = {
            let ready = &mut self.graph.nested.lock().ready;
            ready.add(self.pool, self.worker.map(|worker| worker.id), tasks);
            ready.ticket(self.pool)
        };
        if self.pool.is_forked() {
            // This is a child process, forked in the policy. Another thread may have held a lock that `send` takes.
            return;
        }
        self.send(ticket);
        // If the run is over by now, this unparks a thread for nothing, which every loop around `park` allows for.
        if let Some(thread) = waiter {
            thread.unpark();
        }
    }

    /// Takes the next task of this nested graph for `worker`, which is to run it.
    pub(super) fn take_next(self, worker: &WorkerCore) -> Option<(Ready, Origin)> {
        self.graph.nested.lock().ready.take(self.pool, worker.id)
    }

    /// Runs a task of this nested graph on `worker`, and offers what it releases.
    pub(super) fn run(self, worker: &WorkerCore, (task, origin): (Ready, Origin)) {
        // A policy may have left tasks of other graphs there, although it must not.
        let before = worker.released.borrow().len();
        if let Some(schedule) = &self.pool.schedule {
            schedule.starts(worker.id, &task);
        }
        worker.execute(task, origin);
        let mut released = worker.released.borrow_mut();
        // What was there may have been handed over meanwhile.
        let before = before.min(released.len());
        let released: SmallVec<[Ready; 6]> = released.drain(before..).collect();
        // If there are none, the run may be over.
        if !released.is_empty() {
            self.offer(released);
        }
    }

    /// Hands a ticket with this hint to the policy.
    fn send(self, ticket: Option<Hints>) {
        let Some(hints) = ticket else {
            return;
        };
        self.pool.graphs.add_ticket();
        let node = self.take_node();
        let graph = AtomicPtr::new(std::ptr::from_ref(self.graph).cast_mut());
        let body = move |worker: &WorkerCore| {
            let context = Context {
                // SAFETY: the pool keeps its cores for as long as it keeps its nodes, and this ticket is in one of them.
                graph: unsafe { &*graph.into_inner() },
                pool: worker.pool(),
                worker: Some(worker),
                outside: None,
            };
            context.help(worker);
        };
        let description = Description {
            name: "ticket",
            index: 0,
            hints,
        };
        // SAFETY: the node is free and this thread's; the ticket belongs to no graph; its body borrows nothing. A `Ticket` is a node whose
        // body is called with a `WorkerCore`.
        let (_, ticket) = unsafe {
            let take = || self.borrow_node();
            node.fill::<Ticket, WorkerCore, _>(std::ptr::null(), &description, (0, 0), take, body)
        };
        self.dispatch(ticket.expect("a ticket waits for nothing"));
    }

    /// Does what a ticket says: runs a task of the graph, if there is one.
    fn help(self, worker: &WorkerCore) {
        self.graph.check_pool(self.pool);
        let (task, ticket) = {
            let ready = &mut self.graph.nested.lock().ready;
            ready.tickets -= 1;
            (ready.take(self.pool, worker.id), ready.ticket(self.pool))
        };
        self.send(ticket);
        if let Some(task) = task {
            self.run(worker, task);
        }
    }
}

/// The kind of tickets.
struct Ticket;

impl Executable for Ticket {
    const OBSERVED: bool = false;

    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is that of a ticket's node, and this is its only run.
        let body = unsafe { NodeRef::from_header(header).take_body() };
        // SAFETY: the body was erased with a `WorkerCore`, and borrows nothing.
        unsafe { body.expect("a ticket runs once").call(worker) };
    }

    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is that of a ticket's node.
        let node = unsafe { NodeRef::from_header(header) };
        let graphs = &worker.pool().graphs;
        graphs.drop_ticket();
        // SAFETY: the ticket has run, and ends here only.
        unsafe {
            node.end(
                |_| (),
                |lent| worker.graph.give_borrowed(&graphs.slab, lent),
            )
        };
        worker.graph.give_node(&graphs.slab, node);
    }
}
