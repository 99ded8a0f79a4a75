//! Safe code that does what no program should: it may end the process with a message, but never reach freed memory.
//!
//! What such code does to a process is undefined until it is mended, so each case runs in a process of its own.
#![allow(unsafe_code, reason = "rights that look like those of another engine")]

mod own_process;

use own_process::{in_own_process, run_in_own_process};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tanada_policy::{Dispatcher, Env, Origin, Ready, Site, Wake, WorkerId};
use tanada_runtime::{Observer, Pool, TaskView, TemplateBuilder, WorkerObserver};

/// The child ends with a message that contains `message`, by an abort of its own and not by a segmentation fault.
#[track_caller]
fn ends_with(child: &str, message: &str) {
    use std::os::unix::process::ExitStatusExt as _;
    let (status, text) = run_in_own_process(child, &[]);
    assert!(text.contains(message), "{child}: {status}: {text}");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{child}: {text}");
}

/// Panics at the start of a task called "bad".
struct Startled;

impl Observer for Startled {
    type Worker = Startled;
    fn worker(&self, _worker: WorkerId) -> Startled {
        Startled
    }
}

impl WorkerObserver for Startled {
    fn start(&mut self, task: &TaskView, _origin: Origin) {
        assert!(task.name != "bad", "the observer panics");
    }
    fn end(&mut self, _task: &TaskView) {}
}

#[test]
fn an_observer_that_panics_in_a_nested_graph_ends_the_process() {
    ends_with("child_observer_in_a_scope", "a policy, an observer or");
    ends_with("child_observer_in_a_template", "a policy, an observer or");
}

/// Runs `nested` in a task, and touches the memory that its tasks borrow after it has unwound.
fn in_a_task(nested: impl Fn(&Pool) + Sync) {
    let pool = Pool::builder()
        .workers(2)
        .policy("fcfs")
        .observer(Startled)
        .build()
        .expect("a pool");
    let (pool_, nested) = (&pool, &nested);
    let result = pool.scope(|s| {
        s.task("outer").register(move |_| {
            let unwound = catch_unwind(AssertUnwindSafe(|| nested(pool_))).is_err();
            println!("unwound past a running graph: {unwound}");
            std::thread::sleep(Duration::from_millis(300));
        });
    });
    println!("came back: {result:?}");
}

#[test]
#[ignore = "run by `an_observer_that_panics_in_a_nested_graph_ends_the_process`"]
fn child_observer_in_a_scope() {
    in_a_task(|pool| {
        let borrowed = vec![7_u64; 1 << 16];
        let borrowed = &borrowed;
        let result = pool.scope(|s| {
            s.task("bad").register(|_| ());
            for _ in 0..4 {
                s.task("reads").register(move |_| {
                    std::thread::sleep(Duration::from_millis(20));
                    assert_eq!(borrowed.iter().sum::<u64>(), 7 << 16);
                });
            }
        });
        println!("nested: {result:?}");
    });
}

#[test]
#[ignore = "run by `an_observer_that_panics_in_a_nested_graph_ends_the_process`"]
fn child_observer_in_a_template() {
    in_a_task(|pool| {
        let mut builder = TemplateBuilder::<Vec<u64>>::new();
        builder.task("bad", 0, |_, _| ());
        for index in 0..4 {
            builder.task("reads", index, |borrowed, _| {
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(borrowed.iter().sum::<u64>(), 7 << 16);
            });
        }
        let mut instance = builder.build().expect("no cycle").instance();
        let result = instance.run(pool, &vec![7; 1 << 16]);
        println!("nested: {result:?}");
    });
}

/// First come, first served, but for what a test adds.
#[derive(Default)]
struct Queue(Mutex<VecDeque<Ready>>);

impl Queue {
    fn push(&self, env: &mut impl Env, task: Ready) {
        self.0.lock().push_back(task);
        env.wake(Wake::Anyone);
    }
    fn pop(&self) -> Option<(Ready, Origin)> {
        Some((self.0.lock().pop_front()?, Origin::Pool))
    }
}

/// Asks for the wake-up of workers that do not exist.
#[derive(Default)]
struct WakesNone(Queue);

impl Dispatcher for WakesNone {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = usize::from(site.placement.workers());
        (WakesNone::default(), vec![(); workers])
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.0.push(env, task);
        let me = env.me();
        for absent in [me, WorkerId::NONE, WorkerId(env.workers()), WorkerId(1000)] {
            env.wake(Wake::This(absent));
        }
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        self.0.pop()
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.0.lock().is_empty()
    }
}

#[test]
fn a_wake_up_of_a_worker_that_does_not_exist_is_ignored() {
    in_own_process("child_wakes_none", &[]);
}

#[test]
#[ignore = "run by `a_wake_up_of_a_worker_that_does_not_exist_is_ignored`"]
fn child_wakes_none() {
    let pool = Pool::builder()
        .workers(2)
        .build_with::<WakesNone>("wakes none")
        .expect("a pool");
    let ran = AtomicUsize::new(0);
    let mut builder = TemplateBuilder::<Vec<usize>>::new();
    for index in 0..10 {
        builder.task("borrows", index, |borrowed, _| {
            ran.fetch_add(borrowed.iter().sum(), Ordering::Relaxed);
        });
    }
    let mut instance = builder.build().expect("no cycle").instance();
    instance.run(&pool, &vec![1; 100]).expect("a run that ends");
    assert_eq!(ran.load(Ordering::Relaxed), 1000);
    pool.scope(|s| {
        s.task("first").register(|s| {
            s.task("second").register(|_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        });
    })
    .expect("a graph that ends");
    assert_eq!(ran.load(Ordering::Relaxed), 1001);
}

/// Hands the workers of a pool a task that another engine made.
struct Forger(Queue);

static FORGED: Mutex<Option<Ready>> = Mutex::new(None);

impl Dispatcher for Forger {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = usize::from(site.placement.workers());
        (Forger(Queue::default()), vec![(); workers])
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        if let Some(forged) = FORGED.lock().take() {
            self.0.push(env, forged);
        }
        self.0.push(env, task);
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        self.0.pop()
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.0.lock().is_empty()
    }
}

#[test]
fn a_task_of_a_simulator_ends_the_process() {
    ends_with("child_forges", "a task of another");
}

#[test]
#[ignore = "run by `a_task_of_a_simulator_ends_the_process`"]
fn child_forges() {
    let pool = Pool::builder()
        .workers(1)
        .build_with::<Forger>("forger")
        .expect("a pool");
    // SAFETY: no engine is involved: as a simulator does, which counts its tasks from 1.
    *FORGED.lock() = Some(unsafe { Ready::new(64, 0) });
    let result = pool.scope(|s| {
        s.task("task").register(|_| ());
    });
    println!("came back: {result:?}");
}

/// Hands tasks of a nested graph, and the numbers by which its own dispatcher knows them, to the wrong side: what one instance gets, the
/// other returns.
struct Swaps(bool);

static SWAPPED: [Mutex<VecDeque<Ready>>; 2] = [const { Mutex::new(VecDeque::new()) }; 2];
static BUILT: AtomicUsize = AtomicUsize::new(0);

impl Dispatcher for Swaps {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let nested = BUILT.fetch_add(1, Ordering::Relaxed) > 0;
        let workers = usize::from(site.placement.workers());
        (Swaps(nested), vec![(); workers])
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        // The first task has to run.
        let first = task.digest() == 1;
        SWAPPED[usize::from(self.0 ^ !first)].lock().push_back(task);
        env.wake(Wake::Anyone);
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let task = SWAPPED[usize::from(self.0)].lock().pop_front()?;
        println!("{:?}", env.hints(&task));
        Some((task, Origin::Pool))
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !SWAPPED[usize::from(self.0)].lock().is_empty()
    }
}

#[test]
fn a_task_in_the_place_of_a_number_ends_the_process() {
    ends_with("child_swaps", "a task of another");
}

#[test]
#[ignore = "run by `a_task_in_the_place_of_a_number_ends_the_process`"]
fn child_swaps() {
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Swaps>("swaps")
        .expect("a pool");
    let pool_ = &pool;
    let hints = tanada_policy::Hints::groups(1, 1);
    let result = pool.scope(|s| {
        s.task("first").hints(hints).register(move |_| {
            let nested = pool_.scope(|s| {
                for _ in 0..10 {
                    s.task("nested").register(|_| ());
                }
            });
            println!("nested: {nested:?}");
        });
    });
    println!("came back: {result:?}");
}
