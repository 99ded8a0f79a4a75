//! The innermost loop of the model: records that compute, or touch one line that hits the core's own first cache, need no event.

use super::core::Rest;
use super::levels::{MOST_AHEAD, Use};
use crate::machine::Cycle;
use crate::parts::cache::{Cache, Packed};
use crate::parts::hierarchy::{Stop, path_index};
use crate::parts::source;
use tanada_trace::{Kind, Record};

/// The first cache of a path, as the inner loop sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) stop: Stop,
    /// Only this core looks lines up in it.
    pub(super) private: bool,
    /// Only this core changes what it holds, so that hits need no order.
    pub(super) ahead: bool,
}

/// From this time on nothing is done ahead of time: no hit may take a clock past its end.
const LAST_AHEAD: Cycle = Cycle::MAX - (1 << 40);

/// A first cache, as the loop needs it. A miss changes nothing.
trait First {
    /// Uses a line. Returns whether it hits.
    fn use_one(&mut self, line: u64, write: bool) -> bool;
    /// Uses a line by a read. Returns what [`Cache::undo`] needs; `None`: it misses.
    fn use_undoably(&mut self, line: u64) -> Option<usize>;
}

impl First for &mut Cache {
    #[inline(always)]
    fn use_one(&mut self, line: u64, write: bool) -> bool {
        Cache::use_one(self, line, write)
    }
    #[inline(always)]
    fn use_undoably(&mut self, line: u64) -> Option<usize> {
        Cache::use_undoably(self, line)
    }
}

impl<const WAYS: usize, const LRU: bool> First for Packed<'_, WAYS, LRU> {
    #[inline(always)]
    fn use_one(&mut self, line: u64, write: bool) -> bool {
        Packed::use_one(self, line, write)
    }
    #[inline(always)]
    fn use_undoably(&mut self, line: u64) -> Option<usize> {
        Packed::use_undoably(self, line)
    }
}

/// No path of the core has a cache.
impl First for () {
    fn use_one(&mut self, _line: u64, _write: bool) -> bool {
        false
    }
    fn use_undoably(&mut self, _line: u64) -> Option<usize> {
        None
    }
}

/// A pass of the loop.
pub(super) struct Taking<'a> {
    /// For fetches, and for data.
    pub(super) fronts: [Option<Front>; 2],
    pub(super) hit: Cycle,
    /// The last time at which what it does is in order.
    pub(super) last: Cycle,
    /// The core's clock.
    pub(super) time: Cycle,
    /// What it does ahead of time is added here.
    pub(super) ahead: &'a mut Vec<Use>,
}

/// What a pass did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Number of records.
    pub(super) done: usize,
    /// The core's clock.
    pub(super) time: Cycle,
    /// Lookups that hit: of fetches, and of data.
    pub(super) accesses: [u64; 2],
    /// The last record would take the clock past its end.
    pub(super) late: bool,
    /// What the last record touches, if that was not done.
    pub(super) rest: Option<Rest>,
}

/// What becomes of a record.
enum Then {
    /// It is done, and took this many cycles.
    Done(Cycle),
    /// It is the last one, and its touches are left.
    Rest(Rest),
    /// It is not taken.
    Stop,
}

impl Taking<'_> {
    /// Takes `records` up to the first one that needs an event, in the fastest form of the loop that fits the caches.
    #[inline]
    pub(super) fn run(self, records: &[Record], caches: &mut [Cache]) -> Taken {
        let numbers = self
            .fronts
            .map(|front| front.map(|front| front.stop.cache as usize));
        let (fetch, data) = match numbers {
            [None, None] => return self.take([()], records),
            [Some(fetch), Some(data)] if fetch != data => (fetch, data),
            [Some(one), _] | [None, Some(one)] => return self.take([&mut caches[one]], records),
        };
        let Ok([fetch, data]) = caches.get_disjoint_mut([fetch, data]) else {
            unreachable!("two caches of the machine");
        };
        // Returns from this function if both caches have the form: this number of ways, and LRU (`true`) or FIFO.
        macro_rules! take_if_of_form {
            ($ways:literal, $lru:literal) => {
                if let (Some(fetch), Some(data)) = (fetch.packed::<$ways, $lru>(), data.packed()) {
                    return self.take([fetch, data], records);
                }
            };
        }
        take_if_of_form!(2, false);
        take_if_of_form!(8, true);
        self.take([fetch, data], records)
    }

    /// Takes `records` up to the first one that needs an event. Fetches go through the first of `levels` and data through the last one.
    #[inline(always)]
    fn take<F: First, const N: usize>(mut self, mut levels: [F; N], records: &[Record]) -> Taken {
        let mut taken = Taken {
            done: 0,
            time: self.time,
            accesses: [0; 2],
            late: false,
            rest: None,
        };
        for record in records {
            let then = match record.kind {
                Kind::Compute => Then::Done(record.value),
                Kind::Fetch => self.touch::<_, 0>(&mut levels[0], record, &mut taken),
                Kind::Read | Kind::Write => {
                    self.touch::<_, 1>(&mut levels[N - 1], record, &mut taken)
                }
            };
            let cycles = match then {
                Then::Done(cycles) => cycles,
                Then::Rest(rest) => {
                    taken.done += 1;
                    taken.rest = Some(rest);
                    break;
                }
                Then::Stop => break,
            };
            let Some(time) = taken.time.checked_add(cycles) else {
                // If something was done ahead, the record waits until it is due. If it is a hit, then of a fetch, which may be looked up
                // again.
                taken.late = self.ahead.is_empty();
                let at = path_index(record.kind);
                if taken.late {
                    taken.done += 1;
                } else if record.kind != Kind::Compute && self.fronts[at].is_some() {
                    taken.accesses[at] -= 1;
                }
                break;
            };
            taken.time = time;
            taken.done += 1;
        }
        taken
    }

    #[inline(always)]
    fn touch<F: First, const AT: usize>(
        &mut self,
        first: &mut F,
        record: &Record,
        taken: &mut Taken,
    ) -> Then {
        let Some(front) = self.fronts[AT] else {
            return Then::Done(self.hit);
        };
        let mut rest = lines(*record, front.stop);
        let write = AT == 1 && record.kind == Kind::Write;
        if rest.left == 1 && front.private {
            let time = taken.time;
            let hits = if front.ahead || (!write && time <= self.last) {
                first.use_one(rest.line, write)
            } else if !write && self.ahead.len() < MOST_AHEAD && time < LAST_AHEAD {
                // Not due yet, and another core may remove the line before it is.
                let way = first.use_undoably(rest.line);
                if let Some(way) = way {
                    self.ahead.push(Use {
                        line: rest.line,
                        time,
                        way: way as u32,
                        records: taken.done as u32,
                        hits: taken.accesses.map(|hits| hits as u32),
                    });
                }
                way.is_some()
            } else {
                return self.leave(rest);
            };
            if hits {
                taken.accesses[AT] += 1;
                return Then::Done(self.hit);
            }
            rest.misses = true;
        }
        self.leave(rest)
    }

    /// Returns what becomes of a record that needs an event: it waits if something was done ahead of it.
    #[inline(always)]
    fn leave(&self, rest: Rest) -> Then {
        match self.ahead.is_empty() {
            true => Then::Rest(rest),
            false => Then::Stop,
        }
    }
}

/// Returns the lines that a record touches.
#[inline(always)]
pub(super) fn lines(record: Record, stop: Stop) -> Rest {
    let (first, last) = source::lines(&record, u32::from(stop.shift));
    Rest {
        access: record.kind,
        line: first,
        left: last - first + 1,
        misses: false,
    }
}
