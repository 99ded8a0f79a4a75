//! Lightweight threads that overflow, wait for each other, fork, exit, or have a scheduler that breaks its contract.
#![cfg(not(any(loom, shuttle, miri)))]
#![allow(unsafe_code, reason = "one test forks")]

mod own_process;

use own_process::{in_own_process, outcome_of, run_in_own_process};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tanada_runtime::thread::sync::{Barrier, Condvar, Mutex, bounded};
use tanada_runtime::thread::{
    self, Builder, First, Hint, JoinHandle, Queues, Runnable, Scheduler, Why,
};
use tanada_runtime::{Fork, ForkPolicy, Keep, Pool, Thief, WorkerId, fork};

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// Runs the test `name`, which ends its process, and returns what it wrote.
fn alone(name: &str) -> String {
    let (status, text) = run_in_own_process(name, &[]);
    assert!(!status.success(), "{text}");
    text
}

#[allow(unconditional_recursion, reason = "it overflows the stack")]
fn deep(depth: u64) -> u64 {
    let place = std::hint::black_box([depth; 64]);
    1 + deep(depth + 1) + place[depth as usize % 64]
}

#[test]
#[ignore = "run by `a_stack_overflow_names_the_thread`"]
fn overflows() {
    let thread = Builder::new()
        .pool(&pool())
        .name("glutton")
        .spawn(|| deep(0))
        .unwrap();
    thread.join().unwrap();
}

#[test]
fn a_stack_overflow_names_the_thread() {
    let text = alone("overflows");
    assert!(
        text.contains("(glutton) has overflowed its stack of 256 KiB"),
        "{text}"
    );
}

#[test]
#[ignore = "run by `a_stack_overflow_elsewhere_is_reported_as_ever`"]
fn overflows_elsewhere() {
    // The handler is there.
    Builder::new()
        .pool(&pool())
        .spawn(|| ())
        .unwrap()
        .join()
        .unwrap();
    deep(0);
}

#[test]
fn a_stack_overflow_elsewhere_is_reported_as_ever() {
    let text = alone("overflows_elsewhere");
    assert!(text.contains("has overflowed its stack"), "{text}");
    assert!(!text.contains("lightweight"), "{text}");
}

#[test]
#[ignore = "run by `two_mutexes_in_a_circle_are_named`"]
fn locks_in_a_circle() {
    let pool = pool();
    let (a, b) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let lock = |first: &Arc<Mutex<u8>>, second: &Arc<Mutex<u8>>, name: &'static str| {
        let (first, second) = (Arc::clone(first), Arc::clone(second));
        let body = move || {
            let first = first.lock();
            thread::sleep(Duration::from_millis(20));
            let _both = (first, second.lock());
        };
        Builder::new().pool(&pool).name(name).spawn(body).unwrap()
    };
    let threads = [lock(&a, &b, "one"), lock(&b, &a, "other")];
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn two_mutexes_in_a_circle_are_named() {
    // The harness has a thread of its own here: a circle is found whatever other threads do.
    let (status, text) = run_in_own_process("locks_in_a_circle", &[]);
    assert!(!status.success(), "{text}");
    assert!(
        text.contains("deadlock: threads wait for each other"),
        "{text}"
    );
    assert!(
        text.contains("(one) waits for a mutex that thread"),
        "{text}"
    );
    assert!(
        text.contains("(other) waits for a mutex that thread"),
        "{text}"
    );
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

impl Hint for Bomb {}

/// Runs a thread whose handle is gone when it ends.
fn detached<T: Send + 'static>(builder: Builder<'_, impl Hint>, body: fn() -> T) {
    let (sender, receiver) = bounded(1);
    let pool = pool();
    let thread = builder.pool(&pool).name("careless").spawn(move || {
        receiver.recv().unwrap();
        body()
    });
    drop(thread.unwrap());
    sender.send(()).unwrap();
    drop(pool);
}

#[test]
#[ignore = "run by `a_detached_thread_whose_result_panics_is_named`"]
fn drops_a_result_that_panics() {
    detached(Builder::new(), || Bomb);
}

#[test]
#[ignore = "run by `a_detached_thread_whose_result_panics_is_named`"]
fn drops_a_payload_that_panics() {
    detached(Builder::new(), || std::panic::panic_any(Bomb));
}

#[test]
#[ignore = "run by `a_detached_thread_whose_result_panics_is_named`"]
fn drops_a_hint_that_panics() {
    detached(Builder::new().hint(Bomb), || ());
}

#[test]
fn a_detached_thread_whose_result_panics_is_named() {
    let cases = [
        ("drops_a_result_that_panics", "the result"),
        ("drops_a_payload_that_panics", "the result"),
        ("drops_a_hint_that_panics", "the result or the hint"),
    ];
    for (name, value) in cases {
        let text = alone(name);
        assert!(
            text.contains(&format!("tanada: {value} of lightweight thread "))
                && text.contains("(careless) panicked when it was dropped"),
            "{name}: {text}"
        );
    }
}

/// Threads that wait long for a thread outside, or for time, are no deadlock.
#[test]
#[ignore = "run by `slow_is_not_dead`"]
fn is_slow() {
    let pool = pool();
    let (sender, receiver) = bounded(1);
    let waits = Builder::new()
        .pool(&pool)
        .spawn(move || receiver.recv())
        .unwrap();
    let outside = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        sender.send(5).unwrap();
    });
    assert_eq!(waits.join().unwrap(), Ok(5));
    outside.join().unwrap();
    let sleeps = || thread::sleep(Duration::from_millis(500));
    let sleeps = || Builder::new().pool(&pool).spawn(sleeps).unwrap();
    sleeps().join().unwrap();
    // A thread ends a pool whose threads wait for each other, and for time in the end.
    let one_worker = || Pool::builder().workers(1).build().unwrap();
    let (first, second, slow) = (one_worker(), one_worker(), sleeps());
    let waits = move || slow.join().unwrap();
    let waits = Builder::new().pool(&second).spawn(waits).unwrap();
    let joins = move || waits.join().unwrap();
    let joins = Builder::new().pool(&second).spawn(joins).unwrap();
    let ends = Builder::new().pool(&first).spawn(move || drop(second));
    ends.unwrap().join().unwrap();
    joins.join().unwrap();
}

#[test]
fn slow_is_not_dead() {
    in_own_process("is_slow", &[]);
}

#[test]
#[ignore = "run by `a_thread_may_end_the_process`"]
fn exits() {
    let thread = Builder::new().pool(&pool()).spawn(|| {
        thread::yield_now();
        std::process::exit(7)
    });
    let never: std::thread::Result<()> = thread.unwrap().join();
    never.unwrap();
}

#[test]
fn a_thread_may_end_the_process() {
    let (status, text) = run_in_own_process("exits", &[]);
    assert_eq!(status.code(), Some(7), "{text}");
}

#[test]
#[ignore = "run by `a_child_of_fork_in_a_thread_ends`"]
fn forks() {
    let pool = pool();
    let child = Builder::new().pool(&pool).spawn(|| {
        // SAFETY: the child only gives its worker back, which ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread::yield_now();
        }
        child
    });
    let child = child.unwrap().join().unwrap();
    assert_eq!(outcome_of(child), -libc::SIGABRT);
    let again = Builder::new().pool(&pool).spawn(|| 3).unwrap();
    assert_eq!(again.join().unwrap(), 3);
}

#[test]
fn a_child_of_fork_in_a_thread_ends() {
    in_own_process("forks", &[]);
}

/// The child gives its worker back, and other threads are ready there.
#[test]
#[ignore = "run by `no_other_thread_runs_in_a_child_of_fork`"]
fn forks_beside_others() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let child = Builder::new().pool(&pool).spawn(|| {
        let (parent, ended) = (std::process::id(), Arc::new(AtomicBool::new(false)));
        let others: Vec<_> = (0..4)
            .map(|_| {
                let ended = Arc::clone(&ended);
                thread::spawn(move || {
                    while !ended.load(SeqCst) {
                        if std::process::id() != parent {
                            // SAFETY: the call has no precondition.
                            unsafe { libc::_exit(3) };
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        // They start, and are tied to this worker from then on.
        (0..100).for_each(|_| thread::yield_now());
        // SAFETY: the child only gives its worker back, which ends it.
        let child = unsafe { libc::fork() };
        thread::yield_now();
        ended.store(true, SeqCst);
        others.into_iter().for_each(|other| other.join().unwrap());
        child
    });
    assert_eq!(outcome_of(child.unwrap().join().unwrap()), -libc::SIGABRT);
}

#[test]
fn no_other_thread_runs_in_a_child_of_fork() {
    in_own_process("forks_beside_others", &[]);
}

#[test]
fn a_pool_is_dropped_by_its_own_thread() {
    let pool = pool();
    let own = pool.clone();
    let (sender, receiver) = bounded(1);
    let thread = Builder::new().pool(&pool).spawn(move || {
        receiver.recv().unwrap();
        drop(own);
        4
    });
    drop(pool);
    sender.send(()).unwrap();
    assert_eq!(thread.unwrap().join().unwrap(), 4);
}

/// A scheduler that does what none may do, in one of its functions.
struct Wrong {
    place: String,
    what: String,
    /// A thread that never becomes ready.
    unscheduled: std::sync::Mutex<Option<(JoinHandle<()>, Runnable)>>,
    /// Locked for ever.
    locked: Mutex<()>,
    own: Arc<OnceLock<Pool>>,
    forked: AtomicBool,
    other: std::sync::Mutex<Option<Pool>>,
}

impl Wrong {
    fn is_called_in(&self, place: &str) {
        if self.place == place {
            self.does_wrong();
        }
    }

    fn does_wrong(&self) {
        let long = Duration::from_secs(60);
        let other = || self.other.lock().unwrap().take();
        let own = || self.own.wait();
        match self.what.as_str() {
            "panic" => panic!("on purpose"),
            "yield" => thread::yield_now(),
            "sleep" => thread::sleep(long),
            "park" => thread::park(),
            "lock" => drop(self.locked.lock()),
            "receive" => {
                let (_sender, receiver) = bounded::<()>(1);
                let _ = receiver.recv();
            }
            "receive for some time" => {
                let (_sender, receiver) = bounded::<()>(1);
                let _ = receiver.recv_timeout(long);
            }
            "join" => {
                let unscheduled = self.unscheduled.lock().unwrap().take();
                if let Some((thread, _runnable)) = unscheduled {
                    thread.join().unwrap();
                }
            }
            // What is waited for has the address of the one that waits.
            "join, and catch the panic" => {
                let unscheduled = self.unscheduled.lock().unwrap().take();
                if let Some((thread, runnable)) = unscheduled {
                    let join = std::panic::AssertUnwindSafe(|| thread.join());
                    let _ = std::panic::catch_unwind(join);
                    drop(runnable);
                }
            }
            "send" => {
                let (sender, _receiver) = bounded(1);
                sender.send(0).unwrap();
                sender.send(1).unwrap();
            }
            "condition" => {
                let lock = Mutex::new(());
                drop(Condvar::new().wait(lock.lock()));
            }
            "yield to a job" => drop(fork::yield_now()),
            "future" => thread::block_on(std::future::pending()),
            "barrier" => _ = Barrier::new(2).wait(),
            "scope" => thread::scope(|scope| {
                let _thread = scope.spawn(|| thread::sleep(long));
            }),
            // Once: two workers that fork here at the same time would wait for each other to take the fork.
            "fork" if self.forked.swap(true, SeqCst) => {}
            "fork" => wait_for_a_fork(),
            "install" => drop(other().map(|other| fork::install(&other, || ()))),
            "drop a pool" => drop(other()),
            "own graph" => run_a_graph(own()),
            "own broadcast" => drop(own().broadcast(|_| ())),
            "queues" => drop(thread::with_queues(|_| ())),
            "graph" => drop(other().map(|other| run_a_graph(&other))),
            "broadcast" => drop(other().map(|other| other.broadcast(|_| ()))),
            what => unreachable!("{what}"),
        }
    }
}

impl Scheduler for Wrong {
    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, _why: Why) {
        // Before: another worker may have to run it.
        queues.push(thread);
        self.is_called_in("ready");
    }

    fn first(&self) -> First {
        self.is_called_in("first");
        First::Parent
    }

    fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        self.is_called_in("next");
        queues.pop()
    }

    /// So what is in a queue stays there.
    fn steal(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        self.is_called_in("steal");
        None
    }

    fn may_have(&self, _me: WorkerId) -> bool {
        self.is_called_in("may_have");
        false
    }
}

fn run_a_graph(pool: &Pool) {
    let run = pool.scope(|graph| {
        graph.task("a").register(|_| ());
    });
    run.unwrap();
}

/// Waits for a fork that another worker runs for long.
fn wait_for_a_fork() {
    let (taken, begun) = (AtomicBool::new(false), Instant::now());
    let is_late = || begun.elapsed() > Duration::from_secs(10);
    fork::join(
        || {
            while !taken.load(SeqCst) && !is_late() {
                std::thread::yield_now();
            }
        },
        || {
            taken.store(true, SeqCst);
            std::thread::sleep(Duration::from_millis(100));
        },
    );
}

#[test]
#[ignore = "run by `a_scheduler_that_waits_or_panics_ends_all`"]
fn a_scheduler_does_wrong() {
    let of = |variable| std::env::var(variable).unwrap();
    let other = pool();
    let unscheduled = Builder::new().pool(&other).create(|| ()).unwrap();
    let (locked, own) = (Mutex::new(()), Arc::default());
    std::mem::forget(locked.lock());
    let wrong = Wrong {
        place: of("PLACE"),
        what: of("WHAT"),
        unscheduled: std::sync::Mutex::new(Some(unscheduled)),
        locked,
        own: Arc::clone(&own),
        forked: AtomicBool::new(false),
        other: std::sync::Mutex::new(Some(other)),
    };
    let pool = Pool::builder()
        .workers(2)
        .thread_scheduler(wrong)
        .build()
        .unwrap();
    own.set(pool.clone()).unwrap();
    // SAFETY: the threads have nothing on their stacks that must not move.
    let thread = unsafe {
        let builder = Builder::new().pool(&pool);
        builder.spawn_untied(|| Builder::new().spawn_untied(|| 1).unwrap().join().unwrap())
    };
    thread.unwrap().join().unwrap();
    // The other worker may be the one that is refused.
    std::thread::sleep(Duration::from_secs(20));
}

fn text_of_a_wrong_scheduler(place: &str, what: &str) -> String {
    // A backtrace of each of a hundred processes takes minutes under a sanitizer.
    let environment = [("PLACE", place), ("WHAT", what), ("RUST_BACKTRACE", "0")];
    let (status, text) = run_in_own_process("a_scheduler_does_wrong", &environment);
    assert!(!status.success(), "{what} in {place}: {text}");
    text
}

#[test]
fn a_scheduler_that_waits_or_panics_ends_all() {
    let waits = [
        "yield",
        "sleep",
        "park",
        "lock",
        "receive",
        "receive for some time",
        "join",
        "join, and catch the panic",
        "send",
        "condition",
        "yield to a job",
        "drop a pool",
        "own graph",
        "own broadcast",
        "future",
        "barrier",
        "scope",
        "fork",
        "install",
        "graph",
        "broadcast",
    ];
    for place in ["ready", "first", "next", "steal", "may_have"] {
        std::thread::scope(|tests| {
            for what in waits {
                tests.spawn(move || {
                    let text = text_of_a_wrong_scheduler(place, what);
                    assert!(
                        text.contains("must not wait or yield")
                            && text.contains("the process cannot go on"),
                        "{what} in {place}: {text}"
                    );
                });
            }
        });
        let text = text_of_a_wrong_scheduler(place, "queues");
        assert!(text.contains("must not call `with_queues`"), "{text}");
        let text = text_of_a_wrong_scheduler(place, "panic");
        assert!(text.contains("on purpose"), "{text}");
        assert!(text.contains("a scheduler of threads"), "{text}");
    }
}

/// What a fork policy keeps or steals next, it asks other threads.
#[derive(Debug)]
struct Yields;

impl ForkPolicy for Yields {
    fn decides(&self) -> bool {
        true
    }

    fn keep(&self, _fork: &Fork) -> Keep {
        thread::yield_now();
        Keep::Latent
    }

    fn steal(&self, _thief: &mut Thief<'_>, _steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        false
    }
}

#[test]
#[ignore = "run by `a_fork_policy_that_waits_ends_all`"]
fn forks_under_a_policy_that_waits() {
    let builder = Pool::builder().workers(2).fork_policy(&Yields);
    let pool = builder.build().unwrap();
    let forks = || _ = fork::join(|| (), || ());
    // SAFETY: nothing on its stack depends on the OS thread.
    let thread = unsafe { Builder::new().pool(&pool).spawn_untied(forks) };
    thread.unwrap().join().unwrap();
}

#[test]
fn a_fork_policy_that_waits_ends_all() {
    let text = alone("forks_under_a_policy_that_waits");
    assert!(text.contains("must not wait or yield"), "{text}");
}

#[test]
fn a_thread_that_does_not_fit_into_its_stack_is_refused() {
    let pool = pool();
    let too_large = Builder::new().pool(&pool).stack_size(1 << 40).spawn(|| ());
    assert!(too_large.unwrap_err().to_string().contains("at most"));
    let large = [0_u8; 8 << 10];
    let small = Builder::new().pool(&pool).stack_size(1);
    let refused = std::panic::catch_unwind(move || small.spawn(move || large[0]));
    assert!(refused.is_err());
    let fits = Builder::new()
        .pool(&pool)
        .stack_size(64 << 10)
        .spawn(move || large[5]);
    assert_eq!(fits.unwrap().join().unwrap(), 0);
}
