//! Recording of programs of nested forks, piece by piece, in the order in which one thread runs them.

use super::{Forked, Part, Repeats, Taken, Touches, is_fork, share, shares};
use crate::record::layout::CODE;
use crate::record::tape::{Code, Entry, LINE, Tape};
use crate::record::tasks::{Piece, Tasks};
use crate::workload::{RecordError, go_on};
use serde::Deserialize;
use std::ops::ControlFlow;
use tanada_trace::Sink;

/// The table of costs.
const COSTS: &str = include_str!("../../data/forks.toml");

#[derive(Clone, Debug, Deserialize)]
struct Costs {
    name: String,
    piece: PieceCosts,
}

impl Costs {
    fn read() -> Costs {
        toml::from_str(COSTS).expect("the table of this crate is right")
    }
}

/// Returns the name of the table of costs.
pub(super) fn costs() -> String {
    Costs::read().name
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PieceCosts {
    cycles: u64,
    code: u64,
}

/// Bytes that the piece `init` writes with one record.
const STRETCH: u64 = 4096;

/// What a piece that is being gathered does.
#[derive(Clone, Copy, Debug)]
enum Done {
    Read(u64, u32),
    Write(u64, u32),
    Compute(u64),
}

/// The current piece: it is written once it has ended, because only then is its name known.
struct Recorder<'a, S: ?Sized> {
    tasks: Tasks<'a, S>,
    /// Where each array begins.
    arrays: Vec<u64>,
    name: &'static str,
    depth: u32,
    work: u64,
    /// The pieces that it waits for, and whether they fork it.
    waits: Vec<(u32, bool)>,
    done: Vec<Done>,
    leaves: u64,
    seen: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl<S: Sink + ?Sized> Touches for Recorder<'_, S> {
    fn read(&mut self, array: u16, offset: u64, bytes: u32) {
        let start = self.arrays[usize::from(array)];
        self.done.push(Done::Read(start + offset, bytes));
    }
    fn write(&mut self, array: u16, offset: u64, bytes: u32) {
        let start = self.arrays[usize::from(array)];
        self.done.push(Done::Write(start + offset, bytes));
    }
    fn compute(&mut self, millis: u64) {
        self.done.push(Done::Compute(millis));
    }
}

impl<S: Sink + ?Sized> Recorder<'_, S> {
    /// Begins a piece of a closure that has begun.
    fn begin(&mut self, name: &'static str, depth: u32, waits: &[(u32, bool)]) {
        (self.name, self.depth, self.work) = (name, depth, 0);
        self.waits.clear();
        self.waits.extend_from_slice(waits);
        self.done.clear();
    }

    /// Begins the first piece of a closure that the piece `forks` forks.
    fn begin_closure(&mut self, depth: u32, work: u64, forks: u32) {
        self.begin("fork", depth, &[(forks, true)]);
        self.work = work;
    }

    /// Ends the current piece, and returns its number.
    fn end(&mut self) -> Result<u32, RecordError> {
        let Recorder {
            tasks,
            waits,
            done,
            seen,
            ..
        } = self;
        let piece = Piece {
            name: self.name,
            depth: self.depth,
            work: self.work,
            waits,
        };
        let number = tasks.piece(&piece, |tape| {
            done.iter().for_each(|&one| put(tape, one));
        })?;
        go_on(seen, tasks.next)?;
        Ok(number)
    }

    /// Does what a node does, in the closure of the current piece, and gives each piece of it to the trace but the last one, which goes on.
    fn descend<P: Forked>(
        &mut self,
        program: &P,
        node: P::Node,
        own: &mut [P::Item],
        first: usize,
        tasks: u32,
    ) -> Result<(), RecordError> {
        if program.work(node) == 0 {
            return Ok(());
        }
        match program.part(node) {
            Part::Leaf => {
                self.name = P::LEAF;
                self.leaves += 1;
                program.leaf(node, own, first, self);
            }
            Part::Then(one, other) => {
                self.descend(program, one, own, first, tasks)?;
                self.descend(program, other, own, first, tasks)?;
            }
            Part::Fork(one, other) => {
                let middle = program.owns(one);
                let (low, high) = own.split_at_mut(middle);
                let second = first + middle;
                let Some(parts) = share(tasks).filter(|_| is_fork(program, one, other)) else {
                    self.descend(program, one, low, first, tasks)?;
                    return self.descend(program, other, high, second, tasks);
                };
                let depth = self.depth;
                let forks = self.end()?;
                self.begin_closure(depth + 1, program.work(one), forks);
                self.descend(program, one, low, first, parts[0])?;
                let low = self.end()?;
                self.begin_closure(depth + 1, program.work(other), forks);
                self.descend(program, other, high, second, parts[1])?;
                let high = self.end()?;
                self.begin("join", depth, &[(low, false), (high, false)]);
            }
        }
        Ok(())
    }
}

fn put<S: Sink + ?Sized>(tape: &mut Tape<'_, S>, one: Done) {
    match one {
        Done::Read(address, bytes) => tape.read(address, bytes),
        Done::Write(address, bytes) => tape.write(address, bytes),
        Done::Compute(millis) => tape.compute(millis),
    }
}

/// Records a program; see [`super::record`].
pub(super) fn record<P: Forked, S: Sink + ?Sized>(
    program: &P,
    repeats: Repeats,
    sink: &mut S,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Taken<P::Item>, RecordError> {
    let costs = Costs::read();
    let code = Code(CODE, CODE + costs.piece.code.next_multiple_of(LINE));
    let entry = Entry {
        millis: costs.piece.cycles * 1000,
        code,
        // A piece of a closure has no descriptor, and the stack of its worker is in the caches.
        stack: 0,
        descriptor: 0,
    };
    let mut tasks = Tasks::new(sink, code, entry, 1);
    let sizes = program.arrays();
    let arrays = sizes.iter().enumerate();
    let arrays = arrays.map(|(array, &bytes)| tasks.layout.field(array, bytes));
    let arrays: Vec<u64> = arrays.collect();
    let mut recorder = Recorder {
        tasks,
        arrays,
        name: "",
        depth: 0,
        work: 0,
        waits: Vec::new(),
        done: Vec::new(),
        leaves: 0,
        seen,
    };
    recorder.begin("init", 0, &[]);
    for (array, &bytes) in sizes.iter().enumerate() {
        for offset in (0..bytes).step_by(STRETCH as usize) {
            let size = STRETCH.min(bytes - offset) as u32;
            recorder.write(array as u16, offset, size);
        }
    }
    let mut last = recorder.end()?;
    let mut items = program.items();
    for _ in 0..repeats.iterations {
        recorder.begin("begin", 0, &[(last, false)]);
        last = recorder.end()?;
        recorder.begin("fork", 0, &[(last, false)]);
        let root = program.root();
        recorder.descend(program, root, &mut items, 0, shares(repeats.tasks))?;
        last = recorder.end()?;
    }
    recorder.begin("end", 0, &[(last, false)]);
    recorder.end()?;
    Ok(Taken {
        recorded: recorder.tasks.finish(),
        leaves: recorder.leaves,
        items,
    })
}
