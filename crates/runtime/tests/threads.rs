//! Lightweight threads.
#![cfg(not(any(loom, shuttle, miri)))]
#![allow(unsafe_code, reason = "untied threads are created by unsafe functions")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tanada_runtime::thread::sync::{
    Barrier, Condvar, Mutex, OnceCell, Receiver, RecvError, SendError, TryRecvError, bounded,
    unbounded,
};
use tanada_runtime::thread::{self, Builder, Queues, Runnable, Scheduler, Why};
use tanada_runtime::{Pool, fork};

/// Runs `body` in a thread of a pool with each number of workers.
fn in_pools(body: impl Fn(&Pool) + Send + Sync) {
    for workers in [1, 2, 4, 64] {
        let pool = Pool::builder().workers(workers).build().unwrap();
        body(&pool);
    }
}

fn spawn_in<T: Send + 'static>(
    pool: &Pool,
    body: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    Builder::new().pool(pool).spawn(body).unwrap()
}

/// A recursion in which each thread creates two and waits for them.
fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = thread::spawn(move || fib(n - 1));
    let right = thread::spawn(move || fib(n - 2));
    left.join().unwrap() + right.join().unwrap()
}

#[test]
fn threads_create_threads_and_join_them() {
    in_pools(|pool| assert_eq!(spawn_in(pool, || fib(15)).join().unwrap(), 610));
}

#[test]
fn a_joined_thread_may_wait_itself() {
    in_pools(|pool| {
        let outer = spawn_in(pool, || {
            let (sender, receiver) = bounded(1);
            let child = thread::spawn(move || receiver.iter().sum::<u32>());
            let sending = thread::spawn(move || (0..100).for_each(|n| sender.send(n).unwrap()));
            let sum = child.join().unwrap();
            sending.join().unwrap();
            sum
        });
        assert_eq!(outer.join().unwrap(), 4950);
    });
}

#[test]
fn a_tied_thread_stays_on_its_worker_once_it_has_started() {
    in_pools(|pool| {
        let threads: Vec<_> = (0..200)
            .map(|_| {
                spawn_in(pool, || {
                    let here = std::thread::current().id();
                    (0..20).all(|turn| {
                        match turn % 3 {
                            0 => thread::sleep(Duration::from_micros(10)),
                            _ => thread::yield_now(),
                        }
                        std::thread::current().id() == here
                    })
                })
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

#[test]
fn untied_threads_end_wherever_they_go_on() {
    in_pools(|pool| {
        let sum = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..200)
            .map(|n| {
                let sum = Arc::clone(&sum);
                let body = move || {
                    for _ in 0..20 {
                        thread::yield_now();
                        sum.fetch_add(n, Relaxed);
                    }
                };
                // SAFETY: nothing on its stack depends on the OS thread.
                unsafe { Builder::new().pool(pool).spawn_untied(body) }.unwrap()
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(sum.load(Relaxed), 20 * 199 * 100);
    });
}

#[test]
fn a_panic_reaches_the_one_that_joins() {
    in_pools(|pool| {
        let payload = spawn_in(pool, || panic!("on purpose")).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
        let nested = spawn_in(pool, || {
            let child = thread::spawn(|| {
                thread::yield_now();
                panic!("on purpose, too")
            });
            child.join().is_err()
        });
        assert!(nested.join().unwrap());
    });
}

#[test]
fn detached_threads_run_and_the_pool_waits_for_them() {
    let ran = Arc::new(AtomicUsize::new(0));
    in_pools(|pool| {
        for _ in 0..50 {
            let ran = Arc::clone(&ran);
            drop(spawn_in(pool, move || {
                thread::sleep(Duration::from_millis(2));
                ran.fetch_add(1, Relaxed);
            }));
        }
    });
    assert_eq!(ran.load(Relaxed), 200);
}

#[test]
fn a_mutex_excludes_and_its_guard_is_kept_over_a_wait() {
    in_pools(|pool| {
        let value = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let value = Arc::clone(&value);
                spawn_in(pool, move || {
                    for _ in 0..20 {
                        let mut value = value.lock();
                        let seen = *value;
                        thread::yield_now();
                        *value = seen + 1;
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(*value.lock(), 1000);
    });
}

#[test]
fn a_condition_variable_wakes_one_or_all_or_nobody_in_time() {
    in_pools(|pool| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let shared = Arc::clone(&shared);
                spawn_in(pool, move || {
                    let (value, changed) = &*shared;
                    let mut value = value.lock();
                    while *value == 0 {
                        value = changed.wait(value);
                    }
                    *value += 1;
                })
            })
            .collect();
        *shared.0.lock() = 1;
        shared.1.notify_one();
        shared.1.notify_all();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.0.lock(), 21);
        let late = spawn_in(pool, || {
            let (value, changed) = (Mutex::new(()), Condvar::new());
            let begin = Instant::now();
            let (guard, notified) = changed.wait_timeout(value.lock(), Duration::from_millis(3));
            drop(guard);
            (notified, begin.elapsed())
        });
        let (notified, after) = late.join().unwrap();
        assert!(!notified && after >= Duration::from_millis(3));
    });
}

#[test]
fn a_barrier_lets_its_group_go_on_together() {
    in_pools(|pool| {
        let barrier = Arc::new(Barrier::new(8));
        let arrived = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (barrier, arrived) = (Arc::clone(&barrier), Arc::clone(&arrived));
                spawn_in(pool, move || {
                    let mut leads = 0;
                    for round in 1..=20 {
                        arrived.fetch_add(1, Relaxed);
                        leads += usize::from(barrier.wait().is_leader());
                        assert!(arrived.load(Relaxed) >= 8 * round);
                        barrier.wait();
                    }
                    leads
                })
            })
            .collect();
        let leads: usize = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(leads, 20);
    });
}

#[test]
fn channels_keep_order_and_end() {
    in_pools(|pool| {
        let (sender, receiver) = bounded(3);
        let producer = spawn_in(pool, move || (0..500).for_each(|n| sender.send(n).unwrap()));
        let consumer = spawn_in(pool, move || receiver.iter().collect::<Vec<_>>());
        producer.join().unwrap();
        assert!(consumer.join().unwrap().into_iter().eq(0..500));

        let (sender, receiver) = unbounded::<u32>();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let waits = spawn_in(pool, move || {
            let none = receiver.recv_timeout(Duration::from_millis(2));
            (none, receiver.recv())
        });
        std::thread::sleep(Duration::from_millis(5));
        drop(sender);
        let (none, end) = waits.join().unwrap();
        assert!(matches!(
            none,
            Err(TryRecvError::Empty | TryRecvError::Disconnected)
        ));
        assert_eq!(end, Err(RecvError));

        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let stuck = spawn_in(pool, move || sender.send(2).is_err());
        drop(receiver);
        assert!(stuck.join().unwrap());
    });
}

#[test]
fn each_message_is_received_once_in_its_sender_s_order_by_whoever_waits() {
    const EACH: usize = 300;
    /// Receives until all senders are gone; with a time that is often over, if `hasty`. Returns the messages by sender.
    fn receive(receiver: &Receiver<(usize, Box<usize>)>, hasty: bool) -> [Vec<usize>; 4] {
        let mut received = [const { Vec::new() }; 4];
        loop {
            let message = match hasty {
                true => receiver.recv_timeout(Duration::from_micros(1)),
                false => receiver.recv().map_err(|_| TryRecvError::Disconnected),
            };
            match message {
                Ok((sender, number)) => received[sender].push(*number),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return received,
            }
        }
    }
    in_pools(|pool| {
        for room in [1, 2, 100] {
            let (sender, receiver) = bounded(room);
            let send = |who: usize| {
                let sender = sender.clone();
                // A box: a message that is lost or taken twice is found by the sanitizers, too.
                move || (0..EACH).for_each(|n| sender.send((who, Box::new(n))).unwrap())
            };
            let take = |hasty| {
                let receiver = receiver.clone();
                move || receive(&receiver, hasty)
            };
            let senders = [0, 1, 2].map(|who| spawn_in(pool, send(who)));
            let outside = std::thread::spawn(send(3));
            let receivers = [false, false, true].map(|hasty| spawn_in(pool, take(hasty)));
            let other = std::thread::spawn(take(false));
            drop((sender, receiver));
            for sender in senders {
                sender.join().unwrap();
            }
            outside.join().unwrap();
            let mut received = receivers.map(|all| all.join().unwrap()).to_vec();
            received.push(other.join().unwrap());
            for who in 0..4 {
                for one in &received {
                    assert!(one[who].is_sorted(), "{:?}", one[who]);
                }
                let mut all: Vec<_> = received.iter().flat_map(|one| one[who].clone()).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..EACH));
            }
        }
    });
}

#[test]
fn a_message_comes_back_to_the_sender_that_waits_when_the_last_receiver_goes() {
    in_pools(|pool| {
        let (sender, receiver) = bounded(1);
        sender.send(0).unwrap();
        let wait = |message| {
            let sender = sender.clone();
            spawn_in(pool, move || sender.send(message))
        };
        let stuck = [1, 2, 3].map(wait);
        // One of the three is in the channel afterwards, if they wait already.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(receiver.recv(), Ok(0));
        let first = receiver.recv().unwrap();
        drop(receiver);
        let results = stuck.map(|stuck| stuck.join().unwrap());
        for (result, message) in results.into_iter().zip(1..) {
            assert!(
                result == Err(SendError(message)) || result == Ok(()),
                "{result:?}"
            );
            assert!(message != first || result == Ok(()));
        }
    });
}

#[test]
fn an_os_thread_that_waits_for_a_time_is_woken_before() {
    const LONG: Duration = Duration::from_secs(60);
    let pool = Pool::builder().workers(1).build().unwrap();
    let start = Instant::now();
    let (sender, receiver) = bounded(1);
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = Arc::clone(&pair);
    let thread = spawn_in(&pool, move || {
        thread::sleep(Duration::from_millis(20));
        sender.send(1).unwrap();
        thread::sleep(Duration::from_millis(20));
        *other.0.lock() = true;
        other.1.notify_one();
        thread::sleep(Duration::from_millis(20));
        drop(sender);
    });
    assert_eq!(receiver.recv_timeout(LONG), Ok(1));
    let mut is_set = pair.0.lock();
    while !*is_set {
        is_set = pair.1.wait_timeout(is_set, LONG).0;
    }
    assert_eq!(receiver.recv_timeout(LONG), Err(TryRecvError::Disconnected));
    thread.join().unwrap();
    // Not woken, each of the three waits takes all of its time.
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}

#[test]
fn waits_of_no_time_let_others_run() {
    type Wait = fn(&Mutex<bool>, &Condvar);
    let waits: [Wait; 4] = [
        |_, _| thread::sleep(Duration::ZERO),
        |_, _| thread::sleep(Duration::from_nanos(1)),
        |mutex, condvar| drop(condvar.wait_timeout(mutex.lock(), Duration::ZERO)),
        |_, _| {
            let (_sender, receiver) = bounded::<()>(1);
            let none = receiver.recv_timeout(Duration::ZERO);
            assert_eq!(none, Err(TryRecvError::Empty));
        },
    ];
    let pool = Pool::builder().workers(1).build().unwrap();
    for wait in waits {
        let wait_for_another = move || {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let other = Arc::clone(&pair);
            let setter = thread::spawn(move || *other.0.lock() = true);
            while !*pair.0.lock() {
                wait(&pair.0, &pair.1);
            }
            setter.join().unwrap();
        };
        spawn_in(&pool, wait_for_another).join().unwrap();
        // In a task, too.
        pool.scope(|scope| {
            scope.task("waits").register(move |_| wait_for_another());
        })
        .unwrap();
    }
}

#[test]
fn results_of_detached_threads_may_wait_when_they_are_dropped() {
    /// More than a worker's stack has room for.
    const MANY: usize = 20_000;
    struct Waits(Receiver<()>, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert_eq!(self.0.recv(), Err(RecvError));
            assert!(thread::current().is_some());
            self.1.fetch_add(1, Relaxed);
        }
    }
    // With a second worker, a thread might end before its handle has gone.
    let pool = Pool::builder().workers(1).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded(1);
    let root = {
        let dropped = Arc::clone(&dropped);
        spawn_in(&pool, move || {
            for _ in 0..MANY {
                let (receiver, dropped) = (receiver.clone(), Arc::clone(&dropped));
                drop(thread::spawn(move || Waits(receiver, dropped)));
                thread::yield_now();
            }
        })
    };
    root.join().unwrap();
    drop(sender);
    drop(pool);
    assert_eq!(dropped.load(Relaxed), MANY);
}

#[test]
fn a_cell_is_made_once() {
    in_pools(|pool| {
        let (cell, made) = (Arc::new(OnceCell::new()), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..30)
            .map(|_| {
                let (cell, made) = (Arc::clone(&cell), Arc::clone(&made));
                spawn_in(pool, move || {
                    *cell.get_or_init(|| {
                        thread::yield_now();
                        made.fetch_add(1, Relaxed) + 7
                    })
                })
            })
            .collect();
        assert!(
            threads
                .into_iter()
                .all(|thread| thread.join().unwrap() == 7)
        );
        assert_eq!(made.load(Relaxed), 1);
    });
}

#[test]
fn scoped_threads_borrow_and_a_panic_of_one_is_seen() {
    in_pools(|pool| {
        let mut values = vec![1_u64; 1000];
        let sum = tanada_runtime::fork::install(pool, || {
            thread::scope(|scope| {
                let threads: Vec<_> = values
                    .chunks_mut(100)
                    .map(|part| {
                        scope.spawn(move || {
                            thread::yield_now();
                            part.iter_mut().for_each(|value| *value *= 2);
                            part.iter().sum::<u64>()
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum::<u64>()
            })
        });
        assert_eq!(sum, 2000);
        let panics = std::panic::catch_unwind(|| {
            tanada_runtime::fork::install(pool, || {
                thread::scope(|scope| {
                    scope.spawn(|| panic!("on purpose"));
                });
            });
        });
        assert!(panics.is_err());
        let forgets = std::panic::catch_unwind(|| {
            tanada_runtime::fork::install(pool, || {
                thread::scope(|scope| {
                    std::mem::forget(scope.spawn(|| panic!("on purpose")));
                });
            });
        });
        assert!(forgets.is_err());
        let joins = tanada_runtime::fork::install(pool, || {
            thread::scope(|scope| scope.spawn(|| panic!("on purpose")).join().is_err())
        });
        assert!(joins);
    });
}

/// A borrowed result that nobody takes is dropped before the scope ends.
#[test]
fn a_result_that_borrows_does_not_outlive_the_scope() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    in_pools(|pool| {
        tanada_runtime::fork::install(pool, || {
            let dropped = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| Counts(&dropped));
                }
            });
            assert_eq!(dropped.load(Relaxed), 100);
        });
    });
}

#[test]
fn threads_sleep_without_their_worker() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let begin = Instant::now();
    let threads: Vec<_> = (0..100)
        .map(|_| spawn_in(&pool, || thread::sleep(Duration::from_millis(20))))
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert!(
        begin.elapsed() < Duration::from_millis(2000),
        "they slept one after the other"
    );
}

#[test]
fn tasks_and_forks_wait_for_threads_and_threads_for_them() {
    in_pools(|pool| {
        let mut result = 0;
        pool.scope(|s| {
            s.task("waits").register(|_| {
                let threads: Vec<_> = (0..20)
                    .map(|n| {
                        thread::spawn(move || {
                            thread::yield_now();
                            n
                        })
                    })
                    .collect();
                result = threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum::<u64>();
            });
        })
        .unwrap();
        assert_eq!(result, 190);
        let nested = spawn_in(pool, || {
            fn sum(depth: u32) -> u64 {
                if depth == 0 {
                    thread::yield_now();
                    return 1;
                }
                let (a, b) = tanada_runtime::fork::join(|| sum(depth - 1), || sum(depth - 1));
                a + b
            }
            sum(6)
        });
        assert_eq!(nested.join().unwrap(), 64);
        let inner = pool.clone();
        let graph = spawn_in(pool, move || {
            let mut ran = 0;
            inner
                .scope(|s| {
                    s.task("inside").register(|_| ran = 1);
                })
                .unwrap();
            ran
        });
        assert_eq!(graph.join().unwrap(), 1);
    });
}

/// The worker of a thread that waits for a graph, or for a broadcast, runs its other threads: the tasks may wait for them.
#[test]
fn a_worker_that_waits_for_a_graph_or_a_call_runs_its_threads() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let own = pool.clone();
    let thread = spawn_in(&pool, move || {
        let (sender, receiver) = bounded(1);
        let other = thread::spawn(move || {
            for n in 0..2 {
                thread::yield_now();
                sender.send(n).unwrap();
            }
        });
        // It has started, and is tied to this worker.
        thread::yield_now();
        let mut sum = 0;
        own.scope(|s| {
            let (sum, receiver) = (&mut sum, &receiver);
            s.task("waits for the other")
                .register(move |_| *sum += receiver.recv().unwrap());
        })
        .unwrap();
        let parts = own.broadcast(|_| receiver.recv().unwrap()).unwrap();
        other.join().unwrap();
        (sum, parts)
    });
    assert_eq!(thread.join().unwrap(), (0, vec![1]));
}

/// A tree of forks whose leaves call `leaf`.
fn tree(depth: u32, leaf: &(impl Fn() + Sync)) {
    if depth == 0 {
        return leaf();
    }
    fork::join(|| tree(depth - 1, leaf), || tree(depth - 1, leaf));
}

/// The worker runs what the threads have forked on its own stack, where it waits, and the threads on top of that.
#[test]
fn threads_fork_closures_and_run_tasks_that_wait() {
    let millis = Duration::from_millis;
    for workers in [1, 2, 4, 64] {
        let pool = Pool::builder().workers(workers).build().unwrap();
        // The first closure ends first, or the second one.
        for (first, second) in [(2, 10), (10, 2)] {
            let both = spawn_in(&pool, move || {
                fork::join(
                    || thread::sleep(millis(first)),
                    || thread::sleep(millis(second)),
                );
            });
            both.join().unwrap();
        }
        // What they wait for comes from outside.
        let (sender, receiver) = unbounded();
        let mutex = Arc::new(Mutex::new(0));
        let locked = mutex.lock();
        let own = Arc::clone(&mutex);
        let waiting = spawn_in(&pool, move || {
            fork::join(|| receiver.recv().unwrap(), || *own.lock() += 1).0
        });
        thread::sleep(millis(2));
        drop(locked);
        sender.send(7).unwrap();
        assert_eq!((waiting.join().unwrap(), *mutex.lock()), (7, 1));
        // Several threads at a time, with forks, spawned closures, and graphs.
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let own = pool.clone();
                spawn_in(&pool, move || {
                    tree(5, &|| thread::sleep(millis(1)));
                    fork::scope(|s| (0..4).for_each(|_| s.spawn(|_| thread::sleep(millis(1)))));
                    own.scope(|s| {
                        for _ in 0..4 {
                            s.task("t").register(|_| thread::sleep(millis(1)));
                        }
                    })
                    .unwrap();
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        // A task joins a thread that forks.
        pool.scope(|s| {
            for _ in 0..2 {
                s.task("t").register(|_| {
                    let thread = thread::spawn(move || tree(3, &|| thread::sleep(millis(1))));
                    thread.join().unwrap();
                });
            }
        })
        .unwrap();
    }
}

#[test]
fn futures_are_awaited_in_threads_and_threads_by_futures() {
    in_pools(|pool| {
        let thread = spawn_in(pool, || {
            let child = thread::spawn(|| {
                thread::sleep(Duration::from_millis(1));
                5
            });
            thread::block_on(async { child.await.unwrap() + 1 })
        });
        assert_eq!(thread::block_on(thread).unwrap(), 6);
    });
}

#[test]
fn a_hint_of_any_type_is_read_by_whoever_has_the_handle() {
    let pool = Pool::builder().workers(1).build().unwrap();
    struct Level(AtomicUsize);
    impl thread::Hint for Level {}
    let handle = Builder::new()
        .pool(&pool)
        .hint(Level(AtomicUsize::new(3)))
        .spawn(|| thread::with_hint(|level: &Level| level.0.fetch_add(1, Relaxed)))
        .unwrap();
    assert!(handle.hint::<u16>().is_none());
    while !handle.is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(handle.hint::<Level>().unwrap().0.load(Relaxed), 4);
    assert_eq!(handle.join().unwrap(), Some(3));
}

/// Steals the tail with the least digest, and rejects every other thread that it takes.
#[derive(Clone, Default)]
struct Shallowest(Arc<Counts>);

#[derive(Default)]
struct Counts {
    news: AtomicUsize,
    picks: AtomicUsize,
    steals: AtomicUsize,
    /// Threads that were put back.
    rejected: AtomicUsize,
}

impl Scheduler for Shallowest {
    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, why: Why) {
        match why {
            Why::New => {
                self.0.news.fetch_add(1, Relaxed);
                queues.push(thread);
            }
            _ => queues.push_tail(queues.me(), thread),
        }
    }

    fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        queues
            .pop()
            .inspect(|_| _ = self.0.picks.fetch_add(1, Relaxed))
    }

    fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        let me = queues.me();
        let others = (0..queues.workers())
            .map(tanada_runtime::WorkerId)
            .filter(|whom| *whom != me);
        let (depth, victim) = others
            .filter_map(|whom| queues.peek_tail(whom).map(|depth| (depth, whom)))
            .min()?;
        let thread = queues.pop_tail_if(victim, |digest| digest <= depth)?;
        if self.0.steals.fetch_add(1, Relaxed).is_multiple_of(2) {
            self.0.rejected.fetch_add(1, Relaxed);
            queues.push_tail(victim, thread);
            return None;
        }
        Some(thread)
    }
}

#[test]
fn a_scheduler_of_the_users_own_is_asked() {
    fn tree(depth: u16) -> u64 {
        if depth == 0 {
            return 1;
        }
        let children: Vec<_> = (0..3)
            .map(|_| {
                Builder::new()
                    .hint(depth)
                    .spawn(move || tree(depth - 1))
                    .unwrap()
            })
            .collect();
        children
            .into_iter()
            .map(|child| child.join().unwrap())
            .sum()
    }
    for workers in [1, 2, 8] {
        let scheduler = Shallowest::default();
        let pool = Pool::builder()
            .workers(workers)
            .thread_scheduler(scheduler.clone())
            .build()
            .unwrap();
        assert_eq!(spawn_in(&pool, || tree(6)).join().unwrap(), 729);
        let counts = &scheduler.0;
        let counts = [
            &counts.news,
            &counts.picks,
            &counts.steals,
            &counts.rejected,
        ];
        let [news, picks, steals, rejected] = counts.map(|count| count.load(Relaxed));
        // The threads of a tree, and its root, which is made outside of the pool.
        assert_eq!(news, 1 + 3 * (729 - 1) / 2);
        assert_eq!(rejected, steals.div_ceil(2));
        assert!(picks + steals - rejected >= news, "{picks}, {steals}");
        assert!(workers > 1 || steals == 0);
    }
}

/// A scheduler that returns threads of another pool: they run where they belong.
#[test]
fn a_scheduler_cannot_run_threads_of_another_pool() {
    static STASH: std::sync::Mutex<Vec<Runnable>> = std::sync::Mutex::new(Vec::new());
    struct Mixes;
    impl Scheduler for Mixes {
        fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
            STASH.lock().unwrap().pop().or_else(|| queues.pop())
        }
    }
    let other = Pool::builder().workers(2).build().unwrap();
    let mixes = Pool::builder()
        .workers(2)
        .thread_scheduler(Mixes)
        .build()
        .unwrap();
    let (handles, stashed): (Vec<_>, Vec<_>) = (0..20)
        .map(|_| {
            let where_it_belongs = other.clone();
            let body = move || {
                let here = std::thread::current().id();
                thread::yield_now();
                assert_eq!(std::thread::current().id(), here);
                fork::worker_of(&where_it_belongs).is_some()
            };
            Builder::new().pool(&other).create(body).unwrap()
        })
        .unzip();
    STASH.lock().unwrap().extend(stashed);
    let own: Vec<_> = (0..40).map(|n| spawn_in(&mixes, move || n)).collect();
    for (n, own) in own.into_iter().enumerate() {
        assert_eq!(own.join().unwrap(), n);
    }
    let rest: Vec<_> = STASH.lock().unwrap().drain(..).collect();
    drop(rest);
    assert!(handles.into_iter().all(|handle| handle.join().unwrap()));
}

/// A scheduler that drops what it gets loses nothing.
#[test]
fn a_scheduler_cannot_lose_a_thread() {
    struct Drops;
    impl Scheduler for Drops {
        fn ready(&self, _queues: &mut Queues<'_>, thread: Runnable, _why: Why) {
            drop(thread);
        }
    }
    let pool = Pool::builder()
        .workers(2)
        .thread_scheduler(Drops)
        .build()
        .unwrap();
    assert_eq!(spawn_in(&pool, || fib(10)).join().unwrap(), 55);
}

#[test]
fn threads_are_created_unscheduled_and_spread() {
    /// Each worker runs what lies at it.
    struct Stays;
    impl Scheduler for Stays {
        fn steal(&self, _queues: &mut Queues<'_>) -> Option<Runnable> {
            None
        }
    }
    const WORKERS: u16 = 4;
    const EACH: u16 = 10;
    let pool = Pool::builder()
        .workers(u32::from(WORKERS))
        .thread_scheduler(Stays)
        .build()
        .unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let runs = Arc::clone(&ran);
    let spreads = spawn_in(&pool, move || {
        let (handles, threads): (Vec<_>, Vec<_>) = (0..WORKERS * EACH)
            .map(|n| {
                let runs = Arc::clone(&runs);
                let body = move || runs.lock().push((fork::current_worker().unwrap().0, n));
                Builder::new().create(body).unwrap()
            })
            .unzip();
        assert!(handles.iter().all(|handle| !handle.is_finished()));
        thread::spread(threads, 0..WORKERS);
        handles
            .into_iter()
            .for_each(|handle| handle.join().unwrap());
    });
    spreads.join().unwrap();
    let mut ran = std::mem::take(&mut *ran.lock());
    // Stable: of each worker, in the order in which they ran.
    ran.sort_by_key(|(worker, _)| *worker);
    let expected = (0..WORKERS * EACH).map(|n| (n / EACH, n));
    assert_eq!(ran, expected.collect::<Vec<_>>());
}

#[test]
fn park_and_unpark() {
    in_pools(|pool| {
        let (sender, receiver) = bounded(1);
        let parked = spawn_in(pool, move || {
            sender.send(thread::current().unwrap()).unwrap();
            thread::park();
            1
        });
        let thread = receiver.recv().unwrap();
        thread.unpark();
        assert_eq!(parked.join().unwrap(), 1);
        thread.unpark();
        assert_eq!(thread.name(), None);
    });
}

/// Many threads at once, created and joined again and again: memory is used again.
#[test]
fn many_threads_alive() {
    let pool = Pool::builder().workers(2).build().unwrap();
    for _ in 0..3 {
        let alive = spawn_in(&pool, || {
            let (gate, opened) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
            let threads: Vec<_> = (0..20_000_u64)
                .map(|n| {
                    let (gate, opened) = (Arc::clone(&gate), Arc::clone(&opened));
                    thread::spawn(move || {
                        let mut open = gate.lock();
                        while !*open {
                            open = opened.wait(open);
                        }
                        n
                    })
                })
                .collect();
            thread::yield_now();
            *gate.lock() = true;
            opened.notify_all();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum::<u64>()
        });
        assert_eq!(alive.join().unwrap(), 19_999 * 10_000);
    }
}

/// A thread whose children are run by its joins does not keep others of its worker waiting for ever.
#[test]
fn a_thread_that_creates_and_joins_others_lets_the_rest_run() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let thread = spawn_in(&pool, || {
        let ran = Arc::new(AtomicUsize::new(0));
        let first = Arc::clone(&ran);
        drop(thread::spawn(move || first.store(1, Relaxed)));
        let made = (0..20_000_000).find(|_| {
            thread::spawn(|| ()).join().unwrap();
            ran.load(Relaxed) == 1
        });
        assert!(made.is_some(), "the first one never ran");
    });
    thread.join().unwrap();
}

#[test]
fn a_handle_that_was_ready_cannot_be_joined() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut handle = spawn_in(&pool, || 1);
    assert_eq!(thread::block_on(&mut handle).unwrap(), 1);
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.join()));
    assert!(joined.is_err());
}

#[test]
fn a_scope_panics_if_the_result_of_a_thread_that_nobody_joins_does() {
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the destructor of a result");
        }
    }

    let pool = Pool::builder().workers(1).build().expect("a pool");
    let thread = Builder::new().pool(&pool).spawn(|| {
        thread::scope(|scope| {
            let member = scope.spawn(|| {
                thread::yield_now();
                Panics
            });
            drop(member);
        });
    });
    assert!(thread.expect("a stack").join().is_err());
}
