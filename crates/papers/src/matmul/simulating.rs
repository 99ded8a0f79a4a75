//! The programs, recorded, and one simulation of them.

use super::published::SIZE;
use crate::Error;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tanada_policy::Origin;
use tanada_sim::{Machine, Observer, Options, Run, simulate};
use tanada_trace::{BinaryWriter, Groups, Trace, TraceError};
use tanada_workloads::forked::{Forked, Matmul, Matrices, Repeats, Tree, record};

/// Leaves of the irregular tree, of 4 KiB each: as much as a quarter of the machine's caches holds.
const LEAVES: usize = 2048;

/// The seed of the tree's shape.
const SHAPE: u64 = 1;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    /// The product of two dense matrices of 768 x 768.
    Dense,
    /// The same with a sparse first factor.
    Sparse,
    /// A tree of very unequal parts.
    Irregular,
    /// The share of the dense product that each of so many cores has: a power of two.
    Share(u16),
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Dense => "dense",
            Program::Sparse => "sparse",
            Program::Irregular => "irregular",
            Program::Share(_) => "share",
        }
    }
}

/// A recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) program: Program,
    pub(super) iterations: u32,
    /// The number of closures at which forking ends; 0: all forks are there.
    pub(super) tasks: u32,
}

impl Source {
    /// Runs the program and records it.
    pub(super) fn record(self) -> Result<Trace, Error> {
        let dense = |sizes| Matmul::of(sizes, Matrices::Dense);
        match self.program {
            Program::Dense => self.recorded(&dense([SIZE; 3])),
            Program::Sparse => self.recorded(&Matmul::new(SIZE, Matrices::Sparse)),
            Program::Irregular => self.recorded(&Tree::new(LEAVES, SHAPE)),
            Program::Share(cores) => self.recorded(&dense(share(cores))),
        }
    }

    fn recorded<P: Forked>(self, program: &P) -> Result<Trace, Error> {
        let failed = |error: TraceError| Error::Input(error.to_string());
        let mut writer = BinaryWriter::new(Vec::new()).map_err(failed)?;
        let repeats = Repeats {
            iterations: self.iterations,
            tasks: self.tasks,
        };
        let seen = &mut |_| ControlFlow::Continue(());
        let recorded = record(program, repeats, &mut writer, seen);
        recorded.map_err(|error| Error::Input(error.to_string()))?;
        let bytes = writer.finish().map_err(failed)?;
        Trace::parse(&bytes, self.program.name(), &Groups::Plain).map_err(failed)
    }
}

/// Returns rows and columns of the part of the product that each of `cores` cores has, and the inner dimension.
fn share(cores: u16) -> [usize; 3] {
    let mut sizes = [SIZE; 3];
    for cut in 0..cores.ilog2() as usize {
        sizes[cut % 2] /= 2;
    }
    sizes
}

/// Where the pages of the matrices lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pages {
    /// One core touches them first.
    OneSocket,
    /// They take turns over the sockets.
    Interleaved,
}

impl Pages {
    /// Returns the values of the machine.
    pub(super) fn set(self) -> &'static str {
        match self {
            Pages::OneSocket => "numa.pages=first-touch",
            Pages::Interleaved => "numa.pages=interleave",
        }
    }
}

/// What was found in one run.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Cycles of each iteration.
    pub(super) iterations: Vec<u64>,
    /// Steals by the depth of what was stolen, in all iterations.
    pub(super) steals: BTreeMap<u32, u64>,
    /// Lines from memory, those from another socket's, and the part of the time for which the busiest memory was busy.
    pub(super) fills: u64,
    pub(super) remote: u64,
    pub(super) busy: f64,
    /// The part of leaves that run on the core on which they ran in the iteration before; 0 with one iteration.
    pub(super) returned: f64,
}

/// Counts what is wanted of a run.
struct Watching<'a> {
    trace: &'a Trace,
    /// Starts of the pieces that begin an iteration, and of the last one.
    marks: Vec<u64>,
    steals: BTreeMap<u32, u64>,
    /// Of each leaf, by its number in the trace: its core.
    cores: Vec<u16>,
}

impl Watching<'_> {
    fn name(&self, piece: u32) -> &str {
        let name = self.trace.tasks()[piece as usize].name;
        &self.trace.names()[name as usize]
    }
}

impl Observer for Watching<'_> {
    fn ended(&mut self, run: &Run) {
        if matches!(self.name(run.task), "begin" | "end") {
            self.marks.push(run.start);
        }
        if let Origin::Stolen(_) = run.origin {
            let depth = self.trace.tasks()[run.task as usize].depth;
            *self.steals.entry(depth).or_default() += 1;
        }
        self.cores[run.task as usize] = run.core;
    }
}

/// Simulates a trace of a [`Source`] and returns what was found.
pub(super) fn run(
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    seed: u64,
    go_on: &dyn Fn() -> bool,
) -> Result<Found, Error> {
    let mut watching = Watching {
        trace,
        marks: Vec::new(),
        steals: BTreeMap::new(),
        cores: vec![0; trace.len()],
    };
    let watch = |_| go_on();
    let options = Options {
        seed: Some(seed),
        watch: Some(&watch),
        ..Options::default()
    };
    let outcome = simulate(trace, machine, policy, &options, &mut watching)?;
    let mut marks = std::mem::take(&mut watching.marks);
    marks.sort_unstable();
    let contention = outcome.contention.unwrap_or_default();
    let busiest = contention
        .memories
        .iter()
        .map(|memory| memory.channels.busy);
    Ok(Found {
        iterations: marks.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        returned: returned(&watching),
        steals: watching.steals,
        fills: contention.memory.fills,
        remote: contention.numa.map_or(0, |numa| numa.remote_fills),
        busy: busiest.max().unwrap_or(0) as f64 / outcome.makespan.max(1) as f64,
    })
}

/// Returns the part of leaves that came back to their core.
fn returned(watching: &Watching<'_>) -> f64 {
    let trace = watching.trace;
    let begins: Vec<usize> = (0..trace.len())
        .filter(|&piece| matches!(watching.name(piece as u32), "begin" | "end"))
        .collect();
    let leaves = |from: usize, to: usize| -> Vec<u16> {
        let is_leaf = |piece: &usize| !matches!(watching.name(*piece as u32), "fork" | "join");
        let pieces = (from + 1..to).filter(is_leaf);
        pieces.map(|piece| watching.cores[piece]).collect()
    };
    let each: Vec<Vec<u16>> = begins
        .windows(2)
        .map(|pair| leaves(pair[0], pair[1]))
        .collect();
    let (mut same, mut all) = (0, 0);
    for pair in each.windows(2) {
        let both = pair[0].iter().zip(&pair[1]);
        same += both.filter(|(one, other)| one == other).count();
        all += pair[0].len();
    }
    same as f64 / all.max(1) as f64
}
