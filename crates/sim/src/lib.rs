//! The simulated engine: recorded work on machines that are described in a file, under the same policies as natively.
//!
//! [`simulate`] runs a [`Trace`] on a [`Machine`] under a registered policy. What comes out is a function of (trace, machine, policy,
//! seed): the same on every host.

#![deny(unsafe_code)]

mod counts;
mod error;
pub mod machine;
mod models;
mod observer;
mod parts;

pub use counts::outcome::{self, Outcome};
pub use counts::report::timeline;
pub use counts::reuse::reuse;
pub use error::SimError;
pub use machine::registry as machines;
pub use machine::{Machine, MachineError};
pub use observer::{Observer, Run};
/// What traces are read with, for who depends on the simulator only.
pub use tanada_trace;

use machine::Model;
use tanada_policy::Dispatcher;
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_trace::Trace;

/// What a run may be told beside trace, machine and policy.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// In the place of the machine's seed.
    pub seed: Option<u64>,
    /// Told how many tasks ended, now and then (at each task and at each window of records); `false` stops the run.
    pub watch: Option<&'a dyn Fn(u64) -> bool>,
    /// Uniform model: cores do not run ahead through their private levels, but every touch is merged in the total order of time. That is
    /// the plain reading of the rules, with the same results, and slower: for tests, which compare.
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
    /// To be called at least once a window of records and once a task.
    ///
    /// # Errors
    /// Where the run is to stop.
    pub fn go_on(&self, ended: u64) -> Result<(), SimError> {
        match self.watch {
            Some(watch) if !watch(ended) => Err(SimError::Cancelled),
            _ => Ok(()),
        }
    }
}

/// Runs `trace` on `machine` under the policy called `policy`.
///
/// # Errors
/// Where there is no such policy, the trace cannot be read to its end, a clock would pass 2^64-1, or the policy leaves tasks.
///
/// # Panics
/// Where a dispatcher breaks its contract (makes another number of local states than there are workers, keeps what was released).
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
            let policy = entry.name;
            simulate_with::<D>(
                self.trace,
                self.machine,
                policy,
                self.options,
                self.observer,
            )
        }
    }
    let run = Simulate {
        trace,
        machine,
        options,
        observer,
    };
    registry::with(policy, run)?
}

/// As [`simulate`], under a dispatcher of any crate; `policy` is what the outcome calls it.
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
    match machine.model {
        Model::Uniform => models::uniform::run::<D>(trace, machine, policy, options, observer),
        Model::Contended => models::contended::run::<D>(trace, machine, policy, options, observer),
    }
}
