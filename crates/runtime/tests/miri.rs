//! A small program with every kind of graph, for Miri: `cargo +nightly miri test -p tanada-runtime --test miri`, with
//! `MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"`. It runs in ordinary test runs, too.
//!
//! Miri needs `-Zmiri-permissive-provenance` because a [`Ready`](tanada_policy::Ready) holds an address as a number, and
//! `-Zmiri-disable-isolation` because a pool reads the machine's topology.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tanada_policy::registry;
use tanada_runtime::{
    Cancel, GraphError, Member, Pool, SGroup, Schedule, Scope, TGroup, TemplateBuilder, fork,
};
use tanada_topology::Topology;

fn for_each_pool(workers: u32, test: impl Fn(&Pool)) {
    for policy in registry::kinds() {
        // The machine's own topology is read from hundreds of files, which takes Miri a minute.
        let pool = Pool::builder()
            .topology(Topology::flat(0..2).expect("two hardware threads"))
            .workers(workers)
            .policy(policy.name)
            .build()
            .expect("a pool");
        test(&pool);
    }
}

/// The words of a channel, which are reached by pointers; values that own memory, taken and left.
#[test]
#[cfg(target_os = "linux")]
fn messages() {
    use tanada_runtime::messages::{Channel, RecvError};
    let channel = Channel::builder().senders(2).capacity(4).payload(20);
    let channel = channel.build().expect("it is well described");
    let typed = Channel::builder().capacity(4).build_typed::<Box<u64>>();
    let typed = typed.expect("it is well described");
    let mut receiver = channel.receiver().expect("there is none yet");
    let mut values = typed.receiver().expect("there is none yet");
    std::thread::scope(|threads| {
        for lane in 0..2_u64 {
            let mut sender = channel.sender().expect("a lane is free");
            threads.spawn(move || {
                for value in 0..12 {
                    let payload = [lane as u8; 20];
                    let payload = &payload[..(value % 20) as usize];
                    while sender.try_send(0, value, payload).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut sender = typed.sender().expect("a lane is free");
        threads.spawn(move || {
            for mut value in (0..12).map(Box::new) {
                while let Err(unsent) = sender.try_send(value) {
                    value = unsent.value;
                    std::thread::yield_now();
                }
            }
        });
        let (mut next, mut got) = ([0; 2], 0);
        loop {
            match receiver.try_recv() {
                Ok(message) => {
                    let lane = message.lane();
                    assert_eq!(message.value(), next[lane]);
                    assert_eq!(message.to_vec(), vec![lane as u8; next[lane] as usize]);
                    next[lane] += 1;
                }
                Err(RecvError::Closed) => break,
                Err(_) => std::thread::yield_now(),
            }
            // The last values stay in the channel.
            if got < 9
                && let Ok(value) = values.try_recv()
            {
                assert_eq!(*value, got);
                got += 1;
            }
        }
        while got < 9 {
            if let Ok(value) = values.try_recv() {
                assert_eq!(*value, got);
                got += 1;
            }
        }
        assert_eq!(next, [12; 2]);
    });
}

#[test]
fn dynamic_graphs() {
    for_each_pool(2, |pool| {
        let sum = AtomicU32::new(0);
        let sum = &sum;
        pool.scope(|s| {
            let large = [1_u32; 40]; // does not fit into a node, so the closure is boxed
            let first = s.task("first").register(move |s| {
                sum.fetch_add(large.iter().sum(), Ordering::Relaxed);
                s.task("child").register(|_| {
                    sum.fetch_add(1, Ordering::Relaxed);
                });
            });
            let held = s
                .task("held")
                .groups(TGroup(1), SGroup(1))
                .count(1)
                .after([first])
                .register(|_| {
                    sum.fetch_add(1, Ordering::Relaxed);
                });
            for index in 0..10 {
                let body = |_: &Scope<'_>| {
                    sum.fetch_add(1, Ordering::Relaxed);
                };
                s.task("fan").index(index).after([held]).register(body);
            }
            s.depend(held, first).expect("a count is left");
            s.resolve(held).expect("a count is left");
        })
        .expect("a graph that ends");
        assert_eq!(sum.load(Ordering::Relaxed), 52);
    });
}

#[test]
fn a_thread_resolves() {
    for_each_pool(2, |pool| {
        let ran = AtomicU32::new(0);
        let ran = &ran;
        let helper = pool.scope(|s| {
            let task = s.task("waits").count(2).register(move |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            s.resolve(task).expect("a count is left");
            let resolver = s.resolver();
            std::thread::spawn(move || resolver.clone().resolve(task).expect("a count is left"))
        });
        let helper = helper.expect("a graph that ends");
        helper.join().expect("no panic");
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn nested_graphs() {
    for_each_pool(2, |pool| {
        let sum = AtomicU32::new(0);
        let sum = &sum;
        pool.scope(|s| {
            for _ in 0..2 {
                s.task("outer").register(move |_| {
                    let inner = pool.scope(|s| {
                        let count = move |_: &Scope<'_>| {
                            sum.fetch_add(1, Ordering::Relaxed);
                        };
                        // Three tasks that one task releases at the same time, and one that waits for all of them.
                        let first = s.task("first").count(1).register(count);
                        let fan = [0, 1, 2]
                            .map(|at| s.task("fan").index(at).after([first]).register(count));
                        s.task("last").after(fan).register(count);
                        s.task("side").register(count);
                        s.resolve(first).expect("a count is left");
                    });
                    inner.expect("a graph that ends");
                });
            }
        })
        .expect("a graph that ends");
        assert_eq!(sum.load(Ordering::Relaxed), 12);
    });
}

#[test]
fn templates() {
    for_each_pool(2, |pool| {
        let mut builder = TemplateBuilder::<AtomicU64>::new();
        let owned = Box::new(1);
        let first = builder.task("first", 0, move |sum: &AtomicU64, _| {
            sum.fetch_add(*owned, Ordering::Relaxed);
        });
        // More successors than a node stores.
        for index in 0..5 {
            let next = builder.task("next", index, |sum, _| {
                sum.fetch_add(1, Ordering::Relaxed);
            });
            builder.edge(first, next);
        }
        let template = builder.build().expect("no cycle");
        // Dropped right after the last run: nothing may touch it any more.
        for rooms in [1, 2] {
            let sums = [const { AtomicU64::new(0) }; 4];
            let mut instance = template.instances(rooms);
            instance.run_each(pool, &sums).expect("runs that end");
            drop(instance);
            assert!(sums.into_iter().all(|sum| sum.into_inner() == 6));
        }
        pool.scope(|s| {
            let template = &template;
            s.task("runs a template").register(move |_| {
                let sum = AtomicU64::new(0);
                template.instance().run(pool, &sum).expect("it ends");
                assert_eq!(sum.into_inner(), 6);
            });
        })
        .expect("a graph that ends");
    });
}

#[test]
fn broadcasts_and_regions() {
    for_each_pool(2, |pool| {
        let (sum, base) = (AtomicU64::new(0), [1, 2]);
        let (sum, base) = (&sum, &base);
        let add = |member: Member| {
            sum.fetch_add(base[member.index()], Ordering::Relaxed);
            Box::new(member.index())
        };
        let boxes = pool.broadcast(add).expect("a broadcast");
        assert_eq!(boxes.into_iter().map(|b| *b).collect::<Vec<_>>(), [0, 1]);
        pool.scope(|s| {
            for _ in 0..2 {
                s.task("broadcasts").register(move |_| {
                    pool.broadcast(|member| {
                        add(member);
                        if member.index() == 0 {
                            pool.broadcast(add).expect("a nested broadcast");
                        }
                    })
                    .expect("a broadcast");
                });
            }
        })
        .expect("a graph that ends");
        assert_eq!(sum.swap(0, Ordering::Relaxed), 3 + 2 * (3 + 3));
        let region = pool.region(format!("loop of {}", pool.policy()));
        for schedule in [Schedule::Static, Schedule::Dynamic(2)] {
            let each = region.for_each(0..7, schedule, |i| {
                sum.fetch_add(i as u64, Ordering::Relaxed);
            });
            each.expect("a region");
        }
        assert_eq!(sum.load(Ordering::Relaxed), 2 * 21);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            pool.broadcast(|member| assert_eq!(member.index(), 9, "{}", base[0]))
        }));
        assert!(panics.is_err());
    });
}

#[test]
fn failures() {
    for_each_pool(1, |pool| {
        let kept = Box::new(1);
        let left = pool.scope(|s| {
            s.task("never").count(1).register(move |_| drop(kept));
        });
        assert!(matches!(left, Err(GraphError::Unresolved { .. })));
        let cancel = Cancel::new();
        let owned = Box::new(1);
        let stopped = pool.scope_with_cancel(&cancel, |s| {
            let first = s.task("stops").register(|_| cancel.cancel());
            s.task("dropped")
                .after([first])
                .register(move |_| drop(owned));
        });
        assert_eq!(stopped, Err(GraphError::Cancelled));
    });
}

/// The second closure of a fork and its result lie on a stack and are reached by an address, and what divides the workers is reached
/// from there.
#[test]
fn forks() {
    fn sum(begin: u64, end: u64) -> u64 {
        if end - begin == 1 {
            std::thread::yield_now();
            return begin;
        }
        let middle = begin + (end - begin) / 2;
        let (left, right) = fork::join(|| sum(begin, middle), || sum(middle, end));
        left + right
    }
    for policy in ["near-steal", "near-steal+adws"] {
        let pool = Pool::builder()
            .topology(Topology::flat(0..2).expect("two hardware threads"))
            .workers(3)
            .policy(policy)
            .build()
            .expect("a pool");
        fork::install(&pool, || {
            for _ in 0..3 {
                assert_eq!(sum(0, 12), 66);
            }
        });
        let panic = catch_unwind(AssertUnwindSafe(|| {
            fork::install(&pool, || {
                fork::join(|| sum(0, 4), || panic!("as it should"))
            });
        }));
        assert!(panic.is_err());
        let mut words = vec![String::new(); 4];
        fork::install(&pool, || {
            fork::scope(|scope| {
                for word in &mut words {
                    scope.spawn(|_| word.push_str("here"));
                }
            });
        });
        assert!(words.iter().all(|word| word == "here"));
    }
}
