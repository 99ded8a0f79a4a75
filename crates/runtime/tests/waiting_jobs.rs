//! Closures of forks and scopes that wait for threads, locks and times, many at once and on small stacks.
#![cfg(not(any(loom, shuttle, miri)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tanada_runtime::thread::sync::{Barrier, Mutex, OnceCell, bounded};
use tanada_runtime::thread::{self, Builder};
use tanada_runtime::{Pool, fork};

/// Closures that wait at the same time: some ten times as many as have room on a stack of [`STACK`] bytes.
const MANY: usize = 5_000;

/// The stack of a worker, in bytes.
const STACK: usize = 256 << 10;

/// An adopted worker runs no threads, so it runs jobs on top of what waits.
#[test]
fn an_adopted_worker_that_waits_runs_jobs_meanwhile() {
    let adopted = std::thread::spawn(|| {
        let (pool, workers) = Pool::builder().workers(1).build_threads().expect("a pool");
        (workers.into_iter().next().expect("worker 0")).adopt();
        let lock = Mutex::new(0);
        let (sender, receiver) = bounded(2);
        let others = sender.clone();
        fork::spawn(move || others.send(1).expect("it is open"));
        assert_eq!(receiver.recv(), Ok(1));
        fork::spawn(move || sender.send(2).expect("it is open"));
        thread::yield_now();
        assert_eq!(receiver.try_recv(), Ok(2));
        fork::join(|| *lock.lock() += 1, || *lock.lock() += 1);
        assert_eq!(*lock.lock(), 2);
        drop(pool);
    });
    adopted.join().expect("no panic");
}

/// Calls `body` on an OS thread that is worker 0 of a pool with two workers for good.
fn on_an_adopted_worker(body: impl FnOnce(&Pool) + Send + 'static) {
    let adopted = std::thread::spawn(|| {
        let (pool, workers) = Pool::builder().workers(2).build_threads().expect("a pool");
        let mut workers = workers.into_iter();
        workers.next().expect("worker 0").adopt();
        let other = workers.next().expect("worker 1");
        let other = std::thread::spawn(|| other.run());
        body(&pool);
        drop(pool);
        other.join().expect("no panic");
    });
    adopted.join().expect("no panic");
}

#[test]
fn a_thread_of_an_adopted_worker_runs_beside_one_that_spins() {
    on_an_adopted_worker(|pool| {
        let (began, has_run) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, ends) = (Arc::clone(&began), Arc::clone(&has_run));
        let spins = move || {
            begins.store(1, Relaxed);
            while ends.load(Relaxed) == 0 {
                thread::yield_now();
            }
        };
        let spins = Builder::new().pool(pool).spawn(spins).expect("a stack");
        while began.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let runs = thread::spawn(move || has_run.store(1, Relaxed));
        runs.join().expect("no panic");
        spins.join().expect("no panic");
    });
}

#[test]
fn a_thread_wakes_the_worker_that_may_run_it_and_not_the_adopted_one() {
    on_an_adopted_worker(|pool| {
        let (sender, receiver) = bounded(1);
        let (done, end) = bounded(1);
        let started = Arc::new(AtomicUsize::new(0));
        let begins = Arc::clone(&started);
        fork::spawn(move || {
            begins.store(1, Relaxed);
            done.send(receiver.recv()).expect("it is open");
        });
        // The other worker has it, and waits in it.
        while started.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let pool = pool.clone();
        let outside = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let thread = Builder::new().pool(&pool);
            drop(thread.spawn(move || sender.send(7).expect("it is open")));
        });
        assert_eq!(end.recv(), Ok(Ok(7)));
        outside.join().expect("no panic");
    });
}

#[test]
fn what_an_adopted_worker_runs_on_top_of_a_wait_is_in_no_circle() {
    on_an_adopted_worker(|_| {
        let (lock, locked) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let (other_lock, other_locked) = (Arc::clone(&lock), Arc::clone(&locked));
        let wants = thread::spawn(move || {
            while other_locked.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
            drop(other_lock.lock());
        });
        // The other worker is busy with the thread, so this one runs the closure while it waits for the thread.
        fork::spawn(move || {
            let _guard = lock.lock();
            locked.store(1, Relaxed);
            std::thread::sleep(Duration::from_millis(800));
        });
        wants.join().expect("no panic");
    });
}

/// Calls `body` with pools whose workers have small stacks.
fn in_small_pools(body: impl Fn(&Pool) + Send + Sync) {
    for workers in [1, 2, 8] {
        let pool = Pool::builder().workers(workers).stack_size(STACK).build();
        body(&pool.expect("a pool"));
    }
}

/// Runs `body` on `pool`, on a worker's own stack and in a lightweight thread.
fn on_both_stacks(pool: &Pool, body: impl Fn() + Send + Sync) {
    fork::install(pool, &body);
    fork::install(pool, || {
        thread::scope(|scope| {
            scope.spawn(&body);
        })
    });
}

/// A tree of forks whose leaves call `leaf`.
fn tree(leaves: usize, leaf: &(impl Fn() + Sync)) {
    match leaves {
        0 => {}
        1 => leaf(),
        _ => {
            let half = leaves / 2;
            fork::join(|| tree(half, leaf), || tree(leaves - half, leaf));
        }
    }
}

#[test]
fn forked_closures_that_wait_for_threads_do_not_pile_up() {
    in_small_pools(|pool| {
        on_both_stacks(pool, || {
            tree(MANY, &|| thread::spawn(|| ()).join().expect("no panic"));
            tree(MANY, &|| {
                thread::block_on(thread::spawn(|| ())).expect("no panic");
            });
        });
    });
}

#[test]
fn forked_closures_that_wait_for_a_lock_do_not_pile_up() {
    in_small_pools(|pool| {
        let sum = Mutex::new(0);
        on_both_stacks(pool, || {
            tree(MANY, &|| {
                let mut sum = sum.lock();
                thread::yield_now();
                *sum += 1;
            });
        });
        assert_eq!(*sum.lock(), 2 * MANY);
    });
}

#[test]
fn closures_that_sleep_do_so_at_the_same_time() {
    in_small_pools(|pool| {
        let begin = Instant::now();
        fork::install(pool, || {
            fork::scope(|scope| {
                for _ in 0..MANY {
                    scope.spawn(|_| thread::sleep(Duration::from_millis(20)));
                }
            });
        });
        let each_alone = Duration::from_millis(20) * MANY as u32;
        assert!(begin.elapsed() < each_alone / 10);
    });
}

/// What waits for long does not hold up what it lies below.
#[test]
fn a_closure_goes_on_before_one_that_began_earlier_and_waits_for_longer() {
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let (sender, receiver) = bounded(2);
    fork::install(&pool, || {
        fork::scope(|scope| {
            for millis in [10, 400] {
                let sender = sender.clone();
                scope.spawn(move |_| {
                    thread::sleep(Duration::from_millis(millis));
                    sender.send(millis).expect("a receiver");
                });
            }
        });
    });
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<u64>>(), [10, 400]);
}

#[test]
fn closures_wait_for_each_other_on_one_worker() {
    in_small_pools(|pool| {
        let (barrier, passed) = (Barrier::new(MANY), AtomicUsize::new(0));
        fork::install(pool, || {
            fork::scope(|scope| {
                for _ in 0..MANY {
                    scope.spawn(|_| {
                        barrier.wait();
                        passed.fetch_add(1, Relaxed);
                    });
                }
            });
        });
        assert_eq!(passed.load(Relaxed), MANY);
    });
}

/// Each closure begins others until all have begun.
#[test]
fn closures_that_run_others_meanwhile_do_not_overflow_the_stack() {
    in_small_pools(|pool| {
        let begun = AtomicUsize::new(0);
        fork::install(pool, || {
            fork::scope(|scope| {
                for _ in 0..MANY {
                    scope.spawn(|_| {
                        begun.fetch_add(1, Relaxed);
                        while begun.load(Relaxed) < MANY {
                            fork::yield_now();
                        }
                    });
                }
            });
        });
    });
}

/// A deep closure that waits runs jobs on stacks of the size that the pool was asked for.
#[test]
fn a_closure_that_waits_has_the_stack_of_a_worker() {
    /// Takes some 4 KiB of stack a level.
    fn deep(levels: usize) -> usize {
        let room = std::hint::black_box([1_u8; 4 << 10]);
        match levels {
            0 => usize::from(room[7]),
            _ => deep(levels - 1) + usize::from(room[9]),
        }
    }
    let pool = Pool::builder().workers(1).stack_size(16 << 20).build();
    let pool = pool.expect("a pool");
    let (first, second) = fork::install(&pool, || {
        let (sender, receiver) = bounded(1);
        fork::join(
            || receiver.recv().expect("a sender"),
            // The worker runs this while it waits for the message.
            || {
                fork::spawn(move || sender.send(deep(1_000)).expect("a receiver"));
            },
        )
    });
    assert_eq!((first, second), (1_001, ()));
}

#[test]
fn a_panic_of_a_closure_that_another_wait_has_begun_reaches_its_scope() {
    in_small_pools(|pool| {
        let begun = Arc::new(AtomicUsize::new(0));
        let caught = std::panic::catch_unwind(|| {
            fork::install(pool, || {
                fork::scope(|scope| {
                    for index in 0..64 {
                        let begun = Arc::clone(&begun);
                        scope.spawn(move |_| {
                            begun.fetch_add(1, Relaxed);
                            thread::sleep(Duration::from_millis(1));
                            assert_ne!(index, 7, "the seventh panics");
                        });
                    }
                });
            });
        });
        let payload = caught.expect_err("a panic");
        let text = payload.downcast_ref::<String>().expect("a message");
        assert!(text.contains("the seventh panics"), "{text}");
        assert_eq!(begun.load(Relaxed), 64);
    });
}

/// In a thread, [`fork::yield_now`] lets others run if there is no job.
#[test]
fn a_thread_that_has_no_job_to_run_lets_other_threads_run() {
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let done = Arc::new(AtomicUsize::new(0));
    let spawn = |body: Box<dyn FnOnce() + Send>| {
        let thread = Builder::new().pool(&pool).spawn(body);
        thread.expect("a stack")
    };
    let (seen, sets) = (Arc::clone(&done), Arc::clone(&done));
    let waits = spawn(Box::new(move || {
        while seen.load(Relaxed) == 0 {
            fork::yield_now();
        }
    }));
    let other = spawn(Box::new(move || sets.store(1, Relaxed)));
    other.join().expect("no panic");
    waits.join().expect("no panic");
}

/// The worker that waits for a fork runs closures that want the lock which the one that waits holds.
#[test]
fn a_lock_may_be_held_over_a_fork() {
    in_small_pools(|pool| {
        let (sum, made) = (Mutex::new(0), OnceCell::new());
        let fork_with_lock = || {
            let mut sum = sum.lock();
            let (a, b) = fork::join(
                || {
                    fork::yield_now();
                    thread::yield_now();
                    1
                },
                || 1,
            );
            *sum += a + b;
            made.get_or_init(|| fork::join(thread::yield_now, || ()));
        };
        on_both_stacks(pool, || {
            fork::scope(|scope| {
                for _ in 0..500 {
                    scope.spawn(|_| fork_with_lock());
                    scope.spawn(|_| _ = fork::broadcast(|_| *sum.lock() += 0));
                }
            });
            tree(500, &fork_with_lock);
        });
        assert_eq!(*sum.lock(), 4_000);
    });
}

/// A thread waits, on top of a closure that sleeps, for what that closure does afterwards: it is no deadlock.
#[test]
fn a_closure_that_sleeps_below_others_wakes_them_later() {
    in_small_pools(|pool| {
        fork::install(pool, || {
            let (sender, receiver) = bounded(1);
            let reads = move || receiver.recv().expect("a sender");
            let thread = thread::spawn(move || {
                fork::join(|| thread::sleep(Duration::from_millis(50)), reads).1
            });
            thread::sleep(Duration::from_millis(900));
            sender.send(7).expect("a receiver");
            assert_eq!(thread.join().expect("no panic"), 7);
        });
    });
}
