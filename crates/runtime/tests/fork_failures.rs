//! What goes wrong in forks from outside: children of `fork(2)`, stacks that end, waits that nest.

#![cfg(not(any(loom, shuttle)))]
#![allow(unsafe_code, reason = "fork(2)")]

mod own_process;

use own_process::{in_own_process, outcome_of, run_in_own_process};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tanada_runtime::Pool;
use tanada_runtime::fork::{self, Scope};

fn pool(workers: u32) -> Pool {
    Pool::builder().workers(workers).build().expect("a pool")
}

/// Forks. The child ends by SIGALRM if it takes five seconds.
fn fork_process() -> libc::pid_t {
    // SAFETY: the child does what is meant to work after a fork: that is what is tested. `alarm` has no precondition.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork");
        if child == 0 {
            libc::alarm(5);
        }
        child
    }
}

/// Runs `forks` in the pool; it forks once, and its child comes back. The child must end with a message, and the parent go on.
fn comes_back(workers: u32, forks: impl Fn() -> libc::pid_t + Sync) {
    let pool = pool(workers);
    let parent = std::process::id();
    let child = fork::install(&pool, &forks);
    assert_eq!(std::process::id(), parent, "the child left the pool");
    assert_eq!(outcome_of(child), -libc::SIGABRT);
    assert_eq!(fork::install(&pool, || fork::join(|| 1, || 2)), (1, 2));
}

#[test]
fn a_child_that_comes_back_from_a_closure_ends() {
    for name in [
        "child_of_a_join",
        "child_of_a_scope",
        "child_of_a_broadcast",
    ] {
        in_own_process(name, &[]);
    }
}

#[test]
#[ignore = "in a process of its own"]
fn child_of_a_join() {
    for workers in [1, 2, 4] {
        comes_back(workers, || fork::join_context(|_| fork_process(), |_| ()).0);
        comes_back(workers, || fork::join_context(|_| (), |_| fork_process()).1);
        comes_back(workers, || {
            fork::join(fork_process, || fork::join(|| (), || ())).0
        });
    }
}

#[test]
#[ignore = "in a process of its own"]
fn child_of_a_scope() {
    for workers in [1, 3] {
        comes_back(workers, || {
            fork::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|_| ());
                }
                fork_process()
            })
        });
        comes_back(workers, || {
            let child = AtomicU64::new(0);
            fork::scope(|scope| scope.spawn(|_| child.store(fork_process() as u64, Relaxed)));
            child.into_inner() as libc::pid_t
        });
    }
}

#[test]
#[ignore = "in a process of its own"]
fn child_of_a_broadcast() {
    comes_back(2, || {
        let children = fork::broadcast(|context| match context.index() {
            0 => fork_process(),
            _ => 0,
        });
        children[0]
    });
}

#[test]
fn a_child_of_a_body_outside_of_the_pool_waits_for_nothing() {
    in_own_process("child_of_a_body_outside", &[]);
}

#[test]
#[ignore = "in a process of its own"]
fn child_of_a_body_outside() {
    let pool = pool(2);
    let mut child = 0;
    fork::in_place_scope_in(&pool, |scope| {
        child = fork_process();
        if child != 0 {
            return;
        }
        // The pool of the parent is refused here.
        let refused = std::panic::catch_unwind(|| fork::install(&pool, || 1)).is_err();
        let _ = scope;
        // SAFETY: no precondition.
        unsafe { libc::_exit(i32::from(!refused)) };
    });
    assert_eq!(outcome_of(child), 0);
}

#[test]
fn recursions_without_end_overflow_the_stack_as_elsewhere() {
    for name in ["scopes_overflow", "contexts_overflow", "spawns_overflow"] {
        let (status, text) = run_in_own_process(name, &[]);
        assert!(!status.success(), "{name}");
        assert!(text.contains("has overflowed its stack"), "{name}: {text}");
    }
}

#[test]
#[ignore = "in a process of its own"]
fn scopes_overflow() {
    fn down(n: u64) -> u64 {
        let mut deeper = 0;
        fork::scope(|scope| scope.spawn(|_| deeper = down(n + 1)));
        std::hint::black_box(deeper + n)
    }
    fork::install(&pool(2), || down(0));
}

#[test]
#[ignore = "in a process of its own"]
fn contexts_overflow() {
    fn down(n: u64) -> u64 {
        let (a, b) = fork::join_context(|_| n, |_| down(n + 1));
        std::hint::black_box(a + b)
    }
    fork::install(&pool(2), || down(0));
}

#[test]
#[ignore = "in a process of its own"]
fn spawns_overflow() {
    fn down(n: u64) -> u64 {
        if std::hint::black_box(n) == u64::MAX {
            return n;
        }
        std::hint::black_box(n + std::hint::black_box(down(n + 1)))
    }
    fork::spawn_in(&pool(2), || _ = down(0));
}

#[test]
fn a_million_closures_that_spawn_each_other_need_no_stack() {
    fn next<'scope>(scope: &Scope<'scope>, left: u64, ran: &'scope AtomicU64) {
        ran.fetch_add(1, Relaxed);
        if left > 1 {
            scope.spawn(move |scope| next(scope, left - 1, ran));
        }
    }
    for workers in [1, 2, 8] {
        let ran = AtomicU64::new(0);
        let pool = pool(workers);
        fork::install(&pool, || fork::scope(|scope| next(scope, 1_000_000, &ran)));
        assert_eq!(ran.into_inner(), 1_000_000);
    }
}

#[test]
fn a_million_waits_in_closures_that_are_spawned_are_bounded() {
    // Each of them waits for a closure that others may have taken, and runs further ones meanwhile.
    for workers in [1, 2, 8] {
        let ran = AtomicU64::new(0);
        let pool = pool(workers);
        fork::install(&pool, || {
            fork::scope(|scope| {
                for _ in 0..1_000_000 / u64::from(workers) {
                    scope.spawn(|_| {
                        fork::scope(|inner| inner.spawn(|_| _ = ran.fetch_add(1, Relaxed)));
                    });
                }
            });
        });
        assert_eq!(ran.into_inner(), 1_000_000 / u64::from(workers));
    }
}

#[test]
fn detached_closures_that_spawn_each_other_end_before_their_pool() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    fn next(left: u64) {
        RAN.fetch_add(1, Relaxed);
        if left > 1 {
            fork::spawn(move || next(left - 1));
        }
    }
    let pool = pool(2);
    fork::spawn_in(&pool, || next(100_000));
    drop(pool);
    assert_eq!(RAN.load(Relaxed), 100_000);
}
