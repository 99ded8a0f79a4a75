//! The interface of `rayon-core` on the workers of Tanada.
//!
//! A program that uses rayon runs on Tanada with two lines in its `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { path = "../tanada/rayon-core" }
//! ```
//!
//! Everything that the published `rayon-core` documents holds here, too. What differs:
//!
//! - The environment variable `TANADA_POLICY` names the policy of the pools' forks; `TANADA_PROFILE=out.html` writes work and span by
//!   source line when the program ends.
//! - A pool has at most 1024 threads ([`max_num_threads`]).
//! - A [`join`] deep in a recursion on busy workers is two calls, so [`yield_now`] in its first closure does not find the second one.
//! - In a child of `fork(2)`, which has none of the workers' threads, an inherited pool panics with a message where rayon waits for ever.

mod builder;
mod global;
mod pool;

#[allow(deprecated)]
pub use builder::{Configuration, initialize};
pub use builder::{
    CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadPoolBuildError, ThreadPoolBuilder, ThreadSpawn,
};
pub use pool::ThreadPool;
pub use tanada_runtime::fork::{
    BroadcastContext, FnContext, Scope, ScopeFifo, Yield, yield_local, yield_now,
};

use global::global;
use tanada_runtime::fork;

/// Returns the most threads that a pool can have.
pub fn max_num_threads() -> usize {
    usize::from(tanada_runtime::MAX_WORKERS)
}

/// Returns the number of threads of the pool that this thread belongs to; of the global pool if it belongs to none.
#[inline]
pub fn current_num_threads() -> usize {
    usize::from(fork::current_workers().unwrap_or_else(|| global().workers()))
}

/// Returns the number of this thread in its pool; `None` if it belongs to none.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    fork::current_worker().map(|worker| worker.index())
}

/// Returns whether this thread has work of its own that no thread has begun; `None` if it belongs to no pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    fork::has_pending_jobs()
}

/// Runs both closures, perhaps at the same time, and returns both results.
///
/// # Panics
/// With the panic of the first closure, or else of the second, once both have ended.
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    fork::join_or(global, oper_a, oper_b)
}

/// As [`join`], and tells each closure whether it runs on another thread than the one that called this.
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    fork::join_context_or(global, oper_a, oper_b)
}

/// Runs `op` in a pool. Returns when it and all that was spawned in the scope have ended.
///
/// # Panics
/// With the first panic of `op` or of a spawned closure.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    fork::scope_or(global, op)
}

/// As [`scope`], and what a thread spawns runs in the order in which it was spawned.
///
/// # Panics
/// As [`scope`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    fork::scope_fifo_or(global, op)
}

/// As [`scope`], but runs `op` on this thread.
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    fork::in_place_scope_or(global, op)
}

/// As [`scope_fifo`], but runs `op` on this thread.
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    fork::in_place_scope_fifo_or(global, op)
}

/// Runs `func` in the pool of this thread, or in the global one, at some time.
///
/// A panic of `func` goes to the pool's [panic handler](ThreadPoolBuilder::panic_handler), or ends the process.
#[track_caller]
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    fork::spawn_or(global, func);
}

/// As [`spawn`], and what a thread spawns so runs in the order in which it was spawned.
#[track_caller]
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    fork::spawn_fifo_or(global, func);
}

/// Runs `op` on each thread of the pool, and returns the results in the order of the threads.
///
/// # Panics
/// With the panic of the first thread whose part panicked, once all have ended.
#[track_caller]
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    fork::broadcast_or(global, op)
}

/// Runs `op` on each thread of the pool at some time. A panic goes where one of [`spawn`] goes.
#[track_caller]
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    fork::spawn_broadcast_or(global, op);
}
