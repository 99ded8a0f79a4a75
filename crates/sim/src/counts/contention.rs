//! The counters that only the contended model has.

use super::outcome::Count;
use crate::machine::Cycle;
use crate::parts::memory::MemoryUse;
use crate::parts::numa::NumaUse;
use crate::parts::station::Use;
use serde::ser::SerializeMap;

/// Counters of the calls of the dispatcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallUse {
    /// Calls that returned a task.
    pub gave: u64,
    /// Calls that returned no task.
    pub in_vain: u64,
    /// Cores that were woken.
    pub woken: u64,
}

/// The use of the shared parts of a machine. Sums and what background streams add to stay at 2^64-1 once they are there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contention {
    /// Of each `[[cache]]` table: the buses in front of its caches.
    pub buses: Vec<Use>,
    /// Of each `[[cache]]` table: their ports and banks.
    pub ports: Vec<Use>,
    /// Main memory; of several memories the sum.
    pub memory: MemoryUse,
    /// Each memory; without `[numa]` there is one.
    pub memories: Vec<MemoryUse>,
    /// What machines with several memories have besides.
    pub numa: Option<NumaUse>,
    /// Copies of lines that writes removed.
    pub invalidations: u64,
    /// Calls of the dispatcher.
    pub calls: CallUse,
    /// Cycles in calls of the dispatcher, of all cores.
    pub calling: Cycle,
    /// Lookups of calls of the dispatcher in each `[[cache]]` table. They are part of the outcome's counts, but of no name.
    pub of_calls: Vec<Count>,
    /// Number of acquisitions of the pool's lock.
    pub passages: u64,
    /// Cycles for which it was held.
    pub held: Cycle,
    /// Length of its longest queue.
    pub longest_queue: usize,
    /// Accesses of background streams.
    pub background: u64,
    /// Their lookups in each `[[cache]]` table. They are no part of the outcome's counts.
    pub of_background: Vec<Count>,
}

impl Contention {
    /// Adds `memory_fills, memory_writes, memory_busy_cycles, memory_waited_cycles, row_hits, row_closed, row_conflicts, bus_waited_cycles,
    /// port_waited_cycles, invalidations, calls, calls_in_vain, woken, pool_passages, pool_held_cycles, pool_longest_queue,
    /// background_accesses`; with `[numa]` also `remote_fills, remote_writes, link_busy_cycles, link_waited_cycles,
    /// busiest_memory_busy_cycles`.
    pub(crate) fn serialize_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let waited = |uses: &[Use]| {
            let mut sum = Use::default();
            uses.iter().for_each(|one| sum += *one);
            sum.waited
        };
        let memory = &self.memory;
        let entries = [
            ("memory_fills", memory.fills),
            ("memory_writes", memory.writes),
            ("memory_busy_cycles", memory.channels.busy),
            ("memory_waited_cycles", memory.channels.waited),
            ("row_hits", memory.row_hits),
            ("row_closed", memory.row_closed),
            ("row_conflicts", memory.row_conflicts),
            ("bus_waited_cycles", waited(&self.buses)),
            ("port_waited_cycles", waited(&self.ports)),
            ("invalidations", self.invalidations),
            ("calls", self.calls.gave),
            ("calls_in_vain", self.calls.in_vain),
            ("woken", self.calls.woken),
            ("pool_passages", self.passages),
            ("pool_held_cycles", self.held),
            ("pool_longest_queue", self.longest_queue as u64),
            ("background_accesses", self.background),
        ];
        let busy = self.memories.iter().map(|memory| memory.channels.busy);
        let of_numa = self.numa.iter().flat_map(|numa| {
            [
                ("remote_fills", numa.remote_fills),
                ("remote_writes", numa.remote_writes),
                ("link_busy_cycles", numa.links.busy),
                ("link_waited_cycles", numa.links.waited),
                (
                    "busiest_memory_busy_cycles",
                    busy.clone().max().unwrap_or(0),
                ),
            ]
        });
        let mut all = entries.into_iter().chain(of_numa);
        all.try_for_each(|(key, value)| map.serialize_entry(key, &value))
    }
}
