//! Workers whose threads start when there is something for them to do.
#![cfg(not(any(loom, shuttle, miri)))]

mod own_process;

use own_process::{outcome_of, run_in_own_process};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tanada_runtime::{Pool, PoolBuilder, fork};

/// Stacks of this size are in no machine.
const TOO_LARGE: usize = 1 << 50;

/// A pool whose threads start later.
struct Late {
    pool: Pool,
    /// How its threads are called.
    name: String,
    /// Another reference is in the pool's memory.
    memory: Arc<()>,
}

impl Late {
    /// Makes the pool. Its first workers, `at_once` of them, start at once: these have stacks, if the pool has none of a size that exists.
    fn with(builder: PoolBuilder, at_once: usize) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("late-{}", MADE.fetch_add(1, SeqCst));
        let memory = Arc::new(());
        let kept = Arc::clone(&memory);
        let builder = builder.panic_handler(move |_| _ = &kept);
        let (pool, workers) = builder.build_fork_threads(2).expect("a pool");
        for worker in workers {
            match worker.index() < at_once {
                true => _ = std::thread::spawn(|| worker.run()),
                false => worker.start_later(Some(name.clone())).expect("a thread"),
            }
        }
        Late { pool, name, memory }
    }

    fn new(workers: u32) -> Self {
        Self::with(Pool::builder().workers(workers), 0)
    }

    /// Returns how many threads have started.
    fn started(&self) -> usize {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
        let names = threads.filter_map(|thread| {
            let comm = thread.ok()?.path().join("comm");
            std::fs::read_to_string(comm).ok()
        });
        names.filter(|name| name.trim_end() == self.name).count()
    }

    /// Drops the pool, and returns once its memory is gone.
    fn end(self) {
        let Late { pool, memory, .. } = self;
        drop(pool);
        while Arc::strong_count(&memory) > 1 {
            std::thread::yield_now();
        }
    }
}

/// Runs `jobs` closures in `pool` that wait for each other.
fn meet(pool: &Pool, jobs: usize) {
    let barrier = Barrier::new(jobs);
    fork::install(pool, || {
        fork::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|_| _ = barrier.wait());
            }
        });
    });
}

#[test]
fn threads_start_as_closures_need_them() {
    let late = Late::new(8);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(late.started(), 0);
    assert_eq!(fork::install(&late.pool, || 7), 7);
    assert_eq!(late.started(), 1);
    for workers in [1, 2, 3, 5, 8] {
        meet(&late.pool, workers);
        assert!(late.started() >= workers);
    }
    assert_eq!(late.started(), 8);
    late.end();
}

#[test]
fn a_broadcast_and_a_region_start_all() {
    let late = Late::new(5);
    let numbers = fork::install(&late.pool, || fork::broadcast(|context| context.index()));
    assert_eq!((numbers, late.started()), (vec![0, 1, 2, 3, 4], 5));
    late.end();

    let late = Late::new(5);
    let ran = AtomicUsize::new(0);
    let region = late.pool.region("all");
    region.run(None, |_| _ = ran.fetch_add(1, SeqCst)).unwrap();
    assert_eq!((ran.load(SeqCst), late.started()), (5, 5));
    drop(region);
    late.end();
}

#[test]
fn a_pool_that_closes_starts_no_thread() {
    for workers in [1, 2, 70] {
        Late::new(workers).end();
        let late = Late::new(workers);
        fork::install(&late.pool, || ());
        late.end();
    }
}

/// What was spawned, and a pool that was dropped, before the threads are to start.
#[test]
fn threads_that_are_needed_before_start_at_once() {
    let (pool, workers) = Pool::builder().workers(3).build_fork_threads(2).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| fork::install(&pool, || sender.send(()).unwrap()));
        std::thread::sleep(Duration::from_millis(20));
        for worker in workers {
            worker.start_later(None).unwrap();
        }
        receiver.recv().unwrap();
    });
    let memory = Arc::new(());
    let kept = Arc::clone(&memory);
    let builder = Pool::builder().workers(3).panic_handler(move |_| _ = &kept);
    let (pool, workers) = builder.build_fork_threads(2).unwrap();
    drop(pool);
    for worker in workers {
        worker.start_later(None).unwrap();
    }
    assert_eq!(Arc::strong_count(&memory), 1);
}

/// Pools that are dropped while their workers start, by spawned closures that go on making work.
#[test]
fn pools_end_while_threads_start() {
    fn spread(levels: u32, ran: &Arc<AtomicUsize>) {
        ran.fetch_add(1, SeqCst);
        if levels > 0 {
            let ran = Arc::clone(ran);
            fork::spawn(move || spread(levels - 1, &ran));
            fork::join(|| (), || ());
        }
    }
    for round in 0..300 {
        let late = Late::new(1 + round % 7);
        let ran = Arc::new(AtomicUsize::new(0));
        fork::install(&late.pool, || {
            for _ in 0..4 {
                let ran = Arc::clone(&ran);
                fork::spawn(move || spread(5, &ran));
            }
        });
        late.end();
        assert_eq!(ran.load(SeqCst), 24);
    }
}

#[test]
fn threads_start_at_once_if_the_program_sees_when() {
    fn all_start(builder: PoolBuilder) {
        let late = Late::with(builder.workers(3), 0);
        while late.started() < 3 {
            std::thread::yield_now();
        }
        late.end();
    }
    all_start(Pool::builder().start_handler(|_| ()));
    all_start(Pool::builder().exit_handler(|_| ()));
    all_start(Pool::builder().policy("adws"));
    // A name that no thread can have.
    let (_pool, mut workers) = Pool::builder().workers(2).build_fork_threads(2).unwrap();
    let last = workers.pop().unwrap();
    let start = AssertUnwindSafe(|| last.start_later(Some("a\0b".into())));
    assert!(catch_unwind(start).is_err());
    let refused = Pool::builder().workers(2).stack_size(TOO_LARGE);
    let (_pool, workers) = refused.build_threads().unwrap();
    for worker in workers {
        assert!(worker.start_later(None).is_err());
    }
}

/// A child that goes on in a closure of the pool has no other workers, and gets none.
#[test]
#[allow(unsafe_code, reason = "fork(2)")]
fn a_child_of_fork_starts_no_thread() {
    let late = Late::new(4);
    let child = fork::install(&late.pool, || {
        // SAFETY: the child calls what it may call as a copy of one thread, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for _ in 0..20 {
                fork::join(|| std::thread::sleep(Duration::from_millis(1)), || ());
            }
            let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
            // SAFETY: ends the process.
            unsafe { libc::_exit(threads as i32) };
        }
        child
    });
    assert_eq!(outcome_of(child), 1);
    late.end();
}

/// The pool goes on with the workers that it has, and says of each other one that it does not start.
#[test]
#[ignore = "run by `a_pool_goes_on_without_threads_that_do_not_start`"]
fn two_of_five() {
    let builder = Pool::builder().workers(5).stack_size(TOO_LARGE);
    let late = Late::with(builder, 2);
    let sum = AtomicUsize::new(0);
    for _ in 0..100 {
        fork::install(&late.pool, || {
            fork::scope(|scope| {
                for value in 0..100 {
                    let sum = &sum;
                    scope.spawn(move |_| {
                        std::thread::sleep(Duration::from_micros(10));
                        sum.fetch_add(value, SeqCst);
                    });
                }
            });
        });
    }
    assert_eq!((sum.load(SeqCst), late.started()), (100 * 4950, 0));
    late.end();
}

#[test]
fn a_pool_goes_on_without_threads_that_do_not_start() {
    let (status, text) = run_in_own_process("two_of_five", &[]);
    assert!(status.success(), "{text}");
    let says = |worker| text.contains(&format!("worker {worker} of 5 in pool 0 does not start"));
    assert!((2..5).all(says), "{text}");
    assert_eq!(text.matches("does not start").count(), 3, "{text}");
}

fn three_of_four() -> Late {
    Late::with(Pool::builder().workers(4).stack_size(TOO_LARGE), 3)
}

#[test]
#[ignore = "run by `what_every_worker_is_to_run_ends_the_process_without_one`"]
fn broadcast() {
    fork::install(&three_of_four().pool, || fork::broadcast(|_| ()));
}

#[test]
#[ignore = "run by `what_every_worker_is_to_run_ends_the_process_without_one`"]
fn region() {
    three_of_four()
        .pool
        .region("all")
        .run(None, |_| ())
        .unwrap();
}

#[test]
#[ignore = "run by `what_every_worker_is_to_run_ends_the_process_without_one`"]
fn broadcast_later() {
    let late = three_of_four();
    // The pool tries to start the last worker meanwhile.
    for _ in 0..100 {
        meet(&late.pool, 3);
        fork::install(&late.pool, || {
            fork::join(|| std::thread::sleep(Duration::from_millis(1)), || ())
        });
    }
    fork::install(&late.pool, || fork::broadcast(|_| ()));
}

#[test]
fn what_every_worker_is_to_run_ends_the_process_without_one() {
    for name in ["broadcast", "region", "broadcast_later"] {
        let (status, text) = run_in_own_process(name, &[]);
        assert!(!status.success(), "{name}: {text}");
        let why =
            "worker 3 is to run a closure that each worker runs, and its thread cannot be started";
        assert!(text.contains(why), "{name}: {text}");
    }
}
