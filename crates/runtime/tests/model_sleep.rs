//! The sleep protocol under shuttle: no wake-up is lost in any interleaving that was tried.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_sleep`.
#![cfg(shuttle)]

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{Runner, thread};
use tanada_runtime::sleep::{Sleep, Woke};

struct Pool {
    sleep: Sleep,
    /// Tasks that are available to all.
    tasks: AtomicUsize,
    /// Tasks that ran.
    ran: AtomicUsize,
    total: usize,
    workers: usize,
}

impl Pool {
    fn take(&self) -> bool {
        self.tasks
            .fetch_update(SeqCst, SeqCst, |tasks| tasks.checked_sub(1))
            .is_ok()
    }

    fn push(&self) {
        self.tasks.fetch_add(1, SeqCst);
        self.sleep.wake_anyone();
    }

    fn worker(&self, me: usize, forks: bool) {
        self.sleep.enter(me);
        self.sleep.begin_search(me);
        'search: loop {
            if self.take() {
                self.sleep.end_search(me);
                let mut mine = true;
                while mine {
                    // Whatever the others do now, nothing says that all workers are idle.
                    assert_eq!(self.sleep.idle(), None);
                    assert!(self.sleep.count_idle() < self.workers);
                    // The first task makes the others, as a task that releases successors does.
                    if self.ran.fetch_add(1, SeqCst) == 0 && forks {
                        (1..self.total).for_each(|_| self.push());
                    }
                    if self.ran.load(SeqCst) == self.total {
                        self.sleep.close();
                    }
                    mine = self.take();
                }
                self.sleep.begin_search(me);
                continue 'search;
            }
            if self.sleep.doze(me, || self.tasks.load(SeqCst) > 0) == Woke::Close {
                return;
            }
        }
    }
}

/// Every task runs and every worker ends; a lost wake-up is a deadlock, which shuttle reports.
fn scenario(workers: usize, total: usize, forks: bool) {
    let pool = Arc::new(Pool {
        sleep: Sleep::new(workers),
        tasks: AtomicUsize::new(0),
        ran: AtomicUsize::new(0),
        total,
        workers,
    });
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.worker(me, forks))
        })
        .collect();
    (0..if forks { 1 } else { total }).for_each(|_| pool.push());
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
    assert_eq!(pool.ran.load(SeqCst), total);
}

/// Two tasks that wait for each other need two workers at once: a worker that finds one must see that another worker looks for
/// the other.
fn meeting(workers: usize) {
    let pool = Arc::new(Pool {
        sleep: Sleep::new(workers),
        tasks: AtomicUsize::new(0),
        ran: AtomicUsize::new(0),
        total: 2,
        workers,
    });
    let barrier = Arc::new(shuttle::sync::Barrier::new(2));
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let (pool, barrier) = (Arc::clone(&pool), Arc::clone(&barrier));
            thread::spawn(move || {
                pool.sleep.enter(me);
                pool.sleep.begin_search(me);
                loop {
                    if pool.take() {
                        pool.sleep.end_search(me);
                        barrier.wait();
                        if pool.ran.fetch_add(1, SeqCst) + 1 == pool.total {
                            pool.sleep.close();
                        }
                        pool.sleep.begin_search(me);
                    } else if pool.sleep.doze(me, || pool.tasks.load(SeqCst) > 0) == Woke::Close {
                        return;
                    }
                }
            })
        })
        .collect();
    (0..2).for_each(|_| pool.push());
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

#[test]
fn a_finder_passes_the_wake_up_on() {
    Runner::new(RandomScheduler::new(20_000), Default::default()).run(|| meeting(2));
    Runner::new(PctScheduler::new(3, 20_000), Default::default()).run(|| meeting(3));
}

#[test]
fn exhaustive_one_worker() {
    Runner::new(DfsScheduler::new(Some(200_000), false), Default::default())
        .run(|| scenario(1, 2, false));
}

#[test]
fn exhaustive_two_workers_up_to_a_bound() {
    Runner::new(DfsScheduler::new(Some(200_000), false), Default::default())
        .run(|| scenario(2, 2, false));
}

#[test]
fn random_schedules() {
    for (workers, total, forks) in [(2, 3, false), (3, 4, true), (4, 6, true)] {
        Runner::new(RandomScheduler::new(20_000), Default::default())
            .run(move || scenario(workers, total, forks));
    }
}

#[test]
fn few_preemptions() {
    for depth in 2..5 {
        Runner::new(PctScheduler::new(depth, 10_000), Default::default())
            .run(|| scenario(3, 4, true));
    }
}
