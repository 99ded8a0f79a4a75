//! The event queue: at most one event an actor, in a total order.

use crate::machine::Cycle;

/// What kind of event it is. Of events at one time, a lower kind comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A step of a call of the dispatcher: from the call to its end.
    Call = 0,
    /// A record, or the finish, of a task.
    Act = 1,
    /// An access of a background stream.
    Background = 2,
}

/// When an event is due, and what comes first among events at one time: time, then kind, then actor.
///
/// Two words and not one of 128 bits: such a one would be written as two and read as one, for which a processor has to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    time: Cycle,
    /// Kind and actor.
    rank: u64,
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.whole().cmp(&other.whole())
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    /// After every event: nothing is due.
    pub(crate) const NEVER: Key = Key {
        time: Cycle::MAX,
        rank: u64::MAX,
    };

    /// The event of `actor` at `time`.
    #[inline]
    pub(crate) fn new(time: Cycle, kind: Kind, actor: usize) -> Self {
        debug_assert!(actor < 1 << 24, "an actor's number has 24 bits");
        let rank = (kind as u64) << 24 | actor as u64;
        Key { time, rank }
    }

    #[inline]
    fn whole(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.rank)
    }

    /// When it is due.
    #[inline]
    pub(crate) fn time(self) -> Cycle {
        self.time
    }

    /// The last time at which an event of `kind` and `actor` still comes before this one; `None` where there is no such time.
    #[inline]
    pub(crate) fn last_before(self, kind: Kind, actor: usize) -> Option<Cycle> {
        if Key::new(self.time, kind, actor) < self {
            Some(self.time)
        } else {
            self.time.checked_sub(1)
        }
    }

    #[inline]
    fn actor(self) -> usize {
        (self.rank & 0xff_ffff) as usize
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.rank >> 24;
        write!(f, "({}, {kind}, {})", self.time(), self.actor())
    }
}

#[inline]
fn earlier(one: Key, other: Key) -> Key {
    if one < other { one } else { other }
}

/// The pending events of a fixed number of actors, at most one each.
///
/// A tournament: each inner node holds the lesser of its two children, so that a new event of one actor costs one comparison a level,
/// without a branch, whatever the others do.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Root at 1, children of `i` at `2 i` and `2 i + 1`, leaves in the second half.
    nodes: Vec<Key>,
    leaves: usize,
}

impl EventQueue {
    /// Nothing is due.
    pub(crate) fn new(actors: usize) -> Self {
        let leaves = actors.next_power_of_two().max(2);
        EventQueue {
            nodes: vec![Key::NEVER; 2 * leaves],
            leaves,
        }
    }

    /// Replaces the event of the actor; [`Key::NEVER`] takes it out.
    #[inline]
    pub(crate) fn set(&mut self, actor: usize, key: Key) {
        let mut node = self.leaves + actor;
        self.nodes[node] = key;
        while node > 1 {
            node /= 2;
            self.nodes[node] = earlier(self.nodes[2 * node], self.nodes[2 * node + 1]);
        }
    }

    /// The first event and its actor.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Key, usize)> {
        let key = self.nodes[1];
        (key.rank != u64::MAX).then(|| (key, key.actor()))
    }

    /// The first event of the others.
    #[inline]
    pub(crate) fn rival(&self, actor: usize) -> Key {
        let mut node = self.leaves + actor;
        let mut least = Key::NEVER;
        while node > 1 {
            least = earlier(least, self.nodes[node ^ 1]);
            node /= 2;
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list.
        #[test]
        fn first_and_rival_are_those_of_a_sorted_list(
            actors in 1..20usize,
            steps in prop::collection::vec((0..20usize, 0..6u64, 0..4u8), 1..200),
        ) {
            let mut queue = EventQueue::new(actors);
            let mut list: Vec<(u64, Kind, usize)> = Vec::new();
            for (actor, time, kind) in steps {
                let actor = actor % actors;
                list.retain(|event| event.2 != actor);
                let kind = match kind {
                    0 => Some(Kind::Call),
                    1 => Some(Kind::Act),
                    2 => Some(Kind::Background),
                    _ => None,
                };
                let key = kind.map_or(Key::NEVER, |kind| Key::new(time, kind, actor));
                queue.set(actor, key);
                list.extend(kind.map(|kind| (time, kind, actor)));
                list.sort_unstable();
                let key_of = |event: &(u64, Kind, usize)| Key::new(event.0, event.1, event.2);
                prop_assert_eq!(queue.first(), list.first().map(|event| (key_of(event), event.2)));
                for one in 0..actors {
                    let others = list.iter().find(|event| event.2 != one);
                    prop_assert_eq!(queue.rival(one), others.map_or(Key::NEVER, key_of));
                }
            }
        }

        #[test]
        fn the_last_time_before_a_key_is_before_it_and_the_next_is_not(
            time in 0..4u64, other in 0..5usize, actor in 0..5usize, kind in 0..3u8, mine in 0..3u8,
        ) {
            prop_assume!(other != actor);
            let kinds = [Kind::Call, Kind::Act, Kind::Background];
            let (kind, mine) = (kinds[usize::from(kind)], kinds[usize::from(mine)]);
            let key = Key::new(time, kind, other);
            let last = key.last_before(mine, actor);
            for at in 0..6 {
                let before = Key::new(at, mine, actor) < key;
                prop_assert_eq!(before, last.is_some_and(|last| at <= last), "at {}", at);
            }
        }
    }

    #[test]
    fn times_up_to_the_last_cycle_are_kept() {
        let key = Key::new(u64::MAX, Kind::Background, (1 << 24) - 1);
        assert_eq!(key.time(), u64::MAX);
        assert_eq!(key.actor(), (1 << 24) - 1);
        assert!(key < Key::NEVER);
    }
}
