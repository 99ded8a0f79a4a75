//! The parts of time and of misses, which only an engine that observes every access can measure.

use serde::{Deserialize, Serialize};

/// Where the time of one worker (core) went: cycles of a simulated run or nanoseconds of a native one. The parts are disjoint; in a
/// simulated run they sum to its makespan on every core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Computation, and the cost of each touch of a cache line that hits.
    pub compute: u64,
    /// Waiting for misses of the first instruction cache.
    pub l1i: u64,
    /// Waiting for misses of the first data (or unified) cache.
    pub l1d: u64,
    /// Waiting for misses of the second level.
    pub l2: u64,
    /// Waiting for misses of deeper levels.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deeper: u64,
    /// Waiting in a queue for a port, a bank, the bus or the memory channel: the time beyond that of an idle machine.
    pub memory_queue: u64,
    /// From the request to the dispatcher to the first record of the task, and all other costs of scheduling.
    pub scheduling: u64,
    /// Without a task.
    pub idle: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Stalls {
    /// The name of each part, in the order of [`Stalls::parts`].
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

    /// Returns the parts in the order of [`Stalls::NAMES`].
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

    /// Returns the sum of the parts; `None` if it passes 2^64-1.
    pub fn total(&self) -> Option<u64> {
        self.parts()
            .into_iter()
            .try_fold(0_u64, |sum, part| sum.checked_add(part))
    }
}

/// The use of one level and kind of cache, summed over its caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheUse {
    /// Level and kind as in the simulator's output: `l1i`, `l1d`, `l2` (unified).
    pub cache: String,
    /// Bytes of one such cache, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Touches that reached the cache.
    pub accesses: u64,
    /// Touches that missed in the cache.
    pub misses: u64,
    /// Misses that no order of the tasks avoids, if they can be computed; at most `misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavoidable: Option<u64>,
    /// Accesses and misses by task name (stage); they sum to `accesses` and `misses`. Empty if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_name: Vec<NameUse>,
}

/// The share of the tasks of one name in a [`CacheUse`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameUse {
    /// Name of the tasks; `-` for tasks without a name.
    pub name: String,
    /// Touches of these tasks that reached the cache.
    pub accesses: u64,
    /// Touches of these tasks that missed in it.
    pub misses: u64,
}

/// The limits, in the run's unit; [`crate::RunResult::bound`] is the greatest of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// All work, divided evenly among all workers.
    pub work: f64,
    /// The longest chain of tasks that wait for one another.
    pub critical_path: f64,
    /// The least time of the busiest shared part of the machine (for instance the memory channel) under any schedule, if the model has
    /// shared parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<f64>,
}

/// The kind of accesses that a [`Reuse`] covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accesses {
    /// Instruction fetches.
    Instruction,
    /// Reads and writes.
    #[default]
    Data,
}

/// The distribution of reuse distances (LRU stack distances): for each touch of a cache line, the number of *other* lines that the same
/// worker has touched since its last touch of this line. A cache of n lines with LRU replacement misses exactly the touches of distance n
/// and more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// The kind of accesses.
    pub accesses: Accesses,
    /// Bytes of a line.
    pub line: u32,
    /// Touches whose distance was taken; if `sampled` is below 1, touches of the sampled lines only.
    pub touches: u64,
    /// First touches of a line by a worker, which have no distance; part of `touches`.
    pub first: u64,
    /// `buckets[0]` counts distance 0, `buckets[i]` distances from 2^(i-1) to 2^i - 1. With `first` they sum to `touches`.
    pub buckets: Vec<u64>,
    /// The share of the lines that was sampled, chosen by a hash of the address; 1 is exact.
    pub sampled: f64,
}

impl Reuse {
    /// Returns the bucket of a distance.
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
