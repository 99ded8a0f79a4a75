//! Children of `fork(2)` in tasks and in the bodies of scopes: none runs a task of its parent, and none hangs.
#![allow(unsafe_code, reason = "fork(2)")]

mod own_process;
mod twisted;

use own_process::{in_own_process, outcome_of};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tanada_policy::{
    Decision, Entry, Env, Governor, Order, Origin, Outcome, Period, Plan, Ready, RegionGovernor,
    RegionId, Shape, Why, WorkerId, registry,
};
use tanada_runtime::{
    GraphError, Name, Observer, Pool, Recorder, Scope, TaskView, TemplateBuilder, WorkerObserver,
};
use twisted::{Queue, Twist, Twisted};

/// Set for children that the C library does not know of.
const UNNOTICED: &str = "UNNOTICED";

/// Forks: by `fork(2)`, or with [`UNNOTICED`] as `_Fork` does. The child ends by a signal if it takes a minute: it hangs.
fn fork() -> libc::pid_t {
    // SAFETY: the child does what is meant to work after a fork: that is what is tested. `clone` without flags and stack is a fork. `alarm`
    // has no precondition.
    unsafe {
        let child = match std::env::var_os(UNNOTICED) {
            None => libc::fork(),
            Some(_) => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t,
        };
        assert!(child >= 0, "fork");
        if child == 0 {
            libc::alarm(60);
        }
        child
    }
}

/// Ends the child without running the parent's exit handlers.
fn end_child(good: bool) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(i32::from(!good)) }
}

/// A child that a task of its parent runs in ends with this code.
const RAN_IN_CHILD: i32 = 77;

/// The body of a task that no child may run.
fn of_process(process: u32) {
    if std::process::id() != process {
        // SAFETY: no precondition.
        unsafe { libc::_exit(RAN_IN_CHILD) };
    }
}

#[test]
fn a_child_that_returns_from_its_task_runs_no_other() {
    in_own_process("child_returns_from_a_task", &[]);
    in_own_process("child_panics_in_a_task", &[]);
    in_own_process("child_returns_from_a_template_s_task", &[]);
    in_own_process("child_returns_from_a_nested_task", &[]);
    in_own_process("child_returns_from_a_governor", &[]);
}

/// Registers a task that forks and tasks that no child may run. The child does what `then` says, and should be ended by the engine.
fn forks_in_a_task<'scope>(s: &Scope<'scope>, then: fn()) {
    let parent = std::process::id();
    s.task("forks").register(move |_| {
        let child = fork();
        if child == 0 {
            then();
        } else {
            assert_eq!(outcome_of(child), -libc::SIGABRT);
        }
    });
    for _ in 0..100 {
        s.task("of the parent")
            .register(move |_| of_process(parent));
    }
}

#[test]
#[ignore = "run by `a_child_that_returns_from_its_task_runs_no_other`"]
fn child_returns_from_a_task() {
    for workers in [1, 4] {
        let pool = Pool::builder().workers(workers).build().expect("a pool");
        for _ in 0..10 {
            let done = pool.scope(|s| forks_in_a_task(s, || ()));
            done.expect("a graph that ends");
        }
    }
}

/// Forks whenever it is called.
struct Forks(Arc<AtomicU64>);

impl Governor for Forks {
    fn plan(&mut self, period: &Period<'_>) -> Plan {
        let child = fork();
        if child != 0 {
            assert_eq!(outcome_of(child), -libc::SIGABRT);
        }
        Plan {
            width: 1 + self.0.fetch_add(1, Ordering::Relaxed) as usize % period.threads.len(),
            order: Order::Fifo,
            next_call: 1,
        }
    }
    fn why(&self) -> Why {
        Why::default()
    }
}

#[test]
#[ignore = "run by `a_child_that_returns_from_its_task_runs_no_other`"]
fn child_returns_from_a_governor() {
    let parent = std::process::id();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let pool = Pool::builder()
        .workers(4)
        .governor_with(move |_| Box::new(Forks(Arc::clone(&counted))))
        .governor_period(Duration::from_micros(1));
    let pool = pool.build().expect("a pool");
    while calls.load(Ordering::Relaxed) < 20 {
        let graph = pool.scope(|s| {
            for _ in 0..100 {
                s.task("of the parent")
                    .register(move |_| of_process(parent));
            }
        });
        graph.expect("a graph that ends");
    }
}

#[test]
#[ignore = "run by `a_child_that_returns_from_its_task_runs_no_other`"]
fn child_panics_in_a_task() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let done = pool.scope(|s| forks_in_a_task(s, || panic!("in the child")));
    done.expect("a graph that ends");
}

#[test]
#[ignore = "run by `a_child_that_returns_from_its_task_runs_no_other`"]
fn child_returns_from_a_nested_task() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let pool = &pool;
    pool.scope(|s| {
        s.task("outer").register(move |_| {
            let done = pool.scope(|s| forks_in_a_task(s, || ()));
            done.expect("a graph that ends");
        });
    })
    .expect("a graph that ends");
}

#[test]
#[ignore = "run by `a_child_that_returns_from_its_task_runs_no_other`"]
fn child_returns_from_a_template_s_task() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let mut builder = TemplateBuilder::<u32>::new();
    builder.task("forks", 0, |_, _| {
        let child = fork();
        if child != 0 {
            assert_eq!(outcome_of(child), -libc::SIGABRT);
        }
    });
    for index in 0..100 {
        builder.task("of the parent", index, |&parent, _| of_process(parent));
    }
    let mut instance = builder.build().expect("no cycle").instance();
    let done = instance.run(&pool, &std::process::id());
    done.expect("a run that ends");
}

#[test]
fn children_that_the_c_library_does_not_know_of_are_noticed() {
    for name in [
        "child_of_another_process",
        "child_returns_from_a_task",
        "child_returns_from_a_template_s_task",
        "child_returns_from_a_nested_task",
    ] {
        in_own_process(name, &[]);
        if is_cleared_in_children() {
            in_own_process(name, &[(UNNOTICED, "yes")]);
        } else {
            tanada_testing::skip("the kernel does not clear pages in children (MADV_WIPEONFORK)");
        }
    }
}

/// Returns whether the kernel clears a page in a child of this process if it is asked to.
fn is_cleared_in_children() -> bool {
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new, and nothing else uses it.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 1, access, kind, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "a page");
        libc::madvise(page, 1, libc::MADV_WIPEONFORK) == 0
    }
}

#[test]
#[ignore = "run by `children_that_the_c_library_does_not_know_of_are_noticed`"]
fn child_of_another_process() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let mut instance = TemplateBuilder::<()>::new()
        .build()
        .expect("no cycle")
        .instance();
    pool.scope(|s| forks_nothing(s)).expect("a graph that ends");
    let child = fork();
    if child == 0 {
        let scope = pool.scope(|s| forks_nothing(s)) == Err(GraphError::Forked);
        let template = instance.run(&pool, &()) == Err(GraphError::Forked);
        drop(pool);
        // A pool of the child's own, of which a grandchild has none again.
        let own = Pool::builder().workers(1).build().expect("a pool");
        own.scope(|s| forks_nothing(s)).expect("a graph that ends");
        let grandchild = fork();
        if grandchild == 0 {
            end_child(own.scope(|s| forks_nothing(s)) == Err(GraphError::Forked));
        }
        end_child(scope && template && outcome_of(grandchild) == 0);
    }
    assert_eq!(outcome_of(child), 0);
    pool.scope(|s| forks_nothing(s)).expect("a graph that ends");
}

#[test]
fn a_child_of_a_scope_s_body_gets_an_error() {
    in_own_process("child_of_a_body", &[]);
    in_own_process("child_of_a_nested_body", &[]);
}

/// Forks in the body of a scope on `pool`, whose workers are busy registering tasks meanwhile. Returns how the child ended.
fn forks_in_a_body(pool: &Pool, panics: bool) -> i32 {
    let (parent, sum) = (std::process::id(), AtomicU64::new(0));
    let (sum, mut child) = (&sum, 0);
    let scope = || {
        pool.scope(|s| {
            let held = s.task("held").count(1).register(|_| ());
            for _ in 0..4 {
                s.task("busy").register(move |s| {
                    for _ in 0..50 {
                        s.task("of the parent").register(move |_| {
                            of_process(parent);
                            sum.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
            std::thread::yield_now();
            child = fork();
            let resolver = s.resolver();
            let other = s.task("other").after([held]).register(|_| ());
            if child != 0 {
                s.resolve(held).expect("its count");
                return None;
            }
            let late = s.task("late").count(1).after([other]).register(|_| ());
            let said = [
                s.resolve(late),
                s.resolve(held),
                resolver.clone().resolve(late),
            ];
            drop(resolver.clone());
            let forked = said.iter().all(|said| *said == Err(GraphError::Forked));
            let stopped = s.depend(late, held) == Ok(()) && s.is_stopped();
            s.cancel();
            let nested = pool.scope(|_| ());
            assert!(!panics, "in the child's body");
            (forked && stopped && nested == Err(GraphError::Forked)).then_some(resolver)
        })
        .map(drop)
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scope));
    if child == 0 {
        let good = match result {
            Ok(result) => result == Err(GraphError::Forked),
            Err(_) => panics,
        };
        let own = Pool::builder().workers(1).build().expect("a pool");
        own.scope(|s| forks_nothing(s)).expect("a graph that ends");
        end_child(good);
    }
    result.expect("no panic").expect("a graph that ends");
    assert_eq!(sum.load(Ordering::Relaxed), 200);
    outcome_of(child)
}

fn forks_nothing(s: &Scope<'_>) {
    s.task("in the child").register(|_| ());
}

#[test]
#[ignore = "run by `a_child_of_a_scope_s_body_gets_an_error`"]
fn child_of_a_body() {
    for policy in registry::kinds().into_iter().map(|entry| entry.name) {
        let pool = Pool::builder().workers(4).policy(policy).build();
        let pool = pool.expect("a pool");
        for round in 0..75 {
            let outcome = forks_in_a_body(&pool, round % 5 == 4);
            assert_eq!(outcome, 0, "{policy}, round {round}");
        }
    }
}

#[test]
#[ignore = "run by `a_child_of_a_scope_s_body_gets_an_error`"]
fn child_of_a_nested_body() {
    let pool = Pool::builder().workers(4).build().expect("a pool");
    let pool = &pool;
    for round in 0..50 {
        pool.scope(|s| {
            s.task("outer").register(move |_| {
                assert_eq!(forks_in_a_body(pool, false), 0, "round {round}");
            });
        })
        .expect("a graph that ends");
    }
}

/// The callback that forks, once: its name, and the child.
static FORKS_IN: Mutex<Option<&str>> = Mutex::new(None);
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Whether this process is the child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Called by every callback.
fn here(callback: &str) {
    if IS_CHILD.load(Ordering::SeqCst) {
        return;
    }
    let mut at = FORKS_IN.lock();
    if *at == Some(callback) {
        *at = None;
        let child = fork();
        if child > 0 {
            CHILD.store(child, Ordering::SeqCst);
        } else {
            // Threads that are not here may wait for the lock, and would be handed it.
            std::mem::forget(at);
            IS_CHILD.store(true, Ordering::SeqCst);
        }
    }
}

/// Forks in the policy's callbacks.
#[derive(Default)]
struct Forking;

impl Twist for Forking {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
        here("inject");
    }
    fn ready(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        queue.push(env, task);
        here("ready");
    }
    fn next(&self, queue: &Queue, _env: &mut impl Env) -> Option<Ready> {
        let task = queue.pop()?;
        here("next");
        Some(task)
    }
    fn may_have(&self, queue: &Queue) -> bool {
        here("may_have");
        !queue.is_empty()
    }
}

/// Forks in the observer's callbacks.
struct Watcher;

impl Observer for Watcher {
    type Worker = Watcher;
    fn worker(&self, _worker: WorkerId) -> Watcher {
        Watcher
    }
}

impl WorkerObserver for Watcher {
    fn start(&mut self, _task: &TaskView, _origin: Origin) {
        here("start");
    }
    fn end(&mut self, _task: &TaskView) {
        here("end");
    }
    fn idle(&mut self) {
        here("idle");
    }
}

#[test]
fn a_child_of_a_callback_runs_no_task_and_ends() {
    for callback in [
        "inject", "ready", "next", "may_have", "start", "end", "idle",
    ] {
        in_own_process("child_of_a_callback", &[("CALLBACK", callback)]);
        in_own_process(
            "child_of_a_callback",
            &[("CALLBACK", callback), ("TEMPLATE", "yes")],
        );
    }
}

#[test]
#[ignore = "run by `a_child_of_a_callback_runs_no_task_and_ends`"]
fn child_of_a_callback() {
    let process = std::process::id();
    let callback = std::env::var("CALLBACK").expect("a name").leak();
    let template = std::env::var_os("TEMPLATE").is_some();
    let pool = Pool::builder().workers(2).observer(Watcher);
    let pool = pool
        .build_with::<Twisted<Forking>>("forking")
        .expect("a pool");
    std::thread::sleep(Duration::from_millis(20));
    *FORKS_IN.lock() = Some(callback);
    let result = if template {
        let mut builder = TemplateBuilder::<()>::new();
        let first = builder.task("first", 0, |(), _| of_process(process));
        let second = builder.task("second", 0, |(), _| of_process(process));
        builder.edge(first, second);
        builder
            .build()
            .expect("no cycle")
            .instance()
            .run(&pool, &())
    } else {
        pool.scope(|s| {
            let first = s.task("first").register(|s| {
                of_process(process);
                s.task("inside").register(|_| of_process(process));
            });
            s.task("second")
                .after([first])
                .register(|_| of_process(process));
        })
    };
    if std::process::id() != process {
        // The child is a copy of this thread, which is no worker: it forked in `inject`.
        end_child(result == Err(GraphError::Forked));
    }
    assert_eq!(result, Ok(()));
    // A worker calls `may_have` and `idle` when it has nothing to do.
    std::thread::sleep(Duration::from_millis(100));
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        // A worker that has a task at once does not ask `ready`, and a template releases by `turn`.
        assert!(template && callback == "ready", "{callback} was not called");
        return;
    }
    let outcome = outcome_of(child);
    let outside = callback == "inject";
    assert!(
        outcome == -libc::SIGABRT || (outside && outcome == 0),
        "{callback}: {outcome}"
    );
}

#[test]
fn a_child_of_an_observer_between_two_tasks_runs_no_part() {
    in_own_process("child_before_a_part", &[]);
}

#[test]
#[ignore = "run by `a_child_of_an_observer_between_two_tasks_runs_no_part`"]
fn child_before_a_part() {
    let process = std::process::id();
    let builder = Pool::builder().workers(1).observer(Watcher);
    let pool = &builder.build().expect("a pool");
    let calls = &AtomicU64::new(0);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            while calls.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            pool.broadcast(|_| of_process(process))
                .expect("a broadcast");
        });
        pool.scope(|s| {
            let first = s.task("first").register(move |_| {
                calls.store(1, Ordering::SeqCst);
                // Meanwhile the broadcast begins.
                std::thread::sleep(Duration::from_millis(50));
                *FORKS_IN.lock() = Some("idle");
            });
            s.task("second").after([first]).register(|_| ());
        })
        .expect("a graph that ends");
    });
    while CHILD.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(outcome_of(CHILD.load(Ordering::SeqCst)), -libc::SIGABRT);
}

/// Forks when it is dropped in the process that it was made in.
struct ForksInDrop(u32);

impl Drop for ForksInDrop {
    fn drop(&mut self) {
        if std::process::id() == self.0 {
            here("drop");
        }
    }
}

#[test]
fn a_child_of_a_discarded_body_s_drop_ends() {
    in_own_process("child_of_a_discarded_body", &[]);
}

#[test]
#[ignore = "run by `a_child_of_a_discarded_body_s_drop_ends`"]
fn child_of_a_discarded_body() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let process = std::process::id();
    *FORKS_IN.lock() = Some("drop");
    let result = pool.scope(|s| {
        // Its count is never resolved, so that the end of the scope drops its body.
        let forks = ForksInDrop(process);
        let never = s.task("never").count(1).register(move |_| drop(forks));
        s.task("after")
            .after([never])
            .register(move |_| of_process(process));
    });
    if std::process::id() != process {
        end_child(result == Err(GraphError::Forked));
    }
    assert!(result.is_err(), "{result:?}");
    assert_eq!(outcome_of(CHILD.load(Ordering::SeqCst)), 0);
    pool.scope(|s| {
        s.task("next").register(move |_| of_process(process));
    })
    .expect("a pool that goes on");
}

#[test]
fn a_child_of_a_payload_s_drop_ends() {
    in_own_process("child_of_a_body_s_payload", &[]);
    in_own_process("child_of_a_task_s_payload", &[]);
}

/// Returns how the child ended that was forked in the drop of the payload of a second panic. `in_body`: the body of the scope panics
/// second, otherwise a task.
fn forks_in_a_payload(in_body: bool) -> i32 {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let process = std::process::id();
    *FORKS_IN.lock() = Some("drop");
    let begun = &AtomicU64::new(0);
    // Panics when the first panic has stopped the graph; a moment later its payload is stored.
    let second = move |s: &Scope<'_>| {
        begun.fetch_add(1, Ordering::SeqCst);
        while !s.is_stopped() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(100));
        std::panic::panic_any(ForksInDrop(process));
    };
    let scope = || {
        pool.scope(|s| {
            s.task("first").register(move |_| {
                while begun.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                panic!("first");
            });
            if in_body {
                second(s);
            }
            s.task("second").register(second);
        })
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scope));
    if std::process::id() != process {
        end_child(matches!(result, Ok(Err(GraphError::Forked))));
    }
    let payload = result.expect_err("a panic");
    assert_eq!(payload.downcast_ref(), Some(&"first"));
    outcome_of(CHILD.load(Ordering::SeqCst))
}

#[test]
#[ignore = "run by `a_child_of_a_payload_s_drop_ends`"]
fn child_of_a_body_s_payload() {
    assert_eq!(forks_in_a_payload(true), 0);
}

#[test]
#[ignore = "run by `a_child_of_a_payload_s_drop_ends`"]
fn child_of_a_task_s_payload() {
    assert_eq!(forks_in_a_payload(false), -libc::SIGABRT);
}

#[test]
fn a_child_takes_nothing_from_its_parent_s_recorder_and_ends() {
    in_own_process("child_takes_a_recording", &[]);
}

#[test]
#[ignore = "run by `a_child_takes_nothing_from_its_parent_s_recorder_and_ends`"]
fn child_takes_a_recording() {
    fn again<'scope>(s: &Scope<'scope>, stop: &'scope AtomicU64) {
        if stop.load(Ordering::Relaxed) == 0 {
            s.task("again").register(move |s| again(s, stop));
        }
    }
    let recorder = Recorder::all();
    let pool = Pool::builder().workers(2).observer(recorder.clone());
    let pool = pool.build().expect("a pool");
    let stop = &AtomicU64::new(0);
    let mut children = Vec::new();
    let done = pool.scope(|s| {
        (0..8).for_each(|_| again(s, stop));
        for _ in 0..60 {
            let child = fork();
            if child == 0 {
                let nothing = recorder.take().tasks.is_empty();
                let own = Pool::builder().workers(1).observer(recorder.clone());
                let own = own.build().expect("a pool");
                own.scope(|s| forks_nothing(s)).expect("a graph that ends");
                end_child(nothing && recorder.take().tasks.len() == 1);
            }
            children.push(child);
            std::thread::sleep(Duration::from_micros(300));
        }
        stop.store(1, Ordering::Relaxed);
    });
    done.expect("a graph that ends");
    for child in children {
        assert_eq!(outcome_of(child), 0);
    }
}

/// Forks at the second root of a template. In the child no lock of a policy may be taken, so the policy is not called again.
#[derive(Default)]
struct ForksAtARoot(AtomicU64);

impl Twist for ForksAtARoot {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        let calls = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        if AT_ROOT.load(Ordering::SeqCst) == 0 && calls > 2 {
            end_child(false);
        }
        if calls == 2 {
            AT_ROOT.store(fork(), Ordering::SeqCst);
        }
        if AT_ROOT.load(Ordering::SeqCst) == 0 {
            // The other worker may have held the queue's lock at that moment.
            return;
        }
        queue.push(env, task);
    }
}

/// The child that [`ForksAtARoot`] forked; 0 in the child.
static AT_ROOT: AtomicI32 = AtomicI32::new(-1);

#[test]
#[ignore = "run by `a_child_forked_at_a_root_calls_no_policy`"]
fn child_forks_at_a_root() {
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Twisted<ForksAtARoot>>("forks at a root")
        .expect("a pool");
    let mut builder = TemplateBuilder::<()>::new();
    (0..20).for_each(|index| _ = builder.task("root", index, |(), _| ()));
    let done = builder
        .build()
        .expect("no cycle")
        .instance()
        .run(&pool, &());
    let child = AT_ROOT.load(Ordering::SeqCst);
    if child == 0 {
        end_child(done == Err(GraphError::Forked));
    }
    done.expect("a run that ends");
    assert_eq!(outcome_of(child), 0);
}

#[test]
fn a_child_forked_at_a_root_calls_no_policy() {
    in_own_process("child_forks_at_a_root", &[]);
}

#[test]
fn a_child_that_returns_from_a_part_ends() {
    in_own_process("child_returns_from_a_part", &[]);
    in_own_process("child_returns_from_a_part", &[(UNNOTICED, "1")]);
}

#[test]
#[ignore = "run by `a_child_that_returns_from_a_part_ends`"]
fn child_returns_from_a_part() {
    if std::env::var_os(UNNOTICED).is_some() && !is_cleared_in_children() {
        return;
    }
    let pool = &Pool::builder().workers(3).build().expect("a pool");
    let parent = std::process::id();
    let forks = |index: usize, panics: bool| {
        of_process(parent);
        if index == 1 {
            let child = fork();
            if child == 0 && panics {
                panic!("in a child");
            }
            if child != 0 {
                assert_eq!(outcome_of(child), -libc::SIGABRT);
            }
        }
    };
    for panics in [false, true] {
        let parts = pool.broadcast(|member| forks(member.index(), panics));
        parts.expect("a broadcast");
        pool.region("forks")
            .run(None, |member| forks(member.index(), panics))
            .expect("a region");
        pool.scope(|s| {
            s.task("broadcasts").register(move |_| {
                let parts = pool.broadcast(|member| forks(member.index(), panics));
                parts.expect("a broadcast");
            });
        })
        .expect("a graph that ends");
    }
    pool.broadcast(|_| of_process(parent))
        .expect("the pool goes on");
}

#[test]
fn a_child_neither_broadcasts_nor_waits_for_locks() {
    in_own_process("child_of_broadcasts_and_regions", &[]);
}

#[test]
#[ignore = "run by `a_child_neither_broadcasts_nor_waits_for_locks`"]
fn child_of_broadcasts_and_regions() {
    let pool = &Pool::builder().workers(2).build().expect("a pool");
    let over = &AtomicU64::new(0);
    std::thread::scope(|threads| {
        for thread in 0..2 {
            threads.spawn(move || {
                for number in (0..1000).cycle() {
                    if over.load(Ordering::Relaxed) != 0 {
                        return;
                    }
                    let region = pool.region(format!("{thread} {number}"));
                    region.run(None, |_| ()).expect("a region");
                    pool.broadcast(|_| ()).expect("a broadcast");
                }
            });
        }
        for number in 0..100 {
            let child = fork();
            if child == 0 {
                let region = pool.region(format!("child {number}"));
                let refused = region.run(None, |_| ()) == Err(GraphError::Forked)
                    && pool.broadcast(|_| ()) == Err(GraphError::Forked);
                let nothing = pool.region_decisions().is_empty() && region.confidence() == 0.0;
                end_child(refused && nothing && region.why().what.is_empty());
            }
            assert_eq!(outcome_of(child), 0);
        }
        over.store(1, Ordering::Relaxed);
    });
}

#[test]
fn a_child_makes_names_whatever_threads_of_its_parent_did() {
    in_own_process("child_of_names", &[]);
}

#[test]
#[ignore = "run by `a_child_makes_names_whatever_threads_of_its_parent_did`"]
fn child_of_names() {
    let over = &AtomicU64::new(0);
    let before = Name::intern("before");
    std::thread::scope(|threads| {
        for thread in 0..3 {
            threads.spawn(move || {
                for number in 0..10_000 {
                    if over.load(Ordering::Relaxed) != 0 {
                        return;
                    }
                    // New ones, and ones that are known.
                    let name = format!("{thread} {number}");
                    (0..100).for_each(|_| assert_eq!(Name::intern(&name).as_str(), name));
                }
            });
        }
        for number in 0..100 {
            let child = fork();
            if child == 0 {
                let text = format!("child {number}");
                let name = Name::intern(&text);
                let again = Name::intern(&text);
                let same = |one: Name, two: Name| std::ptr::eq(one.as_str(), two.as_str());
                end_child(
                    name.as_str() == text
                        && same(name, again)
                        && same(before, Name::intern("before")),
                );
            }
            assert_eq!(outcome_of(child), 0);
        }
        over.store(1, Ordering::Relaxed);
    });
}

/// Decides for one thread.
struct Alone;

impl RegionGovernor for Alone {
    fn enter(&mut self, _entry: &Entry) -> Decision {
        Decision::full(Shape {
            cores: 1,
            threads_per_core: 1,
        })
    }
    fn leave(&mut self, _outcome: &Outcome) {}
    fn why(&self, _region: RegionId) -> Why {
        Why::default()
    }
    fn confidence(&self, _region: RegionId) -> f64 {
        1.0
    }
}

#[test]
fn a_child_forked_in_a_team_of_one_gets_an_error() {
    in_own_process("child_of_a_team_of_one", &[]);
}

#[test]
#[ignore = "run by `a_child_forked_in_a_team_of_one_gets_an_error`"]
fn child_of_a_team_of_one() {
    let pool = Pool::builder()
        .workers(2)
        .region_governor_with(|_| Box::new(Alone));
    let pool = pool.build().expect("a pool");
    let child = AtomicI32::new(-1);
    let result = pool.region("forks").run(None, |_| {
        child.store(fork(), Ordering::Relaxed);
    });
    let child = child.into_inner();
    if child == 0 {
        end_child(result == Err(GraphError::Forked));
    }
    assert_eq!((result, outcome_of(child)), (Ok(()), 0));
}
