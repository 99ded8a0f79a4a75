//! How many threads run the next invocation of a parallel region, on how many cores, and how the members of its team wait.

use super::Why;

/// What a governor of regions is built from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionSite {
    /// Cores that this process may use; at least 1.
    pub cores: u16,
    /// Hardware threads of each core; at least 1.
    pub threads_per_core: u16,
    /// Hardware threads' worth of time that a quota leaves to this process; infinite without one. A team larger than this is stopped by the
    /// system in the middle of a region.
    pub quota: f64,
    /// Units of the engine's time in a microsecond: 1,000 natively, where the unit is a nanosecond.
    pub microsecond: f64,
}

impl RegionSite {
    /// Returns the largest shape: every hardware thread.
    pub fn all(&self) -> Shape {
        Shape {
            cores: self.cores,
            threads_per_core: self.threads_per_core,
        }
    }
}

/// The shape of a team: cores, and threads on each of them (paper 4: "60x4").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Cores that have members of the team; at least 1.
    pub cores: u16,
    /// Members on each of these cores; at least 1. The last core may have fewer, see [`Decision::threads`].
    pub threads_per_core: u16,
}

impl Shape {
    /// Returns the number of threads.
    pub fn threads(self) -> u32 {
        u32::from(self.cores) * u32::from(self.threads_per_core)
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.cores, self.threads_per_core)
    }
}

/// How a thread waits at a barrier, or for the next region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// As the engine does if nobody chooses.
    AsIs,
    /// Reads a flag again and again.
    Spin,
    /// Reads a flag, and stops fetching for this time in between (paper 4, section 4: the Delay instruction), in the engine's unit of time.
    Delay(u32),
    /// Spins for this time, in the engine's unit, then sleeps. With 0 it sleeps at once.
    Sleep(u32),
}

/// A region of the program: the engine numbers regions from 0 as it meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// What an engine knows when a thread enters a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The region.
    pub region: RegionId,
    /// Threads that run it if nobody chooses: what the program asks for, or the runtime's default. At least 1.
    pub asked: u32,
    /// Iterations of its loop, if they are known before it runs.
    pub iterations: Option<u64>,
    /// Hardware threads, of those that this process may use, that other processes keep busy now: 1.0 beside one busy loop. `None` if the
    /// engine did not look.
    pub neighbours: Option<f64>,
    /// The time now, in the engine's unit.
    pub now: u64,
}

/// What holds for one invocation of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The shape of the team.
    pub shape: Shape,
    /// Threads of the team: at most [`Shape::threads`], more than with one core less.
    pub threads: u32,
    /// How its members wait.
    pub waiting: Waiting,
}

impl Decision {
    /// Returns a full team of `shape`, which waits as the engine does.
    pub fn full(shape: Shape) -> Self {
        Decision {
            shape,
            threads: shape.threads(),
            waiting: Waiting::AsIs,
        }
    }
}

/// What came of an invocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The region.
    pub region: RegionId,
    /// What held: [`Decision::threads`] is what the engine really ran, which may be less than what was decided.
    pub decision: Decision,
    /// Time from the entry to the end, in the engine's unit, the switch from another team size included.
    pub time: u64,
    /// Iterations of its largest loop, if the engine saw them.
    pub iterations: Option<u64>,
    /// The part of the time of its hardware threads in which none of its members ran, since they slept, or waited for something outside;
    /// `None` if the engine did not look.
    pub idle: Option<f64>,
    /// Hardware threads that others kept busy meanwhile; `None` if the engine did not look.
    pub neighbours: Option<f64>,
    /// The time at the end, in the engine's unit.
    pub now: u64,
}

/// Invocations of a region that a governor need not be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// So many at most.
    pub invocations: u32,
    /// The engine measures one in so many of them, and the next one behind one that took an unusual time.
    pub each: u32,
    /// Usual times, in the engine's unit, from the least to the most. The engine asks again as soon as two that it measured in a row are
    /// none of these.
    pub times: (u64, u64),
}

/// Invocations that have run so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The region.
    pub region: RegionId,
    /// How many have run.
    pub count: u32,
    /// How many of them were measured, without the one that ended the silence.
    pub measured: u32,
    /// The time that these took together, in the engine's unit; of an unusual one the nearest of [`Silence::times`].
    pub time: u64,
}

/// Decides how each invocation of a region runs (paper 4).
///
/// The engine calls [`enter`](RegionGovernor::enter) before a team is made and [`leave`](RegionGovernor::leave) when it is gone, from one
/// thread at a time; of nested regions only the outermost. An invocation whose end the engine does not see has no `leave`.
pub trait RegionGovernor: Send {
    /// Returns how the invocation runs. Cost: tens of nanoseconds, since programs enter thousands of regions a second.
    fn enter(&mut self, entry: &Entry) -> Decision;

    /// Learns what came of an invocation.
    fn leave(&mut self, outcome: &Outcome);

    /// Returns why the last decision for `region` is as it is, for a log that people read.
    fn why(&self, region: RegionId) -> Why;

    /// Returns how sure the governor is of its decision for `region`: from 0 (it is still trying) to 1.
    fn confidence(&self, region: RegionId) -> f64;

    /// Returns which of the next invocations of `region` the engine need not ask about, as long as its [`Entry`] would say the same (but
    /// for the time): they run as the last one did. To ask and to tell costs more than all else in an invocation of a short region.
    fn silence(&self, _region: RegionId) -> Option<Silence> {
        None
    }

    /// Learns of invocations that the engine did not ask about. It calls this before it asks about their region again, and before it asks
    /// about the region that follows.
    fn passed(&mut self, _passed: &Passed) {}

    /// Returns whether it reads [`Entry::neighbours`] and its like, which cost the engine a look at the system now and then.
    fn reads_neighbours(&self) -> bool {
        false
    }
}
