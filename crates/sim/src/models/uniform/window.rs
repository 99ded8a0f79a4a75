//! Windows: how far a core gets on its own.
//!
//! The private levels of a core depend on no other core, and no other core depends on them. So a *window* of records goes through these
//! levels in one pass, before it is due. It leaves [`Request`]s to shared levels, which the engine merges with those of other cores in the
//! total order of (time, core). The offset of a request is the number of cycles from the beginning of the window to the start of its
//! record. It includes computation, hits and misses of private levels; the engine adds the misses of shared levels as it merges.

use super::first_level::{AnyLevel, Done, FirstCosts, FixedLevel, PIECE_LINES, Pass, Request};
use crate::counts::bound::Bound;
use crate::counts::tally::CoreTally;
use crate::machine::Machine;
use crate::parts::cache::Lookup;
use crate::parts::hierarchy::{Hierarchy, Prefix, Stop, path_index};
use crate::parts::source::lines;
use tanada_trace::{Kind, Record};

/// The rest of a record that is split into pieces. Such a record is a window of its own.
#[derive(Clone, Copy, Debug)]
struct LongRecord {
    kind: Kind,
    next_line: u64,
    last_line: u64,
}

/// The records of a core that went through its private levels, and their requests to shared ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Scratch memory of a pass: the requests of the first levels, until they have gone through the further private levels.
    scratch: Vec<Request>,
    requests: Vec<Request>,
    /// Number of requests that are merged.
    merged: usize,
    /// Cycles of the whole window without those that shared levels add.
    cycles: u64,
    /// Whether `cycles` would be more than 2^64-1.
    overflows: bool,
    long: Option<LongRecord>,
}

/// Cycles of the machine file.
#[derive(Debug)]
pub(super) struct Costs {
    hit_cycles: u64,
    /// Of each `[[cache]]` table.
    pub(super) miss_cycles: Vec<u64>,
    /// The most that a lookup can cost: a miss in every level.
    worst: u64,
}

impl Costs {
    pub(super) fn of(machine: &Machine) -> Costs {
        let misses = machine.caches.iter().map(|cache| cache.miss_cycles);
        Costs {
            hit_cycles: machine.hit_cycles,
            worst: misses.clone().fold(machine.hit_cycles, u64::saturating_add),
            miss_cycles: misses.collect(),
        }
    }

    /// Returns the sum of `miss_cycles` of some levels; `None` if more than 2^64-1.
    #[inline]
    pub(super) fn penalty_of(&self, levels: &[Stop]) -> Option<u64> {
        let mut misses = levels
            .iter()
            .map(|level| self.miss_cycles[usize::from(level.table)]);
        misses.try_fold(0, u64::checked_add)
    }
}

/// The private levels of one core, and the counters of their lookups.
#[derive(Debug)]
pub(super) struct PrivateLevels<'a> {
    pub(super) core: usize,
    pub(super) hierarchy: &'a mut Hierarchy,
    pub(super) bound: &'a mut Bound,
    pub(super) tally: &'a mut CoreTally,
    pub(super) costs: &'a Costs,
}

impl Window {
    /// Returns the requests that are not merged yet.
    #[inline]
    pub(super) fn pending(&self) -> &[Request] {
        &self.requests[self.merged..]
    }

    /// Returns the first request that is not merged yet.
    #[inline]
    pub(super) fn first_pending(&self) -> Option<&Request> {
        self.requests.get(self.merged)
    }

    /// Marks the next `requests` requests as merged.
    #[inline]
    pub(super) fn mark_merged(&mut self, requests: usize) {
        self.merged += requests;
    }

    /// Returns whether a long record has further pieces.
    #[inline]
    pub(super) fn has_pieces(&self) -> bool {
        self.long.is_some()
    }

    /// Ends the window, all requests of which are merged. Returns its cycles without those that shared levels added.
    pub(super) fn take_cycles(&mut self) -> u64 {
        std::mem::take(&mut self.cycles)
    }

    /// Returns whether the window takes more than 2^64-1 cycles, even without those of shared levels.
    pub(super) fn overflows(&self) -> bool {
        self.overflows
    }

    fn clear(&mut self) {
        debug_assert!(self.first_pending().is_none(), "a request is left");
        self.requests.clear();
        self.merged = 0;
    }

    /// Replaces the window by a prefix of `records`, and returns the prefix's length, which is at least 1. `left` is 2^64-1 minus the
    /// clock. The prefix ends so early that no record but its last one can take the clock above 2^64-1.
    pub(super) fn fill(
        &mut self,
        records: &[Record],
        left: u64,
        mut levels: PrivateLevels<'_>,
    ) -> usize {
        self.clear();
        // The budget of computation is what remains of `left` if each record has `PIECE_LINES` lookups and each lookup misses every level.
        // If nothing remains, the window is one record.
        let lookups = (records.len() as u64).saturating_mul(PIECE_LINES);
        let (records, budget) = match left.checked_sub(levels.costs.worst.saturating_mul(lookups)) {
            Some(budget) => (records, budget),
            None => (&records[..1], 0),
        };
        let (len, cycles) = levels.pass(records, budget, &mut self.scratch, &mut self.requests);
        self.set_cycles(cycles);
        if len > 0 {
            return len;
        }
        // The pass has taken nothing, so the first record is a long one: the computation of a single record always fits into 64 bits.
        let record = &records[0];
        debug_assert_ne!(record.kind, Kind::Compute);
        let prefix = &levels.hierarchy.prefixes[levels.core][path_index(record.kind)];
        let (next_line, last_line) = lines(record, u32::from(prefix.first_shift));
        self.long = Some(LongRecord {
            kind: record.kind,
            next_line,
            last_line,
        });
        1
    }

    /// Replaces the requests, all of which are merged, by those of the next piece of a long record.
    pub(super) fn fill_next_piece(&mut self, mut levels: PrivateLevels<'_>) {
        self.clear();
        let Some(long) = &mut self.long else {
            return;
        };
        let prefix = &levels.hierarchy.prefixes[levels.core][path_index(long.kind)];
        let shift = u32::from(prefix.first_shift);
        let left = long.last_line - long.next_line + 1;
        // A record's size has 32 bits. With lines of 1 MiB, for example, a piece has 2^(31-20) lines at most.
        let count = left.min(PIECE_LINES).min(1 << (31 - shift.min(31)));
        // The piece ends with the first byte of its last line.
        let piece = Record {
            value: long.next_line << shift,
            size: ((count - 1) << shift) as u32 + 1,
            kind: long.kind,
        };
        let (len, cycles) = levels.pass(&[piece], u64::MAX, &mut self.scratch, &mut self.requests);
        debug_assert_eq!(len, 1, "a piece is no long record");
        if count == left {
            self.long = None;
        } else {
            long.next_line += count;
        }
        self.set_cycles(cycles.and_then(|cycles| cycles.checked_add(self.cycles)));
    }

    fn set_cycles(&mut self, cycles: Option<u64>) {
        self.overflows = cycles.is_none();
        self.cycles = cycles.unwrap_or(0);
    }
}

impl PrivateLevels<'_> {
    /// Takes a prefix of `records` through all private levels. Stores the requests that go on to shared levels in `requests`, which must be
    /// empty. Returns the length of the prefix, and its cycles without those of shared levels (`None` if more than 2^64-1).
    fn pass(
        &mut self,
        records: &[Record],
        compute_budget: u64,
        scratch: &mut Vec<Request>,
        requests: &mut Vec<Request>,
    ) -> (usize, Option<u64>) {
        let prefixes = self.hierarchy.prefixes[self.core];
        let miss = |prefix: Prefix| match prefix.private {
            0 => 0,
            _ => self.costs.miss_cycles[usize::from(prefix.first_table)],
        };
        let costs = FirstCosts {
            hit: self.costs.hit_cycles,
            miss: prefixes.map(miss),
        };
        let done = self.first_levels(records, costs, compute_budget, requests);
        let mut cycles = self.count_first_levels(&done, costs);
        if prefixes.iter().any(Prefix::needs_descent) {
            std::mem::swap(scratch, requests);
            requests.clear();
            let further = self.further_levels(scratch, requests);
            cycles = cycles.and_then(|sum| sum.checked_add(further?));
        }
        (done.records, cycles)
    }

    /// Takes a prefix of `records` through the first levels, in the fastest form of the loop that fits the caches, and returns its counts.
    fn first_levels(
        &mut self,
        records: &[Record],
        costs: FirstCosts,
        compute_budget: u64,
        requests: &mut Vec<Request>,
    ) -> Done {
        let pass = Pass {
            costs,
            compute_budget,
            requests,
            done: Done::default(),
        };
        let prefixes = self.hierarchy.prefixes[self.core];
        let shifts = prefixes.map(|prefix| u32::from(prefix.first_shift));
        let caches = self.hierarchy.caches.as_mut_slice();
        // If fetches or data have no private first level, at most one of the two paths needs its cache here.
        if prefixes.iter().any(|prefix| prefix.private == 0) {
            let mut caches = Some(caches);
            let level = |prefix: Prefix| {
                let shift = u32::from(prefix.first_shift);
                match (prefix.levels, prefix.private) {
                    (0, _) => AnyLevel::NoCache,
                    (_, 0) => AnyLevel::Shared { shift },
                    _ => {
                        let caches = caches.take().expect("one path at most");
                        let cache = &mut caches[prefix.first_cache as usize];
                        AnyLevel::Private { cache, shift }
                    }
                }
            };
            return pass.run(prefixes.map(level), records);
        }
        let numbers = prefixes.map(|prefix| prefix.first_cache as usize);
        // `get_disjoint_mut` fails if the numbers are equal, that is, if both paths begin with the same unified cache.
        let Ok([fetch, data]) = caches.get_disjoint_mut(numbers) else {
            let (cache, [shift, _]) = (&mut caches[numbers[0]], shifts);
            return pass.run([AnyLevel::Private { cache, shift }], records);
        };
        // Returns from this function if both caches have the form: this number of ways, and LRU (`true`) or FIFO.
        macro_rules! run_if_of_form {
            ($ways:literal, $lru:literal) => {
                if let (Some(fetch), Some(data)) = (fetch.packed::<$ways, $lru>(), data.packed()) {
                    let levels = [(fetch, shifts[0]), (data, shifts[1])];
                    let levels = levels.map(|(cache, shift)| FixedLevel { cache, shift });
                    return pass.run(levels, records);
                }
            };
        }
        run_if_of_form!(2, false);
        run_if_of_form!(4, false);
        run_if_of_form!(2, true);
        run_if_of_form!(4, true);
        run_if_of_form!(8, true);
        let levels = [(fetch, shifts[0]), (data, shifts[1])];
        let levels = levels.map(|(cache, shift)| AnyLevel::Private { cache, shift });
        pass.run(levels, records)
    }

    /// Counts what the first levels did. Returns the cycles of the records without those of shared levels; `None` if more than 2^64-1.
    fn count_first_levels(&mut self, done: &Done, costs: FirstCosts) -> Option<u64> {
        let [fetches, data] = done.touches;
        let hits = costs.hit.checked_mul(fetches + data)?;
        let compute = done.compute.checked_add(hits)?;
        self.tally.compute = self.tally.compute.checked_add(compute)?;
        self.hierarchy.writebacks += done.writebacks;
        let mut cycles = compute;
        for (index, prefix) in self.hierarchy.prefixes[self.core].iter().enumerate() {
            // Lookups of a shared first level are counted when they are merged.
            if prefix.private > 0 {
                let count = &mut self.tally.task[usize::from(prefix.first_table)];
                count.accesses += done.touches[index];
                count.misses += done.misses[index];
                cycles = cycles.checked_add(costs.miss[index].checked_mul(done.misses[index])?)?;
            }
        }
        Some(cycles)
    }

    /// Takes the requests of the first levels (`first`) through the further private levels, adds the cycles of the further levels to the
    /// offsets of later records, and returns the sum of these cycles (`None` if more than 2^64-1).
    fn further_levels(&mut self, first: &[Request], requests: &mut Vec<Request>) -> Option<u64> {
        // `sum`: cycles added by all requests so far. `before`: those added by requests of records before the current one, `record`; its
        // own requests are all due at its start.
        let (mut sum, mut before, mut record) = (0_u64, 0_u64, u32::MAX);
        for request in first {
            if request.record != record {
                (before, record) = (sum, request.record);
            }
            let prefix = self.hierarchy.prefixes[self.core][path_index(request.kind)];
            let mut request = Request {
                offset: request.offset.wrapping_add(before),
                ..*request
            };
            if prefix.needs_descent() {
                let cost = self.descend(&prefix, &mut request, requests)?;
                sum = sum.checked_add(cost)?;
            }
            if request.looks_up || request.writes_back {
                requests.push(request);
            }
        }
        Some(sum)
    }

    /// Takes a request of the first level of a path through the further private levels of `prefix`. Afterwards `request` holds what goes on
    /// to shared levels: a write-back, a lookup, both or neither. A request has room for one write-back. If several lines must be written
    /// back to shared levels, all but the last are added to `requests` as requests of their own. If the first level is private and the only
    /// one, nothing is left to do but to end the request here. Returns the cycles of the misses; `None` if more than 2^64-1.
    fn descend(
        &mut self,
        prefix: &Prefix,
        request: &mut Request,
        requests: &mut Vec<Request>,
    ) -> Option<u64> {
        let private = usize::from(prefix.private);
        let all_private = prefix.private == prefix.levels;
        let (kind, address) = (request.kind, request.address);
        // The dirty line that the level above has evicted.
        let mut evicted = request.writes_back.then_some(request.victim);
        request.writes_back = false;
        // `level`: number of levels that missed, and index of the next one.
        let (mut cost, mut level) = (0_u64, 1);
        loop {
            if let Some(victim) = evicted {
                let deeper = level..private;
                let held = self.hierarchy.write_back(self.core, kind, deeper, victim);
                if !held && !all_private {
                    if request.writes_back {
                        requests.push(Request {
                            looks_up: false,
                            ..*request
                        });
                    }
                    request.writes_back = true;
                    request.victim = victim;
                }
            }
            if level == private {
                break;
            }
            let stop = self.hierarchy.paths[self.core][path_index(kind)][level];
            let count = &mut self.tally.task[usize::from(stop.table)];
            count.accesses += 1;
            let cache = &mut self.hierarchy.caches[stop.cache as usize];
            evicted = match cache.look_up(address >> stop.shift, false) {
                Lookup::Hit => {
                    request.looks_up = false;
                    break;
                }
                Lookup::Miss => None,
                Lookup::MissEvicting(line) => {
                    self.hierarchy.writebacks += 1;
                    Some(line << stop.shift)
                }
            };
            count.misses += 1;
            cost = cost.checked_add(self.costs.miss_cycles[usize::from(stop.table)])?;
            level += 1;
        }
        request.looks_up &= !all_private;
        // A lookup that goes on to shared levels is added to the bound when it is merged (`merge_any`).
        if !request.looks_up {
            let path = &self.hierarchy.paths[self.core][path_index(kind)];
            self.bound.touched(path, level, address);
        }
        Some(cost)
    }
}
