//! Merging: requests to shared levels happen in the total order of (time, core).

use super::Uniform;
use crate::SimError;
use crate::counts::bound::Bound;
use crate::counts::outcome::Count;
use crate::machine::Machine;
use crate::parts::cache::Lookup;
use crate::parts::events::Kind as Event;
use crate::parts::hierarchy::{Hierarchy, Prefix, Stop, path_index};
use std::hint::select_unpredictable;
use tanada_policy::Dispatcher;
use tanada_trace::Kind;

/// A path of at most one private level and, after it, exactly one shared level. Most machines have only such paths, for which merging has
/// a faster form.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPath {
    private: Option<Stop>,
    shared: Stop,
}

impl ShortPath {
    fn of(path: &[Stop], prefix: &Prefix) -> Option<ShortPath> {
        let (private, shared) = match (prefix.private, path) {
            // Nothing ever uses a path without levels.
            (_, []) => (None, Stop::default()),
            (0, &[shared]) => (None, shared),
            (1, &[private, shared]) => (Some(private), shared),
            _ => return None,
        };
        Some(ShortPath { private, shared })
    }

    /// Returns the paths of all cores, for fetches and for data; empty if any path is not short, or if writes invalidate, which
    /// `merge_short` leaves out.
    pub(super) fn of_all(hierarchy: &Hierarchy) -> Vec<[ShortPath; 2]> {
        if !hierarchy.invalidated.is_empty() {
            return Vec::new();
        }
        let cores = hierarchy.paths.iter().zip(&hierarchy.prefixes);
        let short = cores.map(|([fetch, data], [of_fetch, of_data])| {
            let fetch = ShortPath::of(fetch, of_fetch)?;
            Some([fetch, ShortPath::of(data, of_data)?])
        });
        short.collect::<Option<_>>().unwrap_or_default()
    }

    /// Adds a lookup of `address` that missed the private level, and so touches the shared one, to the bound. Does nothing if there is no
    /// private level.
    pub(super) fn add_private_miss_to_bound(&self, bound: &mut Bound, address: u64) {
        if let Some(private) = self.private {
            let line = |stop: &Stop| (usize::from(stop.table), address >> stop.shift);
            bound.passed(line(&private), line(&self.shared));
        }
    }
}

/// The one shared cache of a machine on which every request comes from a private first level and goes to this cache. Most machines of the
/// uniform model are such, and merging has its fastest form for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sole {
    cache: usize,
    table: usize,
    shift: u32,
    miss_cycles: u64,
}

/// From this clock on, and with more cycles a miss than [`MOST_SIMPLE`], requests are merged by the form that looks for overflows.
const LAST_SIMPLE: u64 = 1 << 62;

/// With at most this, the requests of a record, 4,096 at most, cost less than 2^61 cycles.
const MOST_SIMPLE: u64 = 1 << 40;

impl Sole {
    /// Returns the cache, if the paths of all cores are such.
    pub(super) fn of_all(paths: &[[ShortPath; 2]], machine: &Machine) -> Option<Sole> {
        let mut all = paths.iter().flatten();
        let first = all.next()?.shared;
        let alike = |path: &ShortPath| path.private.is_some() && path.shared.cache == first.cache;
        let miss_cycles = machine.caches.get(usize::from(first.table))?.miss_cycles;
        let is_sole = paths.iter().flatten().all(alike) && miss_cycles <= MOST_SIMPLE;
        is_sole.then_some(Sole {
            cache: first.cache as usize,
            table: usize::from(first.table),
            shift: u32::from(first.shift),
            miss_cycles,
        })
    }
}

/// What a loop of merges left to its caller.
enum Left {
    /// The first event of all, which is no simple request.
    First(Option<(u64, usize)>),
    /// The last request of the core's window is merged.
    Window(usize),
}

impl<D: Dispatcher> Uniform<'_, D> {
    /// Merges requests as long as the first event of all is a simple one: the request of a short record to the only shared cache, early
    /// enough that no clock overflows. Returns the first event that is none.
    #[inline(always)]
    pub(super) fn merge_simple(
        &mut self,
        mut first: Option<(u64, usize)>,
    ) -> Result<Option<(u64, usize)>, SimError> {
        let Some(sole) = self.sole else {
            return Ok(first);
        };
        loop {
            let left = match self.hierarchy.caches[sole.cache].form() {
                Some((4, true)) => self.merge_packed::<4, true>(sole, first),
                Some((8, true)) => self.merge_packed::<8, true>(sole, first),
                Some((16, true)) => self.merge_packed::<16, true>(sole, first),
                _ => return Ok(first),
            };
            first = match left {
                Left::First(first) => return Ok(first),
                Left::Window(core) => self.schedule_next_window(core)?,
            };
        }
    }

    /// As [`Uniform::merge_simple`], for a shared cache whose form is known to the compiler, and up to the end of a window.
    #[inline(never)]
    fn merge_packed<const WAYS: usize, const LRU: bool>(
        &mut self,
        sole: Sole,
        mut first: Option<(u64, usize)>,
    ) -> Left {
        let Some(mut cache) = self.hierarchy.caches[sole.cache].packed::<WAYS, LRU>() else {
            return Left::First(first);
        };
        while let Some((_, core)) = first {
            let this = &mut self.cores[core];
            let mut pending = this.window.pending().iter();
            let Some(mut request) = pending.next() else {
                break; // the task ends
            };
            if this.clock >= LAST_SIMPLE || this.window.has_pieces() {
                break;
            }
            let record = request.record;
            let (mut merged, mut misses, mut writebacks) = (0, 0, 0);
            let next = loop {
                if request.writes_back {
                    cache.mark_dirty(request.victim >> sole.shift);
                }
                let found = cache.look_up(request.address >> sole.shift, false);
                merged += 1;
                misses += u64::from(found != Lookup::Hit);
                writebacks += u64::from(matches!(found, Lookup::MissEvicting(_)));
                match pending.next() {
                    Some(next) if next.record == record => request = next,
                    next => break next,
                }
            };
            let clock = this.clock + misses * sole.miss_cycles;
            let time = next.map(|next| clock.checked_add(next.offset));
            this.clock = clock;
            this.window.mark_merged(merged);
            self.sim.tally.cores[core].task[sole.table] += Count {
                accesses: merged as u64,
                misses,
            };
            self.hierarchy.writebacks += writebacks;
            match time.flatten() {
                Some(time) => first = self.events.schedule(core, time, Event::Act),
                // The window ends here, or the clock overflows, which `schedule_next_window` reports.
                None => return Left::Window(core),
            }
        }
        Left::First(first)
    }

    /// Performs all requests of the core's next record, which is due.
    #[inline(always)]
    pub(super) fn merge(&mut self, core: usize) -> Result<(), SimError> {
        match self.short_paths.get(core) {
            // If a long record has further pieces, they are due now, too, and only `merge_any` goes on with them.
            Some(&paths) if !self.cores[core].window.has_pieces() => self.merge_short(core, &paths),
            _ => self.merge_any(core),
        }
    }

    /// As [`Uniform::merge_any`], but only for a machine with short paths and a record without further pieces. Each request has a lookup,
    /// because a write-back alone comes only from a second private level. Requests that come from a private level were added to the bound
    /// when the window was filled (`add_private_misses_to_bound`).
    #[inline(always)]
    fn merge_short(&mut self, core: usize, paths: &[ShortPath; 2]) -> Result<(), SimError> {
        let this = &mut self.cores[core];
        let counts = self.sim.tally.cores[core].task.as_mut_slice();
        let pending = this.window.pending();
        let record = pending.first().map_or(0, |request| request.record);
        let (mut cost, mut overflows, mut merged) = (0_u64, false, 0);
        for request in pending {
            if request.record != record {
                break;
            }
            merged += 1;
            let ShortPath { private, shared } = &paths[path_index(request.kind)];
            let (table, line) = (usize::from(shared.table), request.address >> shared.shift);
            let cache = &mut self.hierarchy.caches[shared.cache as usize];
            if request.writes_back {
                cache.mark_dirty(request.victim >> shared.shift);
            }
            // A write marks its line dirty in the first level of its path only.
            let write = private.is_none() && request.kind == Kind::Write;
            let found = cache.look_up(line, write);
            let missed = found != Lookup::Hit;
            // A branch on `missed` would be mispredicted.
            let penalty = select_unpredictable(missed, self.costs.miss_cycles[table], 0);
            let (sum, carry) = cost.overflowing_add(penalty);
            (cost, overflows) = (sum, overflows | carry);
            counts[table].accesses += 1;
            counts[table].misses += u64::from(missed);
            self.hierarchy.writebacks += u64::from(matches!(found, Lookup::MissEvicting(_)));
            if missed && private.is_none() {
                self.sim.bound.missed(table, line);
            }
        }
        this.window.mark_merged(merged);
        self.advance(core, (!overflows).then_some(cost))
    }

    /// Performs all requests of the core's next record, which is due: each write-back marks its line dirty in the nearest shared level that
    /// holds it, each lookup goes down the shared levels until it hits. The clock then advances by the penalties of the shared levels that
    /// missed.
    #[inline]
    fn merge_any(&mut self, core: usize) -> Result<(), SimError> {
        let mut cost = Some(0_u64);
        loop {
            let this = &mut self.cores[core];
            let pending = this.window.pending();
            let record = pending.first().map(|request| request.record);
            let mut merged = 0;
            let counts = &mut self.sim.tally.cores[core].task;
            let prefixes = self.hierarchy.prefixes[core];
            for request in pending {
                if Some(request.record) != record {
                    break;
                }
                merged += 1;
                let prefix = &prefixes[path_index(request.kind)];
                let (private, levels) = (usize::from(prefix.private), usize::from(prefix.levels));
                if request.writes_back {
                    self.hierarchy
                        .write_back(core, request.kind, private..levels, request.victim);
                }
                if request.looks_up {
                    let (kind, address) = (request.kind, request.address);
                    // Number of the levels of the whole path that missed. The private ones did so before the merge.
                    let missed = self.hierarchy.touch(core, kind, address, private, counts);
                    if missed > 0 {
                        let path = &self.hierarchy.paths[core][path_index(kind)];
                        self.sim.bound.touched(path, missed, address);
                        let penalties = self.costs.penalty_of(&path[private..missed]);
                        cost = cost.and_then(|sum| sum.checked_add(penalties?));
                    }
                }
            }
            this.window.mark_merged(merged);
            if this.window.first_pending().is_some() || !this.window.has_pieces() {
                return self.advance(core, cost);
            }
            // A long record has further pieces, whose requests are due at the same time.
            self.fill_next_piece(core)?;
        }
    }

    /// Advances the clock of a core by the cycles of shared levels (`None`: more than 2^64-1); returns an error if it passes 2^64-1.
    #[inline(always)]
    fn advance(&mut self, core: usize, cycles: Option<u64>) -> Result<(), SimError> {
        let clock = &mut self.cores[core].clock;
        match cycles.and_then(|cycles| clock.checked_add(cycles)) {
            Some(sum) => {
                *clock = sum;
                Ok(())
            }
            None => Err(self.overflow(core)),
        }
    }
}
