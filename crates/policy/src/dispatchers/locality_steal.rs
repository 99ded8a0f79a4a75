//! `locality-steal`: work stealing that honours the groups of paper 1 as hints.
//!
//! Rule: as [`stealing`](crate::dispatchers::stealing) says, with mail:
//!
//! - a ready task of S group s >= 1 is mailed to worker (s - 1) mod active workers, be that the worker on which it became ready or not;
//! - a worker asks its mailbox before its own deque;
//! - a thief tries the other workers, the nearest first ([`Placement::by_distance`](crate::Placement::by_distance)), for one whose deque's
//!   oldest task has the digest of the task that the thief took last, and takes that; if there is none it takes as
//!   [`Seats::steal_nearest`] says.
//!
//! The digest of a task in a T group is T mod 2^16, so this prefers the T group that the thief ran last. A task of digest 0 (T0, or a
//! task that says nothing) does not count as taken last; and while nothing else was taken there is no preference.

use crate::dispatchers::stealing::{Family, Seats};
use crate::{Env, Hints, Origin, Ready, Site, WorkerId};

/// The victim order and the mail of `locality-steal`.
#[derive(Debug)]
pub struct Locality;

impl Family for Locality {
    const MAILS: bool = true;
    const READS_GROUPS: bool = true;

    /// The digest of the task that was taken last, of those that are not 0; 0 at first.
    type Memory = u16;

    fn build(_site: &Site<'_>) -> Self {
        Locality
    }

    #[inline]
    fn mailed_to(hints: Hints, active: u16) -> Option<WorkerId> {
        let s = hints.s.checked_sub(1)?;
        Some(WorkerId((s % u32::from(active)) as u16))
    }

    #[inline]
    fn takes(last: &mut u16, task: &Ready) {
        if task.digest() != 0 {
            *last = task.digest();
        }
    }

    fn steal<E: Env>(&self, &last: &u16, seats: &Seats, env: &mut E) -> Option<(Ready, Origin)> {
        if last != 0 {
            for &victim in seats.others(env.me()) {
                if let Some(found) = seats.steal_if(victim, env, |digest| digest == last) {
                    return Some(found);
                }
            }
        }
        seats.steal_nearest(env)
    }
}
