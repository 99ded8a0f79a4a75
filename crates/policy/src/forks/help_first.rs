//! `help-first`: every fork lies where others can take it (Guo, Barik, Raman and Sarkar, "Work-first and help-first scheduling policies
//! for async-finish task parallelism", IPDPS 2009).
//!
//! Rule: every fork is exposed. Victims as under `near-first`. So no fork is ever out of reach, at the price of a queue for each.

use super::near_first::nearest;
use crate::{Fork, ForkPolicy, Keep, Thief, WorkerId};

/// The policy.
#[derive(Debug)]
pub struct HelpFirst;

impl ForkPolicy for HelpFirst {
    fn decides(&self) -> bool {
        true
    }

    fn keep(&self, _fork: &Fork) -> Keep {
        Keep::Exposed
    }

    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        nearest(thief, steal)
    }
}
