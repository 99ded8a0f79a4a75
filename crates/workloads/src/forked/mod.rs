//! Programs of nested forks: what paper 5 schedules. They run natively by `fork::join`, and are recorded as the pieces of their closures.
//!
//! A program is a recursion over [`Forked::Node`]s. A node is a leaf, two parts that may run at the same time (a fork: each part is a
//! *closure* of its own, one level deeper), or two parts one after the other, in the same closure. Every node owns a stretch of the
//! program's items, of which its parts have theirs, so that a leaf needs no lock.
//!
//! What is recorded are pieces: what a closure does between its beginning, its forks and joins, and its end. The depth of a piece is that
//! of its closure in the tree of forks. So a piece whose predecessor is one level above it begins a closure; one whose predecessor is on
//! its level goes on with the closure; and one whose predecessors are one level below it is a join, back in the closure that forked them.
//! The first piece of a closure says the closure's work (`h:work=`).

mod matmul;
mod record;
mod tree;
mod workload;

pub use matmul::{Matmul, Matrices};
pub use tree::Tree;
pub(crate) use workload::OverForks;

use crate::record::Recorded;
use crate::workload::{Done, RecordError};
use std::ops::ControlFlow;
use tanada_runtime::{Cancel, Pool, fork};
use tanada_trace::Sink;

/// The parts of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<N> {
    /// It has none: its work is done at once.
    Leaf,
    /// They may run at the same time.
    Fork(N, N),
    /// The first one, then the second one, both on all of the node's items.
    Then(N, N),
}

/// What a leaf reports of its accesses, in its order.
pub trait Touches {
    /// `bytes` bytes at `offset` of array `array` are read.
    fn read(&mut self, array: u16, offset: u64, bytes: u32);
    /// They are written.
    fn write(&mut self, array: u16, offset: u64, bytes: u32);
    /// It computes for so many thousandths of cycles.
    fn compute(&mut self, millis: u64);
}

/// Reports nothing.
impl Touches for () {
    #[inline]
    fn read(&mut self, _array: u16, _offset: u64, _bytes: u32) {}
    #[inline]
    fn write(&mut self, _array: u16, _offset: u64, _bytes: u32) {}
    #[inline]
    fn compute(&mut self, _millis: u64) {}
}

/// A program of nested forks.
pub trait Forked: Sync {
    /// A node of the recursion.
    type Node: Copy + Send + Sync;
    /// What leaves change.
    type Item: Send;

    /// Returns what leaves are called.
    const LEAF: &'static str;

    /// Returns the whole program.
    fn root(&self) -> Self::Node;

    /// Returns the parts of a node.
    fn part(&self, node: Self::Node) -> Part<Self::Node>;

    /// Returns the relative work of a node: that of its leaves. A node without work is left out.
    fn work(&self, node: Self::Node) -> u64;

    /// Returns the number of items that a node owns. Those of the parts of a fork follow one another.
    fn owns(&self, node: Self::Node) -> usize;

    /// Does the work of a leaf on its own items, of which the first is number `first` of the program, and reports it.
    fn leaf<T: Touches>(
        &self,
        node: Self::Node,
        own: &mut [Self::Item],
        first: usize,
        touches: &mut T,
    );

    /// Returns the bytes of each array that leaves touch.
    fn arrays(&self) -> Vec<u64>;

    /// Returns the items before the first iteration.
    fn items(&self) -> Vec<Self::Item>;
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// How often all of it is done, over the same data.
    pub iterations: u32,
    /// The number of closures at which forking ends: a fork is none once there would be more of them at a time. 0: every fork is one.
    /// (Paper 5's Cutoff has one a core.)
    pub tasks: u32,
}

/// What a run of a program looks at and counts.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Once it is cancelled, what is left of the work is left out.
    pub cancel: Cancel,
    /// Counts leaves.
    pub done: Done,
}

/// Runs a program over `items` on this thread, or by forks on a pool.
///
/// # Panics
/// `items` are not as many as those of [`Forked::items`].
pub fn run<P: Forked>(
    program: &P,
    items: &mut [P::Item],
    repeats: Repeats,
    pool: Option<&Pool>,
    watch: &Watch,
) {
    for _ in 0..repeats.iterations {
        let own = &mut *items;
        let root = program.root();
        match pool {
            None => descend(program, root, own, 0, 1, watch),
            Some(pool) => fork::install(pool, || {
                descend(program, root, own, 0, shares(repeats.tasks), watch);
            }),
        }
    }
}

/// Returns the number of closures that a program may have at a time.
fn shares(tasks: u32) -> u32 {
    match tasks {
        0 => u32::MAX,
        tasks => tasks,
    }
}

/// Returns how many of `tasks` closures each part of a fork may have; `None`: the fork is none.
fn share(tasks: u32) -> Option<[u32; 2]> {
    match tasks {
        0 | 1 => None,
        u32::MAX => Some([u32::MAX; 2]),
        tasks => Some([tasks - tasks / 2, tasks / 2]),
    }
}

fn descend<P: Forked>(
    program: &P,
    node: P::Node,
    own: &mut [P::Item],
    first: usize,
    tasks: u32,
    watch: &Watch,
) {
    if program.work(node) == 0 || watch.cancel.is_cancelled() {
        return;
    }
    match program.part(node) {
        Part::Leaf => {
            program.leaf(node, own, first, &mut ());
            watch.done.add();
        }
        Part::Then(one, other) => {
            descend(program, one, own, first, tasks, watch);
            descend(program, other, own, first, tasks, watch);
        }
        Part::Fork(one, other) => {
            let middle = program.owns(one);
            let (low, high) = own.split_at_mut(middle);
            let second = first + middle;
            let Some(parts) = share(tasks).filter(|_| is_fork(program, one, other)) else {
                descend(program, one, low, first, tasks, watch);
                descend(program, other, high, second, tasks, watch);
                return;
            };
            fork::join(
                || descend(program, one, low, first, parts[0], watch),
                || descend(program, other, high, second, parts[1], watch),
            );
        }
    }
}

/// Returns whether a fork has work in both parts.
fn is_fork<P: Forked>(program: &P, one: P::Node, other: P::Node) -> bool {
    program.work(one) > 0 && program.work(other) > 0
}

/// A program that was run and recorded.
#[derive(Clone, Debug)]
pub struct Taken<I> {
    /// What was recorded.
    pub recorded: Recorded,
    /// Leaves of all iterations.
    pub leaves: u64,
    /// The items as they are then.
    pub items: Vec<I>,
}

/// Runs a program on this thread and records it: the trace that every policy can then be simulated with.
///
/// The first piece, `init`, writes all arrays, so that their pages are first touched by one core. The first piece of each iteration is
/// `begin`, the last one of all `end`. `seen` is called with the number of pieces so far, and stops the recording by `Break`.
///
/// # Errors
/// The sink's, as [`RecordError::Trace`], and [`RecordError::Stopped`].
pub fn record<P: Forked, S: Sink + ?Sized>(
    program: &P,
    repeats: Repeats,
    sink: &mut S,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Taken<P::Item>, RecordError> {
    record::record(program, repeats, sink, seen)
}

#[cfg(test)]
mod tests;
