//! Where time and misses went: the parts of a result that only an engine which sees every access can fill.

use serde::{Deserialize, Serialize};

/// Where the time of one worker (core) went, in cycles of a simulated run or nanoseconds of a native one. The parts
/// exclude one another and, of a simulated run, sum to its makespan on every core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Computation, and what each touch of a cache line costs when nothing misses.
    pub compute: u64,
    /// Waiting because the first instruction cache missed.
    pub l1i: u64,
    /// Waiting because the first data (or unified) cache missed.
    pub l1d: u64,
    /// Waiting because the second level missed.
    pub l2: u64,
    /// Waiting because a deeper level missed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deeper: u64,
    /// Waiting in a queue for a port, a bank, the bus or the memory channel, beyond what an idle machine takes.
    pub memory_queue: u64,
    /// From asking the dispatcher for a task to its first record, and every other cost of scheduling.
    pub scheduling: u64,
    /// Without a task.
    pub idle: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Stalls {
    /// What each part is called, in the order of [`Stalls::parts`].
    pub const NAMES: [&str; 8] = [
        "compute",
        "L1I miss",
        "L1D miss",
        "L2 miss",
        "deeper miss",
        "memory queue",
        "scheduling",
        "idle",
    ];

    /// The parts in the order of [`Stalls::NAMES`].
    pub fn parts(&self) -> [u64; 8] {
        [
            self.compute,
            self.l1i,
            self.l1d,
            self.l2,
            self.deeper,
            self.memory_queue,
            self.scheduling,
            self.idle,
        ]
    }

    /// The sum of the parts, or `None` where it passes 2^64-1.
    pub fn total(&self) -> Option<u64> {
        self.parts()
            .into_iter()
            .try_fold(0_u64, |sum, part| sum.checked_add(part))
    }
}

/// What one level and kind of cache did, summed over its caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheUse {
    /// Level and kind as in the simulator's output: `l1i`, `l1d`, `l2` (unified).
    pub cache: String,
    /// Bytes of one such cache, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Touches that reached it.
    pub accesses: u64,
    /// Touches that missed.
    pub misses: u64,
    /// Misses that no order of the tasks avoids, where that can be computed; at most `misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavoidable: Option<u64>,
    /// The same by task name (stage). Empty where it was not counted; else it sums to `accesses` and `misses`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_name: Vec<NameUse>,
}

/// The part of the tasks of one name in a [`CacheUse`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameUse {
    /// Name of the tasks; tasks without one are together under `-`.
    pub name: String,
    /// Touches of these tasks that reached the cache.
    pub accesses: u64,
    /// Touches of these tasks that missed in it.
    pub misses: u64,
}

/// The limits of which the largest is [`crate::RunResult::bound`], in its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// All work, shared evenly by all workers.
    pub work: f64,
    /// The longest chain of tasks that wait for one another.
    pub critical_path: f64,
    /// What no schedule spares the most used shared part of the machine (the memory channel, for instance), where that is
    /// modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<f64>,
}

/// Which accesses a [`Reuse`] is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accesses {
    /// Instruction fetches.
    Instruction,
    /// Reads and writes.
    #[default]
    Data,
}

/// How far apart in accesses the touches of one cache line are: for every touch, the number of *other* lines that the same
/// worker touched since it last touched this one (LRU stack distance). A cache of n lines that keeps what was used
/// most recently misses exactly the touches of distance n and more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// Which accesses.
    pub accesses: Accesses,
    /// Bytes of a line.
    pub line: u32,
    /// Touches whose distance was taken; with `sampled` below 1, those of the sampled lines.
    pub touches: u64,
    /// Of them, first touches of a line by a worker: they have no distance.
    pub first: u64,
    /// `buckets[0]` counts distance 0, `buckets[i]` distances from 2^(i-1) to 2^i - 1. With `first` they sum to
    /// `touches`.
    pub buckets: Vec<u64>,
    /// Share of the lines that were looked at, chosen by a hash of the address; 1 is exact.
    pub sampled: f64,
}

impl Reuse {
    /// The bucket of a distance.
    pub fn bucket(distance: u64) -> usize {
        (u64::BITS - distance.leading_zeros()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let at = |distance| Reuse::bucket(distance);
        assert_eq!(
            [at(0), at(1), at(2), at(3), at(4), at(7), at(8)],
            [0, 1, 2, 2, 3, 3, 4]
        );
        assert_eq!(at(u64::MAX), 64);
    }

    #[test]
    fn parts_are_summed_and_an_overflow_is_none() {
        let stalls = Stalls {
            compute: 5,
            l1i: 1,
            deeper: 2,
            idle: 10,
            ..Stalls::default()
        };
        assert_eq!(stalls.total(), Some(18));
        assert_eq!(
            Stalls {
                compute: u64::MAX,
                ..stalls
            }
            .total(),
            None
        );
        assert_eq!(Stalls::NAMES.len(), stalls.parts().len());
    }
}
