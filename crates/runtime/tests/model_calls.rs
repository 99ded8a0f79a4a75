//! Calls under shuttle: every part runs once, and no wake-up of a worker or of a caller is lost in any interleaving that was tried.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_calls`.
#![cfg(shuttle)]

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{Runner, thread};
use tanada_runtime::calls::{Calls, Latch};
use tanada_runtime::sleep::{Sleep, Woke};

/// A part: what it counts down, and how many calls it makes before, on the last worker: if all made some, each would wake the others sooner
/// or later by the end of its own.
type Part = (Arc<Latch>, usize);

struct Pool {
    sleep: Sleep,
    calls: Calls<Part>,
    tasks: AtomicUsize,
    /// Tasks and parts that ran.
    ran: AtomicUsize,
    refused: AtomicUsize,
    workers: usize,
}

impl Pool {
    fn new(workers: usize, width: usize) -> Arc<Self> {
        let pool = Pool {
            sleep: Sleep::new(workers),
            calls: Calls::new(workers, 1),
            tasks: AtomicUsize::new(0),
            ran: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            workers,
        };
        pool.sleep.set_width(width);
        Arc::new(pool)
    }

    fn is_called(&self, me: usize) -> bool {
        self.calls.waiting(me) != 0
    }

    /// As `WorkerCore::answer`.
    fn answer(&self, me: usize) {
        for _ in 0..self.calls.waiting(me) {
            let Some((latch, nested)) = self.calls.take(me) else {
                break;
            };
            self.ran.fetch_add(1, SeqCst);
            if me + 1 == self.workers {
                (0..nested).for_each(|_| self.call(Some(me), 0));
            }
            latch.count_down();
        }
    }

    /// As `team::part::run`, without the time for which callers spin.
    fn call(&self, me: Option<usize>, nested: usize) {
        let latch = Arc::new(Latch::new(self.workers));
        let part = || (Arc::clone(&latch), nested);
        self.calls
            .post(&self.sleep, 0..self.workers, part, |(latch, _)| {
                self.refused.fetch_add(1, SeqCst);
                latch.count_down();
            });
        while !latch.is_open() {
            match me {
                Some(me) if self.is_called(me) => self.answer(me),
                _ => thread::park(),
            }
        }
        self.calls.end();
    }

    fn push(&self) {
        self.tasks.fetch_add(1, SeqCst);
        self.sleep.wake_anyone();
    }

    fn take(&self) -> bool {
        self.tasks
            .fetch_update(SeqCst, SeqCst, |tasks| tasks.checked_sub(1))
            .is_ok()
    }

    /// As `Worker::work` and `Worker::search`. A task makes a call if `calls`, whose parts make so many.
    fn worker(&self, me: usize, calls: Option<usize>) {
        self.sleep.enter(me);
        self.sleep.begin_search(me);
        loop {
            if self.is_called(me) {
                self.sleep.end_search(me);
                self.answer(me);
                self.sleep.begin_search(me);
            }
            let woke = if !self.sleep.is_active(me) {
                self.sleep.park(me, || self.is_called(me))
            } else if self.take() {
                self.sleep.end_search(me);
                loop {
                    if let Some(nested) = calls {
                        self.call(Some(me), nested);
                    }
                    self.ran.fetch_add(1, SeqCst);
                    let next = self.take();
                    if self.calls.state() != 1 {
                        self.answer(me);
                    }
                    if !next {
                        break;
                    }
                }
                self.sleep.begin_search(me);
                continue;
            } else {
                self.sleep
                    .doze(me, || self.tasks.load(SeqCst) > 0 || self.is_called(me))
            };
            if woke == Woke::Close {
                break;
            }
        }
        for (latch, _) in self.calls.close(me) {
            self.refused.fetch_add(1, SeqCst);
            latch.count_down();
        }
    }
}

/// What happens to a pool: workers and how many of them are active, callers outside, calls that each part makes, and tasks, which make
/// calls if `tasks_call`.
#[derive(Clone, Copy)]
struct Case {
    workers: usize,
    width: usize,
    callers: usize,
    nested: usize,
    tasks: usize,
    tasks_call: bool,
}

fn scenario(case: Case) {
    let pool = Pool::new(case.workers, case.width);
    let spawn = |me| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.worker(me, case.tasks_call.then_some(case.nested)))
    };
    let workers: Vec<_> = (0..case.workers).map(spawn).collect();
    let caller = |_| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.call(None, case.nested))
    };
    let callers: Vec<_> = (0..case.callers).map(caller).collect();
    (0..case.tasks).for_each(|_| pool.push());
    callers
        .into_iter()
        .for_each(|caller| caller.join().expect("a caller that ends"));
    let parts = case.workers * (1 + case.nested);
    let task = if case.tasks_call { 1 + parts } else { 1 };
    let total = case.callers * parts + case.tasks * task;
    while pool.ran.load(SeqCst) < total {
        thread::yield_now();
    }
    pool.sleep.close();
    workers
        .into_iter()
        .for_each(|worker| worker.join().expect("a worker that ends"));
    assert_eq!(pool.ran.load(SeqCst), total);
    assert_eq!(pool.refused.load(SeqCst), 0);
    assert!((0..case.workers).all(|me| !pool.is_called(me)));
    assert_eq!(pool.calls.state(), 1);
}

/// The pool closes while a call is made: every part runs or is refused, and the caller returns.
fn closing(workers: usize) {
    let pool = Pool::new(workers, workers);
    let spawn = |me| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.worker(me, None))
    };
    let threads: Vec<_> = (0..workers).map(spawn).collect();
    let closer = {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.sleep.close())
    };
    pool.call(None, 0);
    closer.join().expect("it ends");
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a worker that ends"));
    assert_eq!(pool.ran.load(SeqCst) + pool.refused.load(SeqCst), workers);
}

const CASES: [Case; 6] = [
    Case {
        workers: 2,
        width: 2,
        callers: 2,
        nested: 0,
        tasks: 0,
        tasks_call: false,
    },
    Case {
        workers: 3,
        width: 1,
        callers: 2,
        nested: 0,
        tasks: 2,
        tasks_call: false,
    },
    Case {
        workers: 2,
        width: 2,
        callers: 1,
        nested: 1,
        tasks: 1,
        tasks_call: false,
    },
    Case {
        workers: 2,
        width: 2,
        callers: 0,
        nested: 0,
        tasks: 2,
        tasks_call: true,
    },
    Case {
        workers: 3,
        width: 3,
        callers: 1,
        nested: 0,
        tasks: 3,
        tasks_call: true,
    },
    Case {
        workers: 2,
        width: 1,
        callers: 1,
        nested: 1,
        tasks: 2,
        tasks_call: true,
    },
];

#[test]
fn random_schedules() {
    for case in CASES {
        Runner::new(RandomScheduler::new(1500), Default::default()).run(move || scenario(case));
    }
    Runner::new(RandomScheduler::new(3000), Default::default()).run(|| closing(2));
}

#[test]
fn chosen_schedules() {
    for case in CASES {
        Runner::new(PctScheduler::new(3, 1500), Default::default()).run(move || scenario(case));
    }
    Runner::new(PctScheduler::new(3, 3000), Default::default()).run(|| closing(2));
}

#[test]
fn the_first_schedules_of_a_small_case_in_order() {
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::ContinueAfter(2000);
    Runner::new(DfsScheduler::new(Some(20_000), false), config).run(|| {
        let pool = Pool::new(1, 1);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.worker(0, None))
        };
        pool.call(None, 0);
        pool.sleep.close();
        worker.join().expect("a worker that ends");
        assert_eq!(pool.ran.load(SeqCst), 1);
    });
}
