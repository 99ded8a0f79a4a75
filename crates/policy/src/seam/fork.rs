//! The fork policy: what becomes of a fork, and where an idle worker looks for one.

use super::Hints;
use crate::{Placement, WorkerId};
use std::panic::RefUnwindSafe;

/// What a fork policy learns of a fork: of the second closure of a `join`, whose first closure runs now.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fork {
    /// What the program says of the closure. The depth is that of the closure in the tree of forks, which the engine knows; the rest is 0
    /// unless the program gives hints.
    pub hints: Hints,
    /// The number of workers.
    pub workers: u16,
}

impl Fork {
    /// Returns a fork.
    pub fn new(hints: Hints, workers: u16) -> Self {
        Fork { hints, workers }
    }
}

/// What becomes of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It is no fork: this worker runs the closure when the first one has ended.
    Plain,
    /// It is plain while all workers are busy and exposed while some are not, as the engine finds cheapest.
    Latent,
    /// It lies where other workers can take it.
    Exposed,
}

/// An idle worker that looks for a fork, and what it may ask.
pub struct Thief<'a> {
    /// The worker.
    pub me: WorkerId,
    /// All workers, and how far apart they are.
    pub placement: &'a Placement,
    /// How often this worker has looked before, in vain.
    pub looked: u64,
    /// Draws the next random number of this worker; see [`Env::random`](crate::Env::random).
    pub random: &'a mut dyn FnMut() -> u64,
    /// See [`Thief::peek`].
    pub peek: &'a mut dyn FnMut(WorkerId) -> Option<u16>,
}

impl Thief<'_> {
    /// Returns the depth of the oldest fork that `victim` has where others can take it, at most 65,535, without taking it; `None`: it has
    /// none. (Paper 5's peek.) Closures that are spawned have depth 0. Under a policy that does not [decide](ForkPolicy::decides), depths
    /// are unknown: all are 0. Under one that [divides](ForkPolicy::divides), what is returned has another meaning.
    ///
    /// It is a hint: the fork may be gone when the call returns, and a simulated machine may answer with an old depth
    /// ([`Env::peeks`](crate::Env::peeks)).
    pub fn peek(&mut self, victim: WorkerId) -> Option<u16> {
        (self.peek)(victim)
    }

    /// Draws another worker than this one. There must be one.
    pub fn draw_other(&mut self) -> WorkerId {
        let others = self.placement.workers() - 1;
        let drawn = ((self.random)() % u64::from(others)) as u16;
        WorkerId(drawn + u16::from(drawn >= self.me.0))
    }

    /// Returns all other workers in the order of their numbers.
    pub fn others(&self) -> impl Iterator<Item = WorkerId> + use<> {
        let me = self.me;
        let all = (0..self.placement.workers()).map(WorkerId);
        all.filter(move |other| *other != me)
    }
}

impl std::fmt::Debug for Thief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thief")
            .field("me", &self.me)
            .field("looked", &self.looked)
            .finish_non_exhaustive()
    }
}

/// Decides what becomes of forks. Both engines call it: the native one in `join`, the simulated one for the tasks of a trace.
///
/// A `join` runs its first closure and leaves the second under every policy; closures that are spawned are queued while the program goes
/// on. A worker takes its own newest fork first, and another one's oldest. What is left to decide is in the functions below.
pub trait ForkPolicy: std::fmt::Debug + Send + Sync + RefUnwindSafe {
    /// Whether [`ForkPolicy::keep`] is asked. If not, every fork is [`Keep::Latent`], which costs about a call.
    fn decides(&self) -> bool {
        false
    }

    /// Returns what becomes of a fork.
    fn keep(&self, _fork: &Fork) -> Keep {
        Keep::Latent
    }

    /// Whether forks near the root divide the workers among their closures, as [`forks::adws`](crate::forks::adws) says. Then the engine
    /// keeps a [`Ranges`](crate::forks::adws::Ranges), and calls [`ForkPolicy::steal`] for workers that have a share of nothing.
    fn divides(&self) -> bool {
        false
    }

    /// Tries to steal: calls `steal` with one victim after the other, and returns true as soon as that does.
    ///
    /// It must try every other worker before it returns false: otherwise a worker sleeps beside a fork that it could have.
    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool;
}
