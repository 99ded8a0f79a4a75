//! Pools of workers: their handle, how they are made, and what their threads share.

mod bind;
mod builder;
mod shared;

pub use bind::Bind;
pub use builder::{DEFAULT_POLICY, MAX_WORKERS, PoolBuilder, WorkerThread};
pub(crate) use shared::PoolShared;

use crate::error::{BuildError, GraphError};
use crate::governor::Decision;
use crate::process::Process;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;
use tanada_policy::Placement;

/// Workers that run task graphs under one policy.
///
/// A program may have several pools, which are independent of each other. A task of one pool may run a graph on another pool, which
/// blocks the task's worker meanwhile. If tasks of pool A run graphs on pool B whose tasks run graphs on pool A, all workers of both can
/// come to wait, and then they wait for ever: pools must not wait for each other in a circle. After some seconds the tasks that wait are
/// named on standard error.
///
/// A clone is another handle to the same workers, which end with the last handle. Dropping that one waits until everything has ended that
/// was begun in the pool, also detached [threads](crate::thread) and spawned closures. On a worker of the pool itself, or if the program
/// runs the workers on threads of its own ([`PoolBuilder::build_threads`]), it does not wait.
///
/// A pool is [`UnwindSafe`]: a panic in a task leaves it as it was, and any other panic on its threads ends the process.
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

/// Ends the workers when it is dropped.
struct Handle(Arc<PoolShared>);

// A panic cannot leave a pool half changed: see the type.
impl UnwindSafe for Pool {}
impl RefUnwindSafe for Pool {}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.is_forked() {
            std::mem::forget(Arc::clone(&self.0));
        } else if self.0.is_on_worker() {
            // A task dropped the last handle, and its worker cannot wait for itself.
            self.0.let_go();
        } else {
            self.0.retire();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("policy", &self.policy())
            .field("workers", &self.workers())
            .finish()
    }
}

impl Pool {
    fn new(shared: Arc<PoolShared>) -> Self {
        Pool(Arc::new(Handle(shared)))
    }

    /// Returns the builder of a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::default()
    }

    /// Returns the default pool of this process, which the first call makes. Other threads that call it meanwhile wait.
    ///
    /// The environment variables `TANADA_WORKERS` and `TANADA_POLICY` set the number of its workers and its policy; see
    /// [`PoolBuilder::workers`] and [`PoolBuilder::policy`] for the defaults.
    ///
    /// # Errors
    /// If one of the two variables makes no sense, or the system cannot start the threads.
    pub fn global() -> Result<Pool, BuildError> {
        static GLOBAL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
        loop {
            let seen = GLOBAL.load(Ordering::Acquire);
            // SAFETY: global pools are never freed.
            if let Some(pool) = unsafe { seen.as_ref() }
                && !pool.shared().is_forked()
            {
                return Ok(pool.clone());
            }
            let Some(_turn) = Turn::take() else {
                // Another thread makes the pool. Reading the topology and starting the threads takes it milliseconds.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if seen == GLOBAL.load(Ordering::Acquire) {
                let made = Pool::builder().from_environment()?.build()?;
                GLOBAL.store(Box::into_raw(Box::new(made)), Ordering::Release);
            }
        }
    }

    pub(crate) fn shared(&self) -> &PoolShared {
        &self.0.0
    }

    /// Returns what the pool's threads share, or why the pool cannot run anything in this process.
    pub(crate) fn usable(&self) -> Result<&PoolShared, GraphError> {
        let pool = self.shared();
        if pool.is_forked() {
            return Err(GraphError::Forked);
        }
        pool.refusal().map_or(Ok(pool), Err)
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> u16 {
        self.shared().placement.workers()
    }

    /// Returns the number of active workers: all, unless the pool has a governor.
    pub fn active(&self) -> u16 {
        self.shared().sleep.width() as u16
    }

    /// Returns the last decisions of the pool's governor, the oldest first: all changes of the number of active workers, and changes of the
    /// reason. Empty without a governor. At most 1024 are kept.
    pub fn decisions(&self) -> Vec<Decision> {
        let governed = self.shared().governed.as_ref();
        governed.map_or_else(Vec::new, |governed| governed.decisions())
    }

    /// Returns the name of the policy.
    pub fn policy(&self) -> &str {
        &self.shared().policy
    }

    /// Returns where the workers are.
    pub fn placement(&self) -> &Placement {
        &self.shared().placement
    }
}

/// The right of one thread to make the default pool. It is no lock: a child of `fork(2)` takes it although another thread had it at the
/// moment of the fork.
struct Turn;

/// [`Process::number`] of the process in which a thread has the turn; 0 if none has.
static TURN: AtomicU64 = AtomicU64::new(0);

impl Turn {
    /// Takes and returns the turn unless another thread of this process has it.
    fn take() -> Option<Self> {
        let (had, mine) = (TURN.load(Ordering::Relaxed), Process::this().number());
        let free = had != mine
            && TURN
                .compare_exchange(had, mine, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        free.then(|| Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURN.store(0, Ordering::Release);
    }
}
