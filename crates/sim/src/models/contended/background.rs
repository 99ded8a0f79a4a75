//! Background streams: accesses of devices and of cores that run something else.

use super::levels::Levels;
use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::machine::Machine;
use crate::machine::contended::BackgroundTable;
use crate::parts::station::repeat;

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    table: BackgroundTable,
    offset: u64,
    /// The time of the next access.
    due: Cycle,
    /// Number of accesses so far; stays at 2^64-1.
    pub(crate) accesses: u64,
    /// Their lookups in each `[[cache]]` table.
    pub(crate) counts: Vec<Count>,
}

impl Stream {
    pub(crate) fn new(table: &BackgroundTable, machine: &Machine) -> Self {
        Stream {
            table: table.clone(),
            offset: 0,
            due: table.start,
            accesses: 0,
            counts: vec![Count::default(); machine.caches.len()],
        }
    }

    /// Returns the time of the stream's next access.
    pub(crate) fn due(&self) -> Cycle {
        self.due
    }

    /// Accesses the next address at `now`. Returns the time of the access after that.
    pub(crate) fn access(&mut self, now: Cycle, levels: &mut Levels) -> Cycle {
        let table = &self.table;
        let address = table.address + self.offset;
        let core = usize::from(table.near_core);
        let cost = levels.background(core, table.write, address, now, &mut self.counts);
        self.accesses = self.accesses.saturating_add(1);
        self.offset += table.step;
        if self.offset >= table.size {
            self.offset = 0;
        }
        self.due = now.saturating_add(cost.max(table.every_cycles));
        self.due
    }

    /// Returns whether its accesses from `now` on are those of `other`, an earlier state, from `then` on.
    #[inline]
    pub(crate) fn is_like(&self, now: Cycle, other: &Stream, then: Cycle) -> bool {
        self.offset == other.offset && self.due - now == other.due - then
    }

    /// Moves it on to the time `cycles` later, in which what it did since it was `before` happened `times` times.
    pub(crate) fn repeat(&mut self, before: &Stream, cycles: Cycle, times: u64) {
        self.due += cycles;
        repeat(&mut self.accesses, before.accesses, times);
        for (count, before) in self.counts.iter_mut().zip(&before.counts) {
            repeat(&mut count.accesses, before.accesses, times);
            repeat(&mut count.misses, before.misses, times);
        }
    }
}
