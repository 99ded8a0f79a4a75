//! A team that has been tried, and the times that it had.

use crate::{Decision, Passed};

/// How many of the last times are kept.
const LAST: usize = 4;

/// A time beyond this multiple of the mean, or below its inverse, is a sign of a change, or an outlier.
const FAR: f64 = 1.3;

/// How much an outlier may weigh on a quiet machine.
const CLIP: f64 = 2.0;

/// Of so many first times the largest does not count on a quiet machine.
const FIRST: usize = 8;

/// The weight of one time in the mean after many.
const SLOW: f64 = 1.0 / 32.0;

/// How many times are many.
const SETTLED: u64 = 32;

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
    /// The first times, as long as there are no more.
    first: [f64; FIRST],
    /// Whether the mean is that of a first invocation, whose caches were cold: the next time replaces it.
    cold: bool,
    /// Far times in a row on the same side: above the mean, or below.
    suspects: [f64; LAST],
    suspected: usize,
    above: bool,
    /// The mean before the last change of the region's times: another team's times may have stayed as they were.
    pub(super) before: Option<f64>,
    /// How often the engine ran another team than this one.
    pub(super) refused: u32,
    /// What was known before the arm is measured anew.
    old: Option<(u64, f64, f64)>,
    /// What an invocation may lose beside all threads at most, as the model says; it counts as long as there are no times.
    pub(super) worst: f64,
    /// Invocations whose charge may still be corrected, and that charge.
    pub(super) plays: u32,
    pub(super) charged: f64,
    /// Times that are added to the mean with the next one: their sum and number. And invocations that are charged with the next one.
    later: (f64, u32),
    pub(super) unpaid: u32,
}

impl Arm {
    pub(super) fn new(decision: Decision) -> Arm {
        Arm {
            decision,
            count: 0,
            mean: 0.0,
            spread: 0.0,
            total: 0.0,
            first: [0.0; FIRST],
            cold: false,
            suspects: [0.0; LAST],
            suspected: 0,
            above: false,
            before: None,
            refused: 0,
            old: None,
            worst: 0.0,
            plays: 0,
            charged: 0.0,
            later: (0.0, 0),
            unpaid: 0,
        }
    }

    /// Forgets all times.
    pub(super) fn clear(&mut self) {
        *self = Arm {
            refused: self.refused,
            worst: self.worst,
            ..Arm::new(self.decision)
        };
    }

    /// Forgets all times until [`Arm::confirm`].
    pub(super) fn renew(&mut self) {
        let old = (self.count > 0 && !self.cold).then_some((self.count, self.mean, self.spread));
        self.clear();
        self.old = old;
    }

    /// The arm has been measured anew: if that says the same as before, as far as it can be told apart by `margin`, a part of the mean, all
    /// times count.
    pub(super) fn confirm(&mut self, margin: f64) {
        let Some((count, mean, spread)) = self.old.take() else {
            return;
        };
        let now = self.known();
        if self.count == 0 || (self.mean / mean - 1.0).abs() > margin {
            return;
        }
        let weight = (now as f64 / (count + now) as f64).max(SLOW);
        self.mean = mean + (self.mean - mean) * weight;
        self.spread = spread + (self.spread - spread) * weight;
        self.count += count.max(FIRST as u64);
        self.suspected = 0;
    }

    /// Returns the best knowledge for the account: how many times are known, their mean, and their spread.
    pub(super) fn account(&self) -> Option<(u64, f64, f64)> {
        match self.old {
            Some(old) => Some(old),
            None => self
                .estimate(false)
                .map(|mean| (self.known(), mean, self.spread)),
        }
    }

    /// Returns whether much is known of the arm, and `time` is what is expected.
    pub(super) fn is_settled(&self, time: f64) -> bool {
        self.count >= SETTLED
            && self.suspected == 0
            && self.old.is_none()
            && time <= self.mean * FAR
            && time * FAR >= self.mean
    }

    /// Adds a time to the mean when the next one is added; `paid` says that nothing is to be charged for it.
    pub(super) fn add_later(&mut self, time: f64, paid: bool) {
        self.total += time;
        self.unpaid += u32::from(!paid);
        self.later = (self.later.0 + time, self.later.1 + 1);
    }

    /// Returns between which times the mean lies as far as it may without being far.
    pub(super) fn usual(&self) -> (u64, u64) {
        ((self.mean / FAR) as u64, (self.mean * FAR) as u64)
    }

    /// Adds invocations, most of which were not measured, with the next time; `paid` says that nothing is to be charged for them.
    pub(super) fn pass(&mut self, passed: &Passed, paid: bool) {
        self.unpaid += if paid { 0 } else { passed.count };
        self.total += self.mean * f64::from(passed.count);
        self.later = (
            self.later.0 + passed.time as f64,
            self.later.1 + passed.measured,
        );
    }

    /// Forgets all times but for the mean, as that of another time.
    pub(super) fn outdate(&mut self) {
        let before = (self.count > 0).then_some(self.mean);
        self.clear();
        self.before = before;
    }

    /// Adds a time of a region whose invocations differ much: no time says anything alone.
    pub(super) fn mix(&mut self, time: f64) {
        self.total += time;
        if self.cold {
            (self.count, self.cold) = (0, false);
        }
        self.take_suspects(true);
        self.fold(time, true);
    }

    /// Adds a time. Returns whether the last [`LAST`] times all lie far from the mean on the same side: then only these are kept.
    /// `cold` says that it is the region's first; `rough` that far times are how the machine is now, and no outliers.
    pub(super) fn add(&mut self, time: f64, cold: bool, rough: bool) -> bool {
        self.total += time;
        if self.count == 0 || self.cold {
            (self.count, self.cold) = (0, cold);
            self.fold(time, rough);
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
            kept.iter().for_each(|&time| self.fold(time, rough));
            return true;
        }
        self.take_suspects(rough);
        self.fold(time, rough);
        false
    }

    /// Far times that did not go on were noise: they belong to the mean, within limits.
    fn take_suspects(&mut self, rough: bool) {
        for at in 0..std::mem::take(&mut self.suspected) {
            self.fold(self.suspects[at], rough);
        }
    }

    fn fold(&mut self, time: f64, rough: bool) {
        let (sum, others) = std::mem::take(&mut self.later);
        if others > 0 {
            self.count += u64::from(others);
            let weight = (SLOW * f64::from(others)).min(1.0);
            self.mean += (sum / f64::from(others) - self.mean) * weight;
        }
        let at = self.count as usize;
        self.count += 1;
        if at < FIRST {
            self.first[at] = time;
            (self.mean, self.spread) = summary(&self.first[..=at], rough);
            return;
        }
        let time = match rough {
            true => time,
            false => time.min(self.mean * CLIP),
        };
        let weight = (1.0 / self.count as f64).max(SLOW);
        let distance = (time - self.mean).abs() / self.mean.max(1.0);
        self.mean += (time - self.mean) * weight;
        self.spread += (distance - self.spread) * weight;
    }

    /// Returns the mean of all times, those included of which it is not yet clear what they mean; `None` without any.
    pub(super) fn estimate(&self, rough: bool) -> Option<f64> {
        let suspects = &self.suspects[..self.suspected];
        if self.count == 0 {
            return None;
        }
        let known = self.count as usize;
        if suspects.is_empty() || known + suspects.len() > FIRST {
            return Some(self.mean);
        }
        let mut times = [0.0; FIRST];
        times[..known].copy_from_slice(&self.first[..known]);
        times[known..known + suspects.len()].copy_from_slice(suspects);
        Some(summary(&times[..known + suspects.len()], rough).0)
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

/// Returns the mean of times and their mean distance from it, relative to it; without the largest if the machine is quiet.
fn summary(times: &[f64], rough: bool) -> (f64, f64) {
    let largest = match times.len() >= 3 && !rough {
        true => times.iter().copied().fold(0.0, f64::max),
        false => 0.0,
    };
    let count = times.len() - usize::from(largest > 0.0);
    let mean = (times.iter().sum::<f64>() - largest) / count as f64;
    let away: f64 = times.iter().map(|time| (time - mean).abs()).sum();
    let largest = (largest - mean).max(0.0) * f64::from(u8::from(largest > 0.0));
    (mean, (away - largest) / count as f64 / mean.max(1.0))
}
