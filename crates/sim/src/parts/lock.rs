//! A first-come, first-served lock.

use std::collections::VecDeque;

use crate::machine::Cycle;

/// The lock of the shared pool, or of a seat.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
    since: Cycle,
    /// Number of acquisitions.
    pub passages: u64,
    /// Cycles for which it was held.
    pub held: Cycle,
    /// Length of the longest queue.
    pub longest: usize,
}

impl Lock {
    /// Acquires the lock for `core` at `now`, or appends `core` to the queue. Returns whether `core` has the lock.
    pub(crate) fn take(&mut self, core: usize, now: Cycle) -> bool {
        debug_assert_ne!(self.holder, Some(core), "it holds the lock already");
        if self.holder.is_some() {
            self.waiting.push_back(core);
            self.longest = self.longest.max(self.waiting.len());
            return false;
        }
        self.give(core, now);
        true
    }

    /// Releases the lock of `core` at `now`. Returns the core that has it then, the first of the queue.
    ///
    /// # Panics
    /// If `core` does not hold the lock.
    pub(crate) fn release(&mut self, core: usize, now: Cycle) -> Option<usize> {
        let holder = self.holder.take();
        assert_eq!(holder, Some(core), "only its holder releases it");
        self.held += now - self.since;
        let next = self.waiting.pop_front()?;
        self.give(next, now);
        Some(next)
    }

    fn give(&mut self, core: usize, now: Cycle) {
        self.holder = Some(core);
        self.since = now;
        self.passages += 1;
    }
}
