//! Lightweight threads of which nobody can wake one: the process ends and names them. Each case is a process of its own, whose only OS
//! threads are its main one and the runtime's.

#[cfg(any(loom, shuttle, miri))]
fn main() {}

#[cfg(not(any(loom, shuttle, miri)))]
fn main() {
    cases::main();
}

#[cfg(not(any(loom, shuttle, miri)))]
mod cases {
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};
    use tanada_runtime::thread::sync::{Barrier, Mutex, OnceCell, bounded};
    use tanada_runtime::thread::{self, Builder, Queues, Runnable, Scheduler, Why};
    use tanada_runtime::{Pool, WorkerId, fork};

    const CASE: &str = "TANADA_TEST_CASE";

    /// The longest that a case may take: it hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// Name, what it does, and what it must write: `#` stands for a number.
    type Case = (&'static str, fn(&Pool), &'static [&'static str]);

    const REFUSED: &[&str] = &[
        "the scheduler of threads of pool # has returned none for 10 seconds, although some are ready, and is asked on:",
        "thread # (refused)",
        "it has run at last",
    ];

    const CASES: &[Case] = &[
        (
            "join",
            join,
            &[
                "deadlock: all threads wait",
                "(reader) waits for a message",
                "(parked) waits for being unparked",
            ],
        ),
        (
            "drop",
            |pool| drop(spawn(pool, "left", thread::park)),
            &[
                "(left) waits for being unparked",
                "OS thread main waits for the end of pool #, which thread # (left) keeps open",
            ],
        ),
        (
            "main",
            from_main,
            &[
                "(sender) waits for room in a channel",
                "OS thread main waits for a message",
            ],
        ),
        (
            "parked",
            |pool| {
                let _left = spawn(pool, "left", thread::park);
                thread::park();
            },
            &[
                "(left) waits for being unparked",
                "OS thread main waits for being unparked",
            ],
        ),
        (
            "task",
            task,
            &["a task or closure on worker ", "waits for a message"],
        ),
        (
            "twice",
            twice,
            &[
                "threads wait for each other",
                "OS thread main waits for a mutex that OS thread main has",
            ],
        ),
        (
            "crossed",
            crossed,
            &[
                "threads wait for each other",
                "(holder) waits for a mutex that a task or closure on worker ",
            ],
        ),
        (
            "closure",
            closure,
            &[
                "(forks) waits for the end of a fork",
                "(forks) has or gets before",
            ],
        ),
        (
            "nested",
            nested,
            &[
                "(never) waits for being",
                "(never) waits for being scheduled",
            ],
        ),
        ("kept", kept, &["(never) waits for being scheduled"]),
        (
            "forgotten",
            forgotten,
            &["(never) waits for being scheduled"],
        ),
        (
            "guard",
            guard,
            &["(wants) waits for a mutex that a thread that is none of these has"],
        ),
        ("parts", parts, &["waits for a barrier"]),
        (
            "pools",
            pools,
            &[
                "threads wait for each other",
                "(a) waits for the end of pool 2, which thread # (b) keeps open",
                "(b) waits for the end of pool 1, which thread # (a) keeps open",
            ],
        ),
        (
            "ends",
            ends,
            &[
                "threads wait for each other",
                "(ends) waits for the end of pool 1, which thread # (joins) keeps open",
                "(joins) waits for the end of thread # (ends)",
            ],
        ),
        (
            "locked",
            locked,
            &[
                "threads wait for each other",
                "OS thread main waits for the end of pool 1, which thread # (wants) keeps open",
                "(wants) waits for a mutex that OS thread main has or gets before",
            ],
        ),
        (
            "leaving",
            leaving,
            &[
                "threads wait for each other",
                "OS thread main waits for the end of pool 1, which a task or closure on worker 0 of pool 1 keeps open",
                "a task or closure on worker 0 of pool 1 waits for a mutex that OS thread main has or gets before",
            ],
        ),
        (
            "tasks",
            tasks,
            &[
                "threads wait for each other",
                "a task or closure on worker 0 of pool 1 waits for the end of pool 2, which thread # (joins) keeps open",
                "(joins) waits for a mutex that a task or closure on worker 0 of pool 1 has or gets before",
            ],
        ),
        (
            "held",
            held,
            &[
                "threads wait for each other",
                "(ends) waits for the end of pool 2, which thread # (joins) keeps open",
                "(joins) waits for the end of thread # (ready)",
                "(ready) waits for its worker, on which thread # (ends) waits",
            ],
        ),
        (
            "queued",
            queued,
            &[
                "(ends) waits for the end of pool 2, which thread # (joins) keeps open",
                "(joins) waits for the end of thread # (new)",
                "(new) waits for a worker of pool 1, on which thread # (ends) waits",
            ],
        ),
        (
            "scopes",
            scopes,
            &[
                "waits for a message",
                "OS thread main waits for the end of a graph",
            ],
        ),
        (
            "outside",
            outside,
            &[
                "(left) waits for being unparked",
                "OS thread main waits for the end of a broadcast or a region",
                "OS thread installs waits for the end of a fork, a scope or a call of `install`",
                "OS thread with a name that is a long one waits for a message",
                "OS thread # waits for the end of a graph",
            ],
        ),
        (
            "lost",
            lost,
            &[
                "OS thread main waits for the end of thread",
                "(new) was never run: a scheduler has lost it",
            ],
        ),
        (
            "woken",
            woken,
            &[
                "(woken) waits for the end of a fork, a graph or a call, unless a scheduler has lost it",
            ],
        ),
        (
            "busy",
            busy,
            &[
                "threads wait for each other",
                "(one) waits for the end of thread",
                "(other) waits for a mutex that OS thread main has",
                "OS thread main waits for the end of thread",
            ],
        ),
        (
            "scoped",
            scoped,
            &[
                "(creates) waits for the threads of its scope",
                "(member) waits for a mutex that thread",
                "(creates) has or gets before",
            ],
        ),
        (
            "once",
            once,
            &["(makes) waits for a closure that thread", "(makes) runs"],
        ),
        (
            "unrun",
            unrun,
            &["OS thread main waits for the end of thread"],
        ),
        (
            "graph",
            graph,
            &["waits for a mutex that OS thread main has or gets before"],
        ),
        (
            "handed",
            handed,
            &[
                "(next) waits for a mutex that thread",
                "(first) waits for a mutex that thread",
            ],
        ),
        (
            "elsewhere",
            elsewhere,
            &[
                "a task or closure on worker ",
                "waits for a message",
                "OS thread main waits for the end of a fork, a scope or a call of `install`",
                "OS thread tanada-# waits for the end of a graph",
            ],
        ),
        (
            "taken",
            taken,
            &[
                "a task or closure on worker # of pool # waits for a message",
                "a task or closure on worker # of pool # waits for the end of a fork, a graph or a call",
                "OS thread main waits for the end of a fork, a scope or a call of `install`",
            ],
        ),
        (
            "late",
            late,
            &[
                "(left) waits for being unparked",
                "OS thread main waits for the end of thread",
            ],
        ),
        ("refused", refused, REFUSED),
        ("refused, in a task", refused_in_a_task, REFUSED),
        ("refused, by one", refused_by_one, REFUSED),
        ("refused, beside others", refused_beside_others, REFUSED),
        (
            "child",
            child,
            &["OS thread main waits for the end of thread"],
        ),
    ];

    fn spawn<T: Send + 'static>(
        pool: &Pool,
        name: &'static str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        Builder::new()
            .pool(pool)
            .name(name)
            .spawn(body)
            .expect("a stack")
    }

    fn join(pool: &Pool) {
        let (sender, receiver) = bounded::<u8>(1);
        let kept = sender.clone();
        let waits = move || {
            let _kept = kept;
            receiver.recv().is_ok()
        };
        let reader = spawn(pool, "reader", waits);
        spawn(pool, "parked", thread::park)
            .join()
            .expect("no panic");
        reader.join().expect("no panic");
        drop(sender);
    }

    /// The main thread waits for a message itself.
    fn from_main(pool: &Pool) {
        let (sender, receiver) = bounded::<u8>(1);
        let (back, answer) = bounded::<u8>(1);
        let body = move || {
            let _back = back;
            (0..).try_for_each(|n: u8| sender.send(n))
        };
        let _sender = spawn(pool, "sender", body);
        answer.recv().expect("it never comes");
        drop(receiver);
    }

    /// A task waits for a message, and the main thread for its graph.
    fn task(pool: &Pool) {
        let (_sender, receiver) = bounded::<u8>(1);
        let run = pool.scope(|scope| {
            scope.task("reads").register(|_| _ = receiver.recv());
        });
        run.expect("it never ends");
    }

    /// The main thread waits for what it has.
    fn twice(_: &Pool) {
        let mutex = Mutex::new(0);
        let _first = mutex.lock();
        let _second = mutex.lock();
    }

    /// A thread and a forked closure have a lock each, and want the other one.
    fn crossed(pool: &Pool) {
        let (a, b) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let both = Arc::new(Barrier::new(2));
        let lock_both = |first: &Arc<Mutex<u8>>, second: &Arc<Mutex<u8>>| {
            let (first, second) = (Arc::clone(first), Arc::clone(second));
            let both = Arc::clone(&both);
            move || {
                let _first = first.lock();
                both.wait();
                let _second = second.lock();
            }
        };
        let holder = spawn(pool, "holder", lock_both(&a, &b));
        fork::install(pool, lock_both(&b, &a));
        holder.join().expect("no panic");
    }

    /// A thread forks a closure that wants the lock which the thread has.
    fn closure(pool: &Pool) {
        let thread = spawn(pool, "forks", || {
            let lock = Mutex::new(0);
            let _guard = lock.lock();
            let begun = AtomicBool::new(false);
            fork::join(
                || {
                    while !begun.load(Relaxed) {
                        thread::yield_now();
                    }
                },
                || {
                    begun.store(true, Relaxed);
                    let _again = lock.lock();
                },
            );
        });
        thread.join().expect("no panic");
    }

    /// A task of a nested graph waits for a thread that was never scheduled.
    fn nested(pool: &Pool) {
        let (handle, right) = never(pool);
        let handle = std::sync::Mutex::new(Some(handle));
        let run = pool.scope(|scope| {
            scope.task("outer").register(|_| {
                let inner = pool.scope(|scope| {
                    scope.task("inner").register(|_| {
                        let handle = handle.lock().expect("no panic").take();
                        handle.expect("one task").join().expect("no panic");
                    });
                });
                inner.expect("it never ends");
            });
        });
        run.expect("it never ends");
        drop(right);
    }

    fn never(pool: &Pool) -> (thread::JoinHandle<()>, thread::Runnable) {
        let never = Builder::new().pool(pool).name("never");
        never.create(|| ()).expect("a stack")
    }

    /// A pool is dropped before a thread of it was scheduled.
    fn kept(_: &Pool) {
        let pool = one_worker();
        let _never = never(&pool);
        drop(pool);
    }

    fn forgotten(pool: &Pool) {
        let (handle, right) = never(pool);
        std::mem::forget(right);
        handle.join().expect("no panic");
    }

    /// A thread forgets a guard and ends, and others get its stack.
    fn guard(pool: &Pool) {
        let mutex = Arc::new(Mutex::new(0));
        let (forgets, wants) = (Arc::clone(&mutex), Arc::clone(&mutex));
        spawn(pool, "forgets", move || std::mem::forget(forgets.lock()))
            .join()
            .expect("no panic");
        let _others: Vec<_> = (0..4).map(|_| spawn(pool, "other", thread::park)).collect();
        let wants = spawn(pool, "wants", move || *wants.lock() = 1);
        wants.join().expect("no panic");
    }

    /// Parts of a broadcast wait for more than there are.
    fn parts(pool: &Pool) {
        let barrier = Barrier::new(3);
        pool.broadcast(|_| _ = barrier.wait())
            .expect("it never ends");
    }

    /// Lets an OS thread live that the runtime does not know.
    fn stranger() {
        std::thread::spawn(|| std::thread::sleep(2 * HANGS));
    }

    /// Threads and the main one wait for each other while other workers compute.
    fn busy(pool: &Pool) {
        stranger();
        let busy = Pool::builder().workers(1).build().expect("a pool");
        let _busy = spawn(&busy, "busy", || {
            while std::hint::black_box(true) {
                std::hint::spin_loop();
            }
        });
        let lock = Arc::new(Mutex::new(0));
        let _guard = lock.lock();
        let (to_one, from_main) = bounded::<thread::JoinHandle<()>>(1);
        let locks = Arc::clone(&lock);
        let wait = move || {
            let other = from_main.recv().expect("a handle");
            other.join().expect("no panic");
        };
        let one = spawn(pool, "one", wait);
        let other = spawn(pool, "other", move || *locks.lock() += 1);
        to_one.send(other).expect("it receives");
        one.join().expect("no panic");
    }

    /// A thread waits for a scope with what a thread of it wants.
    fn scoped(pool: &Pool) {
        stranger();
        let body = || {
            let lock = Mutex::new(0);
            let _guard = lock.lock();
            thread::scope(|scope| {
                let member = Builder::new().name("member");
                let wants = || *lock.lock() += 1;
                let _member = member.spawn_scoped(scope, wants).expect("a stack");
            });
        };
        spawn(pool, "creates", body).join().expect("no panic");
    }

    /// A closure that makes a value needs it.
    fn once(pool: &Pool) {
        stranger();
        static CELL: OnceCell<u8> = OnceCell::new();
        let body = || *CELL.get_or_init(|| *CELL.get_or_init(|| 0));
        spawn(pool, "makes", body).join().expect("no panic");
    }

    /// A worker has no thread and gets none.
    fn unrun(_: &Pool) {
        let threads = Pool::builder().workers(1).build_threads();
        let (pool, _workers) = threads.expect("a pool");
        let (sender, receiver) = bounded::<u8>(1);
        let waits = spawn(&pool, "waits", move || receiver.recv().is_ok());
        waits.join().expect("no panic");
        drop(sender);
    }

    /// The main thread waits for a graph with what a task of it wants.
    fn graph(pool: &Pool) {
        let lock = Mutex::new(0);
        let _guard = lock.lock();
        let run = pool.scope(|scope| {
            scope.task("wants").register(|_| *lock.lock() += 1);
        });
        run.expect("it never ends");
    }

    /// A thread has been handed a mutex and did not run yet when another one comes to wait for it.
    fn handed(_: &Pool) {
        stranger();
        let one = Pool::builder().workers(1).build().expect("a pool");
        let body = || {
            let locks: [_; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(0)));
            let guard = locks[0].lock();
            let [a, b] = locks.clone();
            let begun = Arc::new(AtomicBool::new(false));
            let here = Arc::clone(&begun);
            let next = move || {
                here.store(true, Relaxed);
                let _first = a.lock();
                *b.lock() += 1;
            };
            let next = Builder::new().name("next").spawn(next).expect("a stack");
            while !begun.load(Relaxed) {
                thread::yield_now();
            }
            drop(guard);
            let _second = locks[1].lock();
            *locks[0].lock() += 1;
            next.join().expect("no panic");
        };
        spawn(&one, "first", body).join().expect("no panic");
    }

    /// A worker waits for a graph of another pool, whose task waits for ever.
    fn elsewhere(pool: &Pool) {
        let other = Pool::builder().workers(1).build().expect("a pool");
        let (_sender, receiver) = bounded::<u8>(1);
        let run = fork::install(&other, || {
            pool.scope(|scope| {
                scope.task("reads").register(|_| _ = receiver.recv());
            })
        });
        run.expect("it never ends");
    }

    fn one_worker() -> Pool {
        Pool::builder().workers(1).build().expect("a pool")
    }

    /// Two threads each end the pool of the other.
    fn pools(_: &Pool) {
        let pools = [0, 1].map(|_| Pool::builder().workers(1).build().expect("a pool"));
        let [a, b] = pools.clone();
        let ends = |pool: Pool| {
            move || {
                thread::sleep(Duration::from_millis(20));
                drop(pool);
            }
        };
        let threads = [
            spawn(&a, "a", ends(b.clone())),
            spawn(&b, "b", ends(a.clone())),
        ];
        drop((pools, a, b));
        for thread in threads {
            thread.join().expect("no panic");
        }
    }

    /// A thread ends a pool whose thread waits for it.
    fn ends(pool: &Pool) {
        stranger();
        let other = one_worker();
        let (sender, receiver) = bounded::<thread::JoinHandle<()>>(1);
        let joins = move || receiver.recv().expect("a handle").join().expect("no panic");
        let joins = spawn(&other, "joins", joins);
        let ends = spawn(pool, "ends", move || drop(other));
        sender.send(ends).expect("it receives");
        joins.join().expect("no panic");
    }

    /// An exit handler waits for what the one has that ends the pool.
    fn leaving(_pool: &Pool) {
        stranger();
        let lock = Arc::new(Mutex::new(()));
        let locked = Arc::clone(&lock);
        let builder = Pool::builder().workers(1);
        let builder = builder.exit_handler(move |_| drop(locked.lock()));
        let other = builder.build().unwrap();
        spawn(&other, "first", || ()).join().unwrap();
        let _guard = lock.lock();
        drop(other);
    }

    /// The main thread ends a pool whose thread wants its lock.
    fn locked(_: &Pool) {
        stranger();
        let pool = one_worker();
        let lock = Arc::new(Mutex::new(0));
        let _guard = lock.lock();
        let wants = Arc::clone(&lock);
        let _wants = spawn(&pool, "wants", move || *wants.lock() += 1);
        drop(pool);
    }

    /// A task ends a pool whose thread wants its lock.
    fn tasks(_: &Pool) {
        stranger();
        let (here, other) = (one_worker(), one_worker());
        let lock = Arc::new(Mutex::new(0));
        let wants = Arc::clone(&lock);
        fork::install(&here, move || {
            let _guard = lock.lock();
            let _joins = spawn(&other, "joins", move || *wants.lock() += 1);
            drop(other);
        });
    }

    /// A thread ends a pool whose thread waits for one that only the first one's worker may run, and has begun to.
    fn held(_: &Pool) {
        stranger();
        let (here, other) = (one_worker(), one_worker());
        let ends = spawn(&here, "ends", move || {
            let begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&begun);
            let ready = Builder::new().name("ready").spawn(move || {
                begins.store(true, Relaxed);
                thread::yield_now();
            });
            while !begun.load(Relaxed) {
                thread::yield_now();
            }
            let joins = move || ready.expect("a stack").join().expect("no panic");
            let _joins = spawn(&other, "joins", joins);
            drop(other);
        });
        ends.join().expect("no panic");
    }

    /// As `held`, with a thread that has not begun.
    fn queued(_: &Pool) {
        let (here, other) = (one_worker(), one_worker());
        let ends = spawn(&here, "ends", move || {
            let new = Builder::new().name("new").spawn(|| ());
            let joins = move || new.expect("a stack").join().expect("no panic");
            let _joins = spawn(&other, "joins", joins);
            drop(other);
        });
        ends.join().expect("no panic");
    }

    /// The main thread waits for a graph, whose task waits for ever.
    fn scopes(pool: &Pool) {
        let (_sender, receiver) = bounded::<u8>(1);
        let run = pool.scope(|scope| {
            scope.task("reads").register(|_| _ = receiver.recv());
        });
        run.expect("it never ends");
    }

    /// OS threads with and without a name wait for what runs in a pool, for a lightweight thread in the end.
    fn outside(pool: &Pool) {
        let left = Arc::new(std::sync::Mutex::new(Some(spawn(
            pool,
            "left",
            thread::park,
        ))));
        let open = Arc::new(Barrier::new(2));
        let run = |name: Option<&str>, body: Box<dyn FnOnce(&Pool) + Send>| {
            let builder = std::thread::Builder::new();
            let builder = match name {
                Some(name) => builder.name(name.to_owned()),
                None => builder,
            };
            let pool = pool.clone();
            builder.spawn(move || body(&pool)).expect("an OS thread")
        };
        let waits = Arc::clone(&open);
        let installs = move |pool: &Pool| {
            fork::install(pool, || _ = waits.wait());
        };
        let _installs = run(Some("installs"), Box::new(installs));
        let (_sender, receiver) = bounded::<u8>(1);
        let reads = move |_: &Pool| _ = receiver.recv();
        let _reads = run(Some("with a name that is a long one"), Box::new(reads));
        let joins = move |pool: &Pool| {
            let run = pool.scope(|scope| {
                scope.task("joins").register(|_| {
                    let left = left.lock().expect("no panic").take();
                    left.expect("one task").join().expect("no panic");
                });
            });
            run.expect("it never ends");
        };
        let _joins = run(None, Box::new(joins));
        let parts = Barrier::new(3);
        pool.broadcast(|_| _ = parts.wait()).expect("it never ends");
    }

    /// Forgets threads that become ready for the reason.
    struct Forgets(Why);

    impl Scheduler for Forgets {
        fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, why: Why) {
            match why == self.0 {
                true => std::mem::forget(thread),
                false => queues.push(thread),
            }
        }
    }

    fn forgets(why: Why) -> Pool {
        let builder = Pool::builder().workers(1).thread_scheduler(Forgets(why));
        builder.build().expect("a pool")
    }

    /// A scheduler forgets a new thread, which has the stack of one that waited for being scheduled.
    fn lost(pool: &Pool) {
        let created = Builder::new().pool(pool).create(|| ());
        let (created, runnable) = created.expect("a stack");
        runnable.schedule();
        created.join().expect("no panic");
        let pool = forgets(Why::New);
        spawn(&pool, "new", || ()).join().expect("no panic");
    }

    /// A scheduler forgets a thread that has been unparked.
    fn woken(_: &Pool) {
        let pool = forgets(Why::Woken);
        // One that has not parked yet when it is unparked is not lost.
        loop {
            let builder = Builder::new().pool(&pool).name("woken");
            // SAFETY: nothing on its stack depends on the OS thread.
            #[allow(unsafe_code)]
            let thread = unsafe { builder.spawn_untied(thread::park) }.expect("a stack");
            std::thread::sleep(Duration::from_millis(20));
            thread.thread().unpark();
            thread.join().expect("no panic");
        }
    }

    /// A closure waits for one that another worker has taken, and that waits for a message.
    fn taken(pool: &Pool) {
        let begun = AtomicBool::new(false);
        let (_sender, receiver) = bounded::<u8>(1);
        let waits = || {
            while !begun.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let taken = || {
            begun.store(true, Relaxed);
            receiver.recv()
        };
        _ = fork::install(pool, || fork::join(waits, taken));
    }

    /// The last OS thread that the runtime does not know ends long after all others have begun to wait.
    fn late(pool: &Pool) {
        std::thread::spawn(|| std::thread::sleep(Duration::from_millis(1500)));
        spawn(pool, "left", thread::park).join().expect("no panic");
    }

    /// The time after which the schedulers of `refused` return their threads.
    const REFUSES: Duration = Duration::from_secs(13);

    /// Makes a pool whose scheduler returns no thread for longer than a report of that takes.
    fn refuses(workers: u32) -> Pool {
        struct Refuses(Instant);

        impl Scheduler for Refuses {
            fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
                (self.0.elapsed() > REFUSES).then(|| queues.pop()).flatten()
            }

            fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
                let is_over = self.0.elapsed() > REFUSES;
                is_over.then(|| queues.steal_nearest()).flatten()
            }
        }

        let pool = Pool::builder().workers(workers);
        pool.thread_scheduler(Refuses(Instant::now()))
            .build()
            .expect("a pool")
    }

    /// The case has not hung. Ends the process as a deadlock does.
    fn has_run() {
        eprintln!("it has run at last");
        std::process::abort();
    }

    fn refused(_: &Pool) {
        let pool = refuses(2);
        spawn(&pool, "refused", has_run).join().expect("no panic");
    }

    /// The only worker waits in a task.
    fn refused_in_a_task(_: &Pool) {
        let pool = refuses(1);
        fork::install(&pool, || {
            let thread = Builder::new().name("refused").spawn(has_run);
            thread.expect("a stack").join().expect("no panic");
        });
    }

    /// A scheduler keeps threads itself, and says so to one of the workers.
    fn refused_by_one(_: &Pool) {
        struct Keeps(Instant, std::sync::Mutex<Vec<Runnable>>);

        impl Scheduler for Keeps {
            fn ready(&self, _: &mut Queues<'_>, thread: Runnable, _: Why) {
                self.1.lock().expect("no panic").push(thread);
            }

            fn next(&self, _: &mut Queues<'_>) -> Option<Runnable> {
                let mut kept = self.1.lock().expect("no panic");
                (self.0.elapsed() > REFUSES).then(|| kept.pop()).flatten()
            }

            fn may_have(&self, me: WorkerId) -> bool {
                me.0 == 0 && !self.1.lock().expect("no panic").is_empty()
            }
        }

        let pool = Pool::builder().workers(2);
        let pool = pool.thread_scheduler(Keeps(Instant::now(), Default::default()));
        let pool = pool.build().expect("a pool");
        spawn(&pool, "refused", has_run).join().expect("no panic");
    }

    /// The worker runs a thread that has started, of which no scheduler is asked.
    fn refused_beside_others(_: &Pool) {
        struct FirstOnly(Instant, AtomicBool);

        impl Scheduler for FirstOnly {
            fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
                let is_over = self.0.elapsed() > REFUSES;
                let may_run =
                    is_over || (queues.len(queues.me()) > 0 && !self.1.swap(true, Relaxed));
                may_run.then(|| queues.pop()).flatten()
            }
        }

        let pool = Pool::builder().workers(1);
        let pool = pool.thread_scheduler(FirstOnly(Instant::now(), AtomicBool::new(false)));
        let pool = pool.build().expect("a pool");
        let (_sender, receiver) = bounded::<u8>(1);
        let polls = move || while receiver.recv_timeout(Duration::from_millis(10)).is_err() {};
        let _polls = spawn(&pool, "polls", polls);
        spawn(&pool, "refused", has_run).join().expect("no panic");
    }

    /// The main thread of a forked child waits for a thread there.
    fn child(_: &Pool) {
        // SAFETY: the child uses nothing that another thread may have locked: the allocator of this platform is usable in a child.
        #[allow(unsafe_code)]
        let child = unsafe { libc::fork() };
        if child == 0 {
            let pool = Pool::builder().workers(1).build().expect("a pool");
            spawn(&pool, "parked", thread::park)
                .join()
                .expect("no panic");
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and the word outlives the call.
        #[allow(unsafe_code)]
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(ended, child);
        assert!(libc::WIFEXITED(status), "the child has ended by a signal");
    }

    pub(super) fn main() {
        if let Ok(name) = std::env::var(CASE) {
            let pool = Pool::builder().workers(2).build().expect("a pool");
            let case = CASES.iter().find(|case| case.0 == name);
            return case.expect("a case").1(&pool);
        }
        // What `cargo test` passes does not matter; a listing is empty.
        if std::env::args().any(|word| word == "--list") {
            return;
        }
        // These do nothing but wait.
        let (slow, quick): (Vec<_>, Vec<_>) =
            CASES.iter().partition(|case| case.0.starts_with("refused"));
        std::thread::scope(|scope| {
            for case in slow {
                scope.spawn(move || check(case));
            }
            quick.into_iter().for_each(check);
        });
    }

    fn check((name, _, wanted): &Case) {
        if cfg!(sanitized = "thread") && *name == "child" {
            // It is not made for children of `fork` with threads.
            println!("test {name} ... ignored");
            return;
        }
        // A thread that computes for ever never passes the turn on, and in a schedule time says nothing of a scheduler that refuses.
        let seeds: &[_] = match *name == "busy" || name.starts_with("refused") {
            true => &[None],
            false => &[None, Some("1")],
        };
        for seed in seeds.iter().copied() {
            let text = run(name, seed);
            for part in *wanted {
                let found =
                    (0..text.len()).any(|at| begins(&text.as_bytes()[at..], part.as_bytes()));
                assert!(found, "{name}, seed {seed:?}, {part}: {text}");
            }
            let seeded = seed.map_or("", |_| ", in a schedule");
            println!("test {name}{seeded} ... ok");
        }
    }

    /// Returns whether `text` begins with the pattern.
    fn begins(text: &[u8], pattern: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'#', rest @ ..] => {
                let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
                let digits = digits.count();
                digits > 0 && begins(&text[digits..], rest)
            }
            [first, rest @ ..] => text.first() == Some(first) && begins(&text[1..], rest),
        }
    }

    /// Runs a case, and returns what it has written when it has failed.
    fn run(name: &str, seed: Option<&str>) -> String {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .env(CASE, name)
            .envs(seed.map(|seed| ("TANADA_SEED", seed)))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let start = Instant::now();
        while child.try_wait().expect("its state").is_none() {
            if start.elapsed() > HANGS {
                child.kill().expect("it can be killed");
                panic!("{name}, seed {seed:?}, hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().expect("what it wrote");
        let text = String::from_utf8_lossy(&output.stderr);
        let ended = !output.status.success() && !text.contains("Sanitizer: ");
        assert!(ended, "{name}, seed {seed:?}: {text}");
        text.into_owned()
    }
}
