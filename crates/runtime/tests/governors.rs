//! Pools with a governor: who is active, what is left to parked workers, and what ends a governor's rule.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};
use tanada_policy::{
    Dispatcher, Env, Governor, GovernorSite, Order, Origin, Period, Plan, Ready, Site, Wake, Why,
    WorkerId, governors, registry,
};
use tanada_runtime::thread::{self, Builder};
use tanada_runtime::{BuildError, Observer, Pool, TaskView, WorkerObserver};

/// Plans what the test says, and writes down what it is shown.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Scripted>>);

#[derive(Default)]
struct Scripted {
    width: usize,
    sites: Vec<GovernorSite>,
    /// The work of each period.
    work: Vec<u64>,
    /// Whether the sums of all periods made sense.
    sound: bool,
}

impl Script {
    fn of(width: usize) -> Script {
        let script = Script::default();
        script.0.lock().width = width;
        script.0.lock().sound = true;
        script
    }

    fn make(&self) -> impl Fn(&GovernorSite) -> Box<dyn Governor> + Send + Sync + 'static {
        let script = self.clone();
        move |&site| {
            script.0.lock().sites.push(site);
            Box::new(script.clone())
        }
    }
}

impl Governor for Script {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let mut script = self.0.lock();
        script.work.push(period.work());
        let idle = period.threads.iter().all(|one| one.idle <= period.time);
        script.sound &= idle && period.time > 0 && period.cache().is_none();
        Plan {
            width: script.width,
            order: Order::Fifo,
            next_call: 1000,
        }
    }
    fn why(&self) -> Why {
        Why {
            what: "the script says so",
            figures: vec![("width", self.0.lock().width as f64)],
        }
    }

    fn reads_counters(&self) -> bool {
        false
    }
}

/// Counts the tasks that each worker starts.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u16, usize>>>);

struct SeenBy(Seen, WorkerId);

impl Observer for Seen {
    type Worker = SeenBy;
    fn worker(&self, worker: WorkerId) -> SeenBy {
        SeenBy(self.clone(), worker)
    }
}

impl WorkerObserver for SeenBy {
    fn start(&mut self, _task: &TaskView, _origin: Origin) {
        *self.0.0.lock().entry(self.1.0).or_default() += 1;
    }
    fn end(&mut self, _task: &TaskView) {}
}

fn run(pool: &Pool, tasks: usize) {
    let ran = AtomicUsize::new(0);
    pool.scope(|s| {
        for task in 0..tasks {
            let work = s.task("work").groups(
                tanada_runtime::TGroup(1 + task as u32 / 8),
                tanada_runtime::SGroup(1 + task as u32 % 8),
            );
            work.register(|_| {
                ran.fetch_add(1, Ordering::Relaxed);
                (0..200).for_each(|_| std::hint::spin_loop());
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!(ran.into_inner(), tasks);
}

/// Runs tasks until `done`, for a minute at most.
fn run_until(pool: &Pool, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            pool.decisions()
        );
        run(pool, 100);
    }
}

#[test]
fn parked_workers_run_nothing_and_come_back() {
    for entry in registry::native() {
        let (script, seen) = (Script::of(2), Seen::default());
        let pool = Pool::builder()
            .workers(4)
            .policy(entry.name)
            .observer(seen.clone())
            .governor_with(script.make())
            .governor_period(Duration::from_micros(1))
            .build()
            .expect("a pool");
        assert_eq!(pool.active(), 4);
        run_until(&pool, || pool.active() == 2);
        seen.0.lock().clear();
        (0..20).for_each(|_| run(&pool, 100));
        let started = seen.0.lock().clone();
        // A worker that the system stopped while it chose a task starts that one, and finds out behind it that it is to park.
        let late = started.range(2..).map(|(_, &tasks)| tasks);
        assert!(late.max() <= Some(1), "{}: {started:?}", entry.name);
        script.0.lock().width = 4;
        run_until(&pool, || pool.active() == 4);
        seen.0.lock().clear();
        if entry.greedy {
            run_until(&pool, || seen.0.lock().range(2..).next().is_some());
        }
        {
            let script = script.0.lock();
            let site = script.sites[0];
            assert_eq!((site.threads, site.period), (4, 1000));
            assert!(script.sound);
            // A reader of the log does not wait for the governor, which waits for this lock.
            assert!(!pool.decisions().is_empty());
        }
        let log: Vec<_> = pool
            .decisions()
            .iter()
            .map(|one| (one.from, one.to))
            .collect();
        assert_eq!(log, [(4, 2), (2, 4)], "{}", entry.name);
        assert!(
            pool.decisions()[0]
                .to_string()
                .ends_with("4 -> 2 workers: the script says so: width 2")
        );
    }
}

fn pool_of(workers: u32, script: &Script) -> Pool {
    Pool::builder()
        .workers(workers)
        .governor_with(script.make())
        .governor_period(Duration::from_micros(1))
        .build()
        .expect("a pool")
}

#[test]
fn a_nested_graph_of_a_worker_that_is_to_be_parked_goes_on() {
    let pool = pool_of(3, &Script::of(1));
    let inner = AtomicUsize::new(0);
    pool.scope(|s| {
        for _ in 0..3 {
            s.task("outer").register(|_| {
                // Whichever worker this is, it is parked, or to be parked, by the end.
                let start = Instant::now();
                while pool.active() != 1 && start.elapsed() < Duration::from_secs(60) {
                    run(&pool, 10);
                }
                run(&pool, 100);
                inner.fetch_add(1, Ordering::Relaxed);
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!((inner.into_inner(), pool.active()), (3, 1));
}

#[test]
fn a_thread_at_the_tail_of_a_parked_worker_runs_although_the_others_are_never_idle() {
    let pool = pool_of(2, &Script::of(1));
    run_until(&pool, || pool.active() == 1);
    let has_run = Arc::new(AtomicBool::new(false));
    let waits = move || {
        let runs = Arc::clone(&has_run);
        let created = Builder::new().create(move || runs.store(true, Ordering::Relaxed));
        let (thread, right) = created.expect("a stack");
        thread::with_queues(|queues| queues.push_tail(WorkerId(1), right));
        while !has_run.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        thread.join().expect("no panic");
    };
    let waits = Builder::new().pool(&pool).spawn(waits).expect("a stack");
    waits.join().expect("no panic");
}

#[test]
fn tasks_that_wait_for_each_other_end_the_governors_rule() {
    let script = Script::of(1);
    let pool = pool_of(2, &script);
    run_until(&pool, || pool.active() == 1);
    let barrier = Barrier::new(2);
    pool.scope(|s| {
        for _ in 0..2 {
            s.task("meets").register(|_| {
                barrier.wait();
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!(pool.active(), 2);
    let calls = script.0.lock().work.len();
    run(&pool, 100);
    assert_eq!(
        script.0.lock().work.len(),
        calls,
        "it is not asked any more"
    );
    let log = pool.decisions();
    let last = log.last().expect("the end is logged").to_string();
    assert!(
        last.contains("1 -> 2 workers: active workers end no task"),
        "{last}"
    );
}

/// Plans one worker, and from the second plan on first runs a graph on the pool that it decides for, whose tasks wait for each other.
/// The number counts the plans since the pool was known: the first ones may be asked for before its builder has returned it. The graph
/// ends if the second worker is not parked yet, so one graph would not be enough.
struct Meets(Arc<OnceLock<Pool>>, usize);

impl Governor for Meets {
    fn plan(&mut self, _period: &Period<'_>) -> Plan {
        let pool = self.0.get();
        self.1 += usize::from(pool.is_some());
        if let Some(pool) = pool.filter(|_| self.1 > 1) {
            let barrier = Barrier::new(2);
            let graph = pool.scope(|s| {
                for _ in 0..2 {
                    s.task("meets").register(|_| {
                        barrier.wait();
                    });
                }
            });
            graph.expect("a graph that ends");
        }
        Plan {
            width: 1,
            order: Order::Fifo,
            next_call: 1,
        }
    }
    fn why(&self) -> Why {
        Why::default()
    }

    fn reads_counters(&self) -> bool {
        false
    }
}

#[test]
fn the_rule_of_a_governor_that_waits_for_its_own_pool_ends() {
    let shared = Arc::new(OnceLock::new());
    let governors = Arc::clone(&shared);
    let pool = Pool::builder()
        .workers(2)
        .governor_with(move |_| Box::new(Meets(Arc::clone(&governors), 0)))
        .governor_period(Duration::from_micros(1));
    let pool = shared.get_or_init(|| pool.build().expect("a pool"));
    run_until(pool, || pool.decisions().len() == 2);
    assert_eq!(pool.active(), 2);
    run(pool, 100);
    let log = pool.decisions();
    assert_eq!(log.len(), 2, "what it planned meanwhile means nothing");
    let last = log[1].to_string();
    assert!(
        last.contains("1 -> 2 workers: active workers end no task"),
        "{last}"
    );
}

#[test]
fn all_tasks_are_counted() {
    let script = Script::of(2);
    let pool = Pool::builder()
        .workers(2)
        .governor_with(script.make())
        .governor_period(Duration::from_nanos(1))
        .build()
        .expect("a pool");
    run(&pool, 1000);
    run_until(&pool, || script.0.lock().work.iter().sum::<u64>() >= 900);
}

#[test]
fn every_governor_can_be_had_by_name_unless_it_needs_counters_that_are_not_there() {
    let mut refused = 0;
    for entry in governors::all() {
        let built = Pool::builder().workers(2).governor(entry.name).build();
        match (entry.needs_counters, built) {
            (false, Ok(pool)) => run(&pool, 1000),
            // Few virtual machines have counters.
            (true, Ok(pool)) => run(&pool, 1000),
            (true, Err(BuildError::NeedsCounters { governor, why })) => {
                assert_eq!(governor, entry.name);
                assert!(!why.is_empty());
                refused += 1;
            }
            (_, built) => panic!("{}: {built:?}", entry.name),
        }
    }
    // The same machine has counters for all or for none, and says so.
    let hold = Pool::builder().workers(2).governor("hold").build();
    let said = hold.expect("it needs none").decisions();
    let says = |one: &tanada_runtime::Decision| one.why.what.starts_with("no cache counters");
    assert_eq!(said.iter().any(says), refused == 3, "{said:?}");
    let error = Pool::builder().governor("thruput").build().unwrap_err();
    assert!(matches!(error, BuildError::UnknownGovernor(_)));
    assert!(error.to_string().contains("throughput"), "{error}");
}

/// The number of active workers, and of each worker the tasks that only it takes.
type Kept = (u16, Vec<VecDeque<Ready>>);

/// Keeps tasks for certain active workers, in turn, and deals what it keeps anew when their number changes.
struct Boxes(Mutex<Kept>);

impl Boxes {
    fn keep(kept: &mut Kept, env: &mut impl Env, task: Ready) {
        let (active, boxes) = kept;
        let whom = task.handle() / 64 % u64::from(*active);
        boxes[whom as usize].push_back(task);
        env.wake(Wake::This(WorkerId(whom as u16)));
    }
}

impl Dispatcher for Boxes {
    type Local = ();

    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = site.placement.workers();
        let boxes = (0..workers).map(|_| VecDeque::new()).collect();
        let locals = vec![(); usize::from(workers)];
        (Boxes(Mutex::new((workers, boxes))), locals)
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        Boxes::keep(&mut self.0.lock(), env, task);
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let task = self.0.lock().1[env.me().index()].pop_front()?;
        Some((task, Origin::Own))
    }
    fn resized<E: Env>(&self, env: &mut E, active: u16) {
        assert_eq!((env.active(), env.me()), (active, WorkerId::NONE));
        let mut kept = self.0.lock();
        kept.0 = active;
        let tasks: Vec<_> = kept
            .1
            .iter_mut()
            .flat_map(|tasks| tasks.drain(..))
            .collect();
        tasks
            .into_iter()
            .for_each(|task| Boxes::keep(&mut kept, env, task));
    }
    fn may_have(&self, worker: WorkerId) -> bool {
        !self.0.lock().1[worker.index()].is_empty()
    }
}

/// Plans one width after the other.
struct InTurn(usize, usize);

impl Governor for InTurn {
    fn plan(&mut self, _period: &Period<'_>) -> Plan {
        self.1 += 1;
        Plan {
            width: 1 + self.1 * 3 % self.0,
            order: Order::Fifo,
            next_call: 5000,
        }
    }
    fn why(&self) -> Why {
        Why::default()
    }
}

#[test]
fn a_policy_that_keeps_tasks_for_workers_is_told_of_every_change() {
    let pool = Pool::builder()
        .workers(5)
        .governor_with(|site| Box::new(InTurn(site.threads, 0)))
        .governor_period(Duration::from_micros(5))
        .build_with::<Boxes>("boxes")
        .expect("a pool");
    run_until(&pool, || pool.decisions().len() >= 500);
}

#[test]
fn a_pool_without_a_governor_has_no_decisions() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    run(&pool, 100);
    assert!(pool.decisions().is_empty());
    assert_eq!(pool.active(), 2);
}
