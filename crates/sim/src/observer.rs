//! What a simulation tells whoever looks on.

use tanada_policy::{Origin, Wake, WorkerId};

/// One run of a task, told when it ends. Times are clocks of its core, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The core.
    pub core: u16,
    /// Index of the task in the trace.
    pub task: u32,
    /// When the core called `next` and got it.
    pub asked: u64,
    /// At its first record.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Where it came from.
    pub origin: Origin,
}

/// Looks on. Each method is called in the total order of events; by default nothing is done.
pub trait Observer {
    /// A task became ready on a core, or outside any ([`WorkerId::NONE`]).
    fn ready(&mut self, task: u32, on: WorkerId) {
        let _ = (task, on);
    }
    /// A core was given a task.
    fn given(&mut self, core: WorkerId, task: u32, origin: Origin, at: u64) {
        let _ = (core, task, origin, at);
    }
    /// A core asked for a task and got none.
    fn idle(&mut self, core: WorkerId, at: u64) {
        let _ = (core, at);
    }
    /// A task ended; told before those that it releases become ready.
    fn ended(&mut self, run: &Run) {
        let _ = run;
    }
    /// The policy asked for a wake-up.
    fn wake(&mut self, whom: Wake) {
        let _ = whom;
    }
}

impl Observer for () {}

/// All runs, in order of their ends.
impl Observer for Vec<Run> {
    fn ended(&mut self, run: &Run) {
        self.push(*run);
    }
}
