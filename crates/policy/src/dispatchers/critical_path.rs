//! `critical-path`: priority by critical path, the classic of list scheduling (Hu, "Parallel sequencing and assembly line problems",
//! Operations Research 1961; for tasks of any length: Kohler, IEEE Transactions on Computers 1975).
//!
//! Rule: an idle worker takes the ready task of the largest bottom level ([`Prepared::bottom_level`](crate::Prepared::bottom_level): the
//! longest way of least work from its start to the end of the graph); of equals the oldest.
//!
//! It looks at the graph before it runs, so only the simulated engine has it. Cost: O(log ready tasks) a call.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::{Prepared, Ready, Site, WorkerId};

/// The rule of `critical-path`.
#[derive(Debug)]
pub struct CriticalPath {
    prepared: Prepared,
    /// (bottom level, age) -> task: the first is the next.
    ready: BTreeMap<(Reverse<u64>, u64), Ready>,
}

impl Rule for CriticalPath {
    const READS: Reads = Reads::Nothing;
    const NEEDS_PREPARED: bool = true;

    fn build(site: &Site<'_>) -> Self {
        let prepared = site.prepared;
        CriticalPath {
            prepared: prepared.expect("critical-path must know the graph").clone(),
            ready: BTreeMap::new(),
        }
    }

    fn ready(&mut self, task: Ready, Arrival { age, .. }: Arrival) {
        let level = self.prepared.bottom_level(task.handle());
        self.ready.insert((Reverse(level), age), task);
    }

    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.ready.pop_first().map(|(_, task)| task)
    }
}
