//! The log of what a governor of regions decided.

use crate::name::Name;
use std::fmt;
use std::time::Duration;
use tanada_policy::{Decision, Waiting, Why};

/// A decision of a pool's governor of regions, see [`Pool::region_decisions`](crate::Pool::region_decisions).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionDecision {
    /// When it was made, since the pool was made.
    pub at: Duration,
    /// The region's name.
    pub region: Name,
    /// The number of the region's invocations before.
    pub invocations: u64,
    /// What was decided, as far as the pool has so many workers.
    pub decision: Decision,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for RegionDecision {
    /// Writes a line such as `0.012345 s  solve #12: 4 threads (2x2), sleep after 0 us: probing: shape 4, best 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionDecision {
            at,
            region,
            invocations,
            decision,
            why,
        } = self;
        let (at, threads) = (at.as_secs_f64(), decision.threads);
        let shape = decision.shape;
        let plural = if threads == 1 { "" } else { "s" };
        write!(
            f,
            "{at:.6} s  {region} #{invocations}: {threads} thread{plural} ({shape})"
        )?;
        match decision.waiting {
            Waiting::AsIs => {}
            Waiting::Spin => f.write_str(", spin")?,
            Waiting::Delay(time) => write!(f, ", delay {time} ns")?,
            Waiting::Sleep(after) => write!(f, ", sleep after {after} ns")?,
        }
        write!(f, ": {why}")
    }
}
