//! All caches of a machine and the path of each core through them.
//!
//! A *touch* of one line looks the levels of its path up in order, each only when the one above missed; a level that misses evicts and
//! fills at once, before the next is looked up. A dirty victim counts one write-back and marks dirty the line that holds its address in
//! the nearest deeper level of the same path that has it; that is no access, and changes no order of use. A write marks its line dirty in
//! the first level only. With `coherence = "invalidate"` each touch of a write removes the line that holds its address from every data or
//! unified cache that is not on the writer's own path.
//!
//! Nothing here knows time; what a touch costs is told by which levels missed.

use crate::counts::bound::Bound;
use crate::counts::outcome::Count;
use crate::machine::{self, Coherence, Machine};
use crate::parts::cache::{Cache, Looked};
use tanada_trace::Kind;

/// One cache of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Index into the caches of the hierarchy.
    pub cache: u32,
    /// Number of its `[[cache]]` table.
    pub table: u16,
    /// log2 of its line's length.
    pub shift: u8,
    /// Whether only this core reaches it.
    pub private: bool,
    /// The first deeper level of the path that has longer lines or another kind, or the path's length: a line that nobody touched before
    /// misses up to there.
    pub alike: u8,
}

/// The caches through which a core's fetches, and its reads and writes, go; the first level first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    /// What is fetched.
    pub fetch: Vec<Stop>,
    /// What is read or written.
    pub data: Vec<Stop>,
}

impl Paths {
    /// The path of a record of this kind.
    #[inline]
    pub(crate) fn of(&self, kind: Kind) -> &[Stop] {
        if kind == Kind::Fetch {
            &self.fetch
        } else {
            &self.data
        }
    }
}

/// What a core does alone: the first level of a path, and how many levels nobody else changes or sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The first level's cache.
    pub cache: u32,
    /// Its table.
    pub table: u16,
    /// Its shift.
    pub shift: u8,
    /// Levels, from the first on, that depend on no other core.
    pub private: u8,
    /// All levels of the path.
    pub levels: u8,
}

/// A path of which one level, the last, is seen by others, and at most one is private.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    /// Whether the first level is private; else it is the one that is seen.
    pub private: bool,
    /// Table of the private level and its shift.
    pub first: (u16, u8),
    /// The level that is seen: cache, table and shift.
    pub seen: (u32, u16, u8),
}

impl Near {
    /// The path, if it is one of this form. (Where there is none it is never asked for.)
    fn of(path: &[Stop], reach: &Reach) -> Option<Near> {
        let private = reach.private == 1;
        match path {
            [] => Some(Near::default()),
            [.., last] if path.len() == usize::from(reach.private) + 1 && reach.private <= 1 => {
                let first = path[0];
                Some(Near {
                    private,
                    first: (first.table, first.shift),
                    seen: (last.cache, last.table, last.shift),
                })
            }
            _ => None,
        }
    }
}

impl Near {
    /// A touch missed the private level, if there is one.
    #[inline]
    pub(crate) fn passed(&self, bound: &mut Bound, address: u64) {
        if self.private {
            let (first, first_shift) = self.first;
            let (_, seen, seen_shift) = self.seen;
            let first = (usize::from(first), address >> first_shift);
            bound.passed(first, (usize::from(seen), address >> seen_shift));
        }
    }
}

impl Reach {
    /// At most the first level is private, and there are others.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.private <= 1 && self.levels > self.private
    }
}

/// All caches of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    /// All caches; those of one table side by side.
    pub caches: Vec<Cache>,
    /// Of each core.
    pub paths: Vec<Paths>,
    /// Of each core: of what it fetches, and of its data.
    pub reach: Vec<[Reach; 2]>,
    /// Dirty lines that had to go so far.
    pub writebacks: u64,
    /// First cache and number of caches of each data or unified table, where writes invalidate; and its shift.
    invalidated: Vec<(u32, u32, u8)>,
}

impl Hierarchy {
    /// Empty caches.
    pub(crate) fn new(machine: &Machine, seed: u64) -> Hierarchy {
        let cores = u64::from(machine.cores);
        let mut caches = Vec::new();
        let mut first = Vec::with_capacity(machine.caches.len());
        let mut invalidated = Vec::new();
        for (number, table) in machine.caches.iter().enumerate() {
            let start = caches.len() as u32;
            let instances = cores.div_ceil(machine.cores_per(table.per)) as usize;
            first.push(start);
            caches.extend((0..instances).map(|i| Cache::new(table, number, i, seed)));
            if machine.coherence == Coherence::Invalidate
                && table.kind != machine::Kind::Instruction
            {
                invalidated.push((start, instances as u32, table.shift() as u8));
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
        let paths = (0..cores).map(|core| Paths {
            fetch: path(core, true),
            data: path(core, false),
        });
        let paths: Vec<Paths> = paths.collect();
        let alone = |stop: &&Stop| {
            let changed = machine.coherence == Coherence::Invalidate
                && machine.caches[usize::from(stop.table)].kind != machine::Kind::Instruction;
            stop.private && !changed
        };
        let reach = |path: &[Stop]| {
            path.first().map_or_else(Reach::default, |first| Reach {
                cache: first.cache,
                table: first.table,
                shift: first.shift,
                private: path.iter().take_while(alone).count() as u8,
                levels: path.len() as u8,
            })
        };
        Hierarchy {
            reach: paths
                .iter()
                .map(|core| {
                    let mut reach = [reach(&core.fetch), reach(&core.data)];
                    keep_order(&mut reach, core);
                    reach
                })
                .collect(),
            paths,
            writebacks: 0,
            caches,
            invalidated,
        }
    }

    /// Looks a touch up in the levels of its path from number `from` on, those before having missed, and says how many levels of the whole
    /// path missed. `counts`: one a `[[cache]]` table.
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
        let path = self.paths[core].of(kind);
        for (level, stop) in path.iter().enumerate().skip(from) {
            let count = &mut counts[usize::from(stop.table)];
            count.accesses += 1;
            let line = address >> stop.shift;
            match self.caches[stop.cache as usize].look_up(line, write && level == 0) {
                Looked::Hit => return level,
                Looked::Miss => count.misses += 1,
                Looked::MissEvicting(victim) => {
                    count.misses += 1;
                    self.writebacks += 1;
                    let address = victim << stop.shift;
                    write_back(&mut self.caches, &path[level + 1..], address);
                }
            }
        }
        path.len()
    }

    /// All paths of all cores, if all are of the form of [`Near`] and writes invalidate nothing.
    pub(crate) fn near(&self) -> Option<Vec<[Near; 2]>> {
        if !self.invalidated.is_empty() {
            return None;
        }
        let cores = self.paths.iter().zip(&self.reach);
        let near = cores.map(|(paths, reach)| {
            let fetch = Near::of(&paths.fetch, &reach[0])?;
            Some([fetch, Near::of(&paths.data, &reach[1])?])
        });
        near.collect()
    }

    /// Marks dirty the line that holds `address` in the first that has it of some levels of a path, if one does, which is said.
    #[inline]
    pub(crate) fn write_back(
        &mut self,
        core: usize,
        kind: Kind,
        levels: std::ops::Range<usize>,
        address: u64,
    ) -> bool {
        let path = self.paths[core].of(kind);
        write_back(&mut self.caches, &path[levels], address)
    }

    /// From now on no level counts as private, so that every touch is one of the steps that are merged: for tests, which compare.
    pub(crate) fn forget_privacy(&mut self) {
        for reach in self.reach.iter_mut().flatten() {
            reach.private = 0;
        }
    }

    /// Removes the copies of a line that is written by `core`.
    #[cold]
    fn invalidate(&mut self, core: usize, address: u64) {
        let own = &self.paths[core].data;
        for &(start, instances, shift) in &self.invalidated {
            let on_path = |cache: u32| own.iter().any(|stop| stop.cache == cache);
            for cache in (start..start + instances).filter(|&cache| !on_path(cache)) {
                self.caches[cache as usize].remove(address >> shift);
            }
        }
    }
}

/// Keeps private what can be done ahead without changing the order of look-ups in any cache. Records go through the first levels before
/// what missed goes through the further private ones, and that before the rest is merged: so a cache on both paths of a core is private
/// on both or on none, and the first level of both or of none.
fn keep_order(reach: &mut [Reach; 2], paths: &Paths) {
    let paths = [&paths.fetch, &paths.data];
    loop {
        let before = *reach;
        for (this, other) in [(0, 1), (1, 0)] {
            let ahead = usize::from(reach[other].private);
            let in_order = |&(level, stop): &(usize, &Stop)| {
                let place = paths[other].iter().position(|one| one.cache == stop.cache);
                place.is_none_or(|place| place < ahead && (place == 0) == (level == 0))
            };
            let levels = paths[this].iter().enumerate();
            let kept = levels.take_while(in_order).count() as u8;
            reach[this].private = reach[this].private.min(kept);
        }
        if *reach == before {
            return;
        }
    }
}

/// Marks dirty the line that holds `address` in the nearest of `deeper` that has it.
#[inline]
fn write_back(caches: &mut [Cache], deeper: &[Stop], address: u64) -> bool {
    deeper
        .iter()
        .any(|stop| caches[stop.cache as usize].mark_dirty(address >> stop.shift))
}
