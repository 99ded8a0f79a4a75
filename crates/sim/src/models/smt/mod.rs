//! Logical threads on cores with several hardware threads, under a governor. See RULES.md beside this file.

mod caches;
mod due;
mod engine;
mod firsts;
mod library;
mod outcome;
mod params;
mod periods;
mod program;
mod report;
mod series;
mod sole;

pub use outcome::{
    HardwareOutcome, Level, LogicalOutcome, ObjectWaits, PeriodRow, ThreadWaits, ThreadsOutcome,
};
pub use program::{Program, Stream};
pub use series::{Intervals, Series, StackUse};

use crate::SimError;
use crate::machine::Machine;
use engine::Engine;
use tanada_policy::governors;
use tanada_policy::{Governor, GovernorSite};

/// Settings of a run of logical threads.
#[derive(Clone, Copy, Default)]
pub struct ThreadOptions<'a> {
    /// Overrides the machine's seed.
    pub seed: Option<u64>,
    /// Called with the number of executed instructions, which never falls, some hundred times a second. The run stops if it returns
    /// `false`.
    pub watch: Option<&'a dyn Fn(u64) -> bool>,
    /// Collects what happens over time ([`ThreadsOutcome::series`]) and who waits for what ([`ThreadsOutcome::objects`]).
    pub observe: Option<Intervals>,
}

impl std::fmt::Debug for ThreadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadOptions")
            .field("seed", &self.seed)
            .field("observe", &self.observe)
            .finish_non_exhaustive()
    }
}

/// Runs `program` on `machine` under the governor called `governor` and returns the results.
///
/// # Errors
/// If there is no such governor; otherwise as [`simulate_threads_with`].
pub fn simulate_threads(
    program: &dyn Program,
    machine: &Machine,
    governor: &str,
    options: &ThreadOptions<'_>,
) -> Result<ThreadsOutcome, SimError> {
    let entry = governors::find(governor)?;
    let site = site(machine);
    simulate_threads_with(program, machine, entry.name, (entry.make)(&site), options)
}

/// Returns what a governor of this machine is built from.
pub fn site(machine: &Machine) -> GovernorSite {
    let smt = machine.smt.as_ref();
    let per_core = smt.map_or(1, |smt| usize::from(smt.threads_per_core));
    let plain = crate::machine::smt::SmtTable::plain();
    let threads = usize::from(machine.cores) * per_core;
    GovernorSite {
        threads,
        at_once: threads,
        period: smt.unwrap_or(&plain).period_cycles,
    }
}

/// Does and returns the same as [`simulate_threads`], under a governor of any crate, which the outcome calls `name`.
///
/// # Errors
/// If a stream cannot be read, all threads wait for each other, the clock would overflow, a cache is too slow for this model, or `options`
/// stop the run.
pub fn simulate_threads_with(
    program: &dyn Program,
    machine: &Machine,
    name: &str,
    governor: Box<dyn Governor>,
    options: &ThreadOptions<'_>,
) -> Result<ThreadsOutcome, SimError> {
    let mut engine = Engine::new(program, machine, governor, options)?;
    engine.run()?;
    Ok(ThreadsOutcome::of(engine, machine, name))
}
