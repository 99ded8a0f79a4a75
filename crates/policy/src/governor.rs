//! The second policy: how many cores, and how many hardware threads of each, work (papers 2 and 4).

/// Why a governor is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A region begins.
    RegionBegin {
        /// The region.
        id: u64,
        /// Iterations of its loop, where they are known.
        iterations: Option<u64>,
    },
    /// A region ended.
    RegionEnd {
        /// The region.
        id: u64,
    },
    /// A period of the engine passed.
    Period,
}

/// What an engine saw since the last decision. A counter that the engine cannot read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Cores of the machine.
    pub cores: u16,
    /// Hardware threads of each core.
    pub threads_per_core: u16,
    /// Ready tasks or threads that wait.
    pub waiting: u64,
    /// Cycles since the last decision.
    pub cycles: u64,
    /// Instructions since the last decision.
    pub instructions: Option<u64>,
    /// First-level data cache accesses since the last decision.
    pub l1d_accesses: Option<u64>,
    /// First-level data cache misses since the last decision.
    pub l1d_misses: Option<u64>,
}

/// What a governor decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Cores that work.
    pub cores: u16,
    /// Hardware threads that work on each of them.
    pub threads_per_core: u16,
    /// Whether waiting threads are assigned in the order of their creation (paper 2's sorting scheduler).
    pub sorted: bool,
    /// One line for people: why.
    pub why: &'static str,
}

/// Decides how many cores, and how many hardware threads of each, work during the next interval or region.
///
/// `now` is the engine's time in cycles; a governor reads no clock of its own.
pub trait Governor: Send {
    /// Decides at `event`.
    fn decide(&mut self, event: Event, now: u64, seen: &Observation) -> Plan;
}
