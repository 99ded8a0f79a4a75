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
        let me = thief.me;
        let others = thief.placement.workers() - 1;
        for _ in 0..others {
            let drawn = ((thief.random)() % u64::from(others)) as u16;
            if steal(WorkerId(drawn + u16::from(drawn >= me.0))) {
                return true;
            }
        }
        let mut victims = (0..=others).map(WorkerId).filter(|victim| *victim != me);
        victims.any(steal)
    }
}
