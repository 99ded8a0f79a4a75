//! Random graphs as data. A plan says what each task does; it is a function of its random numbers alone.

use fastrand::Rng;
use std::collections::BTreeSet;
use tanada_runtime::Hints;

/// One graph, and how it is going to end.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    /// Numbers of the jobs that the body of the scope registers.
    pub(crate) roots: Vec<usize>,
    pub(crate) mishap: Mishap,
}

/// One task.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Jobs that this one registers while it runs; their numbers are higher than its own.
    pub(crate) children: Vec<usize>,
    /// Jobs that it waits for, if they are registered before it. Their numbers are lower, so there is no cycle by accident.
    pub(crate) after: Vec<usize>,
    /// As `after`, but added by `Scope::depend` after the job's registration.
    pub(crate) late: Vec<usize>,
    /// What resolves each of its counts.
    pub(crate) counts: Vec<By>,
    pub(crate) hints: Hints,
    pub(crate) work: Work,
    /// Whether its closure is too large for a node.
    pub(crate) large: bool,
    /// A graph that it runs and waits for.
    pub(crate) nested: Option<Box<Nested>>,
    /// A pool that it makes, uses and drops.
    pub(crate) own_pool: bool,
}

/// A graph inside of a task.
#[derive(Debug)]
pub(crate) struct Nested {
    pub(crate) plan: Plan,
    /// Whether it runs on the next pool instead of the task's own, if there is one.
    pub(crate) elsewhere: bool,
}

/// What resolves a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The task or body that registered the task, at once.
    Registrar,
    /// A task that is registered for that.
    Task,
    /// A thread that is no worker.
    Outside,
}

/// How long a body takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Work {
    #[default]
    Nothing,
    Spins(u32),
    Yields,
    Sleeps,
}

/// A fault of a graph, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    Nothing,
    /// This job panics.
    Panic(usize),
    /// The body of the scope panics when it has registered everything.
    BodyPanics,
    /// This job cancels its graph.
    CancelIn(usize),
    /// Another thread cancels the graph at some time.
    CancelOutside,
    /// It was cancelled before it began.
    CancelBefore,
    /// A count that is not there is resolved.
    Surplus,
    /// One count of this job is never resolved.
    Forgotten(usize),
    /// Two more tasks wait for each other.
    Cycle,
}

/// How large the graphs of a case are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) most_jobs: usize,
    /// How deep graphs are nested below this one.
    pub(crate) depth: u32,
}

/// Draws and returns a number from 1 to `most`. Every order of magnitude is equally likely.
pub(crate) fn magnitude(rng: &mut Rng, most: usize) -> usize {
    let bits = most.ilog2() + 1;
    let below = 1usize << rng.u32(1..=bits);
    rng.usize(1..=below.min(most))
}

impl Plan {
    /// Draws and returns a graph that is registered while it runs.
    pub(crate) fn dynamic(rng: &mut Rng, size: Size) -> Plan {
        let count = magnitude(rng, size.most_jobs);
        let chances = Chances::draw(rng);
        let mut jobs: Vec<Job> = Vec::with_capacity(count);
        let mut roots = Vec::new();
        for number in 0..count {
            let mut job = Job::draw(rng, number, &chances);
            if rng.f32() < chances.outside {
                job.counts = (0..rng.usize(1..=3)).map(|_| By::draw(rng)).collect();
            }
            // Only a task that still has a count can get more dependencies.
            if !job.counts.is_empty() {
                job.late = earlier(rng, number, chances.edges);
            }
            if size.depth > 0 && rng.f32() < chances.nested {
                let inner = Size {
                    most_jobs: (size.most_jobs / 4).clamp(1, 24),
                    depth: size.depth - 1,
                };
                job.nested = Some(Box::new(Nested {
                    plan: Plan::dynamic(rng, inner),
                    elsewhere: rng.u8(0..4) == 0,
                }));
            }
            job.own_pool = rng.f32() < chances.own_pool;
            let inside = number > 0 && rng.f32() < chances.inside;
            match inside {
                true => jobs[rng.usize(0..number)].children.push(number),
                false => roots.push(number),
            }
            jobs.push(job);
        }
        let mishap = Mishap::draw(rng, &jobs);
        Plan {
            jobs,
            roots,
            mishap,
        }
    }

    /// Draws and returns a graph that is built once: no job registers another, and no count is resolved.
    pub(crate) fn fixed(rng: &mut Rng, size: Size) -> Plan {
        let count = magnitude(rng, size.most_jobs);
        let chances = Chances::draw(rng);
        let jobs = (0..count).map(|number| Job::draw(rng, number, &chances));
        Plan {
            jobs: jobs.collect(),
            roots: (0..count).collect(),
            mishap: Mishap::Nothing,
        }
    }
}

impl Mishap {
    /// Draws and returns how a graph of these jobs ends: three of four end without an error.
    fn draw(rng: &mut Rng, jobs: &[Job]) -> Mishap {
        let job = rng.usize(0..jobs.len());
        match rng.u8(0..36) {
            0..2 => Mishap::Panic(job),
            2 => Mishap::BodyPanics,
            3 => Mishap::CancelIn(job),
            4..6 => Mishap::CancelOutside,
            6 => Mishap::CancelBefore,
            7 => Mishap::Surplus,
            8 if !jobs[job].counts.is_empty() => Mishap::Forgotten(job),
            9 => Mishap::Cycle,
            _ => Mishap::Nothing,
        }
    }
}

/// Probabilities in one graph, drawn for each graph anew: so graphs differ in kind, not only in detail.
struct Chances {
    /// Mean number of dependencies of a task.
    edges: f32,
    outside: f32,
    inside: f32,
    nested: f32,
    own_pool: f32,
    /// Number of T groups, and of S groups.
    groups: u32,
    busy: u8,
}

impl Chances {
    fn draw(rng: &mut Rng) -> Chances {
        let mut one_of = |list: [f32; 4]| list[rng.usize(0..4)];
        Chances {
            edges: one_of([0.0, 0.7, 1.5, 4.0]),
            outside: one_of([0.0, 0.0, 0.1, 0.5]),
            inside: one_of([0.0, 0.2, 0.5, 0.95]),
            nested: one_of([0.0, 0.0, 0.02, 0.15]),
            own_pool: one_of([0.0, 0.0, 0.0, 0.01]),
            groups: [0, 2, 5, 40][rng.usize(0..4)],
            busy: rng.u8(0..4),
        }
    }
}

impl Job {
    fn draw(rng: &mut Rng, number: usize, chances: &Chances) -> Job {
        let work = match (chances.busy, rng.u8(0..32)) {
            (0, _) => Work::Nothing,
            (3, 0) => Work::Sleeps,
            (_, 1) => Work::Yields,
            (_, 2..16) => Work::Spins(rng.u32(0..200)),
            (2.., 16) => Work::Spins(rng.u32(0..20_000)),
            _ => Work::Nothing,
        };
        let mut hints = Hints::default();
        if rng.u8(0..8) != 0 {
            (hints.t, hints.s) = (rng.u32(0..=chances.groups), rng.u32(0..=chances.groups));
        }
        (hints.depth, hints.priority) = (rng.u32(0..100), rng.i32(-3..3));
        (hints.footprint, hints.user) = (rng.u64(0..1 << 20), rng.u64(..));
        Job {
            after: earlier(rng, number, chances.edges),
            hints,
            work,
            large: rng.u8(0..8) == 0,
            ..Job::default()
        }
    }
}

impl By {
    fn draw(rng: &mut Rng) -> By {
        [By::Registrar, By::Task, By::Outside][rng.usize(0..3)]
    }
}

/// Draws and returns about `mean` numbers below `number`, most of them close to it.
fn earlier(rng: &mut Rng, number: usize, mean: f32) -> Vec<usize> {
    if number == 0 {
        return Vec::new();
    }
    let count = (rng.f32() * 2.0 * mean).round() as usize;
    let list = (0..count).map(|_| number - magnitude(rng, number));
    Vec::from_iter(BTreeSet::from_iter(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_a_function_of_its_seed_and_every_job_is_registered_once() {
        let size = Size {
            most_jobs: 300,
            depth: 2,
        };
        for seed in 0..200 {
            let plan = Plan::dynamic(&mut Rng::with_seed(seed), size);
            let again = Plan::dynamic(&mut Rng::with_seed(seed), size);
            assert_eq!(format!("{plan:?}"), format!("{again:?}"));
            let mut registered = plan.roots.clone();
            for (number, job) in plan.jobs.iter().enumerate() {
                assert!(job.children.iter().all(|&child| child > number));
                assert!(
                    job.after
                        .iter()
                        .chain(&job.late)
                        .all(|&before| before < number)
                );
                registered.extend(&job.children);
            }
            registered.sort_unstable();
            assert!(registered.into_iter().eq(0..plan.jobs.len()));
        }
    }
}
