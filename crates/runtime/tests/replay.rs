//! Replays: equal seeds give equal orders, decisions of a free run can be followed, and what is no part of a schedule is named.

#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::mpsc;
use tanada_runtime::replay::Decisions;
use tanada_runtime::{Pool, Replay, TemplateBuilder, policies};

/// A program on one pool: its tasks register, resolve, wait for nested graphs, and all threads that the engine knows take part.
fn program(pool: &Pool) -> u64 {
    let sum = AtomicU64::new(0);
    let add = |by: u64| _ = sum.fetch_add(by, Relaxed);
    pool.scope(|s| {
        let mut row = Vec::new();
        for i in 0..12 {
            let before: Vec<_> = row.iter().rev().take(2).step_by(2).copied().collect();
            let task = s.task("row").index(i).after(before);
            row.push(task.register(move |s| {
                for j in 0..i % 3 {
                    s.task("child").index(10 * i + j).register(move |_| add(1));
                }
                let counted = s
                    .task("counted")
                    .index(i)
                    .count(1)
                    .register(move |_| add(100));
                add(10_000);
                s.resolve(counted).expect("a count");
            }));
        }
        s.task("nests").register(|_| {
            let inner = AtomicU64::new(0);
            pool.scope(|s| {
                for i in 0..6 {
                    let inner = &inner;
                    s.task("inner")
                        .index(i)
                        .register(move |_| _ = inner.fetch_add(1, Relaxed));
                }
            })
            .expect("a nested graph");
            assert_eq!(inner.into_inner(), 6);
        });
        s.task("broadcasts").register(|_| {
            let all = pool
                .broadcast(|member| member.index())
                .expect("a broadcast");
            assert_eq!(all.len(), usize::from(pool.workers()));
        });
    })
    .expect("a graph");
    let mut builder = TemplateBuilder::<AtomicU64>::new();
    let ids: Vec<_> = (0..8)
        .map(|i| {
            builder.task("node", i, |sum: &AtomicU64, _| {
                _ = sum.fetch_add(1 << 40, Relaxed)
            })
        })
        .collect();
    for i in 0..4 {
        builder.edge(ids[i], ids[i + 4]);
    }
    let template = builder.build().expect("no cycle");
    template
        .instance()
        .run_each(pool, &[AtomicU64::new(0), AtomicU64::new(0)])
        .expect("runs");
    pool.region("region")
        .for_each(0..100, tanada_runtime::Schedule::Dynamic(7), |_| {
            add(1 << 30)
        })
        .expect("a region");
    sum.into_inner()
}

const SUM: u64 = 12 + 12 * 100 + 12 * 10_000 + (100 << 30);

fn run(policy: &str, workers: u32, replay: &Replay) -> Decisions {
    let pool = Pool::builder()
        .workers(workers)
        .policy(policy)
        .replay(replay);
    let pool = pool.build().expect("a pool");
    assert_eq!(program(&pool), SUM);
    drop(pool);
    replay.decisions()
}

#[test]
fn equal_seeds_give_equal_orders_under_every_policy() {
    let tasks = 12 + 12 + 12 + 6 + 2 + 16;
    for policy in policies::native() {
        for workers in [1, 2, 5] {
            let mut orders = BTreeSet::new();
            for seed in 0..20 {
                let [first, again] = [(), ()].map(|()| {
                    let replay = Replay::seed(seed);
                    let decisions = run(policy.name, workers, &replay);
                    assert_eq!(replay.departures(), [""; 0]);
                    decisions
                });
                assert_eq!(first.starts().len(), tasks, "{}", policy.name);
                assert_eq!(first, again, "{} on {workers}, seed {seed}", policy.name);
                orders.insert(format!("{first:?}"));
            }
            // One worker has choices, too: the thread that registers takes turns with it. Some policies undo most of them.
            let least = if workers == 1 { 2 } else { 10 };
            assert!(
                orders.len() >= least,
                "{} on {workers}: {}",
                policy.name,
                orders.len()
            );
        }
    }
}

#[test]
fn decisions_of_a_free_run_are_followed_to_the_end() {
    for policy in ["random-steal", "fcfs", "ts-local"] {
        for workers in [1, 2, 4] {
            let free = run(policy, workers, &Replay::free());
            let replay = Replay::follow(free.clone());
            let followed = run("fcfs", workers, &replay);
            assert_eq!(replay.departures(), [""; 0], "{policy} on {workers}");
            assert_eq!(followed, free, "{policy} on {workers}");
        }
    }
}

#[test]
fn another_program_diverges_and_ends_nevertheless() {
    let run = |replay: &Replay, tasks: [u64; 3]| {
        let pool = Pool::builder()
            .workers(2)
            .replay(replay)
            .build()
            .expect("a pool");
        pool.scope(|s| {
            for i in tasks {
                s.task("task").index(i).register(|_| ());
            }
        })
        .expect("a graph");
        replay.decisions()
    };
    let decisions = run(&Replay::seed(1), [1, 2, 3]);
    let third = &decisions.starts()[2];
    let (replay, other) = (Replay::follow(decisions.clone()), third.index + 10);
    let tasks = [1, 2, 3].map(|i| if i == third.index { other } else { i });
    let ran = run(&replay, tasks);
    assert_eq!(ran.starts()[..2], decisions.starts()[..2]);
    assert_eq!(ran.starts()[2].index, other);
    let departures = replay.departures();
    assert_eq!(departures.len(), 1, "{departures:?}");
    let wanted = format!(
        "diverged at decision 3: it is to start {third}, but ready are task[{other}] of pool 0"
    );
    assert!(departures[0].starts_with(&wanted), "{departures:?}");
}

#[test]
fn a_body_that_waits_for_something_outside_is_named_and_the_others_go_on() {
    let replay = Replay::seed(3);
    let pool = Pool::builder()
        .workers(2)
        .replay(&replay)
        .build()
        .expect("a pool");
    let (sender, receiver) = mpsc::channel();
    let receiver = std::sync::Mutex::new(receiver);
    pool.scope(|s| {
        s.task("waits")
            .index(5)
            .register(|_| receiver.lock().expect("whole").recv().expect("sent"));
        s.task("sends")
            .register(move |_| sender.send(()).expect("received"));
    })
    .expect("a graph");
    for departure in replay.departures() {
        assert!(
            departure.starts_with("task waits[5] on worker "),
            "{departure}"
        );
    }
    let barrier = Barrier::new(2);
    pool.broadcast(|_| _ = barrier.wait())
        .expect("parts may wait for each other");
    let departures = replay.departures();
    assert!((1..=3).contains(&departures.len()), "{departures:?}");
}

#[test]
fn pools_of_one_schedule_take_turns_together() {
    let run = |seed| {
        let replay = Replay::seed(seed);
        let pool = |policy| {
            Pool::builder()
                .workers(2)
                .policy(policy)
                .replay(&replay)
                .build()
                .expect("a pool")
        };
        let (a, b) = (pool("fcfs"), pool("random-steal"));
        a.scope(|s| {
            for i in 0..4 {
                let b = &b;
                s.task("a").index(i).register(move |_| {
                    b.scope(|s| {
                        (0..3).for_each(|j| _ = s.task("b").index(10 * i + j).register(|_| ()))
                    })
                    .expect("a graph");
                });
            }
            let replay = &replay;
            s.task("makes a pool").register(move |_| {
                let pool = Pool::builder()
                    .workers(2)
                    .replay(replay)
                    .build()
                    .expect("a pool");
                pool.scope(|s| (0..3).for_each(|i| _ = s.task("own").index(i).register(|_| ())))
                    .expect("a graph");
            });
        })
        .expect("a graph");
        drop((a, b));
        assert_eq!(replay.departures(), [""; 0]);
        replay.decisions()
    };
    let orders: BTreeSet<_> = (0..50)
        .map(|seed| {
            let first = run(seed);
            assert_eq!(first.starts().len(), 4 + 12 + 1 + 3);
            assert_eq!(first, run(seed), "seed {seed}");
            format!("{first:?}")
        })
        .collect();
    assert!(orders.len() > 40);
}

#[cfg(target_os = "linux")]
#[test]
fn a_task_that_waits_for_a_message_of_another_task_leaves_it_its_turn() {
    use tanada_runtime::messages::Channel;
    for seed in 0..50 {
        let replay = Replay::seed(seed);
        let pool = Pool::builder()
            .workers(2)
            .replay(&replay)
            .build()
            .expect("a pool");
        let channel = Channel::builder().build().expect("a channel");
        let mut sender = channel.sender().expect("a lane");
        let mut receiver = channel.receiver().expect("the one receiver");
        let got = AtomicU64::new(0);
        pool.scope(|s| {
            let got = &got;
            s.task("receives").register(move |_| {
                for _ in 0..3 {
                    got.fetch_add(receiver.recv().expect("a message").value(), Relaxed);
                }
            });
            s.task("sends")
                .register(move |_| (1..=3).for_each(|i| sender.send(0, i, b"").expect("room")));
        })
        .expect("a graph");
        assert_eq!(got.into_inner(), 6);
        assert_eq!(replay.departures(), [""; 0], "seed {seed}");
    }
}

/// Forks are no decisions of the pool, but they take turns as all else does.
#[test]
fn forks_end_and_equal_seeds_give_equal_orders() {
    use tanada_runtime::fork;

    fn tree(order: &parking_lot::Mutex<Vec<u32>>, at: u32) {
        if at >= 32 {
            Replay::point();
            return order.lock().push(at);
        }
        fork::join(|| tree(order, 2 * at), || tree(order, 2 * at + 1));
    }
    for workers in [1, 2, 5] {
        let mut orders = BTreeSet::new();
        for seed in 0..20 {
            let [first, again] = [(), ()].map(|()| {
                let replay = Replay::seed(seed);
                let builder = Pool::builder().workers(workers).replay(&replay);
                let pool = builder.build().expect("a pool");
                let order = parking_lot::Mutex::new(Vec::new());
                fork::install(&pool, || {
                    fork::scope(|s| {
                        s.spawn(|_| tree(&order, 2));
                        s.spawn(|_| tree(&order, 3));
                    });
                });
                drop(pool);
                assert_eq!(replay.departures(), [""; 0]);
                order.into_inner()
            });
            assert_eq!(first.len(), 32);
            assert_eq!(first, again, "{workers} workers, seed {seed}");
            orders.insert(first);
        }
        assert!(workers == 1 || orders.len() > 5, "{}", orders.len());
    }
}

/// Two threads of one worker wait for forks that other workers have begun, which need turns to end them.
#[test]
fn threads_that_wait_for_forks_let_other_workers_have_their_turns() {
    use tanada_runtime::{fork, thread};

    fn wait_for_a_fork() {
        let taken = AtomicBool::new(false);
        fork::join(
            || {
                while !taken.load(SeqCst) {
                    Replay::point();
                }
            },
            || {
                taken.store(true, SeqCst);
                (0..20).for_each(|_| Replay::point());
            },
        );
    }
    for seed in 0..20 {
        let replay = Replay::seed(seed);
        let builder = Pool::builder().workers(3).replay(&replay);
        let pool = builder.build().expect("a pool");
        fork::install(&pool, || {
            let threads = [(), ()].map(|()| thread::spawn(wait_for_a_fork));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(replay.departures(), [""; 0], "seed {seed}");
    }
}
