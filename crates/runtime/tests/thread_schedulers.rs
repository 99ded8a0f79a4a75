//! The ready-made schedulers of lightweight threads.
#![cfg(not(any(loom, shuttle, miri)))]
#![allow(unsafe_code, reason = "untied threads are created by unsafe functions")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use tanada_runtime::thread::schedulers::{self, ChildFirst, Entry};
use tanada_runtime::thread::sync::Mutex;
use tanada_runtime::thread::{self, Builder, JoinHandle, Queues, Runnable, Scheduler, Why};
use tanada_runtime::{Pool, WorkerId};

fn pool(workers: u32, entry: &Entry) -> Pool {
    let builder = Pool::builder().workers(workers);
    builder.thread_scheduler(entry.make()).build().unwrap()
}

/// Creates a thread that may move.
fn untied<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: what is on the stacks of these tests is `Send`, and nothing refers to a variable of the OS thread.
    unsafe { Builder::new().spawn_untied(body) }.unwrap()
}

fn in_pool<T: Send + 'static>(pool: &Pool, body: impl FnOnce() -> T + Send + 'static) -> T {
    // SAFETY: as above.
    let root = unsafe { Builder::new().pool(pool).spawn_untied(body) };
    root.unwrap().join().unwrap()
}

fn fib(n: u64, tied: bool) -> u64 {
    if n < 2 {
        return n;
    }
    let left = match tied {
        true => thread::spawn(move || fib(n - 1, tied)),
        false => untied(move || fib(n - 1, tied)),
    };
    fib(n - 2, tied) + left.join().unwrap()
}

#[test]
fn each_runs_every_thread_once() {
    for entry in schedulers::ALL {
        assert_eq!(schedulers::find(entry.name).unwrap().name, entry.name);
        for workers in [1, 2, 4, 64] {
            let pool = pool(workers, entry);
            for tied in [true, false] {
                let name = entry.name;
                assert_eq!(in_pool(&pool, move || fib(14, tied)), 377, "{name}");
            }
        }
    }
    assert!(schedulers::find("no such").is_none());
}

#[test]
fn each_lets_threads_yield_and_wait() {
    for entry in schedulers::ALL {
        for workers in [1, 2, 4, 64] {
            let pool = pool(workers, entry);
            let sum = in_pool(&pool, || {
                let (sender, receiver) = thread::sync::bounded(1);
                let senders: Vec<_> = (0..20_u64)
                    .map(|n| {
                        let sender = sender.clone();
                        untied(move || {
                            (0..n).for_each(|_| thread::yield_now());
                            sender.send(n).unwrap();
                        })
                    })
                    .collect();
                drop(sender);
                let sum: u64 = receiver.iter().sum();
                senders
                    .into_iter()
                    .for_each(|sender| sender.join().unwrap());
                sum
            });
            assert_eq!(sum, 190, "{}", entry.name);
        }
    }
}

/// On one worker, child first is the order of a program without threads.
#[test]
fn a_child_runs_before_its_parent_goes_on() {
    fn tree(depth: u32, name: u32, log: &Arc<Mutex<Vec<u32>>>) {
        log.lock().push(name);
        if depth == 0 {
            return;
        }
        let children = [1, 2].map(|n| {
            let (name, child) = (name * 10 + n, Arc::clone(log));
            let child = untied(move || tree(depth - 1, name, &child));
            log.lock().push(name);
            child
        });
        children.into_iter().for_each(|child| child.join().unwrap());
    }
    fn serial(depth: u32, name: u32, log: &mut Vec<u32>) {
        log.push(name);
        if depth > 0 {
            for n in [1, 2] {
                serial(depth - 1, name * 10 + n, log);
                log.push(name * 10 + n);
            }
        }
    }
    let pool = Pool::builder()
        .workers(1)
        .thread_scheduler(ChildFirst)
        .build()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&log);
    in_pool(&pool, move || tree(4, 1, &inside));
    let mut expected = Vec::new();
    serial(4, 1, &mut expected);
    assert_eq!(*log.lock(), expected);
}

/// The child keeps its worker until its parent has gone on with another one.
#[test]
fn another_worker_takes_the_rest_of_a_parent() {
    for workers in [2, 4, 64] {
        let pool = Pool::builder()
            .workers(workers)
            .thread_scheduler(ChildFirst)
            .build()
            .unwrap();
        in_pool(&pool, || {
            let went_on = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&went_on);
            let child = untied(move || {
                while !seen.load(SeqCst) {
                    std::thread::yield_now();
                }
            });
            went_on.store(true, SeqCst);
            child.join().unwrap();
        });
    }
}

/// A tied parent goes on first, and stays.
#[test]
fn a_tied_parent_stays() {
    let pool = Pool::builder()
        .workers(2)
        .thread_scheduler(ChildFirst)
        .build()
        .unwrap();
    let parent = Builder::new().pool(&pool).spawn(|| {
        let here = std::thread::current().id();
        let children: Vec<_> = (0..100).map(|n| untied(move || n)).collect();
        assert_eq!(std::thread::current().id(), here);
        children
            .into_iter()
            .map(|child| child.join().unwrap())
            .sum::<u32>()
    });
    assert_eq!(parent.unwrap().join().unwrap(), 4950);
}

/// With children first, the threads of a loop that are alive at once are few, also if each of them could be created before any runs.
#[test]
fn children_first_keep_few_threads_alive() {
    let pool = Pool::builder()
        .workers(1)
        .thread_scheduler(ChildFirst)
        .build()
        .unwrap();
    let most = in_pool(&pool, || {
        let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..1000)
            .map(|_| {
                let (alive, most) = (Arc::clone(&alive), Arc::clone(&most));
                alive.fetch_add(1, SeqCst);
                untied(move || {
                    most.fetch_max(alive.load(SeqCst), SeqCst);
                    alive.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        most.load(SeqCst)
    });
    assert_eq!(most, 1);
}

/// Runs `busy` on one worker without a scheduler, beside a thread that sets the flag: `busy` asks whether that has run. Returns whether it
/// has in the end.
fn runs_beside(at_the_tail: bool, busy: fn(Arc<AtomicBool>)) -> bool {
    let pool = Pool::builder().workers(1).build().unwrap();
    in_pool(&pool, move || {
        let ran = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&ran);
        // SAFETY: as above.
        let other = unsafe { Builder::new().create_untied(move || inside.store(true, SeqCst)) };
        let (handle, right) = other.unwrap();
        match at_the_tail {
            true => thread::spread([right], 0..1),
            false => right.schedule(),
        }
        busy(Arc::clone(&ran));
        let has_run = ran.load(SeqCst);
        handle.join().unwrap();
        has_run
    })
}

/// So often threads let each other run before a test fails.
const OFTEN: u32 = 100_000;

#[test]
fn a_thread_that_yields_starves_none() {
    let busy = |ran: Arc<AtomicBool>| {
        let mut left = OFTEN;
        while !ran.load(SeqCst) && left > 0 {
            thread::yield_now();
            left -= 1;
        }
    };
    assert!(runs_beside(true, busy));
    assert!(runs_beside(false, busy));
}

/// Each of them is put at the head by the other.
#[test]
fn two_threads_that_unpark_each_other_starve_none() {
    let busy = |ran: Arc<AtomicBool>| {
        let first = thread::current().unwrap();
        let seen = Arc::clone(&ran);
        let second = untied(move || {
            for _ in 0..OFTEN {
                first.unpark();
                if seen.load(SeqCst) {
                    return;
                }
                thread::park();
            }
        });
        for _ in 0..OFTEN {
            if ran.load(SeqCst) {
                break;
            }
            second.thread().unpark();
            thread::park();
        }
        // Whichever ends first leaves the other parked.
        second.thread().unpark();
        second.join().unwrap();
    };
    assert!(runs_beside(true, busy));
    assert!(runs_beside(false, busy));
}

/// Notes why threads became ready, and drops those with the hint 1.
struct Notes(Arc<std::sync::Mutex<Vec<(u16, Why)>>>);

impl Scheduler for Notes {
    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, why: Why) {
        self.0.lock().unwrap().push((thread.digest(), why));
        if thread.digest() != 1 {
            queues.push(thread);
        }
    }
}

#[test]
fn a_scheduler_is_told_of_threads_from_outside() {
    for workers in [1, 2, 8] {
        let notes = Arc::<std::sync::Mutex<Vec<(u16, Why)>>>::default();
        let scheduler = Notes(Arc::clone(&notes));
        let pool = Pool::builder().workers(workers).thread_scheduler(scheduler);
        let pool = pool.build().unwrap();
        // What the scheduler drops runs, too.
        let threads = [0_u16, 1, 2].map(|hint| {
            let builder = Builder::new().pool(&pool).hint(hint);
            // SAFETY: nothing on its stack depends on the OS thread.
            unsafe { builder.spawn_untied(thread::park) }.unwrap()
        });
        for thread in threads {
            // A token remains if it has not parked yet.
            thread.thread().unpark();
            thread.join().unwrap();
        }
        let notes = notes.lock().unwrap();
        let news = notes.iter().filter(|(_, why)| *why == Why::New);
        let mut hints: Vec<_> = news.map(|(hint, _)| *hint).collect();
        hints.sort();
        assert_eq!(hints, [0, 1, 2], "{notes:?}");
    }
}

/// Keeps threads itself, the oldest first, behind a lock that is held in each call, and makes threads ready in some.
struct Locks(Arc<std::sync::Mutex<Held>>);

#[derive(Default)]
struct Held {
    ready: VecDeque<Runnable>,
    /// To be unparked in a call.
    parked: Option<thread::Thread>,
    /// Created in a call.
    created: Vec<JoinHandle<()>>,
    whys: Vec<Why>,
    /// How often a thread was created because the scheduler was asked before its worker slept.
    asked: u32,
    /// How often one was created because another one was new.
    told: u32,
}

impl Locks {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        let held = self.0.try_lock();
        held.expect("no call is made inside of another one")
    }
}

impl Scheduler for Locks {
    fn ready(&self, _queues: &mut Queues<'_>, thread: Runnable, why: Why) {
        let mut held = self.held();
        held.ready.push_back(thread);
        held.whys.push(why);
        if why == Why::New && held.told < 10 {
            held.told += 1;
            held.created.push(thread::spawn(|| ()));
        }
    }

    fn next(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        let mut held = self.held();
        if let Some(thread) = held.parked.take() {
            thread.unpark();
        }
        held.ready.pop_front()
    }

    fn steal(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        None
    }

    fn may_have(&self, _me: WorkerId) -> bool {
        let mut held = self.held();
        if held.asked < 10 {
            held.asked += 1;
            held.created.push(thread::spawn(|| ()));
        }
        !held.ready.is_empty()
    }
}

#[test]
fn a_thread_that_becomes_ready_in_a_call_is_announced_later() {
    let held = Arc::<std::sync::Mutex<Held>>::default();
    let scheduler = Locks(Arc::clone(&held));
    let builder = Pool::builder().workers(1).thread_scheduler(scheduler);
    let after = Arc::clone(&held);
    // The only worker calls the scheduler and runs this, so the lock is free in each call.
    in_pool(&builder.build().unwrap(), move || {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let parks = untied(move || {
            begins.store(true, SeqCst);
            thread::park();
        });
        while !begun.load(SeqCst) {
            thread::yield_now();
        }
        // On one worker, it has parked.
        let mut here = held.lock().unwrap();
        assert!(!here.whys.contains(&Why::Woken));
        here.parked = Some(parks.thread());
        drop(here);
        parks.join().unwrap();
    });
    let mut after = after.lock().unwrap();
    // The thread, and the one that waits for its end.
    let woken = after.whys.iter().filter(|why| **why == Why::Woken);
    assert_eq!(woken.count(), 2);
    let created = std::mem::take(&mut after.created);
    assert_eq!(created.len(), 10 + after.asked as usize);
    drop(after);
    let join = |thread: JoinHandle<()>| thread.join().unwrap();
    created.into_iter().for_each(join);
}

/// Gives each thread to the last worker, and nothing to any other.
struct ToTheLast;

impl Scheduler for ToTheLast {
    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, _why: Why) {
        let last = WorkerId(queues.workers() - 1);
        queues.push_tail(last, thread);
    }

    fn steal(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        None
    }
}

#[test]
fn a_worker_is_woken_for_what_others_push_at_its_tail() {
    for workers in [2, 3, 8] {
        let builder = Pool::builder().workers(workers).thread_scheduler(ToTheLast);
        let pool = builder.build().unwrap();
        for _ in 0..20 {
            // All workers sleep.
            std::thread::sleep(std::time::Duration::from_millis(2));
            let ran = in_pool(&pool, || tanada_runtime::fork::current_worker().unwrap().0);
            assert_eq!(u32::from(ran), workers - 1);
        }
    }
}

/// Keeps threads itself, for any worker.
#[derive(Default)]
struct Shared(std::sync::Mutex<Vec<Runnable>>);

impl Scheduler for Shared {
    fn ready(&self, _queues: &mut Queues<'_>, thread: Runnable, _why: Why) {
        self.0.lock().unwrap().push(thread);
    }

    fn next(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
        self.0.lock().unwrap().pop()
    }

    fn may_have(&self, _me: WorkerId) -> bool {
        !self.0.lock().unwrap().is_empty()
    }
}

fn pool_that_keeps(workers: u32) -> Pool {
    let builder = Pool::builder().workers(workers);
    let builder = builder.thread_scheduler(Shared::default());
    builder.build().unwrap()
}

#[test]
fn no_thread_is_overlooked_that_a_scheduler_keeps_itself() {
    let pool = pool_that_keeps(2);
    in_pool(&pool, || {
        for _ in 0..2_000 {
            let here = tanada_runtime::fork::current_worker();
            let there = Arc::new(AtomicBool::new(false));
            let tells = Arc::clone(&there);
            let other = untied(move || tells.store(true, SeqCst));
            // This worker does not ask the scheduler before the other one has run the thread.
            while !there.load(SeqCst) {
                std::thread::yield_now();
            }
            assert_eq!(here, tanada_runtime::fork::current_worker());
            other.join().unwrap();
        }
    });
}

/// A tied thread that yields lets the scheduler's threads run.
#[test]
fn a_tied_thread_yields_to_what_a_scheduler_keeps() {
    let pool = pool_that_keeps(1);
    let root = Builder::new().pool(&pool).spawn(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        for n in 0..100 {
            let runs = Arc::clone(&ran);
            let _other = thread::spawn(move || runs.fetch_add(1, SeqCst));
            thread::yield_now();
            assert_eq!(ran.load(SeqCst), n + 1);
        }
    });
    root.unwrap().join().unwrap();
}
