//! Countdowns counted by worker, under shuttle: what is counted ends once, and not before all has ended.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_held`.
#![cfg(shuttle)]
#![allow(unsafe_code, reason = "the contract of `Settle` is kept by hand")]

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Mutex};
use shuttle::{Runner, thread};
use tanada_runtime::held::{Countdown, Held, Settle};

/// A run whose tasks register others: a task of height h registers `width` tasks of height h - 1.
struct Run {
    countdown: Countdown,
    /// Heights of ready tasks.
    ready: Mutex<Vec<u32>>,
    ran: AtomicUsize,
    ended: AtomicUsize,
    width: usize,
    total: usize,
}

/// What a worker of the test is. It has nothing but what it holds.
struct Worker {
    held: Held<Worker>,
}

const SETTLE: Settle<Worker> = |of, units, _| {
    // SAFETY: `worker` below passes its runs, which live as long as the test.
    unsafe { &*of.cast::<Run>() }.end(units);
};

impl Run {
    fn new(height: u32, width: usize) -> Self {
        Run {
            countdown: Countdown::default(),
            ready: Mutex::new(vec![height]),
            ran: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            width,
            total: (0..=height).map(|level| width.pow(level)).sum(),
        }
    }

    fn end(&self, units: usize) {
        if self.countdown.end(units) {
            assert_eq!(self.ended.fetch_add(1, SeqCst), 0, "a run ends once");
            assert_eq!(self.ran.load(SeqCst), self.total, "ended too early");
        }
    }

    fn of(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Runs a ready task, if there is one.
    fn step(&self, worker: &Worker) -> bool {
        let Some(height) = self.ready.lock().unwrap().pop() else {
            return false;
        };
        if worker.held.is_of_another(self.of()) {
            worker.held.settle(worker);
        }
        for _ in 0..if height > 0 { self.width } else { 0 } {
            // SAFETY: the run lives as long as the test.
            unsafe {
                let countdown = &self.countdown;
                worker.held.add(self.of(), countdown, 1, SETTLE, worker);
            }
            self.ready.lock().unwrap().push(height - 1);
        }
        self.ran.fetch_add(1, SeqCst);
        // SAFETY: as above.
        unsafe { worker.held.hold(self.of(), 1, SETTLE, worker) };
        true
    }
}

/// `workers` threads run all tasks of all `runs`. A worker that finds none settles, as before a sleep, and looks once more; what it does
/// not see then, the worker that makes it ready runs.
fn scenario(workers: usize, runs: &'static [(u32, usize)]) {
    let runs = Arc::new(Vec::from_iter(runs.iter().map(|&(h, w)| Run::new(h, w))));
    runs.iter().for_each(|run| run.countdown.start(1));
    let work = |runs: Arc<Vec<Run>>| {
        let worker = Worker {
            held: Held::default(),
        };
        for _ in 0..2 {
            while runs.iter().any(|run| run.step(&worker)) {}
            worker.held.settle(&worker);
            assert!(!worker.held.is_some());
        }
    };
    let threads = Vec::from_iter((0..workers).map(|_| {
        let runs = Arc::clone(&runs);
        thread::spawn(move || work(runs))
    }));
    for thread in threads {
        thread.join().expect("a worker that ends");
    }
    for run in runs.iter() {
        assert_eq!((run.ended.load(SeqCst), run.countdown.left()), (1, 0));
    }
}

#[test]
fn runs_end_once_and_not_too_early() {
    let cases: [(usize, &[(u32, usize)]); 4] = [
        (2, &[(1, 3)]),
        (3, &[(2, 2)]),
        (2, &[(1, 2), (2, 1)]),
        (3, &[(3, 1), (1, 4), (0, 1)]),
    ];
    for (workers, runs) in cases {
        Runner::new(RandomScheduler::new(10_000), Default::default())
            .run(move || scenario(workers, runs));
        for depth in 2..5 {
            Runner::new(PctScheduler::new(depth, 3_000), Default::default())
                .run(move || scenario(workers, runs));
        }
    }
}

#[test]
fn exhaustive_two_workers_up_to_a_bound() {
    Runner::new(DfsScheduler::new(Some(100_000), false), Default::default())
        .run(|| scenario(2, &[(1, 1)]));
}
