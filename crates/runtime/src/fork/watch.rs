//! What is kept of a fork beside its closures: under a policy that divides the workers ([`share`](super::share)), and in a pool that
//! records ([`record`](super::record)). Most forks have none of it, and the frame of each kept fork, of which thousands lie on one stack
//! in a deep recursion, stays small: so all but the most frequent case lies on the heap, and what is done with that is compiled apart.

use super::record::{self, Forked};
use super::share::{Divided, Fork, Inside, Running};
use crate::worker::WorkerCore;
use std::ptr::NonNull;

/// What is kept of one fork. Both closures have ended when it is dropped.
pub(super) enum Watch<'a> {
    /// Under a policy that divides: the branch of the closure that forks, which is that of both of its closures. Nothing is counted: an
    /// atomic count waits for all stores before it, some tens of nanoseconds in a program that writes much.
    Within(NonNull<Inside>),
    /// Anything else.
    More(Box<More<'a>>),
}

/// What is kept of a fork that divides the workers, or is recorded.
pub(super) struct More<'a> {
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
    #[inline]
    pub(super) fn watch(
        &self,
        code: usize,
        name: &'static str,
        works: [u64; 2],
    ) -> Option<Watch<'_>> {
        match self.only_inside() {
            Some(inside) if self.forks.lane.is_none() => Some(Watch::Within(inside)),
            _ => self.watch_more(code, name, works),
        }
    }

    #[cold]
    #[inline(never)]
    fn watch_more(&self, code: usize, name: &'static str, works: [u64; 2]) -> Option<Watch<'_>> {
        let share = self.share(code, works);
        let lane = self.forks.lane.as_ref();
        (share.is_some() || lane.is_some()).then(|| {
            Watch::More(Box::new(More {
                worker: self,
                share,
                recorded: lane.map(|lane| lane.forks(code, name)),
            }))
        })
    }
}

impl Watch<'_> {
    /// Returns whether there is something to do when it is dropped.
    #[inline]
    pub(super) fn needs_drop(&self) -> bool {
        matches!(self, Watch::More(_))
    }

    /// Returns how the fork divides the workers, if it does.
    #[inline]
    pub(super) fn divided(&self) -> Option<&Divided> {
        match self {
            Watch::Within(_) => None,
            Watch::More(more) => more.divided(),
        }
    }

    /// The first closure begins. It has ended when the result is dropped.
    #[inline]
    pub(super) fn first_begins(&self) -> Option<Box<Running<'_>>> {
        match self {
            Watch::Within(_) => None,
            Watch::More(more) => more.first_begins(),
        }
    }

    /// The first closure has ended.
    #[inline]
    pub(super) fn first_ended(&self) {
        if let Watch::More(more) = self {
            more.first_ended();
        }
    }

    /// The second closure begins on `worker`. It has ended when the result is dropped.
    #[inline]
    pub(super) fn second_begins<'a>(&'a self, worker: &'a WorkerCore) -> Option<Box<Second<'a>>> {
        match self {
            Watch::Within(inside) if worker.only_inside() == Some(*inside) => None,
            Watch::Within(inside) => {
                // SAFETY: it is live until the closure that forks has ended (`only_inside`), and the fork waits for this one before.
                Some(Second::within(worker, unsafe { inside.as_ref() }))
            }
            Watch::More(more) => Some(more.second_begins(worker)),
        }
    }
}

impl<'a> Second<'a> {
    #[cold]
    #[inline(never)]
    fn within(worker: &'a WorkerCore, inside: &Inside) -> Box<Self> {
        Box::new(Second {
            _share: worker.runs_within(inside),
            _recorded: None,
        })
    }
}

impl More<'_> {
    #[cold]
    #[inline(never)]
    fn divided(&self) -> Option<&Divided> {
        match &self.share {
            Some(Fork::Divided(divided)) => Some(divided),
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn first_begins(&self) -> Option<Box<Running<'_>>> {
        let share = self.worker.runs_first(self.share.as_ref());
        share.map(Box::new)
    }

    #[cold]
    #[inline(never)]
    fn first_ended(&self) {
        if let (Some(lane), Some(recorded)) = (&self.worker.forks.lane, &self.recorded) {
            lane.first_ended(recorded);
        }
    }

    #[cold]
    #[inline(never)]
    fn second_begins<'a>(&'a self, worker: &'a WorkerCore) -> Box<Second<'a>> {
        let lane = worker.forks.lane.as_ref();
        let recorded = (self.recorded.as_ref()).and_then(|recorded| recorded.second(lane));
        Box::new(Second {
            _share: worker.runs_second(self.share.as_ref()),
            _recorded: recorded,
        })
    }
}

impl Drop for More<'_> {
    #[cold]
    fn drop(&mut self) {
        if let Some(fork) = self.share.take() {
            self.worker.ends_fork(fork);
        }
    }
}
