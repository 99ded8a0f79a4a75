//! The running state of one graph: what still runs, how it failed, who waits for it.

use super::edges::Edges;
use super::nested::Nested;
use super::{order, scope};
use crate::error::{GraphError, TaskNames};
use crate::marks;
use crate::pool::PoolShared;
use crate::graph::slab::NodeRef;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;
use tanada_policy::{Origin, Ready};

/// How often a waiting thread looks whether the policy has lost tasks.
const LOST_CHECK: Duration = Duration::from_millis(100);

/// Stops a graph from outside: its tasks that have not started are dropped instead of run.
///
/// Clones stop the same graphs. Cancelling twice, or after the end, does nothing.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A handle that has not been used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the graphs that run with this handle, now and later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counter on cache lines of its own, so that workers do not share lines.
#[repr(align(128))]
#[derive(Default)]
struct OwnLine(AtomicI64);

enum Failure {
    Panic(Box<dyn Any + Send>),
    Error(GraphError),
}

/// The running state of one graph. Owned by its pool, used again and again.
pub(crate) struct GraphCore {
    /// The pool that owns it and whose workers alone may run its tasks; only compared.
    home: *const PoolShared,
    /// Which of all runs of the process this is; tokens carry it.
    run: AtomicU64,
    /// Whatever can still make a task ready or end one: the body of the scope, live resolvers, ready and running tasks. At zero the
    /// graph has ended.
    active: AtomicUsize,
    /// How many of `active` are resolvers.
    resolvers: AtomicUsize,
    /// Tasks registered minus tasks ended, counted by each worker apart; the last is for threads outside the pool.
    open: Box<[OwnLine]>,
    /// Set: bodies are dropped instead of run.
    stopped: AtomicBool,
    /// Keeps what `cancelled` points to.
    cancel: Mutex<Option<Cancel>>,
    /// The flag of the run's cancel handle, or null: read once a task, so without a lock.
    cancelled: AtomicPtr<AtomicBool>,
    failure: Mutex<Option<Failure>>,
    pub(super) nested: Nested,
    waiter: Mutex<Option<Thread>>,
    done: AtomicBool,
    /// See [`crate::marks`].
    pub(super) marked: bool,
}

// SAFETY: `home` is never followed; all else may be shared between threads.
unsafe impl Send for GraphCore {}
// SAFETY: as above.
unsafe impl Sync for GraphCore {}

static RUNS: AtomicU64 = AtomicU64::new(1);

impl GraphCore {
    pub(crate) fn new(home: *const PoolShared, workers: usize) -> Self {
        GraphCore {
            home,
            run: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            resolvers: AtomicUsize::new(0),
            open: (0..=workers).map(|_| OwnLine::default()).collect(),
            stopped: AtomicBool::new(false),
            cancel: Mutex::new(None),
            cancelled: AtomicPtr::default(),
            failure: Mutex::new(None),
            nested: Nested::default(),
            waiter: Mutex::new(None),
            done: AtomicBool::new(false),
            marked: marks::wanted(),
        }
    }

    /// Starts a run whose only activity is the caller's.
    pub(super) fn begin(&self, pool: &PoolShared, cancel: Option<&Cancel>, nested: bool) {
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        self.run.store(run, Ordering::Relaxed);
        self.active.store(1, Ordering::Relaxed);
        self.resolvers.store(0, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
        self.done.store(false, Ordering::Relaxed);
        for count in &self.open {
            count.0.store(0, Ordering::Relaxed);
        }
        let flag = cancel.map_or(std::ptr::null(), |cancel| Arc::as_ptr(&cancel.0));
        self.cancelled.store(flag.cast_mut(), Ordering::Relaxed);
        *self.cancel.lock() = cancel.cloned();
        *self.failure.lock() = None;
        *self.waiter.lock() = Some(std::thread::current());
        self.nested.begin(run, nested);
        if self.marked && !nested {
            marks::held::begin(run, pool);
        }
    }

    /// Sees to it that workers of `pool` may run tasks of this graph. A policy that keeps a task and hands it to another pool is
    /// stopped here: it is safe code, so it must not be able to do worse than end the process.
    #[inline]
    pub(super) fn check_pool(&self, pool: *const PoolShared) {
        if !std::ptr::eq(self.home, pool) {
            foreign_task();
        }
    }

    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// Whether bodies are to be dropped instead of run. Asked once a task, by the worker that is about to run it.
    #[inline]
    pub(super) fn must_skip(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let flag = self.cancelled.load(Ordering::Relaxed);
        // SAFETY: `self.cancel` keeps the flag until the next run begins, and only tasks of this run and its waiter ask.
        let cancelled = unsafe { flag.as_ref() }.is_some_and(|flag| flag.load(Ordering::Relaxed));
        if cancelled {
            self.fail(GraphError::Cancelled);
        }
        cancelled
    }

    /// The graph stops and ends with this error, unless it failed before.
    pub(super) fn fail(&self, error: GraphError) {
        self.failure.lock().get_or_insert(Failure::Error(error));
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// A task panicked: whoever waits for the graph gets the first panic.
    pub(super) fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock();
        if !matches!(*failure, Some(Failure::Panic(_))) {
            *failure = Some(Failure::Panic(payload));
            return;
        }
        drop(failure);
        // Nobody will see this one. Dropping it is the user's code, which may panic again: that one is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }

    /// Counts tasks in (1) and out (-1), by `worker` or from outside.
    #[inline]
    pub(super) fn count_open(&self, worker: Option<&WorkerCore>, change: i64) {
        match worker {
            // One writer: a plain load and store is enough.
            Some(worker) => {
                let count = &self.open[worker.id.index()].0;
                count.store(count.load(Ordering::Relaxed) + change, Ordering::Relaxed);
            }
            None => {
                self.open[self.open.len() - 1]
                    .0
                    .fetch_add(change, Ordering::Relaxed);
            }
        }
    }

    fn left(&self) -> i64 {
        self.open
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    }

    /// More activities, by somebody who is one.
    #[inline]
    pub(super) fn activate(&self, more: usize) {
        self.active.fetch_add(more, Ordering::Relaxed);
    }

    /// One activity less. The run may be over when this returns.
    #[inline]
    pub(super) fn deactivate(&self) {
        if self.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    /// A task ended and made `released` others ready, which nobody has seen yet.
    #[inline]
    pub(super) fn exchange(&self, released: usize) {
        match released {
            0 => self.deactivate(),
            1 => {}
            more => self.activate(more - 1),
        }
    }

    pub(super) fn add_resolver(&self) {
        self.resolvers.fetch_add(1, Ordering::Relaxed);
        self.activate(1);
    }

    pub(super) fn drop_resolver(&self) {
        self.resolvers.fetch_sub(1, Ordering::Relaxed);
        self.deactivate();
    }

    /// Tells whoever waits that the run is over. The core may be in use again as soon as `done` is set.
    fn end(&self) {
        let waiter = self.waiter.lock().clone();
        self.done.store(true, Ordering::Release);
        if let Some(thread) = waiter {
            thread.unpark();
        }
    }

    /// A task of this graph became ready: on `worker`, or outside.
    #[inline]
    pub(super) fn make_ready(&self, pool: &PoolShared, worker: Option<&WorkerCore>, task: Ready) {
        if self.nested.is_on() {
            let waiter = self.waiter.lock().clone();
            self.nested.offer(self, pool, worker, task);
            // The run may be over by now: then this unparks somebody for nothing, which every park loop bears.
            if let Some(thread) = waiter {
                thread.unpark();
            }
        } else {
            match worker {
                Some(worker) => worker.make_ready(task),
                None if self.marked => marks::held::inject(self.run(), pool, task),
                None => pool.inject(task),
            }
        }
    }

    /// Whether tasks that a worker releases may wait for its next turn, instead of going through [`GraphCore::make_ready`].
    #[inline]
    pub(super) fn releases_by_turn(&self) -> bool {
        !self.nested.is_on()
    }

    /// Waits for the end of the run.
    pub(super) fn wait(&self, pool: &PoolShared, worker: Option<&WorkerCore>) {
        let wait = || match worker {
            Some(worker) => self.wait_nested(worker),
            None => self.wait_outside(pool),
        };
        if self.marked {
            return marks::waiting(self.run(), wait);
        }
        wait();
    }

    /// Waits on a thread that is no worker of the pool, and finds out when the policy has lost tasks.
    fn wait_outside(&self, pool: &PoolShared) {
        let mut suspicion = Suspicion::default();
        while !self.done.load(Ordering::Acquire) {
            std::thread::park_timeout(LOST_CHECK);
            if pool.is_forked() {
                // The child of a fork in the body: the workers that could end the graph are in the parent.
                self.fail(GraphError::Forked);
                return;
            }
            let lost = self.resolvers.load(Ordering::Relaxed) == 0 && suspicion.grows(pool);
            if lost && !self.done.load(Ordering::Acquire) {
                // Only when no worker is left may the tasks' borrows end while the tasks have not.
                pool.retire();
                let lost = self.active.load(Ordering::Relaxed);
                let policy = pool.policy.clone();
                pool.poison(GraphError::PolicyLost { policy, lost });
            }
            if let Some(why) = pool.poisoned() {
                if !self.done.load(Ordering::Acquire) {
                    self.fail(why);
                }
                return;
            }
        }
    }

    /// Waits on a worker of the pool: it runs ready tasks of this graph only.
    fn wait_nested(&self, worker: &WorkerCore) {
        while !self.done.load(Ordering::Acquire) {
            match self.nested.pop() {
                Some(task) => worker.execute(task, Origin::Own),
                None => std::thread::park(),
            }
        }
    }

    /// Whether the run is over. Where [`GraphCore::wait`] returned before, the policy may still hold tasks of it.
    pub(super) fn has_ended(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// What the run came to, once it is over. Resumes a task's panic.
    pub(super) fn outcome(&self, pool: &PoolShared) -> Result<(), GraphError> {
        if self.left() != 0 {
            // What never became ready was perhaps only waiting for tasks that were dropped.
            self.must_skip();
        }
        let mut failure = self.failure.lock().take();
        if self.left() != 0 {
            let nodes = pool.slab.of_graph(self);
            if failure.is_none() {
                failure = Some(Failure::Error(explain(&nodes)));
            }
            scope::discard(pool, &nodes);
        }
        match failure {
            Some(Failure::Panic(payload)) => std::panic::resume_unwind(payload),
            Some(Failure::Error(error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// Looks, one after the other, at a pool whose graph does not end.
#[derive(Default)]
struct Suspicion {
    /// Looks in a row at which nobody worked.
    looks: u32,
    /// Searches in vain at the first of them.
    vain: u64,
}

impl Suspicion {
    /// One more look. Says yes when the policy must have lost tasks: at several looks in a row nobody worked, and meanwhile either all
    /// slept (a worker that was just woken may not have run yet, hence several), or every worker could search in vain many times (on a
    /// busy machine a worker may not run for long, hence many).
    fn grows(&mut self, pool: &PoolShared) -> bool {
        let Some(vain) = pool.sleep.vain_searches_if_idle() else {
            *self = Suspicion::default();
            return false;
        };
        if self.looks == 0 {
            self.vain = vain;
        }
        self.looks += 1;
        let many = 100 * u64::from(pool.placement.workers());
        self.looks >= 3
            && ((vain == self.vain && pool.sleep.all_asleep())
                || (self.looks >= 6 && vain - self.vain >= many))
    }
}

/// Ends the process: a task would end on a pool that does not own it, and nobody who waits for it could be told.
#[cold]
pub(super) fn foreign_task() -> ! {
    eprintln!(
        "tanada: a policy gave a worker a task of another pool, or one that it had lost before; the process cannot go on"
    );
    std::process::abort();
}

/// Why these tasks of a graph whose run is over never became ready.
fn explain(nodes: &[NodeRef]) -> GraphError {
    // SAFETY: the run is over, so nobody fills or ends its nodes.
    let name = |node: &NodeRef| unsafe { node.name() };
    match find_cycle(nodes) {
        Some(cycle) => GraphError::Cycle {
            tasks: TaskNames::collect(cycle.iter().map(name)),
        },
        None => GraphError::Unresolved {
            tasks: TaskNames::collect(nodes.iter().map(name)),
        },
    }
}

/// A cycle among waiting tasks, in order, if there is one.
fn find_cycle(nodes: &[NodeRef]) -> Option<Vec<NodeRef>> {
    let places: BTreeMap<usize, usize> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (node.address(), at))
        .collect();
    let mut pairs = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let waiting = node.get().successors();
        let waiting = waiting
            .iter()
            .filter_map(|next| places.get(&next.address()));
        pairs.extend(waiting.map(|&next| (at as u32, next as u32)));
    }
    let edges = Edges::new(nodes.len(), &pairs);
    order::cycle(&edges).map(|cycle| cycle.into_iter().map(|at| nodes[at]).collect())
}
