//! Dynamic graphs: order, borrows, hints, dynamic registration, nesting; every registered policy, 1 to 64 workers.

use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tanada_policy::registry;
use tanada_runtime::{Pool, Recorder, SGroup, Scope, TGroup};

fn pools(workers: &[u32]) -> impl Iterator<Item = Pool> {
    registry::native().into_iter().flat_map(|entry| {
        workers.iter().map(|&workers| {
            Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .seed(7)
                .build()
                .expect("a pool")
        })
    })
}

#[test]
fn edges_are_respected_and_writes_are_seen() {
    for pool in pools(&[1, 2, 4, 16, 64]) {
        // A wavefront: each cell is the sum of its upper and left neighbours, written without atomics.
        const N: usize = 12;
        let cells: Vec<RwLock<u64>> = (0..N * N).map(|_| RwLock::new(1)).collect();
        for _ in 0..3 {
            pool.scope(|s| {
                let mut tokens = Vec::new();
                for at in 0..N * N {
                    let (row, column) = (at / N, at % N);
                    let left = (column > 0).then(|| tokens[at - 1]);
                    let up = (row > 0).then(|| tokens[at - N]);
                    let cells = &cells;
                    let task = s
                        .task("cell")
                        .index(at as u64)
                        .groups(TGroup(row as u32), SGroup(column as u32));
                    tokens.push(task.after(left.into_iter().chain(up)).register(move |_| {
                        let get = |at: usize| *cells[at].try_read().expect("no task writes");
                        let sum = if row == 0 || column == 0 {
                            1
                        } else {
                            get(at - 1) + get(at - N)
                        };
                        *cells[at].try_write().expect("no other task is here") = sum;
                    }));
                }
            })
            .expect("a graph that ends");
        }
        // Binomial coefficient (22 over 11).
        assert_eq!(*cells[N * N - 1].read(), 705_432, "{pool:?}");
    }
}

#[test]
fn tasks_register_tasks() {
    fn tree<'scope>(s: &Scope<'scope>, depth: u32, leaves: &'scope AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for _ in 0..2 {
            s.task("tree").register(move |s| tree(s, depth - 1, leaves));
        }
    }
    for pool in pools(&[1, 3, 64]) {
        let leaves = AtomicUsize::new(0);
        pool.scope(|s| tree(s, 10, &leaves))
            .expect("a graph that ends");
        assert_eq!(leaves.into_inner(), 1 << 10, "{pool:?}");
    }
}

#[test]
fn resolves_come_from_tasks_and_from_other_threads() {
    for pool in pools(&[1, 4]) {
        let order = Mutex::new(Vec::new());
        let order = &order;
        let helper = pool.scope(|s| {
            let last = s
                .task("last")
                .groups(TGroup(1), SGroup(2))
                .count(3)
                .register(move |_| order.lock().push("last"));
            s.task("a").register(move |s| {
                order.lock().push("first");
                s.resolve(last).expect("a count is left");
            });
            s.resolve(last).expect("a count is left");
            let resolver = s.resolver();
            std::thread::spawn(move || resolver.resolve(last).expect("a count is left"))
        });
        let helper = helper.expect("a graph that ends");
        helper.join().expect("no panic");
        assert_eq!(*order.lock(), ["first", "last"], "{pool:?}");
    }
}

#[test]
fn a_dependency_can_be_added_while_the_graph_runs() {
    for pool in pools(&[1, 2, 8]) {
        let done = AtomicUsize::new(0);
        let done = &done;
        pool.scope(|s| {
            let held = s.task("held").count(1).register(move |_| {
                assert_eq!(done.load(Ordering::SeqCst), 10);
            });
            s.task("feeder").register(move |s| {
                for _ in 0..10 {
                    let part = s.task("part").register(move |_| {
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                    s.depend(held, part).expect("still held");
                }
                s.resolve(held).expect("a count is left");
                // It may have run by now: then it can wait for nothing more.
                let late = s.task("late").register(|_| ());
                let _ = s.depend(held, late);
            });
        })
        .expect("a graph that ends");
    }
}

#[test]
fn a_task_may_run_a_graph_on_its_own_pool() {
    for pool in pools(&[1, 2, 16]) {
        let sum = AtomicU64::new(0);
        let (sum, pool_) = (&sum, &pool);
        pool.scope(|s| {
            for i in 0..8u64 {
                s.task("outer").register(move |_| {
                    let inner = AtomicU64::new(0);
                    let inner_ = &inner;
                    pool_
                        .scope(|s| {
                            let mut last = None;
                            for j in 0..8u64 {
                                last = Some(s.task("inner").after(last).register(move |_| {
                                    inner_.fetch_add(i * j, Ordering::Relaxed);
                                }));
                            }
                        })
                        .expect("a graph that ends");
                    sum.fetch_add(inner.into_inner(), Ordering::Relaxed);
                });
            }
        })
        .expect("a graph that ends");
        assert_eq!(sum.load(Ordering::Relaxed), 28 * 28, "{pool:?}");
    }
}

#[test]
fn a_task_may_run_a_graph_on_another_pool() {
    let (a, b) = (
        Pool::builder().workers(2).build().unwrap(),
        Pool::builder().workers(3).policy("ts").build().unwrap(),
    );
    let count = AtomicUsize::new(0);
    let (b, count_) = (&b, &count);
    a.scope(|s| {
        for _ in 0..20 {
            s.task("outer").register(move |_| {
                b.scope(|s| {
                    (0..20).for_each(|_| {
                        s.task("inner").register(move |_| {
                            count_.fetch_add(1, Ordering::Relaxed);
                        });
                    })
                })
                .unwrap();
            });
        }
    })
    .unwrap();
    assert_eq!(count.into_inner(), 400);
}

#[test]
fn nested_work_spreads_over_the_pool() {
    // Two inner tasks that wait for each other can only end on two workers.
    let pool = Pool::builder().workers(2).policy("fcfs").build().unwrap();
    let pool_ = &pool;
    let barrier = std::sync::Barrier::new(2);
    let barrier = &barrier;
    pool.scope(|s| {
        s.task("outer").register(move |_| {
            pool_
                .scope(|s| {
                    (0..2).for_each(|_| {
                        s.task("inner").register(move |_| {
                            barrier.wait();
                        });
                    })
                })
                .unwrap();
        });
    })
    .unwrap();
}

#[test]
fn large_and_dropping_bodies_are_run_once_and_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize, [u64; 32]);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (dropped, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (dropped_, ran_) = (&dropped, &ran);
    let pool = Pool::builder().workers(2).build().unwrap();
    pool.scope(|s| {
        for i in 0..1000 {
            let counted = Counted(dropped_, [i; 32]);
            s.task("large").register(move |_| {
                assert!(counted.1.iter().all(|&word| word == i));
                ran_.fetch_add(1, Ordering::Relaxed);
            });
        }
    })
    .unwrap();
    assert_eq!((dropped.into_inner(), ran.into_inner()), (1000, 1000));
}

#[test]
fn an_observer_sees_every_task_once() {
    for entry in registry::native() {
        let recorder = Recorder::all();
        let pool = Pool::builder()
            .workers(4)
            .policy(entry.name)
            .observer(recorder.clone())
            .build()
            .unwrap();
        pool.scope(|s| {
            let mut before = None;
            for i in 0..500 {
                before = Some(
                    s.task("step")
                        .index(i)
                        .groups(TGroup(i as u32 / 10), SGroup(1))
                        .after(before)
                        .register(|_| ()),
                );
                s.task("side").index(i).after(before).register(|_| ());
            }
        })
        .unwrap();
        let recorded = recorder.take();
        assert_eq!(recorded.totals.tasks, 1000, "{}", entry.name);
        let tasks = &recorded.tasks;
        let mut seen: Vec<_> = tasks.iter().map(|task| (task.name, task.index)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000, "{}", entry.name);
        assert!(tasks.iter().all(|task| task.start_ns <= task.end_ns));
        assert_eq!(recorder.take().totals.tasks, 0);
    }
}

#[test]
fn a_recorder_times_what_lies_between_tasks() {
    let recorder = Recorder::sums();
    let pool = Pool::builder()
        .workers(1)
        .observer(recorder.clone())
        .build()
        .unwrap();
    // Two graphs: what lies between them is waiting for work, not scheduling.
    for _ in 0..2 {
        pool.scope(|s| {
            // All wait for the first, so that the worker goes from task to task without searching.
            let first = s.task("first").count(1).register(|_| ());
            for _ in 0..100 {
                s.task("next").after([first]).register(|_| ());
            }
            s.resolve(first).unwrap();
        })
        .unwrap();
        // The graph ends before its worker has noticed that it is idle.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let totals = recorder.take().totals;
    assert_eq!((totals.tasks, totals.turns), (202, 200));
    assert!(totals.scheduling_ns > 0);
}
