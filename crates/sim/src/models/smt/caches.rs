//! Caches, the channel of each core, memory, and lines on their way; rules 3.1 and 3.2.

use super::params::Params;
use super::sole::Sole;
use crate::counts::outcome::Count;
use crate::machine::{CacheTable, Coherence, Kind, Machine};
use crate::parts::cache::{Cache, Lookup};
use crate::parts::hierarchy::{Hierarchy, Invalidated};

/// What the time of a hardware thread is charged to; each level's `miss_cycles` follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Instructions,
    Issue,
    Ports,
    Channel,
    Memory,
    Late,
    Window,
    Sync,
    Switch,
    Parked,
    Idle,
}

/// Number of [`Cause`]s.
pub(super) const CAUSES: usize = 11;

/// What is known of the first level of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct First {
    /// log2 of the line's length; 64: there is no cache.
    pub(super) shift: u32,
    /// Number of the `[[cache]]` table.
    pub(super) table: usize,
}

/// A line that was filled and has perhaps not arrived.
#[derive(Clone, Copy, Debug)]
struct Flying {
    cache: u32,
    line: u64,
    arrival: u64,
}

/// The result of a lookup in a first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The line is there.
    Here,
    /// The line is on its way until then.
    Late(u64),
    /// It is not, and the dirty line at this address was evicted.
    Missed(Option<u64>),
}

/// A lookup that missed in a first level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    /// [`FETCH`] or [`DATA`].
    pub(super) path: usize,
    /// The first address of its line.
    pub(super) address: u64,
    /// The address of the dirty line that the first level evicted.
    pub(super) victim: Option<u64>,
}

/// Place of the fetches' path, and of the data's.
pub(super) const FETCH: usize = 0;
pub(super) const DATA: usize = 1;

/// All caches, and what they count for each hardware thread. Hardware threads are indexed core by core here.
#[derive(Debug)]
pub(super) struct Caches {
    hierarchy: Hierarchy,
    per_core: usize,
    tables: usize,
    /// First cache of each hardware thread: of its fetches and of its data.
    first: Vec<[u32; 2]>,
    pub(super) levels: [First; 2],
    /// If writes remove lines from caches of other cores: which they need not look for.
    sole: Option<Sole>,
    channel: Vec<u64>,
    memory: u64,
    flying: Vec<Vec<Flying>>,
    /// The latest arrival of each core's flying lines.
    latest: Vec<u64>,
    pub(super) counts: Vec<Count>,
    /// Ticks: [`CAUSES`], and one for each table.
    charges: Vec<u64>,
    /// Charges of fills that their hardware thread does not wait for.
    unpaid: Vec<u64>,
    pub(super) channel_busy: u64,
    /// When the last fill was granted its channel.
    pub(super) granted: u64,
    pub(super) memory_busy: u64,
}

impl Caches {
    pub(super) fn new(machine: &Machine, params: &Params, seed: u64) -> Caches {
        let mut hierarchy = Hierarchy::new(machine, seed);
        let tables = machine.caches.len();
        let invalidates = machine.coherence == Coherence::Invalidate && params.cores > 1;
        let threads = params.cores * params.per_core;
        let level = |fetch: bool| {
            let table = machine.path(fetch).first().copied();
            table.map_or(
                First {
                    shift: 64,
                    table: 0,
                },
                |table| First {
                    shift: machine.caches[table].shift(),
                    table,
                },
            )
        };
        let levels = [level(true), level(false)];
        let mut first = Vec::with_capacity(threads);
        for thread in 0..threads {
            let paths = &hierarchy.paths[thread / params.per_core];
            let of = |path: usize| paths[path].first().map_or(u32::MAX, |stop| stop.cache);
            first.push([of(FETCH), of(DATA)]);
        }
        if params.static_l1d && levels[DATA].shift < 64 {
            let number = levels[DATA].table;
            let whole = &machine.caches[number];
            let size = whole.size / params.per_core as u64;
            let part = CacheTable {
                size,
                ..whole.clone()
            };
            for (thread, first) in first.iter_mut().enumerate() {
                first[DATA] = hierarchy.caches.len() as u32;
                hierarchy
                    .caches
                    .push(Cache::new(&part, number, thread, seed));
                if invalidates && whole.kind != Kind::Instruction {
                    hierarchy.invalidated.push(Invalidated {
                        cache: first[DATA],
                        shift: whole.shift() as u8,
                    });
                }
            }
        }
        let shifts = hierarchy.invalidated.iter();
        let sole = invalidates.then(|| Sole::new(shifts.map(|one| one.shift.into())));
        Caches {
            hierarchy,
            per_core: params.per_core,
            tables,
            first,
            levels,
            sole,
            channel: vec![0; params.cores],
            memory: 0,
            flying: vec![Vec::new(); params.cores],
            latest: vec![0; params.cores],
            counts: vec![Count::default(); threads * tables],
            charges: vec![0; threads * (CAUSES + tables)],
            unpaid: vec![0; CAUSES + tables],
            channel_busy: 0,
            granted: 0,
            memory_busy: 0,
        }
    }

    /// Returns the evicted dirty lines so far.
    pub(super) fn writebacks(&self) -> u64 {
        self.hierarchy.writebacks
    }

    /// Charges ticks of a hardware thread to a cause.
    #[inline(always)]
    pub(super) fn charge(&mut self, thread: usize, cause: Cause, ticks: u64) {
        self.charges[thread * (CAUSES + self.tables) + cause as usize] += ticks;
    }

    /// Returns the charges of a hardware thread: those of all causes, then those of the tables.
    pub(super) fn charges(&self, thread: usize) -> &[u64] {
        let each = CAUSES + self.tables;
        &self.charges[thread * each..(thread + 1) * each]
    }

    /// Returns the counts of a hardware thread, one for each table.
    pub(super) fn counts(&self, thread: usize) -> &[Count] {
        &self.counts[thread * self.tables..(thread + 1) * self.tables]
    }

    /// Looks a line up in the first level of a hardware thread at `at`.
    #[inline(always)]
    pub(super) fn look_up(
        &mut self,
        thread: usize,
        path: usize,
        line: u64,
        store: bool,
        at: u64,
    ) -> Found {
        if store && let Some(sole) = &mut self.sole {
            let address = line << self.levels[DATA].shift;
            if sole.stores(thread / self.per_core, address) {
                self.invalidate(thread, address);
            }
        }
        let level = self.levels[path];
        let cache = self.first[thread][path];
        let count = &mut self.counts[thread * self.tables + level.table];
        count.accesses += 1;
        match self.hierarchy.caches[cache as usize].look_up(line, store) {
            Lookup::Hit => {
                let core = thread / self.per_core;
                if at < self.latest[core] {
                    return self.late(core, cache, line, at);
                }
                Found::Here
            }
            Lookup::Miss => {
                count.misses += 1;
                Found::Missed(None)
            }
            Lookup::MissEvicting(victim) => {
                count.misses += 1;
                Found::Missed(Some(victim << level.shift))
            }
        }
    }

    #[inline(never)]
    fn late(&self, core: usize, cache: u32, line: u64, at: u64) -> Found {
        let same = |one: &&Flying| one.line == line && one.cache == cache && one.arrival > at;
        let arrivals = self.flying[core].iter().filter(same);
        match arrivals.map(|one| one.arrival).max() {
            Some(arrival) => Found::Late(arrival),
            None => Found::Here,
        }
    }

    /// Removes the copies of a line that a hardware thread writes from caches that are not on its path.
    #[cold]
    fn invalidate(&mut self, thread: usize, address: u64) {
        let core = thread / self.per_core;
        let own = &self.hierarchy.paths[core][DATA];
        let threads = core * self.per_core..(core + 1) * self.per_core;
        // Parts of the core's own first level stay, like the other levels of its path.
        let parts = &self.first[threads];
        for other in &self.hierarchy.invalidated {
            let on_path = own.iter().any(|stop| stop.cache == other.cache);
            if !on_path && !parts.iter().any(|first| first[DATA] == other.cache) {
                self.hierarchy.caches[other.cache as usize].remove(address >> other.shift);
            }
        }
    }

    /// Fills the line that `miss` did not find in the first level at `start`, and returns when it arrives. The hardware thread is charged
    /// if it `waits`. No later step begins before `now`.
    #[inline(never)]
    pub(super) fn fill(
        &mut self,
        params: &Params,
        thread: usize,
        miss: Miss,
        [now, start]: [u64; 2],
        waits: bool,
    ) -> u64 {
        let Miss {
            path,
            address,
            victim,
        } = miss;
        let core = thread / self.per_core;
        if let Some(sole) = &mut self.sole {
            sole.fills(core, address);
        }
        let each = CAUSES + self.tables;
        let charges = match waits {
            true => &mut self.charges[thread * each..(thread + 1) * each],
            false => &mut self.unpaid[..],
        };
        let stops = &self.hierarchy.paths[core][path];
        let caches = &mut self.hierarchy.caches;
        let mut to_memory = 0;
        let mut channel_held = params.fill;
        if let Some(victim) = victim {
            self.hierarchy.writebacks += 1;
            channel_held += params.writeback;
            let mut deeper = stops[1..].iter();
            let found =
                deeper.any(|stop| caches[stop.cache as usize].mark_dirty(victim >> stop.shift));
            to_memory += u64::from(!found);
        }
        let granted = start.max(self.channel[core]);
        self.channel[core] = granted + channel_held;
        self.granted = granted;
        self.channel_busy += channel_held;
        charges[Cause::Channel as usize] += granted - start;
        let mut t = granted;
        let mut last = usize::from(stops[0].table);
        let mut all_missed = true;
        for (level, stop) in stops.iter().enumerate().skip(1) {
            let table = usize::from(stop.table);
            t += params.miss[last];
            charges[CAUSES + last] += params.miss[last];
            last = table;
            let count = &mut self.counts[thread * self.tables + table];
            count.accesses += 1;
            match caches[stop.cache as usize].look_up(address >> stop.shift, false) {
                Lookup::Hit => {
                    all_missed = false;
                    break;
                }
                Lookup::Miss => count.misses += 1,
                Lookup::MissEvicting(line) => {
                    count.misses += 1;
                    self.hierarchy.writebacks += 1;
                    let evicted = line << stop.shift;
                    let mut deeper = stops[level + 1..].iter();
                    let found = deeper
                        .any(|stop| caches[stop.cache as usize].mark_dirty(evicted >> stop.shift));
                    to_memory += u64::from(!found);
                }
            }
        }
        if all_missed {
            let granted = t.max(self.memory);
            self.memory = granted + params.memory_fill;
            self.memory_busy += params.memory_fill;
            charges[Cause::Memory as usize] += granted - t;
            charges[CAUSES + last] += params.miss[last];
            t = granted + params.miss[last];
        }
        self.memory += to_memory * params.memory_writeback;
        self.memory_busy += to_memory * params.memory_writeback;
        let flying = &mut self.flying[core];
        flying.retain(|one| one.arrival > now);
        let (cache, line) = (self.first[thread][path], address >> self.levels[path].shift);
        flying.push(Flying {
            cache,
            line,
            arrival: t,
        });
        self.latest[core] = self.latest[core].max(t);
        t
    }
}
