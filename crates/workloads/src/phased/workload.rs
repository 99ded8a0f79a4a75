//! A [`Phased`] program as a [`Workload`].

use super::{Phased, Tasks, Use};
use crate::loops::Loops;
use crate::options::Values;
use crate::record::{RecordedTask, TaskRecorder};
use crate::tiles::{Probe, Stretch};
use crate::workload::{
    Description, Done, Facts, Output, Prepared, RecordError, Recorder, Recording, RunError, Site,
    Way, Workload, go_on,
};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use tanada_runtime::{Cancel, GraphError, Instance, NodeId, TemplateBuilder};
use tanada_trace::Sink;

/// The pattern of the groups.
const GROUPS: &str = "default";

/// Words of a part of the result.
const PART: usize = 4096;

/// The workload of a phased program.
pub(crate) struct OverPhases<P>(PhantomData<fn() -> P>);

impl<P> OverPhases<P> {
    pub(crate) const NEW: OverPhases<P> = OverPhases(PhantomData);
}

/// Returns the values of the options as text.
fn input<P: Phased>(values: &Values) -> String {
    let specs = P::DESCRIPTION
        .options
        .iter()
        .filter(|spec| spec.is_for(values.purpose()));
    let pairs: Vec<String> = specs
        .map(|spec| format!("{}={}", spec.flag, values.count(spec.flag)))
        .collect();
    pairs.join(",")
}

impl<P: Phased> Workload for OverPhases<P> {
    fn description(&self) -> &'static Description {
        P::DESCRIPTION
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        site.require_memory(P::bytes(values), "choose a smaller --size")?;
        let program = P::new(values, site.workers)?;
        let declared = Tasks::of(&program);
        Ok(Box::new(Ready {
            tasks: tasks(&declared)?,
            loops: loops(&declared, site.workers)?,
            input: input::<P>(values),
            work: Work {
                program,
                tasks: declared.declared.iter().map(|one| one.task).collect(),
                done: Done::default(),
            },
        }))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        P::RECORDED.then_some(self)
    }
}

/// What tasks work on.
struct Work<P: Phased> {
    program: P,
    tasks: Vec<P::Task>,
    done: Done,
}

impl<P: Phased> Work<P> {
    fn run(&self, task: usize) {
        self.program.run(self.tasks[task]);
        self.done.add();
    }
}

type Graph<P> = Instance<'static, Work<P>>;

fn tasks<P: Phased>(declared: &Tasks<P::Task>) -> Result<Graph<P>, GraphError> {
    let mut builder = TemplateBuilder::new();
    let mut nodes: Vec<NodeId> = Vec::with_capacity(declared.declared.len());
    declared.for_each_with_waits(|task, name, phase, waits| {
        let place = task - declared.phases[phase as usize].tasks.start;
        let index = phase << 32 | place as u64;
        let node = builder.task(name, index, move |work: &Work<P>, _| work.run(task));
        let (t, s) = declared.declared[task].groups;
        builder.groups(node, t, s);
        for &earlier in waits {
            builder.edge(nodes[earlier], node);
        }
        nodes.push(node);
        Ok::<_, GraphError>(())
    })?;
    Ok(builder.build()?.instance())
}

/// Builds and returns the program of today: a parallel loop a phase.
fn loops<P: Phased>(declared: &Tasks<P::Task>, workers: u16) -> Result<Graph<P>, GraphError> {
    let mut loops = Loops::new(workers);
    for phase in &declared.phases {
        let first = phase.tasks.start;
        let body = move |work: &Work<P>, block: Range<usize>| {
            block.for_each(|at| work.run(first + at));
        };
        loops.parallel(phase.name, phase.tasks.len(), body);
    }
    loops.build()
}

/// A program with its memory and its graphs.
struct Ready<P: Phased> {
    work: Work<P>,
    tasks: Graph<P>,
    loops: Graph<P>,
    input: String,
}

impl<P: Phased> Prepared for Ready<P> {
    fn title(&self) -> String {
        P::DESCRIPTION.name.to_owned()
    }

    fn input(&self) -> String {
        self.input.clone()
    }

    fn set_up(&mut self, _way: Way<'_>, _cancel: &Cancel) -> Result<(), RunError> {
        self.work.program.reset();
        Ok(())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        match way {
            Way::Tasks(pool) => self.tasks.run_with_cancel(pool, &self.work, cancel)?,
            Way::Today(pool) => self.loops.run_with_cancel(pool, &self.work, cancel)?,
            Way::Sequential => {
                for task in 0..self.work.tasks.len() {
                    if cancel.is_cancelled() {
                        return Err(GraphError::Cancelled.into());
                    }
                    self.work.run(task);
                }
            }
        }
        Ok(())
    }

    fn result(&mut self, output: &mut dyn Output) {
        let mut words = 0;
        self.work.program.visit(&mut |word| {
            if words % PART == 0 {
                output.begin();
            }
            words += 1;
            output.write(&word.to_le_bytes());
        });
    }

    fn part(&self) -> &'static str {
        "piece of 32 KiB"
    }

    fn facts(&self) -> Facts {
        Facts {
            groups: GROUPS,
            ..Facts::default()
        }
    }

    fn done(&self) -> Done {
        self.work.done.clone()
    }

    fn steps(&self) -> Option<u64> {
        Some(self.work.tasks.len() as u64)
    }

    fn step(&self) -> &'static str {
        "tasks"
    }
}

impl<P: Phased> Recorder for OverPhases<P> {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        site.require_memory(P::bytes(values), "choose a smaller --size")?;
        let program = P::new(values, site.workers)?;
        let declared = Tasks::of(&program);
        let mut recorder = TaskRecorder::new(sink, site.workers);
        declared.for_each_with_waits(|task, name, _, waits| {
            let recorded = RecordedTask {
                name,
                plain: declared.declared[task].groups,
                named: &[],
            };
            let waits = waits.iter().map(|&earlier| earlier as u32);
            recorder.task(&recorded, waits, |probe| record(&declared, task, probe))?;
            go_on(seen, recorder.tasks())
        })?;
        Ok(Recording {
            extent: input::<P>(values),
            groups: GROUPS,
            costs: recorder.costs().to_owned(),
            recorded: recorder.finish(),
            ..Recording::default()
        })
    }
}

/// Reports what a task accesses: all that it reads, its arithmetic, and all that it writes, row by row.
fn record<T: Copy>(declared: &Tasks<T>, task: usize, probe: &mut impl Probe) {
    let accesses = declared.accesses(task);
    let touch = |chosen: [Use; 2], probe: &mut dyn FnMut(Stretch)| {
        for (piece, _) in accesses.iter().filter(|access| chosen.contains(&access.1)) {
            let start = piece.number as u64 * piece.array.bytes + piece.offset;
            for row in 0..u64::from(piece.rows) {
                probe(Stretch {
                    field: piece.array.memory,
                    field_bytes: declared.arrays[piece.array.memory],
                    offset: start + row * piece.stride,
                    bytes: piece.bytes as u32,
                });
            }
        }
    };
    touch([Use::Read, Use::Update], &mut |part| probe.read(part));
    probe.compute(1, declared.declared[task].operations as usize);
    touch([Use::Write, Use::Update], &mut |part| probe.write(part));
}
