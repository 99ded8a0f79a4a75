//! The simulated half of a comparison: a few pictures, recorded, on the chip of paper 1.
//!
//! The recording has the tasks, groups and data accesses of the native run; computation and code are charged by the recorder's own table
//! for the chip's cores. The chip comes in two models: in one a miss costs the same whatever else goes on, in the other ports, bus and
//! memory are shared and the dispatcher takes time.

use super::{Candidate, Error, Options, window};
use crate::simulated::{self as shared, Work};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tanada_report::{RunResult, Timeline};
use tanada_sim::{Machine, Observer, Outcome, Run, SimError, machines};
use tanada_trace::{BinaryWriter, Groups as TraceGroups, NewTask, Record, Sink, Trace, TraceError};
use tanada_workloads::record::{self, H264Error, H264Options, Pictures};

/// So many pictures are recorded.
const PICTURES: u64 = 8;

/// The cores for which paper 1 gives most of its figures.
const CORES: u16 = 4;

/// The chip of paper 1 in both models. The charts are of the last.
pub(super) const MACHINES: [&str; 2] = ["toshiba", "toshiba-board"];

/// Runs a trace under one policy.
pub(super) type Simulate = dyn Fn(&Trace, &Machine, &tanada_sim::Options<'_>, &mut dyn Observer) -> Result<Outcome, SimError>
    + Send
    + Sync;

/// A recording of pictures `first` to `last`.
pub(super) struct Recording {
    trace: Trace,
    first: u64,
    last: u64,
    /// Number of the first task of each picture.
    begins: Vec<u32>,
}

/// Records [`PICTURES`] pictures of `stream` around the one that is `shown`, of `pictures` that there are.
pub(super) fn record(
    stream: &[u8],
    options: &Options,
    shown: u64,
    pictures: u64,
) -> Result<Recording, Error> {
    let first = shown
        .saturating_sub(PICTURES / 2)
        .min(pictures.saturating_sub(PICTURES));
    let recorded = H264Options {
        cut: options.decode.cut,
        dependencies: options.decode.dependencies,
        groups: options.decode.groups,
        workers: CORES,
        pictures: Pictures::Every {
            first,
            count: PICTURES,
            every: 1,
        },
        ahead: options.decode.ahead,
        limits: options.decode.limits,
        ..H264Options::default()
    };
    let declared = Cell::new(0);
    let mut begins = vec![0];
    let mut sink = Counting {
        declared: &declared,
        sink: BinaryWriter::new(Vec::new()).map_err(failed)?,
    };
    let seen = |_, recorded: u64| {
        if recorded as usize >= begins.len() {
            begins.push(declared.get());
        }
        match options.cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let made = record::h264(stream, &recorded, &mut sink, seen);
    let made = made.map_err(|error| match error {
        H264Error::Stopped => Error::Cancelled,
        H264Error::Stream(error) => Error::Stream(error),
        other => failed(other),
    })?;
    let bytes = sink.sink.finish().map_err(failed)?;
    Ok(Recording {
        trace: Trace::parse(&bytes, "the recording", &TraceGroups::Plain).map_err(failed)?,
        first,
        last: first + made.pictures.saturating_sub(1),
        begins,
    })
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Simulation {
        what: error.to_string(),
    }
}

/// Counts tasks on their way into a sink.
struct Counting<'a, S> {
    declared: &'a Cell<u32>,
    sink: S,
}

impl<S: Sink> Sink for Counting<'_, S> {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        self.declared.set(self.declared.get() + 1);
        self.sink.task(task)
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        self.sink.record(record)
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        self.sink.edge(from, to, fork)
    }
}

/// What the simulations brought.
#[derive(Default)]
pub(super) struct Half {
    pub(super) runs: Vec<RunResult>,
    pub(super) timelines: Vec<Timeline>,
}

/// Simulates `recording` under each candidate on each of [`MACHINES`], on as many threads as there are. `ended` hears of every simulation
/// that is done.
pub(super) fn simulate(
    recording: &Recording,
    input: &str,
    candidates: &[Candidate],
    options: &Options,
    shown: u64,
    mut ended: impl FnMut(&str, &str),
) -> Result<Half, Error> {
    let machines = machines()?;
    let input = format!(
        "{input}, pictures {} to {}",
        recording.first, recording.last
    );
    let groups = options.decode.groups.to_string();
    let work = Work {
        workload: "h264",
        input: &input,
        groups: &groups,
    };
    let simulations: Vec<&Simulate> = candidates
        .iter()
        .map(|candidate| &*candidate.simulate)
        .collect();
    let count = machines.len() * candidates.len();
    let policies = simulations.len();
    let one = |number: usize| -> Result<(RunResult, Option<Timeline>), SimError> {
        let (machine, policy) = (number / policies, number % policies);
        let charted = machine + 1 == machines.len();
        let machine = &machines[machine];
        let mut runs: Vec<Run> = Vec::new();
        let trace = &recording.trace;
        let watch = |_| !options.cancel.is_cancelled();
        let watched = tanada_sim::Options {
            seed: Some(options.seed),
            watch: Some(&watch),
            ..tanada_sim::Options::default()
        };
        let outcome = simulations[policy](trace, machine, &watched, &mut runs)?;
        // Their order differs little between the models; the first is the one whose caches alone decide.
        let reused = if number < policies { &runs[..] } else { &[] };
        let result = shared::result(trace, machine, &outcome, reused, work)?;
        let timeline = charted.then(|| picture(recording, &outcome, &runs, shown));
        Ok((result, timeline))
    };
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<Option<_>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads.min(count) {
            let (send, next, one) = (send.clone(), &next, &one);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || send.send((number, one(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (number, result) in receive {
            let candidate = &candidates[number % candidates.len()];
            ended(candidate.name(), &machines[number / candidates.len()].name);
            results[number] = Some(result);
        }
    });
    let mut half = Half::default();
    for (number, result) in results.into_iter().flatten().enumerate() {
        let candidate = &candidates[number % candidates.len()];
        let (result, timeline) = result.map_err(|error| match error {
            SimError::Cancelled => Error::Cancelled,
            error => failed(error),
        })?;
        half.runs.push(RunResult {
            policy: candidate.name.clone(),
            honours_groups: candidate.groups,
            tasks_mode: options.decode.cut.to_string(),
            frames: Some(recording.last - recording.first + 1),
            ..result
        });
        half.timelines.extend(timeline);
    }
    shared::rate(&mut half.runs);
    Ok(half)
}

impl Half {
    /// Names of tasks as `native` charts have them, where they differ by how a trace writes words: so a stage has one colour.
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

fn machines() -> Result<Vec<Machine>, Error> {
    let machine = |name| {
        let machine = machines::find(name).map_err(failed)?;
        machine.with_cores(CORES).map_err(failed)
    };
    MACHINES.into_iter().map(machine).collect()
}

/// The chart of one picture, as that of a native run.
fn picture(recording: &Recording, outcome: &Outcome, runs: &[Run], shown: u64) -> Timeline {
    let mut all = tanada_sim::timeline(&recording.trace, outcome, "", runs);
    all.label = format!(
        "{} on {}, picture {shown} and what runs beside it",
        outcome.policy, outcome.machine
    );
    // Native tasks have the number of their picture above their own.
    let numbered = all.events.iter().map(|event| {
        let task = event.task as u32; // as recorded: below 2^32
        let place = recording.begins.partition_point(|&begin| begin <= task) - 1;
        let picture = recording.first + place as u64;
        tanada_report::Event {
            task: picture << 32 | u64::from(task - recording.begins[place]),
            ..event
        }
    });
    all.events = numbered.collect();
    window::of_picture(&all, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_pictures_around_the_one_that_is_shown_under_both_models() {
        let options = Options::default();
        let recording = record(crate::DEMO, &options, 63, 128).expect("the demo can be recorded");
        assert_eq!((recording.first, recording.last), (59, 66));
        assert_eq!(recording.begins.len(), 9, "{:?}", recording.begins);
        let candidates =
            ["fcfs", "ts"].map(|name| Candidate::registered(name).expect("it is known"));
        let mut told = Vec::new();
        let half = simulate(
            &recording,
            "demo",
            &candidates,
            &options,
            63,
            |policy, machine| {
                told.push(format!("{policy} on {machine}"));
            },
        );
        let half = half.expect("it can be simulated");
        told.sort();
        let each = [
            "fcfs on toshiba",
            "fcfs on toshiba-board",
            "ts on toshiba",
            "ts on toshiba-board",
        ];
        assert_eq!(told, each);
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
        let recording = record(crate::DEMO, &Options::default(), 1, 3).expect("it can be recorded");
        assert_eq!(recording.first, 0);
    }
}
