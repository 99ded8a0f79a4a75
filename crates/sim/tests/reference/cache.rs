//! Caches as lists.

use super::machine::{Kind, Machine};
use super::split_mix_64;

/// A line in a way of a set.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Address divided by the length of a line.
    number: u64,
    dirty: bool,
    /// When it was filled, and used last.
    filled: u64,
    used: u64,
}

/// One cache of the machine.
struct Cache {
    /// Which table of the file it is of, and which of its instances.
    table: usize,
    instance: u64,
    /// Sets of ways.
    sets: Vec<Vec<Option<Line>>>,
    /// Of SplitMix64.
    random: u64,
}

/// What one touch of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Fetch,
    Read,
    Write,
}

/// All caches of the machine, and their counts.
pub(crate) struct Caches<'a> {
    machine: &'a Machine,
    caches: Vec<Cache>,
    /// Touches so far.
    now: u64,
    /// Of each table: touches that reached it, and those that missed.
    pub accesses: Vec<u64>,
    pub misses: Vec<u64>,
    pub writebacks: u64,
}

impl<'a> Caches<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        let mut caches = Vec::new();
        for (table, cache) in machine.caches.iter().enumerate() {
            let instances = (machine.cores as u64).div_ceil(cache.cores);
            let sets = cache.size / cache.ways / cache.line;
            for instance in 0..instances {
                let seed = machine.seed.wrapping_add((table as u64) << 32);
                caches.push(Cache {
                    table,
                    instance,
                    sets: vec![vec![None; cache.ways as usize]; sets as usize],
                    random: seed.wrapping_add(instance),
                });
            }
        }
        Caches {
            machine,
            caches,
            now: 0,
            accesses: vec![0; machine.caches.len()],
            misses: vec![0; machine.caches.len()],
            writebacks: 0,
        }
    }

    /// The caches that a core's fetches (or else reads and writes) go through, the nearest first.
    fn path(&self, core: usize, fetch: bool) -> Vec<usize> {
        let on_path = |&cache: &usize| {
            let Cache {
                table, instance, ..
            } = self.caches[cache];
            let table = &self.machine.caches[table];
            table.kind.holds(fetch) && core as u64 / table.cores == instance
        };
        let mut path: Vec<usize> = (0..self.caches.len()).filter(on_path).collect();
        path.sort_by_key(|&cache| self.machine.caches[self.caches[cache].table].level);
        path
    }

    /// The addresses of the lines that a record touches, one each; `None` if its kind meets no cache.
    pub(crate) fn touched(
        &self,
        core: usize,
        access: Access,
        address: u64,
        size: u64,
    ) -> Option<Vec<u64>> {
        let first = *self.path(core, access == Access::Fetch).first()?;
        let line = self.machine.caches[self.caches[first].table].line;
        let last = address + (size - 1);
        Some(
            (address / line..=last / line)
                .map(|number| number * line)
                .collect(),
        )
    }

    /// Touches one line; returns what it costs.
    pub(crate) fn touch(&mut self, core: usize, access: Access, address: u64) -> u64 {
        self.now += 1;
        let now = self.now;
        let path = self.path(core, access == Access::Fetch);
        let mut cost = self.machine.hit_cycles;
        for &cache in &path {
            let table = self.caches[cache].table;
            self.accesses[table] += 1;
            if let Some(line) = self.find(cache, address) {
                line.used = now;
                break;
            }
            self.misses[table] += 1;
            cost += self.machine.caches[table].miss_cycles;
            self.fill(&path, cache, address);
        }
        if access == Access::Write {
            let first = self.find(path[0], address);
            first.expect("it was there or has been filled").dirty = true;
            if self.machine.invalidate {
                self.invalidate(&path, address);
            }
        }
        cost
    }

    /// The set of a cache that an address goes to, and the number of its line.
    fn set(&mut self, cache: usize, address: u64) -> (&mut Vec<Option<Line>>, u64) {
        let number = address / self.machine.caches[self.caches[cache].table].line;
        let sets = &mut self.caches[cache].sets;
        let index = number % sets.len() as u64;
        (&mut sets[index as usize], number)
    }

    fn find(&mut self, cache: usize, address: u64) -> Option<&mut Line> {
        let (set, number) = self.set(cache, address);
        set.iter_mut().flatten().find(|line| line.number == number)
    }

    fn fill(&mut self, path: &[usize], cache: usize, address: u64) {
        let now = self.now;
        let table = &self.machine.caches[self.caches[cache].table];
        let mut random = self.caches[cache].random;
        let (set, number) = self.set(cache, address);
        let ways = 0..set.len();
        let of = |way: &usize| set[*way].expect("the set is full");
        let way = match set.iter().position(Option::is_none) {
            Some(free) => free,
            None => match table.replacement.as_str() {
                "fifo" => ways.min_by_key(|way| of(way).filled).expect("a way"),
                "lru" => ways.min_by_key(|way| of(way).used).expect("a way"),
                "random" => (split_mix_64(&mut random) % table.ways) as usize,
                other => panic!("no replacement: {other}"),
            },
        };
        let victim = set[way].replace(Line {
            number,
            dirty: false,
            filled: now,
            used: now,
        });
        self.caches[cache].random = random;
        if let Some(victim) = victim
            && victim.dirty
        {
            self.write_back(path, cache, victim.number * table.line);
        }
    }

    /// `path`: what is looked up for the touch that drives the line out, from its first level on.
    fn write_back(&mut self, path: &[usize], cache: usize, address: u64) {
        self.writebacks += 1;
        let deeper = path.iter().skip_while(|other| **other != cache).skip(1);
        for &cache in deeper {
            if let Some(line) = self.find(cache, address) {
                line.dirty = true;
                return;
            }
        }
    }

    fn invalidate(&mut self, own: &[usize], address: u64) {
        for cache in 0..self.caches.len() {
            let kind = self.machine.caches[self.caches[cache].table].kind;
            if kind != Kind::Instruction && !own.contains(&cache) {
                let (set, number) = self.set(cache, address);
                for way in set {
                    if way.is_some_and(|line| line.number == number) {
                        *way = None;
                    }
                }
            }
        }
    }
}
