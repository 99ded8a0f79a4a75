//! What a run comes to.

use super::memory::CacheCounts;
use crate::machine::Cycle;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Cycles of a task or handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// In its own code.
    pub own: Cycle,
    /// In services of the kernel that it called; of a handler also entry and exit of its interrupts.
    pub service: Cycle,
    /// In the dispatcher, from and to it, because it became ready or stopped.
    pub switch: Cycle,
}

impl Cycles {
    /// Returns the sum.
    pub fn total(&self) -> Cycle {
        self.own + self.service + self.switch
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Cycles) {
        self.own += other.own;
        self.service += other.service;
        self.switch += other.switch;
    }
}

/// A task or handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number in the program.
    pub id: u32,
    /// Its cycles.
    pub cycles: Cycles,
    /// How often it was dispatched, or its interrupt accepted.
    pub begins: u64,
}

/// A core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreOutcome {
    /// Tasks by their place, then handlers by line.
    pub accounts: Vec<Account>,
    /// Cycles without work.
    pub idle: Cycle,
    /// Cycles that it waited while another core had the bus, or for its next edge; they are in the accounts, too.
    pub bus_wait: Cycle,
    /// The longest time from the request of an interrupt to its acceptance.
    pub longest_latency: Cycle,
    /// Interrupts that were requested while they already were.
    pub lost: u64,
    /// Its caches.
    pub caches: CacheCounts,
    /// What the code of each account cost, by account and piece. The two parts of a piece count
    /// as pieces of their own: 2 x piece, 2 x piece + 1.
    pub pieces: BTreeMap<(usize, usize), Executed>,
}

/// Executions of a part of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Their number.
    pub times: u64,
    /// Their cycles.
    pub cycles: Cycle,
}

impl CoreOutcome {
    /// Returns the cycles of the accounts with these numbers.
    pub fn of(&self, ids: &[u32]) -> Cycles {
        let mut sum = Cycles::default();
        let chosen = self.accounts.iter().filter(|one| ids.contains(&one.id));
        chosen.for_each(|one| sum += one.cycles);
        sum
    }

    /// Returns the cycles of all accounts.
    pub fn busy(&self) -> Cycle {
        self.accounts.iter().map(|one| one.cycles.total()).sum()
    }
}

/// Who had a core when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The core.
    pub core: usize,
    /// The task's or handler's number.
    pub id: u32,
    /// From the dispatch, or the acceptance.
    pub start: Cycle,
    /// To the next one.
    pub end: Cycle,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtosOutcome {
    /// The largest clock of a core.
    pub end: Cycle,
    /// The cores.
    pub cores: Vec<CoreOutcome>,
    /// Who had them when, in the order of ends; empty unless asked for.
    pub spans: Vec<Span>,
}
