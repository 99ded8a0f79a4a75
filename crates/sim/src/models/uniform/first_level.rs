//! The innermost loop of the model: records of one core go through its first-level caches.
//!
//! Of lookups that hit, only the number is kept: each costs `hit_cycles`. A lookup that misses becomes a [`Request`] to the next level.

use crate::parts::cache::{Cache, Lookup, Packed};
use crate::parts::source::lines;
use tanada_trace::{Kind, Record};

/// A record of more lines than this is split into pieces of this many lines, which bounds the length of a window.
pub(super) const PIECE_LINES: u64 = 4096;

/// A pass ends after the record with which it has at least this many requests.
pub(super) const ENOUGH_REQUESTS: usize = 4096;

/// What a level passes on to the next one: the write-back of a dirty victim, a lookup, or both. The write-back comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Cycles from the beginning of the window to the start of the record, without those that shared levels add.
    pub(super) offset: u64,
    /// Any address in the line to look up, if `looks_up`.
    pub(super) address: u64,
    /// Any address in the line to write back, if `writes_back`.
    pub(super) victim: u64,
    /// Number of the record in the window. All requests of a record are due at the record's start.
    pub(super) record: u32,
    /// The kind of the record.
    pub(super) kind: Kind,
    pub(super) writes_back: bool,
    pub(super) looks_up: bool,
}

/// A first level, as the loop needs it.
pub(super) trait FirstLevel {
    /// Returns log2 of the length of a line, or `None` without a cache: a record then costs one hit.
    fn shift(&self) -> Option<u32>;
    /// Looks a line up, fills it if it missed, and returns the result.
    fn look_up(&mut self, line: u64, write: bool) -> Lookup;
}

/// A first level of any form.
pub(super) enum AnyLevel<'a> {
    /// The path has no cache.
    NoCache,
    /// Other cores use the cache, so each lookup has to wait for its turn: it is reported as a miss and becomes a request.
    Shared { shift: u32 },
    /// Only this core uses the cache.
    Private { cache: &'a mut Cache, shift: u32 },
}

impl FirstLevel for AnyLevel<'_> {
    #[inline(always)]
    fn shift(&self) -> Option<u32> {
        match *self {
            AnyLevel::NoCache => None,
            AnyLevel::Shared { shift } | AnyLevel::Private { shift, .. } => Some(shift),
        }
    }
    #[inline(always)]
    fn look_up(&mut self, line: u64, write: bool) -> Lookup {
        match self {
            AnyLevel::NoCache => Lookup::Hit,
            AnyLevel::Shared { .. } => Lookup::Miss,
            AnyLevel::Private { cache, .. } => cache.look_up(line, write),
        }
    }
}

/// A private first level whose ways and replacement (LRU or FIFO) are known to the compiler.
pub(super) struct FixedLevel<'a, const WAYS: usize, const LRU: bool> {
    pub(super) cache: Packed<'a, WAYS, LRU>,
    pub(super) shift: u32,
}

impl<const WAYS: usize, const LRU: bool> FirstLevel for FixedLevel<'_, WAYS, LRU> {
    #[inline(always)]
    fn shift(&self) -> Option<u32> {
        Some(self.shift)
    }
    #[inline(always)]
    fn look_up(&mut self, line: u64, write: bool) -> Lookup {
        self.cache.look_up(line, write)
    }
}

/// What a hit and a miss cost in the first levels. Pairs are of fetches and of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstCosts {
    pub(super) hit: u64,
    /// 0 for a shared level: whether it misses is not known before the request is merged.
    pub(super) miss: [u64; 2],
}

/// What a pass over some records did. Pairs are of fetches and of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Number of records.
    pub(super) records: usize,
    /// Cycles of their `x` records.
    pub(super) compute: u64,
    /// Lines that were looked up; a record without a cache counts as one.
    pub(super) touches: [u64; 2],
    /// Lookups that became requests.
    pub(super) misses: [u64; 2],
    /// Dirty lines that were evicted.
    pub(super) writebacks: u64,
}

impl Done {
    /// Returns the cycles of the records that are counted so far: the offset of the current record, which is counted after its requests.
    /// Nothing wraps: `Window::fill` chooses the budget so that the offset is below 2^64.
    #[inline(always)]
    fn cycles(&self, costs: &FirstCosts) -> u64 {
        let hits = costs.hit.wrapping_mul(self.touches[0] + self.touches[1]);
        let fetch = costs.miss[0].wrapping_mul(self.misses[0]);
        let data = costs.miss[1].wrapping_mul(self.misses[1]);
        (self.compute.wrapping_add(hits)).wrapping_add(fetch.wrapping_add(data))
    }
}

/// Whether a pass goes on after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// With the next record.
    Next,
    /// The pass ends after this record.
    Stop,
    /// The pass ends before this record, of which nothing was done.
    StopBefore,
}

/// One pass of the loop.
pub(super) struct Pass<'a> {
    pub(super) costs: FirstCosts,
    /// The pass ends after the record that brings computation above this many cycles.
    pub(super) compute_budget: u64,
    /// The requests are added here.
    pub(super) requests: &'a mut Vec<Request>,
    pub(super) done: Done,
}

impl Pass<'_> {
    /// Processes `records` until one of them ends the pass, and returns what was done. The pass ends before a record of more than
    /// [`PIECE_LINES`] lines or one with which computation would be more than 2^64-1 cycles. It ends after a record that brings computation
    /// above the budget or the number of requests to [`ENOUGH_REQUESTS`]. Fetches go through the first of `levels` and data through the
    /// last one; if there is only one level, it is a unified cache.
    pub(super) fn run<L: FirstLevel, const N: usize>(
        mut self,
        mut levels: [L; N],
        records: &[Record],
    ) -> Done {
        for (number, record) in records.iter().enumerate() {
            self.done.records = number;
            let then = match record.kind {
                Kind::Compute => self.compute(record.value),
                Kind::Fetch => self.touch::<_, false>(&mut levels[0], record),
                // One arm for both: a branch between them would be mispredicted.
                Kind::Read | Kind::Write => self.touch::<_, true>(&mut levels[N - 1], record),
            };
            match then {
                Then::Next => {}
                Then::Stop => break,
                Then::StopBefore => return self.done,
            }
        }
        // In the loop, `done.records` does not count the current record yet.
        self.done.records += usize::from(!records.is_empty());
        self.done
    }

    #[inline(always)]
    fn compute(&mut self, cycles: u64) -> Then {
        let Some(compute) = self.done.compute.checked_add(cycles) else {
            return Then::StopBefore;
        };
        self.done.compute = compute;
        if compute <= self.compute_budget {
            Then::Next
        } else {
            Then::Stop
        }
    }

    #[inline(always)]
    fn touch<L: FirstLevel, const DATA: bool>(&mut self, level: &mut L, record: &Record) -> Then {
        let Some(shift) = level.shift() else {
            self.done.touches[usize::from(DATA)] += 1;
            return Then::Next;
        };
        let (line, last_line) = lines(record, shift);
        if line != last_line {
            return self.touch_several::<L, DATA>(level, record.kind, line, last_line, shift);
        }
        let found = level.look_up(line, DATA && record.kind == Kind::Write);
        let mut then = Then::Next;
        // `misses` and `touches` are counted after the request, whose offset is the start of the record.
        if found != Lookup::Hit {
            then = self.push_request(record.kind, line, shift, found);
            self.done.misses[usize::from(DATA)] += 1;
        }
        self.done.touches[usize::from(DATA)] += 1;
        then
    }

    #[inline(never)]
    fn touch_several<L: FirstLevel, const DATA: bool>(
        &mut self,
        level: &mut L,
        kind: Kind,
        first_line: u64,
        last_line: u64,
        shift: u32,
    ) -> Then {
        let more_lines = last_line - first_line;
        if more_lines >= PIECE_LINES {
            return Then::StopBefore;
        }
        let (mut then, mut misses) = (Then::Next, 0);
        for line in first_line..=last_line {
            let found = level.look_up(line, DATA && kind == Kind::Write);
            if found != Lookup::Hit {
                then = self.push_request(kind, line, shift, found);
                misses += 1;
            }
        }
        // Counted after all requests, because the offset of each of them is the start of the record.
        self.done.misses[usize::from(DATA)] += misses;
        self.done.touches[usize::from(DATA)] += more_lines + 1;
        then
    }

    /// Adds the request of a lookup that missed. Returns whether the pass goes on after the record.
    #[inline(always)]
    fn push_request(&mut self, kind: Kind, line: u64, shift: u32, found: Lookup) -> Then {
        let (victim, writes_back) = match found {
            Lookup::MissEvicting(victim) => (victim, true),
            _ => (0, false),
        };
        self.done.writebacks += u64::from(writes_back);
        self.requests.push(Request {
            offset: self.done.cycles(&self.costs),
            address: line << shift,
            victim: victim << shift,
            record: self.done.records as u32,
            kind,
            writes_back,
            looks_up: true,
        });
        if self.requests.len() < ENOUGH_REQUESTS {
            Then::Next
        } else {
            Then::Stop
        }
    }
}
