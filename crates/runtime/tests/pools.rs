//! Pools: default, environment, idleness, many at once, the end of one, and what is left after `fork(2)`.
#![allow(unsafe_code, reason = "processor time of the process, fork(2)")]

mod own_process;
mod twisted;

use own_process::{in_own_process, run_in_own_process};
use parking_lot::Mutex;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};
use tanada_policy::{Env, Hints, Origin, Ready, WorkerId, registry};
use tanada_runtime::{
    GraphError, Observer, Pool, PoolBuilder, Region, TaskView, TemplateBuilder, WorkerObserver,
};
use twisted::{Queue, Twist, Twisted};

/// A pool and its builder go through `catch_unwind` without `AssertUnwindSafe`, and may be used from any thread. Templates and instances
/// do not: they hold the program's closures, whose data a panic may leave half changed.
const _: () = {
    const fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe + Send + Sync>() {}
    is_unwind_safe::<Pool>();
    is_unwind_safe::<PoolBuilder>();
    is_unwind_safe::<Region>();
};

fn count_on(pool: &Pool) -> usize {
    let ran = AtomicUsize::new(0);
    pool.scope(|s| {
        for _ in 0..1000 {
            s.task("one").register(|_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }
    })
    .expect("a graph that ends");
    ran.into_inner()
}

/// CPU time of this process, user and system, in clock ticks.
fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `getrusage` fills the structure that it is given.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

#[test]
fn the_default_pool_obeys_the_environment() {
    in_own_process(
        "child_default_pool",
        &[("TANADA_WORKERS", "3"), ("TANADA_POLICY", "ts")],
    );
    in_own_process("child_bad_environment", &[("TANADA_WORKERS", "many")]);
}

#[test]
#[ignore = "run by `the_default_pool_obeys_the_environment`"]
fn child_default_pool() {
    let pool = Pool::global().expect("the default pool");
    assert_eq!((pool.workers(), pool.policy()), (3, "ts"));
    assert_eq!(count_on(&pool), 1000);
}

#[test]
#[ignore = "run by `the_default_pool_obeys_the_environment`"]
fn child_bad_environment() {
    let error = Pool::global().expect_err("a number is wanted").to_string();
    assert!(error.contains("TANADA_WORKERS=many"), "{error}");
}

#[test]
fn of_many_threads_that_ask_for_the_default_pool_at_once_one_makes_it() {
    in_own_process("child_many_ask", &[("TANADA_WORKERS", "64")]);
}

#[test]
#[ignore = "run by `of_many_threads_that_ask_for_the_default_pool_at_once_one_makes_it`"]
fn child_many_ask() {
    const THREADS: usize = 64;
    let (start, done) = (Barrier::new(THREADS + 1), AtomicUsize::new(0));
    let threads = || std::fs::read_dir("/proc/self/task").expect("Linux").count();
    let before = threads();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                assert_eq!(count_on(&Pool::global().expect("the pool")), 1000);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        start.wait();
        while done.load(Ordering::SeqCst) < THREADS {
            let most = threads();
            assert!(most <= before + THREADS + 64, "{most} threads");
        }
    });
}

#[test]
fn graphs_that_never_end_name_their_tasks() {
    let cases = [
        ("child_owns_its_resolver", &["owner[7]"][..]),
        ("child_owns_its_resolver_inside", &["outer[3]", "owner[7]"]),
        ("child_waits_in_a_template", &["tasks of a template"]),
        ("child_pools_in_a_circle", &["first[1]", "second[2]"]),
        ("child_joins_in_a_circle", &["owner[4]"]),
        ("child_runs_a_graph_between_tasks", &["owner[7]"]),
        ("child_runs_a_graph_in_one_between_tasks", &["owner[7]"]),
        ("child_waits_in_the_body", &["owner[7]"]),
        ("child_waits_for_another_task", &["first[1]", "second[2]"]),
        ("child_waits_long", &[]),
        ("child_reports_to_a_locked_stderr", &["waits[0]"]),
    ];
    std::thread::scope(|threads| {
        let run = |(child, names): (&'static str, &'static [&str])| {
            threads.spawn(move || (child, names, run_in_own_process(child, &[]).1))
        };
        for case in cases.map(run) {
            let (child, names, text) = case.join().expect("no panic");
            assert!(text.contains("twelve seconds"), "{child}: {text}");
            let reports = text.matches("has not ended").count();
            assert_eq!(reports > 0, !names.is_empty(), "{child}: {text}");
            let missing = names.iter().find(|name| !text.contains(**name));
            assert_eq!(missing, None, "{child}: {text}");
        }
    });
}

/// Loses the tasks whose user value is 1. Hands out the first one of the others in a call that begins before the loss can be noticed, and
/// that ends behind that.
#[derive(Default)]
struct LosesOnes(OnceLock<Instant>);

impl Twist for LosesOnes {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        if env.hints(&task).user != 1 {
            queue.push(env, task);
        }
    }
    fn next(&self, queue: &Queue, _env: &mut impl Env) -> Option<Ready> {
        let begun = self.0.get_or_init(Instant::now);
        if begun.elapsed() < Duration::from_millis(550) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(500));
        queue.pop()
    }
    fn may_have(&self, _queue: &Queue) -> bool {
        true
    }
}

#[test]
fn a_pool_that_ends_since_its_policy_loses_tasks_reports_for_what_it_waits() {
    let (_, text) = run_in_own_process("child_waits_for_a_lost_graph", &[]);
    assert!(text.contains("has lost tasks, so its pool ends"), "{text}");
}

/// A task waits for the end of a graph whose pool waits for the end of that task.
#[test]
#[ignore = "run by `a_pool_that_ends_since_its_policy_loses_tasks_reports_for_what_it_waits`"]
fn child_waits_for_a_lost_graph() {
    ends_soon();
    let pool = Pool::builder().workers(1);
    let pool = &pool
        .build_with::<Twisted<LosesOnes>>("loses-ones")
        .expect("a pool");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let done = pool.scope(|s| {
                let lost = s.task("lost").hints(Hints::default().with_user(1));
                lost.register(|_| ());
            });
            sender.send(done).expect("the task waits");
        });
        let done = pool.scope(|s| {
            s.task("waits")
                .register(move |_| println!("{:?}", receiver.recv()));
        });
        println!("came back: {done:?}");
    });
}

/// Ends the process after twelve seconds.
fn ends_soon() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(12));
        println!("twelve seconds");
        std::process::exit(0);
    });
}

/// Runs a graph whose task owns the resolver that would resolve it.
fn own_a_resolver(pool: &Pool) {
    let done = pool.scope(|s| {
        let resolver = s.resolver();
        let task = s.task("owner").index(7).count(1);
        task.register(move |_| drop(resolver));
    });
    println!("came back: {done:?}");
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_owns_its_resolver() {
    ends_soon();
    own_a_resolver(&Pool::builder().workers(2).build().expect("a pool"));
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_owns_its_resolver_inside() {
    ends_soon();
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let done = pool.scope(|s| {
        s.task("outer").index(3).register(|_| own_a_resolver(&pool));
    });
    println!("came back: {done:?}");
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_waits_in_a_template() {
    ends_soon();
    let build = || Pool::builder().workers(1).build().expect("a pool");
    let (a, b) = (build(), build());
    let mut builder = TemplateBuilder::<()>::new();
    builder.task("waits", 0, |(), _| own_a_resolver(&b));
    let done = builder.build().expect("no cycle").instance().run(&a, &());
    println!("came back: {done:?}");
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_pools_in_a_circle() {
    ends_soon();
    let build = || Pool::builder().workers(1).build().expect("a pool");
    let (a, b, both) = (build(), build(), Barrier::new(2));
    let run = |on: &Pool, other: &Pool, name, index| {
        on.scope(|s| {
            s.task(name).index(index).register(|_| {
                both.wait();
                other
                    .scope(|s| {
                        s.task("inner").register(|_| ());
                    })
                    .expect("a graph that ends");
            });
        })
    };
    std::thread::scope(|threads| {
        threads.spawn(|| run(&a, &b, "first", 1));
        threads.spawn(|| run(&b, &a, "second", 2));
    });
}

/// Owns a resolver whenever a worker has no more to do.
#[derive(Clone)]
struct Idler;

static IDLERS: Mutex<Option<Pool>> = Mutex::new(None);

impl Observer for Idler {
    type Worker = Idler;
    fn worker(&self, _worker: WorkerId) -> Idler {
        Idler
    }
}

impl WorkerObserver for Idler {
    fn start(&mut self, _task: &TaskView, _origin: Origin) {}
    fn end(&mut self, _task: &TaskView) {}
    fn idle(&mut self) {
        let pool = IDLERS.lock().clone();
        own_a_resolver(&pool.expect("the pool of this worker"));
    }
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_runs_a_graph_between_tasks() {
    let pool = Pool::builder().workers(2).observer(Idler).build();
    let pool = pool.expect("a pool");
    *IDLERS.lock() = Some(pool.clone());
    let done = pool.scope(|s| {
        s.task("first").register(|_| ());
    });
    println!("came back: {done:?}");
    ends_soon();
    // The end of the graph may have left a token.
    loop {
        std::thread::park();
    }
}

/// A policy that runs a graph the first time that it is asked whether there is a task. A task of that graph runs one that never ends.
#[derive(Default)]
struct Asks;

impl Twist for Asks {
    fn may_have(&self, queue: &Queue) -> bool {
        if let Some(pool) = IDLERS.lock().take() {
            let done = pool.scope(|s| {
                s.task("middle")
                    .index(5)
                    .register(|_| own_a_resolver(&pool));
            });
            println!("came back: {done:?}");
        }
        !queue.is_empty()
    }
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_runs_a_graph_in_one_between_tasks() {
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Twisted<Asks>>("asks");
    let pool = pool.expect("a pool");
    let done = pool.scope(|s| {
        s.task("first")
            .register(|_| *IDLERS.lock() = Some(pool.clone()));
    });
    println!("came back: {done:?}");
    ends_soon();
    // The end of the graph may have left a token.
    loop {
        std::thread::park();
    }
}

/// The body of the outermost graph waits for a task instead of for the graph.
#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_waits_in_the_body() {
    ends_soon();
    let pool = &Pool::builder().workers(2).build().expect("a pool");
    let (sender, receiver) = std::sync::mpsc::channel();
    let done = pool.scope(|s| {
        s.task("outer").register(move |_| {
            own_a_resolver(pool);
            sender.send(()).expect("it waits");
        });
        receiver.recv()
    });
    println!("came back: {done:?}");
}

/// After a report a thread outside resolves the task, and the graph waits for another one.
#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_waits_for_another_task() {
    ends_soon();
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let done = pool.scope(|s| {
        let first = s.task("first").index(1).count(1).register(|s| {
            s.task("second").index(2).count(1).register(|_| ());
            std::mem::forget(s.resolver());
        });
        let resolver = s.resolver();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5_600));
            resolver.resolve(first).expect("it waits");
        });
    });
    println!("came back: {done:?}");
}

/// A thread holds the lock of standard error while it waits for a graph that is resolved after the report is due.
#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_reports_to_a_locked_stderr() {
    ends_soon();
    let pool = &Pool::builder().workers(2).build().expect("a pool");
    let ran = &AtomicU32::new(0);
    let stderr = std::io::stderr().lock();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let done = pool.scope(|s| {
                let waits = s.task("waits").count(1);
                let task = waits.register(|_| ran.store(1, Ordering::Relaxed));
                let resolver = s.resolver();
                threads.spawn(move || {
                    std::thread::sleep(Duration::from_millis(6_500));
                    resolver.resolve(task).expect("it waits");
                });
            });
            done.expect("a graph that ends");
        });
    });
    drop(stderr);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    // The report went past the lock, to a pipe that is read; that it is missing if the pipe is full is not looked at.
    std::thread::sleep(Duration::from_secs(60));
}

/// Runs a graph on a pool when its thread ends.
struct AtExit(Pool);

impl Drop for AtExit {
    fn drop(&mut self) {
        let done = self.0.scope(|s| {
            s.task("flush").register(|_| ());
        });
        println!("flushed: {done:?}");
    }
}

thread_local! {
    static AT_EXIT: std::cell::RefCell<Option<AtExit>> = const { std::cell::RefCell::new(None) };
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_joins_in_a_circle() {
    ends_soon();
    let build = || Pool::builder().workers(1).build().expect("a pool");
    let (a, b) = (build(), Mutex::new(Some(build())));
    let done = a.scope(|s| {
        let (a, b) = (&a, &b);
        s.task("owner").index(4).register(move |_| {
            let b = b.lock().take().expect("a pool");
            let inner = b.scope(|s| {
                let a = a.clone();
                s.task("leaves")
                    .register(move |_| AT_EXIT.set(Some(AtExit(a))));
            });
            inner.expect("a graph that ends");
            // Waits for the worker of `b`, which waits for that of `a`.
            drop(b);
        });
    });
    println!("came back: {done:?}");
}

#[test]
#[ignore = "run by `graphs_that_never_end_name_their_tasks`"]
fn child_waits_long() {
    ends_soon();
    let build = || Pool::builder().workers(1).build().expect("a pool");
    let (a, b) = (build(), build());
    let long = || std::thread::sleep(Duration::from_secs(60));
    let done = a.scope(|s| {
        s.task("waits").register(|_| {
            b.scope(|s| {
                s.task("works").register(|_| long());
            })
            .expect("a graph that ends");
        });
    });
    println!("came back: {done:?}");
}

#[test]
fn an_idle_pool_uses_no_processor() {
    in_own_process("child_idle", &[]);
}

#[test]
#[ignore = "run by `an_idle_pool_uses_no_processor`"]
fn child_idle() {
    let pools: Vec<Pool> = registry::native()
        .into_iter()
        .map(|entry| {
            Pool::builder()
                .workers(4)
                .policy(entry.name)
                .build()
                .expect("a pool")
        })
        .collect();
    pools
        .iter()
        .for_each(|pool| assert_eq!(count_on(pool), 1000));
    std::thread::sleep(Duration::from_millis(100));
    let (before, start) = (cpu_time(), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let share = (cpu_time() - before).as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(
        share < 0.001,
        "{} idle pools use {:.3}% of a core",
        pools.len(),
        share * 100.0
    );
}

#[test]
fn a_pool_ends_with_its_last_handle_even_in_a_task() {
    for _ in 0..50 {
        let pool = Pool::builder().workers(4).build().expect("a pool");
        let other = pool.clone();
        drop(pool);
        assert_eq!(count_on(&other), 1000);
    }
    let outer = Pool::builder().workers(1).build().expect("a pool");
    let inner = Pool::builder().workers(2).build().expect("a pool");
    outer
        .scope(move |s| {
            s.task("drops").register(move |_| drop(inner));
        })
        .expect("a graph that ends");
}

#[test]
fn threads_share_a_pool() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    std::thread::scope(|threads| {
        let users = [(); 8]
            .map(|()| threads.spawn(|| (0..20).for_each(|_| assert_eq!(count_on(&pool), 1000))));
        // One by one: how a scope of threads waits for all of them ThreadSanitizer does not see.
        for user in users {
            user.join().expect("no panic");
        }
    });
}

#[test]
fn a_child_process_gets_an_error_and_its_own_pool() {
    in_own_process("child_forks", &[("TANADA_WORKERS", "2")]);
}

#[test]
#[ignore = "run by `a_child_process_gets_an_error_and_its_own_pool`"]
fn child_forks() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let global = Pool::global().expect("the default pool");
    assert_eq!(count_on(&pool) + count_on(&global), 2000);
    // SAFETY: the child runs on, but only with what is meant to work after a fork: that is what is tested.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let forked = matches!(pool.scope(|_| ()), Err(GraphError::Forked))
            && matches!(global.scope(|_| ()), Err(GraphError::Forked));
        let own = Pool::global().is_ok_and(|pool| count_on(&pool) == 1000);
        drop(pool);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if forked && own { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child failed: {status}"
    );
    assert_eq!(count_on(&pool), 1000);
}

/// Keeps tasks where the workers of every pool find them.
#[derive(Default)]
struct Smuggler;

static SMUGGLED: Mutex<Option<Ready>> = Mutex::new(None);

impl Twist for Smuggler {
    fn inject(&self, _queue: &Queue, _env: &mut impl Env, task: Ready) {
        *SMUGGLED.lock() = Some(task);
    }
    fn next(&self, _queue: &Queue, env: &mut impl Env) -> Option<Ready> {
        SMUGGLED.lock().take_if(|_| env.workers() == 2)
    }
}

#[test]
fn a_policy_that_hands_a_task_to_another_pool_ends_the_process() {
    let (status, text) = run_in_own_process("child_smuggles", &[]);
    assert!(!status.success(), "{text}");
    assert!(text.contains("a task of another pool"), "{text}");
}

#[test]
#[ignore = "run by `a_policy_that_hands_a_task_to_another_pool_ends_the_process`"]
fn child_smuggles() {
    let source = Pool::builder()
        .workers(1)
        .build_with::<Twisted<Smuggler>>("smuggler")
        .expect("a pool");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            source.scope(|s| {
                s.task("smuggled").register(|_| ());
            })
        });
        // Its workers look around when they start.
        loop {
            let _pool = Pool::builder()
                .workers(2)
                .build_with::<Twisted<Smuggler>>("smuggler")
                .expect("a pool");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// Panics when it gets the second task: outside any worker, or on one.
#[derive(Default)]
struct Touchy(AtomicU32);

impl Twist for Touchy {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 1, "enough");
    }
}

#[test]
fn a_policy_that_panics_ends_the_process_wherever_it_was_called() {
    for child in ["child_panics_outside", "child_panics_in_a_task"] {
        let (status, text) = run_in_own_process(child, &[]);
        assert!(!status.success(), "{child}: {text}");
        assert!(
            text.contains("an observer, a governor or the engine panicked"),
            "{child}: {text}"
        );
    }
}

#[test]
#[ignore = "run by `a_policy_that_panics_ends_the_process_wherever_it_was_called`"]
fn child_panics_outside() {
    let pool = Pool::builder()
        .workers(1)
        .build_with::<Twisted<Touchy>>("touchy")
        .expect("a pool");
    let mut builder = TemplateBuilder::<()>::new();
    for index in 0..2 {
        builder.task("root", index, |(), _| ());
    }
    let mut instance = builder.build().expect("no cycle").instance();
    let run = || instance.run(&pool, &());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    println!("came back: {caught:?}");
}

#[test]
#[ignore = "run by `a_policy_that_panics_ends_the_process_wherever_it_was_called`"]
fn child_panics_in_a_task() {
    let pool = Pool::builder()
        .workers(1)
        .build_with::<Twisted<Touchy>>("touchy")
        .expect("a pool");
    let run = || {
        pool.scope(|s| {
            s.task("first").register(|s| {
                s.task("second").register(|_| ());
            });
        })
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    println!("came back: {caught:?}");
}
