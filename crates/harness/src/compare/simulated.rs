//! The simulated half of a comparison: a small part of the work, recorded, on the chip of paper 1.
//!
//! The recording has the tasks, groups and data accesses of the native run; computation and code are charged by the recorder's own table of
//! costs. The chip comes in two models: in one a miss always costs the same, in the other ports, bus and memory are shared and the
//! dispatcher takes time.

use super::{Candidate, Error, Options, window};
use crate::batch;
use crate::candidate::Simulate;
use crate::recording::{Recording, chip};
use crate::simulated::{self as shared, Work};
use std::ops::ControlFlow;
use tanada_report::{RunResult, Timeline};
use tanada_sim::{Outcome, Run, SimError};
use tanada_trace::Groups;
use tanada_workloads::workload::{Phase, RecordError};
use tanada_workloads::{Prepared, Values, Workload};

/// What is simulated.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) workload: &'a str,
    pub(super) input: &'a str,
    /// The phase that charts show.
    pub(super) phase: Option<&'a Phase>,
}

/// Records a small part of what a run with `values` does, and returns the recording.
pub(super) fn record(
    workload: &dyn Workload,
    values: &Values,
    prepared: &dyn Prepared,
    options: &Options,
) -> Result<Recording, Error> {
    let mut values = values.small_recording(workload.options());
    for (flag, text) in prepared.recorded_part() {
        values.set(flag, &text).map_err(failed)?;
    }
    let recorded = Recording::new(workload, &values, &Groups::Plain, &options.cancel);
    recorded.map_err(|error| match error {
        RecordError::Stopped => Error::Cancelled,
        other => failed(other),
    })
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Simulation {
        what: error.to_string(),
    }
}

/// The rows and charts of the simulations.
#[derive(Default)]
pub(super) struct Half {
    pub(super) runs: Vec<RunResult>,
    pub(super) timelines: Vec<Timeline>,
}

/// Simulates `recording` under each candidate on each machine of [`chip`], on as many threads as there are, and returns rows and charts.
/// `ended` is called after every simulation with its policy and machine.
pub(super) fn simulate(
    recording: &Recording,
    task: Task<'_>,
    candidates: &[Candidate],
    options: &Options,
    mut ended: impl FnMut(&str, &str),
) -> Result<Half, Error> {
    let machines = chip();
    let made = &recording.made;
    let input = match made.source {
        Some(_) => format!("{}, {}", task.input, made.extent),
        None => made.extent.clone(),
    };
    let work = Work {
        workload: task.workload,
        input: &input,
        groups: made.groups,
    };
    let policies = candidates.len();
    let count = machines.len() * policies;
    // A candidate also makes pools, which are not shared by threads.
    let simulations: Vec<&Simulate> = candidates.iter().map(|one| &*one.simulate).collect();
    let one = |number: usize| -> Result<(RunResult, Option<Timeline>), SimError> {
        let (machine, policy) = (number / policies, number % policies);
        let charted = machine + 1 == machines.len();
        let machine = &machines[machine];
        let mut runs: Vec<Run> = Vec::new();
        let trace = &recording.trace;
        let watch = |_| !options.cancel.is_cancelled();
        let watched = tanada_sim::Options {
            seed: Some(options.pools.seed),
            watch: Some(&watch),
            ..tanada_sim::Options::default()
        };
        let outcome = simulations[policy](trace, machine, &watched, &mut runs)?;
        // The order of runs differs little between the models; in the first only caches decide it.
        let reused = if number < policies { &runs[..] } else { &[] };
        let result = shared::result(trace, machine, &outcome, reused, work)?;
        let timeline = charted.then(|| chart(recording, &outcome, &runs, task.phase));
        Ok((result, timeline))
    };
    let results = batch::collect(count, batch::host_threads(), one, |result| {
        if let Some((number, _)) = result {
            let (machine, candidate) = (number / policies, number % policies);
            ended(candidates[candidate].name(), &machines[machine].name);
        }
        ControlFlow::Continue(())
    });
    let mut half = Half::default();
    for (number, result) in results.into_iter().flatten().enumerate() {
        let candidate = &candidates[number % candidates.len()];
        let (result, timeline) = result.map_err(|error| match error {
            SimError::Cancelled => Error::Cancelled,
            error => failed(error),
        })?;
        half.runs.push(RunResult {
            policy: candidate.name().to_owned(),
            honours_groups: candidate.reads_groups(),
            tasks_mode: made.cut.to_owned(),
            frames: made.frames,
            ..result
        });
        half.timelines.extend(timeline);
    }
    shared::rate(&mut half.runs);
    Ok(half)
}

impl Half {
    /// Replaces names of tasks by those of `native` charts, if they differ only by how a trace writes words: so a stage has one colour.
    pub(super) fn name_as(&mut self, native: &[Timeline]) {
        let rename = |name: &mut String| {
            let mut known = native.iter().flat_map(|timeline| &timeline.names);
            let same = |known: &&String| known.replace(' ', "-").eq_ignore_ascii_case(name);
            if let Some(known) = known.find(same) {
                known.clone_into(name);
            }
        };
        let charted = self.timelines.iter_mut();
        charted
            .flat_map(|timeline| &mut timeline.names)
            .for_each(rename);
        let caches = self.runs.iter_mut().flat_map(|run| &mut run.caches);
        let counted = caches.flat_map(|cache| &mut cache.by_name);
        counted.map(|part| &mut part.name).for_each(rename);
    }
}

/// Returns a chart of the phase, as that of a native run; without a phase, of the middle.
fn chart(
    recording: &Recording,
    outcome: &Outcome,
    runs: &[Run],
    phase: Option<&Phase>,
) -> Timeline {
    let mut all = tanada_sim::timeline(&recording.trace, outcome, "", runs);
    all.label = format!("{} on {}", outcome.policy, outcome.machine);
    let (first, begins) = &recording.made.phases;
    let Some(phase) = phase.filter(|_| !begins.is_empty()) else {
        return window::middle(&all);
    };
    all.label += &format!(", {} {} and what runs beside it", phase.noun, phase.number);
    // Native tasks have the number of their phase above their own.
    let numbered = all.events.iter().map(|event| {
        let task = event.task as u32; // as recorded: below 2^32
        let place = begins.partition_point(|&begin| begin <= task) - 1;
        let phase = first + place as u64;
        tanada_report::Event {
            task: phase << 32 | u64::from(task - begins[place]),
            ..event
        }
    });
    all.events = numbered.collect();
    window::of_phase(&all, phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_runtime::Cancel;
    use tanada_workloads::{Purpose, Site, Way, find, values_of};

    /// A run without tasks of the H.264 workload's demo, as far as `pairs` say, and the recording that stands for it.
    fn recorded(pairs: &[(&str, &str)]) -> (Box<dyn Prepared>, Recording) {
        let h264 = find("h264").expect("it is registered");
        let values = values_of(h264, Purpose::Run)
            .with(pairs)
            .expect("right options");
        let prepared = h264.prepare(&values, &Site::new(2));
        let mut prepared = prepared.expect("the demo can be read");
        let run = prepared.run(Way::Sequential, &Cancel::new(), None);
        run.expect("the demo can be decoded");
        let recording = record(h264, &values, &*prepared, &Options::default());
        (prepared, recording.expect("the demo can be recorded"))
    }

    #[test]
    fn eight_pictures_around_the_one_that_is_shown_under_both_models() {
        let (prepared, recording) = recorded(&[]);
        assert_eq!(recording.made.extent, "pictures 59 to 66");
        let begins = &recording.made.phases.1;
        assert_eq!(begins.len(), 8, "{begins:?}");
        let candidates =
            ["fcfs", "ts"].map(|name| Candidate::registered(name).expect("it is known"));
        let mut ended = Vec::new();
        let phase = prepared.phase();
        let task = Task {
            workload: "h264",
            input: "demo",
            phase: phase.as_ref(),
        };
        let half = simulate(
            &recording,
            task,
            &candidates,
            &Options::default(),
            |policy, machine| ended.push(format!("{policy} on {machine}")),
        );
        let half = half.expect("it can be simulated");
        ended.sort();
        let each = [
            "fcfs on toshiba",
            "fcfs on toshiba-board",
            "ts on toshiba",
            "ts on toshiba-board",
        ];
        assert_eq!(ended, each);
        let rows: Vec<_> = half
            .runs
            .iter()
            .map(|run| (run.machine.as_str(), run.policy.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                ("toshiba", "fcfs"),
                ("toshiba", "ts"),
                ("toshiba-board", "fcfs"),
                ("toshiba-board", "ts")
            ]
        );
        for run in &half.runs {
            assert!(
                run.ratio_to_fcfs.is_some() && run.bound_ratio.is_some_and(|ratio| ratio >= 1.0)
            );
            assert_eq!((run.caches.len(), run.stalls.len()), (3, 4));
            assert_eq!(run.tasks, Some(recording.trace.len() as u64));
            assert_eq!(
                (run.frames, run.input.as_str()),
                (Some(8), "demo, pictures 59 to 66")
            );
        }
        let reuse: Vec<usize> = half.runs.iter().map(|run| run.reuse.len()).collect();
        assert_eq!(reuse, [2, 2, 0, 0]);
        assert_eq!(half.timelines.len(), 2);
        for timeline in &half.timelines {
            assert_eq!(
                (timeline.picture, timeline.engine),
                (Some(63), tanada_report::Engine::Simulated)
            );
            assert!(
                timeline.names.iter().any(|name| name == "front") && timeline.events.len() > 50
            );
        }
    }

    #[test]
    fn stages_are_called_as_natively() {
        let mut native = Timeline::new("n", "fcfs", tanada_report::Unit::Ns, 1);
        native.intern("Cb deblocking");
        let mut timeline = Timeline::new("s", "fcfs", tanada_report::Unit::Cycles, 1);
        timeline.names = vec!["cb-deblocking".to_owned(), "join".to_owned()];
        let mut half = Half {
            runs: Vec::new(),
            timelines: vec![timeline],
        };
        half.name_as(&[native]);
        assert_eq!(half.timelines[0].names, ["Cb deblocking", "join"]);
    }

    #[test]
    fn of_a_short_stream_all_pictures_are_recorded() {
        let (_, recording) = recorded(&[("units", "6")]);
        assert_eq!(recording.made.phases.0, 0);
    }
}
