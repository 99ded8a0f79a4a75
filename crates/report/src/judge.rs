//! When one run may be called faster than another.
//!
//! Two rules hold for every sentence about speed. On a busy host, whose repeats are more than [`BUSY`] apart, no run is called faster. On
//! any host a difference below [`LEAST`], or below the spread of the two runs' repeats, is none.

use crate::headline::speed;
use crate::schema::RunResult;

/// The spread above which a host counts as busy.
pub const BUSY: f64 = 0.25;

/// The share below which a difference is none, however alike the repeats are.
pub const LEAST: f64 = 0.01;

/// Returns the spread of a run's repeats: the share by which the median repeat took longer than the shortest. `None` if the run was timed
/// once or never. A simulated run has no repeats, because its cycles are exact.
pub fn spread(run: &RunResult) -> Option<f64> {
    let seconds = run.seconds.filter(|seconds| seconds.repeats > 1)?;
    Some(seconds.median / seconds.min - 1.0).filter(|spread| spread.is_finite())
}

/// Returns the median of the runs' spreads if it is above [`BUSY`]. One run alone may vary by its nature; a busy host slows down most
/// runs.
pub fn busy<'a>(runs: impl IntoIterator<Item = &'a RunResult>) -> Option<f64> {
    let mut spreads: Vec<f64> = runs.into_iter().filter_map(spread).collect();
    spreads.sort_by(f64::total_cmp);
    let median = *spreads.get(spreads.len() / 2)?;
    (median > BUSY).then_some(median)
}

/// Returns the sentence that stands before all others on a busy host of this spread.
pub fn busy_sentence(spread: f64) -> String {
    format!(
        "The host was busy: median repeats took {:.0}% longer than the shortest, so no measured run is called faster than another.",
        spread * 100.0
    )
}

/// Returns how many times as fast `run` was as `other`; `None` if one of them has no time.
pub fn ratio(run: &RunResult, other: &RunResult) -> Option<f64> {
    Some(speed(run)? / speed(other)?)
}

/// Returns [`ratio`] if it differs from 1 by at least [`LEAST`] and by the spreads of both runs; `None` if there is no such difference.
pub fn difference(run: &RunResult, other: &RunResult) -> Option<f64> {
    let noise = |run| spread(run).unwrap_or(0.0);
    let least = LEAST.max(noise(run)).max(noise(other));
    let ratio = ratio(run, other)?;
    (ratio.max(1.0 / ratio) >= 1.0 + least).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Seconds;

    fn run(repeats: &[f64]) -> RunResult {
        RunResult {
            seconds: Seconds::of(repeats),
            ..RunResult::new("stencil", "size=8", "ts", 2)
        }
    }

    #[test]
    fn a_host_is_busy_if_most_runs_have_a_spread_above_a_quarter() {
        let (calm, wild) = (run(&[1.0, 1.1, 1.2]), run(&[1.0, 1.26, 2.0]));
        assert_eq!(busy([&calm, &calm, &wild]), None);
        let spread = busy([&calm, &wild, &wild]).expect("two of three are wild");
        assert!((spread - 0.26).abs() < 1e-9, "{spread}");
        assert!(busy_sentence(spread).contains("26% longer"));
        let limit = run(&[1.0, 1.25]);
        assert_eq!(busy([&limit]), None, "its median is 1.125");
        assert_eq!(
            busy([&run(&[4.0, 5.0, 5.0])]),
            None,
            "a quarter is not above a quarter"
        );
        assert_eq!(
            busy([&run(&[1.0]), &run(&[])]),
            None,
            "they have no repeats"
        );
    }

    #[test]
    fn differences_below_a_hundredth_or_below_the_spread_are_none() {
        let one = run(&[1.0, 1.0]);
        assert_eq!(difference(&run(&[0.991, 0.991]), &one), None);
        assert_eq!(difference(&run(&[1.009, 1.009]), &one), None);
        assert_eq!(difference(&run(&[0.5, 0.5]), &one), Some(2.0));
        assert_eq!(difference(&run(&[2.0, 2.0]), &one), Some(0.5));
        let wide = run(&[0.95, 1.14, 1.14]);
        assert_eq!(
            difference(&wide, &one),
            None,
            "5% with repeats that are 20% apart"
        );
        assert_eq!(difference(&one, &wide), None);
        assert_eq!(difference(&run(&[]), &one), None);
        let cycles = |cycles| RunResult {
            cycles: Some(cycles),
            ..run(&[])
        };
        assert_eq!(difference(&cycles(1000), &cycles(1009)), None);
        assert_eq!(difference(&cycles(1000), &cycles(1500)), Some(1.5));
    }
}
