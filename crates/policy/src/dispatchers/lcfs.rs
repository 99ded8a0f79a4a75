//! `lcfs`: last come, first served (paper 1, fig. 4: uses the cache well and loses parallelism late in a run).
//!
//! Rule: an idle worker takes the newest ready task.

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::{Ready, Site, WorkerId};

/// The rule of `lcfs`.
#[derive(Debug, Default)]
pub struct Lcfs(Vec<Ready>);

impl Rule for Lcfs {
    const READS: Reads = Reads::Nothing;

    fn build(_site: &Site<'_>) -> Self {
        Self::default()
    }

    #[inline]
    fn ready(&mut self, task: Ready, _arrival: Arrival) {
        self.0.push(task); // calls come in the order of age
    }

    #[inline]
    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.0.pop()
    }
}
