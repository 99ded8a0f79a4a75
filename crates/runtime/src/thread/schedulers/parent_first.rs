//! The usual scheduler, with a name: every function is the default.

use super::super::Scheduler;

/// What [`Scheduler`]'s functions do by default: a thread that creates another one goes on, and that one waits at the head of the worker's
/// queue. It is what a pool does without a scheduler, but that threads which yield go to the tail.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParentFirst;

impl Scheduler for ParentFirst {}
