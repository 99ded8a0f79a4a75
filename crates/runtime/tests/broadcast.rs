//! Closures on every worker at once.

mod own_process;

use own_process::in_own_process;
use proptest::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use tanada_policy::{Governor, Order, Period, Plan, Why, WorkerId, registry};
use tanada_runtime::{GraphError, Pool, Recorder, Scope};
use tanada_topology::Topology;

fn pool(workers: u32) -> Pool {
    pool_of("random-steal", workers)
}

fn pool_of(policy: &str, workers: u32) -> Pool {
    let machine = Topology::flat(0..2).expect("two hardware threads");
    let builder = Pool::builder().topology(machine).workers(workers);
    builder.policy(policy).build().expect("a pool")
}

#[test]
fn every_worker_runs_its_part_and_results_are_in_order() {
    for workers in [1, 2, 3, 8, 70] {
        let pool = pool(workers);
        let local = vec![7_u64; workers as usize];
        for round in 0..20 {
            let results = pool.broadcast(|member| {
                assert_eq!(member.worker(), Some(WorkerId(member.index() as u16)));
                assert_eq!(member.count(), workers as usize);
                (
                    std::thread::current().id(),
                    member.index() as u64 * local[member.index()],
                )
            });
            let results = results.expect("a broadcast");
            let wanted = (0..u64::from(workers)).map(|index| 7 * index);
            assert!(
                results.iter().map(|result| result.1).eq(wanted),
                "round {round}"
            );
            let mut threads: Vec<_> = results
                .iter()
                .map(|result| format!("{:?}", result.0))
                .collect();
            threads.sort();
            threads.dedup();
            assert_eq!(threads.len(), workers as usize, "a thread each");
        }
    }
}

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn a_worker_is_the_same_thread_for_broadcasts_and_tasks() {
    let pool = pool(3);
    pool.broadcast(|member| SEEN.set(1 + member.index() as u32))
        .expect("a broadcast");
    pool.scope(|s| {
        for _ in 0..100 {
            s.task("looks")
                .register(|s| assert_eq!(SEEN.get(), 1 + u32::from(s.worker().expect("a task").0)));
        }
    })
    .expect("a graph that ends");
}

/// Parts that wait for each other show that all of them run at the same time, in one order everywhere.
#[test]
fn parts_may_wait_for_each_other_also_if_threads_broadcast_at_once() {
    let pool = &pool(3);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..50 {
                    let barrier = Barrier::new(3);
                    let leaders = pool
                        .broadcast(|_| barrier.wait().is_leader())
                        .expect("a broadcast");
                    assert_eq!(leaders.into_iter().filter(|leader| *leader).count(), 1);
                }
            });
        }
    });
}

/// Runs three tasks, each of which calls `before`, and then broadcasts ten times.
fn three_tasks_broadcast(pool: &Pool, before: impl Fn() + Sync) {
    let (parts, before) = (&AtomicUsize::new(0), &before);
    pool.scope(|s| {
        for _ in 0..3 {
            s.task("broadcasts").register(move |_| {
                before();
                for _ in 0..10 {
                    pool.broadcast(|_| parts.fetch_add(1, Relaxed))
                        .expect("a broadcast");
                }
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!(parts.load(Relaxed), 3 * 10 * 3, "{}", pool.policy());
}

#[test]
fn all_tasks_of_a_full_pool_broadcast_at_once() {
    let pool = pool(3);
    for _ in 0..5 {
        let barrier = Barrier::new(3);
        three_tasks_broadcast(&pool, || {
            barrier.wait();
        });
    }
}

#[test]
fn tasks_broadcast_under_every_policy() {
    for policy in registry::kinds() {
        three_tasks_broadcast(&pool_of(policy.name, 3), || ());
    }
}

#[test]
fn broadcasts_are_nested_and_run_graphs() {
    let pool = &pool(2);
    let count = &AtomicUsize::new(0);
    let add = |_: &Scope<'_>| {
        count.fetch_add(1, Relaxed);
    };
    let inner = pool.broadcast(|_| {
        pool.scope(|s| {
            for _ in 0..5 {
                s.task("in a part").register(add);
            }
        })
        .expect("a graph that ends");
        pool.broadcast(|_| {
            pool.broadcast(|_| count.fetch_add(1, Relaxed))
                .expect("nested")
                .len()
        })
        .expect("nested")
    });
    assert_eq!(inner.expect("a broadcast"), [[2, 2], [2, 2]]);
    assert_eq!(count.load(Relaxed), 2 * 5 + 2 * 2 * 2);
}

/// A task of a nested graph broadcasts: the worker whose task waits for that graph runs its part meanwhile.
#[test]
fn a_worker_that_waits_for_a_nested_graph_runs_its_part() {
    let pool = &pool(2);
    let parts = &AtomicUsize::new(0);
    for _ in 0..200 {
        pool.scope(|s| {
            s.task("outer").register(move |_| {
                pool.scope(|s| {
                    for _ in 0..3 {
                        s.task("inner").register(move |_| {
                            pool.broadcast(|_| parts.fetch_add(1, Relaxed))
                                .expect("a broadcast");
                        });
                    }
                })
                .expect("a graph that ends");
            });
        })
        .expect("a graph that ends");
    }
    assert_eq!(parts.load(Relaxed), 200 * 3 * 2);
}

#[test]
fn a_graph_that_keeps_all_workers_at_work_delays_a_broadcast_by_a_task_each() {
    for policy in ["fcfs", "ts-local", "random-steal"] {
        let pool = &pool_of(policy, 2);
        let (begun, end) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        fn chain<'a>(s: &Scope<'a>, begun: &'a AtomicUsize, end: &'a AtomicUsize) {
            begun.fetch_add(1, Relaxed);
            if end.load(Relaxed) == 0 {
                s.task("link").register(move |s| chain(s, begun, end));
            }
        }
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let graph = pool.scope(|s| (0..8).for_each(|_| chain(s, begun, end)));
                graph.expect("a graph that ends");
            });
            while begun.load(Relaxed) < 100 {
                std::thread::yield_now();
            }
            for _ in 0..20 {
                pool.broadcast(|_| ()).expect("a broadcast");
            }
            assert_eq!(end.swap(1, Relaxed), 0, "the graph has run all the time");
        });
    }
}

/// The callers keep the inbox of the only worker filled.
#[test]
fn callers_that_call_again_and_again_starve_no_graph_and_no_other_caller() {
    let pool = &pool(1);
    let (parts, end) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let start = Instant::now();
    let in_time = move || start.elapsed() < Duration::from_secs(20);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(move || {
                while !end.load(Relaxed) && in_time() {
                    pool.broadcast(|_| {
                        parts.fetch_add(1, Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                    })
                    .expect("a broadcast");
                }
            });
        }
        while parts.load(Relaxed) < 10 {
            std::thread::yield_now();
        }
        for _ in 0..20 {
            pool.scope(|s| {
                s.task("broadcasts").register(|_| {
                    // The other callers are first.
                    std::thread::sleep(Duration::from_millis(5));
                    let before = parts.load(Relaxed);
                    pool.broadcast(|_| ()).expect("a broadcast");
                    let others = parts.load(Relaxed) - before;
                    assert!(others <= 3, "one of each thread, and not {others}");
                });
            })
            .expect("a graph that ends");
        }
        end.store(true, Relaxed);
        assert!(in_time(), "it ended only because the others did");
    });
}

/// A part takes the wake-up that tells its worker of the end of a nested graph. The worker looks nevertheless, before it waits again, which
/// would take 100 ms.
#[test]
fn a_part_that_waits_does_not_delay_the_end_of_a_nested_graph() {
    let pool = &pool(2);
    let after_the_end = || {
        let [called, in_part, ended] = &[const { AtomicBool::new(false) }; 3];
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let (both, took) = (&Barrier::new(2), &Mutex::new(Duration::ZERO));
        let on_the_waiting_worker = move || {
            in_part.store(true, SeqCst);
            wait_for(ended);
            std::thread::sleep(Duration::from_millis(40));
            std::thread::park_timeout(Duration::from_millis(1));
        };
        let outer = move |s: &Scope<'_>| {
            let waits = s.worker();
            let at = &Mutex::new(Instant::now());
            pool.scope(|s| {
                for _ in 0..2 {
                    s.task("inner").register(move |s| {
                        both.wait();
                        if s.worker() != waits {
                            called.store(true, SeqCst);
                            wait_for(in_part);
                            *at.lock().expect("no panic") = Instant::now();
                            ended.store(true, SeqCst);
                        }
                    });
                }
            })
            .expect("a graph that ends");
            *took.lock().expect("no panic") = at.lock().expect("no panic").elapsed();
        };
        std::thread::scope(|threads| {
            threads.spawn(move || {
                wait_for(called);
                let part = |_| {
                    if !ended.load(SeqCst) {
                        on_the_waiting_worker();
                    }
                };
                pool.broadcast(part).expect("a broadcast");
            });
            pool.scope(|s| {
                s.task("outer").register(outer);
            })
            .expect("a graph that ends");
        });
        took.lock().expect("no panic").to_owned()
    };
    // On a busy machine a try may take longer.
    let tries: Vec<_> = (0..5).map(|_| after_the_end()).collect();
    let least = tries.iter().min().expect("a try");
    assert!(*least < Duration::from_millis(100), "{tries:?}");
}

#[test]
fn the_first_panic_reaches_the_caller_when_all_parts_have_ended() {
    let pool = pool(3);
    let ended = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.broadcast(|member| {
            if member.index() != 1 {
                std::panic::panic_any(member.index());
            }
            std::thread::sleep(Duration::from_millis(20));
            ended.fetch_add(1, Relaxed);
            Box::new(1)
        })
    }));
    let payload = result.expect_err("it panics");
    assert!([0, 2].contains(payload.downcast_ref::<usize>().expect("a number")));
    assert_eq!(ended.load(Relaxed), 1);
    // In a task the panic is the task's.
    let graph = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.task("broadcasts").register(|_| {
                pool.broadcast(|member| assert_ne!(member.index(), 2, "the third part"))
                    .expect("no error");
            });
        })
    }));
    let payload = graph.expect_err("it panics");
    assert!(
        payload
            .downcast_ref::<String>()
            .expect("a message")
            .contains("the third part")
    );
    assert_eq!(pool.broadcast(|_| 1).expect("the pool goes on"), [1, 1, 1]);
}

/// A payload that panics when it is dropped, which happens on a worker to all but the first.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn payloads_that_panic_when_dropped_leave_the_workers_alive() {
    let pool = pool(4);
    for _ in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.broadcast(|_| std::panic::panic_any(Bomb))
        }));
        std::mem::forget(result.expect_err("it panics"));
    }
    assert_eq!(pool.broadcast(|_| ()).expect("the pool goes on").len(), 4);
}

/// A governor that leaves one worker active.
struct One;

impl Governor for One {
    fn plan(&mut self, _period: &Period<'_>) -> Plan {
        Plan {
            width: 1,
            order: Order::Fifo,
            next_call: 1000,
        }
    }
    fn why(&self) -> Why {
        Why::default()
    }
    fn reads_counters(&self) -> bool {
        false
    }
}

#[test]
fn parked_workers_are_woken_and_park_again() {
    let machine = Topology::flat(0..4).expect("four hardware threads");
    let pool = Pool::builder()
        .topology(machine)
        .workers(4)
        .governor_with(|_| Box::new(One));
    let pool = pool
        .governor_period(Duration::from_micros(1))
        .build()
        .expect("a pool");
    let recorder = Mutex::new(Vec::new());
    let run = || {
        pool.scope(|s| {
            for _ in 0..1000 {
                s.task("runs")
                    .register(|s| recorder.lock().expect("no panic").push(s.worker()));
            }
        })
        .expect("a graph that ends");
    };
    let start = Instant::now();
    while pool.active() > 1 {
        run();
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the governor has been called"
        );
    }
    for _ in 0..50 {
        let barrier = Barrier::new(4);
        let here = pool.broadcast(|member| {
            barrier.wait();
            member.index()
        });
        assert_eq!(here.expect("a broadcast"), [0, 1, 2, 3]);
    }
    assert_eq!(pool.active(), 1);
    recorder.lock().expect("no panic").clear();
    run();
    let ran = recorder.into_inner().expect("no panic");
    assert!(
        ran.iter().all(|worker| *worker == Some(WorkerId(0))),
        "the others are parked"
    );
}

#[test]
fn parts_are_no_tasks() {
    let recorder = Recorder::all();
    let machine = Topology::flat(0..2).expect("two hardware threads");
    let pool = Pool::builder()
        .topology(machine)
        .workers(2)
        .observer(recorder.clone())
        .build()
        .expect("a pool");
    pool.broadcast(|_| ()).expect("a broadcast");
    assert_eq!(recorder.take().totals.tasks, 0);
}

#[test]
fn graphs_of_parts_stop_with_the_graph_of_the_caller() {
    let pool = &pool(2);
    let outcomes = &Mutex::new(Vec::new());
    let result = pool.scope(|s| {
        s.task("broadcasts").register(move |s| {
            s.cancel();
            let parts = pool.broadcast(|_| {
                pool.scope(|s| {
                    s.task("dropped")
                        .register(|_| panic!("the graph around it is stopped"));
                })
            });
            outcomes
                .lock()
                .expect("no panic")
                .extend(parts.expect("a broadcast"));
        });
    });
    assert_eq!(result, Err(GraphError::Cancelled));
    let outcomes = outcomes.lock().expect("no panic");
    assert_eq!(*outcomes, vec![Err(GraphError::Cancelled); 2]);
}

#[test]
fn tasks_of_another_pool_broadcast() {
    let (here, there) = (&pool(2), &pool(3));
    let parts = &AtomicUsize::new(0);
    here.scope(|s| {
        for _ in 0..20 {
            s.task("broadcasts there").register(move |_| {
                there
                    .broadcast(|_| parts.fetch_add(1, Relaxed))
                    .expect("a broadcast");
                here.broadcast(|_| parts.fetch_add(1, Relaxed))
                    .expect("a broadcast");
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!(parts.load(Relaxed), 20 * 5);
}

/// A recording runs one task of the process at a time.
#[test]
fn a_task_that_is_recorded_broadcasts_on_a_pool_that_has_tasks() {
    in_own_process("two_pools_that_mark", &[("TANADA_MARKS", "1")]);
}

#[test]
#[ignore = "run by `a_task_that_is_recorded_broadcasts_on_a_pool_that_has_tasks`"]
fn two_pools_that_mark() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(20));
        eprintln!("it hangs");
        std::process::abort();
    });
    let (here, there) = (&pool(2), &pool(2));
    let run = |on: &Pool, task: &(dyn Fn(&Scope<'_>) + Sync)| {
        let graph = on.scope(|s| {
            for _ in 0..100 {
                s.task("task").register(task);
            }
        });
        graph.expect("a graph that ends");
    };
    let parts = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let sleep = || std::thread::sleep(Duration::from_millis(1));
        threads.spawn(move || run(there, &|_| sleep()));
        run(here, &|_| {
            sleep();
            let part = |_| parts.fetch_add(1, Relaxed);
            there.broadcast(part).expect("a broadcast");
        });
    });
    assert_eq!(parts.into_inner(), 100, "one worker");
}

#[test]
fn broadcasts_that_are_nested_too_deep_are_refused() {
    let machine = Topology::flat(0..2).expect("two hardware threads");
    let pool = Pool::builder()
        .topology(machine)
        .workers(2)
        .stack_size(256 << 10)
        .build()
        .expect("a pool");
    fn dive(pool: &Pool, depth: usize) -> usize {
        let inner = pool.broadcast(|member| match member.index() {
            0 => dive(pool, depth + 1),
            _ => depth,
        });
        inner.map_or(depth, |depths| depths[0])
    }
    let depth = dive(&pool, 0);
    assert!((2..10_000).contains(&depth), "{depth}");
    assert_eq!(pool.broadcast(|_| ()).expect("the pool goes on").len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Graph(u8),
    Broadcast,
    /// Both, in a task.
    Inside(Vec<Step>),
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![(0_u8..6).prop_map(Step::Graph), Just(Step::Broadcast)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 1..4).prop_map(Step::Inside)
    })
}

/// Returns how many calls of `take` are expected.
fn take(pool: &Pool, steps: &[Step], count: &AtomicUsize) -> usize {
    let workers = usize::from(pool.workers());
    let mut expected = 0;
    for step in steps {
        expected += match step {
            Step::Graph(tasks) => {
                pool.scope(|s| {
                    for _ in 0..*tasks {
                        s.task("counts").register(|_| {
                            count.fetch_add(1, Relaxed);
                        });
                    }
                })
                .expect("a graph that ends");
                usize::from(*tasks)
            }
            Step::Broadcast => {
                pool.broadcast(|_| count.fetch_add(1, Relaxed))
                    .expect("a broadcast");
                workers
            }
            Step::Inside(inner) => {
                let more = &AtomicUsize::new(0);
                pool.scope(|s| {
                    for _ in 0..2 {
                        s.task("inside").register(move |_| {
                            more.fetch_add(take(pool, inner, count), Relaxed);
                        });
                    }
                })
                .expect("a graph that ends");
                more.load(Relaxed)
            }
        };
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_is_nested_in_whatever_from_several_threads_ends(
        steps in prop::collection::vec(step(), 1..5),
        workers in 1_u32..5,
        threads in 1_usize..4,
        policy in 0_usize..5,
    ) {
        let policies = ["random-steal", "fcfs", "ts-local", "locality-steal", "serial"];
        let pool = &pool_of(policies[policy], workers);
        let (count, expected) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| expected.fetch_add(take(pool, &steps, count), Relaxed));
            }
        });
        prop_assert_eq!(count.load(Relaxed), expected.load(Relaxed));
    }
}
