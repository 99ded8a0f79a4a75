//! Closures that several workers of a pool run at the same time, while their caller waits: on all workers ([`Pool::broadcast`]), or on as
//! many as a governor chooses ([`Region`]).
//!
//! How a closure gets to a worker is in `worker/calls.rs`.

#[allow(unsafe_code)]
mod part;
mod region;

pub(crate) use part::Part;
pub use region::{Region, RegionDecision, Schedule};
pub(crate) use region::{RegionMaker, Regions};

use crate::error::GraphError;
use crate::pool::Pool;
use parking_lot::Mutex;
use std::time::Duration;
use tanada_policy::WorkerId;

/// What a closure learns of its place in the team that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    worker: WorkerId,
    index: u16,
    count: u16,
}

impl Member {
    /// Returns the worker that runs this part; `None` if that is a thread outside of the pool (see [`Region::run`]).
    pub fn worker(self) -> Option<WorkerId> {
        self.worker.is_worker().then_some(self.worker)
    }

    /// Returns the place in the team: from 0 to `count() - 1`, each once.
    pub fn index(self) -> usize {
        usize::from(self.index)
    }

    /// Returns the number of members of the team.
    pub fn count(self) -> usize {
        usize::from(self.count)
    }
}

/// How long a caller looks again and again whether its call has ended, before it sleeps.
#[derive(Clone, Copy, Debug, Default)]
struct Spin {
    /// `None`: twice what waking a thread costs, unless the workers need the caller's processor.
    most: Option<Duration>,
    /// Whether the workers of the team go to sleep soon after their parts.
    rest: bool,
}

impl Pool {
    /// Calls `body` once on every worker, at the same time as far as the workers are free, and returns the results in the order of the
    /// workers. For what belongs to a thread and not to a task: to set up thread-local data, to bind or to measure threads.
    ///
    /// ```
    /// use tanada_runtime::Pool;
    ///
    /// let pool = Pool::builder().workers(3).build()?;
    /// let base = vec![10, 20, 30];
    /// let sums = pool.broadcast(|member| base[member.index()] + member.count())?;
    /// assert_eq!(sums, [13, 23, 33]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// - A worker runs its part when the task that it runs has ended, before the next one, so a broadcast beside a running graph waits for
    ///   one task of each worker. A worker that waits inside of a task, for a nested graph of this pool or for a broadcast of any pool,
    ///   runs its part there: so `body` must not take a lock that a task holds while it waits so.
    /// - Workers that a governor has parked are woken, run their parts, and park again.
    /// - In a task, its worker runs a part like the others. Broadcasts can be nested, and several threads and tasks can broadcast at once:
    ///   all workers get the parts in the same order. So the parts of a broadcast may wait for each other (with a
    ///   [`Barrier`](std::sync::Barrier), say), as long as none of them broadcasts or runs a graph in between, and no task waits for the
    ///   caller.
    /// - Policies, observers and governors must not broadcast: a part may need them.
    /// - Parts are not tasks: observers do not see them, and governors do not count them. A graph that a part runs is inside of the graph
    ///   of the task that broadcasts, if one does, and stops with it.
    ///
    /// # Errors
    /// [`GraphError::Forked`]; [`GraphError::TooDeep`]; and [`GraphError::PolicyLost`] if the pool's policy has lost tasks, so that its
    /// workers have ended.
    ///
    /// # Panics
    /// With the payload of the first part that panicked, once all parts have ended.
    pub fn broadcast<R: Send>(
        &self,
        body: impl Fn(Member) -> R + Sync,
    ) -> Result<Vec<R>, GraphError> {
        let pool = self.usable()?;
        let team = (0..self.workers()).map(WorkerId);
        let results: Vec<Mutex<Option<R>>> = team.clone().map(|_| Mutex::new(None)).collect();
        part::run(pool, team, self.workers(), Spin::default(), &|member| {
            let result = body(member);
            *results[member.index()].lock() = Some(result);
        })?;
        let result = |slot: Mutex<Option<R>>| slot.into_inner().expect("every part has run");
        Ok(results.into_iter().map(result).collect())
    }
}
