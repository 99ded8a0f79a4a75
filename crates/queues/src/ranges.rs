//! Numbers that several threads share out among themselves: each takes from a part of its own, and half of another part when its own is
//! empty.
//!
//! A part is one word, `begin` in its upper and `end` in its lower half. Its owner takes the first number by one addition; a thief takes
//! the upper half of what is left by one exchange. So each number is taken once: both change the word at once. A word says all that there
//! is to a part, so an exchange may succeed after the part was emptied and filled with the same numbers: the thief then has numbers that
//! are free.
//!
//! **Nobody leaves too early.** [`Ranges::take`] returns `None` only if all numbers have been taken. Numbers that a thief has taken and not
//! stored in its own part yet are in no part: so a thief counts itself in `moves` before it takes any and leaves it when it has stored
//! them, which also raises a number of moves. A thread has found all parts empty if no thief was counted, and no move ended, from before it
//! looked until after it had looked.

use crate::Padded;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{spin_loop, total_order};

/// One number of a part.
const BEGIN: u64 = 1 << 32;

/// One thief on its way, and one move that has ended.
const THIEF: u64 = 1;
const ENDED: u64 = 1 << 32;

/// The numbers below some bound, in parts.
///
/// ```
/// # use tanada_queues::Ranges;
/// let ranges = Ranges::new(2);
/// ranges.deal(2, 5);
/// assert_eq!([0, 1].map(|part| ranges.take(part)), [Some(0), Some(2)]);
/// let rest: Vec<_> = std::iter::from_fn(|| ranges.take(0)).collect();
/// assert_eq!(rest, [1, 4, 3]);
/// ```
#[derive(Debug, Default)]
pub struct Ranges {
    parts: Box<[Padded<AtomicU64>]>,
    /// How many thieves are on their way in the lower half, how many moves have ended in the upper one.
    moves: Padded<AtomicU64>,
}

fn word(begin: u32, end: u32) -> u64 {
    u64::from(begin) << 32 | u64::from(end)
}

/// Returns `begin` and `end` of a part.
#[inline]
fn bounds(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Ranges {
    /// Returns `parts` parts without numbers.
    pub fn new(parts: usize) -> Self {
        Ranges {
            parts: (0..parts).map(|_| Padded::default()).collect(),
            moves: Padded::default(),
        }
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether no part has a number.
    #[cfg(loom)]
    pub fn is_empty(&self) -> bool {
        let empty = |part: &Padded<AtomicU64>| {
            total_order();
            let (begin, end) = bounds(part.0.load(Ordering::SeqCst));
            begin >= end
        };
        self.parts.iter().all(empty)
    }

    /// Deals the numbers below `numbers` out to the first `parts` parts, in their order. No thread takes any meanwhile; what makes the call
    /// known to other threads makes the numbers known to them.
    ///
    /// # Panics
    /// If `parts` is 0 or more than there are, or `numbers` is 2^31 or more.
    pub fn deal(&self, parts: usize, numbers: u32) {
        assert!(
            numbers < 1 << 31,
            "a part counts a little further than it goes"
        );
        let all = u64::from(numbers);
        let bound = |part: usize| (all * part as u64 / parts as u64) as u32;
        for (part, place) in self.parts[..parts].iter().enumerate() {
            let range = word(bound(part), bound(part + 1));
            place.0.store(range, Ordering::Relaxed);
        }
    }

    /// Takes and returns the next number of `part`, or, if it has none, one of another part; `None` if all numbers have been taken. Calls
    /// for the same part come one at a time. Costs one locked instruction, and one or two more once in a while.
    ///
    /// # Panics
    /// If there is no such part.
    #[inline]
    pub fn take(&self, part: usize) -> Option<u32> {
        let place = &self.parts[part].0;
        let (begin, end) = bounds(place.load(Ordering::Relaxed));
        if begin < end {
            // A thief may have taken all meanwhile: then the part is as empty as before, and `begin` one further.
            let (begin, end) = bounds(place.fetch_add(BEGIN, Ordering::AcqRel));
            if begin < end {
                return Some(begin);
            }
        }
        self.steal(part)
    }

    /// Takes the upper half of what another part has. Returns the first of these numbers, and stores the others in `part`.
    #[cold]
    fn steal(&self, part: usize) -> Option<u32> {
        loop {
            total_order();
            let before = self.moves.0.load(Ordering::SeqCst);
            let others = (part + 1..self.parts.len()).chain(0..part);
            for other in others {
                if let Some(number) = self.steal_from(other, part) {
                    return Some(number);
                }
            }
            total_order();
            let after = self.moves.0.load(Ordering::SeqCst);
            if after == before && after.is_multiple_of(ENDED) {
                return None;
            }
            spin_loop(); // another thread has moved some, or is about to have: this ends
        }
    }

    fn steal_from(&self, other: usize, part: usize) -> Option<u32> {
        let place = &self.parts[other].0;
        total_order();
        let mut seen = place.load(Ordering::SeqCst);
        loop {
            let (begin, end) = bounds(seen);
            if begin >= end {
                return None;
            }
            let middle = begin + (end - begin) / 2;
            self.moves.0.fetch_add(THIEF, Ordering::SeqCst);
            total_order();
            let left = word(begin, middle);
            match place.compare_exchange(seen, left, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    // The part is empty, so no thief changes it.
                    let rest = word(middle + 1, end);
                    self.parts[part].0.store(rest, Ordering::SeqCst);
                    total_order();
                    self.moves.0.fetch_add(ENDED - THIEF, Ordering::SeqCst);
                    total_order();
                    return Some(middle);
                }
                Err(now) => {
                    self.moves.0.fetch_sub(THIEF, Ordering::SeqCst);
                    total_order();
                    seen = now;
                }
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dealt_out_evenly() {
        let ranges = Ranges::new(4);
        ranges.deal(3, 10);
        let dealt = ranges
            .parts
            .iter()
            .map(|part| bounds(part.0.load(Ordering::Relaxed)));
        assert_eq!(dealt.collect::<Vec<_>>(), [(0, 3), (3, 6), (6, 10), (0, 0)]);
    }

    #[test]
    fn each_number_is_taken_once_by_many_threads() {
        let (threads, numbers) = (4, if cfg!(miri) { 200 } else { 100_000 });
        let ranges = Ranges::new(threads);
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            ranges.deal(1, numbers);
            let mut taken: Vec<u32> = std::thread::scope(|scope| {
                let take = |part| {
                    let ranges = &ranges;
                    scope
                        .spawn(move || std::iter::from_fn(|| ranges.take(part)).collect::<Vec<_>>())
                };
                let takers: Vec<_> = (0..threads).map(take).collect();
                let lists = takers
                    .into_iter()
                    .map(|taker| taker.join().expect("no panic"));
                lists.flatten().collect()
            });
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..numbers));
        }
    }
}
