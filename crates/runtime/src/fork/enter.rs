//! How a program gets into a pool: on which worker a fork, a scope or a closure begins.

use super::join::run_elsewhere;
use crate::pool::{Pool, PoolShared};
use crate::worker::{self, WorkerCore};
use std::mem::ManuallyDrop;

/// Runs `body` on this thread if it is a worker, or else on a worker of the pool that `global` returns. `body` learns whether it has moved.
#[inline]
pub(super) fn on_worker<R: Send>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&WorkerCore, bool) -> R + Send,
) -> R {
    worker::with_any(|worker| match worker {
        Some(worker) => body(worker, false),
        None => from_outside(global, body),
    })
}

#[cold]
fn from_outside<R: Send>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&WorkerCore, bool) -> R + Send,
) -> R {
    let pool = global();
    // The pool may be one that this very thread has just joined.
    on_worker_of(&pool, body)
}

/// Runs `body` on this thread if it is a worker of `pool`, or else on one that is.
pub(super) fn on_worker_of<R: Send>(
    pool: &Pool,
    body: impl FnOnce(&WorkerCore, bool) -> R + Send,
) -> R {
    let pool = pool.open();
    worker::with_any(|worker| match worker {
        Some(worker) if std::ptr::eq(worker.pool(), pool) => body(worker, false),
        worker => run_elsewhere(pool, worker, body),
    })
}

/// A pool that stays open until this is dropped.
pub(super) struct Kept<'a> {
    pub(super) pool: &'a PoolShared,
    times: usize,
}

impl<'a> Kept<'a> {
    /// Keeps the pool open as [`PoolShared::try_keep`]. Returns `None` if it has closed.
    fn new(pool: &'a PoolShared, times: usize) -> Option<Self> {
        pool.try_keep(times).then(|| Kept { pool, times })
    }

    /// As [`Kept::new`], of a pool that has a handle.
    ///
    /// # Panics
    /// As [`Pool::open`].
    pub(super) fn of(pool: &'a Pool, times: impl FnOnce(&PoolShared) -> usize) -> Self {
        let pool = pool.open();
        Kept::new(pool, times(pool)).expect("a handle keeps the pool open")
    }

    /// Leaves it to the caller to let go of the pool, which this returns.
    pub(super) fn hand_on(self) -> &'a PoolShared {
        ManuallyDrop::new(self).pool
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.pool.let_go_of(self.times);
    }
}

/// Calls `body` with the pool of this thread, if it is a worker of one that has not closed, or else with that which `global` returns. The
/// pool is kept open as many `times`.
pub(super) fn with_pool<R>(
    global: impl FnOnce() -> Pool,
    times: impl Fn(&PoolShared) -> usize,
    body: impl FnOnce(Kept<'_>) -> R,
) -> R {
    worker::with_any(|worker| {
        let pool = worker.map(|worker| worker.pool());
        match pool.and_then(|pool| Kept::new(pool, times(pool))) {
            Some(kept) => body(kept),
            None => body(Kept::of(&global(), times)),
        }
    })
}

impl Pool {
    /// Returns what the pool's threads share.
    ///
    /// # Panics
    /// If the pool cannot run anything in this process, or any more.
    #[inline]
    pub(crate) fn open(&self) -> &PoolShared {
        match self.usable() {
            Ok(pool) => pool,
            Err(error) => panic!("{error}"),
        }
    }
}
