//! Policies that take part in a comparison: registered ones, and those of other crates.

use tanada_policy::registry::{self, UnknownPolicy};
use tanada_policy::{Dispatcher, forks};
use tanada_runtime::{BuildError, Pool, PoolBuilder, Recorder};
use tanada_sim::{Machine, Observer, Outcome, SimError};
use tanada_trace::Trace;

type Make = dyn Fn(PoolBuilder, Option<Recorder>) -> Result<Pool, BuildError>;

/// Runs a trace under one policy.
pub(crate) type Simulate = dyn Fn(&Trace, &Machine, &tanada_sim::Options<'_>, &mut dyn Observer) -> Result<Outcome, SimError>
    + Send
    + Sync;

/// A policy that takes part in a comparison.
pub struct Candidate {
    name: String,
    make: Box<Make>,
    pub(crate) simulate: Box<Simulate>,
    groups: bool,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Candidate").field(&self.name).finish()
    }
}

impl Candidate {
    /// Returns the registered policy, or policy of forks, `name`.
    ///
    /// # Errors
    /// There is none; the text of the error lists the names.
    pub fn registered(name: &str) -> Result<Candidate, UnknownPolicy> {
        let mut of_forks = forks::all().iter();
        match of_forks.find(|entry| entry.name == name) {
            Some(entry) => Ok(Candidate::listed(entry)),
            None => registry::find(name).map(Candidate::listed),
        }
    }

    fn listed(entry: &'static registry::Entry) -> Candidate {
        let name = entry.name;
        Candidate {
            name: name.to_owned(),
            groups: entry.groups,
            simulate: Box::new(move |trace, machine, options, observer| {
                tanada_sim::simulate(trace, machine, name, options, observer)
            }),
            make: Box::new(move |builder, recorder| match recorder {
                Some(recorder) => builder.observer(recorder).policy(name).build(),
                None => builder.policy(name).build(),
            }),
        }
    }

    /// Returns the policy `D` of another crate, which reports call `name`.
    pub fn of<D: Dispatcher>(name: &str) -> Candidate {
        let shown = name.to_owned();
        Candidate {
            name: name.to_owned(),
            groups: D::READS_GROUPS,
            simulate: Box::new({
                let shown = shown.clone();
                move |trace, machine, options, observer| {
                    tanada_sim::simulate_with::<D>(trace, machine, &shown, options, observer)
                }
            }),
            make: Box::new(move |builder, recorder| match recorder {
                Some(recorder) => builder.observer(recorder).build_with::<D>(&shown),
                None => builder.build_with::<D>(&shown),
            }),
        }
    }

    /// Returns all registered policies that run natively, in the registry's order.
    pub fn all() -> Vec<Candidate> {
        let listed = registry::native().into_iter();
        listed.map(Candidate::listed).collect()
    }

    /// Returns all registered policies of forks: what a workload of [nested forks](tanada_workloads::Workload::forks) is compared under.
    pub fn of_forks() -> Vec<Candidate> {
        forks::all().iter().map(Candidate::listed).collect()
    }

    /// Returns what reports call the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the policy reads groups.
    pub fn reads_groups(&self) -> bool {
        self.groups
    }

    /// Returns a pool that runs under the policy; `recorder` observes its tasks.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn pool(
        &self,
        builder: PoolBuilder,
        recorder: Option<Recorder>,
    ) -> Result<Pool, BuildError> {
        (self.make)(builder, recorder)
    }
}
