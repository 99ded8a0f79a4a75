//! How many hardware threads, or native workers, run during the next period, and who waits in which order.

use std::fmt;

/// What a governor is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorSite {
    /// The number of hardware threads (natively: of workers) that it decides for; at least 1.
    pub threads: usize,
    /// How many of them can run at the same time: in the simulator all of them, natively as many as the process may use hardware threads,
    /// if that is fewer; at least 1.
    pub at_once: usize,
    /// The usual time from one call to the next, in the engine's unit of time; at least 1.
    pub period: u64,
}

/// Hits and misses of a first-level data cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Lookups.
    pub accesses: u64,
    /// Lookups that did not find their line.
    pub misses: u64,
}

impl CacheUse {
    /// Returns the sum of both, at most `u64::MAX` each.
    #[must_use]
    pub fn and(self, other: CacheUse) -> CacheUse {
        CacheUse {
            accesses: self.accesses.saturating_add(other.accesses),
            misses: self.misses.saturating_add(other.misses),
        }
    }

    /// Returns misses per access; 0 without accesses.
    pub fn rate(self) -> f64 {
        match self.accesses {
            0 => 0.0,
            accesses => self.misses as f64 / accesses as f64,
        }
    }

    /// Returns whether this rate is at least `other`'s, exactly. A use without accesses has the rate 0.
    pub fn at_least(self, other: CacheUse) -> bool {
        let scaled =
            |one: CacheUse, by: CacheUse| u128::from(one.misses) * u128::from(by.accesses.max(1));
        scaled(self, other) >= scaled(other, self)
    }
}

/// What one hardware thread did during a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Work done: instructions; natively whatever the engine counts, such as tasks. Only ratios between periods mean something.
    pub work: u64,
    /// Time without a thread to run, in the engine's unit of time; also time in which the plan kept the hardware thread from running.
    pub idle: u64,
    /// The data cache; `None` if the machine has no such counters. Natively the first hardware thread (worker) has the counts of all.
    pub cache: Option<CacheUse>,
}

/// What happened since the last call of a governor.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// Its length in the engine's unit of time: cycles, natively nanoseconds.
    pub time: u64,
    /// Each hardware thread's activity.
    pub threads: &'a [Activity],
    /// Logical threads that want to run now. Those that ran until this call count, since all of them have been put into the queue.
    /// Natively: workers with a task; if tasks wait behind these, whose number is not known, twice the number of all workers.
    pub waiting: usize,
}

impl Period<'_> {
    /// Returns the work of all hardware threads, at most `u64::MAX`.
    pub fn work(&self) -> u64 {
        let works = self.threads.iter().map(|one| one.work);
        works.fold(0, u64::saturating_add)
    }

    /// Returns the cache use of all hardware threads; `None` unless each has counters.
    pub fn cache(&self) -> Option<CacheUse> {
        let mut sum = CacheUse::default();
        for one in self.threads {
            sum = sum.and(one.cache?);
        }
        Some(sum)
    }
}

/// Who of the waiting threads runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The queue as it is: what waits longest first, unless it was sorted before.
    Fifo,
    /// The queue is sorted by creation number. It stays so: threads that join it later stand behind.
    ByNumber,
    /// The queue is put back into the order in which threads joined it, which undoes every earlier sort.
    Restored,
    /// The threads that ran until this call go on: they stand first, in the order of their hardware threads. So a governor can look at a
    /// part of a period without a turn of the queue.
    Kept,
}

impl Order {
    /// Returns the word for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Fifo => "fifo",
            Order::ByNumber => "by-number",
            Order::Restored => "restored",
            Order::Kept => "kept",
        }
    }
}

/// What holds until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Hardware threads that may run, those of the lowest numbers; from 1 to all.
    pub width: usize,
    /// Order of the queue, from which threads are taken now and whenever a hardware thread becomes free.
    pub order: Order,
    /// Time from now to the next call, in the engine's unit of time; at least 1.
    pub next_call: u64,
}

/// Why a governor decided as it did: a phrase with numbers, for a log that people read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Why {
    /// What was decided, in a few words.
    pub what: &'static str,
    /// The figures behind it, each with its name.
    pub figures: Vec<(&'static str, f64)>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        for (i, (name, figure)) in self.figures.iter().enumerate() {
            let separator = if i == 0 { ": " } else { ", " };
            write!(f, "{separator}{name} ")?;
            // Rates need digits behind the point, counts do not.
            match figure.fract() == 0.0 && figure.abs() < 1e15 {
                true => write!(f, "{figure:.0}")?,
                false => write!(f, "{figure:.4}")?,
            }
        }
        Ok(())
    }
}

/// Decides, once a period, how many hardware threads run and in which order threads are taken from the queue.
///
/// The simulated engine calls it at each end of a period, when all running threads have been put into the queue. Natively, a governor of a
/// group of workers is called by one of them with the throughput since the last call; counters may be missing.
pub trait Governor: Send {
    /// Returns what holds until the next call. Cost: a few additions for each hardware thread.
    fn plan(&mut self, period: &Period<'_>) -> Plan;

    /// Returns why the last plan is as it is.
    fn why(&self) -> Why;

    /// Returns whether plans depend on [`Activity::cache`]; otherwise an engine need not read counters.
    fn reads_counters(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_exactly() {
        let of = |misses, accesses| CacheUse { accesses, misses };
        assert!(of(1, 3).at_least(of(1, 3)));
        assert!(of(2, 6).at_least(of(1, 3)));
        assert!(!of(1, 3).at_least(of(u64::MAX / 3 + 1, u64::MAX)));
        assert!(of(0, 0).at_least(of(0, 5)));
        assert!(!of(0, 0).at_least(of(1, 5)));
        assert!(of(1, 5).at_least(of(0, 0)));
    }

    #[test]
    fn counters_are_summed_only_if_all_are_there() {
        let cache = Some(CacheUse {
            accesses: 4,
            misses: 1,
        });
        let with = Activity {
            work: 7,
            idle: 0,
            cache,
        };
        let period = |threads: &'static [Activity]| Period {
            time: 1,
            threads,
            waiting: 0,
        };
        let both = Box::leak(Box::new([with, with]));
        let one = Box::leak(Box::new([with, Activity::default()]));
        assert_eq!(period(both).cache().map(|sum| sum.accesses), Some(8));
        assert_eq!(period(both).work(), 14);
        assert_eq!(period(one).cache(), None);
    }

    #[test]
    fn a_reason_can_be_read() {
        let why = Why {
            what: "degraded",
            figures: vec![("waiting", 64.0), ("miss rate", 0.125)],
        };
        assert_eq!(why.to_string(), "degraded: waiting 64, miss rate 0.1250");
        assert_eq!(Why::default().to_string(), "");
    }
}
