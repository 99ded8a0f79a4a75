//! What came of a simulation.

use crate::machine::{CacheTable, Kind};

/// Look-ups and misses of the caches of one `[[cache]]` table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Touches that reached this level.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.accesses += other.accesses;
        self.misses += other.misses;
    }
}

/// The caches of one level and kind, summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCount {
    /// Number of their `[[cache]]` table.
    pub table: usize,
    /// 1 is next to the core.
    pub level: u8,
    /// What they hold.
    pub kind: Kind,
    /// Accesses and misses.
    pub count: Count,
    /// Misses that no schedule avoids, since the line was never in any cache of the level before.
    pub unavoidable: u64,
}

impl CacheCount {
    /// `l1i`, `l1d`, `l2`.
    pub fn label(&self) -> String {
        CacheTable::label_of(self.level, self.kind)
    }
}

/// Where the cycles of one core went. They sum to the makespan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Computation, and the look-ups themselves.
    pub compute: u64,
    /// Waiting because a level missed: one number a cache level and kind, in the order of [`Outcome::caches`].
    pub caches: Vec<u64>,
    /// Waiting for a channel that others used (contended model).
    pub memory_queue: u64,
    /// From the call of `next` that gave a task to the task's first record.
    pub scheduling: u64,
    /// Without a task.
    pub idle: u64,
}

/// What the tasks of one name did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByName {
    /// The name; empty for tasks without one.
    pub name: String,
    /// How many there are.
    pub tasks: u64,
    /// Cycles from first record to end, summed.
    pub cycles: u64,
    /// Accesses and misses, in the order of [`Outcome::caches`].
    pub caches: Vec<Count>,
}

/// What came of one simulation: a function of (trace, machine, policy, seed).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the dispatcher.
    pub policy: String,
    /// Name of the machine.
    pub machine: String,
    /// Number of cores.
    pub cores: u16,
    /// The seed that counted.
    pub seed: u64,
    /// The largest finish time, in cycles.
    pub makespan: u64,
    /// How many tasks ran: all of the trace.
    pub tasks: u64,
    /// Of each core: sum over its tasks of finish minus the call of `next` that gave it.
    pub busy: Vec<u64>,
    /// Sum over all tasks of finish minus first record.
    pub executing: u128,
    /// Cycles that no schedule beats on this machine; see [`Bound`](crate::counts::bound).
    pub bound: u64,
    /// One of the limits that the bound is the largest of: all work that no schedule avoids, shared evenly by the cores, in cycles.
    pub shared_work: u64,
    /// Another: the longest chain of tasks that wait for one another, in cycles.
    pub critical_path: u64,
    /// Another (contended model): the cycles for which the most used shared part is taken by what no schedule avoids.
    pub channels: Option<u64>,
    /// By level, then instruction, data, unified.
    pub caches: Vec<CacheCount>,
    /// Dirty lines that had to go, of all caches.
    pub writebacks: u64,
    /// Of each core.
    pub stalls: Vec<Stalls>,
    /// Of each name, in the order of [`Trace::names`](tanada_trace::Trace::names); tasks without a name last.
    pub by_name: Vec<ByName>,
    /// How many tasks came from where.
    pub origins: tanada_report::OriginCounts,
    /// What was waited for (contended model).
    pub contention: Option<crate::models::contended::Contention>,
}

impl Outcome {
    /// Sum over all tasks of finish minus first record, over cores x makespan; 0 when that is 0.
    pub fn utilisation(&self) -> f64 {
        let whole = u128::from(self.cores) * u128::from(self.makespan);
        if whole == 0 {
            return 0.0;
        }
        self.executing as f64 / whole as f64
    }

    /// Makespan over bound: 1 is perfect, which a run without any cycle is, too.
    pub fn bound_ratio(&self) -> f64 {
        if self.bound == 0 {
            return 1.0;
        }
        self.makespan as f64 / self.bound as f64
    }
}
