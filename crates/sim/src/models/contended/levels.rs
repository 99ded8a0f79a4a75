//! Touches: lookups in caches, and waits for shared levels and for memory.

use crate::counts::outcome::Count;
use crate::machine::Cycle;
use crate::machine::{Machine, Per};
use crate::parts::cache::{Cache, Lookup};
use crate::parts::hierarchy::{DATA, Hierarchy, Invalidated, Paths, Stop, path_index};
use crate::parts::memory::Memory;
use crate::parts::station::{Station, repeat};
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
    /// Number of levels that missed.
    pub(crate) missed: usize,
}

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
    pub(crate) memory: Memory,
    /// Of each `[[cache]]` table.
    miss_cycles: Vec<Cycle>,
    private: Vec<bool>,
    invalidate_cycles: Cycle,
    /// Of each core: the caches from which its writes remove lines; empty unless writes invalidate.
    others: Vec<Vec<Invalidated>>,
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
        let caches = machine.caches.iter();
        Levels {
            background_removes,
            removed,
            others,
            caches: hierarchy.caches,
            paths: hierarchy.paths,
            stations,
            memory: Memory::new(&tables.memory),
            miss_cycles: caches.clone().map(|table| table.miss_cycles).collect(),
            private: caches.map(|table| table.per == Per::Core).collect(),
            invalidate_cycles: tables.invalidate_cycles,
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
        let write = access == Kind::Write;
        let mut cost = 0;
        if write && self.remove_copies(core, address) && self.invalidate_cycles > 0 {
            cost = self.invalidate_cycles;
            let first = self.paths[core][DATA][0].table;
            meter.waited(usize::from(first), cost);
        }
        let mut touched = self.descend(0, core, access, write, address, now, meter);
        touched.cycles += cost;
        touched
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
        if write {
            self.remove_copies(core, address);
            self.remove_own_copies(core, address);
        }
        let private = &self.private;
        let shared = |stop: &Stop| !private[usize::from(stop.table)];
        let from = self.paths[core][DATA].iter().position(shared);
        let Some(from) = from else {
            let wait = self.memory.access(now, address, write) - now;
            meter.queued(wait);
            return wait;
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
        if missed > 0 && missed == path.len() {
            let grant = self.memory.access(at, address, false);
            meter.queued(grant - at);
            at = grant;
        }
        if !self.posted.is_empty() {
            self.send_posted(now);
        }
        Touched {
            cycles: at - now + latency,
            missed,
        }
    }

    /// Sends the write-backs of a request, in the order of their evictions. No core waits for them.
    fn send_posted(&mut self, now: Cycle) {
        for posted in self.posted.drain(..) {
            match posted {
                Posted::Cache(cache, address) => {
                    self.stations[cache as usize].pass(now, address);
                }
                Posted::Memory(address) => {
                    self.memory.access(now, address, true);
                }
            }
        }
    }

    /// If writes invalidate, removes the copies of a line that `core` writes from all data and unified caches that are not on its path.
    /// Returns whether there were any.
    #[inline]
    pub(crate) fn remove_copies(&mut self, core: usize, address: u64) -> bool {
        let mut removed = 0;
        for other in &self.others[core] {
            let there = self.caches[other.cache as usize].remove(address >> other.shift);
            removed += u64::from(there);
        }
        self.invalidations = self.invalidations.saturating_add(removed);
        removed > 0
    }

    /// Removes a line that a background stream writes from the private caches of `core`, which the stream does not use.
    fn remove_own_copies(&mut self, core: usize, address: u64) {
        for stop in &self.paths[core][DATA] {
            if self.background_removes.contains(&stop.cache) {
                let there = self.caches[stop.cache as usize].remove(address >> stop.shift);
                self.invalidations = self.invalidations.saturating_add(u64::from(there));
            }
        }
    }
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
