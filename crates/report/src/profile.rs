//! Work and span of a run, and what more workers would bring.

use serde::{Deserialize, Serialize};

/// Work and span of the tasks of a native run that was recorded.
///
/// The work is the time in all tasks, the span that in the longest path of tasks which must follow each other. No number of workers is
/// faster than the span. With `p` workers, none of which idles while a task is ready, the run takes at most (work - span) / `p` + span
/// (Brent 1974), if scheduling costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Nanoseconds in all tasks.
    pub work_ns: u64,
    /// Nanoseconds in the longest path.
    pub span_ns: u64,
    /// Nanoseconds that the recorded run took.
    pub wall_ns: u64,
    /// The tasks on the longest path, by name and line; those with most time first.
    pub path: Vec<PathPart>,
}

/// The tasks of one name and line on the longest path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPart {
    /// The tasks' name.
    pub name: String,
    /// Where the program registers them, as `file:line`; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// Their number.
    pub tasks: u64,
    /// Nanoseconds in them.
    pub ns: u64,
}

impl Profile {
    /// Returns Brent's bound for this number of workers, in nanoseconds.
    pub fn bound_ns(&self, workers: u32) -> u64 {
        (self.work_ns - self.span_ns.min(self.work_ns)) / u64::from(workers.max(1)) + self.span_ns
    }

    /// Returns the profile in a sentence or two, of a run on `workers` workers.
    #[cfg(feature = "render")]
    pub(crate) fn sentence(&self, workers: u16) -> String {
        use crate::headline::listed;
        /// Parts of the longest path that are named.
        const NAMED: usize = 3;
        let time = |ns: u64| match ns {
            0..10_000 => format!("{ns} ns"),
            10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
            _ => format!("{:.1} ms", ns as f64 / 1e6),
        };
        let workers = u32::from(workers);
        let more = [2, 4, 8].map(|times| {
            let workers = times * workers;
            format!("{} on {workers}", time(self.bound_ns(workers)))
        });
        let parts = self.path.iter().take(NAMED).map(|part| {
            let share = part.ns as f64 / self.span_ns.max(1) as f64 * 100.0;
            let line = match part.line.as_str() {
                "" => String::new(),
                line => format!(" ({line})"),
            };
            format!("{share:.0}% {}{line}", part.name)
        });
        let parts: Vec<String> = parts.collect();
        let rest = match self.path.len().checked_sub(NAMED) {
            Some(rest @ 1..) => format!(", and {rest} more"),
            _ => String::new(),
        };
        format!(
            "work {}, span {}: at most {:.1} workers are of use. \
             Measured {} on {workers}, Brent's bound {}; with more workers at most {}. The span is {}{rest}.",
            time(self.work_ns),
            time(self.span_ns),
            self.work_ns as f64 / self.span_ns.max(1) as f64,
            time(self.wall_ns),
            time(self.bound_ns(workers)),
            listed(&more),
            parts.join(", "),
        )
    }
}

/// Returns a sentence for each run that has a profile.
#[cfg(feature = "render")]
pub(crate) fn sentences(report: &crate::Report) -> Vec<String> {
    let runs = report.runs.iter();
    let sentence = |run: &crate::RunResult| {
        let profile = run.profile.as_ref()?;
        Some(format!("{}: {}", run.policy, profile.sentence(run.workers)))
    };
    runs.filter_map(sentence).collect()
}

#[cfg(all(test, feature = "render"))]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_has_the_bounds_and_where_the_span_is() {
        let part = |name: &str, line: &str, ns| PathPart {
            name: name.to_owned(),
            line: line.to_owned(),
            tasks: 1,
            ns,
        };
        let profile = Profile {
            work_ns: 90_000_000,
            span_ns: 10_000_000,
            wall_ns: 60_000_000,
            path: vec![
                part("row", "src/a.rs:7", 9_000_000),
                part("sum", "", 1_000_000),
            ],
        };
        assert_eq!(profile.bound_ns(1), 90_000_000);
        assert_eq!(
            profile.sentence(2),
            "work 90.0 ms, span 10.0 ms: at most 9.0 workers are of use. Measured 60.0 ms on 2, Brent's bound 50.0 ms; \
             with more workers at most 30.0 ms on 4, 20.0 ms on 8 and 15.0 ms on 16. The span is 90% row (src/a.rs:7), 10% sum."
        );
    }
}
