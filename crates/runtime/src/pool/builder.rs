//! How pools are described and made.

use super::bind::{Mask, Unbound};
use super::shared::Schedule;
use super::{Bind, Pool, PoolShared};
use crate::error::BuildError;
use crate::fork::{ForkRecorder, Hooks};
use crate::governor::{Chosen, Governed, Governing, Ungoverned};
use crate::graph::Watch;
use crate::marks::{self, MARKS, Marked};
use crate::observer::{DEPENDENCIES, Observer, WorkerObserver};
use crate::replay::{self, Actor, Entered, Follow, Replay, STEPS};
use crate::team::{RegionMaker, Regions};
use crate::worker::{EndOnPanic, Stack, Worker};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tanada_policy::central::Central;
use tanada_policy::dispatchers::fcfs::Fcfs;
use tanada_policy::forks;
use tanada_policy::registry::{self, Entry, NotNative, Visitor};
use tanada_policy::{
    Dispatcher, ForkPolicy, Governor, GovernorSite, Placement, RegionGovernor, RegionSite, Site,
    WorkerId,
};
use tanada_topology::Topology;

/// The most workers that a pool can have.
pub const MAX_WORKERS: u16 = 1024;

/// The policy of a pool whose builder has no other.
pub const DEFAULT_POLICY: &str = "random-steal";

/// The description of a [`Pool`].
#[derive(Clone, Debug)]
pub struct PoolBuilder<O = (), G = Ungoverned> {
    workers: Option<u32>,
    policy: Option<String>,
    seed: u64,
    bind: Bind,
    stack_size: Option<usize>,
    topology: Option<Topology>,
    observer: O,
    governor: G,
    regions: RegionMaker,
    replay: Option<Replay>,
    hooks: Hooks,
    record: Option<ForkRecorder>,
    forks: Option<&'static dyn ForkPolicy>,
}

/// A worker of a pool that has no thread yet; see [`PoolBuilder::build_threads`].
pub struct WorkerThread {
    index: u16,
    stack_size: usize,
    /// What it is in the pool's schedule.
    actor: Option<Actor>,
    pool: Arc<PoolShared>,
    /// Whether the thread may start when it is needed: nothing shows when it does, and others can do all that the worker can.
    may_be_late: bool,
    /// Called with whether the thread runs the worker's loop.
    main: Box<dyn FnOnce(bool) + Send>,
}

impl WorkerThread {
    /// Returns the number of the worker.
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// Returns the bytes of stack that the thread should have.
    pub fn stack_size(&self) -> usize {
        self.stack_size
    }

    /// Runs the worker on this thread. Returns when the pool has closed.
    ///
    /// # Panics
    /// If this thread is a worker already, also inside of a lightweight thread.
    pub fn run(self) {
        self.begin(true);
    }

    /// Makes this thread the worker for good, and returns at once: the thread runs jobs of the pool only while it waits for some. It
    /// runs no [lightweight threads](crate::thread), which could not go on when it has ended: those that it makes are the other workers'.
    /// In a pool without others none runs. While it waits for a lock, a message or a time it runs jobs on top of what waits, so a job that
    /// needs what lies below it, such as a lock that is held there, waits for ever.
    ///
    /// # Panics
    /// If this thread is a worker already.
    pub fn adopt(self) {
        self.begin(false);
    }

    /// Starts a thread called `name` that [runs](WorkerThread::run) the worker: once there is something for it to do while the others
    /// are busy. At once, if that changes what happens: the pool has tasks of graphs ([`PoolBuilder::build_threads`]), or handlers of
    /// starts and ends, is recorded, or divides its workers among forks.
    ///
    /// The thread that finds something to do starts it, with the affinity mask of the thread that calls this. If the system has no thread
    /// by then, a message says so, and the pool goes on without the worker; a closure that every worker is to run ends the process.
    ///
    /// # Errors
    /// If the thread is to start at once and the system cannot start it.
    ///
    /// # Panics
    /// If `name` has a zero byte.
    pub fn start_later(self, name: Option<String>) -> io::Result<()> {
        // A name that no thread can have is the caller's to know.
        let is_wrong = name.as_ref().is_some_and(|name| name.contains('\0'));
        if !self.may_be_late || is_wrong {
            return self.start(name, || ());
        }
        let (pool, me) = (Arc::clone(&self.pool), WorkerId(self.index));
        let mask = Mask::of_this_thread();
        let start = move |begins: bool| {
            let pool = Arc::clone(&self.pool);
            if pool.is_forked() {
                // It would run what is the parent's to run.
                std::mem::forget(self);
                return false;
            }
            if !begins {
                pool.ends_without(me);
                return false;
            }
            // The thread that finds something to do may be in the middle of a fork.
            let started = EndOnPanic::around(|| self.start(name, move || mask.apply()));
            if let Err(error) = &started {
                pool.goes_on_without(me, error);
            }
            started.is_ok()
        };
        pool.sleep.start_later(me.index(), Box::new(start));
        // What came before this worker slept has woken nobody.
        if pool.sleep.is_closing()
            || pool.calls.waiting(me.index()) > 0
            || pool.forks.may_have(me.index())
            || pool.threads.has_any()
            || pool.tasks_wait()
        {
            pool.sleep.wake_if_asleep(me.index());
        }
        Ok(())
    }

    /// Starts a thread called `name` that calls `first` and runs the worker.
    fn start(self, name: Option<String>, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut builder = std::thread::Builder::new().stack_size(self.stack_size);
        if let Some(name) = name {
            builder = builder.name(name);
        }
        let run = || {
            first();
            self.run();
        };
        builder.spawn(run).map(drop)
    }

    /// Panics if this thread is a worker.
    fn check_free() {
        let is_worker = crate::fork::current_worker().is_some();
        assert!(!is_worker, "this thread is a worker already");
    }

    /// Makes this thread the worker, with its loop if it is `looping`.
    fn begin(self, looping: bool) {
        Self::check_free();
        let WorkerThread { pool, main, .. } = self;
        // The worker's own reference goes inside of `main`, where a panic in what goes with the pool ends the process.
        drop(pool);
        main(looping);
    }
}

impl std::fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerThread")
            .field("index", &self.index)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

impl Default for PoolBuilder {
    fn default() -> Self {
        PoolBuilder {
            workers: None,
            policy: None,
            seed: 0,
            bind: Bind::Auto,
            stack_size: None,
            topology: None,
            observer: (),
            governor: Ungoverned,
            regions: RegionMaker::Usual,
            replay: None,
            hooks: Hooks::default(),
            record: None,
            forks: None,
        }
    }
}

impl<O: Observer> PoolBuilder<O, Chosen> {
    /// Sets the time from one call of the governor to the next if it plans no other; by default 2 ms. Shorter periods find the best number
    /// of workers sooner, but see fewer tasks and colder caches.
    pub fn governor_period(mut self, period: Duration) -> Self {
        self.governor = self.governor.with_period(period);
        self
    }
}

impl<O: Observer, G: Governing> PoolBuilder<O, G> {
    /// Sets the number of workers; by default that of the hardware threads that the process may use, within its cgroup's quota.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the policy by its registered name (`tanada policies` lists the names); by default [`DEFAULT_POLICY`].
    ///
    /// The name of a [fork policy](tanada_policy::forks) sets that, and leaves tasks of graphs to the default.
    /// `"ts-local+cutoff"` names both. A name of a policy of tasks alone goes with the fork policy
    /// [`forks::of_dispatcher`](tanada_policy::forks::of_dispatcher).
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = Some(name.to_owned());
        self
    }

    /// Sets the fork policy, which may be one of your own: what becomes of forks, and where an idle worker looks for one. It must not use
    /// the pool; a panic of it ends the process, and so does a wait.
    pub fn fork_policy(mut self, policy: &'static dyn ForkPolicy) -> Self {
        self.forks = Some(policy);
        self
    }

    /// Sets the seed of the policy's random numbers; by default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how workers are bound to hardware threads; by default [`Bind::Auto`].
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Sets the bytes of stack of each worker; by default the value of the environment variable `RUST_MIN_STACK`, else 2 MiB.
    ///
    /// A worker that waits for a nested graph runs tasks of that graph on top of the waiting task. So the stack limits how deep graphs can
    /// be nested: a graph that would begin in its last quarter, or in its last 12 KiB, fails with
    /// [`GraphError::TooDeep`](crate::GraphError::TooDeep).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Uses this topology instead of detecting the machine's. Workers are bound to the hardware threads that it names, unless
    /// [`PoolBuilder::bind`] says otherwise.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Returns this builder with `observer`, which will watch the workers.
    pub fn observer<P: Observer>(self, observer: P) -> PoolBuilder<P, G> {
        self.map(|_, governor| (observer, governor))
    }

    /// Returns this builder with the registered governor `name`, which decides while the pool runs how many of its workers are active:
    /// those of the lowest numbers. `"throughput"` suits most programs. [`Pool::decisions`] is its log.
    ///
    /// Tasks must not wait for each other by other means than the graph, since one worker at a time may run them all: as in a pool of one
    /// worker. If no task ends for a second although tasks are ready, the governor's rule ends and all workers are active.
    pub fn governor(self, name: &str) -> PoolBuilder<O, Chosen> {
        self.map(|observer, _| (observer, Chosen::named(name)))
    }

    /// Returns this builder with a governor of your own, which `make` makes for each pool. Times are in nanoseconds, work in tasks, and a
    /// period has no time in which no worker has a task; [`Plan::order`](tanada_policy::Plan::order) means nothing here. A panic of the
    /// governor ends the process.
    pub fn governor_with(
        self,
        make: impl Fn(&GovernorSite) -> Box<dyn Governor> + Send + Sync + 'static,
    ) -> PoolBuilder<O, Chosen> {
        self.map(|observer, _| (observer, Chosen::own(make)))
    }

    /// Sets the governor of the pool's regions ([`Pool::region`]) to the registered one called `name`; by default `"all"`, under which
    /// every region runs on all workers. `"predict"` suits most programs: it measures each region on few numbers of workers, keeps what is
    /// best, and watches for changes.
    ///
    /// ```
    /// use tanada_runtime::Pool;
    ///
    /// let pool = Pool::builder().workers(2).region_governor("predict").build()?;
    /// for _ in 0..20 {
    ///     pool.region("nothing").run(None, |_| ())?;
    /// }
    /// for decision in pool.region_decisions() {
    ///     println!("{decision}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region_governor(mut self, name: &str) -> Self {
        self.regions = RegionMaker::named(name);
        self
    }

    /// Sets the governor of the pool's regions ([`Pool::region`]) to one of your own, which `make` makes for each pool. Times are in
    /// nanoseconds. It must not use the pool: it is called under the lock of the regions. A panic of the governor ends the process.
    pub fn region_governor_with(
        mut self,
        make: impl Fn(&RegionSite) -> Box<dyn RegionGovernor> + Send + Sync + 'static,
    ) -> Self {
        self.regions = RegionMaker::Own(Arc::new(make));
        self
    }

    /// Lets the workers take turns as `replay` says, so that the run can be repeated; by default as the environment says:
    /// `TANADA_SEED=N` as [`Replay::seed`], `TANADA_FOLLOW=FILE` as [`Replay::follow`]. With `TANADA_DECISIONS=FILE` the decisions are
    /// written to a file, in a free run, too. Then each thread that makes pools has a schedule of its own; the second one of the
    /// process appends `.1` to the names of the files, and so on. `%p` in a name is the number of the process; without it, a process is
    /// refused a file of decisions that another one writes.
    ///
    /// A pool with a schedule has no governor. While `tanada record` records the program, there are no schedules.
    pub fn replay(mut self, replay: &Replay) -> Self {
        self.replay = Some(replay.clone());
        self
    }

    /// Lets `handler` have the panics of closures that nothing waits for ([`fork::spawn`](crate::fork::spawn)), and of the handlers below.
    /// Without it, or if it panics itself, such a panic ends the process.
    pub fn panic_handler(
        mut self,
        handler: impl Fn(Box<dyn std::any::Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.panic = Some(Arc::new(handler));
        self
    }

    /// Lets `scheduler` decide which lightweight thread runs next ([`thread`](crate::thread)).
    pub fn thread_scheduler(mut self, scheduler: impl crate::thread::Scheduler) -> Self {
        self.hooks.threads = Some(Arc::new(scheduler));
        self
    }

    /// Calls `handler` on each worker's thread with the worker's number, before it runs anything. What it spawns runs in the pool.
    pub fn start_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Arc::new(handler));
        self
    }

    /// Calls `handler` on each worker's thread with the worker's number, when it has run everything. The pool has ended then: threads,
    /// spawned closures and broadcasts of the handler go to [`Pool::global`], and `spawn_broadcast` of a scope panics.
    pub fn exit_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.exit = Some(Arc::new(handler));
        self
    }

    fn map<P, H>(self, map: impl FnOnce(O, G) -> (P, H)) -> PoolBuilder<P, H> {
        let PoolBuilder {
            workers,
            policy,
            seed,
            bind,
            stack_size,
            topology,
            observer,
            governor,
            regions,
            replay,
            hooks,
            record,
            forks,
        } = self;
        let (observer, governor) = map(observer, governor);
        PoolBuilder {
            workers,
            policy,
            seed,
            bind,
            stack_size,
            topology,
            observer,
            governor,
            regions,
            replay,
            hooks,
            record,
            forks,
        }
    }

    /// Measures the pool's forks, scopes and spawned closures by `recorder`.
    pub fn record_forks(mut self, recorder: &ForkRecorder) -> Self {
        self.record = Some(recorder.clone());
        self
    }

    /// Returns this builder with the workers and the policy of the environment variables `TANADA_WORKERS` and `TANADA_POLICY`, if they are
    /// set, and with the recorder of `TANADA_PROFILE` ([`ForkRecorder::of_environment`]).
    ///
    /// # Errors
    /// If `TANADA_WORKERS` is not a number; and as [`ForkRecorder::of_environment`].
    pub fn from_environment(mut self) -> Result<Self, BuildError> {
        const WORKERS: &str = "TANADA_WORKERS";
        if let Some(value) = std::env::var_os(WORKERS) {
            let value = value.to_string_lossy().into_owned();
            let workers = value.trim().parse().map_err(|_| BuildError::Environment {
                variable: WORKERS,
                value,
                wanted: "a number of workers".into(),
            })?;
            self.workers = Some(workers);
        }
        if let Some(value) = std::env::var_os("TANADA_POLICY") {
            self.policy = Some(value.to_string_lossy().into_owned());
        }
        if let Some(recorder) = ForkRecorder::of_environment()? {
            self.record = Some(recorder);
        }
        Ok(self)
    }

    /// Makes and returns the pool, with a registered policy.
    ///
    /// # Errors
    /// If no policy or governor has the given name, a governor decides by cache counters, the policy
    /// [needs](Dispatcher::NEEDS_PREPARED) the graph beforehand, the number of workers is out of range, or the system cannot start the
    /// threads.
    pub fn build(self) -> Result<Pool, BuildError> {
        self.made(true)?.start(false)
    }

    /// As [`PoolBuilder::build`], but this thread is the last worker from now on, as [`WorkerThread::adopt`] says, and the pool starts a
    /// thread less: for a program whose main thread forks and then waits. A fork, a scope of forks or a loop
    /// ([`fork`](crate::fork)) begins at once, where another thread has to hand it to a worker and wait.
    ///
    /// While this thread does something else, the other workers run what any thread hands to the pool. In a pool of one worker there is
    /// no other: spawned closures run when this thread waits. A broadcast waits for this thread. A task of a graph of another thread that
    /// the policy has lost is not found out, because this worker never counts as idle.
    ///
    /// Graphs gain nothing by it: one that this thread runs counts as nested. The pool has no schedule ([`PoolBuilder::replay`]), as with
    /// [`PoolBuilder::build_threads`].
    ///
    /// ```
    /// use tanada_runtime::{Pool, fork};
    ///
    /// let _pool = Pool::builder().workers(2).build_here()?;
    /// let (left, right) = fork::join(|| 1 + 1, || 2 + 2);
    /// assert_eq!((left, right, fork::current_workers()), (2, 4, Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    ///
    /// # Panics
    /// If this thread is a worker already.
    pub fn build_here(self) -> Result<Pool, BuildError> {
        WorkerThread::check_free();
        self.made(false)?.start(true)
    }

    /// As [`PoolBuilder::build`], but starts no threads: the caller runs each of the workers on one of its own. Nothing waits for these
    /// threads when the pool is dropped; they end once all that was spawned has run. Such a pool has no schedule
    /// ([`PoolBuilder::replay`]): it would wait for threads that may never come.
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    pub fn build_threads(self) -> Result<(Pool, Vec<WorkerThread>), BuildError> {
        let Made { pool, workers, .. } = self.made(false)?;
        Ok((pool, workers))
    }

    /// Makes the pool, with a schedule only if `scheduled`.
    fn made(mut self, scheduled: bool) -> Result<Made, BuildError> {
        struct Build<O, G>(PoolBuilder<O, G>, bool);
        impl<O: Observer, G: Governing> Visitor for Build<O, G> {
            type Out = Result<Made, BuildError>;
            fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
                self.0.made_with::<D>(entry.name, self.1)
            }
        }
        let name = self.take_policies()?;
        registry::with(&name, Build(self, scheduled))?
    }

    /// Sets the fork policy, if the program has not set one, and returns the name of the policy of tasks.
    fn take_policies(&mut self) -> Result<String, BuildError> {
        let asked = self.policy.take();
        let (name, of_forks) = match asked.as_deref() {
            None => (DEFAULT_POLICY, forks::find(forks::DEFAULT)?),
            Some(both) if both.contains('+') => {
                let (name, of_forks) = both.split_once('+').expect("it has one");
                (name, forks::find(of_forks)?)
            }
            Some(one) => match forks::find(one) {
                Ok(of_forks) => (DEFAULT_POLICY, of_forks),
                Err(_) => (one, forks::of_dispatcher(one)),
            },
        };
        self.forks.get_or_insert(of_forks);
        Ok(name.to_owned())
    }

    /// Makes and returns the pool, with a policy of your own that messages and reports call `name`.
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    ///
    /// # Panics
    /// If `D::build` does not make one local state for each worker.
    pub fn build_with<D: Dispatcher>(self, name: &str) -> Result<Pool, BuildError> {
        self.made_with::<D>(name, true)?.start(false)
    }

    fn made_with<D: Dispatcher>(mut self, name: &str, scheduled: bool) -> Result<Made, BuildError> {
        if D::NEEDS_PREPARED {
            return Err(NotNative::named(name).into());
        }
        if marks::wanted() {
            return (self.marked()).make::<marks::Reference>(marks::REFERENCE, Watch(Some(&MARKS)));
        }
        let asked = match self.replay.take() {
            _ if !scheduled => None,
            Some(replay) => Some(replay),
            None => replay::of_environment()?,
        };
        // In a child of `fork(2)` a schedule of its parent means nothing.
        let asked = asked.filter(|replay| replay.turns().is_ours());
        let watch = self.watch();
        let Some(replay) = asked else {
            return self.make::<D>(name, watch);
        };
        let turns = Arc::clone(replay.turns());
        self.replay = Some(replay);
        if !turns.takes_turns() {
            return self.make::<D>(name, watch);
        }
        self.regions = RegionMaker::Usual;
        let stepped = self.map(|observer, _| (observer, Ungoverned));
        let entered = turns.enter();
        // Both observers report points.
        let watch = Watch(watch.0.or(Some(&STEPS)));
        let made = match turns.follows() {
            true => stepped.make::<Follow>(name, watch),
            false => stepped.make::<D>(name, watch),
        };
        made.map(|made| Made { entered, ..made })
    }

    /// Returns the builder of a pool whose tasks are recorded.
    fn marked(self) -> PoolBuilder<Marked<O>, Ungoverned> {
        let one = self.workers(1);
        one.map(|observer, _| (Marked(observer), Ungoverned))
    }

    /// Returns workers that lie nowhere, on a machine with so many hardware threads that the process may use.
    fn nowhere(&self, hardware_threads: usize) -> Result<Machine, BuildError> {
        let usable = hardware_threads.clamp(1, usize::from(MAX_WORKERS)) as u16;
        let placement = Placement::flat(self.count_workers(usable)?);
        Ok(Machine {
            governed: None,
            regions: match &self.regions {
                RegionMaker::Usual => None,
                maker => Some(Regions::new(&placement, None, maker)?),
            },
            placement,
            bind: Bind::Off,
            hardware_threads,
        })
    }

    fn watch(&self) -> Watch {
        Watch(match self.observer.keeps_dependencies() {
            true => Some(&DEPENDENCIES),
            false => None,
        })
    }

    fn make<D: Dispatcher>(self, name: &str, watch: Watch) -> Result<Made, BuildError> {
        // In a task, the machine is that of the process and not of the worker.
        let _unbound = Unbound::here();
        let topology = match &self.topology {
            Some(topology) => topology.clone(),
            None => Topology::detect().map_err(|error| BuildError::Topology(error.to_string()))?,
        };
        let workers = self.count_workers(topology.default_workers())?;
        let governed = self.governor.start(workers, topology.default_workers())?;
        let placement = topology.place(workers);
        let machine = Machine {
            regions: Some(Regions::new(&placement, topology.quota(), &self.regions)?),
            bind: (self.bind).resolve(workers, governed.is_some(), &topology),
            governed,
            placement,
            hardware_threads: topology.usable().len(),
        };
        Ok(self.make_on::<D>(name, watch, machine))
    }

    /// Returns the number of workers, `default` unless the program says another one.
    fn count_workers(&self, default: u16) -> Result<u16, BuildError> {
        let (asked, max) = (self.workers.unwrap_or(u32::from(default)), MAX_WORKERS);
        match asked {
            0 => Err(BuildError::Workers { asked, max }),
            _ if asked > u32::from(max) => Err(BuildError::Workers { asked, max }),
            _ => Ok(asked as u16),
        }
    }

    fn make_on<D: Dispatcher>(self, name: &str, watch: Watch, machine: Machine) -> Made {
        let Machine {
            placement,
            governed,
            regions,
            bind,
            hardware_threads,
        } = machine;
        let workers = placement.workers();
        let schedule = self
            .replay
            .as_ref()
            .map(|replay| Schedule::new(replay.turns()));
        let (dispatcher, locals) = D::build(&Site::new(&placement, self.seed));
        assert_eq!(
            locals.len(),
            usize::from(workers),
            "policy {name} must build one local state a worker"
        );
        let dispatcher = Arc::new(dispatcher);
        let ids = placement.ids();
        let pool = PoolShared::new(
            name,
            &dispatcher,
            placement,
            regions,
            self.seed,
            hardware_threads,
            watch,
            governed.clone(),
            schedule,
            self.hooks,
            self.record.map(|recorder| recorder.pool(name, workers)),
            self.forks,
            <O::Worker as WorkerObserver>::WATCHES,
        );
        let handle = Pool::new(Arc::clone(&pool));
        let stack_size = self.stack_size.unwrap_or_else(default_stack_size);
        let thread = |id: WorkerId, local: D::Local| {
            let (shared, dispatcher) = (Arc::clone(&pool), Arc::clone(&dispatcher));
            let observer = self.observer.worker(id);
            let meter = G::meter(&governed, id.index());
            let actor = pool
                .schedule
                .as_ref()
                .and_then(|schedule| schedule.add_worker(id));
            let turns = actor.clone();
            let main = move |looping: bool| {
                let _arrived = turns.map(Actor::arrive);
                if looping {
                    bind.apply(id, &shared.placement);
                }
                let stack = Stack::of_this_thread(stack_size);
                // Policy and observer of the worker are dropped inside, too.
                EndOnPanic::around(|| {
                    let worker = Worker::<D, O, G::Meter>::new(
                        id, shared, stack, dispatcher, local, observer, meter,
                    );
                    match looping {
                        true => worker.work(),
                        false => worker.adopt(),
                    }
                });
            };
            WorkerThread {
                index: id.0,
                stack_size,
                actor,
                pool: Arc::clone(&pool),
                may_be_late: false,
                main: Box::new(main),
            }
        };
        let mut threads = Vec::with_capacity(locals.len());
        for (id, local) in ids.zip(locals) {
            threads.push(thread(id, local));
        }
        Made {
            entered: None,
            pool: handle,
            workers: threads,
        }
    }
}

impl PoolBuilder {
    /// As [`PoolBuilder::build_threads`], for a pool of forks that starts soon: workers are not bound, so that they lie nowhere, and the
    /// machine is not looked at. The process may use `hardware_threads` hardware threads. Tasks of graphs would be scheduled by `fcfs`,
    /// whatever policy is named, so that a program has the code of one policy of tasks instead of all: of one that keeps nothing for each
    /// worker. That code is compiled here and not in the program, which would spread it over more pages.
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    pub fn build_fork_threads(
        mut self,
        hardware_threads: usize,
    ) -> Result<(Pool, Vec<WorkerThread>), BuildError> {
        if self.policy.is_some() {
            let entry = registry::find(&self.take_policies()?)?;
            if entry.needs_prepared {
                return Err(NotNative::named(entry.name).into());
            }
        }
        // Of a task, whose worker may be bound, the new workers begin unbound.
        let _unbound = Unbound::here();
        let Made {
            pool, mut workers, ..
        } = match marks::wanted() {
            true => {
                let (marked, watch) = (self.marked(), Watch(Some(&MARKS)));
                let machine = marked.nowhere(hardware_threads)?;
                marked.make_on::<marks::Reference>(marks::REFERENCE, watch, machine)
            }
            false => {
                let (watch, machine) = (self.watch(), self.nowhere(hardware_threads)?);
                self.make_on::<Central<Fcfs>>("fcfs", watch, machine)
            }
        };
        for worker in &mut workers {
            worker.may_be_late = !pool.shared().forks.sees_starts();
        }
        Ok((pool, workers))
    }
}

/// Where the workers of a pool run, and who decides how many of them do.
struct Machine {
    placement: Placement,
    governed: Option<Arc<Governed>>,
    /// `None`: those of the usual governor, made if the program asks for one.
    regions: Option<Regions>,
    /// How workers are bound, not [`Bind::Auto`].
    bind: Bind,
    /// The number of hardware threads that the process may use.
    hardware_threads: usize,
}

/// A pool whose workers have no threads yet.
struct Made {
    /// This thread's part in the pool's schedule, until the workers have started.
    entered: Option<Entered>,
    pool: Pool,
    workers: Vec<WorkerThread>,
}

impl Made {
    /// Starts a thread for each worker, and returns the pool. This thread is the last worker if it is `here`.
    fn start(self, here: bool) -> Result<Pool, BuildError> {
        // In this order, since the pool goes before this thread's part in its schedule.
        let Made {
            entered: _entered,
            pool,
            workers,
        } = self;
        // Of a task, whose worker may be bound, the new workers begin unbound.
        let _unbound = Unbound::here();
        let mut workers = workers.into_iter();
        // Not the first one, which a governor leaves active.
        let adopted = here.then(|| workers.next_back()).flatten();
        while let Some(worker) = workers.next() {
            let (index, actor) = (worker.index, worker.actor.clone());
            let thread = std::thread::Builder::new()
                .name(format!("tanada-{index}"))
                .stack_size(worker.stack_size)
                .spawn(|| worker.run());
            match thread {
                Ok(thread) => pool.shared().add_thread(thread),
                Err(source) => {
                    // The schedule waits for none of those that do not start. `pool` is dropped, which ends the others.
                    let others = workers.filter_map(|worker| worker.actor);
                    for actor in actor.into_iter().chain(others) {
                        actor.forget();
                    }
                    return Err(BuildError::Thread {
                        worker: index,
                        source,
                    });
                }
            }
        }
        if let Some(worker) = adopted {
            worker.adopt();
        }
        Ok(pool)
    }
}

/// Returns the bytes of stack that the standard library reserves for a thread.
#[inline]
fn default_stack_size() -> usize {
    let asked = std::env::var("RUST_MIN_STACK").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.unwrap_or(2 << 20)
}
