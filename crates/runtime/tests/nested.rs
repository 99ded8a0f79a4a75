//! Graphs that tasks run on their own pool: their order, how they are cancelled, and what they leave behind.

mod own_process;

use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tanada_policy::{Dispatcher, Env, Origin, Ready, Site, Wake, WorkerId, registry};
use tanada_runtime::{Cancel, GraphError, Pool, SGroup, Scope, TGroup};

/// Registers tasks of two T groups in turn, and one task that releases more of them.
fn register<'scope>(s: &Scope<'scope>, order: &'scope Mutex<Vec<(u32, u64)>>) {
    let register = |t: u32, index: u64, after| {
        let task = s.task("task").index(index).after(after);
        let task = task.groups(TGroup(t), SGroup(1 + index as u32 % 3));
        task.register(move |_| order.lock().push((t, index)))
    };
    let first = register(1, 100, None);
    for index in 0..6 {
        register(1 + index as u32 % 2, index, None);
    }
    for index in 6..12 {
        register(1 + index as u32 % 2, index, Some(first));
    }
}

#[test]
fn a_nested_graph_runs_in_the_order_of_the_policy() {
    for entry in registry::native() {
        let pool = Pool::builder().workers(1).policy(entry.name).seed(5);
        let pool = pool.build().expect("a pool");
        let (outside, inside) = (Mutex::default(), Mutex::default());
        pool.scope(|s| {
            s.task("registers").register(|s| register(s, &outside));
        })
        .expect("a graph that ends");
        let (pool, inside_) = (&pool, &inside);
        pool.scope(|s| {
            s.task("nests").register(move |_| {
                pool.scope(|s| register(s, inside_)).expect("it ends");
            });
        })
        .expect("a graph that ends");
        assert_eq!(inside.into_inner(), outside.into_inner(), "{}", entry.name);
    }
}

/// Runs 96 tasks in nested graphs, `depth` levels deep, and stops the outermost graph once the first of them has run. Returns how many ran,
/// and how the graphs of the deepest level ended.
fn stop(workers: u32, depth: usize, stop: impl Fn(&Scope<'_>) + Sync) -> (usize, GraphError) {
    type Ended = Mutex<Option<Result<(), GraphError>>>;
    fn nest(pool: &Pool, depth: usize, ran: &AtomicUsize, stopped: &AtomicBool, ended: &Ended) {
        let result = pool.scope(|s| {
            if depth > 0 {
                s.task("nests")
                    .register(move |_| nest(pool, depth - 1, ran, stopped, ended));
                return;
            }
            for _ in 0..96 {
                s.task("inner").register(move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    while !stopped.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                });
            }
        });
        ended.lock().get_or_insert(result);
    }
    let pool = Pool::builder().workers(workers).build().expect("a pool");
    let (ran, stopped, ended) = (
        AtomicUsize::new(0),
        AtomicBool::new(false),
        Ended::default(),
    );
    let result = pool.scope(|s| {
        let (pool, ran, stopped, ended) = (&pool, &ran, &stopped, &ended);
        s.task("outer")
            .register(move |_| nest(pool, depth, ran, stopped, ended));
        while ran.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        stop(s);
        stopped.store(true, Ordering::SeqCst);
    });
    assert_eq!(result, Err(GraphError::Cancelled));
    let ended = ended.into_inner().expect("it was reached");
    (ran.into_inner(), ended.expect_err("it was stopped"))
}

#[test]
fn cancelling_a_graph_reaches_those_inside_of_it() {
    for (workers, depth) in [(1, 0), (1, 3), (4, 0), (4, 3)] {
        let (ran, error) = stop(workers, depth, |s| s.cancel());
        assert!(ran <= workers as usize, "{ran} tasks ran");
        assert_eq!(error, GraphError::Cancelled);
    }
}

#[test]
fn cancelling_a_graph_reaches_those_that_its_body_runs() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let ran = AtomicUsize::new(0);
    let result = pool.scope(|s| {
        let (pool, ran) = (&pool, &ran);
        s.task("outer").register(move |_| {
            let middle = pool.scope(|s| {
                s.cancel();
                let inner = pool.scope(|s| {
                    s.task("inner").register(move |_| {
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                });
                assert_eq!(inner, Err(GraphError::Cancelled));
            });
            assert_eq!(middle, Err(GraphError::Cancelled));
            let after = pool.scope(|s| {
                s.task("after").register(move |_| {
                    ran.fetch_add(10, Ordering::SeqCst);
                });
            });
            assert_eq!(after, Ok(()), "it is inside of the outer graph only");
        });
    });
    assert_eq!(result, Ok(()));
    assert_eq!(ran.into_inner(), 10);
}

#[test]
fn a_cancel_handle_reaches_the_graphs_inside() {
    let pool = Pool::builder().workers(1).policy("fcfs").build();
    let pool = pool.expect("a pool");
    let (cancel, ran) = (Cancel::new(), AtomicUsize::new(0));
    let (pool_, cancel_, ran_) = (&pool, &cancel, &ran);
    let result = pool.scope_with_cancel(&cancel, |s| {
        s.task("outer").register(move |_| {
            let inner = pool_.scope(|s| {
                s.task("stops").register(move |_| cancel_.cancel());
                for _ in 0..10 {
                    s.task("after").register(move |s| {
                        ran_.fetch_add(usize::from(!s.is_stopped()), Ordering::SeqCst);
                    });
                }
            });
            assert_eq!(inner, Err(GraphError::Cancelled));
        });
    });
    assert_eq!(result, Ok(()), "all of its tasks had begun");
    assert_eq!(ran.into_inner(), 0);
}

/// Keeps each task for one worker, by its S group, and loses those of S group 0.
struct Sticky(Mutex<VecDeque<(u32, Ready)>>);

impl Dispatcher for Sticky {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = usize::from(site.placement.workers());
        (Sticky(Mutex::default()), vec![(); workers])
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let s = env.hints(&task).s;
        if s > 0 {
            self.0
                .lock()
                .push_back((s % u32::from(env.workers()), task));
            env.wake(Wake::This(WorkerId((s % u32::from(env.workers())) as u16)));
        }
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let (mut tasks, me) = (self.0.lock(), u32::from(env.me().0));
        let at = tasks.iter().position(|&(worker, _)| worker == me)?;
        Some((tasks.remove(at)?.1, Origin::Own))
    }
    fn may_have(&self, worker: WorkerId) -> bool {
        let me = u32::from(worker.0);
        self.0.lock().iter().any(|&(worker, _)| worker == me)
    }
}

#[test]
fn a_policy_that_keeps_tasks_for_other_workers_or_loses_them_holds_up_no_nested_graph() {
    let pool = Pool::builder().workers(2);
    let pool = pool.build_with::<Sticky>("sticky").expect("a pool");
    let (pool, ran) = (&pool, &AtomicUsize::new(0));
    let both = &Barrier::new(2);
    pool.scope(|s| {
        for outer in 1..=2 {
            let task = s.task("outer").groups(TGroup(0), SGroup(outer));
            task.register(move |_| {
                both.wait();
                for round in 0..1000 {
                    let nested = pool.scope(|s| {
                        // Of the other worker, which waits, too; and lost.
                        for group in [outer + 1, 0] {
                            let task = s.task("inner").groups(TGroup(0), SGroup(group));
                            task.register(|_| {
                                ran.fetch_add(1, Ordering::SeqCst);
                            });
                        }
                    });
                    nested.unwrap_or_else(|error| panic!("round {round}: {error}"));
                }
            });
        }
    })
    .expect("a graph that ends");
    assert_eq!(ran.load(Ordering::SeqCst), 4000);
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    4096 * pages.expect("a number of pages")
}

#[test]
fn a_million_nested_graphs_in_one_task_take_a_fixed_amount_of_memory() {
    own_process::in_own_process("child_nests_a_million_times", &[]);
}

#[test]
#[ignore = "run by `a_million_nested_graphs_in_one_task_take_a_fixed_amount_of_memory`"]
fn child_nests_a_million_times() {
    for entry in registry::kinds() {
        let (workers, policy) = (if entry.exact { 1 } else { 3 }, entry.name);
        let pool = Pool::builder().workers(workers).policy(policy);
        let pool = pool.build().expect("a pool");
        let (pool_, done) = (&pool, &AtomicBool::new(false));
        pool.scope(|s| {
            // No other worker comes for a ticket.
            for _ in 1..workers {
                s.task("busy").register(move |_| {
                    while !done.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            s.task("nests").register(move |_| {
                let nest = |times| {
                    for _ in 0..times {
                        let nested = pool_.scope(|s| {
                            s.task("inner")
                                .groups(TGroup(1), SGroup(1))
                                .register(|_| ());
                        });
                        nested.expect("a graph that ends");
                    }
                };
                nest(1000);
                let before = resident();
                nest(1_000_000 / 3);
                let grown = resident().saturating_sub(before);
                done.store(true, Ordering::SeqCst);
                assert!(grown < 8 << 20, "{policy}: {grown} bytes more");
            });
        })
        .expect("a graph that ends");
    }
}

/// Nests graphs until `left` is 0. Returns the depth that was reached, and the error that ended it.
fn dive(pool: &Pool, left: usize) -> (usize, Option<GraphError>) {
    if left == 0 {
        return (0, None);
    }
    let below = Mutex::new(None);
    let below_ = &below;
    let result = pool.scope(|s| {
        s.task("dives")
            .register(move |_| *below_.lock() = Some(dive(pool, left - 1)));
    });
    match result {
        Ok(()) => {
            let (depth, error) = below.into_inner().expect("it ran");
            (depth + 1, error)
        }
        Err(error) => (0, Some(error)),
    }
}

#[test]
fn graphs_nested_too_deep_are_an_error() {
    own_process::in_own_process("child_dives", &[]);
    own_process::in_own_process("child_dives_on_little_stack", &[]);
}

thread_local! {
    /// The C library takes it from the stack of each thread.
    static LARGE: Cell<[u8; 200 << 10]> = const { Cell::new([0; 200 << 10]) };
}

#[test]
#[ignore = "run by `graphs_nested_too_deep_are_an_error`"]
fn child_dives_on_little_stack() {
    std::hint::black_box(LARGE.get());
    for policy in ["random-steal", "ts", "ts-local"] {
        for size in (4..=64).map(|kib: usize| kib << 10).chain([256 << 10]) {
            let builder = Pool::builder().workers(2).policy(policy);
            let pool = builder.stack_size(size).build().expect("a pool");
            let (_, error) = dive(&pool, 100_000);
            assert_eq!(error, Some(GraphError::TooDeep { stack_size: size }));
        }
    }
}

#[test]
#[ignore = "run by `graphs_nested_too_deep_are_an_error`"]
fn child_dives() {
    for workers in [1, 2] {
        let build = |size| Pool::builder().workers(workers).stack_size(size).build();
        let mut reached = 0;
        for size in [1 << 18, 2 << 20] {
            let pool = build(size).expect("a pool");
            let (depth, error) = dive(&pool, 100_000);
            assert_eq!(error, Some(GraphError::TooDeep { stack_size: size }));
            println!("{depth} levels in {size} bytes");
            assert!(depth > 2 * reached, "{depth} levels in {size} bytes");
            reached = depth;
            assert_eq!(dive(&pool, 10), (10, None), "the pool is as good as before");
        }
        // A large enough stack has room.
        let pool = build(256 << 20).expect("a pool");
        assert_eq!(dive(&pool, 5000), (5000, None));
    }
}
