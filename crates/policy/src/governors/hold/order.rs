//! Which order is better: a sequential test of pairs of turns.

use super::{Settings, Sum};
use crate::Why;

/// The test, and its last result.
#[derive(Clone, Debug, Default)]
pub(super) struct OrderTest {
    /// The result: whether the order of creation is used.
    sorted: bool,
    testing: bool,
    /// Whether this block is the order's that is not used.
    trial: bool,
    /// Turns to come in this block.
    left: u32,
    /// By order: the queue's, that of creation.
    sums: [Sum; 2],
    /// Logarithms of the ratios of the pairs: number, mean, sum of squared deviations.
    pairs: u32,
    mean: f64,
    squares: f64,
    /// When the next test begins.
    next: u64,
    /// Turns for which the result is held.
    hold: u64,
}

/// What a turn has shown.
pub(super) struct Shown {
    pub(super) why: Why,
    /// Time that the trial cost.
    pub(super) regret: f64,
}

/// Turns for which a first result is held.
const HOLD: u64 = 32;
/// A difference that two pairs suffice for.
const LARGE: f64 = 0.1;

impl OrderTest {
    /// Takes a window into account.
    pub(super) fn add(&mut self, sorted: bool, work: u64, time: u64) {
        if self.testing {
            self.sums[usize::from(sorted)].add(work, time);
        }
    }

    /// Returns whether the next turn is in the order of creation; `many` if more threads wait than there are hardware threads.
    pub(super) fn is_sorted(&self, many: bool) -> bool {
        self.sorted ^ (many && self.testing && self.trial)
    }

    /// A turn ends. Returns what it has shown, if it ends a pair. `least` is the time that each side of a pair has.
    pub(super) fn turn(
        &mut self,
        settings: &Settings,
        now: u64,
        turn: u64,
        least: u64,
    ) -> Option<Shown> {
        if !self.testing {
            if now >= self.next {
                self.testing = true;
                self.trial = false;
                self.left = settings.block;
            }
            return None;
        }
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        self.left = settings.block;
        self.trial = !self.trial;
        if self.trial {
            return None;
        }
        let [queue, created] = self.sums;
        if queue.time < least || created.time < least || queue.work == 0 || created.work == 0 {
            return None;
        }
        self.sums = Default::default();
        let ratio = created.rate() / queue.rate();
        let (part, time) = match self.sorted {
            true => (1.0 / ratio, queue.time),
            false => (ratio, created.time),
        };
        let regret = (1.0 - part).max(0.0) * time as f64;
        let what = self.judge(ratio.ln(), settings, now, turn);
        let figures = vec![
            ("by number over queue", ratio),
            ("on average", self.mean.exp()),
            ("standard error", self.error()),
            ("pairs", f64::from(self.pairs)),
        ];
        if !self.testing {
            (self.pairs, self.mean, self.squares) = (0, 0.0, 0.0);
        }
        Some(Shown {
            why: Why { what, figures },
            regret,
        })
    }

    fn error(&self) -> f64 {
        let pairs = f64::from(self.pairs);
        match self.pairs {
            0 | 1 => 0.0,
            _ => (self.squares / (pairs - 1.0) / pairs).sqrt(),
        }
    }

    fn judge(&mut self, log: f64, settings: &Settings, now: u64, turn: u64) -> &'static str {
        self.pairs += 1;
        let from_mean = log - self.mean;
        self.mean += from_mean / f64::from(self.pairs);
        self.squares += from_mean * (log - self.mean);
        let (beyond, error) = (self.mean - settings.order_margin, self.error());
        let large = self.pairs >= 2 && beyond.abs() > LARGE.max(1.5 * error);
        let clear = self.pairs >= 4 && beyond.abs() > 2.0 * error;
        // Looking on costs what the order of creation loses.
        let bad = !self.sorted && self.pairs >= 2 && self.mean < -settings.reject;
        if !large && !clear && !bad && self.pairs < settings.pairs {
            return "order undecided";
        }
        let sorted = beyond > 0.0;
        self.hold = if sorted == self.sorted && self.hold > 0 {
            self.hold * 2
        } else {
            HOLD
        };
        self.next = now + self.hold * turn;
        self.testing = false;
        self.sorted = sorted;
        if sorted {
            "order of creation"
        } else {
            "order of the queue"
        }
    }
}
