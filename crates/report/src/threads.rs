//! Results of a run of logical threads on hardware threads, under a governor.

use serde::{Deserialize, Serialize};

/// The governor that ratios refer to: all hardware threads run, and what waits longest is next.
pub const ALL_THREADS: &str = "fifo";

/// What a run of logical threads measured beyond what every run has. Of such a run [`crate::RunResult::policy`] is the governor and
/// [`crate::RunResult::workers`] the number of hardware threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadRun {
    /// Instructions of all threads.
    pub instructions: u64,
    /// Speed relative to [`ALL_THREADS`] on the same machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_fifo: Option<f64>,
    /// What cycles are spent on: the names of [`HardwareUse::cycles`].
    pub causes: Vec<String>,
    /// Of each hardware thread.
    pub hardware: Vec<HardwareUse>,
    /// What happened over time, if that was collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Calls of the governor that changed its plan, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<PlanChange>,
    /// Further calls that changed the plan and are left out of `decisions`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decisions_left: u64,
    /// Waits for locks, barriers and the like, those that cost most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<ObjectWaits>,
    /// Further objects that were waited for and are left out of `waits`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waits_left: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl ThreadRun {
    /// Returns instructions per cycle of a run of so many cycles; 0 of a run without cycles.
    pub fn ipc(&self, cycles: u64) -> f64 {
        per_cycle(self.instructions, cycles)
    }
}

pub(crate) fn per_cycle(instructions: u64, cycles: u64) -> f64 {
    match cycles {
        0 => 0.0,
        cycles => instructions as f64 / cycles as f64,
    }
}

/// One hardware thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareUse {
    /// The core that it belongs to.
    pub core: u16,
    /// Instructions that it executed.
    pub instructions: u64,
    /// Cycles by cause, in the order of [`ThreadRun::causes`]; they sum to the makespan.
    pub cycles: Vec<u64>,
}

/// What happened in intervals of equal length, of which the last one ends with the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Length of an interval, in cycles.
    pub interval: u64,
    /// Instructions of each interval; they sum to [`ThreadRun::instructions`].
    pub instructions: Vec<u64>,
    /// Misses of each interval, for each level and kind of cache.
    pub misses: Vec<LevelMisses>,
    /// Mean number of hardware threads that were allowed to run, of each interval.
    pub width: Vec<f64>,
    /// Accesses to stacks, of each logical thread that accessed its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackUse>,
}

/// Misses of one level and kind of cache over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelMisses {
    /// `l1i`, `l1d`, `l2`.
    pub cache: String,
    /// Misses of each interval.
    pub misses: Vec<u64>,
}

/// Accesses of a logical thread to its own stack over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackUse {
    /// Its number: the order of creation.
    pub thread: u32,
    /// Accesses of each interval.
    pub accesses: Vec<u64>,
}

/// A decision of the governor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanChange {
    /// When it was made, in cycles.
    pub cycle: u64,
    /// Hardware threads that may run from then on.
    pub width: u16,
    /// The order in which waiting threads are taken from then on.
    pub order: String,
    /// Why.
    pub why: String,
}

/// How long logical threads waited for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectWaits {
    /// `lock`, `barrier`, `condition`, `semaphore` or `join`.
    pub kind: String,
    /// Its number; of a `join` that of the thread whose end is waited for.
    pub object: u32,
    /// How often a thread waited.
    pub waits: u64,
    /// The sum of all waits, in cycles.
    pub cycles: u64,
    /// The longest one, in cycles.
    pub longest: u64,
    /// The same by thread; `waits` and `cycles` sum to the whole.
    pub threads: Vec<ThreadWaits>,
}

/// How long one logical thread waited for an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadWaits {
    /// Its number.
    pub thread: u32,
    /// How often it waited.
    pub waits: u64,
    /// The sum, in cycles.
    pub cycles: u64,
    /// The longest one, in cycles.
    pub longest: u64,
}
