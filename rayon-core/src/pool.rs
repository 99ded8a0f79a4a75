//! Pools of a program's own.

use crate::builder::{ThreadPoolBuildError, ThreadPoolBuilder, ThreadSpawn};
use crate::{BroadcastContext, Scope, ScopeFifo, Yield};
use std::error::Error;
use std::fmt;
use tanada_runtime::{Pool, fork};

/// A pool of threads. When it is dropped, its threads end once all that was spawned in it has run.
pub struct ThreadPool {
    pool: Pool,
}

impl ThreadPool {
    /// Makes and returns a pool as `configuration` says.
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`].
    #[deprecated(note = "use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: crate::Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    pub(crate) fn build<S: ThreadSpawn>(
        builder: ThreadPoolBuilder<S>,
    ) -> Result<ThreadPool, ThreadPoolBuildError> {
        builder.make().map(|pool| ThreadPool { pool })
    }

    /// Runs `op` in the pool, and returns its result. Everything of rayon that it calls happens in this pool.
    ///
    /// # Panics
    /// With the panic of `op`.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        fork::install(&self.pool, op)
    }

    /// As [`broadcast`](crate::broadcast), in this pool.
    ///
    /// # Panics
    /// As [`broadcast`](crate::broadcast).
    #[track_caller]
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        fork::broadcast_in(&self.pool, op)
    }

    /// Returns the number of threads.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        usize::from(self.pool.workers())
    }

    /// Returns the number of this thread in the pool; `None` if it does not belong to it.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        fork::worker_of(&self.pool).map(|worker| worker.index())
    }

    /// As [`current_thread_has_pending_tasks`](crate::current_thread_has_pending_tasks); `None` if this thread does not belong to this
    /// pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        fork::worker_of(&self.pool).and_then(|_| fork::has_pending_jobs())
    }

    /// As [`join`](crate::join), in this pool.
    ///
    /// # Panics
    /// As [`join`](crate::join).
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| crate::join(oper_a, oper_b))
    }

    /// As [`scope`](crate::scope), in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| crate::scope(op))
    }

    /// As [`scope_fifo`](crate::scope_fifo), in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| crate::scope_fifo(op))
    }

    /// As [`in_place_scope`](crate::in_place_scope); what is spawned runs in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        fork::in_place_scope_in(&self.pool, op)
    }

    /// As [`in_place_scope_fifo`](crate::in_place_scope_fifo); what is spawned runs in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        fork::in_place_scope_fifo_in(&self.pool, op)
    }

    /// As [`spawn`](crate::spawn), in this pool.
    #[track_caller]
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        fork::spawn_in(&self.pool, op);
    }

    /// As [`spawn_fifo`](crate::spawn_fifo), in this pool.
    #[track_caller]
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        fork::spawn_fifo_in(&self.pool, op);
    }

    /// As [`spawn_broadcast`](crate::spawn_broadcast), in this pool.
    #[track_caller]
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        fork::spawn_broadcast_in(&self.pool, op);
    }

    /// As [`yield_now`](crate::yield_now); `None` if this thread does not belong to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        fork::worker_of(&self.pool).and_then(|_| crate::yield_now())
    }

    /// As [`yield_local`](crate::yield_local); `None` if this thread does not belong to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        fork::worker_of(&self.pool).and_then(|_| crate::yield_local())
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .field("pool", &self.pool)
            .finish()
    }
}
