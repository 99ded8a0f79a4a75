//! Counting open tasks under loom, every interleaving of a few operations.
//! `RUSTFLAGS="--cfg loom" cargo test -p tanada-openmp --test loom_count`
#![cfg(loom)]

#[allow(dead_code, unused_imports)]
#[path = "../src/tasks/sync.rs"]
mod sync;

#[path = "../src/tasks/count.rs"]
mod count;

use count::{Counts, nothing_open};
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU64, Ordering};

/// One thread runs a task that makes another, which a second thread runs. A third one never finds that nothing is open before both
/// have ended, and what these did has then happened for it.
#[test]
fn nothing_is_open_only_when_all_tasks_have_ended() {
    loom::model(|| {
        let counts: Arc<[Counts; 2]> = Arc::default();
        let (outside, handed, done) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(0)),
        );
        counts[0].created(); // the first task, before the threads come to the barrier
        let looks = thread::spawn({
            let (counts, outside, done) =
                (Arc::clone(&counts), Arc::clone(&outside), Arc::clone(&done));
            move || {
                if nothing_open(&outside, counts.iter()) {
                    assert_eq!(done.load(Ordering::Relaxed), 1);
                }
            }
        });
        let runs = thread::spawn({
            let (counts, handed, done) =
                (Arc::clone(&counts), Arc::clone(&handed), Arc::clone(&done));
            move || {
                if handed.load(Ordering::Acquire) == 1 {
                    done.store(1, Ordering::Relaxed);
                    counts[1].ended();
                }
            }
        });
        counts[0].created();
        handed.store(1, Ordering::Release);
        counts[0].ended();
        looks.join().unwrap();
        runs.join().unwrap();
        assert_eq!(
            nothing_open(&outside, counts.iter()),
            done.load(Ordering::Relaxed) == 1
        );
    });
}

/// A task that a thread outside of the team ends.
#[test]
fn a_task_that_ends_outside_is_open_until_then() {
    loom::model(|| {
        let counts: Arc<[Counts; 1]> = Arc::default();
        let (outside, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        counts[0].created();
        let fulfills = thread::spawn({
            let (outside, done) = (Arc::clone(&outside), Arc::clone(&done));
            move || {
                done.store(1, Ordering::Relaxed);
                outside.fetch_add(1, Ordering::AcqRel);
            }
        });
        if nothing_open(&outside, counts.iter()) {
            assert_eq!(done.load(Ordering::Relaxed), 1);
        }
        fulfills.join().unwrap();
        assert!(nothing_open(&outside, counts.iter()));
    });
}
