//! Samples, which child processes report, and the arithmetic that turns them into rows.

use crate::cases::{Better, metric_of};
use serde::{Deserialize, Serialize};

/// The result of one run of one peer: a leading value, by which runs are compared, and further values of the same run. A child process
/// prints each sample as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) params: String,
    pub(crate) values: Vec<(String, f64)>,
}

/// Returns whether a worker that ran this share of the tasks took part: six tenths of an even share do, 30% of all tasks with two workers.
pub(crate) fn took_part(share: f64, workers: u16) -> bool {
    const LEAST: f64 = 0.6;
    share >= LEAST / f64::from(workers)
}

impl Sample {
    /// Returns a sample; the first of `values` is the leading one.
    pub(crate) fn new(params: &str, values: &[(&str, f64)]) -> Sample {
        let own = |&(name, value): &(&str, f64)| (name.to_owned(), value);
        Sample {
            params: params.to_owned(),
            values: values.iter().map(own).collect(),
        }
    }

    /// Returns whether every worker took part; `true` if the sample has no shares.
    pub(crate) fn all_took_part(&self, workers: u16) -> bool {
        let mut values = self.values.iter();
        let share = values.find(|(metric, _)| metric == "least_worker_share");
        share.is_none_or(|&(_, share)| took_part(share, workers))
    }
}

/// All runs of one peer at one number of workers that measured the same thing.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) params: String,
    pub(crate) workers: u16,
    /// The leading metric.
    pub(crate) leading: String,
    /// Each with the label of the setting in which it ran.
    pub(crate) samples: Vec<(&'static str, Sample)>,
}

impl Series {
    /// Returns the samples as series, in the order in which their params and leading metric first appear.
    pub(crate) fn collect(
        workers: u16,
        samples: impl IntoIterator<Item = (&'static str, Sample)>,
    ) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for (setting, sample) in samples {
            let leading = sample.values[0].0.clone();
            let mut series = all.iter_mut();
            match series.find(|s| s.params == sample.params && s.leading == leading) {
                Some(series) => series.samples.push((setting, sample)),
                None => all.push(Series {
                    params: sample.params.clone(),
                    workers,
                    leading,
                    samples: vec![(setting, sample)],
                }),
            }
        }
        all
    }

    /// Returns the run with the best leading value, and its setting. Runs in which every worker took part come first.
    pub(crate) fn best(&self) -> (&'static str, &Sample) {
        let better = metric_of(&self.leading).better;
        let key = |sample: &Sample| match better {
            Better::Less => sample.values[0].1,
            Better::More => -sample.values[0].1,
        };
        let alone = |sample: &Sample| !sample.all_took_part(self.workers);
        let best = self.samples.iter().min_by(|(_, a), (_, b)| {
            let costs = key(a).total_cmp(&key(b));
            alone(a).cmp(&alone(b)).then(costs)
        });
        let (setting, sample) = best.expect("a series has a sample");
        (setting, sample)
    }

    /// Returns the distance of the median of the runs in the best setting from the best run, as a part of the best; `None` if there was one
    /// run.
    pub(crate) fn spread(&self) -> Option<f64> {
        let (setting, best) = self.best();
        let best = best.values[0].1;
        let of_setting = self.samples.iter().filter(|s| s.0 == setting);
        let mut values: Vec<f64> = of_setting.map(|s| s.1.values[0].1).collect();
        values.sort_by(f64::total_cmp);
        // A distance relative to a cost of about 0 would be large.
        let least = match &*self.leading {
            "core_ns_per_task" | "idle_percent_of_core" => 1.0,
            _ => 0.0,
        };
        let whole = best.abs().max(least);
        (values.len() > 1).then(|| (values[values.len() / 2] - best).abs() / whole)
    }

    /// Returns a row for each metric of the best run.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let (setting, best) = self.best();
        let row = |(metric, value): &(String, f64)| Row {
            params: self.params.clone(),
            metric: metric_of(metric).name,
            value: *value,
            spread: self.spread().filter(|_| *metric == self.leading),
            setting,
        };
        best.values.iter().map(row).collect()
    }
}

/// A result of one peer at one number of workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) params: String,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    /// How far the median run is from the best, as a part of `value`.
    pub(crate) spread: Option<f64>,
    pub(crate) setting: &'static str,
}

/// Returns the length at which a body equals its overhead: the body at which the line through the measured (body, overhead), ascending,
/// first meets overhead = body. `None` if it never does, or if the shortest measured body is longer than its overhead already: then the
/// length is not known.
pub(crate) fn metg(points: &[(f64, f64)]) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let ((b0, o0), (b1, o1)) = (pair[0], pair[1]);
        // Above the diagonal by `d0` before, below it by `-d1` after.
        let (d0, d1) = (o0 - b0, o1 - b1);
        (d0 > 0.0 && d1 <= 0.0).then(|| b0 + (b1 - b0) * d0 / (d0 - d1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metg_is_where_body_and_overhead_meet() {
        // Constant overhead of 30 ns.
        let flat = [(0.0, 30.0), (50.0, 30.0), (100.0, 30.0)];
        assert!((metg(&flat).expect("it crosses") - 30.0).abs() < 1e-9);
        // From 10 at 0 to 40 at 50: o = 10 + 0.6 b, which is b at 25.
        let rising = [(0.0, 10.0), (50.0, 40.0)];
        assert!((metg(&rising).expect("it crosses") - 25.0).abs() < 1e-9);
        // Above the diagonal at 100, below at 200.
        let far = [(0.0, 900.0), (100.0, 150.0), (200.0, 150.0), (500.0, 100.0)];
        assert!((metg(&far).expect("it crosses") - 150.0).abs() < 1e-9);
        assert_eq!(
            metg(&[(0.0, 900.0), (100.0, 800.0)]),
            None,
            "never efficient"
        );
        let efficient = [(50.0, 20.0), (100.0, 20.0)];
        assert_eq!(metg(&efficient), None, "shorter ones were not measured");
        assert_eq!(metg(&[]), None);
    }

    #[test]
    fn lines_survive_the_protocol() {
        let samples = [
            Sample::new(
                "body=100ns",
                &[("core_ns_per_task", -0.125), ("least_worker_share", 0.5)],
            ),
            Sample::new("", &[("metg_ns", 1e-7)]),
        ];
        for sample in samples {
            let line = serde_json::to_string(&sample).expect("plain data");
            assert_eq!(serde_json::from_str::<Sample>(&line).ok(), Some(sample));
        }
        for line in [
            "",
            "sample",
            "{}",
            r#"{"params":"a"}"#,
            r#"{"params":"a","values":[["c"]]}"#,
            r#"{"params":"a","values":[["c","d"]]}"#,
        ] {
            assert!(serde_json::from_str::<Sample>(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn the_best_run_gives_all_values_and_the_median_the_spread() {
        let run = |setting, idle: f64, seconds: f64| {
            (
                setting,
                Sample::new(
                    "sections=2s",
                    &[("idle_percent_of_core", idle), ("seconds", seconds)],
                ),
            )
        };
        let runs = [
            run("a", 30.0, 0.5),
            run("b", 12.0, 0.4),
            run("b", 10.0, 0.3),
            run("b", 15.0, 0.2),
            run("a", 40.0, 0.1),
        ];
        let series = Series::collect(2, runs);
        assert_eq!(series.len(), 1);
        let rows = series[0].rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].metric, rows[0].value, rows[0].setting),
            ("idle_percent_of_core", 10.0, "b")
        );
        assert_eq!(
            (rows[1].metric, rows[1].value, rows[1].spread),
            ("seconds", 0.3, None)
        );
        let spread = rows[0].spread.expect("the leading value has one");
        assert!(
            (spread - 0.2).abs() < 1e-9,
            "the median of 10, 12, 15 is 12: {spread}"
        );
    }

    #[test]
    fn a_run_by_one_worker_alone_is_not_the_best_of_two() {
        let run = |cost: f64, share: f64| {
            (
                "",
                Sample::new(
                    "",
                    &[("core_ns_per_task", cost), ("least_worker_share", share)],
                ),
            )
        };
        let best = |runs: &[(&'static str, Sample)]| {
            Series::collect(2, runs.to_vec())[0].best().1.values[0].1
        };
        assert_eq!(
            best(&[run(10.0, 0.2), run(40.0, 0.45), run(30.0, 0.35)]),
            30.0
        );
        assert_eq!(
            best(&[run(10.0, 0.01), run(9.0, 0.0)]),
            9.0,
            "if there is nothing else"
        );
    }

    #[test]
    fn one_run_has_no_spread() {
        let one = Series::collect(
            1,
            [("", Sample::new("body=0ns", &[("core_ns_per_task", 9.0)]))],
        );
        assert_eq!(one[0].rows()[0].spread, None);
    }

    #[test]
    fn more_is_better_if_the_metric_says_so() {
        let runs =
            [0.2, 0.4, 0.3].map(|share| ("", Sample::new("", &[("least_worker_share", share)])));
        assert_eq!(Series::collect(1, runs)[0].best().1.values[0].1, 0.4);
    }
}
