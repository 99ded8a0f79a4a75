//! The harness behind `tanada run`: rounds of one workload under some policies, timed, and recorded if there is more than one.

use crate::forked;
use crate::host;
use crate::rounds::{self, Engine, Pools, Row, Turn, once, rate, timed};
use std::time::Duration;
use tanada_policy::registry;
use tanada_report::{Profile, Report};
use tanada_runtime::fork::ForkRecorder;
use tanada_runtime::{BuildError, Cancel, PoolBuilder, Recorded, Recorder, Totals};
use tanada_topology::Topology;
use tanada_workloads::Prepared;
use tanada_workloads::workload::{Output, RunError};

/// What runs, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policies that take turns in every round; empty: the program without tasks.
    pub policies: Vec<String>,
    /// Workers, binding and seed of each pool.
    pub pools: Pools,
    /// Timed rounds, at least 1.
    pub rounds: u32,
    /// Whether one more run of each policy keeps an event a task (80 bytes of memory each). A program of nested forks has none.
    pub events: bool,
    /// Whether the workload is a program of [nested forks](tanada_workloads::Workload::forks).
    pub forks: bool,
}

/// Why runs came to no result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pool cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A run came to no end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The topology of this machine cannot be read.
    #[error("cannot read this machine's topology: {0}")]
    Topology(#[from] tanada_topology::Error),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Runs `prepared`, which reports call `workload`, in rounds: in each of them every policy takes its turn. Returns the report. The result
/// of the first run goes to `output`; if that is [broken](Output::is_broken), no further round begins.
///
/// If there are several policies, or [`Options::events`], one more run of each is recorded.
///
/// # Errors
/// See [`Error`].
pub fn run(
    workload: &str,
    prepared: &mut dyn Prepared,
    options: &Options,
    cancel: &Cancel,
    mut output: Option<&mut (dyn Output + '_)>,
) -> Result<Report, Error> {
    let topology = Topology::detect()?;
    let engines = engines(options, &topology)?;
    let records = !options.policies.is_empty() && (options.events || engines.len() > 1);
    let (mut wanted, mut broken) = (true, false);
    let lanes = rounds::in_turns(options.rounds, engines, |_, engine| {
        let first = output.as_deref_mut();
        let first = first.filter(|_| std::mem::take(&mut wanted));
        let wall = once(prepared, engine.way(), cancel, first)?;
        broken = output.as_deref().is_some_and(Output::is_broken);
        Ok::<_, RunError>(match broken {
            true => Turn::Last(wall),
            false => Turn::Sample(wall),
        })
    })?;
    let mut recorded = Vec::new();
    if records && !broken {
        for lane in &lanes {
            let builder = builder(options, &topology, lane.engine.name());
            recorded.push(match options.forks {
                true => record_forks(builder, prepared, cancel)?,
                false => record(builder, prepared, options.events, cancel)?,
            });
        }
    }
    Ok(report(workload, prepared, &lanes, &recorded, &topology))
}

fn builder(options: &Options, topology: &Topology, policy: &str) -> PoolBuilder {
    options.pools.builder(topology).policy(policy)
}

/// Returns what does the work: pools of the policies, or none.
fn engines(options: &Options, topology: &Topology) -> Result<Vec<Engine>, BuildError> {
    if options.policies.is_empty() {
        return Ok(vec![Engine::Sequential]);
    }
    let mut engines: Vec<Engine> = Vec::new();
    for policy in &options.policies {
        if engines.iter().all(|engine| engine.name() != policy) {
            let pool = builder(options, topology, policy).build()?;
            engines.push(match options.forks {
                true => Engine::Forks(pool, policy.clone()),
                false => Engine::Tasks(pool),
            });
        }
    }
    Ok(engines)
}

/// What was recorded in one run.
struct Observed {
    wall: Duration,
    totals: Totals,
    profile: Option<Profile>,
    /// The tasks, if each of them was kept.
    tasks: Option<Recorded>,
}

/// Runs once more, on a pool whose tasks are recorded: each of them, or their sums.
fn record(
    builder: PoolBuilder,
    prepared: &mut dyn Prepared,
    each: bool,
    cancel: &Cancel,
) -> Result<Observed, Error> {
    let recorder = match each {
        true => Recorder::all(),
        false => Recorder::sums(),
    };
    let engine = Engine::Tasks(builder.observer(recorder.clone()).build()?);
    prepared.set_up(engine.way(), cancel)?;
    recorder.take();
    let wall = timed(prepared, engine.way(), cancel, None)?;
    let recorded = recorder.take();
    Ok(Observed {
        wall,
        totals: recorded.totals,
        profile: recorded.profile_of(wall),
        tasks: (!recorded.tasks.is_empty()).then_some(recorded),
    })
}

/// Runs a program of nested forks once more, on a pool whose forks are recorded.
fn record_forks(
    builder: PoolBuilder,
    prepared: &mut dyn Prepared,
    cancel: &Cancel,
) -> Result<Observed, Error> {
    let recorder = ForkRecorder::new();
    let pool = builder.record_forks(&recorder).build()?;
    let engine = Engine::Tasks(pool);
    prepared.set_up(engine.way(), cancel)?;
    let wall = timed(prepared, engine.way(), cancel, None)?;
    let (totals, profile) = forked::measured(&recorder, wall);
    Ok(Observed {
        wall,
        totals,
        profile: Some(profile),
        tasks: None,
    })
}

fn report(
    workload: &str,
    prepared: &dyn Prepared,
    lanes: &[Row],
    recorded: &[Observed],
    topology: &Topology,
) -> Report {
    let input = prepared.input();
    let mut report = Report::new(&format!("{}: {input}", prepared.title()));
    report.machine = host::summary(topology);
    let facts = prepared.facts();
    for (number, lane) in lanes.iter().enumerate() {
        let engine = &lane.engine;
        let recorded = recorded.get(number);
        let counted = recorded.map(|observed| (&observed.totals, observed.wall));
        let mut run = lane.to_result(workload, &input, &facts, counted);
        run.profile = recorded.and_then(|observed| observed.profile.clone());
        run.honours_groups = registry::find(engine.name()).is_ok_and(|entry| entry.groups);
        report.runs.push(run);
        if let Some(tasks) = recorded.and_then(|observed| observed.tasks.as_ref()) {
            let label = format!("{input}, {}", engine.name());
            let timeline = tasks.timeline(&label, engine.name(), engine.workers());
            report.timelines.push(timeline);
        }
    }
    if report.runs.len() > 1 {
        rate(&mut report.runs);
    }
    report
}
