//! What is kept of a fork beside its closures: under a policy that divides the workers ([`share`](super::share)), and in a pool that
//! records ([`record`](super::record)). It lies on the heap, and all that is done with it is compiled apart: most forks have none of it,
//! and the frame of each kept fork, of which thousands lie on one stack in a deep recursion, stays small.

use super::record::{self, Forked};
use super::share::{Divided, Fork, Running};
use crate::worker::WorkerCore;

/// What is kept of one fork. Both closures have ended when it is dropped.
pub(super) struct Watch<'a> {
    /// The worker that forks.
    worker: &'a WorkerCore,
    /// How the closures share the workers.
    share: Option<Fork>,
    recorded: Option<Box<Forked>>,
}

/// The second closure runs until this is dropped.
pub(super) struct Second<'a> {
    // Dropped in this order.
    _share: Option<Running<'a>>,
    _recorded: Option<record::Running<'a>>,
}

impl WorkerCore {
    /// Returns what is kept of a fork of this worker, whose second closure has the code `code` and the type `name`.
    #[cold]
    pub(super) fn watch(&self, code: usize, name: &'static str, works: [u64; 2]) -> Box<Watch<'_>> {
        let share = self.share(code, works);
        let lane = self.forks.lane.as_ref();
        Box::new(Watch {
            worker: self,
            share,
            recorded: lane.map(|lane| lane.forks(code, name)),
        })
    }
}

impl Watch<'_> {
    /// Returns how the fork divides the workers, if it does.
    #[cold]
    pub(super) fn divided(&self) -> Option<&Divided> {
        match &self.share {
            Some(Fork::Divided(divided)) => Some(divided),
            _ => None,
        }
    }

    /// The first closure begins. It has ended when the result is dropped.
    #[cold]
    pub(super) fn first_begins(&self) -> Option<Box<Running<'_>>> {
        let share = self.worker.runs_first(self.share.as_ref());
        share.map(Box::new)
    }

    /// The first closure has ended.
    #[cold]
    pub(super) fn first_ended(&self) {
        if let (Some(lane), Some(recorded)) = (&self.worker.forks.lane, &self.recorded) {
            lane.first_ended(recorded);
        }
    }

    /// The second closure begins on `worker`. It has ended when the result is dropped.
    #[cold]
    pub(super) fn second_begins<'a>(&'a self, worker: &'a WorkerCore) -> Box<Second<'a>> {
        let lane = worker.forks.lane.as_ref();
        let recorded = (self.recorded.as_ref()).and_then(|recorded| recorded.second(lane));
        Box::new(Second {
            _share: worker.runs_second(self.share.as_ref()),
            _recorded: recorded,
        })
    }
}

impl Drop for Watch<'_> {
    #[cold]
    fn drop(&mut self) {
        if let Some(fork) = &self.share {
            self.worker.ends_fork(fork);
        }
    }
}
