//! *Local, there*: the program of paper 1 on the chip of paper 1, simulated.
//!
//! Some pictures of the demo video are recorded with the paper's cut (eight stages a macroblock) and its groups (pattern A), and simulated
//! on the model of its board with four cores: under policies that read no groups, and under policies that do, without groups and with them.

use super::{Stage, candidate, factor, fastest, named, row};
use crate::batch;
use crate::compare::Error;
use crate::compare::simulated::failed;
use crate::recording::{Recording, chip};
use crate::rounds::once;
use crate::simulated::{self as shared, Work};
use std::ops::ControlFlow;
use tanada_report::{BASELINE, RunResult, SEQUENTIAL, Timeline, Verdict, judge};
use tanada_sim::{Machine, Run, SimError};
use tanada_trace::{Groups, Trace};
use tanada_workloads::Way;
use tanada_workloads::workload::RecordError;

/// The workload that paper 1 parallelised.
pub(super) const WORKLOAD: &str = "h264";

/// Its cut and its groups.
const PAPER: [(&str, &str); 2] = [("tasks", "paper"), ("groups", "toshiba-a")];

/// Policies that read no groups.
const BARE: [&str; 2] = [BASELINE, "near-steal"];

/// Policies that read groups.
const GROUPED: [&str; 2] = ["ts", "ts-local"];

const SIMULATIONS: usize = BARE.len() + 2 * GROUPED.len();

/// The recording, and the simulations.
pub(super) const STEPS: u32 = 1 + SIMULATIONS as u32;

/// What this part brings: also one chart each of [`BASELINE`], the best without groups and the best with groups. All have the same tasks.
pub(super) struct There {
    pub(super) runs: Vec<RunResult>,
    pub(super) timelines: Vec<Timeline>,
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<There, Error> {
    const PART: &str = "local, there";
    stage.step(PART, "is recorded")?;
    let (workload, values) = named(WORKLOAD, &PAPER);
    let mut prepared = stage.prepare(WORKLOAD, &PAPER)?;
    // The pictures that are recorded are the middle ones of a stream, which is known once it was decoded.
    let sequential = once(&mut *prepared, Way::Sequential, &stage.options.cancel, None);
    sequential.map_err(|error| Error::of(SEQUENTIAL, error))?;
    let mut values = values.small_recording(workload.options());
    for (flag, text) in prepared.recorded_part() {
        values.set(flag, &text).map_err(failed)?;
    }
    let record = |groups| Recording::new(workload, &values, &groups, &stage.options.cancel);
    let failed_to_record = |error| match error {
        RecordError::Stopped => Error::Cancelled,
        other => failed(other),
    };
    let recording = record(Groups::Plain).map_err(failed_to_record)?;
    let ungrouped = record(Groups::None).map_err(failed_to_record)?;
    // Policies that read no groups run the tasks with groups, too: so their charts have the same colours.
    let (plain, without) = (&recording.trace, &ungrouped.trace);
    let (none, paper) = ("none", recording.made.groups);
    let [_, machine] = chip();
    let bare = BARE.map(|policy| (policy, plain, none));
    let grouped = GROUPED.map(|policy| [(policy, without, none), (policy, plain, paper)]);
    let simulations = [&bare[..], grouped.as_flattened()].concat();

    let options = stage.options;
    let one = |number: usize| {
        let (policy, trace, groups) = simulations[number];
        simulate(
            options,
            trace,
            &machine,
            policy,
            groups,
            &recording.made.extent,
        )
    };
    let mut stopped = Ok(());
    let results = batch::collect(simulations.len(), batch::host_threads(), one, |result| {
        if let Some((number, _)) = result {
            stopped = stage.step(PART, simulations[number].0);
        }
        match stopped {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    stopped?;
    let (mut runs, mut timelines) = (Vec::new(), Vec::new());
    for result in results.into_iter().flatten() {
        let (run, timeline) = result.map_err(|error| match error {
            SimError::Cancelled => Error::Cancelled,
            error => failed(error),
        })?;
        runs.push(RunResult {
            tasks_mode: recording.made.cut.to_owned(),
            frames: recording.made.frames,
            ..run
        });
        timelines.push(timeline);
    }
    shared::rate(&mut runs);
    let shown = best(&runs).map(|best| runs.iter().position(|run| std::ptr::eq(run, best)));
    let timelines = shown.into_iter().flatten().map(|at| timelines[at].clone());
    Ok(There {
        timelines: timelines.collect(),
        runs,
    })
}

/// Simulates `trace` under `policy` and returns its row and its chart.
fn simulate(
    options: &super::Options,
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    groups: &str,
    extent: &str,
) -> Result<(RunResult, Timeline), SimError> {
    let mut runs: Vec<Run> = Vec::new();
    let watch = |_| !options.cancel.is_cancelled();
    let watched = tanada_sim::Options {
        seed: Some(options.pools.seed),
        watch: Some(&watch),
        ..tanada_sim::Options::default()
    };
    let candidate = candidate(policy);
    let outcome = (candidate.simulate)(trace, machine, &watched, &mut runs)?;
    let work = Work {
        workload: WORKLOAD,
        input: extent,
        groups,
    };
    let row = shared::result(trace, machine, &outcome, &[], work)?;
    let run = RunResult {
        policy: policy.to_owned(),
        honours_groups: candidate.reads_groups(),
        groups: groups.to_owned(),
        ..row
    };
    let mut chart = shared::chart(trace, &outcome, &runs);
    if run.honours_groups {
        chart.label += &format!(", groups {groups}");
    }
    Ok((run, chart))
}

/// Returns the row of `fcfs`, that of the best policy that reads no groups, and the best with groups.
fn best(runs: &[RunResult]) -> [&RunResult; 3] {
    [
        row(runs, BASELINE, false),
        fastest(BARE[1..].iter().map(|policy| row(runs, policy, false))),
        fastest(GROUPED.map(|policy| row(runs, policy, true))),
    ]
}

/// Returns the misses of the second level.
fn l2_misses(run: &RunResult) -> Option<u64> {
    let l2 = run.caches.iter().find(|cache| cache.cache == "l2");
    l2.map(|l2| l2.misses)
}

pub(super) fn verdict(runs: &[RunResult]) -> Verdict {
    let [fcfs, bare, grouped] = best(runs);
    let policy = &grouped.policy;
    let without = row(runs, policy, false);
    let misses = match (l2_misses(grouped), l2_misses(fcfs)) {
        (Some(now), Some(before)) if now < before => {
            let fewer = 100.0 * (1.0 - now as f64 / before as f64);
            format!("; with groups it has {fewer:.0}% fewer level-2 misses than {BASELINE}")
        }
        _ => String::new(),
    };
    Verdict {
        claim: "local, there".to_owned(),
        text: format!(
            "Our decoder, cut as in paper 1, on a model of paper 1's chip: beside {policy} with groups, {BASELINE} takes {}, {} {} and \
             {policy} without groups {}{misses}.",
            cycles(grouped, fcfs),
            bare.policy,
            cycles(grouped, bare),
            cycles(grouped, without),
        ),
        reasons: vec![
            format!(
                "Without groups {policy} brings {} over {BASELINE}, which is its order; the groups bring {} more.",
                factor(judge::difference(without, fcfs)),
                factor(judge::difference(grouped, without))
            ),
            "The decoder has a task for each of eight stages of five neighbouring macroblocks, in the groups of the paper's pattern A."
                .to_owned(),
            "The chip has four cores of 333 MHz with 8 KB of level-1 cache for instructions and 8 KB for data each, and 128 KB of level-2 \
             cache; ports, bus, memory channel and dispatcher are shared. `tanada reproduce toshiba` has the paper's tables."
                .to_owned(),
            "Simulated cycles are the same on every host. The charts below have the same tasks and one scale of time.".to_owned(),
        ],
        alarm: false,
    }
}

/// Returns how many times the cycles of `run` the run `other` takes.
fn cycles(run: &RunResult, other: &RunResult) -> String {
    match judge::difference(run, other) {
        Some(ratio) => format!("{ratio:.2} times the cycles"),
        None => "as many cycles within 1%".to_owned(),
    }
}

/// Rows as those of the demonstration.
#[cfg(test)]
pub(super) fn made_up() -> Vec<RunResult> {
    let simulated = |policy: &str, groups: &str, cycles, misses| RunResult {
        groups: groups.to_owned(),
        cycles: Some(cycles),
        caches: vec![tanada_report::CacheUse {
            cache: "l2".to_owned(),
            accesses: 1000,
            misses,
            ..Default::default()
        }],
        ..RunResult::new(WORKLOAD, "pictures 1 to 8", policy, 4)
    };
    vec![
        simulated(BASELINE, "none", 1500, 300),
        simulated("near-steal", "none", 1250, 250),
        simulated("ts", "none", 1505, 300),
        simulated("ts", "toshiba-a", 1300, 260),
        simulated("ts-local", "none", 1005, 250),
        simulated("ts-local", "toshiba-a", 1000, 200),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_compared_with_the_best_without_groups_and_differences_below_a_hundredth_are_none()
    {
        let verdict = verdict(&made_up());
        assert_eq!(
            verdict.text,
            "Our decoder, cut as in paper 1, on a model of paper 1's chip: beside ts-local with groups, fcfs takes 1.50 times the cycles, \
             near-steal 1.25 times the cycles and ts-local without groups as many cycles within 1%; with groups it has 33% fewer \
             level-2 misses than fcfs."
        );
    }
}
