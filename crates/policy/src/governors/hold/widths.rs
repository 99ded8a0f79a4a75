//! Which widths have been tried, in one situation.

use super::Settings;

/// When a width may be tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// How often in a row it lost.
    losses: u32,
    until: u64,
    /// Probes since another width was chosen, and the mean of the logarithms of their ratios.
    probes: u32,
    mean: f64,
}

/// The width in use, and the others.
#[derive(Clone, Debug)]
pub(super) struct Widths {
    width: usize,
    threads: usize,
    tried: Vec<Tried>,
    /// The usual rate; 0 before the first window.
    level: f64,
    /// The rate of the last window, and by how much (as a logarithm) it usually differs from the one before.
    last: f64,
    noise: f64,
    /// How many times as good as all threads the width in use is, as far as probes have shown.
    ratio: f64,
}

/// Doublings of the time to the next try, at most, and at most after a change of phase.
const DOUBLINGS: u32 = 6;
/// The mean logarithm from which on a width is probed again at once.
const PROMISING: f64 = 0.04;
/// Older probes count less than the last few.
const PROBES: u32 = 4;
const DOUBLINGS_OF_WIDER: u32 = 2;
const DOUBLINGS_OF_PHASE: u32 = 2;

impl Widths {
    pub(super) fn new(threads: usize) -> Widths {
        Widths {
            width: threads,
            threads,
            tried: vec![Tried::default(); threads + 1],
            level: 0.0,
            last: 0.0,
            noise: 0.0,
            ratio: 1.0,
        }
    }

    /// Returns what the logarithm of the ratio has to be for `width` to be chosen after `probes`. A wider one needs less: all threads are
    /// what a program gets without a governor.
    fn needed(&self, width: usize, used: usize, probes: u32, settings: &Settings) -> f64 {
        match width > used {
            true => settings.margin_wider,
            false => settings.margin + settings.noise * self.noise / f64::from(probes.max(1)),
        }
    }

    /// Returns whether a width that could be better by the factor `could` is worth another probe.
    pub(super) fn is_worth(
        &self,
        width: usize,
        used: usize,
        could: f64,
        settings: &Settings,
    ) -> bool {
        let tried = &self.tried[width];
        could.ln() > self.needed(width, used, tried.probes + 1, settings)
    }

    /// Takes a probe into account. Returns whether its width is to be chosen.
    pub(super) fn is_better(
        &mut self,
        width: usize,
        used: usize,
        ratio: f64,
        settings: &Settings,
    ) -> bool {
        let one = &mut self.tried[width];
        one.probes = (one.probes + 1).min(PROBES);
        one.mean += (ratio.max(0.05).ln() - one.mean) / f64::from(one.probes);
        let (probes, mean) = (one.probes, one.mean);
        mean > self.needed(width, used, probes, settings)
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns how many hardware threads run something if so many logical threads are there.
    pub(super) fn used(&self, waiting: usize) -> usize {
        self.width.min(waiting).max(1)
    }

    /// Returns the part of the time that the width in use saves.
    pub(super) fn gained(&self) -> f64 {
        (1.0 - 1.0 / self.ratio).max(0.0)
    }

    /// Returns the widths that may be tried, the most promising first.
    pub(super) fn due(&self, waiting: usize, now: u64) -> Vec<usize> {
        let most = self.threads.min(waiting);
        let used = self.used(waiting);
        let all = [
            used / 2,
            (used * 2).min(most),
            used * 3 / 4,
            (used * 3).div_ceil(2).min(most),
            used - 1,
            (used + 1).min(most),
        ];
        let may = |&width: &usize| width > 0 && width != used && self.tried[width].until <= now;
        all.into_iter().filter(may).collect()
    }

    /// Takes a window of the width in use into account. Returns whether another phase has begun.
    pub(super) fn is_another_phase(&mut self, rate: f64) -> bool {
        if self.last > 0.0 && rate > 0.0 {
            let change = (rate / self.last).ln().abs();
            self.noise += (change - self.noise) / 8.0;
        }
        self.last = rate;
        let changed = rate > self.level * super::PHASE || rate * super::PHASE < self.level;
        if self.level == 0.0 {
            self.level = rate;
        } else if changed {
            self.level = rate;
            for one in &mut self.tried {
                one.until = 0;
                one.losses = one.losses.min(DOUBLINGS_OF_PHASE);
            }
            return true;
        } else {
            self.level += (rate - self.level) / 4.0;
        }
        false
    }

    /// Threads were released together: all widths may be tried in half a turn.
    pub(super) fn released(&mut self, now: u64, turn: u64) {
        for one in &mut self.tried {
            one.until = one.until.min(now + turn / 2);
        }
    }

    /// Uses `width`, which was `ratio` times as good as `before`.
    pub(super) fn won(&mut self, width: usize, before: usize, ratio: f64, now: u64, turn: u64) {
        self.ratio = if width >= self.threads {
            1.0
        } else {
            self.ratio * ratio
        };
        for before in [before, self.width] {
            let one = &mut self.tried[before];
            let most = if before > width {
                DOUBLINGS_OF_WIDER
            } else {
                DOUBLINGS
            };
            one.until = now + (turn << one.losses.min(most));
            one.losses += 1;
        }
        for one in &mut self.tried {
            (one.probes, one.mean) = (0, 0.0);
        }
        (self.width, self.level, self.last) = (width, 0.0, 0.0);
    }

    pub(super) fn lost(&mut self, width: usize, used: usize, now: u64, turn: u64) {
        let most = if width > used {
            DOUBLINGS_OF_WIDER
        } else {
            DOUBLINGS
        };
        let one = &mut self.tried[width];
        if one.mean > PROMISING {
            // Not clear yet: the next turn shows more.
            one.until = now;
            return;
        }
        one.until = now + (turn << one.losses.min(most));
        one.losses += 1;
    }
}
