//! Forks, scopes, spawned closures and broadcasts of the fork layer, alone and together with graphs.

mod own_process;

use own_process::{in_own_process, run_in_own_process};
use proptest::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};
use tanada_policy::registry;
use tanada_runtime::fork::{self, Yield};
use tanada_runtime::thread::Builder;
use tanada_runtime::{GraphError, Pool};
use tanada_topology::Topology;

const WORKERS: [u32; 4] = [1, 2, 8, 64];

fn pool_of(policy: &str, workers: u32) -> Pool {
    let machine = Topology::flat(0..2).expect("two hardware threads");
    let builder = Pool::builder().topology(machine).workers(workers);
    builder.policy(policy).build().expect("a pool")
}

fn pool(workers: u32) -> Pool {
    pool_of("random-steal", workers)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = fork::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// As `fib`, with forks that are always kept.
fn kept_fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = fork::join_context(|_| kept_fib(n - 1), |_| kept_fib(n - 2));
    a + b
}

fn text(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .expect("a message")
            .to_string(),
    }
}

#[test]
fn recursions_give_what_they_give_without_forks() {
    for workers in WORKERS {
        let pool = pool(workers);
        assert_eq!(fork::install(&pool, || fib(24)), 46368);
        assert_eq!(fork::install(&pool, || kept_fib(18)), 2584);
    }
}

#[test]
fn every_policy_carries_forks() {
    for entry in registry::native() {
        let pool = pool_of(entry.name, 3);
        assert_eq!(fork::install(&pool, || fib(18)), 2584, "{}", entry.name);
    }
}

/// Leaves at all depths, left and right: each is run once.
fn uneven(from: usize, to: usize, seed: u64, ran: &[AtomicUsize]) {
    if to - from == 1 {
        ran[from].fetch_add(1, Relaxed);
        return;
    }
    let middle = from + 1 + (seed % (to - from - 1) as u64) as usize;
    let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    fork::join(
        || uneven(from, middle, next >> 7, ran),
        || uneven(middle, to, next >> 9, ran),
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_leaf_of_an_uneven_tree_runs_once(seed: u64, leaves in 1_usize..3000, workers in 1_u32..6) {
        let ran: Vec<_> = (0..leaves).map(|_| AtomicUsize::new(0)).collect();
        fork::install(&pool(workers), || uneven(0, leaves, seed, &ran));
        prop_assert!(ran.iter().all(|ran| ran.load(Relaxed) == 1));
    }
}

#[test]
fn both_closures_run_although_one_panics() {
    for workers in [1, 2, 4] {
        let pool = pool(workers);
        // Depth 0 is kept; the deeper ones are plain on busy workers.
        for depth in [0, 1, 40, 200] {
            for (first, second) in [(true, false), (false, true), (true, true)] {
                let ran = AtomicUsize::new(0);
                let ran = &ran;
                let result = catch_unwind(AssertUnwindSafe(|| {
                    fork::install(&pool, || {
                        nest(depth, &|| {
                            let one = |panics, name: &'static str| {
                                move || {
                                    ran.fetch_add(1, Relaxed);
                                    if panics {
                                        panic!("{name}");
                                    }
                                }
                            };
                            fork::join(one(first, "first"), one(second, "second"));
                        })
                    })
                }));
                let expected = if first { "first" } else { "second" };
                assert_eq!(text(result.expect_err("a panic")), expected);
                assert_eq!(ran.load(Relaxed), 2);
            }
        }
        assert_eq!(fork::install(&pool, || fib(10)), 55, "the pool still works");
    }
}

/// Calls `leaf` below `depth` joins.
fn nest(depth: usize, leaf: &(dyn Fn() + Sync)) {
    match depth {
        0 => leaf(),
        _ => {
            fork::join(|| nest(depth - 1, leaf), || ());
        }
    }
}

#[test]
fn a_second_closure_that_the_first_one_waits_for_runs_on_another_worker() {
    // Always in reach of thieves: by `join_context`.
    let pool = pool(2);
    for _ in 0..50 {
        let met = Barrier::new(2);
        fork::install(&pool, || {
            fork::join_context(
                |_| met.wait(),
                |context| {
                    assert!(context.migrated());
                    met.wait();
                },
            )
        });
    }
}

#[test]
fn a_worker_that_becomes_idle_gets_a_fork_of_a_deep_recursion() {
    // Plain forks are of no use to a worker that becomes idle later: it asks, and the next fork is kept.
    let pool = pool(2);
    let seen = fork::install(&pool, || {
        let busy = AtomicBool::new(true);
        let stolen = AtomicBool::new(false);
        let me = fork::current_worker();
        fork::join_context(
            |_| {
                fn dive(
                    depth: usize,
                    busy: &AtomicBool,
                    stolen: &AtomicBool,
                    me: &(dyn Fn() -> bool + Sync),
                ) {
                    let Some(depth) = depth.checked_sub(1) else {
                        // Now the other worker gets free.
                        busy.store(false, SeqCst);
                        let start = Instant::now();
                        while !stolen.load(SeqCst) && start.elapsed() < Duration::from_secs(20) {
                            fork::join(std::hint::spin_loop, || {
                                if me() {
                                    stolen.store(true, SeqCst)
                                }
                            });
                        }
                        return;
                    };
                    fork::join(|| dive_out(depth, busy, stolen), || ());
                }
                fn dive_out(depth: usize, busy: &AtomicBool, stolen: &AtomicBool) {
                    let here = std::thread::current().id();
                    dive(depth, busy, stolen, &move || {
                        std::thread::current().id() != here
                    });
                }
                dive_out(100, &busy, &stolen);
                stolen.load(SeqCst)
            },
            |_| {
                assert_ne!(fork::current_worker(), me);
                while busy.load(SeqCst) {
                    std::hint::spin_loop();
                }
            },
        )
        .0
    });
    assert!(seen, "no fork was taken in 20 seconds");
}

#[test]
fn scopes_wait_for_all_that_they_spawn() {
    for workers in WORKERS {
        let pool = pool(workers);
        let ran = AtomicUsize::new(0);
        fork::install(&pool, || {
            fork::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|scope| {
                        scope.spawn(|_| {
                            ran.fetch_add(1, Relaxed);
                        });
                        ran.fetch_add(1, Relaxed);
                    });
                }
            });
        });
        assert_eq!(ran.load(Relaxed), 200);
        // From outside, and on two pools at once.
        let sum = fork::in_place_scope_in(&pool, |scope| {
            scope.spawn_broadcast(|_, context| {
                ran.fetch_add(context.num_threads(), Relaxed);
            });
            7
        });
        assert_eq!(sum, 7);
        assert_eq!(ran.load(Relaxed), 200 + (workers * workers) as usize);
    }
}

#[test]
fn one_worker_runs_spawned_closures_in_the_order_that_the_scope_promises() {
    let pool = pool(1);
    let order = Mutex::new(Vec::new());
    let push = |n| order.lock().expect("no panic").push(n);
    let push = &push;
    fork::install(&pool, || {
        fork::scope(|scope| (0..5).for_each(|n| scope.spawn(move |_| push(n))));
        fork::scope_fifo(|scope| (5..10).for_each(|n| scope.spawn_fifo(move |_| push(n))));
    });
    let order = order.into_inner().expect("no panic");
    assert_eq!(order, [4, 3, 2, 1, 0, 5, 6, 7, 8, 9]);
}

#[test]
fn a_scope_goes_on_with_a_panic_once_all_have_ended() {
    let pool = pool(2);
    let ran = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        fork::install(&pool, || {
            fork::scope(|scope| {
                for n in 0..20 {
                    let ran = &ran;
                    scope.spawn(move |_| {
                        ran.fetch_add(1, Relaxed);
                        assert!(n != 7, "seven");
                    });
                }
            })
        })
    }));
    assert_eq!(text(result.expect_err("a panic")), "seven");
    assert_eq!(ran.load(Relaxed), 20);
}

#[test]
fn spawned_closures_run_before_the_pool_ends() {
    for workers in WORKERS {
        let ran = Arc::new(AtomicUsize::new(0));
        let pool = pool(workers);
        for _ in 0..30 {
            let ran = Arc::clone(&ran);
            fork::spawn_in(&pool, move || {
                for _ in 0..2 {
                    let ran = Arc::clone(&ran);
                    fork::spawn(move || {
                        std::thread::yield_now();
                        ran.fetch_add(1, Relaxed);
                    });
                }
            });
        }
        drop(pool);
        assert_eq!(ran.load(Relaxed), 60);
    }
}

#[test]
fn a_panic_that_nothing_waits_for_goes_to_the_handler() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let pool = Pool::builder()
        .workers(2)
        .panic_handler(move |payload| {
            let sender = sender.lock().expect("no panic");
            sender.send(text(payload)).expect("it is received");
        })
        .build()
        .expect("a pool");
    fork::spawn_in(&pool, || panic!("nobody waits"));
    assert_eq!(receiver.recv().expect("a panic"), "nobody waits");
    fork::spawn_broadcast_in(&pool, |_| panic!("nobody waits, twice"));
    for _ in 0..2 {
        assert_eq!(receiver.recv().expect("a panic"), "nobody waits, twice");
    }
}

#[test]
fn broadcasts_run_on_each_worker() {
    for workers in WORKERS {
        let pool = pool(workers);
        let all: Vec<_> = (0..workers as usize).collect();
        assert_eq!(fork::broadcast_in(&pool, |context| context.index()), all);
        let inside = fork::install(&pool, || fork::broadcast(|context| context.index()));
        assert_eq!(inside, all);
        // Two at once, each of which the other's parts may wait for.
        let twice = fork::install(&pool, || {
            fork::join(
                || fork::broadcast(|context| context.index()),
                || fork::broadcast(|context| context.index()),
            )
        });
        assert_eq!(twice, (all.clone(), all));
    }
}

#[test]
fn a_task_of_a_graph_that_a_worker_waits_for_may_broadcast() {
    let pool = pool(2);
    fork::install(&pool, || {
        for _ in 0..500 {
            let run = pool.scope(|scope| {
                for task in 0..4 {
                    scope.task("task").register(move |_| match task {
                        0 => (0..2000).for_each(|_| std::hint::spin_loop()),
                        _ => _ = fork::broadcast(|_| ()),
                    });
                }
            });
            run.expect("it ends");
        }
    });
}

#[test]
fn pools_install_in_each_other() {
    let (one, two) = (pool(1), pool(1));
    fn bounce(depth: u32, here: &Pool, there: &Pool) -> u32 {
        match depth {
            0 => 0,
            _ => fork::install(here, || 1 + bounce(depth - 1, there, here)),
        }
    }
    assert_eq!(bounce(30, &one, &two), 30);
}

#[test]
fn a_task_forks_and_a_forked_closure_runs_a_graph() {
    for workers in WORKERS {
        let pool = pool(workers);
        let total = AtomicUsize::new(0);
        pool.scope(|s| {
            for _ in 0..8 {
                s.task("forks").register(|_| {
                    let one = || {
                        // A graph in a fork in a task, on the same pool.
                        pool.scope(|s| {
                            for _ in 0..4 {
                                s.task("inner").register(|_| {
                                    total.fetch_add(fib(10) as usize, Relaxed);
                                });
                            }
                        })
                    };
                    let (a, b) = fork::join(one, one);
                    a.and(b).expect("no error");
                });
            }
        })
        .expect("no error");
        assert_eq!(total.load(Relaxed), 8 * 2 * 4 * 55);
    }
}

#[test]
fn a_panic_in_a_fork_of_a_task_fails_the_graph() {
    let pool = pool(2);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.task("forks").register(|_| {
                fork::join(|| fib(12), || panic!("in a fork"));
            });
        })
    }));
    assert_eq!(text(result.expect_err("a panic")), "in a fork");
}

#[test]
fn a_cancelled_graph_stops_the_graphs_in_its_forks() {
    let pool = pool(2);
    let cancel = tanada_runtime::Cancel::new();
    let outcome = pool.scope_with_cancel(&cancel, |s| {
        s.task("forks").register(|_| {
            let run = |stops: bool| {
                if stops {
                    cancel.cancel();
                }
                while !cancel.is_cancelled() {
                    std::hint::spin_loop();
                }
                pool.scope(|s| {
                    s.task("never").register(|_| panic!("it was cancelled"));
                })
            };
            let (a, b) = fork::join_context(|_| run(true), |_| run(false));
            assert_eq!(a, Err(GraphError::Cancelled));
            assert_eq!(b, Err(GraphError::Cancelled));
        });
    });
    // The one task of the outer graph had begun, so that none was left out.
    assert_eq!(outcome, Ok(()));
}

#[test]
fn waits_do_not_pile_up_without_bound() {
    // A comb whose every fork may be stolen by a worker that waits in a stolen one. Small stacks would overflow.
    fn comb(depth: usize) {
        if depth > 0 {
            fork::join_context(
                |_| {
                    std::thread::yield_now();
                },
                |_| comb(depth - 1),
            );
        }
    }
    let pool = Pool::builder()
        .workers(8)
        .stack_size(2 << 20)
        .build()
        .expect("a pool");
    fork::install(&pool, || comb(1500));
    // A million waits, each for a closure of a scope.
    let ran = AtomicUsize::new(0);
    fork::install(&pool, || {
        fork::scope(|scope| {
            for _ in 0..1_000_000 {
                scope.spawn(|_| {
                    fork::join_context(|_| ran.fetch_add(1, Relaxed), |_| ());
                });
            }
        });
    });
    assert_eq!(ran.load(Relaxed), 1_000_000);
}

#[test]
fn frames_of_kept_forks_are_small() {
    const LEVELS: usize = 1_000;
    /// Returns an address in the frame of the last level.
    fn comb(levels: usize) -> usize {
        let here = 0_u8;
        match levels {
            0 => std::ptr::from_ref(std::hint::black_box(&here)).addr(),
            _ => fork::join_context(|_| comb(levels - 1), |_| ()).0,
        }
    }
    let taken = fork::install(&pool(1), || {
        let here = 0_u8;
        std::ptr::from_ref(std::hint::black_box(&here)).addr() - comb(LEVELS)
    });
    // A release build takes a third of a kilobyte a level: 5,000 levels have to fit on a stack of 2 MiB.
    let most = if cfg!(debug_assertions) { 1_024 } else { 400 };
    let each = taken / LEVELS;
    assert!(each < most, "{each} bytes a level");
}

#[test]
fn small_jobs_of_an_unbalanced_tree_are_caught_in_piles() {
    /// Counts the nodes of a tree in which a node has eight children with the probability 0.1248.
    fn nodes(name: u64, children: u64, ran: &AtomicUsize) {
        ran.fetch_add(1, Relaxed);
        fn each(name: u64, first: u64, last: u64, ran: &AtomicUsize) {
            if last - first > 1 {
                let middle = first.midpoint(last);
                fork::join(
                    || each(name, first, middle, ran),
                    || each(name, middle, last, ran),
                );
                return;
            }
            let mut child = (name + last).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            child = (child ^ (child >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
            child ^= child >> 29;
            nodes(child >> 1, if child % 10_000 < 1_248 { 8 } else { 0 }, ran);
        }
        if children > 0 {
            each(name, 0, children, ran);
        }
    }
    let serial = AtomicUsize::new(0);
    fork::install(&pool(1), || nodes(1, 200, &serial));
    for workers in WORKERS {
        let pool = pool(workers);
        for _ in 0..5 {
            let ran = AtomicUsize::new(0);
            fork::install(&pool, || nodes(1, 200, &ran));
            assert_eq!(ran.into_inner(), serial.load(Relaxed));
        }
    }
}

#[test]
fn yields_run_what_was_spawned() {
    assert_eq!(fork::yield_now(), None);
    assert_eq!(fork::yield_local(), None);
    let pool = pool(1);
    fork::install(&pool, || {
        assert_eq!(fork::yield_now(), Some(Yield::Idle));
        let ran = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&ran);
        fork::spawn(move || set.store(true, Relaxed));
        assert_eq!(fork::has_pending_jobs(), Some(true));
        assert_eq!(fork::yield_local(), Some(Yield::Executed));
        assert!(ran.load(Relaxed));
        assert_eq!(fork::has_pending_jobs(), Some(false));
    });
}

#[test]
fn handlers_run_on_each_thread() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let send = Arc::new(move |event: (bool, usize)| {
        let sender = sender.lock().expect("no panic");
        sender.send(event).expect("it is received");
    });
    let (start, exit) = (Arc::clone(&send), send);
    let pool = Pool::builder()
        .workers(3)
        .start_handler(move |me| start((true, me)))
        .exit_handler(move |me| exit((false, me)))
        .build()
        .expect("a pool");
    drop(pool);
    let mut events: Vec<_> = receiver.into_iter().collect();
    events.sort_unstable();
    let expected = [false, true].map(|starts| [0, 1, 2].map(|me| (starts, me)));
    assert_eq!(events, expected.concat());
}

#[test]
fn a_thread_that_was_adopted_is_a_worker() {
    let thread = std::thread::spawn(|| {
        let (pool, workers) = Pool::builder().workers(2).build_threads().expect("a pool");
        let mut workers = workers.into_iter();
        workers.next().expect("worker 0").adopt();
        let other = workers.next().expect("worker 1");
        let other = std::thread::spawn(|| other.run());
        assert_eq!(fork::worker_of(&pool).map(|me| me.index()), Some(0));
        let met = Barrier::new(2);
        fork::join_context(|_| met.wait(), |_| met.wait());
        assert_eq!(fib(20), 6765);
        drop(pool);
        other.join().expect("it ends");
    });
    thread.join().expect("no panic");
}

#[test]
fn a_pool_of_forks_ends_with_its_handle() {
    for workers in [1, 2, 4, 64] {
        let builder = Pool::builder().workers(workers);
        let (pool, threads) = builder.build_fork_threads(2).expect("a pool");
        let threads: Vec<_> = threads
            .into_iter()
            .map(|worker| std::thread::spawn(|| worker.run()))
            .collect();
        assert_eq!(fork::install(&pool, || fib(20)), 6765);
        // Its regions are made by the first use.
        let members = AtomicUsize::new(0);
        let ran = (pool.region("counted")).run(None, |_| _ = members.fetch_add(1, Relaxed));
        assert_eq!(ran, Ok(()));
        assert_eq!(members.load(Relaxed), workers as usize);
        // Nearly all workers sleep by then: one of them is woken, and wakes others.
        std::thread::sleep(Duration::from_millis(5));
        drop(pool);
        for thread in threads {
            thread.join().expect("it ends");
        }
    }
}

#[test]
fn a_pool_of_forks_knows_the_names_of_policies() {
    let built = |policy: &str| {
        let builder = Pool::builder().workers(1).policy(policy);
        builder.build_fork_threads(1).map(|(pool, _)| pool)
    };
    for policy in ["random", "ts-local", "ts-local+cutoff", "near-steal+adws"] {
        let pool = built(policy).expect(policy);
        // Tasks are scheduled by the policy that keeps nothing for a worker.
        assert_eq!(pool.policy(), "fcfs", "{policy}");
    }
    for policy in ["no-such-policy", "ts-local+no-such-policy", "critical-path"] {
        assert!(built(policy).is_err(), "{policy}");
    }
}

#[test]
fn a_worker_refuses_to_run_another_worker() {
    let pool = pool(1);
    let refused = |within: &str| {
        let (_other, workers) = Pool::builder().workers(1).build_threads().expect("a pool");
        let worker = workers.into_iter().next().expect("worker 0");
        let panic = catch_unwind(AssertUnwindSafe(|| worker.run()));
        let panic = panic.expect_err(within);
        let message = panic.downcast_ref::<&str>().expect("a message");
        assert_eq!(*message, "this thread is a worker already", "{within}");
    };
    let thread = Builder::new().pool(&pool);
    let thread = thread.spawn(move || refused("a lightweight thread"));
    thread.expect("a thread").join().expect("no panic");
    fork::install(&pool, || refused("a job"));
    assert_eq!(fork::install(&pool, || fib(20)), 6765);
}

#[test]
fn a_pool_that_one_of_its_workers_drops_ends() {
    let pool = pool(2);
    let (sender, receiver) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let moved = pool.clone();
    fork::spawn_in(&pool, move || {
        // Until the other handle is gone.
        let () = receiver.recv().expect("it is sent");
        drop(moved);
        ended.send(()).expect("it is received");
    });
    drop(pool);
    sender.send(()).expect("it is received");
    end.recv().expect("the closure ends");
}

#[test]
fn a_join_waits_on_the_thread_that_called_it() {
    let pool = pool(4);
    fork::install(&pool, || {
        for _ in 0..200 {
            let here = std::thread::current().id();
            fork::join_context(|_| fib(8), |_| fib(9));
            assert_eq!(std::thread::current().id(), here);
        }
    });
}

#[test]
fn a_child_of_fork_says_that_it_has_no_workers() {
    in_own_process("child_of_fork", &[]);
}

#[test]
#[ignore = "in a process of its own"]
#[allow(unsafe_code, reason = "fork(2)")]
fn child_of_fork() {
    let pool = pool(2);
    assert_eq!(fork::install(&pool, || fib(10)), 55);
    // SAFETY: the child only calls what is tested here, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(10);
            let refused = catch_unwind(AssertUnwindSafe(|| fork::install(&pool, || 1))).is_err();
            // The default pool is a new one in the child.
            let works = fib(12) == 144;
            libc::_exit(i32::from(!(refused && works)));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{status}"
        );
    }
}

#[test]
fn a_process_exits_in_a_fork() {
    let (status, _) = run_in_own_process("exits_in_a_fork", &[]);
    assert_eq!(status.code(), Some(9));
}

#[test]
#[ignore = "in a process of its own"]
fn exits_in_a_fork() {
    fn quit() {
        std::process::exit(9);
    }
    let pool = pool(2);
    fork::install(&pool, || fork::join_context(|_| fib(20), |_| quit()));
}

#[test]
fn a_panic_that_nothing_waits_for_ends_the_process() {
    let (status, text) = run_in_own_process("panics_alone", &[]);
    assert!(!status.success());
    assert!(
        text.contains("nobody waits") && text.contains("nothing waits for it"),
        "{text}"
    );
}

#[test]
#[ignore = "in a process of its own"]
fn panics_alone() {
    let pool = pool(1);
    fork::spawn_in(&pool, || panic!("nobody waits"));
    std::thread::sleep(Duration::from_secs(20));
}

#[test]
fn a_recursion_without_end_overflows_the_stack_as_elsewhere() {
    let (status, text) = run_in_own_process("overflows", &[]);
    assert!(!status.success());
    assert!(text.contains("has overflowed its stack"), "{text}");
}

#[test]
#[ignore = "in a process of its own"]
fn overflows() {
    fn down(n: u64) -> u64 {
        let (a, b) = fork::join(|| down(n + 1), || n);
        std::hint::black_box(a + b)
    }
    let pool = pool(2);
    fork::install(&pool, || down(0));
}

/// Waits in each other: each scope waits for the closure that it has spawned, which opens the next one.
fn wait_in_waits(depth: usize, ran: &AtomicUsize) {
    ran.fetch_add(1, Relaxed);
    if depth > 1 {
        fork::scope(|scope| scope.spawn(|_| wait_in_waits(depth - 1, ran)));
    }
}

#[test]
fn a_million_waits_in_each_other_end_or_are_a_stack_overflow() {
    // What is nested is the program's own recursion: with little stack it overflows, as it would without a pool.
    let (status, text) = run_in_own_process("waits_on_little_stack", &[]);
    assert!(!status.success());
    assert!(text.contains("has overflowed its stack"), "{text}");
    // With enough it ends, of which a tenth shall do: all would take a gigabyte.
    let (status, text) = run_in_own_process("waits_on_much_stack", &[]);
    assert!(status.success(), "{text}");
}

fn wait_in(depth: usize, stack_size: usize) {
    let pool = Pool::builder().workers(2).stack_size(stack_size).build();
    let ran = AtomicUsize::new(0);
    fork::install(&pool.expect("a pool"), || wait_in_waits(depth, &ran));
    assert_eq!(ran.load(Relaxed), depth);
}

#[test]
#[ignore = "in a process of its own"]
fn waits_on_little_stack() {
    wait_in(1_000_000, 2 << 20);
}

#[test]
#[ignore = "in a process of its own"]
fn waits_on_much_stack() {
    wait_in(100_000, 512 << 20);
}
