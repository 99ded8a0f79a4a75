//! The demonstration: what `tanada compare` shows without arguments, in four verdicts.
//!
//! - *right*: the demo video, decoded under every policy; every frame is compared ([`compare`]).
//! - *light*: what a task of 100 ns costs beside the same work in a loop (`light`).
//! - *local, here*: a stencil and an image pipeline on this machine, as tasks with and without groups, and as parallel loops (`here`).
//! - *local, there*: the program of paper 1 on the chip of paper 1, simulated (`there`).
//!
//! A verdict is one sentence, and its figures are rows of the report. [`tanada_report::judge`] says when a row may be called faster.
//! A demonstration has a choice to make: its modules name policies, workloads and machines, which the rest of the harness does not.

mod here;
mod light;
mod there;

use crate::compare::{self, Candidate, Error, Found, Step};
use crate::rounds::{self, Engine, Pools, Row, Turn, once, site};
use std::time::{Duration, Instant};
use tanada_report::judge;
use tanada_report::{Report, RunResult, Verdict};
use tanada_runtime::Cancel;
use tanada_topology::Topology;
use tanada_workloads::workload::RunError;
use tanada_workloads::{Prepared, Purpose, Values, Workload, find, values_of};

/// How the demonstration runs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Workers, binding and seed of each pool.
    pub pools: Pools,
    /// Whether inputs are so small that it takes some seconds. The verdicts then show that it works, and not what it gains.
    pub small: bool,
    /// Stops the demonstration.
    pub cancel: Cancel,
}

/// Rounds that each row of a timed part has in any case: fewer say nothing about the spread.
const FEWEST_ROUNDS: u32 = 3;

/// What parts share.
struct Stage<'a> {
    options: &'a Options,
    topology: Topology,
    progress: &'a mut dyn FnMut(Step<'_>),
    /// Steps of the parts that have ended, and of all parts.
    done: u32,
    of: u32,
}

impl Stage<'_> {
    /// Reports that a step of `part` begins.
    fn step(&mut self, part: &str, what: &str) -> Result<(), Error> {
        if self.options.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        (self.progress)(Step {
            done: self.done,
            of: self.of,
            policy: part,
            purpose: what,
        });
        self.done += 1;
        Ok(())
    }

    fn workers(&self) -> u16 {
        self.options.pools.workers_on(&self.topology)
    }

    /// Returns the demonstration's workload `name` with `pairs` of its options, prepared for this machine.
    fn prepare(&self, name: &str, pairs: &[(&str, &str)]) -> Result<Box<dyn Prepared>, Error> {
        let (workload, values) = named(name, pairs);
        let site = site(&self.topology.place(self.workers()));
        Ok(workload.prepare(&values, &site)?)
    }

    fn engine(&self, policy: &str) -> Result<Engine, Error> {
        let candidate = candidate(policy);
        let builder = self.options.pools.builder(&self.topology);
        let pool = candidate.pool(builder, None);
        Ok(Engine::Tasks(pool.map_err(|source| Error::Build {
            policy: policy.to_owned(),
            source,
        })?))
    }

    /// Runs `engines` in turns, `rounds` times at the most, and returns their rows; after [`FEWEST_ROUNDS`] no further round begins once
    /// `budget` is spent. The first member of an engine is the place of its workload in `prepared`.
    fn rounds(
        &mut self,
        part: &str,
        prepared: &mut [Box<dyn Prepared>],
        engines: Vec<(usize, Engine)>,
        rounds: u32,
        budget: Duration,
    ) -> Result<Vec<(usize, Row)>, Error> {
        let (begun, lanes) = (Instant::now(), engines.len() as u32);
        let (first, planned) = (self.done, self.done + rounds * lanes);
        let cancel = &self.options.cancel.clone();
        let lanes = rounds::in_turns(rounds, engines, |round, (workload, engine)| {
            let name = engine.name();
            self.step(part, &format!("{name}, round {}", round + 1))?;
            let wall = once(&mut *prepared[*workload], engine.way(), cancel, None);
            let wall = wall.map_err(|error| Error::of(name, error))?;
            let whole = (self.done - first).is_multiple_of(lanes);
            Ok::<_, Error>(
                match whole && round + 1 >= FEWEST_ROUNDS && begun.elapsed() > budget {
                    true => Turn::Last(wall),
                    false => Turn::Sample(wall),
                },
            )
        })?;
        self.done = planned;
        let rows = lanes.into_iter().map(|lane| {
            let (workload, engine) = lane.engine;
            let row = Row {
                engine,
                samples: lane.samples,
                failed: lane.failed,
            };
            (workload, row)
        });
        Ok(rows.collect())
    }
}

fn candidate(policy: &str) -> Candidate {
    Candidate::registered(policy).expect("the demonstration names registered policies")
}

/// Returns the workload `name` and its values for runs, of which `pairs` are set.
fn named(name: &str, pairs: &[(&str, &str)]) -> (&'static dyn Workload, Values) {
    let workload = find(name).expect("the demonstration names registered workloads");
    let values = values_of(workload, Purpose::Run).with(pairs);
    (
        workload,
        values.expect("the demonstration names options of the workload"),
    )
}

/// Runs the demonstration. `progress` is called for every step that begins.
///
/// # Errors
/// As [`compare::run`]. Frames that differ are no error; they are reported in [`Found::differences`].
pub fn run(options: &Options, progress: &mut dyn FnMut(Step<'_>)) -> Result<Found, Error> {
    let candidates = Candidate::all();
    let of_right = compare::steps(candidates.len() as u32, 0, false);
    let mut stage = Stage {
        options,
        topology: Topology::detect()?,
        progress,
        done: 0,
        of: of_right + light::STEPS + here::STEPS + there::STEPS,
    };
    let mut found = right(&mut stage, &candidates)?;
    stage.done = of_right;
    let light = light::run(&mut stage)?;
    let here = here::run(&mut stage)?;
    let there = there::run(&mut stage)?;
    let caches = here::caches(&stage.topology);
    let report = &mut found.report;
    report.verdicts = verdicts(
        report,
        &found.differences,
        &light,
        &here,
        &there.runs,
        caches,
    );
    for runs in [light, here, there.runs] {
        report.runs.extend(runs);
    }
    report.timelines = there.timelines;
    Ok(found)
}

/// Returns the four verdicts. If the host was busy in a timed part, a sentence before them says so, and no timed part is judged.
fn verdicts(
    right: &Report,
    differences: &[compare::Difference],
    light: &[RunResult],
    here: &[RunResult],
    there: &[RunResult],
    caches: u64,
) -> Vec<Verdict> {
    let parts = [(light::CLAIM, judge::busy(light))].into_iter();
    let parts = parts.chain(here::programs(here).map(|(name, runs)| (name, judge::busy(&runs))));
    let (busy, spreads): (Vec<&str>, Vec<f64>) =
        parts.filter_map(|(part, busy)| Some((part, busy?))).unzip();
    let mut verdicts = Vec::new();
    if let Some(worst) = spreads.into_iter().max_by(f64::total_cmp) {
        verdicts.push(Verdict {
            claim: "attention".to_owned(),
            text: format!(
                "The host was busy ({}): median repeats took up to {:.0}% longer than the shortest. The tables have what was measured.",
                busy.join(", "),
                worst * 100.0
            ),
            ..Verdict::default()
        });
    }
    let not_judged = |claim: &str| Verdict {
        claim: claim.to_owned(),
        text: NOT_JUDGED.to_owned(),
        ..Verdict::default()
    };
    verdicts.push(verdict_of_right(right, differences));
    verdicts.extend(match busy.is_empty() {
        true => [light::verdict(light), here::verdict(here, caches)],
        false => [light::CLAIM, here::CLAIM].map(not_judged),
    });
    verdicts.push(there::verdict(there));
    verdicts
}

/// The verdict of a timed part on a busy host.
const NOT_JUDGED: &str = "Not judged.";

/// Decodes the demo video under every policy and compares every frame.
fn right(stage: &mut Stage<'_>, candidates: &[Candidate]) -> Result<Found, Error> {
    let part: &[(&str, &str)] = match stage.options.small {
        true => &[("units", "16")],
        false => &[],
    };
    let (workload, values) = named(there::WORKLOAD, part);
    let options = compare::Options {
        pools: stage.options.pools,
        repeat: 0,
        simulate: false,
        name: None,
        cancel: stage.options.cancel.clone(),
    };
    let of = stage.of;
    let found = compare::run_with_progress(workload, &values, candidates, &options, |step| {
        (stage.progress)(Step { of, ..step });
    });
    let mut found = found?;
    found.report.title = "Right, light, local: a demonstration of Tanada".to_owned();
    Ok(found)
}

fn verdict_of_right(report: &Report, differences: &[compare::Difference]) -> Verdict {
    let frames = report.runs.iter().find_map(|run| run.frames).unwrap_or(0);
    let compared = report.runs.iter().filter(|run| run.identical.is_some());
    let policies = compared
        .filter(|run| run.policy != tanada_report::TODAY)
        .count();
    let text = match differences {
        [] => format!(
            "All {frames} frames of the demo video are the sequential decoder's, bit by bit, under each of {policies} policies."
        ),
        differences => format!(
            "FRAMES DIFFER from those of the sequential decoder under {}.",
            differences
                .iter()
                .map(|one| &*one.policy)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Verdict {
        claim: "right".to_owned(),
        text,
        reasons: vec![
            "Each policy decoded the video three times; each frame was compared. A dependency that is missing or a policy that loses a \
             task shows as a wrong sample."
                .to_owned(),
            "Parallel loops with barriers (the row `today`) were compared, too. This verdict says nothing about speed: a picture fits into \
             the caches, and `tanada compare h264` measures it."
                .to_owned(),
        ],
        alarm: !differences.is_empty(),
    }
}

/// Returns `1.80 x`, or that there is no such difference.
fn factor(difference: Option<f64>) -> String {
    match difference {
        Some(ratio) => format!("{ratio:.2} x"),
        None => "nothing measurable".to_owned(),
    }
}

/// Returns the error of a part whose workload refused an input that the demonstration chose.
fn refused(what: RunError) -> Error {
    Error::Prepare(what)
}

/// Returns the row of `policy`, with groups if `grouped`.
fn row<'a>(runs: &'a [RunResult], policy: &str, grouped: bool) -> &'a RunResult {
    let wanted = |run: &&RunResult| {
        run.policy == policy && matches!(run.groups.as_str(), "" | "none") != grouped
    };
    runs.iter().find(wanted).expect("each part has its rows")
}

/// Returns the fastest of `runs`.
fn fastest<'a>(runs: impl IntoIterator<Item = &'a RunResult>) -> &'a RunResult {
    let mut runs = runs.into_iter();
    let first = runs.next().expect("there is a row");
    runs.fold(first, |best, run| {
        match judge::ratio(run, best).is_some_and(|ratio| ratio > 1.0) {
            true => run,
            false => best,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timed_part_is_judged_on_a_busy_host() {
        let right = Report::new("t");
        for (of_light, of_here) in [(1.0, 1.0), (1.2, 1.0), (1.3, 1.0), (1.0, 1.4), (1.3, 1.4)] {
            let (light, here) = (light::made_up(of_light), here::made_up(of_here));
            let all = verdicts(&right, &[], &light, &here, &there::made_up(), 1 << 20);
            let (first, last) = all.split_at(all.len() - 4);
            let claims: Vec<&str> = last.iter().map(|verdict| &*verdict.claim).collect();
            assert_eq!(claims, ["right", "light", "local, here", "local, there"]);
            let named = match (of_light > 1.25, of_here > 1.25) {
                (false, false) => None,
                (true, false) => Some("(light)"),
                (false, true) => Some("(stencil, pipeline)"),
                (true, true) => Some("(light, stencil, pipeline)"),
            };
            let not_judged = last.iter().map(|verdict| verdict.text == NOT_JUDGED);
            let timed = named.is_some();
            assert_eq!(not_judged.collect::<Vec<_>>(), [false, timed, timed, false]);
            assert_eq!(last[2].text.contains("times as fast"), !timed, "{all:?}");
            assert_eq!(first.len(), usize::from(timed), "{all:?}");
            if let Some(named) = named {
                assert!(
                    first[0].claim == "attention" && first[0].text.contains(named),
                    "{all:?}"
                );
            }
        }
    }

    #[test]
    fn frames_that_differ_are_an_alarm_that_names_the_policy() {
        let difference = compare::Difference {
            policy: "ts".to_owned(),
            what: "1 of 128 frames differ".to_owned(),
        };
        let verdict = verdict_of_right(&Report::new("t"), &[difference]);
        assert!(
            verdict.alarm && verdict.text.contains("under ts."),
            "{verdict:?}"
        );
    }
}
