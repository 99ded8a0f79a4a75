//! A lower bound of the makespan, which no schedule can beat on a machine.
//!
//! The *least time* of a task is what it takes if every touch hits the first level: its dispatch, its computation and `hit_cycles` for each
//! touch. The first touch of a line misses every level, whichever core it is on, so a level misses at least once for each
//! distinct line (of its own length) that the trace touches on a path through it: those misses are *unavoidable*, in any order and on any
//! number of cores, and each costs `miss_cycles`. Hence no schedule ends before
//!
//! - (sum of all least times + sum over levels of unavoidable misses x miss_cycles) / cores, rounded up; nor before
//! - the critical path: the largest sum of least times along a chain of dependencies.
//!
//! The bound is the larger of the two. It is a function of trace and machine. It is computed while a policy runs, which saves a second
//! pass: a touch can be the first of its line only if it misses the level and the next deeper ones of the same line length and kind. (Of an
//! instruction or data cache behind a unified one no miss is unavoidable: the order decides which lines the unified one already holds.)
//!
//! Memory: 8 bytes a task, and for each level 1 bit a line in blocks of 64 neighbours, in a table of at most [`MOST_BLOCKS`] of them. A
//! trace that touches more is counted as one line a block, which is still what no schedule avoids, only less of it, and does not depend
//! on the order.

use crate::machine::{CacheTable, Kind, Machine};
use crate::parts::hierarchy::Stop;
use hashbrown::HashMap;
use tanada_trace::Trace;

/// The most blocks of 4,096 lines for which each `[[cache]]` table keeps one bit a line.
pub(crate) const MOST_BLOCKS: usize = 1 << 15;

/// log2 of the lines of a block.
const BLOCK: u32 = 12;

/// Entries of the direct-mapped cache of block numbers, which saves most lookups in the hash table.
const NEAR: usize = 256;

/// The set of lines that missed one level.
#[derive(Clone, Debug)]
struct Met {
    /// From the number of a block to its index in `bits`.
    blocks: HashMap<u64, u32>,
    bits: Vec<[u64; 1 << (BLOCK - 6)]>,
    lines: u64,
    /// Number plus one, and index, of a block.
    near: Box<[(u64, u32); NEAR]>,
}

impl Met {
    fn new() -> Met {
        Met {
            blocks: HashMap::new(),
            bits: Vec::new(),
            lines: 0,
            near: Box::new([(0, 0); NEAR]),
        }
    }

    /// Adds a line. Returns whether it may be new.
    #[inline]
    fn line(&mut self, line: u64) -> bool {
        let block = line >> BLOCK;
        let (name, mut place) = self.near[block as usize % NEAR];
        if name != block + 1 {
            match self.find(block) {
                Some(found) => place = found,
                None => return true,
            }
        }
        let word = &mut self.bits[place as usize][(line >> 6) as usize % (1 << (BLOCK - 6))];
        let bit = 1 << (line % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.lines += u64::from(new);
        new
    }

    #[inline(never)]
    fn find(&mut self, block: u64) -> Option<u32> {
        let place = match self.blocks.get(&block) {
            Some(&place) => place,
            None if self.bits.len() >= MOST_BLOCKS => return None,
            None => {
                let place = self.bits.len() as u32;
                self.blocks.insert(block, place);
                self.bits.push([0; 1 << (BLOCK - 6)]);
                place
            }
        };
        self.near[block as usize % NEAR] = (block + 1, place);
        Some(place)
    }

    fn least(&self) -> u64 {
        match self.bits.len() >= MOST_BLOCKS {
            true => MOST_BLOCKS as u64,
            false => self.lines,
        }
    }
}

/// Computes the bound while a model runs.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Of each task: the longest chain of tasks that it waits for, in cycles.
    begins: Vec<u64>,
    longest: u64,
    work: u128,
    met: Vec<Met>,
    /// Of each table: whether it is an instruction or data cache behind a unified one, which may hold a line that an access of the other
    /// kind brought.
    sheltered: Vec<bool>,
}

impl Bound {
    /// Returns the bound of a run that has not begun.
    pub(crate) fn new(machine: &Machine, trace: &Trace) -> Bound {
        let tables = &machine.caches;
        let is_unified = |table: &CacheTable| table.kind == Kind::Unified;
        let behind = |level| {
            tables
                .iter()
                .any(|other| is_unified(other) && other.level < level)
        };
        let sheltered = |table: &CacheTable| !is_unified(table) && behind(table.level);
        Bound {
            begins: vec![0; trace.len()],
            longest: 0,
            work: 0,
            met: vec![Met::new(); tables.len()],
            sheltered: tables.iter().map(sheltered).collect(),
        }
    }

    /// Adds a task that takes at least `least` cycles. Called once a task, in an order that agrees with the dependencies.
    pub(crate) fn ended(&mut self, trace: &Trace, task: u32, least: u64) {
        self.work += u128::from(least);
        let end = self.begins[task as usize].saturating_add(least);
        self.longest = self.longest.max(end);
        for edge in trace.successors(task) {
            let begin = &mut self.begins[edge.to() as usize];
            *begin = end.max(*begin);
        }
    }

    /// Adds a miss of a line in a cache of table `table`.
    #[inline]
    pub(crate) fn missed(&mut self, table: usize, line: u64) {
        self.met[table].line(line);
    }

    /// Adds a touch that missed a first level and went to the next one: (table, line) of each. The first touch of a line in the next level
    /// is also the first touch of a line in the first level.
    #[inline]
    pub(crate) fn passed(&mut self, first: (usize, u64), next: (usize, u64)) {
        if self.met[first.0].line(first.1) {
            self.met[next.0].line(next.1);
        }
    }

    /// Adds a touch that missed the first `missed` levels of its path.
    #[inline]
    pub(crate) fn touched(&mut self, path: &[Stop], missed: usize, address: u64) {
        for stop in &path[..missed] {
            // A first touch also misses the following levels of equal lines and kind.
            if missed >= usize::from(stop.alike) {
                self.missed(usize::from(stop.table), address >> stop.shift);
            }
        }
    }

    /// Returns the misses of the caches of table `table` that no schedule avoids.
    pub(crate) fn unavoidable(&self, table: usize) -> u64 {
        match self.sheltered[table] {
            true => 0,
            false => self.met[table].least(),
        }
    }

    /// Returns the sum of all least times and of the penalties of unavoidable misses, divided by the cores and rounded up, in cycles.
    pub(crate) fn shared_work(&self, machine: &Machine) -> u64 {
        let tables = machine.caches.iter().enumerate();
        let misses = tables.map(|(table, cache)| {
            u128::from(self.unavoidable(table)) * u128::from(cache.miss_cycles)
        });
        let work = self.work + misses.sum::<u128>();
        let shared = work.div_ceil(u128::from(machine.cores));
        u64::try_from(shared).unwrap_or(u64::MAX)
    }

    /// Returns the longest chain of least times, in cycles.
    pub(crate) fn critical_path(&self) -> u64 {
        self.longest
    }

    /// Returns the bound in cycles.
    pub(crate) fn cycles(&self, machine: &Machine) -> u64 {
        self.shared_work(machine).max(self.longest)
    }
}
