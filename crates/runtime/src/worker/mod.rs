//! Workers: the loop that takes tasks from the policy and runs them, and what the layers above may ask of the worker that they run on.
//!
//! Only [`Worker`] is compiled for each pair of policy and observer. All other code sees its [`WorkerCore`].

pub mod calls;
mod engine;
mod env;
mod gaps;
pub mod held;
pub mod sleep;
mod stack;

pub(crate) use engine::{EndOnPanic, Worker};
pub(crate) use env::{NativeEnv, Wakes};
#[cfg(sanitized = "address")]
pub(crate) use stack::bounds_of_this_thread;
pub(crate) use stack::{Stack, pointer as stack_pointer};

use crate::error::GraphError;
use crate::executable::{Ran, Runnable};
use crate::fork::{ForkLocal, Jobs};
use crate::graph::{GraphCore, GraphLocal};
use crate::pool::PoolShared;
use crate::process;
use crate::thread::ThreadLocal;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(not(any(loom, shuttle)))]
use std::sync::atomic::{AtomicUsize, Ordering};
use tanada_policy::{Origin, Ready, WorkerId};

/// The part of a worker that is the same for every policy and observer.
///
/// Only the worker's own thread uses it, also from within tasks: hence the `RefCell`s. It is on cache lines of its own, so that no other
/// worker's writes slow it down.
#[repr(align(128))]
pub(crate) struct WorkerCore {
    pub(crate) id: WorkerId,
    /// The number of the pool's workers, for which iterators ask once each: behind the pool it would be three loads away.
    pub(crate) workers: u16,
    /// Whether the pool has no other worker, so that dependency counts need no atomic subtraction.
    pub(crate) alone: bool,
    /// Whether a task that ends may run the one task that it makes ready at once, without a word to the policy or to anybody else: its turn
    /// would do just that ([`Dispatcher::HANDS_ON`](tanada_policy::Dispatcher::HANDS_ON)).
    pub(crate) chains: bool,
    pool: Arc<PoolShared>,
    pub(crate) stack: Stack,
    /// Tasks that became ready because a task ended on this worker. The worker's next turn hands them to the policy.
    pub(crate) released: RefCell<Vec<Ready>>,
    /// What the graph layer keeps in each worker.
    pub(crate) graph: GraphLocal,
    /// What the fork layer keeps in each worker.
    pub(crate) forks: ForkLocal,
    /// What the layer of lightweight threads keeps in each worker.
    pub(crate) threads: ThreadLocal,
    /// Whether it has no loop: it is adopted, or runs the exit handler. It runs something only while it waits, on top of that.
    pub(crate) loopless: Cell<bool>,
    /// The [`Worker`] around this core, while its thread runs tasks.
    engine: Cell<Option<NonNull<dyn Engine>>>,
}

/// What a [`WorkerCore`] needs of its [`Worker`], whose policy and observer have types that the core does not know.
trait Engine {
    /// Hands a task that became ready on this worker to the policy.
    fn hand_to_policy(&self, task: Ready);

    /// Hands the released tasks to the policy.
    fn hand_over(&self);

    /// Returns whether the policy might have a task for this worker, or its governor something to decide.
    fn may_have_tasks(&self) -> bool;

    /// Runs a task of `graph` that the policy has, and hands what it releases to the policy. Returns whether there may be more of them.
    fn run_one_of(&self, graph: *const GraphCore) -> bool;

    /// Runs a task, reports its start and end to the observer, and releases what waits for it.
    fn execute_observed(&self, task: Ready, origin: Origin);

    /// Tells the observer that a task starts which the one before it handed on.
    fn tell_start(&self, task: &Runnable);

    /// Tells the observer that the body of a task has run.
    fn tell_end(&self, task: &Ran);
}

impl WorkerCore {
    #[inline]
    fn new(id: WorkerId, pool: Arc<PoolShared>, stack: Stack, chains: bool) -> Self {
        WorkerCore {
            id,
            workers: pool.placement.workers(),
            chains,
            alone: pool.placement.workers() == 1,
            forks: pool.forks.local(id, pool.schedule.is_none()),
            threads: pool
                .threads
                .local(id.index(), pool.seed, pool.forks.demand.limit(id.index())),
            pool,
            stack,
            released: RefCell::default(),
            graph: GraphLocal::default(),
            loopless: Cell::new(false),
            engine: Cell::new(None),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &PoolShared {
        &self.pool
    }

    /// Ends the process if it is a child that was forked in what this worker called last: a body, the policy or the observer.
    #[inline]
    pub(crate) fn end_if_forked(&self) {
        if self.pool.is_forked() {
            process::end_child();
        }
    }

    fn engine(&self) -> &dyn Engine {
        let engine = self.engine.get().expect("set while tasks run");
        // SAFETY: `Worker::work` sets the pointer to the `Worker` that holds this core. Only the worker's own thread gets here, from calls
        // inside `Worker::work`, which borrows the `Worker`.
        unsafe { engine.as_ref() }
    }

    /// Returns whether parts of calls or of broadcasts wait for this worker.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        let me = self.id.index();
        self.pool.calls.waiting(me) != 0 || self.pool.forks.has_mail(me)
    }

    /// As [`WorkerCore::answer_by`], on top of what this worker runs, unless that holds a lock. Returns whether one of the parts asked
    /// workers to sleep soon afterwards.
    pub(crate) fn answer(&self) -> bool {
        self.answer_by(self.place_of_jobs())
    }

    /// Runs the parts of calls that wait for this worker now, not those that come meanwhile, where it runs `jobs`. Returns whether one that
    /// it has run on top asked workers to sleep soon afterwards.
    pub(crate) fn answer_by(&self, jobs: Jobs) -> bool {
        let (calls, me) = (&self.pool.calls, self.id.index());
        let mut rest = false;
        if self.graph.held.is_some() && self.is_called() {
            self.settle();
        }
        for _ in 0..calls.waiting(me) {
            // A part may wait itself, and answer there.
            let Some(part) = calls.take(me) else { break };
            match jobs {
                Jobs::OnTop => rest |= part.run(self),
                Jobs::Apart => self.run_posted(jobs, |worker| _ = part.run(worker)),
            }
        }
        self.run_mail(jobs);
        rest
    }

    /// What a worker does that waits inside of a task, before it takes the next one: it runs the parts of calls that wait for it, and waits
    /// for its turn.
    #[cold]
    pub(crate) fn disturbed(&self) {
        self.answer();
        if let Some(schedule) = &self.pool.schedule {
            schedule.searches();
        }
    }

    /// Gives back what this worker holds of a countdown, and hands the tasks that become ready thereby to the policy.
    #[cold]
    pub(crate) fn settle(&self) {
        self.graph.held.settle(self);
        if !self.released.borrow().is_empty() {
            self.engine().hand_over();
        }
    }

    /// As [`WorkerCore::settle`], unless it is the countdown `of`.
    #[inline]
    pub(crate) fn settle_unless(&self, of: *const ()) {
        if self.graph.held.is_of_another(of) {
            self.settle();
        }
    }

    /// Returns whether the policy might have a task for this worker, or its governor something to decide.
    pub(crate) fn may_have_tasks(&self) -> bool {
        self.engine().may_have_tasks()
    }

    /// Runs a task that was registered in `graph` and that the policy has for this worker, inside of one that runs. Returns whether there
    /// may be more of them.
    pub(crate) fn run_one_of(&self, graph: &GraphCore) -> bool {
        self.engine().run_one_of(graph)
    }

    /// Returns whether too little is left of the stack on which this worker runs to wait for something on top of it.
    pub(crate) fn is_stack_low(&self) -> bool {
        match self.current_thread() {
            None => self.stack.is_low(),
            Some(thread) => thread.is_stack_low(),
        }
    }

    /// Returns an error if too little is left of this worker's stack to wait for another graph or call in a task.
    pub(crate) fn check_stack(&self) -> Result<(), GraphError> {
        let stack_size = self.stack.size;
        match self.is_stack_low() {
            true => Err(GraphError::TooDeep { stack_size }),
            false => Ok(()),
        }
    }

    /// Hands a task that became ready on this worker to the policy at once. This is for tasks that become ready while the body of another
    /// one runs (it registers or resolves them), since the worker's next turn may be far away.
    pub(crate) fn dispatch(&self, task: Ready) {
        self.engine().hand_to_policy(task);
    }

    /// Runs a task, now and on this worker, and releases what waits for it.
    pub(crate) fn execute(&self, task: Ready, origin: Origin) {
        self.engine().execute_observed(task, origin);
    }

    /// Tells the observer that a task starts which the one before it handed on. No graph is the one that runs.
    #[inline]
    pub(crate) fn tell_start(&self, task: &Runnable) {
        self.engine().tell_start(task);
    }

    /// Tells the observer that the body of a task has run. No graph is the one that runs.
    #[inline]
    pub(crate) fn tell_end(&self, task: &Ran) {
        self.engine().tell_end(task);
    }
}

thread_local! {
    /// The [limit](crate::fork::demand) of the worker that this thread is; elsewhere a word that is 0.
    #[cfg(not(any(loom, shuttle)))]
    static LIMIT: Cell<&'static AtomicUsize> = const { Cell::new(&NO_WORKER) };

    /// The core of the worker that this thread is, while the worker runs.
    static CURRENT: Cell<Option<NonNull<WorkerCore>>> = const { Cell::new(None) };
}

#[cfg(not(any(loom, shuttle)))]
static NO_WORKER: AtomicUsize = AtomicUsize::new(0);

/// Returns the [limit](crate::fork::demand) of the worker that this thread is; 0 if it is none.
#[inline(always)]
pub(crate) fn plain_limit() -> usize {
    #[cfg(not(any(loom, shuttle)))]
    {
        LIMIT.get().load(Ordering::Relaxed)
    }
    #[cfg(any(loom, shuttle))]
    0
}

/// Makes this thread a worker, or none.
///
/// # Safety
/// Before the core is gone, the thread calls this again, or ends; it does not use the core meanwhile but through this module.
unsafe fn enter(worker: Option<NonNull<WorkerCore>>) {
    CURRENT.set(worker);
    #[cfg(not(any(loom, shuttle)))]
    LIMIT.set(worker.map_or(&NO_WORKER, |worker| {
        // SAFETY: the core is live, keeps its pool, and is not gone before this is replaced (caller).
        let worker = unsafe { &*worker.as_ptr() };
        worker.pool.forks.demand.limit(worker.id.index())
    }));
}

/// Calls `work` with the core of the worker that this thread is, or with `None` if this thread is not a worker of `pool`, and returns its
/// result.
#[inline]
pub(crate) fn with_current<R>(pool: &PoolShared, work: impl FnOnce(Option<&WorkerCore>) -> R) -> R {
    with_any(|worker| work(worker.filter(|worker| std::ptr::eq(worker.pool(), pool))))
}

/// Calls `work` with the core of the worker that this thread is, of whatever pool, and returns its result.
#[inline]
pub(crate) fn with_any<R>(work: impl FnOnce(Option<&WorkerCore>) -> R) -> R {
    // SAFETY: the pointer is set by `Worker::work`, on this thread, and cleared before that function returns, which does not unwind. So
    // this call is made from inside `Worker::work`, which keeps the core alive until the closure has returned. Or the pointer was set by
    // `Worker::adopt`, whose worker is never freed.
    work(CURRENT.get().map(|worker| unsafe { &*worker.as_ptr() }))
}
