//! Whether threads that are slow together disturb each other, or are slow by themselves.
//!
//! A window is found slow because it is below the others, so those behind it are faster on average whatever runs in them. That is why one
//! thread alone is compared with the windows in full company before and behind it, and not with the slow one only.

/// The part of the rate of all threads in use above which half of them show that threads disturb each other.
const HALF: f64 = 0.66;

/// By which factor a slow thread gains more by running alone than threads usually do if it is disturbed.
const ALONE: f64 = 1.5;

/// The weight of what was seen before in both, and the largest factor of a look, or of half of the threads: so that what comes behind an
/// odd one soon counts again.
const FADING: f64 = 0.5;
const MOST: f64 = 4.0;

/// A look: one of the slow threads runs alone for a window, then all of them run again for one.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// The rate of each thread in the slow window.
    slow: f64,
    /// The rate of the one that ran alone; `None` while it does.
    alone: Option<f64>,
}

/// What looks have shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Disturbance {
    /// The part of the rate of all in use that half of them had in the last probes, while few and while many waited; `None` before the
    /// first.
    halves: [Option<f64>; 2],
    look: Option<Look>,
    /// How many times as fast a slow thread was alone in the last looks, beside what is usual; `None` before the first.
    factor: Option<f64>,
    /// Slow windows so far that would have led to an exchange if threads usually disturbed each other.
    slow: u64,
}

impl Disturbance {
    /// Returns whether threads usually disturb each other, as far as is known. `most` is the largest part of the rate of all
    /// in use that half of them could have.
    pub(super) fn is_usual(&self, most: f64, many: bool) -> bool {
        most.min(self.halves[usize::from(many)].unwrap_or(f64::INFINITY)) > HALF
    }

    /// Returns the part of the rate of all in use that half of them had in the last probes; `None` before the first.
    pub(super) fn of_half(&self, many: bool) -> Option<f64> {
        self.halves[usize::from(many)]
    }

    /// Returns whether slow threads have shown that they disturb each other.
    pub(super) fn is_shown(&self) -> bool {
        self.factor.is_some_and(|factor| factor > ALONE)
    }

    /// A probe has shown that half of the threads have this `part` of the rate of all that are in use.
    pub(super) fn half(&mut self, part: f64, many: bool) {
        let part = part.min(MOST);
        let known = &mut self.halves[usize::from(many)];
        let old = known.unwrap_or(part);
        *known = Some(old * FADING + part * (1.0 - FADING));
    }

    /// Begins a look behind a slow window, in which each thread had the rate `each`, if it is the first one or one in `trial` of them.
    /// Returns whether it does.
    pub(super) fn begin(&mut self, each: f64, trial: u64) -> bool {
        let begins = self.factor.is_none() || self.slow.is_multiple_of(trial);
        self.slow += 1;
        if begins {
            self.look = Some(Look {
                slow: each,
                alone: None,
            });
        }
        begins
    }

    /// Returns whether there is a look now.
    pub(super) fn looks(&self) -> bool {
        self.look.is_some()
    }

    /// Ends a look without a result, if there is one.
    pub(super) fn end(&mut self) {
        self.look = None;
    }

    /// Takes a window of a look into account, in which each thread had the rate `each`. `usually`: how many times as fast one thread alone
    /// can be as each of those that run. Returns the same factor of the slow thread if that was the last window.
    pub(super) fn window(&mut self, each: f64, usually: f64) -> Option<f64> {
        let look = self.look.take()?;
        let Some(alone) = look.alone else {
            self.look = Some(Look {
                alone: Some(each),
                ..look
            });
            return None;
        };
        let together = ((look.slow + each) / 2.0).max(f64::MIN_POSITIVE);
        let factor = alone / together;
        let beside_usual = (factor / usually.max(1.0)).min(MOST);
        let old = self.factor.unwrap_or(beside_usual);
        self.factor = Some(old * FADING + beside_usual * (1.0 - FADING));
        Some(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once. Returns whether threads disturb each other as far as is known then.
    fn look(disturbance: &mut Disturbance, slow: f64, alone: f64, behind: f64) -> bool {
        while !disturbance.begin(slow, 4) {}
        assert!(disturbance.looks());
        assert_eq!(disturbance.window(alone, 1.0), None);
        assert!(disturbance.window(behind, 1.0).is_some() && !disturbance.looks());
        disturbance.is_shown()
    }

    #[test]
    fn threads_disturb_each_other_if_they_are_faster_alone_than_before_and_behind() {
        let new = Disturbance::default;
        assert!(!new().is_shown(), "until it is known");
        assert!(look(&mut new(), 1.0, 2.0, 1.0));
        assert!(!look(&mut new(), 1.0, 1.4, 1.0));
        assert!(!look(&mut new(), 0.5, 1.0, 1.1), "only once slow");
        assert!(!look(&mut new(), 0.0, 0.0, 0.0));
        let mut last = new();
        assert!(!look(&mut last, 1.0, 1.0, 1.0));
        assert!(look(&mut last, 1.0, 3.0, 1.0), "the last look counts most");
        assert!(!look(&mut last, 1.0, 1.0, 1.0));
    }

    #[test]
    fn company_that_costs_as_much_as_usual_disturbs_nobody() {
        let shown = |usually| {
            let mut disturbance = Disturbance::default();
            assert!(disturbance.begin(1.0, 4));
            assert_eq!(disturbance.window(3.0, usually), None);
            assert_eq!(disturbance.window(1.0, usually), Some(3.0));
            disturbance.is_shown()
        };
        assert!(shown(1.2));
        assert!(!shown(2.5));
    }

    #[test]
    fn half_of_the_threads_show_what_is_usual() {
        let mut disturbance = Disturbance::default();
        assert!(
            disturbance.is_usual(f64::INFINITY, true),
            "until it is known"
        );
        assert!(!disturbance.is_usual(0.6, true));
        disturbance.half(0.55, true);
        assert!(!disturbance.is_usual(f64::INFINITY, true));
        assert!(disturbance.is_usual(f64::INFINITY, false));
        disturbance.half(0.9, true);
        assert!(disturbance.is_usual(f64::INFINITY, true));
    }

    #[test]
    fn one_odd_probe_is_forgotten() {
        for odd in [1e9, f64::MAX, f64::INFINITY] {
            let mut disturbance = Disturbance::default();
            disturbance.half(odd, true);
            assert!(disturbance.is_usual(f64::INFINITY, true));
            let probes = (0..100).take_while(|_| {
                disturbance.half(0.5, true);
                disturbance.is_usual(f64::INFINITY, true)
            });
            assert!((1..6).contains(&probes.count()), "{odd}");
        }
    }

    #[test]
    fn one_slow_window_in_some_is_looked_at() {
        let mut disturbance = Disturbance::default();
        assert!(disturbance.begin(1.0, 4));
        disturbance.end();
        assert!(disturbance.begin(1.0, 4), "nothing is known yet");
        for _ in 0..2 {
            disturbance.window(1.0, 1.0);
        }
        let begun: Vec<_> = (0..8).map(|_| disturbance.begin(1.0, 4)).collect();
        assert_eq!(begun.iter().filter(|&&one| one).count(), 2);
    }
}
