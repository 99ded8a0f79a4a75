//! Recording of programs whose tasks read and write large arrays: what a workload needs besides a [`Sink`].

use super::layout::{CODE, Layout};
use super::tape::{Code, Entry, LINE, Recorded, Tape};
use crate::tiles::{Probe, Stretch};
use serde::Deserialize;
use tanada_runtime::{SGroup, TGroup};
use tanada_trace::{Grouping, NewTask, Sink, TraceError};

/// The table of costs.
const FIELDS: &str = include_str!("../../data/fields.toml");

#[derive(Clone, Debug, Deserialize)]
struct Costs {
    name: String,
    task: TaskCosts,
    pass: PassCosts,
}

/// What each task costs beside its own work, in the tables of all workloads.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskCosts {
    pub(crate) cycles: f64,
    pub(crate) code: u32,
    pub(crate) stack: u32,
    pub(crate) descriptor: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PassCosts {
    cycles: f64,
    row: f64,
    code: u64,
}

/// The groups of a task.
pub type TaskGroups = (TGroup, SGroup);

/// A task that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordedTask<'a> {
    /// The name; tasks that do the same have the same name.
    pub name: &'static str,
    /// The groups that count unless others are asked for by name.
    pub plain: TaskGroups,
    /// Further groups, by the name of their pattern.
    pub named: &'a [(&'static str, TaskGroups)],
}

/// A piece of a closure that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) name: &'static str,
    /// Of its closure in the tree of forks.
    pub(crate) depth: u32,
    /// Of the first piece of a closure: the closure's relative work. 0: it is not said.
    pub(crate) work: u64,
    /// The pieces that it waits for, and whether they fork it.
    pub(crate) waits: &'a [(u32, bool)],
}

/// Writes tasks to a [`Sink`], one after the other: what every kind of recording has.
pub(crate) struct Tasks<'a, S: ?Sized> {
    tape: Tape<'a, S>,
    pub(crate) layout: Layout,
    entry: Entry,
    pub(crate) workers: u16,
    /// The number of the next task.
    pub(crate) next: u32,
    recorded: Recorded,
}

impl<'a, S: Sink + ?Sized> Tasks<'a, S> {
    /// Returns a recorder of a program with this code, without tasks yet, each of which begins with `entry`.
    pub(crate) fn new(sink: &'a mut S, code: Code, entry: Entry, workers: u16) -> Self {
        let workers = workers.max(1);
        Tasks {
            tape: Tape::new(sink),
            layout: Layout::new(code, workers),
            entry,
            workers,
            next: 0,
            recorded: Recorded::default(),
        }
    }

    /// Does and returns the same as [`TaskRecorder::task`].
    pub(crate) fn task(
        &mut self,
        task: &RecordedTask<'_>,
        waits: impl IntoIterator<Item = u32>,
        work: impl FnOnce(&mut Tape<'a, S>, &mut Layout),
    ) -> Result<u32, TraceError> {
        let id = self.next;
        self.next += 1;
        let grouping = |&(name, (t, s)): &(_, TaskGroups)| Grouping {
            name,
            t: t.0,
            s: s.0,
        };
        let groupings: Vec<Grouping<'_>> = task.named.iter().map(grouping).collect();
        let word = task.name.replace(' ', "-");
        let (t, s) = task.plain;
        self.tape.sink.task(&NewTask {
            id,
            t: t.0,
            s: s.0,
            name: Some(&word),
            groupings: &groupings,
            ..NewTask::default()
        })?;
        let stack = self.layout.stack(id, self.workers);
        let descriptor = self.layout.descriptor(id);
        self.tape.enter(&self.entry, descriptor, stack);
        work(&mut self.tape, &mut self.layout);
        let counts = self.tape.leave(&self.entry, stack)?;
        self.recorded.add(task.name, &counts);
        for earlier in waits {
            self.recorded.dependencies += 1;
            self.tape.sink.edge(earlier, id, false)?;
        }
        Ok(id)
    }

    /// Records a piece of a closure: calls `work`, which says what it does. Returns the number of the piece.
    pub(crate) fn piece(
        &mut self,
        piece: &Piece<'_>,
        work: impl FnOnce(&mut Tape<'a, S>),
    ) -> Result<u32, TraceError> {
        let id = self.next;
        self.next += 1;
        let said = piece.work.to_string();
        let hints = [("work", said.as_str())];
        self.tape.sink.task(&NewTask {
            id,
            depth: piece.depth,
            name: Some(piece.name),
            hints: &hints[..usize::from(piece.work > 0)],
            ..NewTask::default()
        })?;
        let stack = self.layout.stack(id, self.workers);
        self.tape.enter(&self.entry, 0, stack);
        work(&mut self.tape);
        let counts = self.tape.leave(&self.entry, stack)?;
        self.recorded.add(piece.name, &counts);
        for &(earlier, is_fork) in piece.waits {
            self.recorded.dependencies += 1;
            self.tape.sink.edge(earlier, id, is_fork)?;
        }
        Ok(id)
    }

    /// Returns what was recorded.
    pub(crate) fn finish(self) -> Recorded {
        Recorded {
            regions: self.layout.regions(),
            ..self.recorded
        }
    }
}

/// Writes tasks to a [`Sink`], one after the other, and charges them by `data/fields.toml`.
///
/// Every task pays the same entry (cycles, code, stack, descriptor) and fetches the same code; what it reads, writes and computes goes to
/// [`Accesses`]. Arrays get addresses in the order of first use, so equal programs have equal traces in any process.
pub struct TaskRecorder<'a, S: ?Sized> {
    tasks: Tasks<'a, S>,
    pass: Code,
    costs: PassCosts,
    name: String,
}

impl<'a, S: Sink + ?Sized> TaskRecorder<'a, S> {
    /// Returns a recorder for a program on `workers` workers, each of which has a stack.
    ///
    /// # Panics
    /// The table of costs is broken; a test reads it.
    pub fn new(sink: &'a mut S, workers: u16) -> Self {
        let costs: Costs = toml::from_str(FIELDS).expect("the table of this crate is right");
        let Costs { name, task, pass } = costs;
        let middle = CODE + u64::from(task.code).next_multiple_of(LINE);
        let end = middle + pass.code.next_multiple_of(LINE);
        let entry = Entry {
            millis: (task.cycles * 1000.0) as u64,
            code: Code(CODE, middle),
            stack: task.stack,
            descriptor: task.descriptor,
        };
        TaskRecorder {
            tasks: Tasks::new(sink, Code(CODE, end), entry, workers),
            pass: Code(middle, end),
            costs: pass,
            name,
        }
    }

    /// Returns the table's name for itself.
    pub fn costs(&self) -> &str {
        &self.name
    }

    /// Returns the number of tasks so far.
    pub fn tasks(&self) -> u32 {
        self.tasks.next
    }

    /// Records a task that waits for the tasks `waits`: calls `work`, which does the task's work and says what it accesses. Returns the
    /// number of the task; numbers count from 0.
    ///
    /// # Errors
    /// The sink's; the trace is then not whole.
    pub fn task(
        &mut self,
        task: &RecordedTask<'_>,
        waits: impl IntoIterator<Item = u32>,
        work: impl FnOnce(&mut Accesses<'_, 'a, S>),
    ) -> Result<u32, TraceError> {
        let (pass, costs) = (self.pass, self.costs);
        self.tasks.task(task, waits, |tape, layout| {
            tape.fetch(pass, pass.len());
            work(&mut Accesses {
                tape,
                layout,
                costs,
            });
        })
    }

    /// Returns what was recorded.
    pub fn finish(self) -> Recorded {
        self.tasks.finish()
    }
}

/// Takes down what a task reads, writes and computes, in its order.
pub struct Accesses<'a, 'b, S: ?Sized> {
    tape: &'a mut Tape<'b, S>,
    layout: &'a mut Layout,
    costs: PassCosts,
}

impl<S: Sink + ?Sized> Probe for Accesses<'_, '_, S> {
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
