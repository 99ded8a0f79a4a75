//! What probes have shown of each width, in one situation.

use super::Settings;

/// One width.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// How often in a row it lost.
    losses: u32,
    /// When it may be probed again.
    until: u64,
    /// Sums over the last probes: their rates, those of the width in use beside them, and the squares of the differences.
    probed: f64,
    used: f64,
    squares: f64,
}

/// A width in use, and how many times as good as all threads it is, as far as probes have shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) width: usize,
    pub(super) ratio: f64,
}

/// A probe's rate, that of the width in use beside it, and what was usual before; the time that the probe cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) probed: f64,
    pub(super) used: f64,
    pub(super) usual: f64,
    pub(super) cost: f64,
}

/// What a probe shows together with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Won,
    Lost,
    /// Better, but not by more than probes differ from each other.
    Unclear,
}

/// The width in use, and the others.
#[derive(Clone, Debug)]
pub(super) struct Widths {
    width: usize,
    threads: usize,
    /// How many threads can run at the same time.
    at_once: usize,
    /// The shortest time from a lost probe to the next one of the same width.
    pause: u64,
    tried: Vec<Tried>,
    /// How many times as good as all threads the width in use is, as far as probes have shown.
    ratio: f64,
}

/// The weight of older probes with each new one.
const FADING: f64 = 0.75;

/// How often the time to the next probe doubles at most; of a wider width, which a program gets without a governor; in another phase.
const DOUBLINGS: u32 = 6;
const WIDER_DOUBLINGS: u32 = 5;
const CHANGED_DOUBLINGS: u32 = 3;

/// Returns whether a width is a power of two, or three times one: such widths are tried, besides all threads and half of those in use.
fn is_step(width: usize) -> bool {
    width.is_power_of_two() || width.is_multiple_of(3) && (width / 3).is_power_of_two()
}

/// No probe counts as a larger gain.
const GAIN: f64 = 4.0;

impl Widths {
    pub(super) fn new(threads: usize, at_once: usize, pause: u64) -> Widths {
        let at_once = at_once.clamp(1, threads);
        Widths {
            width: at_once,
            threads,
            at_once,
            pause,
            tried: vec![Tried::default(); threads + 1],
            ratio: 1.0,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Sets the shortest time from a lost probe to the next one of the same width.
    pub(super) fn pause(&mut self, pause: u64) {
        self.pause = pause;
    }

    /// Returns the width in use.
    pub(super) fn chosen(&self) -> Chosen {
        Chosen {
            width: self.width,
            ratio: self.ratio,
        }
    }

    /// Uses again what was chosen before.
    pub(super) fn restore(&mut self, chosen: Chosen) {
        (self.width, self.ratio) = (chosen.width, chosen.ratio);
    }

    /// Returns how many hardware threads run something if `waiting` logical threads are there.
    pub(super) fn used(&self, waiting: usize) -> usize {
        self.width.min(waiting).max(1)
    }

    /// Returns the part of the time that the width in use saves.
    pub(super) fn gained(&self) -> f64 {
        (1.0 - 1.0 / self.ratio).max(0.0)
    }

    /// Returns the widths that may be probed, the most promising first.
    pub(super) fn due(&self, waiting: usize, now: u64) -> impl Iterator<Item = usize> + '_ {
        let most = self.threads.min(waiting);
        let used = self.used(waiting);
        let all = [
            used / 2,
            (used * 2).min(most),
            (1..used).rev().find(|&one| is_step(one)).unwrap_or(0),
            (used + 1..most).find(|&one| is_step(one)).unwrap_or(most),
        ];
        let may =
            move |&width: &usize| width > 0 && width != used && self.tried[width].until <= now;
        all.into_iter().filter(may)
    }

    /// Returns whether `width` is wider than `used`, and all of its threads can run at the same time.
    fn adds_running(&self, width: usize, used: usize) -> bool {
        width > used && width <= self.at_once
    }

    /// Returns by which factor `width` has to be better than `used` to be chosen. A wider one needs less: all threads are what a program
    /// gets without a governor.
    pub(super) fn needed(&self, width: usize, used: usize, settings: &Settings) -> f64 {
        match self.adds_running(width, used) {
            true => settings.margin_wider,
            false => settings.margin,
        }
    }

    /// Takes a probe of `width` into account, beside the width `used`, and chooses it if it has won.
    pub(super) fn judge(
        &mut self,
        width: usize,
        used: usize,
        pair: Pair,
        now: u64,
        settings: &Settings,
    ) -> Verdict {
        let needed = self.needed(width, used, settings);
        let adds = self.adds_running(width, used);
        let one = &mut self.tried[width];
        let difference = pair.probed - pair.used;
        one.probed = one.probed * FADING + pair.probed;
        one.used = one.used * FADING + pair.used;
        one.squares = one.squares * FADING * FADING + difference * difference;
        let better = one.probed > one.used * needed;
        let clear = one.probed - one.used > settings.clear * one.squares.sqrt();
        // A single probe is not large if only the width in use happened to be slow beside it.
        let large = pair.probed > (pair.used * settings.large).max(pair.usual * needed);
        // A wider one that has lost since it was chosen last has to be better by more than chance.
        let quick = adds && one.losses == 0;
        if large || better && (clear || quick) {
            let ratio = (one.probed / one.used).clamp(1.0, GAIN);
            self.choose(width, ratio, now);
            return Verdict::Won;
        }
        if better {
            one.until = now.saturating_add(self.pause);
            return Verdict::Unclear;
        }
        let pause = longer(self.pause, one.losses, width > used);
        let pause = pause.max((pair.cost / settings.repeat) as u64);
        one.until = now.saturating_add(pause);
        one.losses += 1;
        Verdict::Lost
    }

    /// Uses `width`, which was `ratio` times as good as the one before.
    fn choose(&mut self, width: usize, ratio: f64, now: u64) {
        let ratio = self.ratio * ratio;
        self.ratio = if width >= self.at_once { 1.0 } else { ratio };
        for one in &mut self.tried {
            (one.probed, one.used, one.squares) = (0.0, 0.0, 0.0);
        }
        let before = &mut self.tried[self.width];
        let pause = longer(self.pause, before.losses, self.width > width);
        before.until = now.saturating_add(pause);
        self.tried[width].losses = 0;
        self.width = width;
    }

    /// A probe of `width` had no result.
    pub(super) fn put_off(&mut self, width: usize, now: u64) {
        let wide = width > self.at_once;
        let one = &mut self.tried[width];
        let losses = if wide { one.losses } else { 0 };
        one.until = now.saturating_add(longer(self.pause, losses, true));
        if wide {
            // There may never be enough to do for it.
            one.losses += 1;
        }
    }

    /// Forgets the probes, and lets every width be probed at once: the program does something else now.
    pub(super) fn changed(&mut self) {
        for one in &mut self.tried {
            (one.probed, one.used, one.squares) = (0.0, 0.0, 0.0);
            one.until = 0;
            one.losses = one.losses.min(CHANGED_DOUBLINGS);
        }
    }
}

/// Returns the time to the next probe of a width that has lost so many times in a row before.
fn longer(pause: u64, losses: u32, wider: bool) -> u64 {
    let most = if wider { WIDER_DOUBLINGS } else { DOUBLINGS };
    pause.saturating_mul(1 << losses.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_width_that_has_lost_needs_more_than_one_lucky_probe() {
        let settings = Settings::default();
        let pair = |probed| Pair {
            probed,
            used: 100.0,
            usual: 100.0,
            cost: 0.0,
        };
        let new = || {
            let mut widths = Widths::new(8, 8, 10);
            widths.choose(4, 2.0, 0);
            widths
        };
        let judge = |widths: &mut Widths, rate| widths.judge(8, 4, pair(rate), 1000, &settings);
        assert_eq!(judge(&mut new(), 102.0), Verdict::Won);
        let mut lost = new();
        assert_eq!(judge(&mut lost, 99.0), Verdict::Lost);
        assert_eq!(judge(&mut lost, 110.0), Verdict::Unclear);
        assert_eq!(judge(&mut lost, 110.0), Verdict::Won);
        let mut lost = new();
        assert_eq!(judge(&mut lost, 90.0), Verdict::Lost);
        assert_eq!(judge(&mut lost, 160.0), Verdict::Won, "a large gain");
        let mut lost = new();
        assert_eq!(judge(&mut lost, 90.0), Verdict::Lost);
        let beside_slow = Pair {
            usual: 160.0,
            ..pair(160.0)
        };
        let verdict = lost.judge(8, 4, beside_slow, 1000, &settings);
        assert_ne!(verdict, Verdict::Won, "not better than usual");
    }

    #[test]
    fn a_lost_probe_is_repeated_when_its_cost_has_become_a_small_part_of_the_time() {
        let settings = Settings::default();
        let next = |cost: f64, times: u32| {
            let mut widths = Widths::new(8, 8, 10);
            for _ in 0..times {
                let pair = Pair {
                    probed: 90.0,
                    used: 100.0,
                    usual: 100.0,
                    cost,
                };
                assert_eq!(widths.judge(4, 8, pair, 1000, &settings), Verdict::Lost);
            }
            let due = |now: &u64| widths.due(64, *now).any(|width| width == 4);
            (1000..100_000).find(due).expect("it is probed again") - 1000
        };
        assert_eq!([1, 2, 3].map(|times| next(0.0, times)), [10, 20, 40]);
        assert_eq!([1, 2, 3].map(|times| next(0.09, times)), [30, 30, 40]);
        assert_eq!(next(15.0, 1), 5000);
    }

    #[test]
    fn each_width_has_its_neighbours_its_half_and_its_double() {
        let due = |used: usize, waiting: usize| {
            let mut widths = Widths::new(8, 8, 10);
            widths.choose(used, 1.0, 0);
            widths.due(waiting, 1000).collect::<Vec<_>>()
        };
        assert_eq!(due(8, 64), [4, 6]);
        assert_eq!(due(6, 64), [3, 8, 4, 8]);
        assert_eq!(due(4, 64), [2, 8, 3, 6]);
        assert_eq!(due(3, 64), [1, 6, 2, 4]);
        assert_eq!(due(1, 64), [2, 2]);
        assert_eq!(due(8, 5), [2, 4]);
        assert_eq!(due(4, 5), [2, 5, 3, 5]);
    }

    #[test]
    fn what_was_chosen_can_be_used_again() {
        let mut widths = Widths::new(8, 8, 10);
        widths.choose(4, 2.0, 0);
        let chosen = widths.chosen();
        widths.choose(8, 1.0, 0);
        assert_eq!((widths.width(), widths.gained()), (8, 0.0));
        widths.restore(chosen);
        assert_eq!((widths.width(), widths.gained()), (4, 0.5));
    }
}
