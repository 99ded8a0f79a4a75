//! Many tasks at once: countdowns that workers hold back, and loops that register more tasks than may be ready.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use tanada_policy::registry;
use tanada_runtime::{Pool, Scope, TemplateBuilder};

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
    for pool in pools(&[1, 2, 5]) {
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
