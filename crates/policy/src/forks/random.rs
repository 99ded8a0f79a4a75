//! `random`: forks are latent, and a thief takes from a random worker (Blumofe and Leiserson, "Scheduling multithreaded computations by
//! work stealing", J. ACM 1999).
//!
//! Rule: as `random-steal` draws its victims: up to workers - 1 draws, then all others in the order of their numbers.

use crate::{ForkPolicy, Thief, WorkerId};

/// The policy.
#[derive(Debug)]
pub struct Random;

impl ForkPolicy for Random {
    fn steal(&self, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
        for _ in thief.others() {
            if steal(thief.draw_other()) {
                return true;
            }
        }
        thief.others().any(steal)
    }
}
