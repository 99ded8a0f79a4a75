//! How long the same threads run before those that wait longest take their places.

use super::Sum;

/// The part of the usual rate that a period has at least if its threads go on.
const GOOD: f64 = 0.9;

/// The weight of a period in the usual rate.
const FADING: f64 = 0.125;

/// The periods of the longest turn.
const MOST: u64 = 64;

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
        }
    }

    /// Returns when it began.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Other threads run from now on.
    pub(super) fn begin(&mut self, now: u64) {
        (self.began, self.ends) = (now, now.saturating_add(self.period));
        self.last = Sum::default();
    }

    /// A barrier opened: what was usual is so no longer.
    pub(super) fn forget(&mut self) {
        self.usual = 0.0;
    }

    /// Takes a window into account.
    pub(super) fn window(&mut self, work: f64, time: f64) {
        self.last.work += work;
        self.last.time += time;
    }

    /// Returns whether the turn is over now. One whose last period was not slow goes on for another period, but not for longer than
    /// `most`.
    pub(super) fn is_over(&mut self, now: u64, most: u64) -> bool {
        if now < self.ends {
            return false;
        }
        let last = std::mem::take(&mut self.last);
        let rate = last.rate();
        let good = last.time > 0.0 && rate >= self.usual * GOOD;
        if last.time > 0.0 {
            let weight = if self.usual > 0.0 { FADING } else { 1.0 };
            self.usual += (rate - self.usual) * weight;
        }
        self.ends = now.saturating_add(self.period);
        let most = most.min(self.period.saturating_mul(MOST));
        !good || self.ends - self.began > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 10;
    const PERIOD: u64 = 640;

    /// Runs windows of the rates that follow from the time since the turn began until the turn is over. Returns how long that takes.
    fn length(turn: &mut Turn, most: u64, rate: impl Fn(u64) -> f64) -> u64 {
        let began = 1000;
        turn.begin(began);
        let mut times = (1..100_000).map(|window| window * WINDOW);
        let ends = times.find(|&time| {
            turn.window(rate(time) * WINDOW as f64, WINDOW as f64);
            turn.is_over(began + time, most)
        });
        ends.expect("every turn ends")
    }

    #[test]
    fn good_company_goes_on_as_long_as_it_may() {
        let mut turn = Turn::new(PERIOD);
        assert_eq!(length(&mut turn, 0, |_| 1.0), PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD, |_| 1.0), 10 * PERIOD);
        assert_eq!(length(&mut turn, 10 * PERIOD - 1, |_| 1.0), 9 * PERIOD);
        assert_eq!(length(&mut turn, u64::MAX, |_| 1.0), MOST * PERIOD);
    }

    #[test]
    fn bad_company_parts_after_a_period() {
        let mut turn = Turn::new(PERIOD);
        length(&mut turn, 20 * PERIOD, |_| 1.0);
        assert_eq!(length(&mut turn, 20 * PERIOD, |_| 0.85), PERIOD);
        // Caches that fill at the beginning of a turn are no bad company.
        let cold = |time| if time < 50 { 0.3 } else { 1.0 };
        assert_eq!(length(&mut turn, 20 * PERIOD, cold), 20 * PERIOD);
        let worse = |time| if time > 3 * PERIOD { 0.5 } else { 1.0 };
        assert_eq!(length(&mut turn, 20 * PERIOD, worse), 4 * PERIOD);
    }

    #[test]
    fn what_was_usual_is_forgotten_and_changes() {
        let mut turn = Turn::new(PERIOD);
        length(&mut turn, 20 * PERIOD, |_| 1.0);
        turn.forget();
        assert_eq!(length(&mut turn, 20 * PERIOD, |_| 0.5), 20 * PERIOD);
        length(&mut turn, 20 * PERIOD, |_| 1.0);
        let turns = (0..100).take_while(|_| length(&mut turn, 2 * PERIOD, |_| 0.5) == PERIOD);
        assert!((1..20).contains(&turns.count()));
    }

    #[test]
    fn a_turn_without_windows_that_count_ends() {
        let mut turn = Turn::new(PERIOD);
        assert!(!turn.is_over(PERIOD - 1, u64::MAX));
        assert!(turn.is_over(PERIOD, u64::MAX));
    }
}
