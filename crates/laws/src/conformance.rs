//! One policy, one graph: laws and model together.

use tanada_policy::registry::Entry;
use tanada_policy::{Dispatcher, Placement};

use crate::toy::{self, Idleness};
use crate::{Graph, Promises, check, model, replay};

/// What a policy is tried on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The tasks.
    pub graph: &'a Graph,
    /// The workers.
    pub placement: &'a Placement,
    /// Seed of the random numbers.
    pub seed: u64,
    /// What idle workers do.
    pub idleness: Idleness,
}

/// Runs a case under `D` in the toy engine; holds the run to the laws, and to the policy's model.
///
/// # Errors
/// Returns what is wrong, with all that is needed to see it again.
pub fn conforms<D: Dispatcher>(entry: &Entry, case: Case<'_>) -> Result<(), String> {
    let Case {
        graph,
        placement,
        seed,
        idleness,
    } = case;
    let blame = |what: String| {
        let (name, workers) = (entry.name, placement.workers());
        format!(
            "{name}, {workers} workers, seed {seed}, idle workers {idleness:?}: {what}\n{graph:#?}"
        )
    };
    let log = toy::run::<D>(graph, placement, seed, idleness)
        .map_err(|violation| blame(violation.to_string()))?;
    let explain = |what: String| blame(format!("{what}\n{:#?}", log.events));
    let promises = Promises {
        greedy: entry.greedy,
    };
    check(graph, &log, promises).map_err(|violation| explain(violation.to_string()))?;
    let none = || blame("no model; every registered policy has one in the laws crate".to_owned());
    let mut model = model(entry.name, graph, placement, seed).ok_or_else(none)?;
    replay(graph, &log, model.as_mut()).map_err(explain)
}
