//! When running threads are exchanged for waiting ones, because they are slow together.

use super::Settings;

/// The part of a window in the usual rate, and of a slow window in what is known of exchanges.
const FADING: f64 = 0.2;

/// By which factor the usual rate differs in another phase.
const PHASE: f64 = 1.5;

/// No window counts as more times as fast, or as slow, as the slow one before it: in that one nothing at all may have been done.
const CHANGE: f64 = 20.0;

/// Windows whose mean a low one is compared with, the part of it that is low, and how many low ones in a row are slow.
const MEAN: f64 = 64.0;
const LOW: f64 = 0.9;
const LOW_WINDOWS: u32 = 4;

/// The usual rate, and what exchanges have brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    /// The usual rate, and what it was when this phase began; 0 before the first window.
    usual: f64,
    phase: f64,
    /// The rate of the last window, if it was slow, and whether threads were exchanged then.
    slow: Option<f64>,
    exchanged: bool,
    /// Slow windows so far.
    count: u64,
    /// Mean logarithm of how many times as fast the window behind a slow one was: without and with an exchange.
    brought: [f64; 2],
    /// The mean rate of the last windows, their number, and the low ones since the last one that was not low.
    mean: f64,
    windows: f64,
    low: u32,
}

/// What a window means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sign {
    /// The usual rate of the phase that has ended with this window.
    pub(super) another_phase: Option<f64>,
    /// The threads are to be exchanged.
    pub(super) exchange: bool,
}

impl Exchange {
    /// Returns the usual rate.
    pub(super) fn usual(&self) -> f64 {
        self.usual
    }

    /// Returns the mean rate since the last barrier, for the log.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Sets the usual rate: another width is in use.
    pub(super) fn reset(&mut self, rate: f64) {
        (self.usual, self.phase) = (rate, rate);
    }

    /// A barrier opened: what was does not count for the mean.
    pub(super) fn begin(&mut self) {
        (self.windows, self.low) = (0.0, 0);
    }

    /// Takes a rate into the mean. Returns whether it is the last of several low ones.
    fn is_low(&mut self, rate: f64) -> bool {
        self.windows = (self.windows + 1.0).min(MEAN);
        self.mean += (rate - self.mean) / self.windows;
        self.low = if rate < self.mean * LOW {
            self.low + 1
        } else {
            0
        };
        let low = self.low == LOW_WINDOWS;
        if low {
            self.low = 0;
        }
        low
    }

    /// Takes the rate of a window into account. Returns what it means.
    pub(super) fn window(&mut self, rate: f64, settings: &Settings) -> Sign {
        let mut sign = Sign {
            another_phase: None,
            exchange: false,
        };
        let usual = self.usual;
        if usual == 0.0 {
            self.reset(rate);
            return sign;
        }
        self.usual += (rate - usual) * FADING;
        let phase = self.phase;
        if self.usual > phase * PHASE || self.usual * PHASE < phase {
            self.phase = self.usual;
            sign.another_phase = Some(phase);
        }
        if let Some(before) = self.slow.take() {
            let change = (rate / before).clamp(1.0 / CHANGE, CHANGE).ln();
            let brought = &mut self.brought[usize::from(self.exchanged)];
            *brought += (change - *brought) * FADING;
        }
        if self.is_low(rate) || rate < usual * settings.slow {
            self.slow = Some(rate.max(f64::MIN_POSITIVE));
            self.count += 1;
            let helps = self.brought[1] >= self.brought[0];
            self.exchanged = helps != self.count.is_multiple_of(settings.trial);
            sign.exchange = self.exchanged;
        }
        sign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_low_windows_in_a_row_are_slow_but_not_one_and_not_another_part() {
        let settings = Settings::default();
        let exchanges = |rates: &[f64]| {
            let mut exchange = Exchange::default();
            for _ in 0..20 {
                assert!(!exchange.window(100.0, &settings).exchange);
            }
            let slow = rates.iter().map(|&rate| exchange.window(rate, &settings));
            slow.filter(|sign| sign.exchange).count()
        };
        assert_eq!(exchanges(&[85.0, 85.0, 85.0, 85.0]), 1);
        assert_eq!(exchanges(&[85.0, 85.0, 85.0, 100.0, 85.0]), 0);
        assert_eq!(exchanges(&[95.0; 50]), 0);
        let mut exchange = Exchange::default();
        for _ in 0..20 {
            exchange.window(100.0, &settings);
        }
        exchange.begin();
        let slow = (0..50).filter(|_| exchange.window(85.0, &settings).exchange);
        assert_eq!(slow.count(), 0);
    }
}
