//! Touches: lookups in caches, and waits for shared levels and for memory.

use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::machine::{Machine, Per};
use crate::parts::cache::{Cache, Lookup};
use crate::parts::events::Kind as Event;
use crate::parts::hierarchy::{DATA, Hierarchy, Invalidated, Paths, Stop, path_index};
use crate::parts::numa::Memories;
use crate::parts::station::{Station, repeat};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use tanada_trace::Kind;

/// The counters of a touch.
pub(crate) trait Meter {
    /// Counts a lookup in a cache of `[[cache]]` table `table`.
    fn looked_up(&mut self, table: usize, missed: bool);
    /// Counts cycles waited because of `table`: its `miss_cycles`, or its bus, ports and banks.
    fn waited(&mut self, table: usize, cycles: Cycle);
    /// Counts cycles waited for the memory: its channel, its banks, the opening of rows.
    fn queued(&mut self, cycles: Cycle);
}

/// The result of a touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Its cost, without `hit_cycles`.
    pub(crate) cycles: Cycle,
    /// The part of the cost that is `miss_cycles`.
    pub(crate) latency: Cycle,
    /// Number of levels that missed.
    pub(crate) missed: usize,
}

/// What a write has removed from other caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Removed {
    /// No copy.
    Nothing,
    /// Copies from caches of one core each.
    Near,
    /// A copy from a cache that cores share.
    Far,
}

/// A hit in a core's first cache that it executed ahead of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) line: u64,
    /// When it is due.
    pub(crate) time: Cycle,
    /// The way in which the line was.
    pub(crate) way: u32,
    /// Records that were taken before it, and hits of fetches and of data, since the core began to run ahead.
    pub(crate) records: u32,
    pub(crate) hits: [u32; 2],
}

/// What a core has executed ahead of time in a cache from which others may remove lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// In order.
    pub(crate) uses: Vec<Use>,
    /// All records that were taken, and all hits of fetches and of data.
    pub(crate) records: usize,
    pub(crate) hits: [u64; 2],
}

/// The most uses ahead of time.
pub(crate) const MOST_AHEAD: usize = 128;

/// For each line a set of cores that has at least all those in whose caches the line lies: a write need not look into the others'.
#[derive(Clone, Debug)]
struct Holders {
    lines: HashMap<u64, u64>,
    shift: u8,
    /// The number of lines at which the caches are gone through, to forget those that are in none.
    most: usize,
}

/// Number of lines at which that happens first.
const MOST_LINES: usize = 1 << 16;

impl Holders {
    /// Returns who holds lines of empty caches; `None` if the machine is too small for that to save anything, or has more cores than a word
    /// has bits, or writes remove lines of different lengths.
    fn new(others: &[Vec<Invalidated>]) -> Option<Holders> {
        let shift = others.iter().flatten().next()?.shift;
        let alike = others.iter().flatten().all(|one| one.shift == shift);
        let cores = others.len();
        (alike && (5..=64).contains(&cores)).then(|| Holders {
            lines: HashMap::new(),
            shift,
            most: MOST_LINES,
        })
    }

    /// Returns the cores but `core` that may hold the line of `address`, and forgets them.
    #[inline]
    fn others(&mut self, address: u64, core: usize) -> u64 {
        let own = 1 << core;
        match self.lines.get_mut(&(address >> self.shift)) {
            // A cache that the others share with `core` keeps the line.
            Some(all) => std::mem::replace(all, own) & !own,
            None => 0,
        }
    }

    /// Adds `core`, in whose caches the line of `address` lies now.
    #[inline]
    fn add(
        &mut self,
        address: u64,
        core: usize,
        paths: &[Paths],
        caches: &[Cache],
        removed: &[bool],
    ) {
        *self.lines.entry(address >> self.shift).or_insert(0) |= 1 << core;
        if self.lines.len() >= self.most {
            self.collect(paths, caches, removed);
        }
    }

    /// Forgets lines that are in no cache.
    #[cold]
    fn collect(&mut self, paths: &[Paths], caches: &[Cache], removed: &[bool]) {
        self.lines.clear();
        for (core, paths) in paths.iter().enumerate() {
            let stops = paths[DATA].iter();
            for stop in stops.filter(|stop| removed[stop.cache as usize]) {
                let own = 1 << core;
                caches[stop.cache as usize].for_each_line(|line| {
                    *self.lines.entry(line).or_insert(0) |= own;
                });
            }
        }
        self.most = MOST_LINES.max(2 * self.lines.len());
    }
}

/// Lines of which the end of the last transfer is kept before those whose transfer is over are forgotten.
const MOST_IN_TRANSFER: usize = 1 << 12;

/// The write-back of a line, sent after the request that evicted it.
#[derive(Clone, Copy, Debug)]
enum Posted {
    /// To this cache, with the address of the line.
    Cache(u32, u64),
    /// To memory, with the address of the line, since no deeper level of the path holds it.
    Memory(u64),
}

/// All caches, the ways into them, and the memory.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) caches: Vec<Cache>,
    /// Of each core.
    pub(crate) paths: Vec<Paths>,
    /// In front of each cache.
    pub(crate) stations: Vec<Station>,
    /// Behind the last level.
    pub(crate) memory: Memories,
    /// Of each `[[cache]]` table.
    miss_cycles: Vec<Cycle>,
    private: Vec<bool>,
    invalidate_cycles: Cycle,
    far_invalidate_cycles: Cycle,
    /// With `transfers = "serial"`: the time at which the last exclusive transfer of a line has ended, of lines for which that may not be
    /// over.
    in_transfer: Option<BTreeMap<u64, Cycle>>,
    /// The length of `in_transfer` at which it is looked through.
    most_in_transfer: usize,
    /// Of each core: the caches from which its writes remove lines; empty unless writes invalidate.
    others: Vec<Vec<Invalidated>>,
    /// Who may hold a line; `None` with few cores, or more than a word has bits.
    holders: Option<Holders>,
    /// Of each core: what it did ahead of time.
    pub(crate) ahead: Vec<Ahead>,
    /// The core whose first cache it is, and that may be ahead; of each cache.
    owners: Vec<Option<u16>>,
    /// Cores of which something was undone, each with its first use that was.
    pub(crate) undone: Vec<(usize, Use)>,
    /// The kind of the event that is being executed.
    pub(crate) kind: Event,
    /// Its time.
    now: Cycle,
    /// Of each cache: whether cores may share it.
    is_shared: Vec<bool>,
    /// With several memories, of each cache: the first core that has it on its path; `None` if those of several sockets have it.
    beside: Vec<Option<u16>>,
    /// The latency of the links to the farthest copy that the current write has removed.
    reach: Cycle,
    /// The caches from which background streams remove lines.
    background_removes: Vec<u32>,
    /// Of each cache: whether writes of other cores or background streams remove lines from it.
    removed: Vec<bool>,
    posted: Vec<Posted>,
    /// Copies that writes removed.
    pub(crate) invalidations: u64,
    /// Dirty lines that were evicted, of all caches.
    pub(crate) writebacks: u64,
}

impl Levels {
    /// Returns empty caches and idle resources.
    pub(crate) fn new(machine: &Machine, seed: u64) -> Self {
        let hierarchy = Hierarchy::new(machine, seed);
        let tables = &machine.contended;
        let cores = u64::from(machine.cores);
        let mut stations = Vec::with_capacity(hierarchy.caches.len());
        let removed_from = &hierarchy.invalidated;
        for table in &machine.caches {
            let caches = cores.div_ceil(machine.cores_per(table.per)) as usize;
            let station = Station::new(&table.shared, table.line);
            stations.extend((0..caches).map(|_| station.clone()));
        }
        let others = |paths: &Paths| {
            let mine =
                |other: &Invalidated| paths[DATA].iter().any(|stop| stop.cache == other.cache);
            let all = removed_from.iter().copied();
            all.filter(|other| !mine(other)).collect()
        };
        let writers = tables.background.iter().filter(|stream| stream.write);
        let near = |core: u16| hierarchy.paths[usize::from(core)][DATA].iter();
        let is_removed = |cache: u32| removed_from.iter().any(|other| other.cache == cache);
        let of_core = |stop: &&Stop| machine.caches[usize::from(stop.table)].per == Per::Core;
        let beside = writers.flat_map(|stream| near(stream.near_core).filter(of_core));
        let beside = beside.map(|stop| stop.cache);
        let background_removes: Vec<u32> = beside.filter(|&cache| is_removed(cache)).collect();
        let others: Vec<Vec<Invalidated>> = hierarchy.paths.iter().map(others).collect();
        let mut removed = vec![false; stations.len()];
        let by_others = others.iter().flatten().map(|other| other.cache);
        for cache in by_others.chain(background_removes.iter().copied()) {
            removed[cache as usize] = true;
        }
        let mut is_shared = vec![false; stations.len()];
        for stop in hierarchy.paths.iter().flatten().flatten() {
            is_shared[stop.cache as usize] =
                machine.caches[usize::from(stop.table)].per != Per::Core;
        }
        let mut owners = vec![None; stations.len()];
        for (core, paths) in hierarchy.paths.iter().enumerate() {
            for stop in paths.iter().filter_map(|path| path.first()) {
                owners[stop.cache as usize] = Some(core as u16);
            }
        }
        let caches = machine.caches.iter();
        Levels {
            holders: Holders::new(&others),
            ahead: vec![Ahead::default(); hierarchy.paths.len()],
            owners,
            undone: Vec::new(),
            kind: Event::Act,
            now: 0,
            is_shared,
            background_removes,
            removed,
            others,
            caches: hierarchy.caches,
            paths: hierarchy.paths,
            stations,
            memory: Memories::new(
                &tables.memory,
                tables.numa.as_ref(),
                machine.cores_per(Per::Socket),
                tables.scheduler.address,
            ),
            beside: tables
                .numa
                .iter()
                .flat_map(|_| beside_whom(machine))
                .collect(),
            reach: 0,
            miss_cycles: caches.clone().map(|table| table.miss_cycles).collect(),
            private: caches.map(|table| table.per == Per::Core).collect(),
            invalidate_cycles: tables.invalidate_cycles,
            far_invalidate_cycles: tables.far_invalidate_cycles,
            in_transfer: tables.serial_lines.then(BTreeMap::new),
            most_in_transfer: MOST_IN_TRANSFER,
            posted: Vec::new(),
            invalidations: 0,
            writebacks: 0,
        }
    }

    /// Returns whether touches from `now` on have the results of touches from `then` on in `other`, an earlier state.
    pub(crate) fn is_like(&self, now: Cycle, other: &Levels, then: Cycle) -> bool {
        let mut stations = self.stations.iter().zip(&other.stations);
        stations.all(|(one, other)| one.is_like(now, other, then))
            && self.memory.is_like(now, &other.memory, then)
            && self.caches == other.caches
    }

    /// Returns a time that no touch of the past has reached.
    pub(crate) fn beyond(&self) -> Cycle {
        let free = self.stations.iter().map(Station::last_free);
        free.max().unwrap_or(0).max(self.memory.beyond())
    }

    /// Moves everything on to the time `cycles` later, in which what happened since it was `before` happened `times` times, and ended with
    /// the same content of the caches each time.
    pub(crate) fn repeat(&mut self, before: &Levels, cycles: Cycle, times: u64) {
        let stations = self.stations.iter_mut().zip(&before.stations);
        stations.for_each(|(station, before)| station.repeat(before, cycles, times));
        self.memory.repeat(&before.memory, cycles, times);
        repeat(&mut self.invalidations, before.invalidations, times);
        repeat(&mut self.writebacks, before.writebacks, times);
    }

    /// Returns the first cache of a core's path, if there is one, and whether it is a cache per core.
    pub(crate) fn front(&self, core: usize, access: Kind) -> Option<(Stop, bool)> {
        let stop = *self.paths[core][path_index(access)].first()?;
        Some((stop, self.private[usize::from(stop.table)]))
    }

    /// Returns whether writes of other cores or background streams remove lines from `cache`.
    pub(crate) fn removes_from(&self, cache: u32) -> bool {
        self.removed[cache as usize]
    }

    /// Touches the line of `address` at `now` (rule 2) and returns the result.
    pub(crate) fn touch(
        &mut self,
        core: usize,
        access: Kind,
        address: u64,
        now: Cycle,
        meter: &mut impl Meter,
    ) -> Touched {
        self.now = now;
        let write = access == Kind::Write;
        let removed = match write {
            true => self.remove_copies(core, address),
            false => Removed::Nothing,
        };
        let begin = match access {
            Kind::Fetch => now,
            _ => self.begin_transfer(core, removed, address, now),
        };
        let mut touched = self.descend(0, core, access, write, address, begin, meter);
        let mut cost = begin - now;
        if removed != Removed::Nothing {
            cost += self.invalidate_cycles + std::mem::take(&mut self.reach);
        }
        if removed == Removed::Far {
            cost += self.far_invalidate_cycles.saturating_sub(touched.latency);
        }
        touched.cycles += cost;
        if cost > 0 {
            let first = self.paths[core][DATA][0].table;
            meter.waited(usize::from(first), cost);
        }
        if write && (touched.missed > 0 || removed != Removed::Nothing) {
            self.end_transfer(core, address, now, now + touched.cycles);
        }
        touched
    }

    /// Returns the time at which a data touch of `core` that comes at `now` begins: if it needs the line from elsewhere, not before the
    /// line's last exclusive transfer has ended.
    fn begin_transfer(&self, core: usize, removed: Removed, address: u64, now: Cycle) -> Cycle {
        let (Some(in_transfer), Some(first)) = (&self.in_transfer, self.paths[core][DATA].first())
        else {
            return now;
        };
        let line = address >> first.shift;
        match in_transfer.get(&line) {
            Some(&free)
                if removed != Removed::Nothing
                    || !self.caches[first.cache as usize].holds(line) =>
            {
                now.max(free)
            }
            _ => now,
        }
    }

    /// Notes that an exclusive transfer of the line of `address` to `core`, which was asked for at `now`, ends at `end`.
    fn end_transfer(&mut self, core: usize, address: u64, now: Cycle, end: Cycle) {
        let first = self.paths[core][DATA].first();
        if let (Some(in_transfer), Some(first)) = (&mut self.in_transfer, first) {
            if in_transfer.len() >= self.most_in_transfer {
                // No later touch comes before `now`.
                in_transfer.retain(|_, &mut free| free > now);
                self.most_in_transfer = MOST_IN_TRANSFER.max(2 * in_transfer.len());
            }
            in_transfer.insert(address >> first.shift, end);
        }
    }

    /// As [`Levels::touch`], by a background stream that uses the shared levels of `core`. Returns the cost.
    pub(crate) fn background(
        &mut self,
        core: usize,
        write: bool,
        address: u64,
        now: Cycle,
        meter: &mut impl Meter,
    ) -> Cycle {
        self.now = now;
        if write {
            self.remove_copies(core, address);
            self.remove_own_copies(core, address);
            // No core waits for that.
            self.reach = 0;
        }
        let private = &self.private;
        let shared = |stop: &Stop| !private[usize::from(stop.table)];
        let from = self.paths[core][DATA].iter().position(shared);
        let Some(from) = from else {
            let (at, latency) = match write {
                true => (self.memory.write_back(core, now, address), 0),
                false => {
                    let filled = self.memory.fill(core, now, address);
                    (filled.at, filled.latency)
                }
            };
            meter.queued(at - now);
            return at - now + latency;
        };
        self.descend(from, core, Kind::Read, write, address, now, meter)
            .cycles
    }

    /// Looks up the levels of the path from number `from` on, and returns the result.
    #[allow(clippy::too_many_arguments)] // all of them are the touch
    fn descend(
        &mut self,
        from: usize,
        core: usize,
        access: Kind,
        write: bool,
        address: u64,
        now: Cycle,
        meter: &mut impl Meter,
    ) -> Touched {
        let path = &self.paths[core][path_index(access)];
        let mut at = now; // where the request is, without the latencies
        let mut latency = 0;
        let mut missed = 0;
        for (level, stop) in path.iter().enumerate().skip(from) {
            let table = usize::from(stop.table);
            let taken = self.stations[stop.cache as usize].pass(at, address);
            if taken > at {
                meter.waited(table, taken - at);
                at = taken;
            }
            let line = address >> stop.shift;
            let found = self.caches[stop.cache as usize].look_up(line, write && level == from);
            meter.looked_up(table, found != Lookup::Hit);
            if found == Lookup::Hit {
                break;
            }
            missed = level + 1;
            latency += self.miss_cycles[table];
            meter.waited(table, self.miss_cycles[table]);
            if let Lookup::MissEvicting(victim) = found {
                self.writebacks = self.writebacks.saturating_add(1);
                let victim = victim << stop.shift;
                self.posted
                    .push(write_back(&mut self.caches, &path[level + 1..], victim));
            }
        }
        if missed > 0
            && let Some(holders) = &mut self.holders
        {
            holders.add(address, core, &self.paths, &self.caches, &self.removed);
        }
        if missed > 0 && missed == path.len() {
            let filled = self.memory.fill(core, at, address);
            meter.queued(filled.at - at);
            at = filled.at;
            if filled.latency > 0 {
                latency += filled.latency;
                meter.waited(usize::from(path[missed - 1].table), filled.latency);
            }
        }
        if !self.posted.is_empty() {
            self.send_posted(core, now);
        }
        Touched {
            cycles: at - now + latency,
            latency,
            missed,
        }
    }

    /// Sends the write-backs of a request, in the order of their evictions. No core waits for them.
    fn send_posted(&mut self, core: usize, now: Cycle) {
        for posted in self.posted.drain(..) {
            match posted {
                Posted::Cache(cache, address) => {
                    self.stations[cache as usize].pass(now, address);
                }
                Posted::Memory(address) => {
                    self.memory.write_back(core, now, address);
                }
            }
        }
    }

    /// If writes invalidate, removes the copies of a line that `core` writes from all data and unified caches that are not on its path.
    /// Returns what there was.
    #[inline]
    pub(crate) fn remove_copies(&mut self, core: usize, address: u64) -> Removed {
        let mut sum = Removed::Nothing;
        match &mut self.holders {
            _ if self.others[core].is_empty() => {}
            Some(holders) => {
                let mut some = holders.others(address, core);
                while some != 0 {
                    let holder = some.trailing_zeros() as usize;
                    some &= some - 1;
                    for at in 0..self.paths[holder][DATA].len() {
                        let stop = self.paths[holder][DATA][at];
                        if self.paths[core][DATA]
                            .iter()
                            .all(|own| own.cache != stop.cache)
                        {
                            let removed = self.remove(core, stop.cache, stop.shift, address);
                            sum = sum.max(removed);
                        }
                    }
                }
            }
            None => {
                for at in 0..self.others[core].len() {
                    let Invalidated { cache, shift } = self.others[core][at];
                    sum = sum.max(self.remove(core, cache, shift, address));
                }
            }
        }
        sum
    }

    /// Removes a line that `core`, or a background stream beside it, writes from one cache. Before, undoes what the cache's core did there
    /// ahead of the event that is being executed.
    #[inline]
    fn remove(&mut self, core: usize, cache: u32, shift: u8, address: u64) -> Removed {
        let line = address >> shift;
        let at = cache as usize;
        if let Some(owner) = self.owners[at]
            && !self.ahead[usize::from(owner)].uses.is_empty()
            && self.caches[at].holds(line)
        {
            self.undo(usize::from(owner), at, line, core);
        }
        if !self.caches[at].remove(line) {
            return Removed::Nothing;
        }
        self.invalidations = self.invalidations.saturating_add(1);
        if !self.beside.is_empty() && core != usize::MAX {
            self.extend_reach(core, at);
        }
        match self.is_shared[at] {
            true => Removed::Far,
            false => Removed::Near,
        }
    }

    /// Notes that a write of `core` has removed a copy from `cache`.
    #[cold]
    fn extend_reach(&mut self, core: usize, cache: usize) {
        if let Some(beside) = self.beside[cache] {
            self.reach = self.reach.max(self.memory.reach(core, usize::from(beside)));
        }
    }

    /// Undoes what core `owner` did in `cache`, its first one, after the event of `core` that is being executed, if the removal of `line`
    /// in this event would have changed any of that.
    #[cold]
    fn undo(&mut self, owner: usize, cache: usize, line: u64, core: usize) {
        let now = (self.now, self.kind, core);
        let mut first = None;
        let uses = &mut self.ahead[owner].uses;
        let is_later = |one: &Use| (one.time, Event::Act, owner) > now;
        let mut later = uses.iter().rev().take_while(|one| is_later(one));
        if !later.any(|one| self.caches[cache].meet(one.line, line)) {
            return;
        }
        while let Some(last) = uses.pop_if(|last| is_later(last)) {
            self.caches[cache].undo(last.line, last.way as usize);
            first = Some(last);
        }
        if let Some(first) = first {
            self.undone.push((owner, first));
        }
    }

    /// Removes a line that a background stream writes from the private caches of `core`, which the stream does not use.
    fn remove_own_copies(&mut self, core: usize, address: u64) {
        for at in 0..self.paths[core][DATA].len() {
            let stop = self.paths[core][DATA][at];
            if self.background_removes.contains(&stop.cache) {
                self.remove(usize::MAX, stop.cache, stop.shift, address);
            }
        }
    }
}

/// Returns, of each cache, the first core that has it on its path; `None` if cores of several sockets have.
fn beside_whom(machine: &Machine) -> Vec<Option<u16>> {
    let (cores, socket) = (u64::from(machine.cores), machine.cores_per(Per::Socket));
    let tables = machine.caches.iter();
    let of_table = tables.flat_map(|table| {
        let each = machine.cores_per(table.per);
        (0..cores.div_ceil(each)).map(move |number| {
            let (first, behind) = (number * each, ((number + 1) * each).min(cores));
            (first / socket == (behind - 1) / socket).then_some(first as u16)
        })
    });
    of_table.collect()
}

/// Marks a dirty victim's line in the nearest of `deeper` that holds it. Returns the destination of the write-back.
fn write_back(caches: &mut [Cache], deeper: &[Stop], victim: u64) -> Posted {
    let marked = deeper
        .iter()
        .find(|stop| caches[stop.cache as usize].mark_dirty(victim >> stop.shift));
    marked.map_or(Posted::Memory(victim), |stop| {
        Posted::Cache(stop.cache, victim)
    })
}

/// Counts lookups only.
impl Meter for Vec<Count> {
    fn looked_up(&mut self, table: usize, missed: bool) {
        self[table] += Count {
            accesses: 1,
            misses: u64::from(missed),
        };
    }
    fn waited(&mut self, _table: usize, _cycles: Cycle) {}
    fn queued(&mut self, _cycles: Cycle) {}
}
