//! Child first: a worker goes depth first through a tree of threads, as a program without threads would, and what thieves take is the
//! rest of a parent, the oldest first.
//!
//! Mohr, Kranz and Halstead ("Lazy task creation", IEEE Transactions on Parallel and Distributed Systems 2(3), 1991) and Cilk (Frigo,
//! Leiserson and Randall, "The implementation of the Cilk-5 multithreaded language", PLDI 1998, section 3) steal so. Paper 5's system does
//! by default.

use super::super::{First, Scheduler};

/// A new thread runs at once on the worker that creates it, and its parent waits at the head of that worker's queue, where it is stolen
/// last, but before any thread that was created later. So of a tree of threads no more are alive, on each worker, than the tree is deep.
///
/// Only for [untied](super::super::Builder::spawn_untied) threads that untied threads create: a tied parent may not move. In all else this
/// is [`ParentFirst`](super::ParentFirst). A parent may move in each call that creates a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChildFirst;

impl Scheduler for ChildFirst {
    fn first(&self) -> First {
        First::Child
    }
}
