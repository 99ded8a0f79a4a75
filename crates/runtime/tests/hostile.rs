//! Safe code that does what no program should: it may end the process with a message, but never reach freed memory.
//!
//! What such code does to a process is undefined until it is mended, so each case runs in a process of its own.
#![allow(unsafe_code, reason = "rights that look like those of another engine")]

mod own_process;
mod twisted;

use own_process::{in_own_process, run_in_own_process};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Site, Wake, WorkerId};
use tanada_runtime::{
    Bind, Observer, Pool, Recorder, Resolver, TaskView, TemplateBuilder, Token, WorkerObserver,
};
use twisted::{Queue, Twist, Twisted};

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
    ends_with(
        "child_observer_in_a_scope",
        "an observer, a governor or the engine panicked",
    );
    ends_with(
        "child_observer_in_a_template",
        "an observer, a governor or the engine panicked",
    );
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

/// Asks for the wake-up of workers that do not exist.
#[derive(Default)]
struct WakesNone;

impl Twist for WakesNone {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
        let me = env.me();
        for worker in [me, WorkerId::NONE, WorkerId(env.workers()), WorkerId(1000)] {
            // More than a call is expected to name.
            (0..5).for_each(|_| env.wake(Wake::This(worker)));
        }
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
        .build_with::<Twisted<WakesNone>>("wakes none")
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
#[derive(Default)]
struct Forger;

static FORGED: Mutex<Option<Ready>> = Mutex::new(None);

impl Twist for Forger {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        if let Some(forged) = FORGED.lock().take() {
            queue.push(env, forged);
        }
        queue.push(env, task);
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
        .build_with::<Twisted<Forger>>("forger")
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

/// Keeps a ticket of a nested graph, and hands it to a worker of a later pool.
#[derive(Default)]
struct Keeper;

static TICKET: Mutex<Option<Ready>> = Mutex::new(None);
static KEEP: AtomicBool = AtomicBool::new(false);
static GIVE: AtomicBool = AtomicBool::new(false);
/// The hint of the task whose graph's ticket is kept.
const MARK: u64 = 777;

impl Twist for Keeper {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        // In the pool's dispatcher; that of the nested graph gets numbers.
        let is_ticket = task.address().is_some() && env.hints(&task).user == MARK;
        if is_ticket && KEEP.swap(false, Ordering::SeqCst) {
            *TICKET.lock() = Some(task);
        } else {
            queue.push(env, task);
        }
    }
    fn next(&self, queue: &Queue, _env: &mut impl Env) -> Option<Ready> {
        let given = GIVE.swap(false, Ordering::SeqCst);
        let ticket = given.then(|| TICKET.lock().take()).flatten();
        ticket.or_else(|| queue.pop())
    }
    fn may_have(&self, queue: &Queue) -> bool {
        GIVE.load(Ordering::SeqCst) || !queue.is_empty()
    }
}

#[test]
fn a_ticket_of_a_pool_that_is_gone_ends_the_process_even_at_its_address() {
    ends_with("child_keeps_a_ticket", "a task of another pool");
}

#[test]
#[ignore = "run by `a_ticket_of_a_pool_that_is_gone_ends_the_process_even_at_its_address`"]
fn child_keeps_a_ticket() {
    let build = || {
        let builder = Pool::builder().workers(2).bind(Bind::Off);
        builder
            .build_with::<Twisted<Keeper>>("keeper")
            .expect("a pool")
    };
    let address = |pool: &Pool| std::ptr::from_ref(pool.placement()).addr();
    let first = build();
    let home = address(&first);
    KEEP.store(true, Ordering::SeqCst);
    first
        .scope(|s| {
            let pool = &first;
            s.task("outer").register(move |_| {
                let inner = pool.scope(|s| {
                    let task = s.task("inner").hints(Hints::default().with_user(MARK));
                    task.register(|_| ());
                });
                inner.expect("a graph that ends");
            });
        })
        .expect("a graph that ends");
    assert!(TICKET.lock().is_some());
    drop(first);
    // Mostly the first new pool has the old address.
    let mut others = Vec::new();
    let second = loop {
        let pool = build();
        if address(&pool) == home || others.len() == 100 {
            break pool;
        }
        others.push(pool);
    };
    drop(others);
    GIVE.store(true, Ordering::SeqCst);
    let _ = second.scope(|s| {
        s.task("wakes").register(|_| ());
    });
    std::thread::sleep(Duration::from_secs(1));
}

/// Resolves a task of the graph that it orders.
#[derive(Default)]
struct Meddler;

static LATE: Mutex<Option<(Resolver, Token)>> = Mutex::new(None);

impl Twist for Meddler {
    fn ready(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
        let late = LATE.lock().take();
        if let Some((resolver, task)) = late {
            let resolve = move || resolver.resolve(task);
            if std::env::var_os("ANOTHER_THREAD").is_some() {
                let _ = std::thread::spawn(resolve).join();
            } else {
                let _ = resolve();
            }
        }
    }
}

#[test]
fn a_policy_that_resolves_a_task_of_the_nested_graph_that_it_orders_ends_the_process() {
    ends_with("child_meddles", "that it was ordering");
}

#[test]
fn a_policy_that_waits_for_a_thread_that_waits_for_it_is_reported() {
    let (status, text) = run_in_own_process("child_meddles", &[("ANOTHER_THREAD", "yes")]);
    assert!(!status.success(), "{text}");
    assert!(text.contains("has not returned for some seconds"), "{text}");
}

#[test]
#[ignore = "run by `a_policy_that_resolves_a_task_of_the_nested_graph_that_it_orders_ends_the_process`"]
fn child_meddles() {
    // SAFETY: no precondition. With `ANOTHER_THREAD` the graph never ends.
    unsafe { libc::alarm(7) };
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Twisted<Meddler>>("meddler");
    let pool = &pool.expect("a pool");
    let result = pool.scope(|s| {
        s.task("outer").register(move |_| {
            let inner = pool.scope(|s| {
                let late = s.task("late").count(1).register(|_| ());
                *LATE.lock() = Some((s.resolver(), late));
                s.task("early").register(|_| ());
            });
            println!("nested: {inner:?}");
        });
    });
    println!("came back: {result:?}");
}

#[test]
fn a_recorder_may_be_asked_while_it_decides() {
    static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
    let recorder = Recorder::keep(|_| {
        let recorder = RECORDER.lock().clone();
        recorder.is_some_and(|recorder| recorder.take().tasks.is_empty())
    });
    *RECORDER.lock() = Some(recorder.clone());
    let pool = Pool::builder()
        .workers(2)
        .observer(recorder.clone())
        .build();
    let result = pool.expect("a pool").scope(|s| {
        s.task("one").register(|_| ());
    });
    assert_eq!(result, Ok(()));
    assert_eq!(recorder.take().tasks.len(), 1);
}

/// Panics when it is dropped, as a worker's part of a policy or as the policy.
#[derive(Default)]
struct Brittle<const POLICY: bool>;

impl<const POLICY: bool> Drop for Brittle<POLICY> {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

struct BrittleParts;

impl Dispatcher for BrittleParts {
    type Local = Brittle<false>;
    fn build(site: &Site<'_>) -> (Self, Vec<Brittle<false>>) {
        let locals = std::iter::repeat_with(Brittle::default);
        let workers = usize::from(site.placement.workers());
        (BrittleParts, locals.take(workers).collect())
    }
    fn inject<E: Env>(&self, _env: &mut E, _task: Ready) {}
    fn ready<E: Env>(&self, _: &mut Brittle<false>, _: &mut E, _: Ready) {}
    fn next<E: Env>(&self, _: &mut Brittle<false>, _: &mut E) -> Option<(Ready, Origin)> {
        None
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        false
    }
}

impl Twist for Brittle<true> {}

#[test]
fn a_policy_that_panics_in_its_drop_ends_the_process() {
    ends_with(
        "child_drops_a_part",
        "an observer, a governor or the engine panicked",
    );
    ends_with(
        "child_drops_a_policy",
        "an observer, a governor or the engine panicked",
    );
}

#[test]
#[ignore = "run by `a_policy_that_panics_in_its_drop_ends_the_process`"]
fn child_drops_a_part() {
    let pool = Pool::builder().workers(2);
    drop(pool.build_with::<BrittleParts>("brittle").expect("a pool"));
}

#[test]
#[ignore = "run by `a_policy_that_panics_in_its_drop_ends_the_process`"]
fn child_drops_a_policy() {
    let pool = Pool::builder().workers(2);
    let pool = pool.build_with::<Twisted<Brittle<true>>>("brittle");
    let _ = catch_unwind(AssertUnwindSafe(|| drop(pool.expect("a pool"))));
}
