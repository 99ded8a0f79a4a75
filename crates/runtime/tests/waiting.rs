//! What a thread costs that waits for the end of a graph.
#![cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tanada_runtime::Pool;

/// Returns the folder in /proc of the calling OS thread.
fn own_folder() -> PathBuf {
    let link = std::fs::read_link("/proc/thread-self").expect("Linux 3.17");
    PathBuf::from("/proc").join(link)
}

/// Returns how often the OS thread has slept so far.
fn sleeps(folder: &std::path::Path) -> u64 {
    let status = std::fs::read_to_string(folder.join("status")).expect("a thread that is alive");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = line.expect("the kernel counts switches").trim();
    count.parse().expect("a number")
}

/// Returns how often the OS thread sleeps anew within a time in which it would look ten times for faults.
fn sleeps_meanwhile(folder: &std::path::Path) -> u64 {
    // Until it has spun and fallen asleep.
    std::thread::sleep(Duration::from_millis(200));
    let before = sleeps(folder);
    std::thread::sleep(Duration::from_millis(1000));
    sleeps(folder) - before
}

#[test]
fn a_thread_outside_sleeps_while_a_task_runs() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let (folder, sleeps) = (own_folder(), AtomicUsize::new(usize::MAX));
    let (folder, counted) = (&folder, &sleeps);
    pool.scope(|s| {
        s.task("long")
            .register(move |_| counted.store(sleeps_meanwhile(folder) as usize, SeqCst));
    })
    .expect("a graph that ends");
    assert_eq!(sleeps.load(SeqCst), 0, "it was woken for nothing");
}

#[test]
fn a_worker_in_a_task_sleeps_while_a_task_of_its_graph_runs() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let counted = AtomicUsize::new(usize::MAX);
    let (pool, counted_) = (&pool, &counted);
    pool.scope(|s| {
        s.task("nests").register(move |_| {
            let (waits, folder) = (std::thread::current().id(), own_folder());
            let (started, folder) = (&AtomicUsize::new(0), &folder);
            pool.scope(|s| {
                for index in 0..2 {
                    s.task("one").index(index).register(move |_| {
                        // Until each worker has one of the two.
                        started.fetch_add(1, SeqCst);
                        let begin = Instant::now();
                        while started.load(SeqCst) < 2 {
                            assert!(begin.elapsed() < Duration::from_secs(30), "one worker");
                            std::thread::yield_now();
                        }
                        if std::thread::current().id() != waits {
                            counted_.store(sleeps_meanwhile(folder) as usize, SeqCst);
                        }
                    });
                }
            })
            .expect("a graph that ends");
        });
    })
    .expect("a graph that ends");
    assert_eq!(counted.load(SeqCst), 0, "it was woken for nothing");
}

/// A worker waits for a graph of another pool, which works for a time, then stands still, and goes on when another thread resolves a task.
#[test]
fn a_graph_ends_after_its_pool_has_worked_and_stood_still() {
    let pools = [(); 2].map(|()| Pool::builder().workers(1).build().expect("a pool"));
    let [first, second] = &pools;
    let ran = &AtomicUsize::new(0);
    let waits = move || {
        let graph = second.scope(|s| {
            s.task("works")
                .register(|_| std::thread::sleep(Duration::from_millis(150)));
            let last = s.task("is resolved").count(1).register(move |_| {
                ran.fetch_add(1, SeqCst);
            });
            let resolver = s.resolver();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(500));
                resolver.resolve(last).expect("a count is left");
            });
        });
        graph.expect("a graph that ends");
    };
    first
        .scope(|s| {
            s.task("waits").register(move |_| waits());
        })
        .expect("a graph that ends");
    assert_eq!(ran.load(SeqCst), 1);
}
