//! Scopes: closures that are spawned meanwhile, and have ended when the scope returns.

use super::enter::on_worker;
use super::job::{self, Fifo};
use super::latch::CountLatch;
use super::record::{ScopeRecord, SpawnRecord};
use super::spawn::BroadcastContext;
use super::wait::Jobs;
use crate::graph::GraphCore;
use crate::pool::{Pool, PoolShared};
use crate::worker::{self, WorkerCore};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use tanada_queues::Ready;

/// Lets closures be spawned that may borrow from outside of the scope. The newest that a worker has spawned runs first.
pub struct Scope<'scope> {
    base: Base<'scope>,
}

/// As [`Scope`], but the oldest that a worker has spawned runs first.
pub struct ScopeFifo<'scope> {
    base: Base<'scope>,
    /// One a worker.
    fifos: Vec<Arc<Fifo>>,
}

/// What both kinds of scopes have.
struct Base<'scope> {
    pool: Arc<PoolShared>,
    /// The graph of the task in which the scope was opened, or null.
    graph: GraphOf,
    /// Of the body and of all spawned closures.
    latch: CountLatch,
    /// The first panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    record: Option<Arc<ScopeRecord>>,
    /// The lifetime is invariant: a scope cannot be made one of a shorter lifetime, in which less lives long enough.
    marker: PhantomData<Spawned<'scope>>,
}

/// What a scope stands for: closures that are called with it.
type Spawned<'scope> = Box<dyn FnOnce(&Scope<'scope>) + Send + Sync + 'scope>;

/// The graph of a task that waits for the scope.
struct GraphOf(*const GraphCore);

// SAFETY: the pointer is only handed on, and followed by workers while the scope has not ended.
unsafe impl Send for GraphOf {}
// SAFETY: as for `Send`.
unsafe impl Sync for GraphOf {}

/// A pointer to a scope that has not ended.
struct ScopePointer<T>(NonNull<T>);

// SAFETY: it stands for a `&` to a type that is `Sync`.
unsafe impl<T: Sync> Send for ScopePointer<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for ScopePointer<T> {}

impl<T> ScopePointer<T> {
    /// Returns the scope.
    ///
    /// # Safety
    /// The caller is a closure of the scope that has not been counted as ended.
    unsafe fn get<'a>(&self) -> &'a T {
        // SAFETY: the scope waits for the caller.
        unsafe { self.0.as_ref() }
    }
}

impl<'scope> Base<'scope> {
    /// `worker` is this thread, which will wait for the scope.
    fn new(pool: &PoolShared, worker: Option<&WorkerCore>) -> Self {
        let own = worker.filter(|worker| std::ptr::eq(worker.pool(), pool));
        Base {
            pool: pool.shared(),
            graph: GraphOf(own.map_or(std::ptr::null(), |worker| worker.graph.running())),
            latch: CountLatch::new(worker, 1),
            panic: Mutex::default(),
            record: (pool.forks.record.as_ref()).map(|record| ScopeRecord::new(&record.recorder)),
            marker: PhantomData,
        }
    }

    /// Runs the scope's body, waits for all that it spawned, and returns its result.
    fn complete<R>(&self, worker: Option<&WorkerCore>, body: impl FnOnce() -> R) -> R {
        let result = self.run(body);
        // SAFETY: the scope lives, and its body ends here.
        unsafe { CountLatch::end_one(NonNull::from(&self.latch)) };
        let lane = worker.and_then(|worker| worker.forks.lane.as_deref());
        let waits = self.record.as_ref().map(|record| record.waits(lane));
        self.latch.wait(worker, Jobs::OnTop);
        drop(waits);
        if let Some(payload) = self.panic.lock().take() {
            resume_unwind(payload);
        }
        result.expect("a panic of the body went on above")
    }

    /// Calls a closure of the scope; keeps its panic.
    fn run<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => return Some(result),
            Err(payload) => {
                let mut first = self.panic.lock();
                match *first {
                    None => *first = Some(payload),
                    Some(_) => {
                        drop(first);
                        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                            std::mem::forget(again);
                        }
                    }
                }
            }
        }
        None
    }

    /// Calls a spawned closure, and counts it as ended. The scope may be gone then.
    ///
    /// # Safety
    /// As [`ScopePointer::get`].
    unsafe fn run_spawned(
        &self,
        worker: &WorkerCore,
        spawned: Option<&SpawnRecord>,
        body: impl FnOnce(),
    ) {
        self.run(|| {
            let _running = spawned.and_then(|one| one.begins(worker.forks.lane.as_ref()));
            body();
        });
        // SAFETY: the caller has not been counted as ended.
        unsafe { CountLatch::end_one(NonNull::from(&self.latch)) };
    }

    /// Returns what is recorded of a closure that is spawned now, at `line`, `times` times.
    fn spawns<F>(
        &self,
        line: &'static Location<'static>,
        times: usize,
    ) -> Option<Box<SpawnRecord>> {
        let (scope, pool) = (self.record.as_ref()?, self.pool.forks.record.as_ref()?);
        let name = std::any::type_name::<F>();
        worker::with_any(|worker| {
            let lane = worker.and_then(|worker| worker.forks.lane.as_deref());
            Some(SpawnRecord::new(
                &pool.recorder,
                lane,
                Some(scope),
                line,
                name,
                times,
            ))
        })
    }

    /// Calls `push` with this thread, if it is a worker of the scope's pool.
    fn with_own(&self, push: impl FnOnce(Option<&WorkerCore>)) {
        worker::with_current(&self.pool, push);
    }

    /// Returns the right to run `body`, for which the scope waits from now on.
    #[track_caller]
    fn job<T: Sync, F: FnOnce(&T) + Send + 'scope>(
        &self,
        scope: ScopePointer<T>,
        base: fn(&T) -> &Base<'scope>,
        body: F,
    ) -> Ready {
        self.latch.add(1);
        let spawned = self.spawns::<F>(Location::caller(), 1);
        let job = move |worker: &WorkerCore| {
            let scope = scope;
            // SAFETY: this closure has not been counted as ended.
            unsafe {
                let scope = scope.get();
                base(scope).run_spawned(worker, spawned.as_deref(), || body(scope));
            }
        };
        // SAFETY: what the closure borrows outlives the scope, which waits for it.
        unsafe { job::boxed(self.graph.0, job) }
    }

    #[track_caller]
    fn broadcast<T: Sync, F: Fn(&T, BroadcastContext<'_>) + Send + Sync + 'scope>(
        &self,
        scope: ScopePointer<T>,
        base: fn(&T) -> &Base<'scope>,
        body: F,
    ) {
        let workers = usize::from(self.pool.placement.workers());
        // On an adopted thread, or in an exit handler, the pool may have ended.
        assert!(
            self.pool.try_keep(workers),
            "a pool that has ended has no workers for a broadcast"
        );
        self.latch.add(workers);
        let spawned = self.spawns::<F>(Location::caller(), workers);
        let part = move |worker: &WorkerCore| {
            // SAFETY: this part has not been counted as ended; what the closure borrows outlives the scope.
            unsafe {
                let scope = scope.get();
                let body = || body(scope, BroadcastContext::new(worker));
                base(scope).run_spawned(worker, spawned.as_deref(), body);
            }
            worker.pool().let_go();
        };
        // SAFETY: each worker runs its part, and the scope waits for them; what the closure borrows outlives the scope.
        self.pool
            .post_jobs(unsafe { job::shared(self.graph.0, workers, part) });
    }
}

impl<'scope> Scope<'scope> {
    /// Spawns `body`, which will have ended when the scope returns.
    #[track_caller]
    pub fn spawn<F>(&self, body: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let scope = ScopePointer(NonNull::from(self));
        let job = self.base.job(scope, |scope| &scope.base, body);
        self.base
            .with_own(|worker| self.base.pool.give_job(worker, job));
    }

    /// Spawns `body` on each worker of the pool.
    #[track_caller]
    pub fn spawn_broadcast<F>(&self, body: F)
    where
        F: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let scope = ScopePointer(NonNull::from(self));
        self.base.broadcast(scope, |scope| &scope.base, body);
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Spawns `body`, which will have ended when the scope returns.
    #[track_caller]
    pub fn spawn_fifo<F>(&self, body: F)
    where
        F: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let scope = ScopePointer(NonNull::from(self));
        let job = self.base.job(scope, |scope| &scope.base, body);
        self.base.with_own(|worker| {
            let job = match worker {
                // SAFETY: the `Fifo` belongs to the scope, which waits for the job.
                Some(worker) => unsafe { self.fifos[worker.id.index()].push(job) },
                None => job,
            };
            self.base.pool.give_job(worker, job);
        });
    }

    /// Spawns `body` on each worker of the pool.
    #[track_caller]
    pub fn spawn_broadcast<F>(&self, body: F)
    where
        F: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let scope = ScopePointer(NonNull::from(self));
        self.base.broadcast(scope, |scope| &scope.base, body);
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("pool", &self.base.pool.number)
            .field("latch", &self.base.latch)
            .finish()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo")
            .field("pool", &self.base.pool.number)
            .field("latch", &self.base.latch)
            .finish()
    }
}

fn run<'scope, R>(
    pool: &PoolShared,
    worker: Option<&WorkerCore>,
    body: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    let _entered = pool.enter();
    let scope = Scope {
        base: Base::new(pool, worker),
    };
    scope.base.complete(worker, || body(&scope))
}

fn run_fifo<'scope, R>(
    pool: &PoolShared,
    worker: Option<&WorkerCore>,
    body: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    let _entered = pool.enter();
    let scope = ScopeFifo {
        base: Base::new(pool, worker),
        fifos: pool.placement.ids().map(|_| Fifo::new()).collect(),
    };
    scope.base.complete(worker, || body(&scope))
}

/// As [`scope`](super::scope), on the pool that `global` returns if this thread is no worker.
pub fn scope_or<'scope, R: Send>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&Scope<'scope>) -> R + Send,
) -> R {
    on_worker(global, |worker, _| run(worker.pool(), Some(worker), body))
}

/// As [`scope_fifo`](super::scope_fifo), on the pool that `global` returns if this thread is no worker.
pub fn scope_fifo_or<'scope, R: Send>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&ScopeFifo<'scope>) -> R + Send,
) -> R {
    on_worker(global, |worker, _| {
        run_fifo(worker.pool(), Some(worker), body)
    })
}

/// As [`in_place_scope`](super::in_place_scope), on the pool that `global` returns if this thread is no worker.
pub fn in_place_scope_or<'scope, R>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    worker::with_any(|worker| match worker {
        Some(worker) => run(worker.pool(), Some(worker), body),
        None => in_place_scope_in(&global(), body),
    })
}

/// As [`in_place_scope`](super::in_place_scope): closures are spawned in `pool`.
pub fn in_place_scope_in<'scope, R>(pool: &Pool, body: impl FnOnce(&Scope<'scope>) -> R) -> R {
    worker::with_any(|worker| run(pool.open(), worker, body))
}

/// As [`in_place_scope_fifo`](super::in_place_scope_fifo), on the pool that `global` returns if this thread is no worker.
pub fn in_place_scope_fifo_or<'scope, R>(
    global: impl FnOnce() -> Pool,
    body: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    worker::with_any(|worker| match worker {
        Some(worker) => run_fifo(worker.pool(), Some(worker), body),
        None => in_place_scope_fifo_in(&global(), body),
    })
}

/// As [`in_place_scope_fifo`](super::in_place_scope_fifo): closures are spawned in `pool`.
pub fn in_place_scope_fifo_in<'scope, R>(
    pool: &Pool,
    body: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    worker::with_any(|worker| run_fifo(pool.open(), worker, body))
}
