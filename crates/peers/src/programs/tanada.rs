//! Tanada, under any registered policy.

use super::forks::{self, Fork, Inputs, Kernel};
use super::simulated::{record, simulate};
use super::{
    Checksum, Counted, Edges, Flat, Growth, Program, Steps, Stream, Swept, TASKS, predecessors,
};
use crate::cases::Case;
use crate::{Fallible, native};
use md5::{Digest as _, Md5};
use tanada_harness::recording::Recording;
use tanada_harness::rounds::{once, site};
use tanada_runtime::fork;
use tanada_runtime::{Cancel, Instance, Pool, SGroup, Scope, TGroup, TemplateBuilder, Token};
use tanada_workloads::workload::{Facts, Output};
use tanada_workloads::{Purpose, Site, Way};

/// Runs the workload of `case` with further `options` once. Returns the seconds and what a report says of the run; the result goes to
/// `output`, if there is one.
fn run(
    case: &Case,
    way: Way<'_>,
    options: &[(&str, &str)],
    output: Option<&mut dyn Output>,
) -> Fallible<(f64, Facts)> {
    let (workload, values) = case.workload(Purpose::Run)?;
    let site = match way {
        Way::Sequential => Site::new(1),
        Way::Today(pool) | Way::Tasks(pool) => site(pool.placement()),
    };
    let mut prepared = workload.prepare(&values.with(options)?, &site)?;
    let time = once(&mut *prepared, way, &Cancel::new(), output)?;
    Ok((time.as_secs_f64(), prepared.facts()))
}

/// Decodes `stream` by the workload of `case` and returns the number of frames; their bytes go into `digest`, if there is one.
pub(super) fn decode(
    case: &Case,
    way: Way<'_>,
    stream: &Stream,
    digest: Option<&mut Md5>,
) -> Fallible<Counted> {
    let input = Vec::from_iter(stream.0.as_deref().map(|file| ("input", file)));
    let mut digest = digest.map(Bytes);
    let output = digest.as_mut().map(|digest| digest as &mut dyn Output);
    let (seconds, facts) = run(case, way, &input, output)?;
    let count = facts.frames.ok_or("no frames were counted")?;
    Ok(Counted { count, seconds })
}

/// The digest of a result.
struct Bytes<'a>(&'a mut Md5);

impl Output for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// Takes the rows of a field.
impl Output for Checksum {
    fn write(&mut self, row: &[u8]) {
        let (points, _) = row.as_chunks();
        let points = points.iter().map(|&point| f32::from_le_bytes(point));
        self.add(&points.collect::<Vec<f32>>());
    }
}

/// A pool of the native engine.
pub(crate) struct Tanada {
    case: &'static Case,
    pool: Pool,
    graph: Option<Instance<'static, ()>>,
    /// A task for each worker.
    region: Instance<'static, ()>,
    /// The template of as many independent tasks.
    flat: Option<(u32, Instance<'static, ()>)>,
    recording: Option<Recording>,
}

/// Returns the groups of a task of the wavefront: two macroblock rows are a temporal group, a row is a spatial group.
fn groups(at: u32) -> (TGroup, SGroup) {
    let row = at / super::COLUMNS;
    (TGroup(1 + row / 2), SGroup(1 + row))
}

fn leaf(s: &Scope<'_>, at: u32) {
    s.task("task").register(move |_| native::task(at));
}

/// Registers task `at` of a chain that ends before `tasks`.
fn chain(s: &Scope<'_>, at: u32, tasks: u32) {
    if at < tasks {
        s.task("task").register(move |s| {
            native::task(at);
            chain(s, at + 1, tasks);
        });
    }
}

/// Registers task `at` of a binary tree of `tasks` tasks.
fn tree(s: &Scope<'_>, at: u32, tasks: u32) {
    if at < tasks {
        s.task("task").register(move |s| {
            native::task(at);
            tree(s, 2 * at + 1, tasks);
            tree(s, 2 * at + 2, tasks);
        });
    }
}

impl Tanada {
    /// Returns a pool of `workers` workers under `policy`, for `case`.
    pub(crate) fn open(policy: &str, case: &'static Case, workers: u16) -> Fallible<Tanada> {
        let pool = Pool::builder().workers(u32::from(workers)).policy(policy);
        let mut region = TemplateBuilder::new();
        for at in 0..u32::from(workers) {
            let id = region.task("part", u64::from(at), move |(), _| native::task(at));
            region.groups(id, TGroup(1), SGroup(1 + at));
        }
        let region = region.build().expect("tasks that wait for nothing");
        Ok(Tanada {
            case,
            pool: pool.build()?,
            graph: None,
            region: region.instance(),
            flat: None,
            recording: None,
        })
    }
}

/// A pool of which the thread that measures is a worker: it forks.
pub(crate) struct Here {
    workers: u32,
    /// Open as long as this.
    _pool: Pool,
}

impl Here {
    /// Returns a pool of `workers` workers, this thread among them.
    pub(crate) fn open(workers: u16) -> Fallible<Here> {
        let workers = u32::from(workers);
        Ok(Here {
            workers,
            _pool: Pool::builder().workers(workers).build_here()?,
        })
    }
}

impl Program for Here {
    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        Ok(forks::run::<Joins>(&mut (), kernel, inputs))
    }

    fn region(&mut self) {
        forks::halves::<Joins>(&mut (), 0, self.workers);
    }

    fn flat(&mut self, _flat: Flat, tasks: u32) {
        fork::for_each(0..tasks as usize, |at| native::task(at as u32));
    }

    /// By loops, as rayon's.
    fn cholesky(&mut self, _way: Flat, steps: &Steps) {
        for k in 0..steps.tiles {
            let column = Vec::from_iter(steps.last(k));
            native::cholesky_step(column[0]);
            fork::for_each(1..column.len(), |at| native::cholesky_step(column[at]));
            let products = Vec::from_iter(steps.products(k));
            fork::for_each(0..products.len(), |at| native::cholesky_step(products[at]));
        }
    }
}

/// Forks on the fork layer.
struct Joins;

impl Fork for Joins {
    type Scope<'s> = ();

    #[inline]
    fn join<A: Send, B: Send>(
        (): &mut (),
        first: impl FnOnce(&mut ()) -> A + Send,
        second: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        fork::join(|| first(&mut ()), || second(&mut ()))
    }
}

impl Program for Tanada {
    fn fork(&mut self, kernel: Kernel, inputs: &mut Inputs) -> Fallible<u64> {
        Ok(fork::install(&self.pool, || {
            forks::run::<Joins>(&mut (), kernel, inputs)
        }))
    }

    fn build(&mut self, edges: Edges) {
        let mut builder = TemplateBuilder::new();
        let mut ids = Vec::with_capacity(TASKS as usize);
        for at in 0..TASKS {
            let id = builder.task("macroblock", u64::from(at), move |(), _| native::task(at));
            let (t, s) = groups(at);
            builder.groups(id, t, s);
            for before in predecessors(at, edges) {
                builder.edge(ids[before as usize], id);
            }
            ids.push(id);
        }
        let template = builder.build().expect("a wavefront has no cycle");
        self.graph = Some(template.instance());
    }

    fn run(&mut self, frames: u32) {
        let graph = self.graph.as_mut().expect("built before it is run");
        let frames = vec![(); frames as usize];
        graph.run_each(&self.pool, &frames).expect("runs that end");
    }

    fn discard(&mut self) {
        self.graph = None;
    }

    fn dynamic(&mut self, edges: Edges) {
        let run = self.pool.scope(|s| {
            // Registered by a task, and so on a worker.
            s.task("frame").register(|s| {
                let mut tokens: Vec<Token> = Vec::with_capacity(TASKS as usize);
                for at in 0..TASKS {
                    let (t, group) = groups(at);
                    let after = predecessors(at, edges).map(|before| tokens[before as usize]);
                    let task = s
                        .task("macroblock")
                        .index(u64::from(at))
                        .groups(t, group)
                        .after(after);
                    tokens.push(task.register(move |_| native::task(at)));
                }
            });
        });
        run.expect("a graph that ends");
    }

    fn region(&mut self) {
        self.region.run(&self.pool, &()).expect("a run that ends");
    }

    fn flat(&mut self, flat: Flat, tasks: u32) {
        if flat == Flat::Scope {
            let run = self.pool.scope(|s| {
                for at in 0..tasks {
                    let task = s.task("task").index(u64::from(at));
                    task.register(move |_| native::task(at));
                }
            });
            return run.expect("a graph that ends");
        }
        if self.flat.as_ref().is_none_or(|flat| flat.0 != tasks) {
            let mut builder = TemplateBuilder::new();
            for at in 0..tasks {
                builder.task("task", u64::from(at), move |(), _| native::task(at));
            }
            let template = builder.build().expect("tasks that wait for nothing");
            self.flat = Some((tasks, template.instance()));
        }
        let (_, instance) = self.flat.as_mut().expect("built above");
        instance.run(&self.pool, &()).expect("a run that ends");
    }

    fn grow(&mut self, shape: Growth, tasks: u32) {
        let run = self.pool.scope(|s| match shape {
            Growth::Chain => chain(s, 0, tasks),
            Growth::Tree => tree(s, 0, tasks),
            Growth::Outside => (0..tasks).for_each(|at| leaf(s, at)),
            Growth::Worker => {
                s.task("all")
                    .register(move |s| (0..tasks).for_each(|at| leaf(s, at)));
            }
        });
        run.expect("a graph that ends");
    }

    fn prepare_cholesky(&mut self, way: Flat, steps: &Steps) {
        if way == Flat::Scope {
            return;
        }
        let mut builder = TemplateBuilder::new();
        let mut last = Vec::from_iter((0..steps.tiles).map(|i| vec![None; i as usize + 1]));
        for step in steps.all() {
            let [i, j, k] = step;
            let id = builder.task("step", u64::from(k), move |(), _| {
                native::cholesky_step(step)
            });
            builder.groups(id, TGroup(1 + k), SGroup(1 + i));
            for [i, j, _] in steps.before(step) {
                let before = last[i as usize][j as usize];
                builder.edge(before.expect("it comes first"), id);
            }
            last[i as usize][j as usize] = Some(id);
        }
        let template = builder.build().expect("no cycle");
        self.graph = Some(template.instance());
    }

    fn cholesky(&mut self, way: Flat, steps: &Steps) {
        if way == Flat::Template {
            return self.run(1);
        }
        let run = self.pool.scope(|s| {
            let mut last = Vec::from_iter((0..steps.tiles).map(|i| vec![None; i as usize + 1]));
            for step in steps.all() {
                let [i, j, k] = step;
                let before = |[i, j, _]: [u32; 3]| last[i as usize][j as usize];
                let after = steps
                    .before(step)
                    .map(|step| before(step).expect("it comes first"));
                let task = s
                    .task("step")
                    .index(u64::from(k))
                    .groups(TGroup(1 + k), SGroup(1 + i));
                let token = task
                    .after(after)
                    .register(move |_| native::cholesky_step(step));
                last[i as usize][j as usize] = Some(token);
            }
        });
        run.expect("a graph that ends");
    }

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        let size = [
            ("size", &*size.to_string()),
            ("sweeps", &sweeps.to_string()),
        ];
        let mut sum = Checksum::default();
        let (seconds, _) = run(self.case, Way::Tasks(&self.pool), &size, Some(&mut sum))?;
        let checksum = sum.0;
        Ok(Swept { seconds, checksum })
    }

    fn simulate(&mut self, params: &str) -> Fallible<Counted> {
        let recording = match &self.recording {
            Some(recording) => recording,
            None => self.recording.insert(record(self.case)?),
        };
        simulate(recording, params, self.pool.policy(), self.pool.workers())
    }

    fn decode(&mut self, stream: &Stream, digest: Option<&mut Md5>) -> Fallible<Counted> {
        decode(self.case, Way::Tasks(&self.pool), stream, digest)
    }
}
