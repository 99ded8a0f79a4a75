//! Tanada, under any registered policy.

use super::simulated::Recording;
use super::{Checksum, Counted, Program, Swept, TASKS, into_digest, predecessors};
use crate::{Fallible, native};
use md5::Md5;
use std::time::Instant;
use tanada_runtime::{Cancel, Instance, Pool, SGroup, TGroup, TemplateBuilder, Token};
use tanada_workloads::h264::{self, decode};
use tanada_workloads::workload::Output;
use tanada_workloads::{Purpose, Site, Way, values_of};

/// The checksum of a field whose rows come one by one.
#[derive(Default)]
struct SumOfRows(Checksum);

impl Output for SumOfRows {
    fn write(&mut self, row: &[u8]) {
        let (points, _) = row.as_chunks();
        let points = points.iter().map(|&point| f32::from_le_bytes(point));
        self.0.add(&points.collect::<Vec<f32>>());
    }
}

/// A pool of the native engine.
pub(crate) struct Tanada {
    pool: Pool,
    graph: Option<Instance<'static, ()>>,
    /// A task for each worker.
    region: Instance<'static, ()>,
    recording: Option<Recording>,
}

/// The hints of the workload: two macroblock rows are a temporal group, a row is a spatial one.
fn groups(at: u32) -> (TGroup, SGroup) {
    let row = at / super::COLUMNS;
    (TGroup(1 + row / 2), SGroup(1 + row))
}

impl Tanada {
    pub(crate) fn open(policy: &str, workers: u16) -> Fallible<Tanada> {
        let pool = Pool::builder().workers(u32::from(workers)).policy(policy);
        let mut region = TemplateBuilder::new();
        for at in 0..u32::from(workers) {
            let id = region.task("part", u64::from(at), move |(), _| native::task(at));
            region.groups(id, TGroup(1), SGroup(1 + at));
        }
        let region = region.build().expect("tasks that wait for nothing");
        Ok(Tanada {
            pool: pool.build()?,
            graph: None,
            region: region.instance(),
            recording: None,
        })
    }
}

impl Program for Tanada {
    fn build(&mut self) {
        let mut builder = TemplateBuilder::new();
        let mut ids = Vec::with_capacity(TASKS as usize);
        for at in 0..TASKS {
            let id = builder.task("macroblock", u64::from(at), move |(), _| native::task(at));
            let (t, s) = groups(at);
            builder.groups(id, t, s);
            for before in predecessors(at) {
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

    fn dynamic(&mut self) {
        let run = self.pool.scope(|s| {
            // Registered by a task, and so on a worker, as a program would that has more to do.
            s.task("frame").register(|s| {
                let mut tokens: Vec<Token> = Vec::with_capacity(TASKS as usize);
                for at in 0..TASKS {
                    let (t, group) = groups(at);
                    let after = predecessors(at).map(|before| tokens[before as usize]);
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

    fn stencil(&mut self, size: usize, sweeps: u32) -> Fallible<Swept> {
        let stencil = tanada_workloads::find("stencil")?;
        let values = values_of(stencil, Purpose::Run)
            .with(&[("size", &size.to_string()), ("sweeps", &sweeps.to_string())])?;
        let placement = self.pool.placement();
        let mut site = Site::new(self.pool.workers());
        site.own_cache = placement.own_cache_bytes();
        site.l1d = placement.l1d_bytes();
        let mut prepared = stencil.prepare(&values, &site)?;
        let (way, cancel) = (Way::Tasks(&self.pool), Cancel::new());
        prepared.set_up(way, &cancel)?;
        let start = Instant::now();
        prepared.run(way, &cancel, None)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut sum = SumOfRows::default();
        prepared.result(&mut sum);
        Ok(Swept {
            seconds,
            checksum: sum.0.0,
        })
    }

    fn simulate(&mut self, params: &str) -> Fallible<Counted> {
        let recording = match self.recording.take() {
            Some(recording) => recording,
            None => Recording::new()?,
        };
        let recording = self.recording.insert(recording);
        recording.simulate(params, self.pool.policy(), self.pool.workers())
    }

    fn decode(&mut self, stream: &[u8], digest: Option<&mut Md5>) -> Fallible<Counted> {
        let (options, cancel) = (h264::Options::default(), Cancel::new());
        let sink = into_digest(digest);
        Counted::timed(|| Ok(decode(&self.pool, stream, &options, &cancel, sink)?.frames))
    }
}
