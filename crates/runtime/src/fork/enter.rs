//! How a program gets into a pool: on which worker a fork, a scope or a closure begins.

use super::join::run_elsewhere;
use crate::pool::{Pool, PoolShared};
use crate::worker::{self, WorkerCore};

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

/// Calls `body` with the pool of this thread, if it is a worker, or else with that which `global` returns.
pub(super) fn with_pool<R>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&PoolShared) -> R,
) -> R {
    worker::with_any(|worker| match worker {
        Some(worker) => body(worker.pool()),
        None => body(global().open()),
    })
}

impl Pool {
    /// Returns what the pool's threads share.
    ///
    /// # Panics
    /// If the pool cannot run anything in this process, or any more.
    pub(crate) fn open(&self) -> &PoolShared {
        match self.usable() {
            Ok(pool) => pool,
            Err(error) => panic!("{error}"),
        }
    }
}
