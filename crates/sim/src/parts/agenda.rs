//! Who acts next.
//!
//! Each *actor* (a core, a hardware thread, a channel) has at most one time at which it acts. The order is total: the smallest time first,
//! of equal times the lowest actor.

/// The times at which actors act next, as a tournament: each inner node of a binary tree holds the earlier of the two below it.
///
/// Cost: [`Agenda::first`] constant, [`Agenda::set`] logarithmic in the number of actors.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// Winners as keys: node 1 is the root, node `n` has the children `2n` and `2n + 1`, the leaves begin at `leaves`.
    nodes: Vec<u128>,
    leaves: usize,
}

/// Time and actor as one number, so that an order of two is one comparison, which no branch has to foresee.
#[inline]
fn key(time: Option<u64>, actor: usize) -> u128 {
    let time = time.map_or(NEVER, u128::from);
    time << ACTOR_BITS | actor as u128
}

/// What a key says.
#[inline]
fn told(key: u128) -> Option<(u64, usize)> {
    let time = u64::try_from(key >> ACTOR_BITS).ok()?;
    Some((time, (key & ((1 << ACTOR_BITS) - 1)) as usize))
}

const ACTOR_BITS: u32 = 32;

/// After the last moment.
const NEVER: u128 = 1 << 64;

impl Agenda {
    /// `actors` actors, none of which acts.
    pub(crate) fn new(actors: usize) -> Agenda {
        let leaves = actors.max(1).next_power_of_two();
        let leaf = |node: usize| key(None, node.saturating_sub(leaves));
        let mut nodes: Vec<u128> = (0..2 * leaves).map(leaf).collect();
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Agenda { nodes, leaves }
    }

    /// The actor that acts next, and when.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        told(self.nodes[1])
    }

    /// From now on `actor` acts at `time`, or not at all. Gives what [`Agenda::first`] is then, sooner than that can.
    #[inline]
    pub(crate) fn set(&mut self, actor: usize, time: Option<u64>) -> Option<(u64, usize)> {
        let mut node = self.leaves + actor;
        let mut winner = key(time, actor);
        self.nodes[node] = winner;
        while node > 1 {
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = winner;
        }
        told(winner)
    }
}

#[cfg(test)]
mod tests {
    use super::Agenda;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_time_acts_first_and_of_equals_the_lowest_actor() {
        let mut agenda = Agenda::new(3);
        assert_eq!(agenda.first(), None);
        agenda.set(2, Some(5));
        agenda.set(1, Some(5));
        assert_eq!(agenda.first(), Some((5, 1)));
        agenda.set(0, Some(7));
        assert_eq!(agenda.first(), Some((5, 1)));
        agenda.set(1, None);
        assert_eq!(agenda.first(), Some((5, 2)));
        agenda.set(2, Some(u64::MAX));
        agenda.set(0, None);
        assert_eq!(
            agenda.first(),
            Some((u64::MAX, 2)),
            "the last moment is a time, too"
        );
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_scan(actors in 1_usize..9, steps in prop::collection::vec((0_usize..9, prop::option::of(0_u64..4)), 0..60)) {
            let mut agenda = Agenda::new(actors);
            let mut plain = vec![None; actors];
            for (actor, time) in steps {
                let actor = actor % actors;
                agenda.set(actor, time);
                plain[actor] = time;
                let scan = plain.iter().enumerate().filter_map(|(a, t)| t.map(|t| (t, a))).min();
                prop_assert_eq!(agenda.first(), scan);
            }
        }
    }
}
