//! Main memory: channels, their banks and open rows.

use crate::machine::Cycle;
use crate::machine::contended::{MemoryTable, Page};
use crate::parts::station::{Server, Use, repeat};

/// The state of the bank that an access finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// The row of the access is open.
    Hit,
    /// No row is open.
    Closed,
    /// Another row is open and has to be closed first.
    Conflict,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    server: Server,
    open: Option<u64>,
}

/// One memory channel.
#[derive(Clone, Debug)]
struct Channel {
    server: Server,
    banks: Vec<Bank>,
}

/// Counters of the memory. They stay at 2^64-1 once they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The channels; `busy` counts the cycles for which fills and write-backs held them.
    pub channels: Use,
    /// Fills of the last level.
    pub fills: u64,
    /// Dirty lines that were written back to memory.
    pub writes: u64,
    /// Accesses that found their row open.
    pub row_hits: u64,
    /// Accesses that found no row open.
    pub row_closed: u64,
    /// Accesses that found another row open.
    pub row_conflicts: u64,
    /// The time from which on all channels are free.
    pub last_free: Cycle,
}

impl std::ops::AddAssign for MemoryUse {
    fn add_assign(&mut self, other: MemoryUse) {
        self.channels += other.channels;
        for (sum, more) in [
            (&mut self.fills, other.fills),
            (&mut self.writes, other.writes),
            (&mut self.row_hits, other.row_hits),
            (&mut self.row_closed, other.row_closed),
            (&mut self.row_conflicts, other.row_conflicts),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.last_free = self.last_free.max(other.last_free);
    }
}

/// Main memory behind the last level of caches.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    channels: Vec<Channel>,
    table: MemoryTable,
    /// Every access takes no more than the last level's `miss_cycles`.
    open: bool,
    /// The counters.
    pub used: MemoryUse,
}

impl Memory {
    /// Returns an idle memory with all rows closed.
    pub(crate) fn new(table: &MemoryTable) -> Self {
        let channel = Channel {
            server: Server::default(),
            banks: vec![Bank::default(); table.banks as usize],
        };
        let rows = table.row_hit_cycles | table.row_closed_cycles | table.row_conflict_cycles;
        Memory {
            channels: vec![channel; table.channels as usize],
            table: table.clone(),
            open: table.fill_cycles == 0 && table.write_cycles == 0 && rows == 0,
            used: MemoryUse::default(),
        }
    }

    /// Serves a fill, or a write-back if `write`, that arrives at `arrives`. Returns the time at which its transfer begins.
    #[inline]
    pub(crate) fn access(&mut self, arrives: Cycle, address: u64, write: bool) -> Cycle {
        let count = match write {
            true => &mut self.used.writes,
            false => &mut self.used.fills,
        };
        *count = count.saturating_add(1);
        if self.open {
            return arrives;
        }
        let table = &self.table;
        // Both are powers of two.
        let channel = (address >> table.interleave.trailing_zeros()) as usize % self.channels.len();
        let block = address >> table.row_size.trailing_zeros();
        let bank = (block % table.banks) as usize;
        let row = block / table.banks;
        let channel = &mut self.channels[channel];
        let bank = &mut channel.banks[bank];
        let found = match bank.open {
            None => Row::Closed,
            Some(open) if open == row => Row::Hit,
            Some(_) => Row::Conflict,
        };
        let (count, opening) = match found {
            Row::Hit => (&mut self.used.row_hits, table.row_hit_cycles),
            Row::Closed => (&mut self.used.row_closed, table.row_closed_cycles),
            Row::Conflict => (&mut self.used.row_conflicts, table.row_conflict_cycles),
        };
        *count = count.saturating_add(1);
        let occupancy = if write {
            table.write_cycles
        } else {
            table.fill_cycles
        };
        let at = if occupancy + opening > 0 {
            // A bank opens a row while the channel still serves another.
            let ready = arrives.max(bank.server.free()).saturating_add(opening);
            ready.max(channel.server.free())
        } else {
            arrives
        };
        channel.server.hold(at, occupancy);
        bank.server.hold(at, occupancy);
        bank.open = match table.page {
            Page::Open => Some(row),
            Page::Closed => None,
        };
        self.used.last_free = self.used.last_free.max(channel.server.free());
        self.used.channels.served(at - arrives, occupancy);
        at
    }

    /// Returns whether accesses from `now` on are served as those from `then` on are by `other`, an earlier state of this memory.
    pub(crate) fn is_like(&self, now: Cycle, other: &Memory, then: Cycle) -> bool {
        let bank = |(one, other): (&Bank, &Bank)| {
            one.open == other.open && one.server.is_like(now, other.server, then)
        };
        let mut channels = self.channels.iter().zip(&other.channels);
        channels.all(|(one, other)| {
            one.server.is_like(now, other.server, then)
                && one.banks.iter().zip(&other.banks).all(bank)
        })
    }

    /// Returns a time that no access of the past has reached: all is free then, and a row could have been opened besides.
    pub(crate) fn beyond(&self) -> Cycle {
        let banks = self.channels.iter().flat_map(|channel| &channel.banks);
        let free = banks.map(|bank| bank.server.free()).max().unwrap_or(0);
        let table = &self.table;
        let opening = table.row_conflict_cycles.max(table.row_closed_cycles);
        free.max(self.used.last_free).saturating_add(opening)
    }

    /// Moves the memory on to the time `cycles` later, in which what it did since it was `before` happened `times` times.
    pub(crate) fn repeat(&mut self, before: &Memory, cycles: Cycle, times: u64) {
        for channel in &mut self.channels {
            channel.server.move_on(cycles);
            let banks = channel.banks.iter_mut();
            banks.for_each(|bank| bank.server.move_on(cycles));
        }
        let (used, before) = (&mut self.used, &before.used);
        used.channels.repeat(&before.channels, times);
        for (count, before) in [
            (&mut used.fills, before.fills),
            (&mut used.writes, before.writes),
            (&mut used.row_hits, before.row_hits),
            (&mut used.row_closed, before.row_closed),
            (&mut used.row_conflicts, before.row_conflicts),
        ] {
            repeat(count, before, times);
        }
        // Unless no channel was held.
        if used.last_free > before.last_free {
            used.last_free = used.last_free.saturating_add(cycles);
        }
    }
}
