//! The loop in which a simulation spends most of its time: records go through the first levels of one core.

use crate::parts::cache::{Cache, Looked, Packed};
use tanada_trace::{Kind, Record};

/// A record of more lines than this is done in pieces of so many, so that it needs no more room than others.
pub(super) const PIECE: u64 = 4096;

/// Some records end early where so many touches missed.
pub(super) const MOST_STEPS: usize = 4096;

/// What a core does that others can see, or that its further levels see: a touch leaves the levels so far, or a dirty line does, or
/// first the one and then the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Known cycles from the window's beginning to the record.
    pub(super) known: u64,
    /// Of the first level's line that is touched, if [`Step::touches`].
    pub(super) address: u64,
    /// Of the dirty line, if [`Step::evicts`].
    pub(super) victim: u64,
    /// Number of the record in the window: all steps of one are due together.
    pub(super) record: u32,
    /// Of the record.
    pub(super) kind: Kind,
    /// Whether a dirty line leaves.
    pub(super) evicts: bool,
    /// Whether a touch does.
    pub(super) touches: bool,
}

/// What some records did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Did {
    /// How many records.
    pub(super) records: usize,
    /// Their computation.
    pub(super) compute: u64,
    /// Lines that were fetched, and lines that were read or written.
    pub(super) touches: [u64; 2],
}

impl Did {
    /// Computation and look-ups, in cycles. The caller makes sure that they fit.
    #[inline(always)]
    pub(super) fn known(&self, hit: u64) -> u64 {
        self.compute
            .wrapping_add(hit.wrapping_mul(self.touches[0].wrapping_add(self.touches[1])))
    }
}

/// The first level for one kind of access.
pub(super) trait First {
    /// `false`: there is no cache; a record costs one look-up.
    const EXISTS: bool = true;
    /// log2 of the line's length.
    fn shift(&self) -> u32;
    /// Looks a line up, which is there afterwards.
    fn look_up(&mut self, line: u64, write: bool) -> Looked;
}

/// No cache on the path.
pub(super) struct Nothing;

impl First for Nothing {
    const EXISTS: bool = false;
    fn shift(&self) -> u32 {
        0
    }
    fn look_up(&mut self, _line: u64, _write: bool) -> Looked {
        Looked::Hit
    }
}

/// A cache that others see or change: it is looked up when the touch is merged. The number: log2 of its line's length.
pub(super) struct Later(pub(super) u32);

impl First for Later {
    #[inline(always)]
    fn shift(&self) -> u32 {
        self.0
    }
    #[inline(always)]
    fn look_up(&mut self, _line: u64, _write: bool) -> Looked {
        Looked::Miss
    }
}

/// Any cache, with log2 of its line's length.
pub(super) struct Any<'a>(pub(super) &'a mut Cache, pub(super) u32);

impl First for Any<'_> {
    #[inline(always)]
    fn shift(&self) -> u32 {
        self.1
    }
    #[inline(always)]
    fn look_up(&mut self, line: u64, write: bool) -> Looked {
        self.0.look_up(line, write)
    }
}

/// A cache of the usual form, with log2 of its line's length.
pub(super) struct Usual<'a, const WAYS: usize, const LRU: bool>(
    pub(super) Packed<'a, WAYS, LRU>,
    pub(super) u32,
);

impl<const WAYS: usize, const LRU: bool> First for Usual<'_, WAYS, LRU> {
    #[inline(always)]
    fn shift(&self) -> u32 {
        self.1
    }
    #[inline(always)]
    fn look_up(&mut self, line: u64, write: bool) -> Looked {
        self.0.look_up(line, write)
    }
}

/// The first levels of both kinds of access.
pub(super) trait Firsts {
    type Fetch: First;
    type Data: First;
    fn fetch(&mut self) -> &mut Self::Fetch;
    fn data(&mut self) -> &mut Self::Data;
}

/// Two caches.
pub(super) struct Split<F, D>(pub(super) F, pub(super) D);

impl<F: First, D: First> Firsts for Split<F, D> {
    type Fetch = F;
    type Data = D;
    #[inline(always)]
    fn fetch(&mut self) -> &mut F {
        &mut self.0
    }
    #[inline(always)]
    fn data(&mut self) -> &mut D {
        &mut self.1
    }
}

/// One for both.
pub(super) struct Unified<C>(pub(super) C);

impl<C: First> Firsts for Unified<C> {
    type Fetch = C;
    type Data = C;
    #[inline(always)]
    fn fetch(&mut self) -> &mut C {
        &mut self.0
    }
    #[inline(always)]
    fn data(&mut self) -> &mut C {
        &mut self.0
    }
}

/// Does records from the first on, up to one of many lines, or up to (and with) one that brings the computation above `most` or the number
/// of misses to [`MOST_STEPS`].
pub(super) fn go<F: Firsts>(
    mut firsts: F,
    records: &[Record],
    hit: u64,
    most: u64,
    steps: &mut Vec<Step>,
) -> Did {
    let mut did = Did::default();
    for (number, record) in records.iter().enumerate() {
        did.records = number;
        let go_on = match record.kind {
            Kind::Compute => match did.compute.checked_add(record.value) {
                Some(compute) => {
                    did.compute = compute;
                    compute <= most
                }
                None => return did,
            },
            Kind::Fetch => touch::<_, false>(firsts.fetch(), record, &mut did, hit, steps),
            // Together, since which of the two comes next cannot be foreseen.
            Kind::Read | Kind::Write => {
                touch::<_, true>(firsts.data(), record, &mut did, hit, steps)
            }
        };
        if !go_on {
            // A record that was not done leaves the count as it is.
            did.records += usize::from(!is_long(&mut firsts, record));
            return did;
        }
    }
    did.records = records.len();
    did
}

/// Whether a record has so many lines that it is done in pieces.
#[cold]
fn is_long(firsts: &mut impl Firsts, record: &Record) -> bool {
    fn lines<C: First>(first: &C, record: &Record) -> u64 {
        let (begin, end) = ends(first, record);
        if C::EXISTS { end - begin } else { 0 }
    }
    let lines = match record.kind {
        Kind::Compute => 0,
        Kind::Fetch => lines(firsts.fetch(), record),
        Kind::Read | Kind::Write => lines(firsts.data(), record),
    };
    lines >= PIECE
}

/// First and last line of a record.
#[inline(always)]
fn ends<C: First>(first: &C, record: &Record) -> (u64, u64) {
    let last = record.value + (u64::from(record.size) - 1);
    (record.value >> first.shift(), last >> first.shift())
}

/// Whether to go on after this record.
#[inline(always)]
fn touch<C: First, const DATA: bool>(
    first: &mut C,
    record: &Record,
    did: &mut Did,
    hit: u64,
    steps: &mut Vec<Step>,
) -> bool {
    if !C::EXISTS {
        did.touches[usize::from(DATA)] += 1;
        return true;
    }
    let (line, last) = ends(first, record);
    if line != last {
        return touches::<C, DATA>(first, record.kind, line, last, did, hit, steps);
    }
    let looked = first.look_up(line, DATA && record.kind == Kind::Write);
    let go_on =
        looked == Looked::Hit || missed::<C>(first, record.kind, line, looked, did, hit, steps);
    did.touches[usize::from(DATA)] += 1;
    go_on
}

#[inline(never)]
fn touches<C: First, const DATA: bool>(
    first: &mut C,
    kind: Kind,
    from: u64,
    last: u64,
    did: &mut Did,
    hit: u64,
    steps: &mut Vec<Step>,
) -> bool {
    if last - from >= PIECE {
        return false;
    }
    let mut go_on = true;
    // Fewer than PIECE, so the count cannot overflow even at the last address.
    for number in 0..=last - from {
        let line = from + number;
        let looked = first.look_up(line, DATA && kind == Kind::Write);
        if looked != Looked::Hit {
            go_on = missed::<C>(first, kind, line, looked, did, hit, steps);
        }
    }
    did.touches[usize::from(DATA)] += last - from + 1;
    go_on
}

/// Notes a miss: whether there is room for those of further records.
#[inline(always)]
fn missed<C: First>(
    first: &C,
    kind: Kind,
    line: u64,
    looked: Looked,
    did: &Did,
    hit: u64,
    steps: &mut Vec<Step>,
) -> bool {
    let (victim, evicts) = match looked {
        Looked::MissEvicting(victim) => (victim, true),
        _ => (0, false),
    };
    steps.push(Step {
        known: did.known(hit),
        address: line << first.shift(),
        victim: victim << first.shift(),
        record: did.records as u32,
        kind,
        evicts,
        touches: true,
    });
    steps.len() < MOST_STEPS
}
