//! What all threads of a pool share.

use crate::error::GraphError;
use crate::executable;
use crate::fork::{ForkShared, Hooks, PoolRecord};
use crate::governor::{Blocked, Governed};
use crate::graph::{CHECKS, GraphShared, LOST_CHECK, Order, Own, Watch};
use crate::parking;
use crate::process::{self, Process};
use crate::replay::{self, Actor, Entered, FollowNested, Turns};
use crate::team::{Part, Regions};
use crate::thread::{ThreadShared, deadlock};
use crate::worker;
use crate::worker::calls::Calls;
use crate::worker::sleep::Sleep;
use crate::worker::{EndOnPanic, NativeEnv, Wakes};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use tanada_policy::{Dispatcher, ForkPolicy, Placement, Ready, WorkerId};

/// What all threads of a pool share, whatever its policy.
pub(crate) struct PoolShared {
    this: Weak<PoolShared>,
    /// The pool's number among all of this process. An address is no name: a later pool may get that of one that is gone.
    pub(crate) number: u64,
    /// The process that made the pool.
    home: Process,
    /// The policy's name.
    pub(crate) policy: String,
    pub(crate) placement: Placement,
    pub(crate) seed: u64,
    pub(crate) sleep: Sleep,
    /// What workers are to run beside tasks.
    pub(crate) calls: Calls<Part>,
    /// Made when the pool is, or by the first use.
    regions: OnceLock<Regions>,
    /// The part of the graph layer.
    pub(crate) graphs: GraphShared,
    /// The part of the fork layer.
    pub(crate) forks: ForkShared,
    /// The part of lightweight threads.
    pub(crate) threads: ThreadShared,
    pub(super) governed: Option<Arc<Governed>>,
    pub(crate) schedule: Option<Schedule>,
    /// Whether the policy may get something that stands for several tasks: it [treats tasks alike](Dispatcher::TREATS_ALIKE), and neither
    /// an observer nor a governor nor a schedule looks at each task.
    pub(crate) shares: bool,
    gate: Box<dyn Gate>,
    os_threads: Mutex<Vec<JoinHandle<()>>>,
    poison: Mutex<Poison>,
    /// Hardware threads that the process may use.
    hardware_threads: usize,
}

/// The schedule that a pool is part of.
pub(crate) struct Schedule {
    turns: Arc<Turns>,
    /// The pool's number there.
    pool: u32,
}

impl Schedule {
    pub(super) fn new(turns: &Arc<Turns>) -> Self {
        Schedule {
            turns: Arc::clone(turns),
            pool: turns.add_pool(),
        }
    }

    /// Returns the schedule without the pool.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Adds and returns a worker, unless the workers run as they like.
    pub(super) fn add_worker(&self, worker: WorkerId) -> Option<Actor> {
        self.turns.add_worker(self.pool, worker)
    }

    /// A worker looks for a task. Returns when it has its turn.
    #[cold]
    pub(crate) fn searches(&self) {
        if let Some(actor) = replay::actor() {
            actor.point_idle(true);
        }
    }

    /// The task goes on in which this worker waited.
    #[cold]
    pub(crate) fn resumes(&self) {
        if let Some(actor) = replay::actor() {
            actor.set_idle(false);
        }
    }

    /// Returns when this worker, with the task `next` in its hands, has its turn.
    #[cold]
    pub(crate) fn between(&self, worker: WorkerId, next: &Ready) {
        // Who has a ticket of a nested graph still looks for a task.
        if let Some(actor) = replay::actor() {
            actor.point_idle(executable::observed(next).is_none());
        }
        self.starts(worker, next);
    }

    /// This worker starts `task` at once.
    #[cold]
    pub(crate) fn starts(&self, worker: WorkerId, task: &Ready) {
        let Some(view) = executable::observed(task) else {
            return;
        };
        if let Some(actor) = replay::actor() {
            actor.set_idle(false);
        }
        self.turns.starts(self.pool, worker, &view);
    }
}

/// What a pool has become whose policy has lost tasks.
#[derive(Default)]
struct Poison {
    /// Why the pool begins no more graphs.
    why: Option<GraphError>,
    /// Whether its workers have ended, so that the graphs that it ran end, too.
    ended: bool,
}

/// The policy as it is reached from outside of the workers, by code that does not know its type.
trait Gate: Send + Sync {
    fn inject(&self, pool: &PoolShared, task: Ready);

    /// As `inject` for each of `tasks`, in one call of the policy. Leaves `tasks` empty.
    fn inject_all(&self, pool: &PoolShared, tasks: &mut Vec<Ready>);

    /// Reports the number of active workers, which has changed.
    fn resized(&self, pool: &PoolShared, active: u16);

    /// Whether a worker might find a task.
    fn may_have(&self, worker: WorkerId) -> bool;

    /// Makes and returns a dispatcher of the same policy for a nested graph.
    fn order(&self, pool: &PoolShared) -> Box<dyn Order>;
}

struct DispatcherGate<D> {
    /// `None` while it is dropped.
    dispatcher: Option<Arc<D>>,
    /// Number of random numbers drawn outside of the workers so far.
    draws: AtomicU64,
}

impl<D: Dispatcher> DispatcherGate<D> {
    fn dispatcher(&self) -> &D {
        self.dispatcher.as_ref().expect("not dropped")
    }

    /// Calls the policy on behalf of no worker, then delivers the wake-ups that it asked for.
    fn ask(&self, pool: &PoolShared, call: impl FnOnce(&D, &mut NativeEnv<'_>)) {
        EndOnPanic::around(|| {
            let mut wakes = Wakes::default();
            // Two threads at the same time may draw the same numbers.
            let mut draws = self.draws.load(Ordering::Relaxed);
            let mut env = NativeEnv {
                me: WorkerId::NONE,
                pool,
                draws: &mut draws,
                wakes: &mut wakes,
            };
            let before = *env.draws;
            call(self.dispatcher(), &mut env);
            if draws != before {
                self.draws.fetch_max(draws, Ordering::Relaxed);
            }
            wakes.deliver(pool);
        });
    }
}

impl<D: Dispatcher> Gate for DispatcherGate<D> {
    fn inject(&self, pool: &PoolShared, task: Ready) {
        self.ask(pool, |dispatcher, env| dispatcher.inject(env, task));
    }
    fn inject_all(&self, pool: &PoolShared, tasks: &mut Vec<Ready>) {
        if !D::INJECTS_AT_ONCE {
            for task in tasks.drain(..) {
                // In a child process, forked in the policy, another thread may have held the policy's lock.
                if !pool.is_forked() {
                    self.inject(pool, task);
                }
            }
            return;
        }
        self.ask(pool, |dispatcher, env| dispatcher.inject_all(env, tasks));
        // A policy that has left some has lost them.
        tasks.clear();
    }
    fn resized(&self, pool: &PoolShared, active: u16) {
        self.ask(pool, |dispatcher, env| dispatcher.resized(env, active));
    }
    fn may_have(&self, worker: WorkerId) -> bool {
        EndOnPanic::around(|| self.dispatcher().may_have(worker))
    }
    fn order(&self, pool: &PoolShared) -> Box<dyn Order> {
        Box::new(Own::<D>::new(pool))
    }
}

impl<D> Drop for DispatcherGate<D> {
    fn drop(&mut self) {
        // Behind the last worker, so it is the last reference: this runs code of the policy.
        EndOnPanic::around(|| drop(self.dispatcher.take()));
    }
}

static POOLS: AtomicU64 = AtomicU64::new(0);

impl PoolShared {
    /// Returns a pool without threads.
    #[inline]
    #[allow(
        clippy::too_many_arguments,
        reason = "one for each field that the builder knows"
    )]
    pub(super) fn new<D: Dispatcher>(
        policy: &str,
        dispatcher: &Arc<D>,
        placement: Placement,
        regions: Option<Regions>,
        seed: u64,
        hardware_threads: usize,
        watch: Watch,
        governed: Option<Arc<Governed>>,
        schedule: Option<Schedule>,
        hooks: Hooks,
        record: Option<PoolRecord>,
        fork_policy: Option<&'static dyn ForkPolicy>,
        watches: bool,
    ) -> Arc<Self> {
        let gate = DispatcherGate {
            dispatcher: Some(Arc::clone(dispatcher)),
            draws: AtomicU64::new(0),
        };
        let home = Process::this();
        let made = Arc::new_cyclic(|this| PoolShared {
            this: Weak::clone(this),
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            home,
            policy: policy.to_owned(),
            seed,
            sleep: Sleep::new(usize::from(placement.workers())),
            // With a schedule, workers always have to look for something else than tasks: for their turns.
            calls: Calls::new(
                usize::from(placement.workers()),
                match schedule {
                    Some(_) => u64::MAX,
                    None => home.number(),
                },
            ),
            regions: match regions {
                Some(regions) => OnceLock::from(regions),
                None => OnceLock::new(),
            },
            threads: ThreadShared::new(&placement, hooks.threads.clone()),
            forks: ForkShared::new(&placement, hooks, record, fork_policy),
            placement,
            graphs: GraphShared::new(watch),
            shares: D::TREATS_ALIKE
                && D::HANDS_ON
                && !watches
                && governed.is_none()
                && schedule.is_none(),
            governed,
            schedule,
            gate: Box::new(gate),
            os_threads: Mutex::default(),
            poison: Mutex::default(),
            hardware_threads,
        });
        // For the handles.
        made.keep(1);
        deadlock::add_pool(Arc::downgrade(&made));
        made
    }

    /// Adds a worker's thread, which [`PoolShared::retire`] will join.
    pub(super) fn add_thread(&self, thread: JoinHandle<()>) {
        self.os_threads.lock().push(thread);
    }

    /// The pool closes before the thread of worker `me` has been started.
    pub(super) fn ends_without(&self, me: WorkerId) {
        for part in self.calls.close(me.index()) {
            part.abandon();
        }
    }

    /// The thread of worker `me` cannot be started, which there is something to do for.
    pub(super) fn goes_on_without(&self, me: WorkerId, error: &io::Error) {
        process::report(format_args!(
            "worker {} of {} in pool {} does not start, since the system has no thread for it: {error}; the pool goes on without it",
            me.0,
            self.placement.workers(),
            self.number
        ));
        let me = me.index();
        self.sleep
            .set_missing(me, || self.calls.waiting(me) > 0 || self.forks.has_mail(me));
    }

    /// Hands a task that became ready outside of the pool's workers to the policy.
    pub(crate) fn inject(&self, task: Ready) {
        self.gate.inject(self, task);
    }

    /// As [`PoolShared::inject`] for each of `tasks`, in one call of the policy. Leaves `tasks` empty.
    pub(crate) fn inject_all(&self, tasks: &mut Vec<Ready>) {
        self.gate.inject_all(self, tasks);
    }

    /// Calls the governor at `now`.
    pub(crate) fn govern(&self, now: u64) {
        if let Some(governed) = &self.governed {
            governed.call(now, || self.tasks_wait(), |active| self.resize(active));
        }
    }

    /// Returns whether a worker may have a task that no worker runs.
    pub(super) fn tasks_wait(&self) -> bool {
        let mut workers = self.placement.ids();
        workers.any(|worker| self.gate.may_have(worker))
    }

    /// Makes the first `active` workers active. Calls come one at a time.
    fn resize(&self, active: usize) {
        self.sleep.set_width(active);
        self.gate.resized(self, active as u16);
    }

    /// Looks, ten times a second, whether active workers wait for tasks that only parked workers would run.
    pub(crate) fn look_for_blocked(&self, blocked: &mut Blocked) {
        let Some(governed) = &self.governed else {
            return;
        };
        let workers = usize::from(self.placement.workers());
        let tasks_wait = || self.sleep.width() < workers && self.tasks_wait();
        blocked.check(governed, tasks_wait, |active| self.resize(active));
    }

    /// Makes and returns a dispatcher of the pool's policy for a nested graph.
    pub(crate) fn order(&self) -> Box<dyn Order> {
        match &self.schedule {
            Some(schedule) if schedule.turns.follows() => {
                Box::new(FollowNested::new(&schedule.turns, schedule.pool))
            }
            _ => self.gate.order(self),
        }
    }

    /// Returns the regions of the pool, which is not that of a parent process.
    pub(crate) fn regions(&self) -> &Regions {
        self.regions.get_or_init(|| Regions::usual(&self.placement))
    }

    /// Returns whether the pool has a governor.
    pub(crate) fn is_governed(&self) -> bool {
        self.governed.is_some()
    }

    /// Returns another reference to this pool.
    pub(crate) fn shared(&self) -> Arc<PoolShared> {
        self.this.upgrade().expect("called on a live pool")
    }

    /// Drops a reference that this thread has for the runtime's sake. If it is the last one, it is dropped on a thread of its own: what
    /// goes with the pool is the program's, such as a scheduler or a handler, and may wait for what this thread does or has locked.
    pub(crate) fn drop_aside(this: Arc<PoolShared>) {
        if let Some(last) = Arc::into_inner(this) {
            let last = Box::new(last);
            // Without a thread for it, it is dropped here.
            let _ = std::thread::Builder::new()
                .name("tanada-end".into())
                .spawn(move || drop(last));
        }
    }

    /// Returns whether there are more workers than hardware threads, so that another worker waits for the processor of an idle one.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        usize::from(self.placement.workers()) > self.hardware_threads
    }

    /// Returns whether there are fewer workers than hardware threads.
    pub(crate) fn has_spare(&self) -> bool {
        usize::from(self.placement.workers()) < self.hardware_threads
    }

    /// Returns whether a thread may wait for the workers' threads to end.
    pub(crate) fn has_threads_to_join(&self) -> bool {
        // Who holds the lock waits for them now.
        (self.os_threads.try_lock()).is_none_or(|threads| !threads.is_empty())
    }

    /// Returns whether this thread is one of the pool's workers.
    pub(super) fn is_on_worker(&self) -> bool {
        let here = std::thread::current().id();
        let threads = self.os_threads.lock();
        threads.iter().any(|thread| thread.thread().id() == here)
    }

    /// Ends the workers once all that was spawned has run. Returns when the last one has ended.
    pub(crate) fn retire(&self) {
        let entered = self.enter();
        self.let_go();
        self.join_after(entered, true, |_| ());
    }

    /// Calls one of the pool's hooks on worker `me`. A panic goes to the pool's handler, or ends the process.
    #[inline]
    pub(crate) fn hook<T: Fn(usize) + ?Sized>(
        &self,
        me: WorkerId,
        which: impl Fn(&Hooks) -> &Option<Arc<T>>,
    ) {
        if let Some(hook) = which(&self.forks.hooks) {
            self.catch(|| hook(me.index()));
        }
    }

    /// Ends the workers of a pool whose policy has lost tasks: from now on the pool begins no graph. Returns when the last one has ended
    /// its task; a task that does not end is reported.
    pub(crate) fn retire_lost(&self, why: GraphError) {
        self.poison.lock().why.get_or_insert(why);
        let mut checks = 0;
        let entered = self.enter();
        self.sleep.close();
        self.join_after(entered, false, |worker| {
            while !worker.is_finished() {
                std::thread::sleep(LOST_CHECK);
                checks += 1;
                if checks == CHECKS {
                    process::report(format_args!(
                        "the policy {} has lost tasks, so its pool ends; it has waited for some seconds for a task that runs",
                        self.policy
                    ));
                }
            }
        });
    }

    /// Waits for the workers to end, for each after a call of `before` with its thread. `entered` is this thread's part in the schedule.
    /// `is_open`: whether the pool's threads keep it open until they have ended.
    fn join_after(
        &self,
        entered: Option<Entered>,
        is_open: bool,
        mut before: impl FnMut(&JoinHandle<()>),
    ) {
        worker::with_any(|worker| {
            worker.inspect(|worker| worker.check_may_wait());
            // Nobody waits for a pool whose workers run on the program's threads.
            let waits = is_open && self.has_threads_to_join();
            let _waits = deadlock::waits_for_a_pool(worker, waits.then_some(self));
            if let Some(schedule) = &self.schedule {
                schedule.turns.wait_for_end_of(schedule.pool);
            }
            drop(entered);
            let mut join = || {
                for thread in self.os_threads.lock().drain(..) {
                    before(&thread);
                    // No error is possible: a worker that panics ends the process.
                    let _ = thread.join();
                }
            };
            match worker {
                // The workers may wait for this thread's pool, which then says so.
                Some(worker) => worker.pool().wait_in_a_task(&mut join),
                None => join(),
            }
        });
    }

    /// Calls `wait`, in which a task of this pool blocks its worker, and returns the result.
    pub(crate) fn wait_in_a_task<R>(&self, wait: impl FnOnce() -> R) -> R {
        // Before the caller looks for threads: whoever makes one ready looks at this afterwards.
        self.sleep.begin_wait();
        let result = wait();
        self.sleep.end_wait();
        result
    }

    /// Returns whether a thread that waits for the end of a graph has to look at the workers from time to time, because that can be how it
    /// learns of a fault: they all are idle or wait, a governor decides who works, or the schedule of a replay does.
    pub(crate) fn must_be_looked_at(&self) -> bool {
        self.is_governed() || parking::is_scheduled() || self.sleep.stands_still()
    }

    /// Returns whether the pool belongs to the parent of this process.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.home.is_this()
    }

    /// Returns whether the workers take turns.
    pub(crate) fn takes_turns(&self) -> bool {
        (self.schedule.as_ref()).is_some_and(|schedule| schedule.turns.takes_turns())
    }

    /// Makes this thread part of the pool's schedule until the result is dropped, if the pool has one in which it is not yet.
    pub(crate) fn enter(&self) -> Option<Entered> {
        self.schedule
            .as_ref()
            .and_then(|schedule| schedule.turns.enter())
    }

    /// Returns whether a worker has to look for something else than tasks: this is another process, a call is under way, or the pool has a
    /// schedule. One comparison for all, since it is made after each task.
    #[inline]
    pub(crate) fn is_disturbed(&self) -> bool {
        self.home.present() != self.calls.state()
    }

    /// Returns why the pool begins no more graphs, if so.
    pub(crate) fn refusal(&self) -> Option<GraphError> {
        self.poison.lock().why.clone()
    }

    /// Returns why the graphs that run have ended, if so: no worker is left.
    pub(crate) fn poisoned(&self) -> Option<GraphError> {
        let poison = self.poison.lock();
        poison.ended.then(|| poison.why.clone()).flatten()
    }

    /// Ends all graphs of the pool, which has no workers any more, with `why`, unless another call has.
    pub(crate) fn poison(&self, why: GraphError) {
        let mut poison = self.poison.lock();
        if !poison.ended {
            *poison = Poison {
                why: Some(why),
                ended: true,
            };
        }
    }
}

impl Drop for PoolShared {
    fn drop(&mut self) {
        // The policy may have kept rights to run tasks, and may hand them to a worker of another pool, which looks at the tasks' memory.
        if self.poison.get_mut().why.is_some() || self.graphs.has_tickets() {
            self.graphs.leak();
        }
    }
}
