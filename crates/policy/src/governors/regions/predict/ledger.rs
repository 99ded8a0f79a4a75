//! What trying may cost.
//!
//! The rule is that of conservative bandits (Wu, Shariff, Lattimore, Szepesvari, "Conservative bandits", 2016): an account is charged with
//! the most that each team may have lost beside `all`, not with what it seems to have lost, and a team is run only if the account affords
//! the most that it may lose.

/// The part of the time of `all` that may be lost. The promise is 1% over a run; the rest is for times that are far from what is likely.
const RATE: f64 = 0.008;

/// The part of what better teams have surely won that may be spent on further probes.
const SHARE: f64 = 0.3;

/// An account over all regions, in the engine's unit of time. Its income follows the time that `all` would have taken, so what is spent is
/// below a part of it, whatever the length of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    balance: f64,
}

impl Ledger {
    /// Books an invocation beside neighbours, that took `time`, and with `all` would have taken `all`. What times vary there is not how
    /// much is known of a team, but what the neighbours do: they count as they are.
    pub(super) fn book(&mut self, time: f64, all: f64) {
        self.earn(all.min(time));
        self.correct(0.0, Ledger::charge(1, time - all));
    }

    /// Books the income of an invocation that would have taken `all` with all threads.
    pub(super) fn earn(&mut self, all: f64) {
        self.balance += RATE * all;
    }

    /// Returns the charge for `plays` invocations that lost `loss` each at most; a negative loss was won.
    pub(super) fn charge(plays: u32, loss: f64) -> f64 {
        let each = if loss > 0.0 { loss } else { loss * SHARE };
        f64::from(plays) * each
    }

    /// Books that what was charged so far, `before`, is known better now.
    pub(super) fn correct(&mut self, before: f64, now: f64) {
        self.balance += before - now;
    }

    /// Returns whether an invocation may lose `loss`.
    pub(super) fn affords(&self, loss: f64) -> bool {
        loss <= 0.0 || loss <= self.balance
    }
}
