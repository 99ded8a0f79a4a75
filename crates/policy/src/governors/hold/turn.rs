//! How long the same threads run before those that wait longest take their places.
//!
//! Turns cost what caches that fill cost, and long ones are unfair: threads end one behind the other, and hardware threads idle behind the
//! last ones. So a turn is longer than a period only if what is measured of its beginning says that this pays.

use super::Sum;

/// The part of the usual rate that a period has at least if its threads go on.
const GOOD: f64 = 0.9;

/// The weight of a period in the usual rate.
const FADING: f64 = 0.125;

/// The first windows of a turn, in which caches fill, and the part of its first period that this costs if other threads are worth a turn
/// of their own, and good company a longer one.
const FILLS: u32 = 8;
const COSTS: f64 = 0.001;

/// The periods of the longest turn.
const MOST: u64 = 64;

/// Turns of a period while few threads wait.
const QUICK: u64 = 4;

/// What ends a turn beside what was measured of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The longest turn, if that is more than a period.
    pub(super) longest: u64,
    /// Whether threads part if they are slow together, or if good company is not kept: other company may be faster.
    pub(super) parts: bool,
    /// Whether few threads wait, of which each should have its share.
    pub(super) few: bool,
}

/// The turn that runs.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    period: u64,
    began: u64,
    ends: u64,
    /// Work and time of the windows of its last period that count.
    last: Sum,
    /// The usual rate of a period; 0 before the first one.
    usual: f64,
    /// Windows of this turn that count, and their work and time behind those in which caches fill.
    windows: u32,
    filled: Sum,
    /// The part of the first period of a turn that filling caches usually costs, and the number of turns that it is a mean of.
    costs: f64,
    turns: f64,
}

impl Turn {
    /// Returns the first turn, which begins at 0.
    pub(super) fn new(period: u64) -> Turn {
        Turn {
            period,
            began: 0,
            ends: period,
            last: Sum::default(),
            usual: 0.0,
            windows: 0,
            filled: Sum::default(),
            costs: 0.0,
            turns: 0.0,
        }
    }

    /// Returns whether filling caches costs enough for threads to stay together.
    pub(super) fn stays(&self) -> bool {
        self.costs >= COSTS
    }

    /// Returns when it began.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Other threads run from now on.
    pub(super) fn begin(&mut self, now: u64) {
        (self.began, self.ends) = (now, now.saturating_add(self.period));
        self.last = Sum::default();
        self.windows = 0;
        self.filled = Sum::default();
    }

    /// A barrier opened: what was usual is so no longer.
    pub(super) fn forget(&mut self) {
        self.usual = 0.0;
    }

    /// Takes a window into account.
    pub(super) fn window(&mut self, work: f64, time: f64) {
        self.last.work += work;
        self.last.time += time;
        self.windows += 1;
        if self.windows > FILLS {
            self.filled.work += work;
            self.filled.time += time;
        }
    }

    /// Returns whether the turn is over now. One whose last period was not slow goes on for another period if filling caches costs enough;
    /// so does every one if threads do not part.
    pub(super) fn is_over(&mut self, now: u64, limits: &Limits) -> bool {
        let passed = now.saturating_sub(self.began);
        if limits.few && !self.stays() && passed >= self.period / QUICK {
            return true;
        }
        if now < self.ends {
            return false;
        }
        let last = std::mem::take(&mut self.last);
        let rate = last.rate();
        // A turn in which nothing was done tells nothing of caches.
        if self.ends == self.began.saturating_add(self.period) && self.filled.work > 0.0 {
            let cost = 1.0 - rate / self.filled.rate().max(f64::MIN_POSITIVE);
            self.turns = (self.turns + 1.0).min(1.0 / FADING);
            self.costs += (cost.clamp(-0.1, 0.5) - self.costs) / self.turns;
        }
        let fast = last.time > 0.0 && rate >= self.usual * GOOD;
        let good = !limits.parts || self.stays() && fast;
        if last.time > 0.0 {
            let weight = if self.usual > 0.0 { FADING } else { 1.0 };
            self.usual += (rate - self.usual) * weight;
        }
        self.ends = now.saturating_add(self.period);
        let most = limits.longest.min(self.period.saturating_mul(MOST));
        !good || self.ends - self.began > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 10;
    const PERIOD: u64 = 640;

    fn up_to(longest: u64) -> Limits {
        Limits {
            longest,
            parts: true,
            few: false,
        }
    }

    /// Runs windows of the rates that follow from the time since the turn began until the turn is over. Returns how long that takes.
    fn length(turn: &mut Turn, most: u64, rate: impl Fn(u64) -> f64) -> u64 {
        length_in(turn, &up_to(most), rate)
    }

    fn length_in(turn: &mut Turn, limits: &Limits, rate: impl Fn(u64) -> f64) -> u64 {
        let began = 1000;
        turn.begin(began);
        let mut times = (1..100_000).map(|window| window * WINDOW);
        let ends = times.find(|&time| {
            turn.window(rate(time) * WINDOW as f64, WINDOW as f64);
            turn.is_over(began + time, limits)
        });
        ends.expect("every turn ends")
    }

    /// A rate, and a tenth less of it while caches fill.
    fn fills(rate: f64) -> impl Fn(u64) -> f64 {
        move |time| {
            if time <= u64::from(FILLS) * WINDOW {
                0.9 * rate
            } else {
                rate
            }
        }
    }

    #[test]
    fn turns_are_short_where_caches_fill_at_no_cost() {
        let mut turn = Turn::new(PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD, |_| 1.0), PERIOD);
        assert!(!turn.stays());
        assert_eq!(length(&mut turn, 10 * PERIOD, fills(1.0)), 10 * PERIOD);
        assert!(turn.stays());
        // It is a mean over turns.
        let turns = (0..100).take_while(|_| length(&mut turn, 2 * PERIOD, |_| 1.0) == 2 * PERIOD);
        assert!((1..20).contains(&turns.count()));
    }

    #[test]
    fn good_company_goes_on_as_long_as_it_may() {
        let mut turn = Turn::new(PERIOD);
        assert_eq!(length(&mut turn, 0, fills(1.0)), PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD, fills(1.0)), 10 * PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD - 1, fills(1.0)), 9 * PERIOD);
        assert_eq!(length(&mut turn, u64::MAX, fills(1.0)), MOST * PERIOD);
    }

    #[test]
    fn bad_company_parts_after_a_period() {
        let mut turn = Turn::new(PERIOD);
        length(&mut turn, 20 * PERIOD, fills(1.0));
        assert_eq!(length(&mut turn, 20 * PERIOD, |_| 0.85), PERIOD);
        // Caches that fill at the beginning of a turn are no bad company.
        let cold = |time| if time < 50 { 0.3 } else { 1.0 };
        assert_eq!(length(&mut turn, 20 * PERIOD, cold), 20 * PERIOD);
        let worse = |time| if time > 3 * PERIOD { 0.5 } else { 1.0 };
        assert_eq!(length(&mut turn, 20 * PERIOD, worse), 4 * PERIOD);
    }

    #[test]
    fn threads_that_do_not_disturb_each_other_do_not_part_however_slow_they_are() {
        let limits = Limits {
            parts: false,
            ..up_to(20 * PERIOD)
        };
        let mut turn = Turn::new(PERIOD);
        length_in(&mut turn, &limits, fills(1.0));
        assert_eq!(length_in(&mut turn, &limits, |_| 0.1), 20 * PERIOD);
    }

    #[test]
    fn turns_are_quick_while_few_threads_wait_unless_caches_that_fill_cost_much() {
        let few = Limits {
            few: true,
            ..up_to(0)
        };
        let mut turn = Turn::new(PERIOD);
        assert_eq!(length_in(&mut turn, &few, |_| 1.0), PERIOD / 4);
        length(&mut turn, 0, fills(1.0));
        assert!(turn.stays());
        assert_eq!(length_in(&mut turn, &few, |_| 1.0), PERIOD);
    }

    #[test]
    fn what_was_usual_is_forgotten_and_changes() {
        let mut turn = Turn::new(PERIOD);
        length(&mut turn, 20 * PERIOD, fills(1.0));
        turn.forget();
        assert_eq!(length(&mut turn, 20 * PERIOD, fills(0.5)), 20 * PERIOD);
        length(&mut turn, 20 * PERIOD, fills(1.0));
        let turns = (0..100).take_while(|_| length(&mut turn, 2 * PERIOD, fills(0.5)) == PERIOD);
        assert!((1..20).contains(&turns.count()));
    }

    #[test]
    fn a_turn_without_work_says_nothing_about_caches_that_fill() {
        let mut turn = Turn::new(PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD, |_| 0.0), PERIOD);
        assert!(!turn.stays());
    }

    #[test]
    fn a_turn_without_windows_that_count_ends() {
        let mut turn = Turn::new(PERIOD);
        assert!(!turn.is_over(PERIOD - 1, &up_to(u64::MAX)));
        assert!(turn.is_over(PERIOD, &up_to(u64::MAX)));
    }
}
