//! Lightweight threads, and pools that end before or beside them.
#![cfg(not(any(loom, shuttle, miri)))]
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;
use tanada_runtime::thread::{self, Builder, JoinHandle};
use tanada_runtime::{Pool, WorkerThread, fork};

/// Makes a pool, so that the memory of one that is gone is used again.
fn another_pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

/// Runs the workers, each on an OS thread of its own, and returns when all have ended.
fn run_all(workers: Vec<WorkerThread>) {
    let running: Vec<_> = workers
        .into_iter()
        .map(|worker| std::thread::spawn(|| worker.run()))
        .collect();
    for running in running {
        running.join().unwrap();
    }
}

/// A pool whose workers are never run keeps its memory as long as a thread of it may be made ready.
#[test]
fn a_thread_of_a_pool_without_workers_may_be_scheduled_for_ever() {
    let (pool, workers) = Pool::builder().workers(1).build_threads().unwrap();
    let (_handle, runnable) = Builder::new().pool(&pool).create(|| ()).unwrap();
    drop(workers);
    drop(pool);
    let _next = another_pool();
    runnable.schedule();
}

#[test]
fn what_a_start_handler_makes_runs_although_the_handle_is_gone() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let handler = move |_| {
        let sender = sender.lock().unwrap().clone();
        drop(thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            sender.send(fork::current_worker()).unwrap();
        }));
    };
    let builder = Pool::builder().workers(1).start_handler(handler);
    let (pool, workers) = builder.build_threads().unwrap();
    drop(pool);
    run_all(workers);
    let _next = another_pool();
    assert!(receiver.recv().unwrap().is_some());
}

/// In the exit handler, the pool runs no more threads: they go to the pool of all that is in no other one.
#[test]
fn threads_that_an_exit_handler_makes_run_elsewhere() {
    type Made = (JoinHandle<bool>, JoinHandle<bool>, thread::Runnable);
    let (sender, receiver) = mpsc::channel::<Made>();
    let sender = Mutex::new(sender);
    let handler = move |_| {
        let yields = || {
            let here = std::thread::current().id();
            thread::yield_now();
            std::thread::current().id() == here
        };
        let spawned = thread::spawn(yields);
        thread::yield_now();
        let (created, runnable) = Builder::new().create(yields).unwrap();
        let made = (spawned, created, runnable);
        sender.lock().unwrap().send(made).unwrap();
    };
    let builder = Pool::builder().workers(2).exit_handler(handler);
    drop(builder.build().unwrap());
    let _next = another_pool();
    for (spawned, created, runnable) in receiver {
        runnable.schedule();
        assert!(spawned.join().unwrap() && created.join().unwrap());
    }
}

/// What an exit handler spawns and joins, and what waits there.
#[test]
fn an_exit_handler_may_fork_and_wait() {
    let sum = Arc::new(Mutex::new(0));
    let total = Arc::clone(&sum);
    let handler = move |me: usize| {
        let waits = || {
            thread::sleep(Duration::from_millis(5));
            me
        };
        let (a, b) = fork::join(waits, waits);
        *total.lock().unwrap() += a + b;
        fork::spawn(|| ());
    };
    let builder = Pool::builder().workers(3).exit_handler(handler);
    drop(builder.build().unwrap());
    assert_eq!(*sum.lock().unwrap(), 6);
}

/// One handler waits for a closure that another one has begun to run while it waited, and that takes longer.
#[test]
fn an_exit_handler_finishes_what_it_runs_for_another_one() {
    for _ in 0..5 {
        let (met, begun) = (Barrier::new(2), AtomicUsize::new(0));
        let handler = move |me| {
            let sleeps = |most| thread::sleep(Duration::from_millis(most));
            met.wait();
            match me {
                0 => {
                    let computes = || std::thread::sleep(Duration::from_millis(10));
                    fork::join(computes, || sleeps(30));
                }
                _ => sleeps(5),
            }
            begun.fetch_add(1, Relaxed);
        };
        let builder = Pool::builder().workers(2).exit_handler(handler);
        drop(builder.build().unwrap());
    }
}

/// What an exit handler spawns and broadcasts goes to the pool of all that is in no other one.
#[test]
fn what_an_exit_handler_spawns_runs() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let handler = move |_| {
        let sender = sender.lock().unwrap().clone();
        let spawned = sender.clone();
        fork::spawn(move || spawned.send(1).unwrap());
        let spawned = sender.clone();
        fork::spawn_fifo(move || spawned.send(10).unwrap());
        let parts = fork::broadcast(|_| 1).len();
        assert_eq!(parts, usize::from(Pool::global().unwrap().workers()));
        let spawned = sender.clone();
        fork::spawn_broadcast(move |_| spawned.send(100).unwrap());
        let alone = std::panic::AssertUnwindSafe(|| fork::scope(|s| s.spawn_broadcast(|_, _| ())));
        assert!(std::panic::catch_unwind(alone).is_err());
    };
    let builder = Pool::builder().workers(2).exit_handler(handler);
    drop(builder.build().unwrap());
    let parts = u32::from(Pool::global().unwrap().workers());
    assert_eq!(receiver.iter().sum::<u32>(), 2 * (1 + 10 + 100 * parts));
}

#[test]
fn an_adopted_thread_makes_threads_after_its_pool_has_ended() {
    let made = std::thread::spawn(|| {
        let (pool, mut workers) = Pool::builder().workers(2).build_threads().unwrap();
        workers.remove(0).adopt();
        let other = std::thread::spawn(|| run_all(workers));
        assert_eq!(thread::spawn(|| 1).join().unwrap(), 1);
        drop(pool);
        other.join().unwrap();
        let (handle, runnable) = Builder::new().create(|| 2).unwrap();
        runnable.schedule();
        (thread::spawn(|| 3).join().unwrap(), handle.join().unwrap())
    });
    assert_eq!(made.join().unwrap(), (3, 2));
}

/// A scheduler whose destructor waits for the passing of time is dropped with its pool, wherever that is.
#[test]
fn a_scheduler_may_wait_while_it_is_dropped() {
    struct Waits(mpsc::Sender<()>);
    impl thread::Scheduler for Waits {}
    impl Drop for Waits {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(1));
            self.0.send(()).unwrap();
        }
    }
    for _ in 0..200 {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender).into_inner().unwrap();
        let builder = Pool::builder().workers(1).thread_scheduler(Waits(sender));
        let pool = builder.build().unwrap();
        let sleeps = || thread::sleep(Duration::from_micros(100));
        drop(Builder::new().pool(&pool).spawn(sleeps).unwrap());
        drop(pool);
        receiver.recv().unwrap();
    }
}

/// Threads that wait in forks do not change the depth of what others fork.
#[test]
fn each_thread_has_its_own_depth_of_forks() {
    let pool = Pool::builder()
        .workers(1)
        .policy("random-steal+cutoff")
        .build()
        .unwrap();
    let yields = || (0..50).for_each(|_| thread::yield_now());
    let root = Builder::new().pool(&pool).spawn(move || {
        let waits = || thread::spawn(|| _ = fork::join(thread::park, || ()));
        for _ in 0..8 {
            // Both park in their first closures, and end in the order in which they began, either way round.
            for turned in [false, true] {
                let mut both = [waits(), waits()];
                yields();
                if turned {
                    both.reverse();
                }
                for waiting in both {
                    waiting.thread().unpark();
                    yields();
                    waiting.join().unwrap();
                }
            }
        }
        // A plain fork is no job.
        let mut is_kept = None;
        fork::join(|| is_kept = fork::has_pending_jobs(), || ());
        is_kept
    });
    assert_eq!(root.unwrap().join().unwrap(), Some(true));
}
