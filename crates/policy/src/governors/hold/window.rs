//! Windows that hold enough work to be compared.
//!
//! Natively work is a number of tasks. A window of a 64th of a period holds few of them, or parts of one.

use super::super::measure::{is_enough, is_ragged};
use crate::{Activity, Period};

/// The calls since the last window.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    calls: u64,
    time: u64,
    threads: Vec<Activity>,
}

impl Window {
    /// Adds what happened since the last call.
    pub(super) fn add(&mut self, period: &Period<'_>) {
        self.calls += 1;
        self.time = self.time.saturating_add(period.time);
        if self.threads.len() != period.threads.len() {
            self.threads = period.threads.to_vec();
            return;
        }
        for (sum, one) in self.threads.iter_mut().zip(period.threads) {
            sum.work = sum.work.saturating_add(one.work);
            sum.idle = sum.idle.saturating_add(one.idle);
            sum.cache = sum.cache.zip(one.cache).map(|(sum, one)| sum.and(one));
        }
    }

    /// Returns how many calls it is made of.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns whether it is to be looked at: it holds enough work, or never will, since the `ran` threads that may run had none.
    pub(super) fn is_over(&self, ran: usize) -> bool {
        let period = self.period(0);
        is_enough(period.work(), ran) || is_ragged(&period, ran)
    }

    /// Returns the whole window; `waiting` threads wait at its end.
    pub(super) fn period(&self, waiting: usize) -> Period<'_> {
        Period {
            time: self.time,
            threads: &self.threads,
            waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheUse;

    fn call(work: [u64; 2], idle: [u64; 2]) -> [Activity; 2] {
        [0, 1].map(|thread| Activity {
            work: work[thread],
            idle: idle[thread],
            cache: (thread == 0).then_some(CacheUse {
                accesses: 10,
                misses: 1,
            }),
        })
    }

    #[test]
    fn a_window_is_as_many_calls_as_enough_work_takes() {
        let mut window = Window::default();
        let threads = call([3, 2], [1, 0]);
        let period = Period {
            time: 100,
            threads: &threads,
            waiting: 9,
        };
        for calls in 1..5 {
            window.add(&period);
            assert_eq!(window.calls(), calls);
            assert!(!window.is_over(2), "{calls}");
        }
        window.add(&period);
        assert!(window.is_over(2), "25 of 24");
        let whole = window.period(3);
        assert_eq!((whole.time, whole.waiting, whole.work()), (500, 3, 25));
        assert_eq!(whole.threads[0].idle, 5);
        assert_eq!(whole.threads[0].cache.map(|cache| cache.misses), Some(5));
        assert_eq!(whole.threads[1].cache, None);
    }

    #[test]
    fn a_window_without_enough_to_do_ends() {
        let mut window = Window::default();
        let threads = call([0, 0], [0, 21]);
        window.add(&Period {
            time: 100,
            threads: &threads,
            waiting: 1,
        });
        assert!(window.is_over(2), "10.5% of two threads");
        assert!(!window.is_over(1), "the other one was not to run");
    }
}
