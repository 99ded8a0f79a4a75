//! What probes may cost.

/// The part of the time of `all` that may be lost. The promise is 1% over a run; the rest is for losses that noise hides from the account.
const RATE: f64 = 0.005;

/// The part of what better teams have won that may be spent on further probes.
const SHARE: f64 = 0.3;

/// An account over all regions, in the engine's unit of time. Its income follows the time that `all` would have taken, so what is spent is
/// below a part of it, whatever the length of the run, as far as measured times are true.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    balance: f64,
}

impl Ledger {
    /// Books an invocation that took `time`, and with `all` would have taken `all`.
    pub(super) fn book(&mut self, time: f64, all: f64) {
        let won = all - time;
        self.balance += RATE * all.min(time)
            + match won > 0.0 {
                true => won * SHARE,
                false => won,
            };
    }

    /// Returns whether a probe may lose `loss`.
    pub(super) fn affords(&self, loss: f64) -> bool {
        loss <= self.balance
    }
}
