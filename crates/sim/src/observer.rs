//! Observers of a simulation.

use tanada_policy::{Origin, Wake, WorkerId};

/// One run of a task. Times are clocks of its core, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The core.
    pub core: u16,
    /// Index of the task in the trace.
    pub task: u32,
    /// The call of `next` that returned the task.
    pub asked: u64,
    /// The first record.
    pub start: u64,
    /// The end of the task.
    pub end: u64,
    /// The origin that the dispatcher reported.
    pub origin: Origin,
}

/// An observer. Its methods are called in the total order of events; by default they do nothing.
#[expect(unused_variables, reason = "the names of the parameters document them")]
pub trait Observer {
    /// A task became ready on a core, or outside any ([`WorkerId::NONE`]).
    fn ready(&mut self, task: u32, on: WorkerId) {}
    /// A core received a task.
    fn given(&mut self, core: WorkerId, task: u32, origin: Origin, at: u64) {}
    /// A core asked for a task and received none.
    fn idle(&mut self, core: WorkerId, at: u64) {}
    /// A task ended. Called before the tasks that it releases become ready.
    fn ended(&mut self, run: &Run) {}
    /// The policy requested a wake-up.
    fn wake(&mut self, whom: Wake) {}
}

impl Observer for () {}

/// Collects all runs, in order of their ends.
impl Observer for Vec<Run> {
    fn ended(&mut self, run: &Run) {
        self.push(*run);
    }
}
