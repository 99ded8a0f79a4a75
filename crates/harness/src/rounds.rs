//! Rounds in turns, and runs of a prepared workload: each is timed without what comes before and after it. What a report says of the runs.

use crate::counted;
use crate::host;
use std::time::{Duration, Instant};
use tanada_report::{BASELINE, Memory, RunResult, SEQUENTIAL, Seconds, TODAY};
use tanada_runtime::{Bind, Cancel, Pool, PoolBuilder, Totals};
use tanada_topology::{Placement, Topology};
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
    /// A pool, with forks under the policy of this name.
    Forks(Pool, String),
}

impl Engine {
    /// Returns the way of a run on this engine.
    pub fn way(&self) -> Way<'_> {
        match self {
            Engine::Sequential => Way::Sequential,
            Engine::Today(pool) => Way::Today(pool),
            Engine::Tasks(pool) | Engine::Forks(pool, _) => Way::Tasks(pool),
        }
    }

    /// Returns the number of threads that do the work.
    pub fn workers(&self) -> u16 {
        match self {
            Engine::Sequential => 1,
            Engine::Today(pool) | Engine::Tasks(pool) | Engine::Forks(pool, _) => pool.workers(),
        }
    }

    /// Returns what a report calls the row.
    pub fn name(&self) -> &str {
        match self {
            Engine::Sequential => SEQUENTIAL,
            Engine::Today(_) => TODAY,
            Engine::Tasks(pool) => pool.policy(),
            Engine::Forks(_, policy) => policy,
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
    /// Returns the workers of each pool on a machine of this topology.
    pub fn workers_on(&self, topology: &Topology) -> u16 {
        self.workers.unwrap_or_else(|| topology.default_workers())
    }

    /// Returns a builder of pools without a policy.
    pub(crate) fn builder(&self, topology: &Topology) -> PoolBuilder {
        Pool::builder()
            .workers(u32::from(self.workers_on(topology)))
            .bind(self.bind)
            .seed(self.seed)
            .topology(topology.clone())
    }
}

/// Returns the site of workers with this placement: their caches, and the memory that is free now.
pub fn site(placement: &Placement) -> Site {
    let mut site = Site::new(placement.workers());
    site.own_cache = placement.own_cache_bytes();
    site.l1d = placement.l1d_bytes();
    site.free_memory = host::free_memory();
    site
}

/// Runs the workload once and returns the time of the run alone. The result goes to `output`, if there is one: the time includes what the
/// run writes there, and not what is written after the run.
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

/// Runs a workload that was set up, and returns the time as [`once`] does.
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

/// What has a turn in each round, and what came of its turns.
#[derive(Debug)]
pub struct Lane<L, S> {
    /// What does the work of a turn.
    pub engine: L,
    /// One sample a turn that succeeded, in the order of the rounds.
    pub samples: Vec<S>,
    /// Why the lane has no further turn.
    pub failed: Option<String>,
}

/// What came of a turn.
#[derive(Clone, Debug)]
pub enum Turn<S> {
    /// It succeeded.
    Sample(S),
    /// It succeeded, and no further turn of any lane begins.
    Last(S),
    /// It failed: the lane has no further turn, and the others go on.
    Failed(String),
}

/// Runs `rounds` rounds, counted from 0, and returns a lane for each of `engines`. In each round every lane has its turn, so that other
/// load on the machine slows all lanes alike. Every other round goes backwards: no lane always comes behind the same one, whose heat or
/// memory it might find.
///
/// # Errors
/// The first error of `turn`, which ends the rounds.
pub fn in_turns<L, S, E>(
    rounds: u32,
    engines: Vec<L>,
    mut turn: impl FnMut(u32, &mut L) -> Result<Turn<S>, E>,
) -> Result<Vec<Lane<L, S>>, E> {
    let lane = |engine| Lane {
        engine,
        samples: Vec::new(),
        failed: None,
    };
    let mut lanes = Vec::from_iter(engines.into_iter().map(lane));
    for round in 0..rounds {
        for nth in 0..lanes.len() {
            let backwards = lanes.len() - 1 - nth;
            let lane = &mut lanes[if round % 2 == 0 { nth } else { backwards }];
            if lane.failed.is_some() {
                continue;
            }
            match turn(round, &mut lane.engine)? {
                Turn::Sample(sample) => lane.samples.push(sample),
                Turn::Last(sample) => {
                    lane.samples.push(sample);
                    return Ok(lanes);
                }
                Turn::Failed(why) => lane.failed = Some(why),
            }
        }
    }
    Ok(lanes)
}

/// A row of a report: an engine with the times of its runs.
pub(crate) type Row = Lane<Engine, Duration>;

impl Row {
    /// Returns the row of the report; `recorded` is what a recorder counted in a run of this length.
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
        let times = self.samples.iter().map(Duration::as_secs_f64);
        run.seconds = Seconds::of(&Vec::from_iter(times));
        run.frames = facts.frames;
        run.fps = fps(&run);
        if let Some((totals, wall)) = recorded {
            counted::describe(&mut run, totals, wall, workers);
        }
        // Tasks alone have groups and a cut.
        if matches!(self.engine, Engine::Tasks(_) | Engine::Forks(..)) {
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

/// Returns frames a second, by the shortest time.
fn fps(run: &RunResult) -> Option<f64> {
    Some(run.frames? as f64 / run.seconds?.min)
}

/// Stores the ratio of each native run to the one under [`BASELINE`], if there is one: policies of forks are compared without it.
pub(crate) fn rate(runs: &mut [RunResult]) {
    let baseline = runs.iter().find(|run| run.policy == BASELINE);
    let baseline = baseline.and_then(|run| run.seconds);
    for run in runs {
        run.ratio_to_fcfs = run.seconds.zip(baseline).map(|(run, of)| of.min / run.min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ended = Result<Vec<(Vec<u32>, Option<String>)>, &'static str>;

    /// Runs rounds of three lanes; `special` comes of the second lane's turn in round 1. Returns the order of the turns, and samples and
    /// failure of each lane.
    fn turns(special: &Result<Turn<u32>, &'static str>) -> (String, Ended) {
        let mut order = String::new();
        let lanes = in_turns(3, vec!['a', 'b', 'c'], |round, name| {
            order += &format!("{name}{round} ");
            match (*name, round) {
                ('b', 1) => special.clone(),
                _ => Ok(Turn::Sample(10 * round)),
            }
        });
        let ended = |lanes: Vec<Lane<char, u32>>| {
            let ended = lanes.into_iter().map(|lane| (lane.samples, lane.failed));
            ended.collect()
        };
        (order, lanes.map(ended))
    }

    #[test]
    fn a_lane_that_failed_has_no_further_turn_and_the_others_go_on() {
        let (order, lanes) = turns(&Ok(Turn::Failed("no".to_owned())));
        assert_eq!(order, "a0 b0 c0 c1 b1 a1 a2 c2 ");
        let whole = (vec![0, 10, 20], None);
        let failed = (vec![0], Some("no".to_owned()));
        assert_eq!(lanes, Ok(vec![whole.clone(), failed, whole]));
    }

    #[test]
    fn the_last_turn_and_an_error_end_the_rounds() {
        let (order, lanes) = turns(&Ok(Turn::Last(7)));
        assert_eq!(order, "a0 b0 c0 c1 b1 ");
        let samples = [vec![0], vec![0, 7], vec![0, 10]];
        assert_eq!(lanes, Ok(samples.map(|samples| (samples, None)).to_vec()));
        assert_eq!(turns(&Err("stop")), (order, Err("stop")));
    }
}
