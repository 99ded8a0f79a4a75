//! The harness behind `tanada compare`: one workload under many policies, every result checked.
//!
//! [`run`] runs the workload in four steps:
//!
//! 1. *Reference*: once without tasks. The result is kept as the reference.
//! 2. *Check*: once as it would be written today (loops with barriers), and three times under each [`Candidate`] in a pool with a
//!    [`Recorder`], which counts and times the tasks. Every result is compared with the reference.
//! 3. *Rounds*: [`Options::repeat`] rounds without a recorder. In each round the program without tasks, the one of today and all candidates
//!    run once, so that other load on the machine slows all of them alike.
//! 4. *Simulation* ([`Options::simulate`]): a small part of the work is recorded as a trace and simulated under each candidate on the chip
//!    of paper 1. A workload that cannot be recorded ([`Workload::recorder`]) has no simulated half.
//!
//! The time of a row is that of its shortest round. Everything about tasks is from the candidate's shortest run in the check.

pub(crate) mod simulated;
mod window;

pub use crate::candidate::Candidate;
use crate::check::Reference;
use crate::forked;
use crate::host;
use crate::recording::CHIP;
use crate::rounds::{self, Engine, Pools, Row, Turn, once, timed};
use std::time::Duration;
use tanada_report::{Profile, Report, RunResult, SEQUENTIAL, Timeline};
use tanada_runtime::fork::ForkRecorder;
use tanada_runtime::{BuildError, Cancel, DEFAULT_POLICY, Pool, Recorded, Recorder, Totals};
use tanada_topology::Topology;
use tanada_workloads::workload::{Facts, Flaws, RunError, phase_of};
use tanada_workloads::{Prepared, Values, Workload};

/// Runs of each candidate with a recorder.
const RECORDED: u32 = 3;

/// How candidates are compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers, binding and seed of each pool.
    pub pools: Pools,
    /// Timed rounds; 0 only checks the results and records.
    pub repeat: u32,
    /// Whether to simulate as well; takes a few seconds.
    pub simulate: bool,
    /// What reports call the input; by default [`Prepared::input`].
    pub name: Option<String>,
    /// Stops the comparison.
    pub cancel: Cancel,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pools: Pools::default(),
            repeat: 10,
            simulate: true,
            name: None,
            cancel: Cancel::new(),
        }
    }
}

/// Progress of a comparison: a run is about to begin, or a simulation has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Runs and simulations that have ended.
    pub done: u32,
    /// Runs and simulations of the whole comparison.
    pub of: u32,
    /// Policy of this run or simulation.
    pub policy: &'a str,
    /// What this run or simulation is for.
    pub purpose: &'a str,
}

/// A result that is not that of the run without tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The row of the report.
    pub policy: String,
    /// What is different, for people.
    pub what: String,
}

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The runs: first the program without tasks, then the program of today, then one run for each policy, then the simulated runs. It has
    /// one timeline for each policy, and then those of the simulation.
    pub report: Report,
    /// Empty if all results are the same.
    pub differences: Vec<Difference>,
    /// What a part of the result is called, in the singular.
    pub part: &'static str,
    /// What is wrong with the input.
    pub flaws: Option<Flaws>,
}

/// Why there is nothing to compare.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The workload cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] RunError),
    /// The input is at fault.
    #[error("{0}")]
    Input(String),
    /// A pool cannot be made.
    #[error("policy {policy}: {source}")]
    Build {
        /// The policy of the pool.
        policy: String,
        /// Why the pool cannot be made.
        source: BuildError,
    },
    /// A run came to no end.
    #[error("policy {policy}: {source}")]
    Run {
        /// The row of the report.
        policy: String,
        /// What happened.
        source: RunError,
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
    /// The topology of this machine cannot be read.
    #[error("cannot read this machine's topology: {0}")]
    Topology(#[from] tanada_topology::Error),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns the error of a comparison in which the run of the row `policy` failed with `error`.
    pub(crate) fn of(policy: &str, error: RunError) -> Error {
        match error {
            error if error.is_cancelled() => Error::Cancelled,
            RunError::Input(what) => Error::Input(what),
            source => Error::Run {
                policy: policy.to_owned(),
                source,
            },
        }
    }
}

/// Compares `candidates` and returns what was found; see the [module](self).
///
/// `values` must be made for [`Purpose::Run`](tanada_workloads::Purpose::Run).
///
/// # Errors
/// See [`Error`]. A result that differs from the reference is not an error; it is reported in [`Found::differences`].
pub fn run(
    workload: &dyn Workload,
    values: &Values,
    candidates: &[Candidate],
    options: &Options,
) -> Result<Found, Error> {
    run_with_progress(workload, values, candidates, options, |_| ())
}

/// Returns what [`run`] does; `progress` is called for every run that begins and every simulation that ends.
///
/// # Errors
/// As [`run`].
pub fn run_with_progress(
    workload: &dyn Workload,
    values: &Values,
    candidates: &[Candidate],
    options: &Options,
    progress: impl FnMut(Step<'_>),
) -> Result<Found, Error> {
    let topology = Topology::detect()?;
    let site = rounds::site(&topology.place(options.pools.workers_on(&topology)));
    let prepared = workload.prepare(values, &site)?;
    if options.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let simulate = options.simulate && workload.recorder().is_some();
    let mut harness = Harness {
        workload,
        input: options.name.clone().unwrap_or_else(|| prepared.input()),
        prepared,
        options,
        topology,
        done: 0,
        of: steps(candidates.len() as u32, options.repeat, simulate),
        progress,
    };
    let reference = harness.reference()?;
    // The program of today always runs under the default policy, whatever the candidates are: its loops have no groups, and work stealing
    // balances them best.
    let today = Candidate::registered(DEFAULT_POLICY).expect("the default is registered");
    let today = Engine::Today(harness.pool(&today, None)?);
    let difference = harness.compared(&today, &reference, None)?.1;
    let checked: Vec<Checked> = candidates
        .iter()
        .map(|candidate| harness.check(candidate, &reference))
        .collect::<Result<_, _>>()?;
    let lanes = harness.rounds(today, candidates)?;
    let half = match simulate {
        true => harness.simulated(values, candidates)?,
        false => simulated::Half::default(),
    };
    Ok(harness.found(candidates, &lanes, difference, checked, half))
}

/// Returns the number of runs and simulations in all.
pub(crate) fn steps(candidates: u32, repeat: u32, simulate: bool) -> u32 {
    let simulations = match simulate {
        true => 1 + CHIP.len() as u32 * candidates,
        false => 0,
    };
    2 + RECORDED * candidates + repeat * (2 + candidates) + simulations
}

/// The best of the recorded runs of a candidate, and whether a result was wrong.
struct Checked {
    totals: Totals,
    /// `None`: no observer sees the workload's tasks.
    timeline: Option<Timeline>,
    profile: Option<Profile>,
    wall: Duration,
    facts: Facts,
    difference: Option<String>,
}

struct Harness<'a, P> {
    workload: &'a dyn Workload,
    input: String,
    prepared: Box<dyn Prepared>,
    options: &'a Options,
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

    fn pool(&self, candidate: &Candidate, recorder: Option<Recorder>) -> Result<Pool, Error> {
        let builder = self.options.pools.builder(&self.topology);
        let built = candidate.pool(builder, recorder);
        built.map_err(|source| Error::Build {
            policy: candidate.name().to_owned(),
            source,
        })
    }

    /// Runs without tasks and returns the result.
    fn reference(&mut self) -> Result<Reference, Error> {
        let purpose = format!("keeps the {}s", self.prepared.part());
        self.step(SEQUENTIAL, &purpose);
        let mut reference = Reference::default();
        let (way, cancel) = (Engine::Sequential, &self.options.cancel);
        once(&mut *self.prepared, way.way(), cancel, Some(&mut reference))
            .map_err(|error| Error::of(SEQUENTIAL, error))?;
        reference.finish(self.prepared.found());
        Ok(reference)
    }

    /// Runs once and compares the result. Returns the time of the run and what is different. Afterwards `recorder`, if there is one, holds
    /// the tasks of this run only.
    fn compared(
        &mut self,
        engine: &Engine,
        reference: &Reference,
        recorder: Option<&Recorder>,
    ) -> Result<(Duration, Option<String>), Error> {
        let part = self.prepared.part();
        let name = engine.name();
        self.step(name, &format!("compares every {part}"));
        let mut comparison = reference.comparison();
        let (way, cancel) = (engine.way(), &self.options.cancel);
        let failed = |error| Error::of(name, error);
        self.prepared.set_up(way, cancel).map_err(failed)?;
        if let Some(recorder) = recorder {
            // Drops the tasks that were recorded before the run, for example in `set_up`.
            recorder.take();
        }
        let wall = timed(&mut *self.prepared, way, cancel, Some(&mut comparison));
        Ok((
            wall.map_err(failed)?,
            comparison.end(part, &self.prepared.found()),
        ))
    }

    /// Runs [`RECORDED`] times under a recorder and compares every result. Returns what was recorded of the fastest run.
    fn check(&mut self, candidate: &Candidate, reference: &Reference) -> Result<Checked, Error> {
        if self.workload.forks() {
            return self.check_forks(candidate, reference);
        }
        let name = candidate.name();
        let phase = self.prepared.phase();
        let (recorder, label) = match phase {
            Some(phase) => {
                let near = move |index| phase_of(index).abs_diff(phase.number) <= phase.around;
                (
                    Recorder::keep(move |task| near(task.index)),
                    format!(
                        "{name}, {} {} and what runs beside it",
                        phase.noun, phase.number
                    ),
                )
            }
            None => (Recorder::all(), name.to_owned()),
        };
        let engine = Engine::Tasks(self.pool(candidate, Some(recorder.clone()))?);
        let mut best: Option<(Duration, Recorded)> = None;
        let mut difference = None;
        for _ in 0..RECORDED {
            let (wall, what) = self.compared(&engine, reference, Some(&recorder))?;
            let recorded = recorder.take();
            difference = difference.or(what);
            if best.as_ref().is_none_or(|(shortest, _)| wall < *shortest) {
                best = Some((wall, recorded));
            }
        }
        let (wall, recorded) = best.expect("at least one was recorded");
        let timeline = recorded.timeline(&label, name, engine.workers());
        Ok(Checked {
            profile: recorded.profile_of(wall),
            totals: recorded.totals,
            timeline: Some(match phase {
                Some(phase) => window::of_phase(&timeline, &phase),
                None => window::middle(&timeline),
            }),
            wall,
            facts: self.prepared.facts(),
            difference,
        })
    }

    /// As [`Harness::check`], for a program of nested forks: each time on a new pool, under a policy that has learnt nothing yet.
    fn check_forks(
        &mut self,
        candidate: &Candidate,
        reference: &Reference,
    ) -> Result<Checked, Error> {
        let mut best: Option<(Duration, (Totals, Profile))> = None;
        let mut difference = None;
        for _ in 0..RECORDED {
            let recorder = ForkRecorder::new();
            let builder = self.options.pools.builder(&self.topology);
            let built = candidate.pool(builder.record_forks(&recorder), None);
            let policy = candidate.name().to_owned();
            let engine = match built {
                Ok(pool) => Engine::Forks(pool, policy),
                Err(source) => return Err(Error::Build { policy, source }),
            };
            let (wall, what) = self.compared(&engine, reference, None)?;
            difference = difference.or(what);
            if best.as_ref().is_none_or(|(shortest, _)| wall < *shortest) {
                best = Some((wall, forked::measured(&recorder, wall)));
            }
        }
        let (wall, (totals, profile)) = best.expect("at least one was recorded");
        Ok(Checked {
            totals,
            timeline: None,
            profile: Some(profile),
            wall,
            facts: self.prepared.facts(),
            difference,
        })
    }

    /// Runs the rounds: the program without tasks, that of today, and all candidates in turn. Returns their rows in this order.
    fn rounds(&mut self, today: Engine, candidates: &[Candidate]) -> Result<Vec<Row>, Error> {
        let mut engines = vec![Engine::Sequential, today];
        for candidate in candidates {
            let pool = self.pool(candidate, None)?;
            engines.push(match self.workload.forks() {
                true => Engine::Forks(pool, candidate.name().to_owned()),
                false => Engine::Tasks(pool),
            });
        }
        let options = self.options;
        rounds::in_turns(options.repeat, engines, |round, engine| {
            let name = engine.name();
            self.step(name, &format!("round {}", round + 1));
            let wall = once(&mut *self.prepared, engine.way(), &options.cancel, None);
            wall.map(Turn::Sample)
                .map_err(|error| Error::of(name, error))
        })
    }

    /// Records a small part of the work and simulates it under each candidate. Returns the simulated half of the report.
    fn simulated(
        &mut self,
        values: &Values,
        candidates: &[Candidate],
    ) -> Result<simulated::Half, Error> {
        self.step(SEQUENTIAL, "is recorded");
        let recording = simulated::record(self.workload, values, &*self.prepared, self.options)?;
        let (input, options) = (self.input.clone(), self.options);
        let phase = self.prepared.phase();
        let work = simulated::Task {
            workload: self.workload.name(),
            input: &input,
            phase: phase.as_ref(),
        };
        let step = |policy: &str, machine: &str| {
            self.step(policy, &format!("simulated on {machine}"));
        };
        simulated::simulate(&recording, work, candidates, options, step)
    }

    fn found(
        self,
        candidates: &[Candidate],
        lanes: &[Row],
        today: Option<String>,
        checked: Vec<Checked>,
        mut half: simulated::Half,
    ) -> Found {
        let (title, input) = (self.prepared.title(), &self.input);
        let mut report = Report::new(&format!("{title} as tasks: {input}"));
        report.machine = host::summary(&self.topology);
        let facts = self.prepared.facts();
        let workload = self.workload.name();
        let [sequential, of_today, lanes @ ..] = lanes else {
            unreachable!("`rounds` begins with these two");
        };
        let row = |lane: &Row| lane.to_result(workload, input, &facts, None);
        report.runs.push(row(sequential));
        let mut differences: Vec<Difference> = Vec::new();
        let mut add = |mut run: RunResult, what: Option<String>| {
            run.identical = Some(what.is_none());
            let policy = run.policy.clone();
            differences.extend(what.map(|what| Difference { policy, what }));
            report.runs.push(run);
        };
        add(row(of_today), today);
        for ((candidate, checked), lane) in candidates.iter().zip(checked).zip(lanes) {
            let recorded = Some((&checked.totals, checked.wall));
            let mut run = lane.to_result(workload, input, &checked.facts, recorded);
            run.profile = checked.profile;
            run.honours_groups = candidate.reads_groups();
            add(run, checked.difference);
            report.timelines.extend(checked.timeline);
        }
        rounds::rate(&mut report.runs);
        half.name_as(&report.timelines);
        report.runs.extend(half.runs);
        report.timelines.extend(half.timelines);
        Found {
            report,
            differences,
            part: self.prepared.part(),
            flaws: self.prepared.flaws(),
        }
    }
}
