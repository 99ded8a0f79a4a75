//! Programs of parallel regions on a machine of many cores, under a governor of regions. `RULES.md` beside this file defines the time.

pub mod core;
mod engine;
mod measure;

pub use engine::{Machinery, Ran, Switch};
pub use measure::{Unmeasured, measure};

/// What one unit of a region does if some siblings share a core: means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Instructions.
    pub instructions: f64,
    /// Lines that come from the second level of the cache.
    pub second_level: f64,
    /// Lines from memory that the prefetcher has fetched in time, and those that a member waits for.
    pub streamed: f64,
    pub fetched: f64,
    /// Lines that go to memory.
    pub written: f64,
}

impl Work {
    /// Returns the lines that go through the memory.
    pub fn lines(&self) -> f64 {
        self.streamed + self.fetched + self.written
    }
}

/// A region: an iteration of its loop is a number of units.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Units of an iteration at full size.
    pub units_per_iteration: u64,
    /// What a unit does with 1, 2, ... siblings.
    pub work: Vec<Work>,
}

/// One invocation of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Invocation {
    /// The number of the region, as its governor sees it.
    pub region: u32,
    /// Iterations that are shared out.
    pub iterations: u64,
    /// The part of an iteration at full size that one iteration is: coarse grids have smaller planes.
    pub scale: f64,
    /// Steps of a pipeline: members share the iterations of each step, and a member begins a step when the one before it has ended that step. 0:
    /// there is no pipeline.
    pub steps: u64,
}

/// A program: what it invokes in each of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its regions.
    pub regions: Vec<Region>,
    /// The invocations of a step, in their order.
    pub step: Vec<Invocation>,
    /// How many steps are run.
    pub steps: u64,
}
