//! Fork-join: closures that may run at the same time, on the workers of a [`Pool`], without a graph.
//!
//! ```
//! use tanada_runtime::fork;
//!
//! fn sum(values: &[u64]) -> u64 {
//!     match values {
//!         [] => 0,
//!         [value] => *value,
//!         _ => {
//!             let (left, right) = values.split_at(values.len() / 2);
//!             let (left, right) = fork::join(|| sum(left), || sum(right));
//!             left + right
//!         }
//!     }
//! }
//! assert_eq!(sum(&[1, 2, 3, 4, 5]), 15);
//! ```
//!
//! A fork that nobody takes costs about a call, so a recursion needs no cutoff. All functions work on a worker and on any other thread: on
//! a worker of a pool, in that pool; elsewhere, in [`Pool::global`]. ([`install`] enters another pool.) Graphs and forks nest in each
//! other both ways: a task may `join`, and a forked closure may run a graph.
//!
//! # What a closure may wait for
//! The second closure of a [`join`] may run at any time after the first has begun, on any worker, or after the first has ended. So the
//! first must not wait for the second by other means. A worker that waits in `join` or in a scope runs other closures of its pool
//! meanwhile, on top of the one that waits; when three quarters of its stack are used up, it waits without. In a program that has
//! lightweight threads, or locks or channels of [`sync`](crate::thread::sync), it runs them in threads of their own, so that closures may
//! wait for each other by these.
//!
//! # Panics
//! Both closures of a `join` run, even if the first panics; the panic goes on when both have ended, that of the first if both panic. A
//! scope ends when all that it spawned has, and then goes on with the first panic. A panic of a closure that nothing waits for ([`spawn`])
//! goes to the pool's handler ([`PoolBuilder::panic_handler`](crate::PoolBuilder::panic_handler)), or ends the process.

#[doc(hidden)]
pub mod demand;
mod each;
mod enter;
#[allow(unsafe_code)]
mod job;
#[allow(unsafe_code)]
mod join;
#[allow(unsafe_code)]
mod latch;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod reach;
mod record;
#[allow(unsafe_code)]
mod scope;
mod share;
mod shared;
#[allow(unsafe_code)]
mod spawn;
mod wait;
#[allow(unsafe_code)]
mod watch;

pub use each::for_each;
pub use join::{FnContext, join_context_or, join_or, join_with_or, join_works_or};
pub(crate) use latch::CountLatch;
pub(crate) use record::PoolRecord;
pub use record::{ForkProfile, ForkRecorder, OfPlace, Place};
pub use scope::{
    Scope, ScopeFifo, in_place_scope_fifo_in, in_place_scope_fifo_or, in_place_scope_in,
    in_place_scope_or, scope_fifo_or, scope_or,
};
pub(crate) use shared::{ForkLocal, ForkShared, Hooks};
pub use spawn::{
    BroadcastContext, broadcast_in, broadcast_or, spawn_broadcast_in, spawn_broadcast_or,
    spawn_fifo_in, spawn_fifo_or, spawn_in, spawn_or,
};
pub(crate) use wait::Jobs;
pub use wait::{Yield, yield_local, yield_now};

use crate::pool::Pool;
use crate::worker;
use tanada_policy::{Hints, WorkerId};

/// Returns [`Pool::global`].
///
/// # Panics
/// If it cannot be made.
pub(crate) fn global() -> Pool {
    match Pool::global() {
        Ok(pool) => pool,
        Err(error) => panic!("no global pool: {error}"),
    }
}

/// Runs both closures, perhaps at the same time, and returns both results.
///
/// Costs about a call while no worker is idle; what a push to a work-stealing deque and back costs if one is.
///
/// # Panics
/// With the panic of `first`, or else of `second`, once both have ended.
#[inline]
pub fn join<A, B, RA, RB>(first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_or(global, first, second)
}

/// As [`join`], and tells the pool's [fork policy](crate::PoolBuilder::fork_policy) what it should know of the second closure. The depth is
/// filled in. A policy that leaves forks to the engine, as the default does, does not look at hints.
///
/// ```
/// use tanada_runtime::{Hints, fork};
///
/// let small = Hints::default().with_footprint(64);
/// assert_eq!(fork::join_with(&small, || 1, || 2), (1, 2));
/// ```
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_with<A, B, RA, RB>(hints: &Hints, first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_with_or(global, hints, first, second)
}

/// As [`join`], and says how much work the two closures are, in any unit; 0 and 0 say nothing. A policy that divides the workers among
/// closures (`adws`) divides them in this ratio. No other policy looks at it.
///
/// ```
/// use tanada_runtime::fork;
///
/// fn sum(values: &[u64]) -> u64 {
///     let third = values.len() / 3;
///     match third {
///         0 => values.iter().sum(),
///         _ => {
///             let (left, right) = values.split_at(third);
///             let works = [left.len() as u64, right.len() as u64];
///             let (left, right) = fork::join_works(works, || sum(left), || sum(right));
///             left + right
///         }
///     }
/// }
/// assert_eq!(sum(&[1, 2, 3, 4, 5]), 15);
/// ```
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_works<A, B, RA, RB>(works: [u64; 2], first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_works_or(global, works, first, second)
}

/// As [`join`], and tells the closures whether they have moved to another thread. The second closure always lies where thieves can take it.
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(first: A, second: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context_or(global, first, second)
}

/// Runs `body` on a worker, and returns when it and all that was spawned in the scope have ended.
///
/// # Panics
/// With the first panic of the body or of a spawned closure.
pub fn scope<'scope, R: Send>(body: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    scope_or(global, body)
}

/// As [`scope`], and a worker's spawned closures run in the order in which it spawned them.
///
/// # Panics
/// As [`scope`].
pub fn scope_fifo<'scope, R: Send>(body: impl FnOnce(&ScopeFifo<'scope>) -> R + Send) -> R {
    scope_fifo_or(global, body)
}

/// As [`scope`], but runs `body` on this thread.
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope<'scope, R>(body: impl FnOnce(&Scope<'scope>) -> R) -> R {
    in_place_scope_or(global, body)
}

/// As [`scope_fifo`], but runs `body` on this thread.
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope_fifo<'scope, R>(body: impl FnOnce(&ScopeFifo<'scope>) -> R) -> R {
    in_place_scope_fifo_or(global, body)
}

/// Lets a worker run `body` at some time. The pool stays open until it has run.
#[track_caller]
pub fn spawn(body: impl FnOnce() + Send + 'static) {
    spawn_or(global, body);
}

/// As [`spawn`], and a worker's spawned closures run in the order in which it spawned them.
#[track_caller]
pub fn spawn_fifo(body: impl FnOnce() + Send + 'static) {
    spawn_fifo_or(global, body);
}

/// Runs `body` on each worker, and returns the results in the order of the workers. See [`Pool::broadcast`] for when a worker does that.
///
/// # Panics
/// With the panic of the first worker whose part panicked, once all parts have ended.
#[track_caller]
pub fn broadcast<R: Send>(body: impl Fn(BroadcastContext<'_>) -> R + Sync) -> Vec<R> {
    broadcast_or(global, body)
}

/// Lets each worker run `body` at some time. The pool stays open until all have.
#[track_caller]
pub fn spawn_broadcast(body: impl Fn(BroadcastContext<'_>) + Send + Sync + 'static) {
    spawn_broadcast_or(global, body);
}

/// Runs `body` on a worker of `pool`, and returns its result. Everything in this module that `body` calls happens in that pool.
///
/// # Panics
/// With the panic of `body`; or if the pool cannot run anything, see [`GraphError::Forked`](crate::GraphError::Forked).
pub fn install<R: Send>(pool: &Pool, body: impl FnOnce() -> R + Send) -> R {
    enter::on_worker_of(pool, |_, _| body())
}

/// Returns which worker this thread is, of whatever pool; `None` if it is none.
#[inline(never)]
pub fn current_worker() -> Option<WorkerId> {
    worker::with_any(|worker| worker.map(|worker| worker.id))
}

/// Returns the number of workers of the pool whose worker this thread is; `None` if it is none.
#[inline(never)]
pub fn current_workers() -> Option<u16> {
    worker::with_any(|worker| worker.map(|worker| worker.workers))
}

/// Returns which worker of `pool` this thread is; `None` if it is none.
#[inline(never)]
pub fn worker_of(pool: &Pool) -> Option<WorkerId> {
    worker::with_current(pool.shared(), |worker| worker.map(|worker| worker.id))
}

/// Returns whether this worker has made jobs that no worker has begun; `None` if this thread is no worker. A plain fork is no job.
pub fn has_pending_jobs() -> Option<bool> {
    worker::with_any(|worker| worker.map(|worker| worker.has_own_jobs()))
}

/// What the types refuse.
///
/// Results and closures that must not move to another thread:
/// ```compile_fail,E0277
/// use std::rc::Rc;
/// tanada_runtime::fork::join(|| Rc::new(1), || 2);
/// ```
/// ```compile_fail,E0277
/// let counter = std::cell::Cell::new(0);
/// tanada_runtime::fork::join(|| counter.set(1), || counter.set(2));
/// ```
/// Two closures that write the same:
/// ```compile_fail,E0499
/// let mut sum = 0;
/// tanada_runtime::fork::join(|| sum += 1, || sum += 2);
/// ```
/// Spawned closures that outlive what they borrow:
/// ```compile_fail,E0373
/// let local = 1;
/// tanada_runtime::fork::spawn(|| assert_eq!(local, 1));
/// ```
/// ```compile_fail,E0373
/// tanada_runtime::fork::scope(|scope| {
///     let inner = 1;
///     scope.spawn(|_| assert_eq!(inner, 1));
/// });
/// ```
/// A scope that is kept:
/// ```compile_fail,E0521
/// let mut kept = None;
/// tanada_runtime::fork::in_place_scope(|scope| kept = Some(scope));
/// ```
/// A context that goes to another thread:
/// ```compile_fail,E0277
/// tanada_runtime::fork::join_context(
///     |context| std::thread::scope(|threads| _ = threads.spawn(|| context.migrated())),
///     |_| (),
/// );
/// ```
#[cfg(doctest)]
struct Refused;
