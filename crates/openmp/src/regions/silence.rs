//! Invocations that the engine does not see: while a governor holds a team it says how many may follow ([`tanada_policy::Silence`]).
//!
//! They cost no lock, and few of them readings of the processor's counter. All that is needed is in a slot of one cache line, since the
//! program's data have driven all else out of the first caches. Slots are used by the thread that has `OWNER` (see [`super`]) alone,
//! but for [`expire`], [`none_passes_by`] and [`pass_by`], which any thread may call, and for the end of the process.

use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use crate::system;

/// Regions whose addresses meet in one slot take it from each other.
const SLOTS: usize = 256;

#[repr(align(64))]
struct Slot {
    address: AtomicUsize,
    iterations: AtomicU64,
    number: AtomicU32,
    /// What must be as it was.
    epoch: AtomicU32,
    asked: AtomicU32,
    threads: AtomicU32,
    /// Invocations that may still pass, and those that have passed and were not taken.
    left: AtomicU32,
    passed: AtomicU32,
    /// One of so many is measured, and so many are left until the next one.
    each: AtomicU32,
    until: AtomicU32,
    /// Those that were measured, and their ticks.
    measured: AtomicU16,
    /// Whether the last one of these took another time than usual.
    doubtful: AtomicBool,
    ticks: AtomicU32,
    /// Between these ticks all is as it was.
    least: AtomicU32,
    most: AtomicU32,
}

static ALL: [Slot; SLOTS] = [const {
    Slot {
        address: AtomicUsize::new(0),
        iterations: AtomicU64::new(0),
        number: AtomicU32::new(0),
        epoch: AtomicU32::new(0),
        asked: AtomicU32::new(0),
        threads: AtomicU32::new(0),
        left: AtomicU32::new(0),
        passed: AtomicU32::new(0),
        each: AtomicU32::new(0),
        until: AtomicU32::new(0),
        measured: AtomicU16::new(0),
        doubtful: AtomicBool::new(false),
        ticks: AtomicU32::new(0),
        least: AtomicU32::new(0),
        most: AtomicU32::new(0),
    }
}; SLOTS];

#[repr(align(64))]
struct Head {
    /// Another number as soon as what holds for all regions has changed.
    epoch: AtomicU32,
    /// The slot, plus 1, of the last invocation that passed and was not taken as such; 0: none.
    last: AtomicU32,
    /// The slot of the invocation that is measured, and when it began, in ticks.
    measured: AtomicU32,
    start: AtomicU64,
    /// Whether none passes by.
    all_seen: AtomicBool,
}

static HEAD: Head = Head {
    epoch: AtomicU32::new(0),
    last: AtomicU32::new(0),
    measured: AtomicU32::new(0),
    start: AtomicU64::new(0),
    all_seen: AtomicBool::new(false),
};

/// A team that may run some times more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Team {
    pub(super) asked: u32,
    pub(super) iterations: Option<u64>,
    pub(super) threads: u32,
}

/// How often it may, one of how many is measured, and between which ticks these have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) left: u32,
    pub(super) each: u32,
    pub(super) ticks: (u32, u32),
}

impl Terms {
    /// None of `left` invocations is measured.
    pub(super) fn unmeasured(left: u32) -> Terms {
        Terms {
            left,
            each: u32::MAX,
            ticks: (0, 0),
        }
    }
}

/// An invocation that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passing {
    pub(super) number: u32,
    pub(super) threads: u32,
    /// The caller is to call [`measure`] before it begins, and [`measured`] when it has ended.
    pub(super) measured: bool,
}

/// Invocations of a region that have passed, and the ticks of those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) number: u32,
    pub(super) count: u32,
    pub(super) measured: u32,
    pub(super) ticks: u32,
}

fn at(address: usize) -> usize {
    // Code is aligned to 16 bytes; the multiplication spreads the rest.
    ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 20) % SLOTS
}

fn word(iterations: Option<u64>) -> u64 {
    iterations.map_or(0, |count| count.saturating_add(1))
}

impl Slot {
    fn take(&self) -> Option<Passed> {
        let take = |word: &AtomicU32| {
            let value = word.load(Relaxed);
            word.store(0, Relaxed);
            value
        };
        let measured = self.measured.load(Relaxed);
        self.measured.store(0, Relaxed);
        let passed = Passed {
            number: self.number.load(Relaxed),
            count: take(&self.passed),
            measured: measured.into(),
            ticks: take(&self.ticks),
        };
        (passed.count > 0).then_some(passed)
    }
}

/// Something has changed that is not known of single regions: the engine is to see all again.
pub(super) fn expire() {
    HEAD.epoch.fetch_add(1, Relaxed);
}

/// From now on [`pass_by`] lets none pass.
pub(super) fn none_passes_by() {
    if !HEAD.all_seen.load(Relaxed) {
        HEAD.all_seen.store(true, Relaxed);
    }
}

/// Lets an invocation of the region at `address` pass that runs on as many threads as the program asks for and is not measured; `false` if
/// it is none of these. The number of threads is not looked at: whoever changes it calls [`none_passes_by`].
///
/// Any thread may call this, at any time. Two at the same time may count one invocation less, or leave one more to pass.
#[inline]
pub(super) fn pass_by(address: usize, iterations: Option<u64>) -> bool {
    let index = at(address);
    let slot = &ALL[index];
    let (left, until) = (slot.left.load(Relaxed), slot.until.load(Relaxed));
    let as_before = left > 0
        && until > 1
        && slot.address.load(Relaxed) == address
        && slot.epoch.load(Relaxed) == HEAD.epoch.load(Relaxed)
        && !HEAD.all_seen.load(Relaxed)
        && slot.threads.load(Relaxed) == slot.asked.load(Relaxed)
        && slot.iterations.load(Relaxed) == word(iterations);
    if as_before {
        slot.left.store(left - 1, Relaxed);
        slot.until.store(until - 1, Relaxed);
        slot.passed
            .store(slot.passed.load(Relaxed).wrapping_add(1), Relaxed);
        HEAD.last.store(index as u32 + 1, Relaxed);
    }
    as_before
}

/// Lets an invocation of the region at `address` pass; `None` if the engine is to see it.
#[inline]
pub(super) fn pass(address: usize, asked: u32, iterations: Option<u64>) -> Option<Passing> {
    let index = at(address);
    let slot = &ALL[index];
    let left = slot.left.load(Relaxed);
    let as_before = left > 0
        && slot.address.load(Relaxed) == address
        && slot.epoch.load(Relaxed) == HEAD.epoch.load(Relaxed)
        && slot.asked.load(Relaxed) == asked
        && slot.iterations.load(Relaxed) == word(iterations);
    if !as_before {
        return None;
    }
    slot.left.store(left - 1, Relaxed);
    slot.passed.store(slot.passed.load(Relaxed) + 1, Relaxed);
    HEAD.last.store(index as u32 + 1, Relaxed);
    let until = slot.until.load(Relaxed).saturating_sub(1);
    let measured = until == 0;
    let next = if measured {
        slot.each.load(Relaxed)
    } else {
        until
    };
    slot.until.store(next, Relaxed);
    if measured {
        // Others may pass by until it ends.
        HEAD.measured.store(index as u32, Relaxed);
    }
    Some(Passing {
        number: slot.number.load(Relaxed),
        threads: slot.threads.load(Relaxed),
        measured,
    })
}

/// The invocation that passes begins.
pub(super) fn measure() {
    let now = system::ticks().unwrap_or(0);
    HEAD.start.store(now, Relaxed);
}

/// It has ended. If it took another time than usual, the next one is measured, too; if that did so as well, no further ones pass. A far
/// time alone counts as the farthest usual one.
pub(super) fn measured() {
    let now = system::ticks().unwrap_or(0);
    let ticks = now.saturating_sub(HEAD.start.load(Relaxed));
    let slot = &ALL[HEAD.measured.load(Relaxed) as usize];
    let (least, most) = (slot.least.load(Relaxed), slot.most.load(Relaxed));
    let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
    let far = !(least..=most).contains(&ticks);
    if far && slot.doubtful.load(Relaxed) {
        slot.left.store(0, Relaxed);
        return;
    }
    slot.doubtful.store(far, Relaxed);
    if far {
        slot.until.store(1, Relaxed);
    }
    slot.measured
        .store(slot.measured.load(Relaxed) + 1, Relaxed);
    let counted = ticks.max(least).min(most);
    let sum = slot.ticks.load(Relaxed).saturating_add(counted);
    slot.ticks.store(sum, Relaxed);
}

/// Returns the invocations that have passed of the region at `address`; the engine sees its next one.
pub(super) fn take(address: usize) -> Option<Passed> {
    let slot = &ALL[at(address)];
    if slot.address.load(Relaxed) != address {
        return None;
    }
    slot.left.store(0, Relaxed);
    slot.take()
}

/// Returns those of the region that ran last, if its last invocation passed. Further ones may.
pub(super) fn take_last() -> Option<Passed> {
    let index = HEAD.last.load(Relaxed).checked_sub(1)?;
    HEAD.last.store(0, Relaxed);
    ALL[index as usize].take()
}

/// Returns those of all regions.
pub(super) fn take_all() -> impl Iterator<Item = Passed> {
    ALL.iter().filter_map(Slot::take)
}

/// From now on invocations of the region `number` at `address` may pass. Returns those of the region that had the slot.
pub(super) fn allow(address: usize, number: u32, team: Team, terms: Terms) -> Option<Passed> {
    let slot = &ALL[at(address)];
    let before = slot.take();
    slot.address.store(address, Relaxed);
    slot.number.store(number, Relaxed);
    slot.epoch.store(HEAD.epoch.load(Relaxed), Relaxed);
    slot.asked.store(team.asked, Relaxed);
    slot.threads.store(team.threads, Relaxed);
    slot.iterations.store(word(team.iterations), Relaxed);
    slot.left.store(terms.left, Relaxed);
    slot.each.store(terms.each, Relaxed);
    slot.until.store(terms.each, Relaxed);
    slot.doubtful.store(false, Relaxed);
    slot.least.store(terms.ticks.0, Relaxed);
    slot.most.store(terms.ticks.1, Relaxed);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEAM: Team = Team {
        asked: 4,
        iterations: Some(10),
        threads: 3,
    };

    fn terms(left: u32) -> Terms {
        Terms {
            left,
            each: 4,
            ticks: (0, u32::MAX),
        }
    }

    fn of(number: u32, count: u32) -> Option<Passed> {
        Some(Passed {
            number,
            count,
            measured: 0,
            ticks: 0,
        })
    }

    // One test, because the state is the process's.
    #[test]
    fn as_many_pass_as_are_allowed_while_all_is_as_it_was() {
        let one = 0x40_1000;
        let passes = |asked, iterations| pass(one, asked, iterations).is_some();
        assert!(!passes(4, Some(10)));
        assert_eq!(allow(one, 7, TEAM, terms(3)), None);
        let first = pass(one, 4, Some(10)).map(|one| (one.number, one.threads, one.measured));
        assert_eq!(first, Some((7, 3, false)));
        // The engine sees another team, or more work.
        assert!(!passes(3, Some(10)) && !passes(4, Some(11)) && !passes(4, None));
        assert!(passes(4, Some(10)) && passes(4, Some(10)) && !passes(4, Some(10)));
        assert_eq!(take(one), of(7, 3));
        assert_eq!((take(one), take_last()), (None, None));

        // Something else has changed.
        assert_eq!(allow(one, 7, TEAM, terms(3)), None);
        expire();
        assert!(!passes(4, Some(10)));

        // Another region takes the slot.
        let same = |two: &usize| *two != one && at(*two) == at(one);
        let two = (one..).step_by(16).find(same);
        let two = two.expect("there are many addresses");
        allow(one, 7, TEAM, terms(2));
        assert!(passes(4, Some(10)) && pass(two, 4, Some(10)).is_none());
        assert_eq!(allow(two, 8, TEAM, terms(2)), of(7, 1));
        assert!(!passes(4, Some(10)) && take(one).is_none());
        assert!(pass(two, 4, Some(10)).is_some());
        // Of the last region further ones may pass.
        assert_eq!((take_last(), take_all().count()), (of(8, 1), 0));
        assert!(pass(two, 4, Some(10)).is_some());
        // The engine sees the one that follows one which it has seen.
        allow(two, 8, TEAM, terms(5));
        assert!(take(two).is_none() && pass(two, 4, Some(10)).is_none());

        // One in four is measured, and one unusual time ends nothing.
        if system::ticks().is_none() {
            tanada_testing::skip("this kind of processor has no counter of ticks that is known");
            return;
        }
        let run = |count: u32| {
            let invocation = |_| {
                let passing = pass(one, 4, Some(10))?;
                if passing.measured {
                    measure();
                    std::hint::black_box(vec![0; 100]);
                    measured();
                }
                Some(passing.measured)
            };
            (0..count).map_while(invocation).collect::<Vec<bool>>()
        };
        allow(one, 7, TEAM, terms(9));
        let (no, yes) = (false, true);
        assert_eq!(run(20), [no, no, no, yes, no, no, no, yes, no]);
        let passed = take(one).expect("they have passed");
        assert_eq!((passed.count, passed.measured), (9, 2));
        assert!(passed.ticks > 0);
        // Two in a row do.
        let ticks = (0, 0);
        allow(one, 7, TEAM, Terms { ticks, ..terms(9) });
        assert_eq!(run(20), [no, no, no, yes, yes]);
        let passed = take(one).expect("they have passed");
        assert_eq!((passed.count, passed.measured, passed.ticks), (5, 1, 0));

        // Teams as large as the program asks for pass by, but for those that are measured.
        let full = Team { threads: 4, ..TEAM };
        allow(one, 7, full, terms(9));
        let by = |count: u32| (0..count).filter(|_| pass_by(one, Some(10))).count();
        assert!(!pass_by(one, Some(11)) && !pass_by(one, None));
        assert_eq!(by(20), 3);
        assert!(pass(one, 4, Some(10)).is_some_and(|passing| passing.measured));
        assert_eq!(by(20), 3);
        expire();
        assert_eq!(take(one), of(7, 7));
        allow(one, 7, full, terms(9));
        none_passes_by();
        assert_eq!(by(20), 0);
        assert!(pass(one, 4, Some(10)).is_some());
        allow(one, 7, TEAM, terms(9));
        assert!(!pass_by(one, Some(10)));
    }
}
