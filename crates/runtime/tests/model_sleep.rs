//! The sleep protocol under shuttle: no wake-up is lost in any interleaving that was tried.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_sleep`.
#![cfg(shuttle)]

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{Runner, thread};
use std::time::Duration;
use tanada_runtime::sleep::{Sleep, Woke};

/// Runs `model` in many interleavings: drawn ones, and such with few changes of the thread that runs.
fn explore(model: impl Fn() + Copy + Send + Sync + 'static) {
    Runner::new(RandomScheduler::new(20_000), Default::default()).run(model);
    for depth in 2..5 {
        Runner::new(PctScheduler::new(depth, 5_000), Default::default()).run(model);
    }
}

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

    /// Makes several tasks available at once.
    fn push_some(&self, tasks: usize) {
        self.tasks.fetch_add(tasks, SeqCst);
        self.sleep.wake_some(tasks);
    }

    fn worker(&self, me: usize, forks: bool) {
        if !self.sleep.enter(me) {
            self.sleep.begin_search(me);
        }
        'search: loop {
            if self.take() {
                self.sleep.end_search(me);
                let mut mine = true;
                while mine {
                    // Whatever the others do now, nothing says that all workers are idle.
                    assert!(self.sleep.idle().any(|worker| worker.is_none()));
                    assert!(self.sleep.count_idle() < self.workers);
                    // The first task makes the others, as a task that releases successors does.
                    if self.ran.fetch_add(1, SeqCst) == 0 && forks {
                        self.push_some(self.total - 1);
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
    late_starts(workers, 0, 0, total, forks);
}

/// As [`scenario`], with workers of which the first `late` start when they are needed; the last `missing` of these do not start.
fn late_starts(workers: usize, late: usize, missing: usize, total: usize, forks: bool) {
    type Threads = shuttle::sync::Mutex<Vec<thread::JoinHandle<()>>>;
    let pool = Arc::new(Pool {
        sleep: Sleep::new(workers),
        tasks: AtomicUsize::new(0),
        ran: AtomicUsize::new(0),
        total,
        workers,
    });
    let threads = Arc::new(Threads::default());
    // Each worker's start is called or dropped: those that are left are pending.
    let pending = Arc::new(AtomicUsize::new(late));
    for me in 0..late {
        let (pool_of_worker, threads, pending) = (
            Arc::clone(&pool),
            Arc::clone(&threads),
            Arc::clone(&pending),
        );
        let start = move |begins: bool| {
            pending.fetch_sub(1, SeqCst);
            if !begins || me + missing >= late {
                return false;
            }
            let worker = thread::spawn(move || pool_of_worker.worker(me, forks));
            threads.lock().unwrap().push(worker);
            true
        };
        pool.sleep.start_later(me, Box::new(start));
    }
    let others: Vec<_> = (late..workers)
        .map(|me| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.worker(me, forks))
        })
        .collect();
    (0..if forks { 1 } else { total }).for_each(|_| pool.push());
    let join = |thread: thread::JoinHandle<()>| thread.join().expect("a worker that ends");
    others.into_iter().for_each(join);
    while pool.ran.load(SeqCst) < total || pending.load(SeqCst) > 0 {
        thread::yield_now();
    }
    let started = std::mem::take(&mut *threads.lock().unwrap());
    started.into_iter().for_each(join);
    assert_eq!(pool.ran.load(SeqCst), total);
}

#[test]
fn workers_that_start_late_lose_no_wake_up() {
    for (workers, late, missing) in [
        (1, 1, 0),
        (2, 2, 0),
        (2, 1, 0),
        (3, 3, 0),
        (3, 3, 2),
        (3, 2, 1),
    ] {
        for (total, forks) in [(2, false), (3, true)] {
            explore(move || late_starts(workers, late, missing, total, forks));
        }
    }
}

/// Two tasks that wait for each other need two workers at once: a worker that finds one must see that another worker looks for
/// the other. Each worker naps `naps` times before it sleeps for long.
fn meeting(workers: usize, naps: usize, push: fn(&Pool)) {
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
                let may_have = || pool.tasks.load(SeqCst) > 0;
                let mut naps = naps;
                loop {
                    if pool.take() {
                        pool.sleep.end_search(me);
                        barrier.wait();
                        if pool.ran.fetch_add(1, SeqCst) + 1 == pool.total {
                            pool.sleep.close();
                        }
                        pool.sleep.begin_search(me);
                        continue;
                    }
                    let woke = match naps {
                        0 => pool.sleep.doze(me, may_have),
                        _ => pool.sleep.nap(me, Duration::ZERO, may_have),
                    };
                    if woke == Woke::Close {
                        return;
                    }
                    naps = naps.saturating_sub(1);
                }
            })
        })
        .collect();
    push(&pool);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

/// Tasks that all wait for each other, made available by one call after all workers have fallen asleep: each worker is woken by that call,
/// since a worker that finds its task wakes nobody before the others have come.
fn woken_at_once(workers: usize) {
    let pool = Arc::new(Pool {
        sleep: Sleep::new(workers),
        tasks: AtomicUsize::new(0),
        ran: AtomicUsize::new(0),
        total: workers,
        workers,
    });
    let barrier = Arc::new(shuttle::sync::Barrier::new(workers));
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let (pool, barrier) = (Arc::clone(&pool), Arc::clone(&barrier));
            thread::spawn(move || {
                pool.sleep.enter(me);
                pool.sleep.begin_search(me);
                while !pool.take() {
                    if pool.sleep.doze(me, || pool.tasks.load(SeqCst) > 0) == Woke::Close {
                        return;
                    }
                }
                barrier.wait();
            })
        })
        .collect();
    // A worker that sleeps goes on sleeping, so it does not matter that each is asked at another time.
    let asleep = |worker: Option<tanada_runtime::sleep::Idle>| worker.is_some_and(|w| w.asleep);
    while !pool.sleep.idle().all(asleep) {
        thread::yield_now();
    }
    pool.push_some(workers);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

/// Every task runs although `widths` are set one after the other meanwhile, by a thread that is no worker, and the last of them stays.
/// Tasks run on active workers; after the last change a worker that is not active takes at most the task that it was about to take.
fn resizing(workers: usize, total: usize, widths: &'static [usize]) {
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
            thread::spawn(move || pool.governed_worker(me))
        })
        .collect();
    let governor = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || widths.iter().for_each(|&width| pool.sleep.set_width(width)))
    };
    (0..total).for_each(|_| pool.push());
    governor.join().expect("a governor that ends");
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
    assert_eq!(pool.ran.load(SeqCst), total);
}

impl Pool {
    /// As the worker loop of a pool with a governor.
    fn governed_worker(&self, me: usize) {
        self.sleep.enter(me);
        self.sleep.begin_search(me);
        loop {
            if !self.sleep.is_active(me) {
                if self.sleep.park(me, || false) == Woke::Close {
                    return;
                }
            } else if self.take() {
                self.sleep.end_search(me);
                loop {
                    if self.ran.fetch_add(1, SeqCst) + 1 == self.total {
                        self.sleep.close();
                    }
                    if !self.sleep.is_active(me) || !self.take() {
                        break;
                    }
                }
                self.sleep.begin_search(me);
            } else if self.sleep.doze(me, || self.tasks.load(SeqCst) > 0) == Woke::Close {
                return;
            }
        }
    }
}

#[test]
fn no_wake_up_is_lost_while_the_width_changes() {
    let cases: [(usize, usize, &[usize]); 4] = [
        (2, 2, &[1]),
        (2, 3, &[1, 2]),
        (3, 3, &[1, 3, 2]),
        (3, 4, &[2, 1, 2, 1]),
    ];
    for (workers, total, widths) in cases {
        explore(move || resizing(workers, total, widths));
    }
}

/// Two tasks that wait for each other, in a pool that becomes narrower and then wider: a worker that becomes active must look for the
/// second one, whether it has parked already or is about to.
fn meeting_while_widening(workers: usize, widths: &'static [usize]) {
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
                    if !pool.sleep.is_active(me) {
                        if pool.sleep.park(me, || false) == Woke::Close {
                            return;
                        }
                    } else if pool.take() {
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
    let governor = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || widths.iter().for_each(|&width| pool.sleep.set_width(width)))
    };
    (0..2).for_each(|_| pool.push());
    governor.join().expect("a governor that ends");
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

#[test]
fn a_worker_that_becomes_active_looks_for_tasks() {
    let cases: [(usize, &[usize]); 3] = [(2, &[1, 2]), (3, &[1, 2]), (3, &[2, 1, 3])];
    for (workers, widths) in cases {
        explore(move || meeting_while_widening(workers, widths));
    }
}

#[test]
fn exhaustive_narrowing_up_to_a_bound() {
    Runner::new(DfsScheduler::new(Some(200_000), false), Default::default())
        .run(|| resizing(2, 2, &[1]));
}

#[test]
fn a_finder_passes_the_wake_up_on() {
    for naps in 0..3 {
        let random = RandomScheduler::new(20_000);
        Runner::new(random, Default::default()).run(move || meeting(2, naps, twice));
        let pct = PctScheduler::new(3, 20_000);
        Runner::new(pct, Default::default()).run(move || meeting(3, naps, twice));
    }
}

fn twice(pool: &Pool) {
    (0..2).for_each(|_| pool.push());
}

fn at_once(pool: &Pool) {
    pool.push_some(2);
}

#[test]
fn tasks_that_come_together_are_found() {
    for naps in 0..3 {
        let random = RandomScheduler::new(20_000);
        Runner::new(random, Default::default()).run(move || meeting(2, naps, at_once));
        let pct = PctScheduler::new(3, 20_000);
        Runner::new(pct, Default::default()).run(move || meeting(3, naps, at_once));
    }
}

#[test]
fn one_call_wakes_a_worker_for_each_task() {
    for workers in [2, 3] {
        Runner::new(RandomScheduler::new(5_000), Default::default())
            .run(move || woken_at_once(workers));
    }
}

/// A thread that parks unless the pool stands still learns of the end of all work: otherwise shuttle reports a deadlock.
fn watching(workers: usize, total: usize) {
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
            thread::spawn(move || {
                pool.sleep.enter(me);
                pool.sleep.begin_search(me);
                loop {
                    if pool.take() {
                        pool.sleep.end_search(me);
                        // The first task waits for a moment.
                        if pool.ran.fetch_add(1, SeqCst) == 0 {
                            pool.sleep.begin_wait();
                            thread::yield_now();
                            pool.sleep.end_wait();
                        }
                        pool.sleep.begin_search(me);
                    } else if pool.sleep.doze(me, || pool.tasks.load(SeqCst) > 0) == Woke::Close {
                        return;
                    }
                }
            })
        })
        .collect();
    let watcher = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || {
            let watching = pool.sleep.watch();
            assert!(watching.is_some());
            while pool.ran.load(SeqCst) < pool.total || !pool.sleep.stands_still() {
                match pool.sleep.stands_still() {
                    true => thread::yield_now(),
                    false => thread::park(),
                }
            }
            pool.sleep.close();
        })
    };
    (0..total).for_each(|_| pool.push());
    watcher.join().expect("a watcher that ends");
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

#[test]
fn a_standstill_is_told() {
    for (workers, total) in [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)] {
        explore(move || watching(workers, total));
    }
}

/// A pool closes in turn while its workers fall asleep or sleep, and one of them may be inactive and parked: all end. `close_in_turn` is
/// called by a thread outside, or by a worker that has run the last task.
fn closing(workers: usize, width: usize, by_worker: bool) {
    let sleep = Arc::new(Sleep::new(workers));
    let tasks = Arc::new(AtomicUsize::new(usize::from(by_worker)));
    sleep.set_width(width);
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let (sleep, tasks) = (Arc::clone(&sleep), Arc::clone(&tasks));
            thread::spawn(move || {
                sleep.enter(me);
                sleep.begin_search(me);
                loop {
                    if !sleep.is_active(me) {
                        match sleep.park(me, || false) {
                            Woke::Close => return,
                            Woke::Search => continue,
                        }
                    }
                    if tasks
                        .fetch_update(SeqCst, SeqCst, |tasks| tasks.checked_sub(1))
                        .is_ok()
                    {
                        sleep.end_search(me);
                        sleep.close_in_turn();
                        sleep.begin_search(me);
                    }
                    if sleep.doze(me, || tasks.load(SeqCst) > 0) == Woke::Close {
                        return;
                    }
                }
            })
        })
        .collect();
    match by_worker {
        true => sleep.wake_anyone(),
        false => sleep.close_in_turn(),
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
}

#[test]
fn a_pool_that_closes_in_turn_wakes_all() {
    for by_worker in [false, true] {
        explore(move || closing(2, 2, by_worker));
        explore(move || closing(4, 4, by_worker));
        explore(move || closing(3, 1, by_worker));
    }
}

#[test]
fn exhaustive_closing_up_to_a_bound() {
    Runner::new(DfsScheduler::new(Some(200_000), false), Default::default())
        .run(|| closing(2, 2, false));
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
