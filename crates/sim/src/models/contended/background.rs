//! Background streams: accesses of devices and of cores that run something else.

use super::levels::Levels;
use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::machine::Machine;
use crate::machine::contended::BackgroundTable;

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    table: BackgroundTable,
    offset: u64,
    /// The time of the next access.
    due: Cycle,
    /// Number of accesses so far.
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
        self.accesses += 1;
        self.offset += table.step;
        if self.offset >= table.size {
            self.offset = 0;
        }
        self.due = (now + cost).max(now.saturating_add(table.every_cycles));
        self.due
    }
}
