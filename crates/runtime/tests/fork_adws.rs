//! The policy `adws` of forks: which worker runs what, and that nothing hangs.

#![cfg(not(any(loom, shuttle)))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tanada_runtime::{Pool, WorkerId, fork};

fn pool(workers: u16) -> Pool {
    let pool = Pool::builder().workers(workers.into()).policy("adws");
    pool.build().expect("a pool")
}

/// Calls `leaf` with each number below `end` from `begin` on.
fn each(begin: usize, end: usize, leaf: &(impl Fn(usize) + Sync)) {
    if end - begin == 1 {
        return leaf(begin);
    }
    let middle = begin + (end - begin) / 2;
    fork::join(|| each(begin, middle, leaf), || each(middle, end, leaf));
}

/// Runs `leaves` leaves, each of which waits until all have begun, and returns the workers.
fn meeting(leaves: usize) -> Vec<u16> {
    let workers = Mutex::new(vec![u16::MAX; leaves]);
    let begun = AtomicUsize::new(0);
    each(0, leaves, &|leaf| {
        begun.fetch_add(1, Ordering::SeqCst);
        while begun.load(Ordering::SeqCst) < leaves {
            std::thread::yield_now();
        }
        let me = fork::current_worker().expect("a worker");
        workers.lock().expect("not poisoned")[leaf] = me.0;
    });
    workers.into_inner().expect("not poisoned")
}

#[test]
fn each_worker_gets_its_share() {
    for workers in [2, 3, 4, 8] {
        let pool = pool(workers);
        let expected: Vec<u16> = (0..workers).collect();
        let mut kept = 0;
        for _ in 0..100 {
            let met = fork::install(&pool, || meeting(workers.into()));
            kept += met.iter().zip(&expected).filter(|(a, b)| a == b).count();
            let mut sorted = met;
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "each leaf has a worker of its own");
        }
        // A worker that the system does not run for long may lose its share to one that has waited for long. By chance, 100 were kept.
        let least = 100 + 15 * usize::from(workers);
        assert!(
            kept >= least,
            "{workers} workers: {kept} of {} kept",
            100 * workers
        );
    }
}

#[test]
fn works_say_where_the_border_lies() {
    let pool = pool(4);
    let second = |works: [u64; 2]| {
        let begun = AtomicBool::new(false);
        fork::install(&pool, || {
            let wait = || {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            };
            let begin = || {
                begun.store(true, Ordering::SeqCst);
                fork::current_worker()
            };
            fork::join_works(works, wait, begin).1
        })
    };
    let mostly = |works, worker| {
        let times = (0..40).filter(|_| second(works) == Some(WorkerId(worker)));
        let times = times.count();
        assert!(times >= 20, "{works:?}: {times} of 40");
    };
    mostly([1, 1], 2);
    mostly([3, 1], 3);
    mostly([10, 30], 1);
}

#[test]
fn a_closure_that_waits_for_a_later_one_does_not_hang() {
    // Each first closure waits for what lies deepest in the second: all shares must come to somebody, whatever their owners do.
    let pool = pool(4);
    for _ in 0..20 {
        let done = AtomicBool::new(false);
        let wait = || {
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        fork::install(&pool, || {
            fork::join(wait, || {
                fork::join(wait, || {
                    fork::join(wait, || done.store(true, Ordering::SeqCst));
                });
            });
        });
    }
}

#[test]
fn a_share_of_a_busy_worker_is_taken_over() {
    let pool = pool(2);
    let (busy, end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fork::install(&pool, || {
                fork::join(
                    || {
                        while !end.load(Ordering::SeqCst) {
                            busy.store(true, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    },
                    || {
                        while !busy.load(Ordering::SeqCst) {
                            std::thread::yield_now();
                        }
                    },
                )
            })
        });
        while !busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // One of two workers is busy, and these trees begin on the same one.
        for _ in 0..10 {
            assert_eq!(fork::install(&pool, || fork::join(|| 1, || 2)), (1, 2));
        }
        end.store(true, Ordering::SeqCst);
    });
}

#[test]
fn many_trees_at_once() {
    for workers in [2, 5, 64] {
        let pool = pool(workers);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..30 {
                        let sum = AtomicUsize::new(0);
                        let leaves = 1 + round * 37;
                        fork::install(&pool, || {
                            each(0, leaves, &|leaf| {
                                _ = sum.fetch_add(leaf, Ordering::Relaxed)
                            });
                        });
                        assert_eq!(sum.into_inner(), leaves * (leaves - 1) / 2);
                    }
                });
            }
        });
    }
}

#[test]
fn a_panic_in_any_share_comes_out() {
    let pool = pool(4);
    for bad in 0..16 {
        let ran = AtomicUsize::new(0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            fork::install(&pool, || {
                each(0, 16, &|leaf| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    if leaf == bad {
                        std::panic::resume_unwind(Box::new(leaf));
                    }
                });
            });
        }));
        let payload = outcome.expect_err("it panicked");
        assert_eq!(payload.downcast_ref(), Some(&bad));
        assert_eq!(ran.into_inner(), 16, "the others run all the same");
    }
    assert_eq!(meeting_in(&pool), 4);
}

fn meeting_in(pool: &Pool) -> usize {
    fork::install(pool, || meeting(4).len())
}

#[test]
fn deep_and_narrow_recursions_end() {
    fn comb(depth: usize, leaf: &(impl Fn() + Sync)) {
        if depth > 0 {
            fork::join(leaf, || comb(depth - 1, leaf));
        }
    }
    fn left(depth: usize, leaf: &(impl Fn() + Sync)) {
        if depth > 0 {
            fork::join(|| left(depth - 1, leaf), leaf);
        }
    }
    for workers in [2, 4, 16] {
        let pool = pool(workers);
        let ran = AtomicUsize::new(0);
        let leaf = || _ = ran.fetch_add(1, Ordering::Relaxed);
        fork::install(&pool, || comb(2_000, &leaf));
        fork::install(&pool, || left(2_000, &leaf));
        assert_eq!(ran.into_inner(), 4_000);
    }
}
