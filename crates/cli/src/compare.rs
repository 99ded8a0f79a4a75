//! The harness behind `tanada compare`: one stream under many policies, every frame checked.
//!
//! [`run`] decodes the stream for four purposes:
//!
//! 1. once by the sequential decoder, whose frames are kept as the reference;
//! 2. three times under each [`Candidate`] with a recorder, which counts and times the tasks; every frame is compared with the
//!    reference;
//! 3. [`Options::repeat`] rounds without recorder, in each of which the sequential decoder and all candidates take their turn, so
//!    that whatever else the machine does meets all of them alike;
//! 4. once to record eight pictures, which are then simulated under each candidate on the chip of paper 1 ([`Options::simulate`]).
//!
//! Frames a second come from the shortest round of 3, everything that is said of tasks from the shortest decoding of 2.

mod reference;
mod simulated;
mod window;

use crate::{counted, host, sequential};
use reference::Reference;
use std::time::{Duration, Instant};
use tanada_policy::Dispatcher;
use tanada_policy::registry::{self, UnknownPolicy};
use tanada_report::{BASELINE, Report, RunResult, SEQUENTIAL, Seconds, Timeline};
use tanada_runtime::{Bind, BuildError, Cancel, GraphError, Pool, PoolBuilder, Recorder, Totals};
use tanada_topology::Topology;
use tanada_workloads::h264::{self, DecodeError, StreamError, Summary};

/// So often each candidate decodes under a recorder.
const RECORDED: u32 = 3;

type Make = dyn Fn(PoolBuilder, Option<Recorder>) -> Result<Pool, BuildError>;

/// A policy that takes part in a comparison.
pub struct Candidate {
    name: String,
    make: Box<Make>,
    simulate: Box<simulated::Simulate>,
    /// Whether it looks at groups.
    groups: bool,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Candidate").field(&self.name).finish()
    }
}

impl Candidate {
    /// The registered policy `name`.
    ///
    /// # Errors
    /// When there is none; the error's text lists the right names.
    pub fn registered(name: &str) -> Result<Candidate, UnknownPolicy> {
        registry::find(name).map(Candidate::listed)
    }

    fn listed(entry: &'static registry::Entry) -> Candidate {
        let name = entry.name;
        Candidate {
            name: name.to_owned(),
            groups: entry.groups,
            simulate: Box::new(move |trace, machine, options, observer| {
                tanada_sim::simulate(trace, machine, name, options, observer)
            }),
            make: Box::new(move |builder, recorder| match recorder {
                Some(recorder) => builder.observer(recorder).policy(name).build(),
                None => builder.policy(name).build(),
            }),
        }
    }

    /// A policy of your own, which the report calls `name`.
    pub fn of<D: Dispatcher>(name: &str) -> Candidate {
        let shown = name.to_owned();
        Candidate {
            name: name.to_owned(),
            groups: D::READS_GROUPS,
            simulate: Box::new({
                let shown = shown.clone();
                move |trace, machine, options, observer| {
                    tanada_sim::simulate_with::<D>(trace, machine, &shown, options, observer)
                }
            }),
            make: Box::new(move |builder, recorder| match recorder {
                Some(recorder) => builder.observer(recorder).build_with::<D>(&shown),
                None => builder.build_with::<D>(&shown),
            }),
        }
    }

    /// All registered policies that run natively, in the registry's order.
    pub fn all() -> Vec<Candidate> {
        let listed = registry::native().into_iter();
        listed.map(Candidate::listed).collect()
    }

    /// What the report calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The stream to decode.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// What the report calls it.
    pub name: &'a str,
    /// An H.264 byte stream (Annex B).
    pub stream: &'a [u8],
}

/// How candidates are compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers of each pool; by default those of [`Topology::default_workers`].
    pub workers: Option<u16>,
    /// How workers are bound.
    pub bind: Bind,
    /// Seed of the policies' random numbers.
    pub seed: u64,
    /// Timed rounds; 0 only checks the frames and records.
    pub repeat: u32,
    /// Whether to simulate as well; takes a few seconds.
    pub simulate: bool,
    /// How decoding is cut into tasks.
    pub decode: h264::Options,
    /// Stops the comparison.
    pub cancel: Cancel,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: None,
            bind: Bind::Auto,
            seed: 0,
            repeat: 10,
            simulate: true,
            decode: h264::Options::default(),
            cancel: Cancel::new(),
        }
    }
}

/// A decoding is about to begin, or a simulation has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Decodings and simulations that have ended.
    pub done: u32,
    /// All of them.
    pub of: u32,
    /// Its policy.
    pub policy: &'a str,
    /// What it is for.
    pub purpose: &'a str,
}

/// Frames that were not those of the sequential decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The policy under which they came out.
    pub policy: String,
    /// What was different, for people.
    pub what: String,
}

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Found {
    /// One run a policy, the sequential decoder first, and the timeline of one picture a policy.
    pub report: Report,
    /// Empty if all is well.
    pub differences: Vec<Difference>,
    /// What the sequential decoder said of the stream.
    pub summary: Summary,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not one picture of the stream could be decoded.
    #[error(transparent)]
    Stream(StreamError),
    /// A pool could not be made.
    #[error("policy {policy}: {source}")]
    Build {
        /// Its policy.
        policy: String,
        /// Why not.
        source: BuildError,
    },
    /// A policy did not bring the tasks to their end.
    #[error("policy {policy}: {source}")]
    Graph {
        /// The policy.
        policy: String,
        /// What happened.
        source: GraphError,
    },
    /// The simulated half came to no result.
    #[error("the simulation: {what}; --no-sim leaves it out")]
    Simulation {
        /// What happened.
        what: String,
    },
    /// [`Options::cancel`] stopped it.
    #[error("stopped before the end")]
    Cancelled,
    /// The machine could not be explored.
    #[error("cannot read this machine's topology: {0}")]
    Topology(#[from] tanada_topology::Error),
}

impl Error {
    /// What a decoding under `policy` failed with.
    fn of(policy: &str, error: DecodeError) -> Error {
        match error {
            DecodeError::Stream(error) => Error::Stream(error),
            DecodeError::Graph(GraphError::Cancelled) => Error::Cancelled,
            DecodeError::Graph(source) => Error::Graph {
                policy: policy.to_owned(),
                source,
            },
            _ => unreachable!("every kind of decoding error is handled above"),
        }
    }
}

/// Compares; see the [module](self).
///
/// # Errors
/// See [`Error`]. Frames that differ are no error, but in [`Found::differences`].
pub fn run(input: &Input<'_>, candidates: &[Candidate], options: &Options) -> Result<Found, Error> {
    run_with_progress(input, candidates, options, |_| ())
}

/// As [`run`]; `progress` hears of every decoding that begins.
///
/// # Errors
/// As [`run`].
pub fn run_with_progress(
    input: &Input<'_>,
    candidates: &[Candidate],
    options: &Options,
    progress: impl FnMut(Step<'_>),
) -> Result<Found, Error> {
    let topology = Topology::detect()?;
    let mut harness = Harness {
        input,
        options,
        workers: options
            .workers
            .unwrap_or_else(|| topology.default_workers()),
        topology,
        done: 0,
        of: steps(candidates.len() as u32, options),
        progress,
    };
    let reference = harness.reference()?;
    let checked: Vec<Checked> = candidates
        .iter()
        .map(|candidate| harness.check(candidate, &reference))
        .collect::<Result<_, _>>()?;
    let times = harness.rounds(candidates)?;
    let mut half = match options.simulate {
        true => harness.simulated(candidates, &reference)?,
        false => simulated::Half::default(),
    };
    let mut found = harness.found(candidates, reference, checked, &times);
    half.name_as(&found.report.timelines);
    found.report.runs.extend(half.runs);
    found.report.timelines.extend(half.timelines);
    Ok(found)
}

/// Decodings and simulations in all.
fn steps(candidates: u32, options: &Options) -> u32 {
    let simulations = match options.simulate {
        true => 1 + simulated::MACHINES.len() as u32 * candidates,
        false => 0,
    };
    1 + RECORDED * candidates + options.repeat * (1 + candidates) + simulations
}

/// What the recorded run of a candidate brought.
struct Checked {
    totals: Totals,
    timeline: Timeline,
    wall: Duration,
    workers: u16,
    difference: Option<String>,
}

struct Harness<'a, P> {
    input: &'a Input<'a>,
    options: &'a Options,
    workers: u16,
    topology: Topology,
    done: u32,
    of: u32,
    progress: P,
}

impl<P: FnMut(Step<'_>)> Harness<'_, P> {
    fn step(&mut self, policy: &str, purpose: &str) {
        (self.progress)(Step {
            done: self.done,
            of: self.of,
            policy,
            purpose,
        });
        self.done += 1;
    }

    fn reference(&mut self) -> Result<Reference, Error> {
        self.step(SEQUENTIAL, "keeps the frames");
        let Options { decode, cancel, .. } = self.options;
        Reference::decode(self.input.stream, decode, cancel)
            .map_err(|error| Error::of(SEQUENTIAL, error))
    }

    fn pool(&self, candidate: &Candidate, recorder: Option<Recorder>) -> Result<Pool, Error> {
        let builder = Pool::builder()
            .workers(u32::from(self.workers))
            .bind(self.options.bind)
            .seed(self.options.seed)
            .topology(self.topology.clone());
        (candidate.make)(builder, recorder).map_err(|source| Error::Build {
            policy: candidate.name.clone(),
            source,
        })
    }

    fn decode(
        &self,
        candidate: &Candidate,
        pool: &Pool,
        sink: impl FnMut(&h264::Frame) + Send,
    ) -> Result<(Summary, Duration), Error> {
        let Options { decode, cancel, .. } = self.options;
        let start = Instant::now();
        let summary = h264::decode(pool, self.input.stream, decode, cancel, sink)
            .map_err(|error| Error::of(&candidate.name, error))?;
        Ok((summary, start.elapsed()))
    }

    /// Decodes a few times under a recorder and compares every frame; the fastest of them is the one to look at.
    fn check(&mut self, candidate: &Candidate, reference: &Reference) -> Result<Checked, Error> {
        let (shown, around) = (reference.shown, u64::from(self.options.decode.ahead));
        let recorder =
            Recorder::keep(move |task| h264::picture_of(task.index).abs_diff(shown) <= around);
        let pool = self.pool(candidate, Some(recorder.clone()))?;
        let label = format!(
            "{}, picture {shown} and what runs beside it",
            candidate.name
        );
        let mut best: Option<(Duration, Totals, Timeline)> = None;
        let mut difference = None;
        for _ in 0..RECORDED {
            self.step(&candidate.name, "compares every frame");
            let mut comparison = reference.comparison();
            let (summary, wall) = self.decode(candidate, &pool, |frame| comparison.see(frame))?;
            let recorded = recorder.take();
            difference = difference.or(comparison.end(&summary));
            if best.as_ref().is_none_or(|(shortest, ..)| wall < *shortest) {
                let timeline = recorded.timeline(&label, &candidate.name, pool.workers());
                best = Some((wall, recorded.totals, timeline));
            }
        }
        let (wall, totals, timeline) = best.expect("at least one was recorded");
        Ok(Checked {
            totals,
            timeline: window::of_picture(&timeline, shown),
            wall,
            workers: pool.workers(),
            difference,
        })
    }

    /// Seconds of every round: of the sequential decoder first, then of each candidate.
    fn rounds(&mut self, candidates: &[Candidate]) -> Result<Vec<Vec<f64>>, Error> {
        let mut times = vec![Vec::new(); 1 + candidates.len()];
        if self.options.repeat == 0 {
            return Ok(times);
        }
        let pools: Vec<Pool> = candidates
            .iter()
            .map(|candidate| self.pool(candidate, None))
            .collect::<Result<_, _>>()?;
        for round in 1..=self.options.repeat {
            let purpose = format!("round {round}");
            self.step(SEQUENTIAL, &purpose);
            let start = Instant::now();
            let Options { decode, cancel, .. } = self.options;
            sequential::decode(self.input.stream, decode.limits, cancel, |_| ())
                .map_err(|error| Error::of(SEQUENTIAL, error))?;
            times[0].push(start.elapsed().as_secs_f64());
            for ((candidate, pool), times) in candidates.iter().zip(&pools).zip(&mut times[1..]) {
                self.step(&candidate.name, &purpose);
                let (_, wall) = self.decode(candidate, pool, |_| ())?;
                times.push(wall.as_secs_f64());
            }
        }
        Ok(times)
    }

    /// Records a few pictures and simulates them under each candidate.
    fn simulated(
        &mut self,
        candidates: &[Candidate],
        reference: &Reference,
    ) -> Result<simulated::Half, Error> {
        let (options, shown) = (self.options, reference.shown);
        self.step(SEQUENTIAL, "is recorded");
        let pictures = reference.summary.pictures;
        let recording = simulated::record(self.input.stream, options, shown, pictures)?;
        let name = self.input.name;
        let step = |policy: &str, machine: &str| {
            self.step(policy, &format!("simulated on {machine}"));
        };
        simulated::simulate(&recording, name, candidates, options, shown, step)
    }

    fn found(
        self,
        candidates: &[Candidate],
        reference: Reference,
        checked: Vec<Checked>,
        times: &[Vec<f64>],
    ) -> Found {
        let mut report = Report::new(&format!("H.264 decoding as tasks: {}", self.input.name));
        report.machine = host::summary(&self.topology);
        let frames = reference.summary.frames;
        let run = |policy: &str, workers: u16, times: &[f64]| {
            let mut run = RunResult::new("h264", self.input.name, policy, workers);
            run.machine = host::processor();
            run.frames = Some(frames);
            run.seconds = Seconds::of(times);
            run.fps = run.seconds.map(|seconds| frames as f64 / seconds.min);
            run
        };
        report.runs.push(run(SEQUENTIAL, 1, &times[0]));
        let mut differences = Vec::new();
        for ((candidate, checked), times) in candidates.iter().zip(checked).zip(&times[1..]) {
            let mut run = run(&candidate.name, checked.workers, times);
            run.groups = self.options.decode.groups.to_string();
            run.tasks_mode = self.options.decode.cut.to_string();
            run.honours_groups = candidate.groups;
            run.memory = counted::video(reference.frame_bytes, &self.topology, checked.workers);
            counted::describe(&mut run, &checked.totals, checked.wall, checked.workers);
            run.identical = Some(checked.difference.is_none());
            report.runs.push(run);
            report.timelines.push(checked.timeline);
            differences.extend(checked.difference.map(|what| Difference {
                policy: candidate.name.clone(),
                what,
            }));
        }
        let of_baseline = |run: &&RunResult| run.policy == BASELINE;
        let baseline = report.runs.iter().find(of_baseline).and_then(|run| run.fps);
        for run in &mut report.runs {
            run.ratio_to_fcfs = run.fps.zip(baseline).map(|(fps, of)| fps / of);
        }
        Found {
            report,
            differences,
            summary: reference.summary,
        }
    }
}
