//! The wavefront of a video decoder: 120 x 68 tasks a frame, each of which waits for its left, upper and upper right neighbour; 20
//! frames, one after the other (fewer at once if they take longer than 10 ms).
//!
//! Each peer runs two graphs: `edges=3` has all of these dependencies as edges, `edges=2` leaves out the edge from the upper neighbour,
//! which the two others imply. Order and result are the same, and the checks look at all three dependencies. Tanada's templates drop
//! implied edges when they are built, so both graphs are one for Tanada.
//!
//! `core_ns_per_task` is workers x time / tasks, less what a body takes in plain loops (as many at once as there are workers, in the same
//! process, before and after): what a task costs beside its work. `metg_ns` (minimum effective task granularity) is the length at which a
//! body is as long as that cost, interpolated between the measured bodies in which every worker took part; the params of its row name the
//! edges alone. `least_worker_share` is the least part of the tasks that one worker ran, in the same run.

use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::programs::{COLUMNS, EDGES, Edges, Program, ROWS, TASKS};
use crate::samples::{Row, Sample, Series, metg, took_part};
use std::time::{Duration, Instant};

pub(crate) const CASE: Case = Case {
    name: "wavefront",
    about: "120 x 68 tasks a frame that wait for left, above and above right; 20 frames, bodies of 0 to 10 us; \
            edges=2 leaves out the edge that two others imply (Tanada's templates drop it from edges=3, too)",
    workload: None,
    workers: &[1, 2],
    params,
    rounds: 7,
    quick_rounds: 3,
    measure,
    derive,
};

const FRAMES: u32 = 20;

/// Longer bodies run fewer frames with `--quick`.
const LONG_NS: f64 = 1000.0;

const BODIES: &[(&str, f64)] = &[
    ("body=0ns", 0.0),
    ("body=50ns", 50.0),
    ("body=100ns", 100.0),
    ("body=200ns", 200.0),
    ("body=500ns", 500.0),
    ("body=1us", 1000.0),
    ("body=10us", 10_000.0),
];

fn params() -> Vec<String> {
    let of = |edges| BODIES.iter().map(move |(body, _)| params_of(body, edges));
    Vec::from_iter(EDGES.into_iter().flat_map(of))
}

fn params_of(body: &str, edges: Edges) -> String {
    format!("{body},{}", edges.params())
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    native::grid(COLUMNS, ROWS, EDGES[0]);
    let mut program = peer.open(&CASE, job.workers)?;
    let mut samples = Vec::new();
    for edges in EDGES {
        let bodies = BODIES
            .iter()
            .map(|&(body, ns)| (params_of(body, edges), ns));
        let mut bodies = bodies.filter(|(name, _)| job.wants(name)).peekable();
        if bodies.peek().is_none() {
            continue;
        }
        native::grid(COLUMNS, ROWS, edges);
        program.build(edges);
        native::set_body(50.0, job.rate)?;
        let wrong = native::checked(3, |frames| program.run(frames));
        if wrong > 0 {
            return Err(format!("{wrong} tasks ran too early, twice or not at all").into());
        }
        for (name, ns) in bodies {
            native::set_body(ns, job.rate)?;
            let (cost, share) = measure_body(job, program.as_mut(), ns);
            let values = [("core_ns_per_task", cost), ("least_worker_share", share)];
            samples.push(Sample::new(&name, &values));
        }
        program.discard();
    }
    Ok(samples)
}

/// Returns the cost of a task and the least share of a worker with bodies of `ns`.
///
/// A processor changes its clock within milliseconds, by more than what is to be measured. So the frames run in parts of some
/// milliseconds, each between two measurements of the body; a part during which the clock changed does not count, and of the others the
/// lower quartile is the result of this process: not the least, during which the clock may have changed and changed back.
fn measure_body(job: &Job, program: &mut dyn Program, ns: f64) -> (f64, f64) {
    let start = Instant::now();
    program.run(1);
    let frames = frames_a_part(start.elapsed());
    let number = match job.quick {
        true if ns > LONG_NS => 2,
        true => 4,
        false => 10,
    };
    let mut parts = Vec::new();
    let mut before = native::body_ns(ns, job.workers);
    for _ in 0..number {
        let mut time = 0.0;
        let share = native::least_share(job.workers, || {
            let start = Instant::now();
            program.run(frames);
            time = start.elapsed().as_nanos() as f64;
        });
        let after = native::body_ns(ns, job.workers);
        let core_time = f64::from(job.workers) * time / (f64::from(TASKS) * f64::from(frames));
        parts.push(Part {
            cost: core_time - (before + after) / 2.0,
            share,
            drift: (before - after).abs() / before.min(after),
        });
        before = after;
    }
    let part = typical(parts, job.workers);
    (part.cost, part.share)
}

/// Returns the number of frames that run at once if one takes `one`: all, unless they take longer than a clock stays constant.
fn frames_a_part(one: Duration) -> u32 {
    const PART: Duration = Duration::from_millis(10);
    let fit = PART.as_nanos() / one.as_nanos().max(1);
    (fit as u32).clamp(1, FRAMES)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    cost: f64,
    share: f64,
    /// How much the length of the body changed meanwhile.
    drift: f64,
}

/// Returns the part at the lower quartile of costs, of those in which every worker took part (of all, if there is none) and without drift;
/// if fewer than half have none, of the half with the least drift.
fn typical(mut parts: Vec<Part>, workers: u16) -> Part {
    const STEADY: f64 = 0.01;
    if parts.iter().any(|part| took_part(part.share, workers)) {
        parts.retain(|part| took_part(part.share, workers));
    }
    parts.sort_by(|a, b| a.drift.total_cmp(&b.drift));
    let steady = parts.iter().filter(|part| part.drift < STEADY).count();
    parts.truncate(steady.max(parts.len().div_ceil(2)));
    parts.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    parts[parts.len() / 4]
}

fn derive(series: &[Series]) -> Vec<Row> {
    let row = |edges: Edges| {
        let mut points = Vec::new();
        for &(body, ns) in BODIES {
            let name = params_of(body, edges);
            let of_body = series.iter().find(|series| series.params == name);
            if let Some(series) = of_body
                && series.best().1.all_took_part(series.workers)
            {
                points.push((ns, series.best().1.values[0].1));
            }
        }
        Some(Row {
            params: edges.params().to_owned(),
            metric: "metg_ns",
            value: metg(&points)?,
            spread: None,
            setting: "",
        })
    };
    EDGES.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metg_counts_only_bodies_in_which_every_worker_took_part() {
        let run = |name: &str, cost: f64, share: f64| {
            (
                "",
                Sample::new(
                    name,
                    &[("core_ns_per_task", cost), ("least_worker_share", share)],
                ),
            )
        };
        let runs = [
            run("body=0ns,edges=2", 5.0, 0.01),
            run("body=50ns,edges=2", 80.0, 0.45),
            run("body=200ns,edges=2", 80.0, 0.5),
        ];
        let rows = derive(&Series::collect(2, runs));
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].params.as_str(), rows[0].metric, rows[0].value),
            ("edges=2", "metg_ns", 80.0)
        );
    }

    #[test]
    fn a_part_is_short_but_a_frame_at_least() {
        let frames = [1, 800, 4000, 90_000].map(|us| frames_a_part(Duration::from_micros(us)));
        assert_eq!(frames, [20, 12, 2, 1]);
    }

    #[test]
    fn parts_in_which_the_clock_changed_do_not_count() {
        let part = |cost, drift| Part {
            cost,
            share: 0.5,
            drift,
        };
        let parts = vec![
            part(-90.0, 0.2),
            part(12.0, 0.0),
            part(11.0, 0.002),
            part(13.0, 0.0),
            part(500.0, 0.004),
            part(10.0, 0.3),
        ];
        assert_eq!(typical(parts, 2).cost, 12.0);
        let none = vec![
            part(-90.0, 0.2),
            part(12.0, 0.05),
            part(13.0, 0.1),
            part(500.0, 0.4),
        ];
        assert_eq!(typical(none, 2).cost, 12.0, "of the two steadiest");
    }
}
