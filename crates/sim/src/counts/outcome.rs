//! The results of a simulation.

pub use super::contention::{CallUse, Contention};
use crate::machine::{CacheTable, Kind};
pub use crate::parts::{memory::MemoryUse, numa::NumaUse, station::Use};

/// Lookups and misses of the caches of one `[[cache]]` table. Sums stay at 2^64-1 once they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Touches that reached this level.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.misses = self.misses.saturating_add(other.misses);
    }
}

/// The caches of one level and kind, summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCount {
    /// Number of their `[[cache]]` table.
    pub table: usize,
    /// 1 is next to the core.
    pub level: u8,
    /// Whether they hold instructions, data or both.
    pub kind: Kind,
    /// Accesses and misses.
    pub count: Count,
    /// Misses that no schedule avoids: the first of each line in any cache of the level.
    pub unavoidable: u64,
}

impl CacheCount {
    /// Returns the level's label: `l1i`, `l1d`, `l2`.
    pub fn label(&self) -> String {
        CacheTable::label_of(self.level, self.kind)
    }
}

/// The cycles of one core by what they were spent on. They sum to the makespan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Computation, and `hit_cycles` of all lookups.
    pub compute: u64,
    /// Waiting because a level missed: one number a cache level and kind, in the order of [`Outcome::caches`].
    pub caches: Vec<u64>,
    /// Waiting for a channel that others used (contended model).
    pub memory_queue: u64,
    /// From the call of `next` that returned a task to the task's first record.
    pub scheduling: u64,
    /// Without a task.
    pub idle: u64,
}

/// The sums over all tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByName {
    /// The name; empty for tasks without one.
    pub name: String,
    /// The number of these tasks.
    pub tasks: u64,
    /// Cycles from first record to end, summed.
    pub cycles: u64,
    /// Accesses and misses, in the order of [`Outcome::caches`].
    pub caches: Vec<Count>,
}

/// The results of one simulation: a function of (trace, machine, policy, seed).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the dispatcher.
    pub policy: String,
    /// Name of the machine.
    pub machine: String,
    /// Number of cores.
    pub cores: u16,
    /// The seed that was used.
    pub seed: u64,
    /// The largest finish time, in cycles.
    pub makespan: u64,
    /// The number of tasks that ran: all of the trace.
    pub tasks: u64,
    /// Of each core: the sum over its tasks of finish minus the call of `next` that returned the task.
    pub busy: Vec<u64>,
    /// Sum over all tasks of finish minus first record.
    pub executing: u128,
    /// A lower bound of the makespan on this machine, in cycles: the largest of the limits that follow.
    pub bound: u64,
    /// A limit: all work that no schedule avoids, divided evenly among the cores, in cycles.
    pub shared_work: u64,
    /// A limit: the longest chain of tasks that wait for one another, in cycles.
    pub critical_path: u64,
    /// A limit of the contended model: the cycles for which unavoidable fills hold each channel of the memory.
    pub channels: Option<u64>,
    /// By level, then instruction, data, unified.
    pub caches: Vec<CacheCount>,
    /// Dirty lines that were evicted, of all caches.
    pub writebacks: u64,
    /// Of each core.
    pub stalls: Vec<Stalls>,
    /// Of each name, in the order of [`Trace::names`](tanada_trace::Trace::names); tasks without a name last.
    pub by_name: Vec<ByName>,
    /// The number of tasks of each origin.
    pub origins: tanada_report::OriginCounts,
    /// The use of shared parts (contended model).
    pub contention: Option<Contention>,
}

impl Outcome {
    /// Returns the sum over all tasks of finish minus first record, divided by cores x makespan; 0 if that is 0.
    pub fn utilisation(&self) -> f64 {
        let whole = u128::from(self.cores) * u128::from(self.makespan);
        if whole == 0 {
            return 0.0;
        }
        self.executing as f64 / whole as f64
    }

    /// Returns makespan divided by bound, at least 1; 1 for a run without any cycle.
    pub fn bound_ratio(&self) -> f64 {
        if self.bound == 0 {
            return 1.0;
        }
        self.makespan as f64 / self.bound as f64
    }
}
