//! `newest-of-own-then-oldest`: depth first on each worker, breadth first between them, with one pool.
//!
//! Rule: an idle worker takes the newest task that became ready on itself, else the oldest of all. Cost: O(ready tasks) a task.

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::{Ready, Site, WorkerId};
use std::collections::VecDeque;

/// The rule of `newest-of-own-then-oldest`.
#[derive(Debug, Default)]
pub struct NewestOwn(VecDeque<(Option<WorkerId>, Ready)>);

impl Rule for NewestOwn {
    const READS: Reads = Reads::Nothing;

    fn build(_site: &Site<'_>) -> Self {
        Self::default()
    }

    fn ready(&mut self, task: Ready, arrival: Arrival) {
        self.0.push_back((arrival.on, task)); // calls come in the order of age
    }

    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        let own = self.0.iter().rposition(|&(on, _)| on == Some(worker));
        self.0.remove(own.unwrap_or(0)).map(|(_, task)| task)
    }
}
