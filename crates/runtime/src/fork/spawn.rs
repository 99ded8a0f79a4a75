//! Closures that nothing waits for, and closures on each worker.

use super::enter::{Kept, with_pool};
use super::job::{self, StackJob};
use super::latch::CountLatch;
use super::record::{ScopeRecord, SpawnRecord};
use super::wait::Jobs;
use crate::pool::{Pool, PoolShared};
use crate::worker::{self, WorkerCore};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

/// What a closure of a broadcast learns.
pub struct BroadcastContext<'a> {
    worker: &'a WorkerCore,
    /// It belongs to the thread that runs the closure, and cannot be made one of a shorter lifetime.
    marker: PhantomData<&'a mut dyn Fn()>,
}

impl<'a> BroadcastContext<'a> {
    pub(super) fn new(worker: &'a WorkerCore) -> Self {
        BroadcastContext {
            worker,
            marker: PhantomData,
        }
    }

    /// Returns the number of the worker.
    #[inline]
    pub fn index(&self) -> usize {
        self.worker.id.index()
    }

    /// Returns the number of the pool's workers.
    #[inline]
    pub fn num_threads(&self) -> usize {
        usize::from(self.worker.pool().placement.workers())
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index())
            .field("num_threads", &self.num_threads())
            .field("pool", &self.worker.pool().number)
            .finish()
    }
}

/// Returns what is recorded of a closure that is spawned in `pool` now, at `line`, `times` times.
fn spawns<F>(
    pool: &PoolShared,
    line: &'static Location<'static>,
    times: usize,
) -> Option<Box<SpawnRecord>> {
    let recorder = &pool.forks.record.as_ref()?.recorder;
    let name = std::any::type_name::<F>();
    worker::with_any(|worker| {
        let lane = worker.and_then(|worker| worker.forks.lane.as_deref());
        Some(SpawnRecord::new(recorder, lane, None, line, name, times))
    })
}

#[track_caller]
fn spawn_on<F: FnOnce() + Send + 'static>(kept: Kept<'_>, body: F, in_order: bool) {
    // The job lets go.
    let pool = kept.hand_on();
    let spawned = spawns::<F>(pool, Location::caller(), 1);
    let job = |worker: &WorkerCore| {
        worker.pool().catch(|| {
            let _running =
                (spawned.as_ref()).and_then(|one| one.begins(worker.forks.lane.as_ref()));
            body();
        });
        drop(spawned);
        worker.pool().let_go();
    };
    // SAFETY: the closure borrows nothing.
    let job = unsafe { job::boxed(std::ptr::null(), job) };
    worker::with_current(pool, |worker| {
        let job = match worker {
            // SAFETY: the worker's `Fifo` lives until the worker ends, and it ends after all jobs.
            Some(worker) if in_order => unsafe { worker.forks.fifo().push(job) },
            _ => job,
        };
        pool.give_job(worker, job);
    });
}

/// As [`spawn`](super::spawn), on the pool that `global` returns if this thread is no worker.
#[track_caller]
pub fn spawn_or(global: impl FnOnce() -> Pool, body: impl FnOnce() + Send + 'static) {
    with_pool(global, |_| 1, |kept| spawn_on(kept, body, false));
}

/// As [`spawn_fifo`](super::spawn_fifo), on the pool that `global` returns if this thread is no worker.
#[track_caller]
pub fn spawn_fifo_or(global: impl FnOnce() -> Pool, body: impl FnOnce() + Send + 'static) {
    with_pool(global, |_| 1, |kept| spawn_on(kept, body, true));
}

/// As [`spawn`](super::spawn), on `pool`.
#[track_caller]
pub fn spawn_in(pool: &Pool, body: impl FnOnce() + Send + 'static) {
    spawn_on(Kept::of(pool, |_| 1), body, false);
}

/// As [`spawn_fifo`](super::spawn_fifo), on `pool`.
#[track_caller]
pub fn spawn_fifo_in(pool: &Pool, body: impl FnOnce() + Send + 'static) {
    spawn_on(Kept::of(pool, |_| 1), body, true);
}

#[track_caller]
fn broadcast_on<R: Send, F: Fn(BroadcastContext<'_>) -> R + Sync>(
    pool: &PoolShared,
    body: F,
) -> Vec<R> {
    let line = Location::caller();
    worker::with_any(|worker| {
        let own = worker.filter(|worker| std::ptr::eq(worker.pool(), pool));
        let graph = own.map_or(std::ptr::null(), |worker| worker.graph.running());
        let workers = usize::from(pool.placement.workers());
        let latch = CountLatch::new(worker, workers);
        let scope = pool
            .forks
            .record
            .as_ref()
            .map(|record| ScopeRecord::new(&record.recorder));
        let lane = worker.and_then(|worker| worker.forks.lane.as_deref());
        let spawned = pool.forks.record.as_ref().map(|record| {
            let name = std::any::type_name::<F>();
            SpawnRecord::new(&record.recorder, lane, scope.as_ref(), line, name, workers)
        });
        let body = |worker: &WorkerCore, _| {
            let _running =
                (spawned.as_ref()).and_then(|one| one.begins(worker.forks.lane.as_ref()));
            body(BroadcastContext::new(worker))
        };
        let parts: Vec<_> = (0..workers)
            .map(|_| StackJob::new(graph, &latch, &body))
            .collect();
        // SAFETY: the parts do not move, and this function does not return before all have run.
        pool.post_jobs(parts.iter().map(|part| unsafe { part.ready(0) }));
        let waits = scope.as_ref().map(|scope| scope.waits(lane));
        latch.wait(worker, Jobs::OnTop);
        drop(waits);
        parts.into_iter().map(StackJob::into_result).collect()
    })
}

/// As [`broadcast`](super::broadcast), on the pool that `global` returns if this thread is no worker.
#[track_caller]
pub fn broadcast_or<R: Send>(
    global: impl FnOnce() -> Pool,
    body: impl Fn(BroadcastContext<'_>) -> R + Sync,
) -> Vec<R> {
    with_pool(global, |_| 1, |kept| broadcast_on(kept.pool, body))
}

/// As [`broadcast`](super::broadcast), on `pool`.
#[track_caller]
pub fn broadcast_in<R: Send>(
    pool: &Pool,
    body: impl Fn(BroadcastContext<'_>) -> R + Sync,
) -> Vec<R> {
    broadcast_on(pool.open(), body)
}

fn number_of_workers(pool: &PoolShared) -> usize {
    usize::from(pool.placement.workers())
}

#[track_caller]
fn spawn_broadcast_on<F: Fn(BroadcastContext<'_>) + Send + Sync + 'static>(
    kept: Kept<'_>,
    body: F,
) {
    // Each part lets go.
    let pool = kept.hand_on();
    let workers = number_of_workers(pool);
    let spawned = spawns::<F>(pool, Location::caller(), workers);
    let part = move |worker: &WorkerCore| {
        let context = BroadcastContext::new(worker);
        worker.pool().catch(|| {
            let _running =
                (spawned.as_ref()).and_then(|one| one.begins(worker.forks.lane.as_ref()));
            body(context);
        });
        worker.pool().let_go();
    };
    // SAFETY: the closure borrows nothing.
    pool.post_jobs(unsafe { job::shared(std::ptr::null(), workers, part) });
}

/// As [`spawn_broadcast`](super::spawn_broadcast), on the pool that `global` returns if this thread is no worker.
#[track_caller]
pub fn spawn_broadcast_or(
    global: impl FnOnce() -> Pool,
    body: impl Fn(BroadcastContext<'_>) + Send + Sync + 'static,
) {
    with_pool(global, number_of_workers, |kept| {
        spawn_broadcast_on(kept, body)
    });
}

/// As [`spawn_broadcast`](super::spawn_broadcast), on `pool`.
#[track_caller]
pub fn spawn_broadcast_in(
    pool: &Pool,
    body: impl Fn(BroadcastContext<'_>) + Send + Sync + 'static,
) {
    spawn_broadcast_on(Kept::of(pool, number_of_workers), body);
}
