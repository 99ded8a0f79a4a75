//! When running threads are exchanged for waiting ones, because they are slow together.

use super::Settings;

/// The part of a window in the usual rate, and of a slow window in what is known of exchanges.
const FADING: f64 = 0.2;

/// By which factor the usual rate differs in another phase.
const PHASE: f64 = 1.5;

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

    /// Sets the usual rate: another width is in use.
    pub(super) fn reset(&mut self, rate: f64) {
        (self.usual, self.phase) = (rate, rate);
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
            let change = (rate / before).max(0.05).ln();
            let brought = &mut self.brought[usize::from(self.exchanged)];
            *brought += (change - *brought) * FADING;
        }
        if rate < usual * settings.slow {
            self.slow = Some(rate.max(f64::MIN_POSITIVE));
            self.count += 1;
            let helps = self.brought[1] >= self.brought[0];
            self.exchanged = helps != self.count.is_multiple_of(settings.trial);
            sign.exchange = self.exchanged;
        }
        sign
    }
}
