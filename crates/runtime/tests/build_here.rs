//! Pools of which the thread that makes them is a worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tanada_runtime::{BuildError, Pool, fork};
use tanada_testing::compute;

/// Runs `test` on a thread of its own: a thread that has become a worker stays one.
fn on_a_thread(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(test);
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn here(workers: u32) -> Pool {
    let builder = Pool::builder().workers(workers);
    builder.build_here().expect("a pool")
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = fork::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn the_thread_is_the_last_worker() {
    for workers in [1, 2, 4, 64] {
        on_a_thread(move || {
            let pool = here(workers);
            let this = std::thread::current().id();
            assert_eq!(pool.workers(), workers as u16);
            let last = workers as usize - 1;
            assert_eq!(fork::worker_of(&pool).map(|me| me.index()), Some(last));
            let (first, _) = fork::join(|| std::thread::current().id(), || ());
            assert_eq!(first, this);
            assert_eq!(fork::install(&pool, || std::thread::current().id()), this);
            assert_eq!(fib(20), 6765);
            // Everyone else is a thread of the pool.
            let threads = fork::broadcast(|_| std::thread::current().id());
            assert_eq!(threads.iter().filter(|&&id| id == this).count(), 1);
            assert_eq!(threads[last], this);
        });
    }
}

#[test]
fn closures_of_both_workers_meet() {
    on_a_thread(|| {
        let _pool = here(2);
        for _ in 0..100 {
            let met = Barrier::new(2);
            fork::join(|| met.wait(), || met.wait());
        }
    });
}

#[test]
fn graphs_run_on_all_workers() {
    for workers in [1, 2] {
        on_a_thread(move || {
            let pool = here(workers);
            let met = Barrier::new(workers as usize);
            let run = pool.scope(|s| {
                for _ in 0..workers {
                    s.task("meets").register(|_| _ = met.wait());
                }
            });
            run.expect("a graph that ends");
        });
    }
}

#[test]
fn spawned_closures_run_although_the_thread_does_not_wait() {
    on_a_thread(|| {
        let _pool = here(2);
        static RAN: AtomicUsize = AtomicUsize::new(0);
        (0..10).for_each(|_| fork::spawn(|| _ = RAN.fetch_add(1, Relaxed)));
        while RAN.load(Relaxed) < 10 {
            std::thread::yield_now();
        }
    });
}

/// A governor parks the workers of the greatest numbers: not one of them has a loop if this thread is the first.
#[test]
fn a_governor_leaves_a_worker_to_other_threads() {
    on_a_thread(|| {
        let builder = Pool::builder().workers(2).governor("throughput");
        let pool = builder.build_here().expect("a pool");
        for _ in 0..200 {
            let outside = std::thread::scope(|threads| {
                let outside = threads.spawn(|| fork::install(&pool, || fib(10)));
                outside.join().expect("no panic")
            });
            assert_eq!(outside, 55);
        }
        assert_eq!(fib(15), 610);
    });
}

#[test]
fn a_pool_that_is_not_made_leaves_the_thread_as_it_was() {
    on_a_thread(|| {
        let none = Pool::builder().workers(0).build_here();
        assert!(matches!(none, Err(BuildError::Workers { .. })));
        let unknown = Pool::builder().policy("no-such-policy").build_here();
        assert!(unknown.is_err());
        assert_eq!(fork::current_worker(), None);
        let _pool = here(2);
        assert!(fork::current_worker().is_some());
    });
}

#[test]
fn a_worker_becomes_no_other_one() {
    on_a_thread(|| {
        let pool = here(2);
        for dropped in [false, true] {
            let again = catch_unwind(AssertUnwindSafe(|| Pool::builder().build_here()));
            let panic = again.expect_err("it is a worker");
            let message = panic.downcast_ref::<&str>();
            assert_eq!(message, Some(&"this thread is a worker already"));
            if !dropped {
                drop(pool.clone());
            }
        }
        drop(pool);
        // It is still a worker, and has no other beside it.
        assert_eq!(fib(15), 610);
    });
}

/// Workers that expect a region, and get it earlier, later, or not at all.
#[test]
fn regions_at_regular_intervals_and_others_all_run() {
    on_a_thread(|| {
        let pool = here(2);
        let ran = AtomicUsize::new(0);
        let mut expected = 0;
        for gaps in [20, 60, 200, 700] {
            for at in 0..120_u64 {
                let gap = match at % 40 {
                    0..30 => gaps,
                    30..35 => gaps * 3,
                    _ => gaps / (at % 4 + 1),
                };
                compute(Duration::from_micros(gap));
                let part = || {
                    compute(Duration::from_micros(10));
                    ran.fetch_add(1, Relaxed);
                };
                match at % 3 {
                    0 => _ = fork::join(part, part),
                    1 => fork::scope(|s| (0..2).for_each(|_| s.spawn(|_| part()))),
                    _ => (pool.region("part").run(None, |_| part())).expect("a region that ends"),
                }
                expected += 2;
                assert_eq!(ran.load(Relaxed), expected);
            }
        }
    });
}

/// The same from a thread that is no worker, by graphs.
#[test]
fn runs_at_regular_intervals_and_others_all_end() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let ran = AtomicUsize::new(0);
    for at in 0..400_u64 {
        let gap = if at % 50 < 40 { 150 } else { 10 * (at % 50) };
        compute(Duration::from_micros(gap));
        let run = pool.scope(|s| {
            for _ in 0..2 {
                s.task("part").register(|_| _ = ran.fetch_add(1, Relaxed));
            }
        });
        run.expect("a graph that ends");
    }
    assert_eq!(ran.into_inner(), 800);
}
