//! How far a core gets on its own.
//!
//! Where writes invalidate nothing, what happens in a core's private levels depends on no other core, and nobody else sees it. So a
//! window of records goes through them in one go, and only what is left over, [`Step`]s, has to be merged with those of other cores in
//! the total order of (clock, core). A step says how many cycles after the window's beginning its record begins, as far as that is known:
//! computation, look-ups and misses of private levels. What steps before it cost at levels that others see is added when they are merged.

use super::first::{Any, Did, First, Later, Nothing, PIECE, Split, Step, Unified, Usual, go};
use crate::counts::bound::Bound;
use crate::counts::tally::CoreTally;
use crate::machine::Machine;
use crate::parts::cache::{Cache, Looked};
use crate::parts::hierarchy::{Hierarchy, Reach, Stop};
use tanada_trace::{Kind, Record};

/// The rest of a record of many lines.
#[derive(Clone, Copy, Debug)]
struct Long {
    kind: Kind,
    next: u64,
    last: u64,
    /// Known cycles before the record, and of the record so far.
    before: u64,
    cost: u64,
}

/// The steps of a window that are not merged yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    /// What left the first levels, where further ones are private.
    first: Vec<Step>,
    steps: Vec<Step>,
    at: usize,
    /// Known cycles of the whole window.
    known: u64,
    long: Option<Long>,
}

/// What all cores have in common.
#[derive(Debug)]
pub(super) struct Costs {
    hit: u64,
    /// Of each `[[cache]]` table.
    pub(super) misses: Vec<u64>,
    /// What one line can cost at most.
    worst: u64,
}

impl Costs {
    pub(super) fn of(machine: &Machine) -> Costs {
        let misses: Vec<u64> = machine
            .caches
            .iter()
            .map(|cache| cache.miss_cycles)
            .collect();
        let worst = misses
            .iter()
            .copied()
            .fold(machine.hit_cycles, u64::saturating_add);
        Costs {
            hit: machine.hit_cycles,
            worst,
            misses,
        }
    }

    /// At least what so many lines cost.
    fn of_lines(&self, lines: u64) -> u64 {
        self.worst.saturating_mul(lines)
    }

    /// What the levels of a path cost that missed.
    #[inline]
    pub(super) fn missed(&self, path: &[Stop]) -> u64 {
        let penalty = |stop: &Stop| self.misses[usize::from(stop.table)];
        path.iter().map(penalty).fold(0, u64::saturating_add)
    }
}

/// One core's private part of the machine.
#[derive(Debug)]
pub(super) struct Private<'a> {
    pub(super) core: usize,
    pub(super) hierarchy: &'a mut Hierarchy,
    pub(super) bound: &'a mut Bound,
    pub(super) tally: &'a mut CoreTally,
    pub(super) costs: &'a Costs,
}

/// A cost is more than a clock can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLate;

impl Ahead {
    /// The next step.
    #[inline]
    pub(super) fn next(&self) -> Option<&Step> {
        self.steps.get(self.at)
    }

    /// The steps that are not merged.
    #[inline]
    pub(super) fn left(&self) -> &[Step] {
        &self.steps[self.at..]
    }

    /// So many steps are merged.
    #[inline]
    pub(super) fn merged(&mut self, steps: usize) {
        self.at += steps;
    }

    /// Takes the known cycles of the whole window, all steps of which are merged.
    pub(super) fn take_known(&mut self) -> u64 {
        std::mem::take(&mut self.known)
    }

    /// Whether a record is begun and has further lines.
    #[inline]
    pub(super) fn is_within_record(&self) -> bool {
        self.long.is_some()
    }

    fn clear(&mut self) {
        debug_assert!(self.next().is_none(), "steps are left");
        self.steps.clear();
        self.at = 0;
    }

    /// Does as many of some records as it can, at least one, and counts them in `done`. All steps are merged before. `left`: cycles that
    /// the clock has left at the first of them. Only the last record that was done can take the clock past its end.
    ///
    /// # Errors
    /// Where that is known already.
    pub(super) fn window(
        &mut self,
        records: &[Record],
        left: u64,
        mut private: Private<'_>,
        done: &mut usize,
    ) -> Result<(), TooLate> {
        self.clear();
        let hit = private.costs.hit;
        // What is left for computation if all lines cost what they can; where that is nothing, records go one by one.
        let of_lines = private
            .costs
            .of_lines((records.len() as u64).saturating_mul(PIECE));
        let (records, most) = match left.checked_sub(of_lines) {
            Some(most) => (records, most),
            None => (&records[..1], 0),
        };
        let did = private.first_levels(records, most, &mut self.steps);
        *done = did.records;
        // Where it is one record by itself, even its look-ups can be too much.
        let touches = did.touches[0] + did.touches[1];
        let hits = hit.checked_mul(touches).ok_or(TooLate)?;
        let known = did.compute.checked_add(hits).ok_or(TooLate)?;
        private.count(&did, hits)?;
        let more = private.further_levels(&mut self.first, &mut self.steps)?;
        self.known = known.checked_add(more).ok_or(TooLate)?;
        if let Some(record) = records.get(did.records).filter(|_| did.records == 0) {
            *done = 1;
            self.begin_alone(record, &private)?;
        }
        Ok(())
    }

    /// A record that has to be done by itself: one of many lines, or one that computes for very long.
    fn begin_alone(&mut self, record: &Record, private: &Private<'_>) -> Result<(), TooLate> {
        if record.kind == Kind::Compute {
            return Err(TooLate);
        }
        let path = &private.hierarchy.reach[private.core][usize::from(record.kind != Kind::Fetch)];
        self.long = Some(Long {
            kind: record.kind,
            next: record.value >> path.shift,
            last: (record.value + (u64::from(record.size) - 1)) >> path.shift,
            before: self.known,
            cost: 0,
        });
        Ok(())
    }

    /// The next lines of a record that has many. All steps are merged before.
    pub(super) fn go_on(&mut self, mut private: Private<'_>) -> Result<(), TooLate> {
        self.clear();
        let Some(mut long) = self.long else {
            return Ok(());
        };
        let shift =
            private.hierarchy.reach[private.core][usize::from(long.kind != Kind::Fetch)].shift;
        let lines = (long.last - long.next + 1).min(PIECE.min(1 << (31 - shift.min(31))));
        let record = Record {
            value: long.next << shift,
            size: ((lines - 1) << shift) as u32 + 1,
            kind: long.kind,
        };
        let did = private.first_levels(&[record], u64::MAX, &mut self.steps);
        debug_assert_eq!(did.records, 1, "a piece is no long record");
        let hits = private.costs.hit.checked_mul(lines).ok_or(TooLate)?;
        private.count(&did, hits)?;
        let more = private.further_levels(&mut self.first, &mut self.steps)?;
        let cost = hits.checked_add(more).ok_or(TooLate)?;
        long.cost = long.cost.checked_add(cost).ok_or(TooLate)?;
        for step in &mut self.steps {
            step.known = long.before;
        }
        if long.next + (lines - 1) == long.last {
            self.long = None;
            self.known = long.before.checked_add(long.cost).ok_or(TooLate)?;
        } else {
            long.next += lines;
            self.long = Some(long);
        }
        Ok(())
    }
}

impl Private<'_> {
    /// The first level of a path by itself, where others have nothing to do with it.
    fn only<'a>(caches: &'a mut [Cache], path: &Reach) -> Option<Any<'a>> {
        let cache = caches.get_mut(path.cache as usize)?;
        (path.private > 0).then(|| Any(cache, u32::from(path.shift)))
    }

    /// Takes records through the first levels.
    fn first_levels(&mut self, records: &[Record], most: u64, steps: &mut Vec<Step>) -> Did {
        /// Names the types once.
        struct Go<'r>(&'r [Record], u64, u64);
        impl Go<'_> {
            fn usual<const WAYS: usize, const LRU: bool>(
                &self,
                [fetch, data]: [&mut Cache; 2],
                shifts: [u32; 2],
                steps: &mut Vec<Step>,
            ) -> Option<Did> {
                let fetch = Usual(fetch.packed::<WAYS, LRU>()?, shifts[0]);
                let data = Usual(data.packed::<WAYS, LRU>()?, shifts[1]);
                Some(go(Split(fetch, data), self.0, self.1, self.2, steps))
            }
            fn half(&self, fetch: impl First, data: &Reach, steps: &mut Vec<Step>) -> Did {
                match data.levels {
                    0 => go(Split(fetch, Nothing), self.0, self.1, self.2, steps),
                    _ => {
                        let data = Later(u32::from(data.shift));
                        go(Split(fetch, data), self.0, self.1, self.2, steps)
                    }
                }
            }
        }
        let all = Go(records, self.costs.hit, most);
        let [fetch, data] = self.hierarchy.reach[self.core];
        let caches = self.hierarchy.caches.as_mut_slice();
        if fetch.private > 0 && data.private > 0 {
            let shifts = [fetch.shift, data.shift].map(u32::from);
            let (of_fetch, of_data) = (fetch.cache as usize, data.cache as usize);
            let Ok(mut two) = caches.get_disjoint_mut([of_fetch, of_data]) else {
                let one = Any(&mut caches[of_fetch], shifts[0]);
                return go(Unified(one), all.0, all.1, all.2, steps);
            };
            let shape = two[0]
                .usual()
                .filter(|shape| two[1].usual() == Some(*shape));
            let [f, d] = &mut two;
            let did = match shape {
                Some((2, false)) => all.usual::<2, false>([f, d], shifts, steps),
                Some((4, false)) => all.usual::<4, false>([f, d], shifts, steps),
                Some((2, true)) => all.usual::<2, true>([f, d], shifts, steps),
                Some((4, true)) => all.usual::<4, true>([f, d], shifts, steps),
                Some((8, true)) => all.usual::<8, true>([f, d], shifts, steps),
                _ => None,
            };
            return did.unwrap_or_else(|| {
                let [fetch, data] = two;
                let split = Split(Any(fetch, shifts[0]), Any(data, shifts[1]));
                go(split, all.0, all.1, all.2, steps)
            });
        }
        if let Some(first) = Self::only(caches, &fetch) {
            return all.half(first, &data, steps);
        }
        if let Some(first) = Self::only(caches, &data) {
            return match fetch.levels {
                0 => go(Split(Nothing, first), all.0, all.1, all.2, steps),
                _ => {
                    let fetch = Later(u32::from(fetch.shift));
                    go(Split(fetch, first), all.0, all.1, all.2, steps)
                }
            };
        }
        match fetch.levels {
            0 => all.half(Nothing, &data, steps),
            _ => all.half(Later(u32::from(fetch.shift)), &data, steps),
        }
    }

    /// Takes what left the first levels through the further private ones. What private levels cost is returned, and is part of what is
    /// known at later records' steps; where only first levels are private there is nothing to do, and it is counted when the steps
    /// are merged.
    #[inline]
    fn further_levels(
        &mut self,
        first: &mut Vec<Step>,
        steps: &mut Vec<Step>,
    ) -> Result<u64, TooLate> {
        let reach = &self.hierarchy.reach[self.core];
        if reach
            .iter()
            .all(|path| path.levels == 0 || path.is_simple())
        {
            return Ok(0);
        }
        std::mem::swap(first, steps);
        steps.clear();
        self.through_further_levels(first, steps)
    }

    fn through_further_levels(
        &mut self,
        first: &[Step],
        steps: &mut Vec<Step>,
    ) -> Result<u64, TooLate> {
        let (mut sum, mut before, mut record) = (0_u64, 0_u64, u32::MAX);
        for step in first {
            if step.record != record {
                (before, record) = (sum, step.record);
            }
            let path = self.hierarchy.reach[self.core][usize::from(step.kind != Kind::Fetch)];
            let mut step = Step {
                known: step.known.wrapping_add(before),
                ..*step
            };
            if !path.is_simple() {
                let cost = self.missed_private(&path, &mut step, steps)?;
                sum = sum.checked_add(cost).ok_or(TooLate)?;
            }
            if step.touches || step.evicts {
                steps.push(step);
            }
        }
        Ok(sum)
    }

    /// The levels after the first, of several that are private.
    fn missed_private(
        &mut self,
        path: &Reach,
        step: &mut Step,
        steps: &mut Vec<Step>,
    ) -> Result<u64, TooLate> {
        let (private, kind) = (usize::from(path.private), step.kind);
        let is_last = private == usize::from(path.levels);
        let (mut cost, mut missed) = (0_u64, 0);
        // Of the level that missed last.
        let (mut victim, mut evicts) = (step.victim, step.evicts);
        let address = step.address;
        step.evicts = false;
        loop {
            let stop = self.hierarchy.paths[self.core].of(kind)[missed];
            let table = usize::from(stop.table);
            missed += 1;
            self.tally.task[table].misses += 1;
            cost = cost.checked_add(self.costs.misses[table]).ok_or(TooLate)?;
            if evicts {
                self.hierarchy.writebacks += 1;
                let levels = missed..private;
                let marked = self.hierarchy.write_back(self.core, kind, levels, victim);
                if !marked && !is_last {
                    if step.evicts {
                        // One after the other.
                        steps.push(Step {
                            touches: false,
                            ..*step
                        });
                    }
                    step.evicts = true;
                    step.victim = victim;
                }
            }
            if missed == private {
                break;
            }
            let next = self.hierarchy.paths[self.core].of(kind)[missed];
            self.tally.task[usize::from(next.table)].accesses += 1;
            let cache = &mut self.hierarchy.caches[next.cache as usize];
            match cache.look_up(address >> next.shift, false) {
                Looked::Hit => {
                    step.touches = false;
                    break;
                }
                Looked::Miss => evicts = false,
                Looked::MissEvicting(line) => {
                    (victim, evicts) = (line << next.shift, true);
                }
            }
        }
        if is_last {
            step.touches = false;
        }
        if !step.touches {
            let path = self.hierarchy.paths[self.core].of(kind);
            self.bound.touched(path, missed, address);
        }
        Ok(cost)
    }

    /// Counts what a window did.
    fn count(&mut self, did: &Did, hits: u64) -> Result<(), TooLate> {
        let compute = did.compute.checked_add(hits).ok_or(TooLate)?;
        self.tally.compute = self.tally.compute.checked_add(compute).ok_or(TooLate)?;
        let reach = self.hierarchy.reach[self.core];
        for (path, touches) in reach.iter().zip(did.touches) {
            if path.private > 0 {
                self.tally.task[usize::from(path.table)].accesses += touches;
            }
        }
        Ok(())
    }
}
