//! Which regions depend on the size of their team: what their code asks for tells.
//!
//! gcc's code for a loop asks for the team's size, and right behind it for the thread's number; no harm is done if the team is smaller.
//! Code that asks for one of them alone may share out work by a size that the program learnt elsewhere, or hand the size on to such a
//! region. So a region that does this, in any of its threads, keeps the team that the program asks for.
//!
//! The program's own pair cannot be told from that of gcc's loops. So when a region has asked for its number and never for the size, which
//! then must come from elsewhere, all regions with pairs keep their teams, too. So they do from the beginning if the program has code that
//! may turn out to be such a region's ([`super::code`]). clang's code for a loop asks for neither: there the pair is the program's own, and
//! the region is watched for longer, in case such a region comes later.
//!
//! Invocations that the engine does not see ([`super::silence`]) are watched only if their team is smaller than the program asks for.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::{Line, silence};
use crate::board;

/// The governed region that runs now, plus 1; 0: none.
static CURRENT: Line<AtomicU32> = Line(AtomicU32::new(0));

/// A bit for each region that depends on its team.
static DEPENDS: [AtomicU64; board::REGIONS / 64] =
    [const { AtomicU64::new(0) }; board::REGIONS / 64];

/// A bit for each region that asked for its number alone; for the size; for both, one behind the other.
static NUMBERS: [AtomicU64; board::REGIONS / 64] =
    [const { AtomicU64::new(0) }; board::REGIONS / 64];
static SIZES: [AtomicU64; board::REGIONS / 64] = [const { AtomicU64::new(0) }; board::REGIONS / 64];
static PAIRS: [AtomicU64; board::REGIONS / 64] = [const { AtomicU64::new(0) }; board::REGIONS / 64];

/// A bit for each region with another cause to keep its team: sections, and parallel regions inside.
static SECTIONS: [AtomicU64; board::REGIONS / 64] =
    [const { AtomicU64::new(0) }; board::REGIONS / 64];
static NESTS: [AtomicU64; board::REGIONS / 64] = [const { AtomicU64::new(0) }; board::REGIONS / 64];

/// Whether the program has code that may share out work by a size from elsewhere.
static HANDED_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The region (plus 1) in which this thread asked for the size, and has not asked for its number since.
    static PENDING: Cell<u32> = const { Cell::new(0) };
}

/// Sets the bit of `region`, which is its number plus 1; of 0 it sets none.
fn set(bits: &[AtomicU64], region: u32) {
    let at = region.wrapping_sub(1) as usize;
    if let Some(word) = bits.get(at / 64) {
        let bit = 1 << (at % 64);
        // Most calls find it set, and then leave the line shared.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
            silence::expire();
        }
    }
}

fn get(bits: &[AtomicU64], region: u32) -> bool {
    let at = region as usize;
    bits.get(at / 64)
        .is_some_and(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 == 1)
}

/// Returns the index in [`board::KEPT`] of why `region` keeps its team; 0 if nothing is known.
pub(super) fn kept(region: u32) -> usize {
    match () {
        () if get(&DEPENDS, region) => 1,
        () if get(&SECTIONS, region) => 2,
        () if get(&NESTS, region) => 3,
        () if get(&PAIRS, region) && is_size_handed_on() => 6,
        () => 0,
    }
}

/// The program has code that may share out work by a size from elsewhere.
pub(super) fn hand_on() {
    HANDED_ON.store(true, Ordering::Relaxed);
    silence::expire();
}

/// Returns whether a region has asked for its number and never for the size of its team, or code of the program may do so.
fn is_size_handed_on() -> bool {
    if HANDED_ON.load(Ordering::Relaxed) {
        return true;
    }
    let mut words = NUMBERS.iter().zip(&SIZES);
    words.any(|(numbers, sizes)| {
        numbers.load(Ordering::Relaxed) & !sizes.load(Ordering::Relaxed) != 0
    })
}

/// Returns whether `region` has asked for both, one behind the other.
pub(super) fn has_pair(region: u32) -> bool {
    get(&PAIRS, region)
}

/// The governed region `region` begins.
pub(super) fn begin(region: u32) {
    PENDING.set(0);
    CURRENT.store(region + 1, Ordering::Relaxed);
}

/// The governed region has ended.
pub(super) fn end() {
    CURRENT.store(0, Ordering::Relaxed);
    let pending = PENDING.replace(0);
    if pending != 0 {
        set(&DEPENDS, pending);
    }
}

/// This thread's code asks for the size of its team.
#[inline]
pub(crate) fn size() {
    let now = CURRENT.load(Ordering::Relaxed);
    let before = PENDING.replace(now);
    set(&SIZES, now);
    if before != 0 {
        set(&DEPENDS, before);
    }
}

/// This thread's code asks for its number.
#[inline]
pub(crate) fn number() {
    let (before, now) = (PENDING.replace(0), CURRENT.load(Ordering::Relaxed));
    if before != now {
        set(&DEPENDS, before);
        set(&DEPENDS, now);
        set(&NUMBERS, now);
    } else {
        set(&PAIRS, now);
    }
}

/// This thread's code asks for something else that depends on the team.
pub(crate) fn other() {
    let now = CURRENT.load(Ordering::Relaxed);
    if now != 0 {
        set(&DEPENDS, now);
    }
}

/// This thread's code begins sections.
pub(crate) fn sections() {
    let now = CURRENT.load(Ordering::Relaxed);
    if now != 0 {
        set(&SECTIONS, now);
    }
}

/// A region begins inside of the governed one.
pub(super) fn nested() {
    let now = CURRENT.load(Ordering::Relaxed);
    if now != 0 {
        set(&NESTS, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, because the state is the process's.
    #[test]
    fn a_pair_is_no_dependence_and_anything_else_is() {
        let in_region = |region: u32, code: &dyn Fn()| {
            begin(region);
            code();
            end();
            kept(region)
        };
        let pair = || {
            size();
            number();
        };
        assert_eq!(in_region(1, &|| ()), 0);
        assert_eq!(in_region(2, &pair), 0);
        assert_eq!(
            in_region(3, &|| {
                pair();
                pair()
            }),
            0
        );
        assert_eq!(in_region(5, &size), 1);
        assert_eq!([2, 3, 5].map(has_pair), [true, true, false]);
        // What asks for both in any way needs no size of another region.
        assert_eq!(kept(2), 0);
        assert_eq!(
            in_region(6, &|| {
                number();
                size()
            }),
            1
        );
        assert_eq!(
            in_region(7, &|| {
                size();
                pair()
            }),
            1
        );
        assert_eq!(in_region(8, &other), 1);
        assert_eq!(in_region(9, &sections), 2);
        assert_eq!(in_region(10, &nested), 3);
        assert_eq!(in_region(4, &number), 1);
        assert_eq!((kept(1), kept(2), kept(3)), (0, 6, 6));
        // In another thread the end is not seen; the next question tells.
        begin(64);
        size();
        CURRENT.store(0, Ordering::Relaxed);
        assert_eq!(kept(64), 0);
        number();
        assert_eq!(kept(64), 1);
        // Outside of regions nothing depends.
        pair();
        number();
        size();
        assert_eq!((0..4).map(kept).sum::<usize>(), 12);
    }
}
