//! The lock of the shared pool: held by one core, waited for in the order of arrival.

use std::collections::VecDeque;

use crate::machine::Cycle;

/// The lock.
#[derive(Debug, Default)]
pub(crate) struct PoolLock {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
    since: Cycle,
    /// How often it was taken.
    pub passages: u64,
    /// For how long it was held.
    pub held: Cycle,
    /// Longest queue.
    pub longest: usize,
}

impl PoolLock {
    /// `core` takes it, or joins the queue, at `now`. Whether it has it.
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

    /// `core` gives it back at `now`. Who has it then.
    ///
    /// # Panics
    /// Where `core` does not hold it.
    pub(crate) fn release(&mut self, core: usize, now: Cycle) -> Option<usize> {
        assert_eq!(
            self.holder.take(),
            Some(core),
            "only its holder gives it back"
        );
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
