//! A team that has been tried, and the times that it had.

use crate::Decision;

/// How many of the last times are kept.
const LAST: usize = 4;

/// A time beyond this multiple of the mean, or below its inverse, is a sign of a change, or an outlier.
const FAR: f64 = 1.3;

/// How much an outlier may weigh on a quiet machine.
const CLIP: f64 = 3.0;

/// The weight of one time in the mean after many.
const SLOW: f64 = 1.0 / 32.0;

/// A team and its times. The mean counts, and not the least time: with neighbours the least time of a large team is excellent, and rare.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) decision: Decision,
    /// Times in the mean.
    pub(super) count: u64,
    pub(super) mean: f64,
    /// The mean distance from the mean, relative to it.
    pub(super) spread: f64,
    /// The sum of all times since the arm was cleared.
    pub(super) total: f64,
    /// Whether the mean is that of a first invocation, whose caches were cold: the next time replaces it.
    cold: bool,
    /// Far times in a row on the same side: above the mean, or below.
    suspects: [f64; LAST],
    suspected: usize,
    above: bool,
    /// How often the engine ran another team than this one.
    pub(super) refused: u32,
}

impl Arm {
    pub(super) fn new(decision: Decision) -> Arm {
        Arm {
            decision,
            count: 0,
            mean: 0.0,
            spread: 0.0,
            total: 0.0,
            cold: false,
            suspects: [0.0; LAST],
            suspected: 0,
            above: false,
            refused: 0,
        }
    }

    /// Forgets all times.
    pub(super) fn clear(&mut self) {
        *self = Arm {
            refused: self.refused,
            ..Arm::new(self.decision)
        };
    }

    /// Adds a time. Returns whether the last [`LAST`] times all lie far from the mean on the same side: then only these are kept.
    /// `cold` says that it is the region's first; `rough` that far times are how the machine is now, and no outliers.
    pub(super) fn add(&mut self, time: f64, cold: bool, rough: bool) -> bool {
        self.total += time;
        if self.count == 0 || self.cold {
            (self.count, self.mean, self.cold) = (1, time, cold);
            return false;
        }
        let above = time > self.mean * FAR;
        if above || time < self.mean / FAR {
            if self.suspected > 0 && self.above != above {
                self.take_suspects(rough);
            }
            self.above = above;
            self.suspects[self.suspected] = time;
            self.suspected += 1;
            if self.suspected < LAST {
                return false;
            }
            let kept = self.suspects;
            self.clear();
            kept.iter().for_each(|&time| self.fold(time));
            return true;
        }
        self.take_suspects(rough);
        self.fold(time);
        false
    }

    /// Far times that did not go on were noise: they belong to the mean, within limits.
    fn take_suspects(&mut self, rough: bool) {
        for at in 0..std::mem::take(&mut self.suspected) {
            let limit = match rough {
                true => f64::INFINITY,
                false => self.mean * CLIP,
            };
            self.fold(self.suspects[at].min(limit));
        }
    }

    fn fold(&mut self, time: f64) {
        self.count += 1;
        if self.count == 1 {
            self.mean = time;
            return;
        }
        let weight = (1.0 / self.count as f64).max(SLOW);
        let distance = (time - self.mean).abs() / self.mean.max(1.0);
        self.mean += (time - self.mean) * weight;
        self.spread += (distance - self.spread) * weight.min(0.5);
    }

    /// Returns the mean of all times, those included of which it is not yet clear what they mean; `None` without any.
    pub(super) fn estimate(&self) -> Option<f64> {
        let suspects = &self.suspects[..self.suspected];
        let (count, sum) = (suspects.len() as f64, suspects.iter().sum::<f64>());
        let known = self.count.min(8) as f64;
        (known + count > 0.0).then(|| (self.mean * known + sum) / (known + count))
    }

    /// Returns how many times are known.
    pub(super) fn known(&self) -> u64 {
        self.count + self.suspected as u64
    }

    /// Returns whether its only time was a first invocation.
    pub(super) fn is_cold(&self) -> bool {
        self.cold
    }
}
