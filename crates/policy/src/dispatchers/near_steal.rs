//! `near-steal`: steal from the nearest worker that has a task, as the topology says what is near.
//!
//! Rule: as [`stealing`](crate::dispatchers::stealing) says; no mail. A thief's victims are tried ring by ring, the nearest first, as
//! [`Seats::steal_nearest`] says.

use crate::dispatchers::stealing::{Family, Seats};
use crate::{Env, Origin, Ready, Site};

/// The victim order of `near-steal`.
#[derive(Debug)]
pub struct Near;

impl Family for Near {
    const TREATS_ALIKE: bool = true;

    type Memory = ();

    fn build(_site: &Site<'_>) -> Self {
        Near
    }

    fn steal<E: Env>(&self, _memory: &(), seats: &Seats, env: &mut E) -> Option<(Ready, Origin)> {
        seats.steal_nearest(env)
    }
}
