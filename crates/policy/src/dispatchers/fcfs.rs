//! `fcfs`: first come, first served (paper 1's baseline).
//!
//! Rule: an idle worker takes the oldest ready task.

use std::collections::VecDeque;

use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::{Ready, Site, WorkerId};

/// The rule of `fcfs`.
#[derive(Debug, Default)]
pub struct Fcfs(VecDeque<Ready>);

impl Rule for Fcfs {
    const READS: Reads = Reads::Nothing;

    fn build(_site: &Site<'_>) -> Self {
        Self::default()
    }

    #[inline]
    fn ready(&mut self, task: Ready, _arrival: Arrival) {
        self.0.push_back(task); // calls come in the order of age
    }

    #[inline]
    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.0.pop_front()
    }
}
