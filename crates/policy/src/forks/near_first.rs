//! `near-first`, the default: forks are latent, and a thief takes from the nearest worker that has some.
//!
//! Rule: workers at one distance are a ring. Rings are tried from the nearest on; a ring is tried in the order of the numbers, from a
//! place on that moves by one with each search in vain.

use crate::{ForkPolicy, Thief, WorkerId};

/// The policy.
#[derive(Debug)]
pub struct NearFirst;

impl ForkPolicy for NearFirst {
    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        nearest(thief, steal)
    }
}

/// Tries all other workers, the nearest first.
pub(super) fn nearest(thief: &Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
    let distance = |other: &WorkerId| thief.placement.distance(thief.me, *other);
    let others = thief.placement.by_distance(thief.me);
    for ring in others.chunk_by(|a, b| distance(a) == distance(b)) {
        let start = (thief.looked % ring.len() as u64) as usize;
        let mut victims = ring[start..].iter().chain(&ring[..start]);
        if victims.any(|victim| steal(*victim)) {
            return true;
        }
    }
    false
}
