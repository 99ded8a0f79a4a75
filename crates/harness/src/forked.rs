//! What is measured of a program of nested forks. Its closures are no tasks: the runtime calls most of them like functions, and no observer
//! sees them. Counted instead are the jobs that workers ran, and measured are the strands between forks and joins.

use std::time::Duration;
use tanada_report::{PathPart, Profile};
use tanada_runtime::Totals;
use tanada_runtime::fork::ForkRecorder;

/// Returns what `recorder` counted in one run of this length, with jobs for tasks, and the work and span of its strands.
pub(crate) fn measured(recorder: &ForkRecorder, wall: Duration) -> (Totals, Profile) {
    let found = recorder.profile();
    let totals = Totals {
        tasks: found.jobs,
        busy_ns: found.busy_ns,
        own: found.own,
        pool: found.from_outside,
        mailbox: found.mail,
        stolen: found.steals.values().sum(),
        ..Totals::default()
    };
    let on_the_path = found.places.into_iter().filter(|of| of.span_ns > 0);
    let mut path: Vec<PathPart> = on_the_path
        .map(|of| PathPart {
            name: of.place.name,
            line: of.place.line,
            tasks: of.span_strands,
            ns: of.span_ns,
        })
        .collect();
    path.sort_by_key(|part| std::cmp::Reverse(part.ns));
    let profile = Profile {
        work_ns: found.work_ns,
        span_ns: found.span_ns,
        wall_ns: wall.as_nanos() as u64,
        path,
    };
    (totals, profile)
}
