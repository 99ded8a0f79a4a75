//! The running state of one graph: what is active, how it failed, which threads wait for it.

mod explain;
mod stall;

use super::context::Context;
use super::nested::Nested;
use super::observer::Watch;
use super::scope;
use crate::error::GraphError;
use crate::executable::foreign_task;
use crate::governor::Blocked;
use crate::parking::{self, Thread};
use crate::pool::PoolShared;
use crate::thread::deadlock;
use crate::worker::held::{Countdown, Settle};
use crate::worker::sleep::Idle;
use crate::worker::{self, WorkerCore};
use parking_lot::Mutex;
pub(crate) use stall::CHECKS;
use stall::Stall;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tanada_policy::{Origin, Ready};

/// Searches of a worker, after which a task that it does not find is not there.
const MANY_SEARCHES: u64 = 100;

/// Time between two checks of a waiting thread whether the policy has lost tasks, while all workers are idle or wait.
pub(crate) const LOST_CHECK: Duration = Duration::from_millis(100);

/// The time for which a thread outside waits for the end of a graph before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// Its pauses between two looks.
const SPIN_PAUSES: u32 = 16;

/// Stops graphs from outside: their tasks that have not started are dropped instead of run.
///
/// Clones stop the same graphs. Cancelling twice, or after the end, does nothing.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Returns a handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the graphs that run with this handle, now and later, and the graphs that their tasks run on the same pool.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter on cache lines of its own, so that workers do not share lines.
#[repr(align(128))]
#[derive(Default)]
struct OwnLine(AtomicI64);

enum Failure {
    Panic(Box<dyn Any + Send>),
    Error(GraphError),
}

/// The running state of one graph. A pool owns its cores and reuses them.
pub(crate) struct GraphCore {
    this: Weak<GraphCore>,
    /// Number of the pool that owns this core, whose workers alone may run its tasks.
    home: u64,
    /// Number of the present run among all runs of this process. Tokens carry it.
    run_id: AtomicU64,
    /// Number of things that can still make a task ready or end one: the body of the scope, live resolvers, ready and running tasks. At
    /// zero the run is over.
    active: Countdown,
    /// How many of `active` are resolvers.
    resolvers: AtomicUsize,
    /// Tasks registered minus tasks ended: one counter for each worker, and the last one for threads outside of the pool.
    open: Box<[OwnLine]>,
    /// Whether bodies are dropped instead of run.
    stopped: AtomicBool,
    /// Keeps the flag alive that `cancelled` points to.
    cancel: Mutex<Option<Cancel>>,
    /// The flag of the run's cancel handle, or null. Each task reads it, so it is not behind a lock.
    cancelled: AtomicPtr<AtomicBool>,
    /// The graph of the task that runs this graph, or null.
    outer: AtomicPtr<GraphCore>,
    /// Whether the thread that waits for this graph has reported that it does not go on, and still looks.
    reported: AtomicBool,
    failure: Mutex<Option<Failure>>,
    pub(super) nested: Nested,
    waiter: Mutex<Option<Thread>>,
    /// Of the thread that waits for the end of the run. Kept, so that waiting allocates nothing.
    suspicion: Mutex<Suspicion>,
    done: AtomicBool,
    pub(super) watch: Watch,
}

static RUN_IDS: AtomicU64 = AtomicU64::new(1);

impl GraphCore {
    /// Returns a core for runs on `pool`.
    pub(super) fn new(pool: &PoolShared, watch: Watch) -> Arc<Self> {
        let workers = usize::from(pool.placement.workers());
        Arc::new_cyclic(|this| GraphCore {
            this: Weak::clone(this),
            home: pool.number,
            run_id: AtomicU64::new(0),
            active: Countdown::default(),
            resolvers: AtomicUsize::new(0),
            open: (0..=workers).map(|_| OwnLine::default()).collect(),
            stopped: AtomicBool::new(false),
            cancel: Mutex::new(None),
            cancelled: AtomicPtr::default(),
            outer: AtomicPtr::default(),
            reported: AtomicBool::new(false),
            failure: Mutex::new(None),
            nested: Nested::default(),
            waiter: Mutex::new(None),
            suspicion: Mutex::new(Suspicion {
                checks: 0,
                first: Vec::with_capacity(workers),
            }),
            done: AtomicBool::new(false),
            watch,
        })
    }

    /// Starts a run that this thread will wait for, with one activity: the caller's.
    pub(super) fn begin(
        &self,
        pool: &PoolShared,
        cancel: Option<&Cancel>,
        worker: Option<&WorkerCore>,
    ) {
        let run_id = RUN_IDS.fetch_add(1, Ordering::Relaxed);
        self.run_id.store(run_id, Ordering::Relaxed);
        self.active.start(1);
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
        *self.waiter.lock() = Some(parking::current());
        self.nested.begin(worker.is_some());
        let outer = worker.map_or(std::ptr::null(), |worker| worker.graph.running());
        self.outer.store(outer.cast_mut(), Ordering::Relaxed);
        self.reported.store(false, Ordering::Relaxed);
        if worker.is_none() {
            self.watch.observer().begins(run_id, pool);
        }
    }

    /// Ends the process unless `pool` owns this graph: a policy has kept a task and handed it to another pool. Policies are safe code, so
    /// nothing worse may come of it.
    #[inline]
    pub(super) fn check_pool(&self, pool: &PoolShared) {
        if self.home != pool.number {
            foreign_task();
        }
    }

    /// Returns the number of the present run.
    #[inline]
    pub(super) fn run_id(&self) -> u64 {
        self.run_id.load(Ordering::Relaxed)
    }

    /// Returns another reference to this core.
    pub(super) fn shared(&self) -> Arc<GraphCore> {
        self.this.upgrade().expect("the pool keeps its cores")
    }

    /// The thread that waits for the end of the run does something else for a while: it looks for no stall.
    pub(super) fn look_away(&self) {
        self.reported.store(false, Ordering::Relaxed);
    }

    /// Returns the thread that waits for the end of the run.
    pub(super) fn waiter(&self) -> Option<Thread> {
        self.waiter.lock().clone()
    }

    /// Returns whether bodies are to be dropped instead of run, because this graph or one around it was stopped. Called once for each task,
    /// by the worker that is about to run it.
    #[inline]
    pub(super) fn must_skip(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.must_stop()
    }

    /// Stops the graph if its cancel handle says so, or if a graph around it was stopped. Returns whether it did.
    #[inline]
    fn must_stop(&self) -> bool {
        // SAFETY: null or the graph of a task that waits for this run. Only this run's tasks and its waiting thread call this.
        let outer = unsafe { self.outer.load(Ordering::Relaxed).as_ref() };
        let stop = self.is_cancelled() || outer.is_some_and(GraphCore::is_stopped);
        if stop {
            self.fail(GraphError::Cancelled);
        }
        stop
    }

    /// Returns whether this graph or one around it was stopped.
    fn is_stopped(&self) -> bool {
        let mut graph = self;
        loop {
            if graph.stopped.load(Ordering::Relaxed) || graph.is_cancelled() {
                return true;
            }
            // SAFETY: as in `must_stop`.
            match unsafe { graph.outer.load(Ordering::Relaxed).as_ref() } {
                Some(outer) => graph = outer,
                None => return false,
            }
        }
    }

    /// Returns whether the run's cancel handle was cancelled.
    #[inline]
    fn is_cancelled(&self) -> bool {
        let flag = self.cancelled.load(Ordering::Relaxed);
        // SAFETY: `self.cancel` keeps the flag until the next run begins, and only tasks and the waiting thread of this run and of runs
        // inside of it call this.
        unsafe { flag.as_ref() }.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Stops the graph. Its run ends with `error`, unless it has failed before.
    pub(super) fn fail(&self, error: GraphError) {
        self.failure.lock().get_or_insert(Failure::Error(error));
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Stops the graph because a task panicked. The first panic of a run is resumed on the thread that waits for it.
    pub(super) fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock();
        if !matches!(*failure, Some(Failure::Panic(_))) {
            *failure = Some(Failure::Panic(payload));
            return;
        }
        drop(failure);
        // A later panic is dropped. That runs code of the user's, which may panic again; the payload of that panic is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }

    /// Counts a task as registered (`change` is 1) or as ended (-1), by `worker` or from outside of the pool.
    #[inline]
    pub(super) fn count_open(&self, worker: Option<&WorkerCore>, change: i64) {
        match worker {
            // A worker's counter has one writer, so a load and a store are enough.
            Some(worker) => {
                let count = &self.open[worker.id.index()].0;
                count.store(count.load(Ordering::Relaxed) + change, Ordering::Relaxed);
            }
            // Outside of the pool, only the thread that runs the scope's body registers tasks, and none end.
            None => {
                let count = &self.open[self.open.len() - 1].0;
                count.store(count.load(Ordering::Relaxed) + change, Ordering::Relaxed);
            }
        }
    }

    /// Returns how many registered tasks have not ended. Exact once the run is over.
    fn left(&self) -> i64 {
        self.open
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    }

    /// Adds activities. The caller is part of one itself. Returns how many there were.
    #[inline]
    pub(super) fn activate(&self, more: usize) -> usize {
        self.active.add(more)
    }

    /// Adds activities, on `worker`. Returns how many there were, if they had to be counted: once in a while.
    #[inline]
    pub(super) fn activate_on(&self, worker: &WorkerCore, more: usize) -> Option<usize> {
        let of = std::ptr::from_ref(self).cast();
        let held = &worker.graph.held;
        // SAFETY: `active` is this graph's, and the pool keeps its cores.
        unsafe { held.add(of, &self.active, more, Self::SETTLE, worker) }
    }

    /// Ends activities that a worker has held.
    const SETTLE: Settle<WorkerCore> = |of, units, _| {
        // SAFETY: a core, which the pool keeps; it has not ended before these activities have (contract of `Settle`).
        unsafe { &*of.cast::<GraphCore>() }.deactivate(units);
    };

    /// Ends activities. The run may be over when this returns.
    #[inline]
    pub(super) fn deactivate(&self, number: usize) {
        if self.active.end(number) {
            self.end();
        }
    }

    /// Returns the number of activities, those among them that are counted in advance or have not been given back.
    pub(super) fn activities(&self) -> usize {
        self.active.left()
    }

    /// Ends the activity of a task on `worker` that has made `released` others ready, and begins theirs. No other thread has seen these
    /// yet.
    #[inline]
    pub(super) fn exchange(&self, worker: &WorkerCore, released: usize) {
        match released {
            // SAFETY: the pool keeps its cores; the activity is that of the task, and ends once.
            0 => unsafe {
                let of = std::ptr::from_ref(self).cast();
                worker.graph.held.hold(of, 1, Self::SETTLE, worker);
            },
            1 => {}
            more => {
                self.activate_on(worker, more - 1);
            }
        }
    }

    pub(super) fn add_resolver(&self) {
        self.resolvers.fetch_add(1, Ordering::Relaxed);
        self.activate(1);
    }

    pub(super) fn drop_resolver(&self) {
        self.resolvers.fetch_sub(1, Ordering::Relaxed);
        self.deactivate(1);
    }

    /// Wakes the waiting thread: the run is over. Once `done` is set, the core may be in use for another run.
    fn end(&self) {
        let waiter = self.waiter();
        self.done.store(true, Ordering::Release);
        if let Some(thread) = waiter {
            thread.unpark();
        }
    }

    /// Whether the run is over. If [`Context::wait`] returned before that, the policy may still hold tasks of the run.
    pub(super) fn has_ended(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Returns the result of a run that is over, and drops its tasks that never became ready.
    ///
    /// # Panics
    /// With the payload of the first task that panicked.
    pub(super) fn outcome(&self, pool: &PoolShared) -> Result<(), GraphError> {
        if self.left() != 0 {
            // If the run was cancelled, these tasks may have waited for dropped ones only: this call then stores that error.
            self.must_skip();
        }
        let mut failure = self.failure.lock().take();
        if self.left() != 0 {
            let nodes = pool
                .graphs
                .slab
                .of_graphs(|graph| std::ptr::eq(graph, self));
            if failure.is_none() {
                failure = Some(Failure::Error(explain::why_left(&nodes)));
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

impl Context<'_> {
    /// Waits for the end of the run.
    pub(super) fn wait(self) {
        let watch = self.graph.watch.observer();
        watch.waits(self.graph.run_id(), &mut || self.wait_unwatched());
    }

    fn wait_unwatched(self) {
        match self.worker {
            Some(worker) => self.wait_on_worker(worker),
            None => worker::with_any(|other| {
                other.inspect(|worker| worker.check_may_wait());
                self.graph.wait_outside(self.pool, other);
            }),
        }
    }

    /// Waits on a worker of the pool, which runs ready tasks of this graph only, and parts of calls and lightweight threads: a task of this
    /// graph may wait for these.
    fn wait_on_worker(self, worker: &WorkerCore) {
        worker.check_may_wait();
        let _pin = worker.pin();
        let outer = self.graph.outer.load(Ordering::Relaxed);
        let mut stall = Stall::new(None);
        while !self.graph.has_ended() {
            if self.pool.is_disturbed() {
                worker.disturbed();
            }
            let next = self.take_next(worker);
            if next.is_none() {
                // Parts of a broadcast of forks do not disturb a worker that has tasks.
                if worker.is_called() {
                    worker.disturbed();
                    // As many parts may come as threads wait for.
                    worker.help_threads(|| (), || self.graph.has_ended());
                    continue;
                }
                worker.settle();
                if worker
                    .help_threads(|| (), || self.graph.has_ended())
                    .is_some()
                    || worker.gives_way(|| self.graph.has_ended())
                {
                    continue;
                }
            }
            let next = next.or_else(|| self.wait_for_next(worker, &mut stall));
            worker.found_something();
            if let Some(task) = next {
                self.graph.look_away();
                self.run(worker, task);
            }
        }
        worker.found_something();
        if let Some(schedule) = &self.pool.schedule {
            schedule.resumes();
        }
        worker.graph.run(outer);
    }

    /// Waits for and returns a task of this graph; `None` at the end of the run, or if the worker is called or may run a thread. It counts
    /// as waiting without a break: another thread that looked during a break would not see that all has stalled.
    fn wait_for_next(self, worker: &WorkerCore, stall: &mut Stall<'_>) -> Option<(Ready, Origin)> {
        self.pool.wait_in_a_task(|| {
            // Parts may have taken the token of `unpark` that came with the end.
            while !self.graph.has_ended() && !worker.is_called() && !worker.may_have_threads() {
                if !stall.rests(self.pool) {
                    parking::park_timeout(LOST_CHECK);
                    self.graph.look_for_stall(self.pool, stall);
                }
                let next = self.take_next(worker);
                if next.is_some() {
                    return next;
                }
                worker.looked_in_vain();
            }
            None
        })
    }
}

impl GraphCore {
    /// Spins until the run is over, for about as long as it takes to wake up a thread twice, before the thread sleeps: it wakes the workers
    /// and is woken by the last of them. It leaves its hardware thread to a worker that needs it.
    fn spin(&self, pool: &PoolShared) {
        if self.watch.0.is_some() {
            // The program is being recorded or replayed, and what it does must not depend on time.
            return;
        }
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < SPIN {
            match pool.has_spare() {
                true => (0..SPIN_PAUSES).for_each(|_| std::hint::spin_loop()),
                false => std::thread::yield_now(),
            }
        }
    }

    /// Waits on a thread that is no worker of the pool, and is `other` if it is one of another. Detects that the policy has lost tasks.
    fn wait_outside(&self, pool: &PoolShared, other: Option<&WorkerCore>) {
        let mut stall = Stall::new(other.map(WorkerCore::pool));
        self.spin(pool);
        if self.has_ended() {
            return;
        }
        let _waits = deadlock::waits_for_a_graph(other);
        let mut suspicion = self.suspicion.lock();
        suspicion.checks = 0;
        let mut blocked = Blocked::default();
        while !self.has_ended() {
            if stall.rests(pool) {
                suspicion.checks = 0;
                continue;
            }
            parking::park_timeout(LOST_CHECK);
            self.look_for_stall(pool, &mut stall);
            pool.look_for_blocked(&mut blocked);
            let lost = self.resolvers.load(Ordering::Relaxed) == 0 && suspicion.grows(pool);
            if lost && !self.has_ended() {
                let why = || GraphError::PolicyLost {
                    policy: pool.policy.clone(),
                    lost: self.active.left(),
                };
                // The tasks' borrows may end here although the tasks have not, so no worker may be left.
                pool.retire_lost(why());
                pool.poison(why());
            }
            if let Some(why) = pool.poisoned() {
                if !self.has_ended() {
                    self.fail(why);
                }
                return;
            }
        }
    }
}

/// What a waiting thread has seen of a pool whose graph does not end.
struct Suspicion {
    /// Checks in a row between which no worker found a task.
    checks: u32,
    /// The workers at the first of them.
    first: Vec<Idle>,
}

impl Suspicion {
    /// Checks once more. Returns whether the policy must have lost tasks, which takes several checks in a row between which no worker ran
    /// or found a task, and one of:
    /// - all workers have slept since (several checks, because a worker that was just woken may not have run yet);
    /// - each worker sleeps or has searched in vain many times since. On a busy machine a worker may not run for long, whether it has found
    ///   a task or not, so it is not enough that others search.
    fn grows(&mut self, pool: &PoolShared) -> bool {
        if self.checks == 0 || !self.holds(pool, |_, _| true) {
            self.first.clear();
            self.first.extend(pool.sleep.idle().flatten());
            self.checks = u32::from(self.first.len() == usize::from(pool.placement.workers()));
            return false;
        }
        self.checks += 1;
        let slept = || self.holds(pool, |now, first| now.asleep && now.vain == first.vain);
        let searched = || {
            self.holds(pool, |now, first| {
                now.asleep || now.vain - first.vain >= MANY_SEARCHES
            })
        };
        (self.checks >= 3 && slept()) || (self.checks >= 6 && searched())
    }

    /// Returns whether no worker has found a task since the first check, and `of` holds of each, as it is now and as it was then.
    fn holds(&self, pool: &PoolShared, of: impl Fn(Idle, Idle) -> bool) -> bool {
        let pairs = pool.sleep.idle().zip(&self.first);
        let mut pairs = pairs.map(|(now, first)| (now, *first));
        pairs.all(|(now, first)| now.is_some_and(|now| now.turns == first.turns && of(now, first)))
    }
}
