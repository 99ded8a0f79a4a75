//! Loops on forks.

use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tanada_runtime::fork::{self, ForkRecorder, for_each};
use tanada_runtime::{Pool, Replay};
use tanada_testing::compute;

fn pool(workers: u32) -> Pool {
    let builder = Pool::builder().workers(workers);
    builder.build().expect("a pool")
}

/// Panics unless a loop over `numbers` calls its body once with each.
fn check(numbers: std::ops::Range<usize>, body: impl Fn(usize) + Sync) {
    let start = numbers.start;
    let calls = Vec::from_iter(numbers.clone().map(|_| AtomicU32::new(0)));
    for_each(numbers, |number| {
        calls[number - start].fetch_add(1, Relaxed);
        body(number);
    });
    assert!(calls.iter().all(|calls| calls.load(Relaxed) == 1));
}

#[test]
fn each_number_comes_once() {
    for workers in [1, 2, 4, 64] {
        let pool = pool(workers);
        fork::install(&pool, || {
            for len in [0, 1, 2, 3, 7, 100, 100_000] {
                check(0..len, |_| ());
            }
            check(usize::MAX - 1_000..usize::MAX, |_| ());
            check(0..300, |_| compute(Duration::from_micros(10)));
            check(0..300, |number| {
                if number % 50 == 0 {
                    compute(Duration::from_micros(300));
                }
            });
        });
    }
}

#[test]
fn a_thread_that_is_no_worker_uses_the_default_pool() {
    let outside = std::thread::current().id();
    for_each(0..10, |_| {
        assert_ne!(std::thread::current().id(), outside);
        assert!(fork::current_worker().is_some());
    });
    for_each(5..5, |_| panic!("there is no number"));
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn a_range_that_ends_before_it_begins_is_empty() {
    for_each(7..3, |_| panic!("there is no number"));
}

/// (Only two numbers may rely on it: the first half of a range is given away before a number has run.)
#[test]
fn two_long_calls_run_at_the_same_time() {
    let pool = pool(2);
    fork::install(&pool, || {
        for _ in 0..50 {
            let met = Barrier::new(2);
            for_each(0..2, |_| _ = met.wait());
        }
    });
}

#[test]
fn an_idle_worker_gets_a_part_of_a_loop_that_has_begun() {
    let pool = pool(2);
    let others = AtomicUsize::new(0);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        fork::install(&pool, || {
            let first = fork::current_worker();
            for_each(0..usize::MAX, |_| {
                if fork::current_worker() != first {
                    others.fetch_add(1, Relaxed);
                }
                // Without another worker, this takes for ever.
                assert_eq!(others.load(Relaxed), 0);
            });
        });
    }));
    assert!(ended.is_err());
}

#[test]
fn loops_nest_in_loops_forks_and_tasks() {
    let pool = pool(3);
    let calls = AtomicUsize::new(0);
    let count = || _ = calls.fetch_add(1, Relaxed);
    fork::install(&pool, || {
        for_each(0..20, |outer| for_each(0..outer, |_| count()));
        fork::join(
            || for_each(0..100, |_| count()),
            || for_each(0..100, |_| _ = fork::join(count, count)),
        );
    });
    assert_eq!(calls.swap(0, Relaxed), 190 + 100 + 200);
    let run = pool.scope(|s| {
        for _ in 0..10 {
            let count = &count;
            s.task("loops")
                .register(move |_| for_each(0..1_000, |_| count()));
        }
    });
    run.expect("a graph that ends");
    assert_eq!(calls.into_inner(), 10_000);
}

#[test]
fn a_panic_goes_on_when_what_has_begun_has_ended() {
    for workers in [1, 2, 8] {
        let pool = pool(workers);
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..20 {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                fork::install(&pool, || {
                    for_each(0..1_000, |number| {
                        begun.fetch_add(1, Relaxed);
                        assert_ne!(number, 700, "seven hundred");
                        ended.fetch_add(1, Relaxed);
                    });
                });
            }));
            let message = panic.expect_err("a panic");
            let message = message.downcast_ref::<String>().expect("a message");
            assert!(message.contains("seven hundred"));
            assert_eq!(begun.load(Relaxed), ended.load(Relaxed) + 1);
            begun.store(0, Relaxed);
            ended.store(0, Relaxed);
        }
        fork::install(&pool, || check(0..1_000, |_| ()));
    }
}

#[test]
fn every_policy_of_forks_runs_loops() {
    for policy in tanada_policy::forks::all() {
        let builder = Pool::builder().workers(3).policy(policy.name);
        let pool = builder.build().expect(policy.name);
        fork::install(&pool, || check(0..10_000, |_| ()));
    }
}

#[test]
fn a_loop_is_measured() {
    let recorder = ForkRecorder::new();
    let builder = Pool::builder().workers(2).record_forks(&recorder);
    let pool = builder.build().expect("a pool");
    fork::install(&pool, || {
        check(0..200, |_| compute(Duration::from_micros(20)))
    });
    drop(pool);
    let profile = recorder.profile();
    assert!(
        profile.joins > 0 && profile.work_ns >= 200 * 20_000,
        "{profile:?}"
    );
}

/// Also of a loop whose forks are all of interest.
#[test]
fn short_calls_are_not_forked_one_by_one() {
    let recorder = ForkRecorder::new();
    let builder = Pool::builder().workers(2).record_forks(&recorder);
    let pool = builder.build().expect("a pool");
    fork::install(&pool, || check(0..100_000, |_| ()));
    drop(pool);
    let joins = recorder.profile().joins;
    assert!(0 < joins && joins < 25_000, "{joins} joins");
}

/// (A worker's turn ends with a task or a wait. So one worker runs the loop.)
#[test]
fn a_schedule_repeats_a_loop() {
    let run = |seed| {
        let replay = Replay::seed(seed);
        let builder = Pool::builder().workers(3).replay(&replay);
        let pool = builder.build().expect("a pool");
        let order = std::sync::Mutex::new(Vec::new());
        fork::install(&pool, || {
            for_each(0..40, |number| {
                let me = fork::current_worker().expect("a worker");
                order.lock().expect("no panic").push((me, number));
            });
        });
        order.into_inner().expect("no panic")
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_range_and_any_lengths(
        start in 0..1_000_usize,
        len in 0..2_000_usize,
        workers in 1..5_u32,
        long in 1..500_usize,
    ) {
        let pool = pool(workers);
        fork::install(&pool, || check(start..start + len, |number| {
            if number % long == 0 {
                compute(Duration::from_micros(5));
            }
        }));
    }
}
