//! `serial`: the reference.
//!
//! Rule: worker 0 takes the oldest ready task; no other worker is ever given one.

use std::collections::VecDeque;

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::{Ready, Site, WorkerId};

/// The rule of `serial`.
#[derive(Debug, Default)]
pub struct Serial(VecDeque<Ready>);

impl Rule for Serial {
    const READS: Reads = Reads::Nothing;
    const ONLY: Option<WorkerId> = Some(WorkerId(0));

    fn build(_site: &Site<'_>) -> Self {
        Self::default()
    }

    #[inline]
    fn ready(&mut self, task: Ready, _arrival: Arrival) {
        self.0.push_back(task);
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        if worker == WorkerId(0) {
            self.0.pop_front()
        } else {
            None
        }
    }
}
