//! `random-steal`: steal from a random victim (Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing",
//! J. ACM 1999).
//!
//! Rule: as [`stealing`](crate::dispatchers::stealing) says; no mail. A thief draws up to workers - 1 victims: draw mod (workers - 1)
//! counts the other workers in the order of their numbers. It takes the oldest task of the first that has one; if none had, it tries all
//! others in the order of their numbers. It draws only while some other worker's deque has a task.

use crate::dispatchers::stealing::{Family, Seats};
use crate::{Env, Origin, Ready, Site, WorkerId};

/// The victim order of `random-steal`.
#[derive(Debug)]
pub struct Random;

impl Family for Random {
    const TREATS_ALIKE: bool = true;

    type Memory = ();

    fn build(_site: &Site<'_>) -> Self {
        Random
    }

    fn steal<E: Env>(&self, _memory: &(), seats: &Seats, env: &mut E) -> Option<(Ready, Origin)> {
        let me = env.me();
        let others = env.workers() - 1;
        for _ in 0..others {
            let drawn = (env.random() % u64::from(others)) as u16;
            let victim = WorkerId(drawn + u16::from(drawn >= me.0));
            if let Some(found) = seats.steal(victim, env) {
                return Some(found);
            }
        }
        let victims = (0..=others).map(WorkerId).filter(|&victim| victim != me);
        victims
            .into_iter()
            .find_map(|victim| seats.steal(victim, env))
    }
}
