//! The event queue: at most one pending event of each actor, in a total order.
//!
//! An *actor* is a core or a background stream. Events are ordered by time, then by kind, then by actor, so no two are equal.

use crate::machine::Cycle;

/// The kind of an event. Of events at the same time, those of a lower kind come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// One step of a dispatcher call (contended model).
    Call = 0,
    /// A record, or the finish, of a task.
    Act = 1,
    /// An access of a background stream (contended model).
    Background = 2,
}

/// The place of an event in the total order.
///
/// Two words rather than a `u128`: the compiler stores a `u128` as two words and loads it as one, which defeats store forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    time: Cycle,
    /// The kind in the bits from [`ACTOR_BITS`] on, and the actor below them.
    rank: u64,
}

const ACTOR_BITS: u32 = 24;

impl Key {
    /// The key of an actor without a pending event; greater than all others.
    const NEVER: Key = Key {
        time: Cycle::MAX,
        rank: u64::MAX,
    };

    #[inline]
    fn new(time: Cycle, kind: Kind, actor: usize) -> Key {
        debug_assert!(actor < 1 << ACTOR_BITS, "an actor's number has 24 bits");
        let rank = (kind as u64) << ACTOR_BITS | actor as u64;
        Key { time, rank }
    }

    /// Returns both words as one number, which has the same order.
    #[inline]
    fn number(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.rank)
    }

    /// Returns time and actor; `None` of [`Key::NEVER`].
    #[inline]
    fn event(self) -> Option<(Cycle, usize)> {
        let actor = self.rank & ((1 << ACTOR_BITS) - 1);
        (self.rank != u64::MAX).then_some((self.time, actor as usize))
    }
}

#[inline]
fn earlier(one: Key, other: Key) -> Key {
    if one.number() < other.number() {
        one
    } else {
        other
    }
}

/// The pending events of a fixed number of actors.
///
/// A tournament tree: each inner node holds the earlier of its two children. [`Events::first`] takes constant time; the other operations
/// take one comparison for each level of the tree, without a branch.
///
/// As long as time, kind and actor of all events fit into one word, the nodes are such words. The first event that is too late for that
/// changes all nodes to keys of two words.
#[derive(Debug)]
pub(crate) struct Events {
    /// The root is node 1, the children of node `n` are `2 n` and `2 n + 1`, and the leaves are the second half. Empty once `wide` is used.
    narrow: Vec<u64>,
    /// The same as keys of two words; empty until then.
    wide: Vec<Key>,
    leaves: usize,
    /// Bits of kind and actor in a word.
    bits: u32,
}

/// The word of an actor without a pending event.
const NEVER: u64 = u64::MAX;

impl Events {
    /// Returns a queue for `actors` actors, without pending events.
    pub(crate) fn new(actors: usize) -> Events {
        let leaves = actors.next_power_of_two().max(2);
        Events {
            narrow: vec![NEVER; 2 * leaves],
            wide: Vec::new(),
            leaves,
            // Two bits for the kind.
            bits: leaves.trailing_zeros() + 2,
        }
    }

    /// Returns the word of an event, if it fits.
    #[inline]
    fn word(&self, time: Cycle, kind: Kind, actor: usize) -> Option<u64> {
        // The highest word stays free for `NEVER`, because no kind has the number 3.
        let fits = time >> (u64::BITS - self.bits) == 0;
        let rank = (kind as usize * self.leaves + actor) as u64;
        fits.then_some(time << self.bits | rank)
    }

    /// Returns time and actor of a word; `None` of [`NEVER`].
    #[inline]
    fn event(&self, word: u64) -> Option<(Cycle, usize)> {
        let actor = word as usize & (self.leaves - 1);
        (word != NEVER).then_some((word >> self.bits, actor))
    }

    /// Changes the nodes to keys of two words.
    #[cold]
    fn widen(&mut self) {
        let mask = (1 << self.bits) - 1;
        let key = |&word: &u64| match word {
            NEVER => Key::NEVER,
            _ => {
                let rank = word & mask;
                let (kind, actor) = (rank / self.leaves as u64, rank % self.leaves as u64);
                Key {
                    time: word >> self.bits,
                    rank: kind << ACTOR_BITS | actor,
                }
            }
        };
        self.wide = self.narrow.iter().map(key).collect();
        self.narrow = Vec::new();
    }

    /// Returns the time and the actor of the first event.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Cycle, usize)> {
        match self.narrow.get(1) {
            Some(&word) => self.event(word),
            None => self.wide[1].event(),
        }
    }

    /// Replaces the pending event of `actor` by one at `time`. Returns the new [`Events::first`], which is cheaper than asking again.
    #[inline(always)]
    pub(crate) fn schedule(
        &mut self,
        actor: usize,
        time: Cycle,
        kind: Kind,
    ) -> Option<(Cycle, usize)> {
        if !self.narrow.is_empty()
            && let Some(word) = self.word(time, kind, actor)
        {
            let first = self.set_word(actor, word);
            return self.event(first);
        }
        self.schedule_wide(actor, Key::new(time, kind, actor))
    }

    #[inline(never)]
    fn schedule_wide(&mut self, actor: usize, key: Key) -> Option<(Cycle, usize)> {
        if !self.narrow.is_empty() {
            self.widen();
        }
        self.set(actor, key).event()
    }

    /// Removes the pending event of `actor`, if there is one.
    pub(crate) fn cancel(&mut self, actor: usize) {
        if self.narrow.is_empty() {
            self.set(actor, Key::NEVER);
        } else {
            self.set_word(actor, NEVER);
        }
    }

    #[inline(always)]
    fn set_word(&mut self, actor: usize, word: u64) -> u64 {
        let mut node = self.leaves + actor;
        let nodes = &mut self.narrow[..2 * self.leaves];
        let mut winner = word;
        nodes[node] = winner;
        while node > 1 {
            winner = winner.min(nodes[node ^ 1]);
            node /= 2;
            nodes[node] = winner;
        }
        winner
    }

    /// Returns the first event of all actors but `actor`.
    #[inline]
    fn rival(&self, actor: usize) -> Key {
        let mut node = self.leaves + actor;
        if self.narrow.is_empty() {
            let mut rival = Key::NEVER;
            while node > 1 {
                rival = earlier(rival, self.wide[node ^ 1]);
                node /= 2;
            }
            return rival;
        }
        let mut rival = NEVER;
        while node > 1 {
            rival = rival.min(self.narrow[node ^ 1]);
            node /= 2;
        }
        match rival {
            NEVER => Key::NEVER,
            word => {
                let rank = word & ((1 << self.bits) - 1);
                let leaves = self.leaves.trailing_zeros();
                Key {
                    time: word >> self.bits,
                    rank: rank >> leaves << ACTOR_BITS | rank & (self.leaves as u64 - 1),
                }
            }
        }
    }

    #[inline]
    fn set(&mut self, actor: usize, key: Key) -> Key {
        let mut node = self.leaves + actor;
        let mut winner = key;
        self.wide[node] = winner;
        while node > 1 {
            winner = earlier(winner, self.wide[node ^ 1]);
            node /= 2;
            self.wide[node] = winner;
        }
        winner
    }

    /// Returns the last time at which an event of `actor` of this `kind` would come before the events of all other actors; `None` if it
    /// would not even at time 0.
    #[inline]
    pub(crate) fn last_before_others(&self, actor: usize, kind: Kind) -> Option<Cycle> {
        let rival = self.rival(actor);
        if Key::new(rival.time, kind, actor).number() < rival.number() {
            Some(rival.time)
        } else {
            rival.time.checked_sub(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Kind; 3] = [Kind::Call, Kind::Act, Kind::Background];

    #[test]
    fn the_earliest_is_first_then_the_lowest_kind_then_the_lowest_actor() {
        let mut events = Events::new(3);
        assert_eq!(events.first(), None);
        assert_eq!(events.schedule(2, 5, Kind::Act), Some((5, 2)));
        assert_eq!(events.schedule(1, 5, Kind::Act), Some((5, 1)));
        assert_eq!(events.schedule(0, 7, Kind::Act), Some((5, 1)));
        assert_eq!(events.schedule(2, 5, Kind::Call), Some((5, 2)));
        events.cancel(2);
        events.cancel(1);
        events.schedule(2, u64::MAX, Kind::Background);
        events.cancel(0);
        assert_eq!(
            events.first(),
            Some((u64::MAX, 2)),
            "the last cycle is valid"
        );
    }

    #[test]
    fn the_key_of_the_last_event_comes_before_never() {
        let last = (1 << ACTOR_BITS) - 1;
        let key = Key::new(u64::MAX, Kind::Background, last);
        assert_eq!(key.event(), Some((u64::MAX, last)));
        assert!(key.number() < Key::NEVER.number());
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_list(
            actors in 1..20_usize,
            steps in prop::collection::vec((0..20_usize, 0..6_u64, 0..4_usize), 1..200),
            late in any::<bool>(),
        ) {
            let mut events = Events::new(actors);
            let mut list: Vec<(u64, Kind, usize)> = Vec::new();
            let late = late.then_some(u64::MAX - 8);
            for (actor, time, kind) in steps {
                let actor = actor % actors;
                // Some events near the end of time, so that words and keys mix.
                let time = late.filter(|_| time > 3).map_or(time, |late| late + time);
                list.retain(|event| event.2 != actor);
                match KINDS.get(kind) {
                    Some(&kind) => {
                        list.push((time, kind, actor));
                        list.sort_unstable();
                        let first = events.schedule(actor, time, kind);
                        prop_assert_eq!(first, events.first());
                    }
                    None => events.cancel(actor),
                }
                prop_assert_eq!(events.first(), list.first().map(|&(time, _, actor)| (time, actor)));
                for (one, kind) in (0..actors).flat_map(|one| KINDS.map(|kind| (one, kind))) {
                    let last = events.last_before_others(one, kind);
                    let rival = list.iter().find(|event| event.2 != one);
                    for at in 0..8 {
                        let before = rival.is_none_or(|&rival| (at, kind, one) < rival);
                        prop_assert_eq!(before, last.is_some_and(|last| at <= last), "at {}", at);
                    }
                }
            }
        }
    }
}
