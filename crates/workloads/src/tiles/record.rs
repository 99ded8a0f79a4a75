//! Recording of programs that go over tiles of fields.

use crate::record::layout::{CODE, Layout};
use crate::record::tape::{Code, Entry, LINE, Recorded, Tape};
use crate::tiles::{Caches, Groups, Plan, Probe, Program, Stretch, Tile};
use serde::Deserialize;
use std::ops::ControlFlow;
use tanada_trace::{Grouping, NewTask, Sink, TraceError};

/// The table of costs.
const FIELDS: &str = include_str!("../../data/fields.toml");

#[derive(Clone, Debug, Deserialize)]
struct Costs {
    name: String,
    task: TaskCosts,
    pass: PassCosts,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct TaskCosts {
    cycles: f64,
    code: u64,
    stack: u32,
    descriptor: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PassCosts {
    cycles: f64,
    row: f64,
    code: u64,
}

/// What a recording holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TilesRecording {
    /// How the field is cut.
    pub plan: Plan,
    /// What the table of costs calls itself.
    pub costs: String,
    /// Tasks, dependencies and addresses.
    pub recorded: Recorded,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TilesError {
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// Records all sweeps of a program over tiles, cut and grouped for `workers` workers with such caches, into `sink`.
///
/// The tasks are those that [`Tiled::run`](crate::tiles::Tiled::run) runs; they carry the groups `own` by name, and as plain ones those
/// that `options` ask for. `seen` is called after each task with how many were recorded so far, and stops the recording when it breaks.
///
/// # Errors
/// See [`TilesError`]; what `sink` got by then is no whole trace.
///
/// # Panics
/// Where there are no points, or the fields are larger than an address space.
pub fn tiles<P: Program, S: Sink>(
    options: P::Options,
    workers: u16,
    caches: Caches,
    sink: &mut S,
    mut seen: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<TilesRecording, TilesError> {
    let costs: Costs =
        toml::from_str(FIELDS).expect("the table that is part of this crate is right");
    let (shape, groups) = P::shape(options);
    let plan = Plan::new(shape, workers, caches, groups);
    let own = Plan::new(shape, workers, caches, Groups::Own);
    let program = P::new(options, plan.caches());
    plan.tiles().for_each(|tile| program.fill(tile));
    let mut recorder = Recorder::new(&costs, workers, sink);
    let mut outcome = Ok(());
    plan.declare(|tile, sweep, waits: &mut dyn Iterator<Item = u32>| {
        let id = recorder.next;
        recorder.next += 1;
        if outcome.is_ok() {
            let name = P::name(sweep, shape.sweeps);
            let work = |seer: &mut Seer<'_, '_, S>| program.sweep_with(tile, sweep, seer);
            outcome = recorder
                .task(
                    id,
                    name,
                    [&plan, &own].map(|plan| groups_of(plan, &tile, sweep)),
                    work,
                    waits,
                )
                .map_err(TilesError::from);
            if outcome.is_ok() && seen(u64::from(id) + 1).is_break() {
                outcome = Err(TilesError::Stopped);
            }
        }
        id
    });
    outcome?;
    Ok(TilesRecording {
        plan,
        costs: costs.name,
        recorded: Recorded {
            regions: recorder.layout.regions(),
            ..recorder.recorded
        },
    })
}

fn groups_of(plan: &Plan, tile: &Tile, sweep: u32) -> (u32, u32) {
    let (t, s) = plan.groups_of(tile, sweep);
    (t.0, s.0)
}

struct Recorder<'a, S> {
    tape: Tape<'a, S>,
    layout: Layout,
    entry: Entry,
    pass: Code,
    costs: PassCosts,
    workers: u16,
    next: u32,
    recorded: Recorded,
}

impl<'a, S: Sink> Recorder<'a, S> {
    fn new(costs: &Costs, workers: u16, sink: &'a mut S) -> Self {
        let Costs { task, pass, .. } = *costs;
        let middle = CODE + task.code.next_multiple_of(LINE);
        let end = middle + pass.code.next_multiple_of(LINE);
        let workers = workers.max(1);
        Recorder {
            tape: Tape::new(sink),
            layout: Layout::new(Code(CODE, end), workers),
            entry: Entry {
                millis: (task.cycles * 1000.0) as u64,
                code: Code(CODE, middle),
                stack: task.stack,
                descriptor: task.descriptor,
            },
            pass: Code(middle, end),
            costs: pass,
            workers,
            next: 0,
            recorded: Recorded::default(),
        }
    }

    /// Writes a task, does its work, and writes what it does.
    fn task(
        &mut self,
        id: u32,
        name: &'static str,
        [plain, own]: [(u32, u32); 2],
        work: impl FnOnce(&mut Seer<'_, 'a, S>),
        waits: &mut dyn Iterator<Item = u32>,
    ) -> Result<(), TraceError> {
        let word = name.replace(' ', "-");
        self.tape.sink.task(&NewTask {
            id,
            t: plain.0,
            s: plain.1,
            name: Some(&word),
            groupings: &[Grouping {
                name: Groups::Own.name(),
                t: own.0,
                s: own.1,
            }],
            ..NewTask::default()
        })?;
        let stack = self.layout.stack(id, self.workers);
        let descriptor = self.layout.descriptor(id);
        self.tape.enter(&self.entry, descriptor, stack);
        self.tape.fetch(self.pass, self.pass.len());
        work(&mut Seer {
            tape: &mut self.tape,
            layout: &mut self.layout,
            costs: self.costs,
        });
        let counts = self.tape.leave(&self.entry, stack)?;
        self.recorded.add(name, &counts);
        for earlier in waits {
            self.recorded.dependencies += 1;
            self.tape.sink.edge(earlier, id, false)?;
        }
        Ok(())
    }
}

/// Sees what a task does, and charges it.
struct Seer<'a, 'b, S> {
    tape: &'a mut Tape<'b, S>,
    layout: &'a mut Layout,
    costs: PassCosts,
}

impl<S: Sink> Probe for Seer<'_, '_, S> {
    fn read(&mut self, points: Stretch) {
        let start = self.layout.field(points.field, points.field_bytes);
        self.tape.read(start + points.offset, points.bytes);
    }

    fn write(&mut self, points: Stretch) {
        let start = self.layout.field(points.field, points.field_bytes);
        self.tape.write(start + points.offset, points.bytes);
    }

    fn compute(&mut self, operations: u32, w: usize) {
        let cycles = self.costs.row + self.costs.cycles * f64::from(operations) * w as f64;
        self.tape.compute((cycles * 1000.0) as u64);
    }
}
