//! All caches of a machine and the path of each core through them.
//!
//! A *touch* of one line looks the levels of its path up in order, each only when the one above missed; a level that misses evicts and
//! fills at once, before the next is looked up. A dirty victim counts one write-back and marks dirty the line that holds its address in
//! the nearest deeper level of the same path that has it; that is no access, and does not count as a use. A write marks its line dirty in
//! the first level only. With `coherence = "invalidate"` each touch of a write removes the line that holds its address from every data or
//! unified cache that is not on the writer's own path.
//!
//! Nothing here depends on time. A model computes the cost of a touch from the levels that missed.

use crate::counts::outcome::Count;
use crate::machine::{self, CacheTable, Coherence, Machine};
use crate::parts::cache::{Cache, Lookup};
use tanada_trace::Kind;

/// One cache of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Index into the caches of the hierarchy.
    pub(crate) cache: u32,
    /// Number of its `[[cache]]` table.
    pub(crate) table: u16,
    /// log2 of its line's length.
    pub(crate) shift: u8,
    /// Whether only this core has it on a path.
    pub(crate) private: bool,
    /// The first deeper level of the path that has longer lines or another kind, or the path's length: the first touch of a line
    /// misses up to there.
    pub(crate) alike: u8,
}

/// The caches that a core's fetches and data accesses go through, in the places of [`path_index`]; the first level first.
pub(crate) type Paths = [Vec<Stop>; 2];

/// The place of the path of reads and writes in [`Paths`].
pub(crate) const DATA: usize = 1;

/// A cache from which writes of cores that do not have it on their path remove lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invalidated {
    pub(crate) cache: u32,
    pub(crate) shift: u8,
}

/// The private prefix of a path: its levels, from the first on, whose lookups do not depend on other cores. With it stands what inner
/// loops need of the first level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The first level: its cache.
    pub(crate) first_cache: u32,
    /// The first level: its table.
    pub(crate) first_table: u16,
    /// The first level: log2 of its line's length.
    pub(crate) first_shift: u8,
    /// Number of private levels.
    pub(crate) private: u8,
    /// Number of all levels.
    pub(crate) levels: u8,
}

impl Prefix {
    /// Returns whether a window goes on after its pass through the first level: there are further private levels, or the first one is
    /// private and no shared one follows it.
    #[inline]
    pub(crate) fn needs_descent(&self) -> bool {
        self.private > 1 || (self.private == 1 && self.levels == 1)
    }
}

/// Returns the place of a kind's path in pairs of (fetches, data).
#[inline(always)]
pub(crate) fn path_index(kind: Kind) -> usize {
    usize::from(kind != Kind::Fetch)
}

/// All caches of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    /// All caches; those of one table side by side.
    pub(crate) caches: Vec<Cache>,
    /// Of each core.
    pub(crate) paths: Vec<Paths>,
    /// Of each core: of its fetches, and of its data.
    pub(crate) prefixes: Vec<[Prefix; 2]>,
    /// Dirty lines that were evicted so far.
    pub(crate) writebacks: u64,
    /// All data and unified caches; empty unless writes invalidate.
    pub(crate) invalidated: Vec<Invalidated>,
}

impl Hierarchy {
    /// Returns a hierarchy of empty caches.
    pub(crate) fn new(machine: &Machine, seed: u64) -> Hierarchy {
        let cores = u64::from(machine.cores);
        let mut caches = Vec::new();
        let mut first = Vec::with_capacity(machine.caches.len());
        let mut invalidated = Vec::new();
        let invalidates = |table: &CacheTable| {
            machine.coherence == Coherence::Invalidate && table.kind != machine::Kind::Instruction
        };
        for (number, table) in machine.caches.iter().enumerate() {
            let start = caches.len() as u32;
            let instances = cores.div_ceil(machine.cores_per(table.per)) as usize;
            first.push(start);
            caches.extend((0..instances).map(|i| Cache::new(table, number, i, seed)));
            if invalidates(table) {
                let shift = table.shift() as u8;
                let all = start..caches.len() as u32;
                invalidated.extend(all.map(|cache| Invalidated { cache, shift }));
            }
        }
        let stop = |core: u64, table: usize| {
            let each = machine.cores_per(machine.caches[table].per);
            let (from, to) = (core / each * each, (core / each + 1).saturating_mul(each));
            Stop {
                cache: first[table] + (core / each) as u32,
                table: table as u16,
                shift: machine.caches[table].shift() as u8,
                private: to.min(cores) - from == 1,
                alike: 0,
            }
        };
        let path = |core: u64, fetch: bool| {
            let tables = machine.path(fetch).into_iter();
            let mut path: Vec<Stop> = tables.map(|table| stop(core, table)).collect();
            for level in 0..path.len() {
                let one = &machine.caches[usize::from(path[level].table)];
                let alike = |stop: &&Stop| {
                    let other = &machine.caches[usize::from(stop.table)];
                    (other.line, other.kind) == (one.line, one.kind)
                };
                let alike = path[level..].iter().take_while(alike);
                path[level].alike = (level + alike.count()) as u8;
            }
            path
        };
        let paths = (0..cores).map(|core| [true, false].map(|fetch| path(core, fetch)));
        let paths: Vec<Paths> = paths.collect();
        let alone =
            |stop: &&Stop| stop.private && !invalidates(&machine.caches[usize::from(stop.table)]);
        let prefix = |path: &Vec<Stop>| {
            path.first().map_or_else(Prefix::default, |first| Prefix {
                first_cache: first.cache,
                first_table: first.table,
                first_shift: first.shift,
                private: path.iter().take_while(alone).count() as u8,
                levels: path.len() as u8,
            })
        };
        let prefixes = paths.iter().map(|core| {
            let mut prefixes = core.each_ref().map(prefix);
            keep_order(&mut prefixes, core);
            prefixes
        });
        Hierarchy {
            prefixes: prefixes.collect(),
            paths,
            writebacks: 0,
            caches,
            invalidated,
        }
    }

    /// Looks a touch up in the levels of its path from number `from` on; those before have missed. Returns the number of levels of the
    /// whole path that missed. `counts` has one entry for each `[[cache]]` table.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        core: usize,
        kind: Kind,
        address: u64,
        from: usize,
        counts: &mut [Count],
    ) -> usize {
        let write = kind == Kind::Write;
        if write && !self.invalidated.is_empty() {
            self.invalidate(core, address);
        }
        let path = &self.paths[core][path_index(kind)];
        for (level, stop) in path.iter().enumerate().skip(from) {
            let count = &mut counts[usize::from(stop.table)];
            count.accesses += 1;
            let line = address >> stop.shift;
            match self.caches[stop.cache as usize].look_up(line, write && level == 0) {
                Lookup::Hit => return level,
                Lookup::Miss => count.misses += 1,
                Lookup::MissEvicting(victim) => {
                    count.misses += 1;
                    self.writebacks += 1;
                    let address = victim << stop.shift;
                    write_back(&mut self.caches, &path[level + 1..], address);
                }
            }
        }
        path.len()
    }

    /// Marks dirty the line of `address` in the first of `levels` of a path that holds it. Returns whether one does.
    #[inline]
    pub(crate) fn write_back(
        &mut self,
        core: usize,
        kind: Kind,
        levels: std::ops::Range<usize>,
        address: u64,
    ) -> bool {
        let path = &self.paths[core][path_index(kind)];
        write_back(&mut self.caches, &path[levels], address)
    }

    /// Makes no level count as private, so that every lookup is merged; see [`Options::merge_everything`](crate::Options).
    pub(crate) fn make_all_shared(&mut self) {
        for prefix in self.prefixes.iter_mut().flatten() {
            prefix.private = 0;
        }
    }

    /// Removes the copies of a line that `core` writes.
    #[cold]
    fn invalidate(&mut self, core: usize, address: u64) {
        let own = &self.paths[core][DATA];
        let on_path = |other: &&Invalidated| own.iter().any(|stop| stop.cache == other.cache);
        for other in self.invalidated.iter().filter(|other| !on_path(other)) {
            self.caches[other.cache as usize].remove(address >> other.shift);
        }
    }
}

/// Shortens private prefixes so that every cache is looked up in the order of records. A window goes through the first levels, then
/// through further private levels, and is then merged. So a cache on both paths of a core has to be private on both or on neither, and
/// to be the first level of both or of neither.
fn keep_order(prefixes: &mut [Prefix; 2], paths: &Paths) {
    loop {
        let before = *prefixes;
        for (this, other) in [(0, 1), (1, 0)] {
            let private = usize::from(prefixes[other].private);
            let in_order = |&(level, stop): &(usize, &Stop)| {
                let place = paths[other].iter().position(|one| one.cache == stop.cache);
                place.is_none_or(|place| place < private && (place == 0) == (level == 0))
            };
            let levels = paths[this].iter().enumerate();
            let kept = levels.take_while(in_order).count() as u8;
            prefixes[this].private = prefixes[this].private.min(kept);
        }
        if *prefixes == before {
            return;
        }
    }
}

/// Marks dirty the line of `address` in the nearest of `deeper` that holds it. Returns whether one does.
#[inline]
fn write_back(caches: &mut [Cache], deeper: &[Stop], address: u64) -> bool {
    deeper
        .iter()
        .any(|stop| caches[stop.cache as usize].mark_dirty(address >> stop.shift))
}
