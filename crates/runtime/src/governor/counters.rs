//! Cache counters of the processor, for all workers of a pool together.

use perf_event::events::{Cache, CacheOp, CacheResult, Event, WhichCache};
use perf_event::{Builder, CountAndTime, Counter};
use std::io;
use tanada_policy::CacheUse;

/// Counts of the thread that opened it, and of all threads that this thread and its descendants start from then on.
pub(super) struct Counters {
    accesses: Counted,
    misses: Counted,
}

/// A counter and what it said last.
struct Counted {
    counter: Counter,
    last: CountAndTime,
}

impl Counters {
    /// Opens counters of loads that look the first-level data cache up, and of those that miss.
    ///
    /// # Errors
    /// If the machine has none (most virtual ones), or this process may not use them.
    pub(super) fn open() -> io::Result<Counters> {
        let of = |result| {
            Event::from(Cache {
                which: WhichCache::L1D,
                operation: CacheOp::READ,
                result,
            })
        };
        Counters::of(of(CacheResult::ACCESS), of(CacheResult::MISS))
    }

    fn of(accesses: Event, misses: Event) -> io::Result<Counters> {
        Ok(Counters {
            accesses: Counted::new(accesses)?,
            misses: Counted::new(misses)?,
        })
    }

    /// Returns what was counted since the last call; `None` if a counter was not on the processor in that time, which has fewer than
    /// programs ask for.
    pub(super) fn take(&mut self) -> Option<CacheUse> {
        let (accesses, misses) = (self.accesses.take(), self.misses.take());
        let accesses = accesses?;
        // Both are extrapolated if other programs count, too.
        let misses = misses?.min(accesses);
        Some(CacheUse { accesses, misses })
    }
}

impl Counted {
    fn new(event: Event) -> io::Result<Counted> {
        // A group cannot be inherited, so there are two counters.
        let mut builder = Builder::new().kind(event);
        builder.inherit(true);
        let mut counter = builder.build()?;
        counter.enable()?;
        let last = counter.read_count_and_time()?;
        Ok(Counted { counter, last })
    }

    fn take(&mut self) -> Option<u64> {
        let now = self.counter.read_count_and_time().ok()?;
        let last = &self.last;
        let count = extrapolated(
            now.count.wrapping_sub(last.count),
            now.time_enabled.wrapping_sub(last.time_enabled),
            now.time_running.wrapping_sub(last.time_running),
        );
        self.last = now;
        count
    }
}

/// Returns the count of the whole time `enabled` if it was counted during the part `running` of it.
fn extrapolated(count: u64, enabled: u64, running: u64) -> Option<u64> {
    let scaled = u128::from(count) * u128::from(enabled);
    let scaled = scaled.checked_div(u128::from(running))?;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    #[test]
    fn counts_are_extrapolated_to_the_whole_time() {
        assert_eq!(extrapolated(100, 1000, 1000), Some(100));
        assert_eq!(extrapolated(100, 1000, 250), Some(400));
        assert_eq!(extrapolated(100, 1000, 0), None);
        assert_eq!(extrapolated(u64::MAX, u64::MAX, 1), Some(u64::MAX));
    }

    /// Events of the system in the place of the processor's, which most virtual machines lack.
    #[test]
    fn threads_that_start_later_are_counted_too() {
        const PAGES: usize = 500;
        let all = || Event::from(Software::PAGE_FAULTS);
        let mut counters = match Counters::of(all(), Event::from(Software::PAGE_FAULTS_MAJ)) {
            Ok(counters) => counters,
            Err(error) => {
                tanada_testing::skip(format_args!("no software events here: {error}"));
                return;
            }
        };
        let touch = || {
            let mut fresh: Vec<u8> = Vec::with_capacity(PAGES * 4096);
            fresh.resize(PAGES * 4096, 1);
            std::hint::black_box(&fresh);
        };
        counters.take();
        std::thread::spawn(touch).join().expect("it ends");
        let there = counters.take().expect("software events always run");
        // A huge page of 512 pages is one fault.
        let few = PAGES as u64 / 512 + 1;
        assert!(there.accesses >= few, "{there:?}");
        assert!(there.misses <= there.accesses);
        // What was counted once is not counted again.
        let nothing = counters.take().expect("software events always run");
        assert!(nothing.accesses < there.accesses, "{nothing:?}, {there:?}");
    }

    #[test]
    fn where_the_processor_has_counters_they_count() {
        let Ok(mut counters) = Counters::open() else {
            tanada_testing::skip(format_args!("this machine has no cache counters"));
            return;
        };
        let words = vec![1_u64; 1 << 18];
        counters.take();
        let sum: u64 =
            std::thread::spawn(move || words.iter().copied().map(std::hint::black_box).sum())
                .join()
                .expect("it ends");
        let counted = counters.take().expect("nobody else counts");
        assert_eq!(sum, 1 << 18);
        assert!(counted.accesses >= 1 << 18, "{counted:?}");
    }
}
