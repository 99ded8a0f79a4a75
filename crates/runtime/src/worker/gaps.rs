//! Gaps between pieces of work: a worker whose gaps are equally long wakes up shortly before the next one ends, and looks.
//!
//! To be woken takes a sleeping thread ten microseconds and more, and the thread that wakes it half of that. A program whose small parallel
//! regions follow each other at regular intervals waits for that in each region, and threads that spin through the gaps cost it a core. The
//! way between: the worker sets a timer for its sleep, and searches from shortly before the expected end of the gap. If nothing has come
//! shortly after that, it sleeps until it is woken, as a worker does that expects nothing.
//!
//! Times are in nanoseconds where no type says so.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How sure a worker is of the next gap: from 0 to `SURE`. It relies on its forecast from `ENOUGH` on.
const SURE: u32 = 8;
const ENOUGH: u32 = 4;

/// The shortest gap in which a worker falls asleep. Before the end of a shorter one, it would hardly do so.
const SHORTEST: u64 = 30_000;

/// The longest gap that a worker expects the end of: it costs a search and a timer, which save a part of longer ones that does not matter.
const LONGEST: u64 = 2_000_000;

/// The longest time for which a worker searches before the expected end, or after it.
const MOST: u64 = 60_000;

/// The least of each.
const AHEAD: u64 = 2_000;
const BEHIND: u64 = 8_000;

/// How long a wake-up takes, as long as no timer has shown it.
const WAKE: u64 = 10_000;

/// What a timer may be late, whatever it was before.
const LATE: u64 = 5_000;

/// A worker that has slept for a shorter time did not sleep: there was something when it looked once more.
const NO_SLEEP: Duration = Duration::from_micros(3);

/// A mean, and the mean distance from it. The last values have the most weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Average {
    mean: u64,
    spread: u64,
}

impl Average {
    fn add(&mut self, value: u64) {
        // A quarter is the new value's.
        self.spread = (3 * self.spread + self.mean.abs_diff(value)) / 4;
        self.mean = (3 * self.mean + value) / 4;
    }

    /// Makes both less, by a part.
    fn decay(&mut self) {
        self.mean -= self.mean / 16;
        self.spread -= self.spread / 16;
    }
}

/// What is known of the lengths of gaps, and of the timer.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    gap: Average,
    /// How much later than asked the timer wakes the worker. To be woken by another thread takes about as long.
    late: Average,
    /// How sure the worker is of the next gap.
    sure: u32,
    /// Whether the last gap was another one than expected.
    was_odd: bool,
}

/// What a worker does in a gap whose length it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    /// For how long it sleeps; 0 if it searches all the time.
    sleep: u64,
    /// How long after the beginning of the gap it gives up.
    give_up: u64,
}

impl Default for Forecast {
    fn default() -> Self {
        Forecast {
            gap: Average::default(),
            late: Average {
                mean: WAKE,
                spread: 0,
            },
            sure: 0,
            was_odd: false,
        }
    }
}

impl Forecast {
    /// Returns what to do in the gap that begins now; `None` if its length is not known well enough.
    fn next(&mut self) -> Option<Expected> {
        let (gap, late) = (self.gap, self.late);
        let behind = BEHIND + 4 * gap.spread;
        if self.sure < ENOUGH || gap.mean > LONGEST || behind > MOST {
            return None;
        }
        let give_up = gap.mean + behind;
        if gap.mean < SHORTEST {
            return Some(Expected { sleep: 0, give_up });
        }
        let ahead = AHEAD + gap.spread + late.mean + late.spread;
        if ahead > MOST.min(gap.mean / 2) {
            // The timer is used again some gaps later: the machine may have become quieter.
            self.late.decay();
            return None;
        }
        let sleep = gap.mean - ahead;
        Some(Expected { sleep, give_up })
    }

    /// The timer has woken the worker, `late` later than asked.
    fn rang(&mut self, late: u64) {
        // A thread that was held up for long says little of the timer.
        let most = 2 * self.late.mean + LATE;
        self.late.add(late.min(most));
    }

    /// A gap of this length has ended.
    fn ended(&mut self, length: u64) {
        let length = length.min(2 * LONGEST);
        let near = AHEAD + self.gap.mean / 8 + 2 * self.gap.spread;
        let is_odd = self.gap.mean.abs_diff(length) > near;
        if !is_odd {
            self.gap.add(length);
            self.sure = (self.sure + 1).min(SURE);
        } else if self.was_odd {
            self.gap = Average {
                mean: length,
                spread: 0,
            };
            self.sure = 0;
        } else {
            self.sure = self.sure.saturating_sub(2);
        }
        self.was_odd = is_odd;
    }

    /// The worker has given up in vain.
    fn failed(&mut self) {
        self.sure = self.sure.saturating_sub(ENOUGH);
    }
}

/// How a worker spends a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pastime {
    /// It sleeps until another thread wakes it.
    Sleep,
    /// It sleeps for at most this time, and searches then.
    Nap(Duration),
    /// It searches on.
    Search,
}

/// The gap in which a worker is.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// It sleeps, or is about to.
    Begun {
        since: Instant,
        expected: Option<Expected>,
    },
    /// It searches for the end, until it gives up.
    Ends { since: Instant, until: Instant },
    /// It has given up.
    GaveUp { since: Instant },
}

/// The gaps of one worker.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    forecast: Cell<Forecast>,
    now: Cell<Option<Gap>>,
}

impl Gaps {
    /// The worker has found nothing and would fall asleep. If it `may_expect` the end of the gap, time decides what it does.
    pub(super) fn begin(&self, may_expect: bool) -> Pastime {
        let (since, expected) = match self.now.take() {
            Some(Gap::GaveUp { since }) => (since, None),
            _ => (
                Instant::now(),
                may_expect.then(|| self.change(Forecast::next)).flatten(),
            ),
        };
        self.now.set(Some(Gap::Begun { since, expected }));
        match expected {
            None => Pastime::Sleep,
            Some(Expected { sleep: 0, .. }) => Pastime::Search,
            Some(Expected { sleep, .. }) => Pastime::Nap(Duration::from_nanos(sleep)),
        }
    }

    /// The worker is awake again. Returns how long after the beginning of the gap.
    pub(super) fn woke(&self) -> Duration {
        let Some(Gap::Begun { since, expected }) = self.now.take() else {
            return Duration::ZERO;
        };
        let slept = since.elapsed();
        let nanos = slept.as_nanos() as u64;
        match expected.filter(|expected| nanos >= expected.sleep) {
            Some(Expected { sleep, give_up }) => {
                if sleep > 0 {
                    self.change(|forecast| forecast.rang(nanos - sleep));
                }
                let until = since + Duration::from_nanos(give_up);
                self.now.set(Some(Gap::Ends { since, until }));
            }
            // Another thread has something for it.
            None if slept > NO_SLEEP => self.change(|forecast| {
                forecast.ended(nanos.saturating_sub(forecast.late.mean));
            }),
            None => {}
        }
        slept
    }

    /// Returns until when the worker searches, if it expects the end of the gap now.
    #[inline]
    pub(super) fn until(&self) -> Option<Instant> {
        match self.now.get() {
            Some(Gap::Ends { until, .. }) => Some(until),
            _ => None,
        }
    }

    /// The search has come to something.
    #[inline]
    pub(super) fn found(&self) {
        if let Some(gap) = self.now.take()
            && let Gap::Ends { since, .. } = gap
        {
            let length = since.elapsed().as_nanos() as u64;
            self.change(|forecast| forecast.ended(length));
        }
    }

    /// The search has come to nothing.
    #[inline]
    pub(super) fn gave_up(&self) {
        if let Some(gap) = self.now.take()
            && let Gap::Ends { since, .. } = gap
        {
            self.now.set(Some(Gap::GaveUp { since }));
            self.change(Forecast::failed);
        }
    }

    /// The worker does something else than to wait for the end of the gap, which teaches nothing.
    pub(super) fn forget(&self) {
        self.now.set(None);
    }

    fn change<R>(&self, change: impl FnOnce(&mut Forecast) -> R) -> R {
        let mut forecast = self.forecast.get();
        let result = change(&mut forecast);
        self.forecast.set(forecast);
        result
    }
}

/// Has the system wake this thread as soon as a timer is due, until this is dropped. Without it a timer may be 50 us late. Threads and
/// processes inherit it, so it is no longer there when the thread runs code of the program.
#[derive(Debug)]
pub(super) struct ExactTimer {
    before: Option<NonZeroU64>,
}

impl ExactTimer {
    pub(super) fn of_this_thread() -> Self {
        // A system that refuses wakes the worker later, which the forecast takes into account. Miri knows no such call.
        let before = match cfg!(miri) {
            true => None,
            false => rustix::thread::current_timer_slack().ok(),
        };
        let before = before.and_then(NonZeroU64::new);
        if before.is_some() {
            _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        ExactTimer { before }
    }
}

impl Drop for ExactTimer {
    fn drop(&mut self) {
        if self.before.is_some() {
            _ = rustix::thread::set_current_timer_slack(self.before);
        }
    }
}

/// Gaps whose ends the workers of pools have expected.
#[cfg(test)]
pub(super) static EXPECTED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: u64 = 1_000;

    /// Returns the forecast after gaps of these lengths.
    fn after(lengths: impl IntoIterator<Item = u64>) -> Forecast {
        let mut forecast = Forecast::default();
        lengths
            .into_iter()
            .for_each(|length| forecast.ended(length));
        forecast
    }

    #[test]
    fn equal_gaps_are_expected_from_the_sixth_on() {
        for length in [40 * US, 100 * US, 1_000 * US] {
            assert_eq!(after([length; 5]).next(), None);
            let expected = after([length; 6]).next().expect("it is sure");
            assert!(0 < expected.sleep && expected.sleep < length);
            assert!(length < expected.give_up && expected.give_up < length + MOST);
        }
    }

    #[test]
    fn in_a_short_gap_the_worker_searches_all_the_time() {
        let expected = after([15 * US; 6]).next().expect("it is sure");
        assert_eq!(expected.sleep, 0);
    }

    #[test]
    fn a_long_gap_is_not_expected() {
        assert_eq!(after([LONGEST + 1; 50]).next(), None);
        assert_eq!(after([u64::MAX; 50]).next(), None);
    }

    #[test]
    fn gaps_without_a_rule_are_not_expected() {
        let lengths = (0..100).map(|at| (at * at * 37 % 101) * 10 * US);
        assert_eq!(after(lengths).next(), None);
    }

    #[test]
    fn one_odd_gap_changes_little_and_a_new_length_is_learned() {
        let mut forecast = after([100 * US; 10]);
        let before = forecast.next();
        forecast.ended(5_000 * US);
        assert_eq!(forecast.next(), before);
        forecast.ended(100 * US);
        assert_eq!(forecast.next(), before);
        (0..6).for_each(|_| forecast.ended(200 * US));
        assert!(forecast.next().expect("it is sure").sleep > 100 * US);
    }

    #[test]
    fn a_worker_that_gives_up_twice_in_vain_relies_on_nothing() {
        let mut forecast = after([100 * US; 20]);
        forecast.failed();
        assert!(forecast.next().is_some());
        forecast.failed();
        assert_eq!(forecast.next(), None);
    }

    #[test]
    fn a_timer_that_is_too_late_is_used_no_more_for_a_while() {
        let mut forecast = after([100 * US; 20]);
        (0..20).for_each(|_| forecast.rang(90 * US));
        assert_eq!(forecast.next(), None);
        assert!((0..100).any(|_| forecast.next().is_some()));
    }

    proptest! {
        #[test]
        fn whatever_comes_the_worker_searches_for_a_bounded_time(
            events in proptest::collection::vec((0..3_u8, any::<u64>(), 0..200_u64), 0..200)
        ) {
            let mut forecast = Forecast::default();
            for (kind, any, small) in events {
                // Most lengths are near each other.
                let length = if any % 4 == 0 { any } else { (90 + small / 10) * US };
                match kind {
                    0 => forecast.rang(length),
                    1 => forecast.ended(length),
                    _ if small % 8 == 0 => forecast.failed(),
                    _ => forecast.ended(100 * US),
                }
                if let Some(Expected { sleep, give_up }) = forecast.next() {
                    prop_assert!(sleep < give_up && give_up - sleep <= 2 * MOST);
                    prop_assert!(give_up <= LONGEST + MOST);
                }
            }
        }
    }

    #[test]
    fn a_gap_that_is_given_up_goes_on() {
        let gaps = Gaps::default();
        gaps.forecast.set(after([15 * US; 20]));
        assert_eq!(gaps.begin(true), Pastime::Search);
        gaps.woke();
        assert!(gaps.until().is_some());
        gaps.gave_up();
        assert_eq!(gaps.until(), None);
        // Although the forecast still holds.
        assert_eq!(gaps.begin(true), Pastime::Sleep);
        std::thread::sleep(Duration::from_millis(1));
        assert!(gaps.woke() >= Duration::from_millis(1));
        // One gap, which was much longer than expected.
        let forecast = gaps.forecast.get();
        assert!(forecast.was_odd && forecast.sure == SURE - ENOUGH - 2);
    }

    #[test]
    fn the_timers_of_a_thread_are_as_before_afterwards() {
        let before = rustix::thread::current_timer_slack().expect("Linux");
        let timer = ExactTimer::of_this_thread();
        // Threads with real-time priority have none.
        assert_eq!(rustix::thread::current_timer_slack(), Ok(before.min(1)));
        drop(timer);
        assert_eq!(rustix::thread::current_timer_slack(), Ok(before));
    }

    /// The intervals are so short that several go into a time slice on a busy machine.
    #[test]
    fn a_worker_with_regular_work_expects_it() {
        let pool = crate::Pool::builder().workers(1).bind(crate::Bind::Off);
        let pool = pool.build().expect("a pool");
        if !pool.shared().has_spare() {
            return tanada_testing::skip("this process may use one hardware thread");
        }
        let expected = || EXPECTED.load(std::sync::atomic::Ordering::Relaxed);
        let (begun, before) = (Instant::now(), expected());
        while expected() == before {
            let run = pool.scope(|s| _ = s.task("regular").register(|_| ()));
            run.expect("a graph that ends");
            tanada_testing::compute(Duration::from_micros(40));
            assert!(begun.elapsed() < Duration::from_secs(300));
        }
    }
}
