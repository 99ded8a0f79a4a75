//! The policy `adws` of forks: which worker runs what, and that nothing hangs.

#![cfg(not(any(loom, shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tanada_runtime::{Pool, Replay, fork};

fn pool(workers: u16) -> Pool {
    let pool = Pool::builder().workers(workers.into()).policy("adws");
    pool.build().expect("a pool")
}

/// Returns a pool whose workers take turns. The system may not run a worker for milliseconds, and then others take its share.
fn turns(workers: u16, seed: u64) -> Pool {
    let pool = Pool::builder().workers(workers.into()).policy("adws");
    pool.replay(&Replay::seed(seed)).build().expect("a pool")
}

/// Calls `leaf` with each number below `end` from `begin` on. The work of a leaf is said: the time that one takes which waits for others
/// is no measure of it, and may confirm any border.
fn each(begin: usize, end: usize, leaf: &(impl Fn(usize) + Sync)) {
    if end - begin == 1 {
        return leaf(begin);
    }
    let middle = begin + (end - begin) / 2;
    let works = [middle - begin, end - middle].map(|leaves| leaves as u64);
    fork::join_works(
        works,
        || each(begin, middle, leaf),
        || each(middle, end, leaf),
    );
}

/// Runs `leaves` leaves, each of which waits until all have begun, and returns the workers.
fn meeting(leaves: usize) -> Vec<u16> {
    let workers = Mutex::new(vec![u16::MAX; leaves]);
    let begun = AtomicUsize::new(0);
    each(0, leaves, &|leaf| {
        begun.fetch_add(1, Ordering::SeqCst);
        while begun.load(Ordering::SeqCst) < leaves {
            Replay::point();
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
        for seed in 0..10 {
            let pool = turns(workers, seed);
            for tree in 0..10 {
                let met = fork::install(&pool, || meeting(workers.into()));
                // A tree that begins on worker b has shares from b on.
                let shares = |(leaf, worker): (u16, &u16)| (met[0] + leaf) % workers == *worker;
                assert!(
                    (0..).zip(&met).all(shares),
                    "tree {tree} of seed {seed}: {met:?}"
                );
            }
        }
    }
}

#[test]
fn most_shares_are_kept_without_turns() {
    for workers in [2, 3, 4, 8] {
        let pool = pool(workers);
        let expected: Vec<u16> = (0..workers).collect();
        let met = || {
            let met = fork::install(&pool, || meeting(workers.into()));
            let mut sorted = met.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "each leaf has a worker of its own");
            met.iter().zip(&expected).filter(|(a, b)| a == b).count()
        };
        // A worker that the system does not run for long may lose its share to one that has waited for long. By chance 100 are kept, ten
        // more or less.
        let least = 100 + 15 * usize::from(workers);
        let kept: Vec<usize> = (0..10).map(|_| (0..100).map(|_| met()).sum()).collect();
        assert!(
            kept.iter().any(|kept| *kept >= least),
            "{workers} workers: {kept:?} of {} kept",
            100 * workers
        );
    }
}

#[test]
fn works_say_where_the_border_lies() {
    for seed in 0..10 {
        let pool = turns(4, seed);
        // The same fork again and again: what is kept of one time must not decide the next.
        let all = [([1, 1], 2), ([3, 1], 3), ([10, 30], 1)];
        for (works, expected) in all.into_iter().cycle().take(12) {
            let begun = AtomicBool::new(false);
            let me = || fork::current_worker().expect("a worker").0;
            let wait = || {
                while !begun.load(Ordering::SeqCst) {
                    Replay::point();
                }
                me()
            };
            let begin = || {
                begun.store(true, Ordering::SeqCst);
                me()
            };
            let (first, second) = fork::install(&pool, || fork::join_works(works, wait, begin));
            assert_eq!((second + 4 - first) % 4, expected, "{works:?}, seed {seed}");
        }
    }
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
        let pool = Pool::builder().workers(workers).policy("adws");
        // A sanitizer makes frames several times as large.
        let pool = match cfg!(sanitized) {
            true => pool.stack_size(32 << 20),
            false => pool,
        };
        let pool = pool.build().expect("a pool");
        let ran = AtomicUsize::new(0);
        let leaf = || _ = ran.fetch_add(1, Ordering::Relaxed);
        fork::install(&pool, || comb(2_000, &leaf));
        fork::install(&pool, || left(2_000, &leaf));
        assert_eq!(ran.into_inner(), 4_000);
    }
}

#[test]
fn a_job_from_outside_does_not_wait_for_a_long_closure() {
    let pool = pool(2);
    let small_jobs_before = || {
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let (ran, before) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let start = ran.load(Ordering::SeqCst);
                let end = fork::install(&pool, || ran.load(Ordering::SeqCst));
                before.store(end - start, Ordering::SeqCst);
                ended.store(true, Ordering::SeqCst);
            });
            fork::install(&pool, || {
                // The worker finds nothing and goes on: it does not look again before the closure has ended. The other one has small jobs
                // to do meanwhile.
                fork::yield_now();
                let start = Instant::now();
                fork::scope(|scope| {
                    let mut spawned = 0;
                    while !ended.load(Ordering::SeqCst) {
                        // One at a time: while jobs of a pool lie there, those from outside wait under every policy.
                        if ran.load(Ordering::SeqCst) == spawned {
                            scope.spawn(|_| _ = ran.fetch_add(1, Ordering::SeqCst));
                            spawned += 1;
                        }
                        let is_busy = start.elapsed() > Duration::from_millis(1);
                        begun.store(is_busy, Ordering::SeqCst);
                        let next = Instant::now() + Duration::from_micros(2);
                        while Instant::now() < next {
                            std::hint::spin_loop();
                        }
                    }
                });
            });
        });
        before.into_inner()
    };
    let mut before: Vec<usize> = (0..21).map(|_| small_jobs_before()).collect();
    before.sort_unstable();
    // Thousands run in most rounds if the job waits until the worker finds nothing for long, and some ten if it does not.
    assert!(before[10] < 1000, "{before:?}");
}

#[test]
fn trees_from_outside_do_not_nest() {
    const TREES: usize = 4_000;
    for workers in [2, 4] {
        let pool = pool(workers);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..TREES {
            let ended = ended.clone();
            fork::spawn_in(&pool, move || {
                let short = || {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(10) {
                        std::hint::spin_loop();
                    }
                };
                fork::join(|| (), || fork::join(|| (), short));
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        while ended.load(Ordering::SeqCst) < TREES {
            std::thread::yield_now();
        }
    }
}

/// Calls `then` with 1.65 MiB of the stack below `top` used up: more than three quarters of the usual 2 MiB.
#[inline(never)]
fn deep(top: usize, then: &dyn Fn()) {
    let frame = std::hint::black_box([0_u8; 512]);
    let here = frame.as_ptr().addr();
    match top - here > (1650 << 10) {
        true => then(),
        false => deep(top, then),
    }
    std::hint::black_box(frame);
}

#[test]
fn a_worker_at_the_end_of_its_stack_waits_for_nothing_that_has_not_begun() {
    let pool = pool(2);
    let (blocks, over) = (AtomicBool::new(false), AtomicBool::new(false));
    fork::install(&pool, || {
        fork::scope(|scope| {
            // The other worker is busy until the join has ended.
            scope.spawn(|_| {
                blocks.store(true, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            });
            while !blocks.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let top = 0_u8;
            deep(std::ptr::from_ref(&top).addr(), &|| {
                assert_eq!(fork::join(|| 1, || 2), (1, 2));
            });
            over.store(true, Ordering::SeqCst);
        });
    });
}
