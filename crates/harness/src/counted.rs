//! What a recorder counted, as a row of the report.

use std::time::Duration;
use tanada_report::{OriginCounts, RunResult};
use tanada_runtime::Totals;

/// Writes into `run` what was counted while `workers` workers ran for `wall`. A mean of nothing stays absent.
pub(crate) fn describe(run: &mut RunResult, totals: &Totals, wall: Duration, workers: u16) {
    let ratio = |a: u64, b: f64| (b > 0.0).then(|| a as f64 / b);
    run.tasks = Some(totals.tasks);
    run.mean_task_ns = ratio(totals.busy_ns, totals.tasks as f64);
    run.scheduling_ns_per_task = ratio(totals.scheduling_ns, totals.turns as f64);
    let available = wall.as_nanos() as f64 * f64::from(workers);
    run.utilisation = ratio(totals.busy_ns, available);
    run.steals = Some(totals.stolen);
    run.origins = Some(OriginCounts {
        handed: totals.handed,
        own: totals.own,
        pool: totals.pool,
        mailbox: totals.mailbox,
        stolen: totals.stolen,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_nothing_is_absent_and_not_zero() {
        let mut run = RunResult::default();
        describe(&mut run, &Totals::default(), Duration::ZERO, 2);
        assert_eq!(run.tasks, Some(0));
        assert_eq!(
            (
                run.mean_task_ns,
                run.scheduling_ns_per_task,
                run.utilisation
            ),
            (None, None, None)
        );

        let totals = Totals {
            tasks: 4,
            busy_ns: 1000,
            scheduling_ns: 60,
            turns: 6,
            ..Totals::default()
        };
        describe(&mut run, &totals, Duration::from_micros(1), 2);
        assert_eq!(
            (
                run.mean_task_ns,
                run.scheduling_ns_per_task,
                run.utilisation
            ),
            (Some(250.0), Some(10.0), Some(0.5))
        );
    }
}
