//! The log of what a governor decided.

use std::fmt;
use std::time::Duration;
use tanada_policy::Why;

/// A decision of a pool's governor, see [`Pool::decisions`](crate::Pool::decisions).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// When it was made, since the pool was made.
    pub at: Duration,
    /// The number of active workers before.
    pub from: u16,
    /// The number of active workers from then on.
    pub to: u16,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for Decision {
    /// Writes a line such as `0.012345 s  8 -> 4 workers: trying a width: width 4, best so far 8, its work a period 812`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision { at, from, to, why } = self;
        let at = at.as_secs_f64();
        match from == to {
            true => write!(f, "{at:.6} s  {to} workers: {why}"),
            false => write!(f, "{at:.6} s  {from} -> {to} workers: {why}"),
        }
    }
}
