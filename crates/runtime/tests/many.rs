//! Many tasks at once: countdowns that workers hold back, and loops that register more tasks than may be ready.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use tanada_policy::registry;
use tanada_runtime::{Cancel, GraphError, Pool, Scope, TemplateBuilder};

/// More than may be ready in one graph.
const MANY: usize = if cfg!(miri) { 200 } else { 50_000 };

/// The most that may be ready: what `TaskBuilder::register` says, and what comes until that is noticed.
const MOST: i64 = if cfg!(miri) { 64 } else { 1 << 15 } + 256;

fn pools(workers: &[u32]) -> impl Iterator<Item = Pool> {
    let greedy = registry::native().into_iter().filter(|entry| entry.greedy);
    greedy.flat_map(|entry| {
        let pool = |&workers| Pool::builder().workers(workers).policy(entry.name).build();
        workers.iter().map(pool).map(|pool| pool.expect("a pool"))
    })
}

fn independent<'env>(tasks: u64, count: &'env AtomicUsize) -> TemplateBuilder<'env, ()> {
    let mut builder = TemplateBuilder::new();
    for at in 0..tasks {
        builder.task("task", at, move |(), _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
    builder
}

#[test]
fn independent_tasks_end_run_after_run() {
    let tasks = if cfg!(miri) { 40 } else { 1_000 };
    for pool in pools(&[1, 2, 5, 16]) {
        let count = AtomicUsize::new(0);
        let template = independent(tasks, &count).build().expect("no cycle");
        let mut instance = template.instances(2);
        for runs in [1, 7, 2] {
            count.store(0, Ordering::Relaxed);
            let runs = vec![(); runs];
            instance.run_each(&pool, &runs).expect("runs that end");
            assert_eq!(
                count.load(Ordering::Relaxed),
                tasks as usize * runs.len(),
                "{pool:?}"
            );
        }
    }
}

#[test]
fn independent_tasks_end_inside_of_tasks() {
    let tasks = if cfg!(miri) { 40 } else { 300 };
    for pool in &pools(&[1, 3]).collect::<Vec<_>>() {
        let count = AtomicUsize::new(0);
        let template = independent(tasks, &count).build().expect("no cycle");
        let outer = 10;
        pool.scope(|s| {
            for _ in 0..outer {
                s.task("outer").register(|s| {
                    let run = template.instance().run_each(pool, &[(); 3]);
                    run.expect("runs that end");
                    s.task("inner").register(|_| ());
                });
            }
        })
        .expect("a graph that ends");
        assert_eq!(count.load(Ordering::Relaxed), outer * 3 * tasks as usize);
    }
}

/// The only worker goes from the last task of one graph to a task of another one, which waits for the end of the first.
#[test]
fn a_graph_ends_before_its_worker_runs_a_task_of_another_one() {
    for template in [false, true] {
        let pool = Pool::builder().workers(1).policy("fcfs").build();
        let pool = &pool.expect("a pool");
        let (count, tasks) = (AtomicUsize::new(0), 100);
        let (begun, begins) = channel();
        let (waits, other_waits) = channel::<()>();
        let (ended, end) = channel();
        let gate = std::sync::Mutex::new(Some((begun, other_waits)));
        let first = || {
            if let Some((begun, other_waits)) = gate.lock().expect("no panic").take() {
                begun.send(()).expect("it is awaited");
                // The sender is dropped once the other graph's task lies in the queue behind all of this one.
                other_waits.recv().expect_err("nothing is sent");
            }
            count.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|threads| {
            let first = &first;
            let one = threads.spawn(move || {
                if template {
                    let mut builder = TemplateBuilder::new();
                    for at in 0..tasks {
                        builder.task("task", at, move |(), _| first());
                    }
                    let template = builder.build().expect("no cycle");
                    template.instance().run(pool, &()).expect("a run that ends");
                } else {
                    pool.scope(|s| {
                        s.task("first").register(move |s| {
                            for _ in 0..tasks - 1 {
                                s.task("task").register(move |_| first());
                            }
                            first();
                        });
                    })
                    .expect("a graph that ends");
                }
                ended.send(()).expect("it is awaited");
            });
            begins.recv().expect("the first task runs");
            pool.scope(|s| {
                s.task("other")
                    .register(move |_| end.recv().expect("the other graph ends"));
                drop(waits);
            })
            .expect("a graph that ends");
            one.join().expect("no panic");
        });
        assert_eq!(count.into_inner(), tasks as usize);
    }
}

/// Tasks that are registered and have not run: how many there are, and how many there were at most.
#[derive(Default)]
struct Pending {
    now: AtomicI64,
    most: AtomicI64,
    ran: AtomicUsize,
}

impl Pending {
    fn register<'scope>(&'scope self, s: &Scope<'scope>) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        s.task("task").register(|_| {
            self.now.fetch_sub(1, Ordering::Relaxed);
            self.ran.fetch_add(1, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_loop_of_registrations_keeps_a_bounded_number_of_tasks() {
    for pool in pools(&[1, 2]) {
        for outside in [false, true] {
            let pending = Pending::default();
            pool.scope(|s| {
                if outside {
                    (0..2 * MANY).for_each(|_| pending.register(s));
                } else {
                    s.task("all")
                        .register(|s| (0..2 * MANY).for_each(|_| pending.register(s)));
                }
            })
            .expect("a graph that ends");
            assert_eq!(pending.ran.into_inner(), 2 * MANY, "{pool:?}");
            let most = pending.most.into_inner();
            // What other threads do meanwhile depends on when they run: a policy may have no task for the worker that registers, and
            // workers that do not run for long look as if they waited for the thread outside. Alone, a worker keeps the bound.
            let alone = pool.workers() == 1 && !outside;
            assert!(
                !alone || most <= MOST,
                "{most} tasks were pending: {pool:?}"
            );
        }
    }
}

#[test]
fn a_loop_in_a_nested_graph_keeps_a_bounded_number_of_tasks() {
    let pool = &Pool::builder().workers(1).build().expect("a pool");
    let pending = Pending::default();
    pool.scope(|s| {
        s.task("outer").register(|_| {
            let inner = pool.scope(|s| (0..2 * MANY).for_each(|_| pending.register(s)));
            inner.expect("a graph that ends");
        });
    })
    .expect("a graph that ends");
    assert_eq!(pending.ran.into_inner(), 2 * MANY);
    assert!(pending.most.into_inner() <= MOST);
}

/// Tasks that run inside of a registration register others, too.
#[test]
fn tasks_inside_of_a_registration_register_others() {
    for pool in pools(&[1, 2]) {
        let ran = AtomicUsize::new(0);
        pool.scope(|s| {
            s.task("all").register(|s| {
                for _ in 0..MANY {
                    s.task("one").register(|s| {
                        s.task("two").register(|_| {
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                }
            });
        })
        .expect("a graph that ends");
        assert_eq!(ran.into_inner(), MANY, "{pool:?}");
    }
}

/// The first task waits for what the body does after all registrations, so no task ends until then: the body must not wait for one.
#[test]
fn tasks_may_wait_for_the_thread_that_registers() {
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let (open, gate) = channel();
    let ran = AtomicUsize::new(0);
    pool.scope(|s| {
        s.task("gate")
            .register(move |_| gate.recv().expect("the gate opens"));
        for _ in 0..MANY {
            s.task("task").register(|_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }
        open.send(()).expect("it is awaited");
    })
    .expect("a graph that ends");
    assert_eq!(ran.into_inner(), MANY);
}

/// The task of another graph would never end, since it waits for the task that registers. It must not run inside of a registration.
#[test]
fn a_registration_runs_tasks_of_its_own_graph_only() {
    for pool in &pools(&[1]).collect::<Vec<_>>() {
        let ran = AtomicUsize::new(0);
        let (begun, begins) = channel();
        let (queued, others) = channel::<()>();
        let (ended, end) = channel();
        std::thread::scope(|threads| {
            let ran = &ran;
            let one = threads.spawn(move || {
                pool.scope(|s| {
                    s.task("all").register(move |s| {
                        begun.send(()).expect("it is awaited");
                        // The sender is dropped once tasks of the other graph lie in the policy's queues.
                        others.recv().expect_err("nothing is sent");
                        for _ in 0..2 * MANY {
                            s.task("one").register(|_| {
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        ended.send(()).expect("it is awaited");
                    });
                })
                .expect("a graph that ends");
            });
            begins.recv().expect("the task runs");
            pool.scope(|s| {
                s.task("waits")
                    .register(move |_| end.recv().expect("all are registered"));
                for _ in 0..10 {
                    s.task("other").register(|_| ());
                }
                drop(queued);
            })
            .expect("a graph that ends");
            one.join().expect("no panic");
        });
        assert_eq!(ran.into_inner(), 2 * MANY, "{pool:?}");
    }
}

fn register_all<'scope>(s: &Scope<'scope>, task: &'scope (dyn Fn() -> Stop + Sync)) {
    for _ in 0..MANY {
        s.task("task").register(move |s| match task() {
            Stop::No => {}
            Stop::Cancel => s.cancel(),
        });
    }
}

enum Stop {
    No,
    Cancel,
}

/// What the tasks of a loop of registrations do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nested,
    Cancel,
    Panic,
}

/// Tasks that run inside of a registration run graphs, which register in their turn, stop the graph, or panic.
#[test]
fn tasks_inside_of_a_registration_do_what_others_do() {
    let some = if cfg!(miri) { 20 } else { 500 };
    for pool in &pools(&[1, 3, 16]).collect::<Vec<_>>() {
        for (does, outside) in [Does::Nested, Does::Cancel, Does::Panic]
            .into_iter()
            .flat_map(|does| [(does, false), (does, true)])
        {
            let (ran, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let task = || {
                if ran.fetch_add(1, Ordering::Relaxed) != some {
                    return Stop::No;
                }
                match does {
                    Does::Cancel => return Stop::Cancel,
                    Does::Panic => panic!("out of rice"),
                    Does::Nested => pool
                        .scope(|s| {
                            for _ in 0..some {
                                s.task("inner").register(|_| {
                                    inner.fetch_add(1, Ordering::Relaxed);
                                });
                            }
                        })
                        .expect("a graph that ends"),
                }
                Stop::No
            };
            let task = &task;
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.scope(|s| match outside {
                    true => register_all(s, task),
                    false => {
                        s.task("all").register(move |s| register_all(s, task));
                    }
                })
            }));
            match (does, result) {
                (Does::Nested, Ok(Ok(()))) => {
                    assert_eq!(ran.into_inner(), MANY, "{pool:?}");
                    assert_eq!(inner.into_inner(), some, "{pool:?}");
                }
                (Does::Cancel, Ok(Err(GraphError::Cancelled))) => {}
                (Does::Panic, Err(payload)) => {
                    assert_eq!(payload.downcast_ref(), Some(&"out of rice"));
                }
                (_, other) => panic!("{does:?}: {other:?}"),
            }
            // The pool is as good as new.
            pool.scope(|s| {
                s.task("next").register(|_| ());
            })
            .expect("a graph that ends");
        }
    }
}

/// Chains run without a word to the policy: what stops a graph stops them, too.
#[test]
fn a_chain_stops_with_its_graph() {
    let tasks = if cfg!(miri) { 50 } else { 10_000 };
    for pool in pools(&[1, 2, 16]) {
        for panics in [false, true] {
            let (ran, bad, cancel) = (AtomicUsize::new(0), AtomicUsize::new(0), Cancel::new());
            let stop = cancel.clone();
            let mut builder = TemplateBuilder::new();
            let mut before = None;
            for at in 0..tasks {
                let (ran, bad, stop) = (&ran, &bad, stop.clone());
                let task = builder.task("task", at, move |(), _| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    if at == tasks / 2 && bad.fetch_add(1, Ordering::Relaxed) == 0 {
                        assert!(!panics, "out of rice");
                        stop.cancel();
                    }
                });
                if let Some(before) = before.replace(task) {
                    builder.edge(before, task);
                }
            }
            let template = builder.build().expect("no cycle");
            let mut instance = template.instance();
            let run = std::panic::AssertUnwindSafe(|| {
                instance.run_each_with_cancel(&pool, &[(); 3], &cancel)
            });
            match std::panic::catch_unwind(run) {
                Ok(result) => assert!(!panics && result == Err(GraphError::Cancelled)),
                Err(payload) => {
                    assert_eq!(payload.downcast_ref(), Some(&"out of rice"));
                }
            }
            assert_eq!(ran.swap(0, Ordering::Relaxed), tasks as usize / 2 + 1);
            instance.run_each(&pool, &[(); 3]).expect("runs that end");
            assert_eq!(ran.load(Ordering::Relaxed), 3 * tasks as usize, "{pool:?}");
        }
    }
}
