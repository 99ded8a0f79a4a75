//! Who is hungry, under shuttle: no worker sleeps while another one's limit lets forks be plain, no fork that was announced is overlooked,
//! and no wake-up of a worker that waits for its fork is lost, in any interleaving that was tried.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_forks`.
#![cfg(shuttle)]

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{Runner, thread};
use tanada_runtime::fork::demand::{Demand, WINDOW};
use tanada_runtime::fork::reach::{Base, Reach};
use tanada_runtime::sleep::{Sleep, Woke};

/// A worker's stack address; any above `NEAR`.
const SP: usize = 1 << 20;

struct Pool {
    sleep: Sleep,
    demand: Demand,
    /// Forks that thieves can take.
    forks: AtomicUsize,
    /// Forks that have run.
    ran: AtomicUsize,
    /// Whether the owner's fork has run: its latch.
    done: AtomicBool,
}

impl Pool {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Pool {
            sleep: Sleep::new(workers),
            demand: Demand::new(workers),
            forks: AtomicUsize::new(0),
            ran: AtomicUsize::new(0),
            done: AtomicBool::new(false),
        })
    }

    fn take(&self) -> bool {
        let less = |forks: usize| forks.checked_sub(1);
        self.forks.fetch_update(SeqCst, SeqCst, less).is_ok()
    }

    /// As `WorkerCore::push_base`, at the stack address `sp`.
    fn push(&self, me: usize, sp: usize, reach: &Reach) -> Option<Base> {
        let kept = self.forks.fetch_add(1, SeqCst) + 1;
        match self.demand.announce(&self.sleep) && self.demand.wants_more(|| kept, &self.sleep) {
            true => None,
            false => self.demand.set(me, sp, kept, reach, &self.sleep),
        }
    }

    /// As `Worker::search`, of a worker that runs forks. Returns when the pool closes.
    fn work(&self, me: usize, ends: impl Fn(usize)) {
        loop {
            if self.take() {
                // As `WorkerCore::steal_more`: of two that it catches, one lies in its own deque.
                if self.take() {
                    self.forks.fetch_add(1, SeqCst);
                }
                let left = || self.forks.load(SeqCst) > 0;
                self.demand.leave(&self.sleep, me, &self.sleep, left);
                let ran = self.ran.fetch_add(1, SeqCst) + 1;
                ends(ran);
                self.sleep.begin_search(me);
                continue;
            }
            self.demand.request(me);
            let woke = self.sleep.doze(me, || {
                self.demand.request(me);
                self.forks.load(SeqCst) > 0
            });
            if woke == Woke::Close {
                return;
            }
        }
    }

    fn enter(&self, me: usize) {
        self.sleep.enter(me);
        self.demand.waits.enter(me);
    }
}

/// Worker 0 is busy and keeps `forks` forks, each far below the one before, while worker 1 goes to sleep; then the inner ones end. Once the
/// other one sleeps, the limit of worker 0 is 0, or worker 0 has announced a fork and so wakes it: it never sleeps for good beside plain
/// forks.
fn request(forks: usize) {
    let pool = Pool::new(2);
    pool.enter(0);
    let other = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || {
            pool.enter(1);
            pool.sleep.begin_search(1);
            pool.work(1, |_| ());
        })
    };
    // Nobody may be hungry yet: then these become bases.
    let reach = Reach::new(false);
    let push = |depth| pool.push(0, SP - depth * 2 * WINDOW, &reach);
    let mut bases: Vec<Option<Base>> = (0..forks).map(push).collect();
    for base in bases.drain(1..).rev().flatten() {
        let kept = || pool.forks.load(SeqCst);
        pool.demand.clear(0, base, kept, &reach, &pool.sleep);
    }
    while !pool.sleep.is_anyone_idle() {
        thread::yield_now();
    }
    // The other worker is hungry, so sooner or later it, or this one, has stored 0.
    while pool.demand.limit(0).load(SeqCst) != 0 {
        thread::yield_now();
    }
    // What the next `join` does. It must be run, whatever the other worker does now.
    push(0);
    while pool.ran.load(SeqCst) < forks + 1 {
        thread::yield_now();
    }
    pool.sleep.close();
    other.join().expect("a worker that ends");
}

/// Worker 0 waits for its fork, which worker 1 runs; worker 1 makes two forks that must meet, so that worker 0 has to run one while it
/// waits.
fn help() {
    let pool = Pool::new(2);
    let meeting = Arc::new(shuttle::sync::Barrier::new(2));
    let other = {
        let (pool, meeting) = (Arc::clone(&pool), Arc::clone(&meeting));
        thread::spawn(move || {
            pool.enter(1);
            // It has stolen the fork, and forks itself.
            pool.push(1, SP, &Reach::new(false));
            meeting.wait();
            pool.done.store(true, SeqCst);
            pool.demand.waits.wake_if_asleep(0);
        })
    };
    // Behind the other thread: a schedule that prefers the first thread would let a thread that parks wake up by itself for ever.
    let waiter = thread::spawn(move || {
        pool.enter(0);
        // As `WorkerCore::help_until`.
        let waits = &pool.demand.waits;
        let leave = || {
            let left = || pool.forks.load(SeqCst) > 0;
            pool.demand.leave(waits, 0, &pool.sleep, left);
        };
        waits.begin_search(0);
        while !pool.done.load(SeqCst) {
            if pool.take() {
                leave();
                meeting.wait();
                waits.begin_search(0);
                continue;
            }
            pool.demand.request(0);
            waits.doze(0, || {
                pool.demand.request(0);
                pool.done.load(SeqCst) || pool.forks.load(SeqCst) > 0
            });
        }
        leave();
    });
    waiter.join().expect("a worker that ends");
    other.join().expect("a worker that ends");
}

/// Several workers of both kinds, and as many forks that must all run although their makers wait for them.
fn all_run(workers: usize, total: usize) {
    let pool = Pool::new(workers);
    pool.enter(0);
    let threads: Vec<_> = (1..workers)
        .map(|me| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                pool.enter(me);
                pool.sleep.begin_search(me);
                let ends = |ran| {
                    if ran == total {
                        pool.done.store(true, SeqCst);
                        pool.demand.waits.wake_if_asleep(0);
                    }
                };
                pool.work(me, ends);
            })
        })
        .collect();
    let reach = Reach::new(false);
    for _ in 0..total {
        if let Some(before) = pool.push(0, SP, &reach) {
            let kept = || pool.forks.load(SeqCst);
            pool.demand.clear(0, before, kept, &reach, &pool.sleep);
        }
    }
    pool.demand.waits.begin_search(0);
    while !pool.done.load(SeqCst) {
        // It runs none itself: the others must not rely on it.
        pool.demand.waits.doze(0, || pool.done.load(SeqCst));
    }
    pool.demand.leave(&pool.demand.waits, 0, &pool.sleep, || {
        pool.forks.load(SeqCst) > 0
    });
    assert_eq!(pool.ran.load(SeqCst), total);
    pool.sleep.close();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

/// The only worker is woken for a job that waits for a fork, while another thread tries to wake it for a task and may come too late.
/// `makes_up`: as `PoolShared::make_up_for_late`.
fn late(makes_up: bool) {
    let pool = Pool::new(1);
    let (task, job) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let make_task = {
        let (pool, task) = (Arc::clone(&pool), Arc::clone(&task));
        thread::spawn(move || {
            task.store(true, SeqCst);
            pool.sleep.wake_anyone();
            let late = pool.sleep.takes_late() | pool.demand.waits.takes_late();
            if makes_up && late && pool.forks.load(SeqCst) > 0 {
                pool.demand.announce(&pool.sleep);
            }
        })
    };
    let make_job_and_fork = {
        let (pool, job) = (Arc::clone(&pool), Arc::clone(&job));
        thread::spawn(move || {
            job.store(true, SeqCst);
            pool.sleep.wake_if_asleep(0);
            pool.forks.fetch_add(1, SeqCst);
            pool.demand.announce(&pool.sleep);
        })
    };
    let worker = thread::spawn(move || {
        pool.enter(0);
        pool.sleep.begin_search(0);
        // It takes no fork before it has the job: else nothing is shown.
        while !job.load(SeqCst) {
            let may_have = || job.load(SeqCst) || task.swap(false, SeqCst);
            pool.sleep.doze(0, may_have);
        }
        let left = || pool.forks.load(SeqCst) > 0;
        pool.demand.leave(&pool.sleep, 0, &pool.sleep, left);
        let waits = &pool.demand.waits;
        waits.begin_search(0);
        while !pool.take() {
            waits.doze(0, || pool.forks.load(SeqCst) > 0);
        }
    });
    for thread in [make_task, make_job_and_fork, worker] {
        thread.join().expect("a thread that ends");
    }
}

fn explore(scenario: fn()) {
    Runner::new(DfsScheduler::new(Some(20_000), false), Default::default()).run(scenario);
    Runner::new(RandomScheduler::new(20_000), Default::default()).run(scenario);
    Runner::new(PctScheduler::new(3, 5_000), Default::default()).run(scenario);
}

#[test]
fn no_request_is_lost() {
    // Threads that wait by looking need a fair scheduler.
    Runner::new(RandomScheduler::new(40_000), Default::default()).run(|| request(1));
    Runner::new(RandomScheduler::new(40_000), Default::default()).run(|| request(3));
}

#[test]
fn a_waiting_worker_helps_and_is_woken() {
    explore(help);
}

/// It takes three changes of the thread that runs at certain places.
fn explore_late(makes_up: bool) {
    let schedules = PctScheduler::new_from_seed(1, 4, 400_000);
    Runner::new(schedules, Default::default()).run(move || late(makes_up));
}

#[test]
fn a_late_wake_up_for_a_task_hides_no_fork() {
    explore(|| late(true));
    explore_late(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_of_late_wake_ups_finds_what_it_is_for() {
    explore_late(false);
}

#[test]
fn announced_forks_run() {
    Runner::new(RandomScheduler::new(20_000), Default::default()).run(|| all_run(2, 2));
    Runner::new(RandomScheduler::new(10_000), Default::default()).run(|| all_run(3, 3));
}
