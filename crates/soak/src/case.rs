//! Cases: some pools, and threads that run graphs on them, drawn from a seed.

use crate::decoding::decoding;
use crate::graphs::{self, Done, World, scheduled, text_of};
use crate::plan::{Plan, Size, magnitude};
use crate::post::Post;
use fastrand::Rng;
use std::time::Duration;
use tanada_policy::registry;
use tanada_runtime::{Bind, Pool, Replay};

/// Bounds that the caller sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) workers: u32,
    pub(crate) jobs: usize,
    /// The only kind of work, instead of a random mixture.
    pub(crate) only: Option<Kind>,
}

/// The work of a thread in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Graphs that are registered while they run
    Graphs,
    /// Graphs that are built once
    Templates,
    /// A small H.264 stream
    Decoding,
}

impl Kind {
    fn draw(rng: &mut Rng) -> Kind {
        match rng.u8(0..32) {
            0 => Kind::Decoding,
            1..8 => Kind::Templates,
            _ => Kind::Graphs,
        }
    }
}

/// A pool before it is made.
#[derive(Clone, Debug)]
struct PoolPlan {
    workers: u32,
    policy: &'static str,
    bind: Bind,
    seed: u64,
}

/// Everything that happens between two moments at which nothing is alive.
#[derive(Debug)]
pub(crate) struct Case {
    pools: Vec<PoolPlan>,
    /// Seeds of the threads that run graphs.
    drivers: Vec<u64>,
    rounds: usize,
    size: Size,
    /// The pools end in a task of another pool instead of here.
    end_in_task: bool,
    only: Option<Kind>,
}

impl Case {
    /// Draws and returns the case of a seed.
    pub(crate) fn of(seed: u64, bounds: Bounds) -> Case {
        let mut rng = Rng::with_seed(seed);
        let rng = &mut rng;
        let policies = registry::native();
        let pools = (0..[1, 1, 1, 2, 3][rng.usize(0..5)])
            .map(|_| PoolPlan {
                workers: magnitude(rng, bounds.workers as usize) as u32,
                policy: policies[rng.usize(0..policies.len())].name,
                bind: [Bind::Auto, Bind::Off, Bind::Cpu, Bind::Domain][rng.usize(0..4)],
                seed: rng.u64(..),
            })
            .collect();
        Case {
            pools,
            drivers: Vec::from_iter((0..[1, 1, 2, 4][rng.usize(0..4)]).map(|_| rng.u64(..))),
            rounds: rng.usize(1..=8),
            size: Size {
                most_jobs: magnitude(rng, bounds.jobs),
                depth: rng.u32(0..=3),
            },
            end_in_task: rng.u8(0..4) == 0,
            only: bounds.only,
        }
    }

    /// Returns the policies and numbers of workers, for messages.
    pub(crate) fn about(&self) -> String {
        let about = |pool: &PoolPlan| format!("{} x {}", pool.policy, pool.workers);
        Vec::from_iter(self.pools.iter().map(about)).join(", ")
    }

    /// Runs the case, in a schedule if there is one: then one thread after the other drives it, and none acts from outside. Returns all
    /// findings.
    pub(crate) fn run(&self, done: &Done, replay: Option<&Replay>) -> Vec<String> {
        let make = |plan: &PoolPlan| {
            let pool = Pool::builder().workers(plan.workers).policy(plan.policy);
            scheduled(pool.bind(plan.bind).seed(plan.seed), replay).build()
        };
        let pools = match self.pools.iter().map(make).collect::<Result<Vec<_>, _>>() {
            Ok(pools) => pools,
            Err(error) => return vec![format!("a pool cannot be made: {error}")],
        };
        let post = Post::new(replay.is_some());
        let world = World {
            pools: &pools,
            post: &post,
            replay,
            done,
        };
        let mut findings = Vec::new();
        // Joined one by one, see `graphs::template`.
        std::thread::scope(|threads| {
            let postman = threads.spawn(|| post.serve());
            let world = &world;
            let drive = |&seed: &u64| threads.spawn(move || self.drive(world, seed));
            let mut join = |thread: std::thread::ScopedJoinHandle<'_, Vec<String>>| {
                let result = thread.join();
                findings.extend(result.unwrap_or_else(|payload| vec![text_of(&*payload)]));
            };
            let mut drivers = self.drivers.iter().map(drive);
            if replay.is_some() {
                drivers.by_ref().for_each(&mut join);
            }
            let drivers: Vec<_> = drivers.collect();
            drivers.into_iter().for_each(&mut join);
            post.close();
            join(postman);
        });
        findings.extend(self.end(pools, replay));
        findings
    }

    /// Runs the rounds of one thread. Returns all findings.
    fn drive(&self, world: &World<'_>, seed: u64) -> Vec<String> {
        let mut rng = Rng::with_seed(seed);
        let mut findings = Vec::new();
        for _ in 0..self.rounds {
            let pool = rng.usize(0..world.pools.len());
            let drawn = Kind::draw(&mut rng);
            // The decoder's tasks register others while they hold a lock that further ones take: no part of a schedule.
            let drawn = match drawn {
                Kind::Decoding if world.replay.is_some() => Kind::Templates,
                other => other,
            };
            findings.extend(match self.only.unwrap_or(drawn) {
                Kind::Decoding => Vec::from_iter(decoding(world, pool, &mut rng)),
                Kind::Templates => {
                    let plan = Plan::fixed(&mut rng, self.size);
                    let runs = (rng.usize(1..=3), rng.usize(1..=12));
                    graphs::template(world, &plan, pool, runs, &mut rng)
                }
                Kind::Graphs => {
                    let plan = Plan::dynamic(&mut rng, self.size);
                    graphs::dynamic(world, &plan, pool, rng.u64(..), None)
                }
            });
            // Sometimes long enough for workers to fall asleep.
            if rng.u8(0..4) == 0 {
                std::thread::sleep(Duration::from_micros(rng.u64(0..1500)));
            }
        }
        findings
    }

    /// Drops the pools, perhaps in a task of another pool, and returns what went wrong.
    fn end(&self, pools: Vec<Pool>, replay: Option<&Replay>) -> Option<String> {
        if !self.end_in_task {
            return None;
        }
        let last = match scheduled(Pool::builder().workers(1), replay).build() {
            Ok(pool) => pool,
            Err(error) => return Some(format!("a pool cannot be made: {error}")),
        };
        let result = last.scope(|s| {
            s.task("drops the pools").register(move |_| drop(pools));
        });
        let error = result.err()?;
        Some(format!("dropping pools in a task: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const BOUNDS: Bounds = Bounds {
        workers: 64,
        jobs: 400,
        only: None,
    };

    #[test]
    fn cases_differ_and_meet_every_policy_and_numbers_of_workers_from_1_to_64() {
        let cases: Vec<Case> = (0..2000).map(|seed| Case::of(seed, BOUNDS)).collect();
        let pools = || cases.iter().flat_map(|case| &case.pools);
        let policies: BTreeSet<_> = pools().map(|pool| pool.policy).collect();
        assert_eq!(policies.len(), registry::native().len());
        let workers: BTreeSet<_> = pools().map(|pool| pool.workers).collect();
        assert!(workers.contains(&1) && workers.last() == Some(&64) && workers.len() > 40);
        let again = format!("{:?}", Case::of(77, BOUNDS));
        assert_eq!(again, format!("{:?}", cases[77]));
    }

    #[test]
    fn some_cases_end_without_a_finding() {
        let done = Done::default();
        let bounds = Bounds {
            workers: 4,
            jobs: 60,
            only: None,
        };
        for seed in 0..20 {
            assert_eq!(
                Case::of(seed, bounds).run(&done, None),
                [""; 0],
                "seed {seed}"
            );
        }
        assert!(done.tasks.into_inner() > 100);
    }

    /// A thousand seeds with `TANADA_FULL=1`.
    #[test]
    fn cases_replay_to_the_same_order_under_every_policy() {
        let seeds = if std::env::var_os("TANADA_FULL").is_some() {
            1000
        } else {
            60
        };
        let bounds = Bounds {
            workers: 6,
            jobs: 60,
            only: None,
        };
        let (done, mut policies, mut tasks) = (Done::default(), BTreeSet::new(), 0);
        for seed in 0..seeds {
            let case = Case::of(seed, bounds);
            policies.extend(case.pools.iter().map(|pool| pool.policy));
            let [first, again] = [(), ()].map(|()| {
                let replay = Replay::seed(seed);
                assert_eq!(case.run(&done, Some(&replay)), [""; 0], "seed {seed}");
                assert_eq!(replay.departures(), [""; 0], "seed {seed}");
                replay.decisions()
            });
            assert_eq!(first, again, "seed {seed}: {}", case.about());
            tasks += first.starts().len();
        }
        assert_eq!(policies.len(), registry::native().len());
        println!("{seeds} seeds, {tasks} tasks, {} policies", policies.len());
    }
}
