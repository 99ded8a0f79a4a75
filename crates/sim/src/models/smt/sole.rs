//! Which lines no other core can hold, so that most stores need not look through all other caches.
//!
//! Rule 3.1 has a store remove its line from every cache that is not on the core's path. That takes a look into each of them, and most hold
//! nothing: with 80 cores it would be four fifths of a simulation's time. After such a look the line is the core's alone until another core
//! fills it, and a core holds no line that it has not filled.

/// Lines of which one core has removed all other copies, and which no other core has filled since. A table of fixed size, where a line
/// may lose its place to another one: that costs a look into the other caches, and changes no result.
#[derive(Debug)]
pub(super) struct Sole {
    /// By the line's lowest bits, the line and the core.
    places: Vec<Option<(u64, u32)>>,
    /// log2 of the shortest line of the caches that lose lines: what a store removes.
    shift: u32,
    /// log2 of the longest line of a cache that is filled, in the shortest: what a fill brings.
    longest: u32,
}

/// Number of places, a power of two: 1.5 MiB.
const PLACES: usize = 1 << 16;

impl Sole {
    /// For caches with lines of these lengths, as powers of two.
    pub(super) fn new(shifts: impl Iterator<Item = u32>) -> Sole {
        let (least, most) = shifts.fold((63, 0), |(least, most), shift| {
            (shift.min(least), shift.max(most))
        });
        Sole {
            places: vec![None; PLACES],
            shift: least,
            longest: most.saturating_sub(least),
        }
    }

    /// A core stores at an address. Returns whether another core may hold the line; the caller then removes it from all others.
    #[inline(always)]
    pub(super) fn stores(&mut self, core: usize, address: u64) -> bool {
        let line = address >> self.shift;
        let now = Some((line, core as u32));
        let place = &mut self.places[line as usize % PLACES];
        std::mem::replace(place, now) != now
    }

    /// A core fills what lies around an address, in some of its caches.
    pub(super) fn fills(&mut self, core: usize, address: u64) {
        let first = address >> self.shift >> self.longest << self.longest;
        for line in first..=first | ((1 << self.longest) - 1) {
            let place = &mut self.places[line as usize % PLACES];
            if place.is_some_and(|(known, owner)| known == line && owner != core as u32) {
                *place = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_line_is_a_cores_alone_until_another_one_fills_it() {
        // Lines of 32 and of 128 bytes.
        let mut sole = Sole::new([5, 7].into_iter());
        assert!(sole.stores(1, 0x1000));
        assert!(!sole.stores(1, 0x101f));
        assert!(sole.stores(1, 0x1020));
        sole.fills(1, 0x1040);
        assert!(!sole.stores(1, 0x1000));
        // The last line of the same 128 bytes.
        sole.fills(2, 0x1060);
        assert!(sole.stores(1, 0x1000));
        assert!(!sole.stores(1, 0x1000));
        assert!(sole.stores(2, 0x1000));
        // Another line with the same place.
        assert!(sole.stores(2, 0x1000 + 32 * PLACES as u64));
        assert!(sole.stores(2, 0x1000));
    }

    proptest! {
        /// The plain reading: the set of all (core, line) that may be held. A store may look in vain, but never misses a holder.
        #[test]
        fn no_other_holder_is_missed(
            steps in prop::collection::vec((0_usize..3, 0_u64..8, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut sole = Sole::new([6].into_iter());
            let mut held = BTreeSet::new();
            for (core, line, store, far) in steps {
                let address = (line + if far { PLACES as u64 } else { 0 }) << 6;
                if store {
                    let others = held.iter().any(|&(other, there)| other != core && there == address);
                    let looks = sole.stores(core, address);
                    prop_assert!(looks || !others);
                    held.retain(|&(other, there)| other == core || there != address);
                }
                sole.fills(core, address);
                held.insert((core, address));
            }
        }
    }
}
