//! The time since the library was loaded, read twice an invocation that the engine sees.
//!
//! The system's clock takes 22 ns to read, even without a system call; a processor's counter of ticks takes 10. So once it is known how
//! long a tick is, ticks are counted. This is done only if the system itself takes its time from that counter (it has then checked that it
//! runs at one rate and is the same on all processors). Crates for this measure the rate when they start, for 10 ms and more, which a short
//! program would notice; here it is measured between two readings that are made anyhow, and again as the run goes on.

use std::time::Instant;

use crate::system;

/// Where the system says what it takes its time from, and what it says if that is the counter.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const COUNTER: &str = "tsc";

/// A rate is measured over at least this time: the two readings are wrong by some tens of nanoseconds. Each further one takes so many times
/// as long, up to the longest.
const LEAST: u64 = 10_000_000;
const GROWTH: u64 = 4;
const MOST: u64 = 1_000_000_000;

/// Ticks and time belong together if no more ticks than this pass while both are read: nobody interrupted.
const TOGETHER: u64 = 2_000;

/// A rate that differs from the one before by more than this part is no rate: the counter has been changed.
const DIFFERENT: f64 = 1e-3;

pub(super) struct Clock {
    start: Instant,
    /// Ticks and nanoseconds of the same moment; `None` if the counter is of no use.
    known: Option<(u64, u64)>,
    /// Nanoseconds of a tick, as a fraction of 2^32; 0: not known yet.
    tick: u64,
    /// The time to which ticks are counted; then the rate is measured again.
    until: u64,
    /// For how long the next rate holds.
    span: u64,
    /// The last time that was measured: none is before it.
    least: u64,
}

impl Clock {
    pub(super) fn new(start: Instant) -> Clock {
        let source = std::fs::read_to_string(SOURCE);
        let counts = source.is_ok_and(|source| source.trim() == COUNTER);
        let clock = Clock {
            start,
            known: None,
            tick: 0,
            until: 0,
            span: LEAST,
            least: 0,
        };
        let known = counts.then(|| clock.both()).flatten();
        Clock {
            until: known.map_or(u64::MAX, |(_, time)| time + LEAST),
            known,
            ..clock
        }
    }

    /// Returns the nanoseconds since the start.
    #[inline]
    pub(super) fn now(&mut self) -> u64 {
        if self.tick != 0
            && let Some((ticks, time)) = self.known
            && let Some(now) = system::ticks()
        {
            let passed = now.saturating_sub(ticks);
            let now = time + ((u128::from(passed) * u128::from(self.tick)) >> 32) as u64;
            if now < self.until {
                return now;
            }
            return self.measure(now);
        }
        let now = self.system().max(self.least);
        match now >= self.until {
            true => self.measure(now),
            false => now,
        }
    }

    /// Returns the ticks of so many nanoseconds; `None` if ticks are not counted.
    pub(super) fn ticks(&self, nanoseconds: u64) -> Option<u64> {
        let ticks = (u128::from(nanoseconds) << 32).checked_div(self.tick.into())?;
        u64::try_from(ticks).ok()
    }

    /// Returns the nanoseconds of so many ticks; 0 if ticks are not counted any more.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.tick)) >> 32) as u64
    }

    fn system(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Returns ticks and time of the same moment.
    fn both(&self) -> Option<(u64, u64)> {
        /// Somebody may interrupt.
        const TRIES: u32 = 4;
        (0..TRIES).find_map(|_| {
            let (before, time, after) = (system::ticks()?, self.system(), system::ticks()?);
            (after.saturating_sub(before) <= TOGETHER).then_some((before.midpoint(after), time))
        })
    }

    /// Measures the rate. Returns the time, which is not before `least`.
    #[cold]
    fn measure(&mut self, least: u64) -> u64 {
        let (Some(before), Some(now)) = (self.known, self.both()) else {
            self.until = least + LEAST;
            return least;
        };
        let (ticks, time) = (
            now.0.saturating_sub(before.0),
            now.1.saturating_sub(before.1),
        );
        let tick = time as f64 / ticks as f64 * (1_u64 << 32) as f64;
        let usual = self.tick == 0 || (tick / self.tick as f64 - 1.0).abs() <= DIFFERENT;
        // The time never goes back.
        let now = (now.0, now.1.max(least));
        self.least = now.1;
        if !usual || !tick.is_finite() || tick < 1.0 {
            (self.known, self.tick, self.until) = (None, 0, u64::MAX);
            return now.1;
        }
        (self.known, self.tick) = (Some(now), tick as u64);
        self.until = now.1 + self.span;
        self.span = (self.span * GROWTH).min(MOST);
        now.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_follows_the_systems_and_never_goes_back() {
        let mut clock = Clock::new(Instant::now());
        let (mut last, mut most) = (0, 0);
        while last < 60_000_000 {
            let before = clock.system();
            let now = clock.now();
            let after = clock.system();
            assert!(now >= last, "{now} after {last}");
            // Of the counter a reading may be early by what its rate is wrong.
            let error = before.saturating_sub(now).max(now.saturating_sub(after));
            most = most.max(error);
            last = now;
        }
        assert!(most < 100_000, "wrong by {most} ns");
    }

    #[test]
    fn a_counter_that_was_changed_is_not_used_any_more() {
        let mut clock = Clock::new(Instant::now());
        if clock.known.is_none() {
            tanada_testing::skip("this system does not take its time from the processor's counter");
            return;
        }
        std::thread::sleep(Duration::from_millis(12));
        let one = clock.now();
        assert_ne!(clock.tick, 0);
        // Twice as fast as it is.
        clock.tick *= 2;
        std::thread::sleep(Duration::from_millis(30));
        let two = clock.now();
        assert!(two >= one + 30_000_000);
        assert_eq!(clock.tick, 0);
        assert!(clock.now() >= two);
    }
}
