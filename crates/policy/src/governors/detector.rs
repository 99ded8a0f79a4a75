//! Paper 2's detector of a degraded cache (sections 4.2 and 4.3, fig. 3, inequality 1).

use crate::{CacheUse, Period, Why};

/// What the detector did at its last call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// The counters were read: the use since the last reading, and since the start.
    Compared {
        /// Since the last reading.
        part: CacheUse,
        /// Since the start.
        total: CacheUse,
    },
    /// The counters were not read, because no more threads wait than there are hardware threads.
    NotRead,
    /// The flag is set already, and holds.
    Held,
    /// The machine has no counters.
    NoCounters,
}

/// The flag "degraded".
///
/// 1. If more threads wait than there are hardware threads and the flag is not set, the counters are read. The flag is set if the miss
///    rate since the last reading is at least that since the start.
/// 2. If fewer threads wait than there are hardware threads, the flag is cleared.
///
/// Counters count while they are not read. So the first reading compares the rate since the start with itself, and sets the flag however
/// small the rate is: that is why the paper's governors lose with a large cache. If as many threads wait as there are hardware
/// threads, the flag stays as it is: the paper excludes this case from both rules.
#[derive(Clone, Debug)]
pub struct Detector {
    threads: usize,
    degraded: bool,
    /// Not read yet.
    part: CacheUse,
    total: CacheUse,
    waiting: usize,
    reading: Reading,
}

impl Detector {
    /// Returns a detector for `threads` hardware threads.
    pub fn new(threads: usize) -> Detector {
        Detector {
            threads,
            degraded: false,
            part: CacheUse::default(),
            total: CacheUse::default(),
            waiting: 0,
            reading: Reading::NotRead,
        }
    }

    /// Takes the period that has ended into account, and returns whether the cache is degraded.
    pub fn is_degraded(&mut self, period: &Period<'_>) -> bool {
        self.waiting = period.waiting;
        let Some(cache) = period.cache() else {
            self.reading = Reading::NoCounters;
            self.degraded = false;
            return false;
        };
        (self.part, self.total) = (self.part.and(cache), self.total.and(cache));
        self.reading = Reading::NotRead;
        if period.waiting < self.threads {
            self.degraded = false;
        } else if self.degraded {
            self.reading = Reading::Held;
        } else if period.waiting > self.threads {
            let (part, total) = (std::mem::take(&mut self.part), self.total);
            self.degraded = part.at_least(total);
            self.reading = Reading::Compared { part, total };
        }
        self.degraded
    }

    /// Returns why the flag is as it is.
    pub fn why(&self) -> Why {
        let what = match (self.reading, self.degraded) {
            (Reading::Compared { .. }, true) => "degraded",
            (Reading::Compared { .. }, false) => "not degraded",
            (Reading::Held, _) => "still degraded",
            (Reading::NotRead, true) => "still degraded, counters not read",
            (Reading::NotRead, false) => "few threads wait, counters not read",
            (Reading::NoCounters, _) => "no counters",
        };
        let mut figures = vec![
            ("waiting", self.waiting as f64),
            ("hardware threads", self.threads as f64),
        ];
        if let Reading::Compared { part, total } = self.reading {
            figures.push(("miss rate", part.rate()));
            figures.push(("since the start", total.rate()));
        }
        Why { what, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activity;

    fn call(detector: &mut Detector, waiting: usize, accesses: u64, misses: u64) -> bool {
        let cache = Some(CacheUse { accesses, misses });
        let threads = [Activity {
            cache,
            ..Activity::default()
        }];
        detector.is_degraded(&Period {
            time: 1,
            threads: &threads,
            waiting,
        })
    }

    #[test]
    fn the_first_reading_degrades_however_small_the_rate_is() {
        let mut detector = Detector::new(4);
        assert!(!call(&mut detector, 1, 1_000_000, 0));
        assert_eq!(
            detector.why().to_string(),
            "few threads wait, counters not read: waiting 1, hardware threads 4"
        );
        assert!(call(&mut detector, 5, 1000, 1));
        assert_eq!(
            detector.why().to_string(),
            "degraded: waiting 5, hardware threads 4, miss rate 0.0000, since the start 0.0000"
        );
    }

    #[test]
    fn unread_counters_belong_to_the_next_reading() {
        let mut detector = Detector::new(2);
        assert!(call(&mut detector, 3, 100, 10), "first");
        assert!(!call(&mut detector, 1, 100, 90), "cleared, and not read");
        // Since the first reading 90 of 200, since the start 100 of 300.
        assert!(call(&mut detector, 3, 100, 0));
        assert!(call(&mut detector, 2, 100, 0), "as many: it holds");
        assert_eq!(detector.why().what, "still degraded");
        assert!(!call(&mut detector, 1, 0, 0));
        assert!(!call(&mut detector, 2, 0, 0), "as many: not read");
        // Nothing but hits since the last reading.
        assert!(!call(&mut detector, 3, 100, 0));
        assert_eq!(detector.why().what, "not degraded");
    }
}
