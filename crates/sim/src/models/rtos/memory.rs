//! Caches, the bus and the memory behind it: `RULES.md`, rule 2.

use super::code::{Region, region};
use crate::machine::rtos::{Arbitration, Caches, RtosTable, WriteMiss};
use crate::machine::{Cycle, Kind, Machine};
use crate::parts::cache::{Cache, Lookup};
use std::collections::VecDeque;

/// Bytes of memory that each core's own things have: an address of the recording moves by so many a core.
pub(super) const IMAGE: u64 = 1 << 24;

/// What a core asks the bus for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Words of memory from an address on.
    Words { address: u64, words: u64 },
    /// Words of a device.
    Device { words: u64 },
}

/// The private caches of a core.
#[derive(Debug)]
struct First {
    instructions: Cache,
    data: Cache,
}

/// Lookups and misses of a core's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lookups of lines of code.
    pub fetches: u64,
    /// Those that missed.
    pub fetch_misses: u64,
    /// Lookups of lines of data.
    pub accesses: u64,
    /// Those that missed.
    pub access_misses: u64,
    /// Dirty lines that were evicted.
    pub writebacks: u64,
}

/// Caches, bus and memory of the machine.
#[derive(Debug)]
pub(super) struct Memory {
    table: RtosTable,
    line: [u64; 2],
    first: Vec<First>,
    pub(super) counts: Vec<CacheCounts>,
    /// The open row of each bank.
    open: Vec<Option<u64>>,
    /// When the bus is free, and who had it last.
    pub(super) free: Cycle,
    last: usize,
}

impl Memory {
    pub(super) fn new(machine: &Machine, table: &RtosTable, cores: usize, seed: u64) -> Memory {
        let number = |kind| {
            let found = machine.caches.iter().position(|cache| cache.kind == kind);
            found.expect("the machine file was checked")
        };
        let (code, data) = (number(Kind::Instruction), number(Kind::Data));
        let cache = |number: usize, core| Cache::new(&machine.caches[number], number, core, seed);
        Memory {
            line: [machine.caches[code].line, machine.caches[data].line],
            first: (0..cores)
                .map(|core| First {
                    instructions: cache(code, core),
                    data: cache(data, core),
                })
                .collect(),
            counts: vec![CacheCounts::default(); cores],
            open: vec![None; table.banks as usize],
            free: 0,
            last: cores.saturating_sub(1),
            table: table.clone(),
        }
    }

    /// Looks up what is fetched or accessed, and pushes what the bus has to do for it. `address` is one of the recording.
    pub(super) fn touch(
        &mut self,
        core: usize,
        fetch: bool,
        (address, bytes): (u64, u64),
        store: bool,
        requests: &mut VecDeque<Request>,
    ) {
        let (first, last) = (address / 4, (address + bytes.max(1) - 1) / 4);
        let words = last - first + 1;
        let moved = address + core as u64 * IMAGE;
        let off = self.table.caches == Caches::Off;
        match region(address) {
            Region::Device => return requests.push_back(Request::Device { words }),
            // A fetch without a cache is a word at a time, an access a burst.
            Region::Own if off && fetch => {
                let each = (0..words).map(|word| Request::Words {
                    address: (moved & !3) + 4 * word,
                    words: 1,
                });
                return requests.extend(each);
            }
            Region::Shared => {
                return requests.push_back(Request::Words { address, words });
            }
            Region::Own if off => {
                let address = moved;
                return requests.push_back(Request::Words { address, words });
            }
            Region::Own => {}
        }
        let size = self.line[usize::from(!fetch)];
        let counts = &mut self.counts[core];
        let caches = &mut self.first[core];
        for line in moved / size..=(moved + bytes.max(1) - 1) / size {
            let cache = if fetch {
                &mut caches.instructions
            } else {
                &mut caches.data
            };
            let (lookups, misses) = match fetch {
                true => (&mut counts.fetches, &mut counts.fetch_misses),
                false => (&mut counts.accesses, &mut counts.access_misses),
            };
            *lookups += 1;
            if store && self.table.write_miss == WriteMiss::Around {
                if !cache.use_one(line, true) {
                    *misses += 1;
                    let (from, to) = (
                        moved.max(line * size),
                        (moved + bytes).min((line + 1) * size),
                    );
                    let words = (to - 1) / 4 - from / 4 + 1;
                    requests.push_back(Request::Words {
                        address: from,
                        words,
                    });
                }
                continue;
            }
            let fill = |line: u64| Request::Words {
                address: line * size,
                words: size.div_ceil(4),
            };
            match cache.look_up(line, store) {
                Lookup::Hit => continue,
                Lookup::Miss => {}
                Lookup::MissEvicting(victim) => {
                    counts.writebacks += 1;
                    requests.push_back(fill(victim));
                }
            }
            *misses += 1;
            requests.push_back(fill(line));
        }
    }

    /// Returns the first moment from `time` on at which the bus may begin.
    pub(super) fn edge(&self, time: Cycle) -> Cycle {
        time.max(self.free).next_multiple_of(self.table.bus_cycles)
    }

    /// Returns which of the cores that have waited at `time` gets the bus.
    pub(super) fn chosen(&self, waiting: impl Iterator<Item = usize>) -> Option<usize> {
        let cores = self.first.len();
        match self.table.arbitration {
            Arbitration::Fixed => waiting.min(),
            Arbitration::RoundRobin => {
                waiting.min_by_key(|core| (core + cores - self.last - 1) % cores)
            }
        }
    }

    /// Gives the bus to `core` at `time`. Returns when it is free again.
    pub(super) fn grant(&mut self, core: usize, request: Request, time: Cycle) -> Cycle {
        self.last = core;
        let table = &self.table;
        self.free = time
            + match request {
                Request::Device { words } => words * table.device_cycles,
                Request::Words { address, words } => {
                    let row = address / table.row_size;
                    let bank = &mut self.open[(address / table.bank_size % table.banks) as usize];
                    let opening = match *bank {
                        Some(open) if open == row => 0,
                        Some(_) => table.precharge_cycles + table.activate_cycles,
                        None => table.activate_cycles,
                    };
                    *bank = Some(row);
                    opening + table.latency_cycles + words * table.bus_cycles
                }
            };
        self.free
    }
}
