//! The simulated engine: recorded work on machines that are described in a file, under the same policies as natively.
//!
//! [`simulate`] runs a [`Trace`] on a [`Machine`] under a registered policy. What comes out is a function of (trace, machine, policy,
//! seed): the same on every host. [`simulate_threads`] does the same with a thread trace under a registered governor.

#![deny(unsafe_code)]

mod counts;
mod error;
pub mod machine;
mod models;
mod observer;
mod parts;
pub mod spelling;

pub use counts::outcome::{self, Outcome};
pub use counts::report::timeline;
pub use counts::reuse::{MOST_LINES, reuse};
pub use error::SimError;
pub use machine::registry as machines;
pub use machine::{Machine, MachineError};
pub use models::regions;
pub use models::rtos;
pub use models::smt::{
    HardwareOutcome, Intervals, Level, LogicalOutcome, ObjectWaits, PeriodRow, Program, Series,
    StackUse, Stream, ThreadOptions, ThreadWaits, ThreadsOutcome, simulate_threads,
    simulate_threads_with, site as governor_site,
};
pub use observer::{Observer, Run};
/// The crate that reads traces, for crates that depend on the simulator only.
pub use tanada_trace;

use machine::Model;
use models::Simulation;
use tanada_policy::Dispatcher;
use tanada_policy::forks;
use tanada_policy::registry::{Entry, Visitor};
use tanada_trace::Trace;

/// Settings of a run.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Overrides the machine's seed.
    pub seed: Option<u64>,
    /// Called with the number of ended tasks, which never falls: at least once a task and once a window of records. The run stops if it
    /// returns `false`.
    pub watch: Option<&'a dyn Fn(u64) -> bool>,
    /// Uniform model: treats every level as shared, so that every touch is merged in the total order of time. That is
    /// the plain reading of the rules: slower, with the same results, for tests that compare.
    pub merge_everything: bool,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Options<'_> {
    /// Reports that `ended` tasks have ended. Models call it at least once a task and once a window of records.
    ///
    /// # Errors
    /// If `watch` returned `false`.
    pub(crate) fn check_cancelled(&self, ended: u64) -> Result<(), SimError> {
        match self.watch {
            Some(watch) if !watch(ended) => Err(SimError::Cancelled),
            _ => Ok(()),
        }
    }
}

/// Runs `trace` on `machine` under the policy, or the fork policy, called `policy` and returns the results.
///
/// # Errors
/// If the policy is unknown, the trace cannot be read, a clock would pass 2^64-1, `options` stop the run, or the policy never hands out
/// some tasks.
///
/// # Panics
/// If the dispatcher breaks its contract: it makes a wrong number of local states, keeps released tasks in `turn`, or hands out a
/// task that is not ready in this run.
pub fn simulate(
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    struct Simulate<'a> {
        trace: &'a Trace,
        machine: &'a Machine,
        options: &'a Options<'a>,
        observer: &'a mut dyn Observer,
    }
    impl Visitor for Simulate<'_> {
        type Out = Result<Outcome, SimError>;
        fn visit<D: Dispatcher>(self, entry: &'static Entry) -> Self::Out {
            let (trace, machine, options) = (self.trace, self.machine, self.options);
            simulate_with::<D>(trace, machine, entry.name, options, self.observer)
        }
    }
    let run = Simulate {
        trace,
        machine,
        options,
        observer,
    };
    forks::with_any(policy, run)?
}

/// Does and returns the same as [`simulate`], under a dispatcher of any crate, which the outcome calls `policy`.
///
/// # Errors
/// As [`simulate`].
///
/// # Panics
/// As [`simulate`].
pub fn simulate_with<D: Dispatcher>(
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    let simulation = Simulation::<D>::new(trace, machine, policy, options, observer)?;
    match machine.model {
        Model::Uniform => models::uniform::run(simulation),
        Model::Contended => models::contended::run(simulation),
    }
}
