//! What a worker costs that has nothing to do although threads are there.
#![cfg(not(any(loom, shuttle, miri)))]
#![allow(
    unsafe_code,
    reason = "the clock of an OS thread is a call of the system"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tanada_runtime::thread::{self, Builder, Queues, Runnable, Scheduler};
use tanada_runtime::{Pool, fork};

/// Returns the processor time of this OS thread.
fn processor_time() -> Duration {
    // SAFETY: the call fills the value, and has no other effect.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Waits without a word to the runtime.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

const LONG: Duration = Duration::from_millis(400);

/// A scheduler that leaves all threads in the queue until it is told otherwise.
struct Declines {
    takes: Arc<AtomicBool>,
    /// How often it was asked, and the processor time of the worker at the first and the last time, in nanoseconds.
    asked: Arc<[AtomicU64; 3]>,
}

impl Scheduler for Declines {
    fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        if self.takes.load(SeqCst) {
            return queues.pop();
        }
        let now = processor_time().as_nanos() as u64;
        if self.asked[0].fetch_add(1, SeqCst) == 0 {
            self.asked[1].store(now, SeqCst);
        }
        self.asked[2].store(now, SeqCst);
        None
    }

    fn steal(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        None
    }
}

#[test]
fn idle_workers_whose_scheduler_declines_sleep_and_look_again() {
    let (takes, asked) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(Default::default()),
    );
    let scheduler = Declines {
        takes: Arc::clone(&takes),
        asked: Arc::clone(&asked),
    };
    let pool = Pool::builder()
        .workers(1)
        .thread_scheduler(scheduler)
        .build()
        .unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let (inside, takes_no_more) = (Arc::clone(&ran), Arc::clone(&takes));
    let parent = Builder::new().pool(&pool).spawn(move || {
        takes_no_more.store(false, SeqCst);
        drop(thread::spawn(move || inside.store(true, SeqCst)));
    });
    parent.unwrap().join().unwrap();
    std::thread::sleep(LONG);
    let before = asked[0].load(SeqCst);
    let used = Duration::from_nanos(asked[2].load(SeqCst) - asked[1].load(SeqCst));
    until(|| asked[0].load(SeqCst) > before);
    let ran_before = ran.load(SeqCst);
    takes.store(true, SeqCst);
    until(|| ran.load(SeqCst));
    assert!(!ran_before);
    assert!(used < LONG / 4, "{used:?} of {LONG:?}");
}

/// Two threads of one worker wait for forks that other workers run for long.
#[test]
fn idle_threads_that_wait_for_forks_do_not_keep_their_worker_busy() {
    fn wait_for_a_fork(taken: &Arc<AtomicU32>) {
        let mine = AtomicBool::new(false);
        fork::join(
            || until(|| mine.load(SeqCst)),
            || {
                mine.store(true, SeqCst);
                taken.fetch_add(1, SeqCst);
                until(|| taken.load(SeqCst) == 2);
                std::thread::sleep(LONG);
            },
        );
    }
    let pool = Pool::builder().workers(3).build().unwrap();
    let root = Builder::new().pool(&pool).spawn(|| {
        // The other workers are busy until both threads have started here.
        let (busy, free) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (busy, free) = (Arc::clone(&busy), Arc::clone(&free));
                thread::spawn(move || {
                    busy.fetch_add(1, SeqCst);
                    until(|| free.load(SeqCst));
                })
            })
            .collect();
        until(|| busy.load(SeqCst) == 2);
        let (taken, started) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (other_taken, other_started) = (Arc::clone(&taken), Arc::clone(&started));
        let here = std::thread::current().id();
        let other = thread::spawn(move || {
            assert_eq!(std::thread::current().id(), here);
            other_started.store(true, SeqCst);
            thread::yield_now();
            wait_for_a_fork(&other_taken);
        });
        while !started.load(SeqCst) {
            thread::yield_now();
        }
        free.store(true, SeqCst);
        let (begun, before) = (Instant::now(), processor_time());
        wait_for_a_fork(&taken);
        let (time, used) = (begun.elapsed(), processor_time() - before);
        other.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(time >= LONG, "{time:?}");
        assert!(used < LONG / 4, "{used:?} of {time:?}");
    });
    root.unwrap().join().unwrap();
}

/// Adopts one of two workers, which creates a thread, calls `wait`, and lets the pool go. Returns once the thread has run and the pool has
/// ended. The other worker runs from the beginning if it `helps`, else only at the end.
fn adopt_and_let_go(helps: bool, wait: fn(&AtomicBool)) {
    let (ended, end) = std::sync::mpsc::channel();
    let adopted = std::thread::spawn(move || {
        let (pool, workers) = Pool::builder().workers(2).build_threads().expect("a pool");
        let mut workers = workers.into_iter();
        workers.next().expect("worker 0").adopt();
        let other = workers.next().expect("worker 1");
        let run_other = move || {
            std::thread::spawn(move || {
                other.run();
                ended.send(()).expect("the test waits");
            });
        };
        let mut late = Some(run_other);
        if helps && let Some(run) = late.take() {
            run();
        }
        let ran = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&ran);
        drop(thread::spawn(move || inside.store(true, SeqCst)));
        wait(&ran);
        if let Some(run) = late {
            run();
        }
        until(|| ran.load(SeqCst));
        drop(pool);
    });
    adopted.join().unwrap();
    end.recv_timeout(Duration::from_secs(20))
        .expect("the pool ends");
}

/// An adopted worker creates a thread, and never waits.
#[test]
fn a_pool_ends_although_an_adopted_worker_has_created_threads() {
    adopt_and_let_go(true, |ran| until(|| ran.load(SeqCst)));
}

/// An adopted worker leaves its threads to others: what they have on their stacks may be lent, and its OS thread may end.
#[test]
fn an_adopted_worker_runs_no_threads_and_a_pool_ends_although_it_has_created_some() {
    adopt_and_let_go(false, |ran| {
        thread::sleep(Duration::from_millis(20));
        thread::yield_now();
        assert!(!ran.load(SeqCst));
    });
}
