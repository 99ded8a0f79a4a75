//! Runs of a prepared workload: one at a time, timed without what comes before and after, and what a report says of them.

use crate::counted;
use crate::host;
use std::time::{Duration, Instant};
use tanada_report::{BASELINE, Memory, RunResult, SEQUENTIAL, Seconds, TODAY};
use tanada_runtime::{Bind, Cancel, Pool, PoolBuilder, Totals};
use tanada_topology::Topology;
use tanada_workloads::workload::{Facts, Output, RunError};
use tanada_workloads::{Prepared, Site, Way};

/// What does the work of a run.
#[derive(Debug)]
pub enum Engine {
    /// The calling thread, without tasks.
    Sequential,
    /// A pool, with parallel loops and barriers.
    Today(Pool),
    /// A pool, with tasks.
    Tasks(Pool),
}

impl Engine {
    /// The way of a run on this engine.
    pub fn way(&self) -> Way<'_> {
        match self {
            Engine::Sequential => Way::Sequential,
            Engine::Today(pool) => Way::Today(pool),
            Engine::Tasks(pool) => Way::Tasks(pool),
        }
    }

    /// Threads that do the work.
    pub fn workers(&self) -> u16 {
        match self {
            Engine::Sequential => 1,
            Engine::Today(pool) | Engine::Tasks(pool) => pool.workers(),
        }
    }

    /// What a report calls the row.
    pub fn name(&self) -> &str {
        match self {
            Engine::Sequential => SEQUENTIAL,
            Engine::Today(_) => TODAY,
            Engine::Tasks(pool) => pool.policy(),
        }
    }
}

/// How pools are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pools {
    /// Workers of each; by default those of [`Topology::default_workers`].
    pub workers: Option<u16>,
    /// How workers are bound.
    pub bind: Bind,
    /// Seed of the policies' random numbers.
    pub seed: u64,
}

impl Pools {
    /// Workers of each pool on a machine of this topology.
    pub fn workers_on(&self, topology: &Topology) -> u16 {
        self.workers.unwrap_or_else(|| topology.default_workers())
    }

    /// A builder of pools without a policy.
    pub(crate) fn builder(&self, topology: &Topology) -> PoolBuilder {
        Pool::builder()
            .workers(u32::from(self.workers_on(topology)))
            .bind(self.bind)
            .seed(self.seed)
            .topology(topology.clone())
    }
}

/// Returns the site of `workers` workers on a machine of this topology, with its caches and the memory that is free now.
pub fn site(topology: &Topology, workers: u16) -> Site {
    let placement = topology.place(workers);
    let mut site = Site::new(workers);
    site.own_cache = placement.own_cache_bytes();
    site.l1d = placement.l1d_bytes();
    site.free_memory = host::free_memory();
    site
}

/// Runs the workload once and returns the time of the run alone. With `output` the result goes there: what is written while the run goes on
/// counts, what is written afterwards does not.
///
/// # Errors
/// As [`Prepared::run`].
pub fn once(
    prepared: &mut dyn Prepared,
    way: Way<'_>,
    cancel: &Cancel,
    output: Option<&mut (dyn Output + '_)>,
) -> Result<Duration, RunError> {
    prepared.set_up(way, cancel)?;
    timed(prepared, way, cancel, output)
}

/// As [`once`], of a workload that was set up.
pub(crate) fn timed(
    prepared: &mut dyn Prepared,
    way: Way<'_>,
    cancel: &Cancel,
    mut output: Option<&mut (dyn Output + '_)>,
) -> Result<Duration, RunError> {
    let start = Instant::now();
    let shared = output
        .as_mut()
        .map(|output| &mut **output as &mut dyn Output);
    prepared.run(way, cancel, shared)?;
    let wall = start.elapsed();
    if let Some(output) = output {
        prepared.result(output);
    }
    Ok(wall)
}

/// One row of a report: what does the work, and the seconds of its rounds.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) engine: Engine,
    times: Vec<f64>,
}

impl Lane {
    pub(crate) fn new(engine: Engine) -> Lane {
        Lane {
            engine,
            times: Vec::new(),
        }
    }

    /// Runs the workload [`once`], as the next round.
    pub(crate) fn round(
        &mut self,
        prepared: &mut dyn Prepared,
        cancel: &Cancel,
        output: Option<&mut (dyn Output + '_)>,
    ) -> Result<(), RunError> {
        let wall = once(prepared, self.engine.way(), cancel, output)?;
        self.times.push(wall.as_secs_f64());
        Ok(())
    }

    /// The row of the report; `recorded` is what a recorder counted in a run of this length.
    pub(crate) fn to_result(
        &self,
        workload: &str,
        input: &str,
        facts: &Facts,
        recorded: Option<(&Totals, Duration)>,
    ) -> RunResult {
        let workers = self.engine.workers();
        let mut run = RunResult::new(workload, input, self.engine.name(), workers);
        run.machine = host::processor();
        run.seconds = Seconds::of(&self.times);
        run.frames = facts.frames;
        run.fps = fps(&run);
        if let Some((totals, wall)) = recorded {
            counted::describe(&mut run, totals, wall, workers);
        }
        // Tasks alone have groups and a cut.
        if matches!(self.engine, Engine::Tasks(_)) {
            run.groups = facts.groups.to_owned();
            run.tasks_mode = facts.cut.to_owned();
            run.memory = facts.memory.map(|memory| Memory {
                data: memory.data,
                group: memory.group,
                own_cache: memory.own_cache,
            });
        }
        let extra = facts.extra.iter();
        run.extra
            .extend(extra.map(|&(name, count)| (name.to_owned(), count.into())));
        run
    }
}

/// Frames a second, by the shortest time.
fn fps(run: &RunResult) -> Option<f64> {
    Some(run.frames? as f64 / run.seconds?.min)
}

/// Gives native runs their ratio to the one under [`BASELINE`].
pub(crate) fn rate(runs: &mut [RunResult]) {
    let baseline = runs.iter().find(|run| run.policy == BASELINE);
    let baseline = baseline.and_then(|run| run.seconds);
    for run in runs {
        run.ratio_to_fcfs = run.seconds.zip(baseline).map(|(run, of)| of.min / run.min);
    }
}
