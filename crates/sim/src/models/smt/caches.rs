//! Caches, the channel of each core, memory, and lines on their way; rules 3.1 and 3.2.

use super::params::Params;
use super::sole::Sole;
use crate::counts::outcome::Count;
use crate::machine::{CacheTable, Coherence, Kind, Machine};
use crate::parts::cache::{Cache, Lookup};
use crate::parts::hierarchy::{Hierarchy, Invalidated, Stop};

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
struct Line {
    cache: u32,
    line: u64,
    arrival: u64,
}

/// The lines of a core that may be on their way.
#[derive(Clone, Debug, Default)]
struct Flying {
    /// In the order of their fills. Most arrive in this order, too, so only those leave that have arrived and stand before all that have
    /// not.
    lines: Vec<Line>,
    /// The place of the first one that has not left.
    from: usize,
    /// The latest arrival.
    latest: u64,
}

/// Lines of a list, and twice as many and so on, with which those that have arrived leave all of it.
const MANY: usize = 64;

impl Flying {
    /// Adds a line. No later lookup is before `now`.
    #[inline(always)]
    fn add(&mut self, now: u64, line: Line) {
        while let Some(one) = self.lines.get(self.from)
            && one.arrival <= now
        {
            self.from += 1;
        }
        if self.lines.len() >= MANY && (self.from >= MANY || self.lines.len().is_power_of_two()) {
            self.tidy(now);
        }
        self.lines.push(line);
        self.latest = self.latest.max(line.arrival);
    }

    /// Removes all that have arrived.
    #[cold]
    fn tidy(&mut self, now: u64) {
        self.lines.retain(|one| one.arrival > now);
        self.from = 0;
    }

    /// Returns when a line arrives that is on its way at `at`.
    #[inline]
    fn arrival(&self, cache: u32, line: u64, at: u64) -> Option<u64> {
        let mut last = at;
        for one in self.lines.get(self.from..).unwrap_or_default() {
            if one.line == line && one.cache == cache {
                last = last.max(one.arrival);
            }
        }
        (last > at).then_some(last)
    }
}

/// Where a hardware thread's first level of a path is, and is counted.
#[derive(Clone, Copy, Debug)]
struct Place {
    cache: u32,
    /// Index into [`Caches::counts`].
    count: u32,
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
    /// First level of each hardware thread: of its fetches and of its data.
    first: Vec<[Place; 2]>,
    pub(super) levels: [First; 2],
    /// If writes remove lines from caches of other cores: which they need not look for.
    sole: Option<Sole>,
    channel: Vec<u64>,
    memory: u64,
    /// Of each core.
    flying: Vec<Flying>,
    /// Of each hardware thread and table.
    counts: Vec<Count>,
    /// Ticks of each hardware thread by cause.
    causes: Vec<[u64; CAUSES]>,
    /// Ticks of each hardware thread and table: its `miss_cycles`.
    misses: Vec<u64>,
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
            let of = |path: usize| Place {
                cache: paths[path].first().map_or(u32::MAX, |stop| stop.cache),
                count: (thread * tables + levels[path].table) as u32,
            };
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
                first[DATA].cache = hierarchy.caches.len() as u32;
                hierarchy
                    .caches
                    .push(Cache::new(&part, number, thread, seed));
                if invalidates && whole.kind != Kind::Instruction {
                    hierarchy.invalidated.push(Invalidated {
                        cache: first[DATA].cache,
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
            flying: vec![Flying::default(); params.cores],
            counts: vec![Count::default(); threads * tables],
            causes: vec![[0; CAUSES]; threads],
            misses: vec![0; threads * tables],
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
        self.causes[thread][cause as usize] += ticks;
    }

    /// Charges ticks between two steps, and of instructions.
    #[inline(always)]
    pub(super) fn charge_issue(&mut self, thread: usize, waited: u64, issued: u64) {
        let causes = &mut self.causes[thread];
        causes[Cause::Issue as usize] += waited;
        causes[Cause::Instructions as usize] += issued;
    }

    /// Returns the charges of a hardware thread to all causes.
    pub(super) fn causes(&self, thread: usize) -> &[u64; CAUSES] {
        &self.causes[thread]
    }

    /// Returns the `miss_cycles` of a hardware thread, in ticks, of each table.
    pub(super) fn misses(&self, thread: usize) -> &[u64] {
        &self.misses[thread * self.tables..(thread + 1) * self.tables]
    }

    /// Returns the counts of a hardware thread, one for each table.
    pub(super) fn counts(&self, thread: usize) -> &[Count] {
        &self.counts[thread * self.tables..(thread + 1) * self.tables]
    }

    /// Looks a line up in the first level of a hardware thread at `at`.
    #[inline(always)]
    pub(super) fn look_up(
        &mut self,
        core: usize,
        thread: usize,
        path: usize,
        line: u64,
        store: bool,
        at: u64,
    ) -> Found {
        if store && let Some(sole) = &mut self.sole {
            let address = line << self.levels[DATA].shift;
            if sole.stores(core, address) {
                self.invalidate(core, address);
            }
        }
        let Place { cache, count } = self.first[thread][path];
        let count = &mut self.counts[count as usize];
        count.accesses += 1;
        match self.hierarchy.caches[cache as usize].look_up(line, store) {
            Lookup::Hit => {
                let flying = &self.flying[core];
                if at < flying.latest
                    && let Some(arrival) = flying.arrival(cache, line, at)
                {
                    return Found::Late(arrival);
                }
                Found::Here
            }
            Lookup::Miss => {
                count.misses += 1;
                Found::Missed(None)
            }
            Lookup::MissEvicting(victim) => {
                count.misses += 1;
                Found::Missed(Some(victim << self.levels[path].shift))
            }
        }
    }

    /// Removes the copies of a line that a core writes from caches that are not on its path.
    #[cold]
    fn invalidate(&mut self, core: usize, address: u64) {
        let own = &self.hierarchy.paths[core][DATA];
        let threads = core * self.per_core..(core + 1) * self.per_core;
        // Parts of the core's own first level stay, like the other levels of its path.
        let parts = &self.first[threads];
        for other in &self.hierarchy.invalidated {
            let on_path = own.iter().any(|stop| stop.cache == other.cache);
            if !on_path && !parts.iter().any(|first| first[DATA].cache == other.cache) {
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
        core: usize,
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
        if let Some(sole) = &mut self.sole {
            sole.fills(core, address);
        }
        let (first, deeper) = self.hierarchy.paths[core][path]
            .split_first()
            .expect("a level has missed");
        let caches = &mut self.hierarchy.caches[..];
        let counts = &mut self.counts[thread * self.tables..][..self.tables];
        let misses = &mut self.misses[thread * self.tables..][..self.tables];
        let mut charge = |table: usize| {
            let ticks = params.miss[table];
            misses[table] += if waits { ticks } else { 0 };
            ticks
        };
        // Marks an evicted line dirty in the nearest of these levels that has it. Otherwise memory takes it.
        let mut to_memory = 0;
        let mut write_back = |caches: &mut [Cache], deeper: &[Stop], address: u64| {
            self.hierarchy.writebacks += 1;
            let mut deeper = deeper.iter();
            let found =
                deeper.any(|stop| caches[stop.cache as usize].mark_dirty(address >> stop.shift));
            to_memory += u64::from(!found);
        };
        let mut channel_held = params.fill;
        if let Some(victim) = victim {
            channel_held += params.writeback;
            write_back(caches, deeper, victim);
        }
        let granted = start.max(self.channel[core]);
        self.channel[core] = granted + channel_held;
        self.granted = granted;
        self.channel_busy += channel_held;
        let mut t = granted;
        let mut last = usize::from(first.table);
        let mut all_missed = true;
        let mut rest = deeper;
        while let Some((stop, deeper)) = rest.split_first() {
            t += charge(last);
            last = usize::from(stop.table);
            rest = deeper;
            let count = &mut counts[last];
            count.accesses += 1;
            match caches[stop.cache as usize].look_up(address >> stop.shift, false) {
                Lookup::Hit => {
                    all_missed = false;
                    break;
                }
                Lookup::Miss => count.misses += 1,
                Lookup::MissEvicting(line) => {
                    count.misses += 1;
                    write_back(caches, deeper, line << stop.shift);
                }
            }
        }
        let mut queued = 0;
        if all_missed {
            let granted = t.max(self.memory);
            queued = granted - t;
            self.memory = granted + params.memory_fill;
            self.memory_busy += params.memory_fill;
            t = granted + charge(last);
        }
        if waits {
            self.charge(thread, Cause::Channel, granted - start);
            self.charge(thread, Cause::Memory, queued);
        }
        self.memory += to_memory * params.memory_writeback;
        self.memory_busy += to_memory * params.memory_writeback;
        let line = Line {
            cache: self.first[thread][path].cache,
            line: address >> self.levels[path].shift,
            arrival: t,
        };
        self.flying[core].add(now, line);
        t
    }
}
