#![doc = include_str!("RULES.md")]

mod background;
mod call;
mod core;
mod engine;
mod levels;

use crate::counts::outcome::{Count, Outcome};
use crate::machine::Machine;
use crate::observer::Observer;
use crate::parts::lock::PoolLock;
use crate::parts::memory::MemoryUse;
use crate::parts::station::Use;
use crate::{Options, SimError};
pub(crate) use engine::CallUse;
use engine::Engine;
use serde::ser::SerializeMap;
use tanada_policy::Dispatcher;
use tanada_trace::Trace;

use crate::machine::Cycle;

/// What was shared, and how much it was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contention {
    /// Of each `[[cache]]` table: the buses in front of its caches.
    pub buses: Vec<Use>,
    /// Of each `[[cache]]` table: their ports and banks.
    pub ports: Vec<Use>,
    /// Main memory.
    pub memory: MemoryUse,
    /// Copies that writes removed.
    pub invalidations: u64,
    /// Calls of the dispatcher.
    pub calls: CallUse,
    /// Cycles in calls of the dispatcher, of all cores.
    pub calling: Cycle,
    /// Look-ups of calls of the dispatcher in each `[[cache]]` table; part of the outcome's counts, of no name.
    pub of_calls: Vec<Count>,
    /// How often the pool's lock was taken.
    pub passages: u64,
    /// Cycles for which it was held.
    pub held: Cycle,
    /// The longest queue in front of it.
    pub longest_queue: usize,
    /// Accesses of background streams.
    pub background: u64,
    /// Their look-ups in each `[[cache]]` table, which are no part of the outcome's counts.
    pub of_background: Vec<Count>,
}

impl Contention {
    /// `memory_fills, memory_writes, memory_busy_cycles, memory_waited_cycles, row_hits, row_closed, row_conflicts, bus_waited_cycles,
    /// port_waited_cycles, invalidations, calls, calls_in_vain, woken, pool_passages, pool_held_cycles, pool_longest_queue,
    /// background_accesses`.
    pub(crate) fn serialize_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let waited = |uses: &[Use]| uses.iter().map(|one| one.waited).sum::<Cycle>();
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
        entries
            .iter()
            .try_for_each(|(key, value)| map.serialize_entry(key, value))
    }
}

/// Runs a trace to its end.
pub(crate) fn run<D: Dispatcher>(
    trace: &Trace,
    machine: &Machine,
    policy: &str,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    let seed = options.seed.unwrap_or(machine.seed);
    let mut engine = Engine::<D>::new(trace, machine, policy, seed, options, observer)?;
    engine.run()?;
    let contention = contention(&engine, machine);
    let Engine {
        cores,
        tally,
        bound,
        levels,
        ..
    } = engine;
    let mut outcome = tally.outcome(machine, policy, seed, levels.writebacks, &bound);
    for (stalls, core) in outcome.stalls.iter_mut().zip(&cores) {
        stalls.scheduling += core.in_vain;
        stalls.idle = core.idle;
        let caches: u64 = stalls.caches.iter().sum();
        let all = stalls.compute + caches + stalls.memory_queue + stalls.scheduling + stalls.idle;
        assert_eq!(
            all, outcome.makespan,
            "a core's cycles are all somewhere, once"
        );
    }
    // Each unavoidable miss of the last level holds a channel.
    let table = &machine.contended.memory;
    let last = machine
        .path(false)
        .last()
        .map_or(0, |&last| bound.unavoidable(last));
    let channels = u128::from(last) * u128::from(table.fill_cycles) / u128::from(table.channels);
    let channels = u64::try_from(channels).unwrap_or(u64::MAX);
    outcome.channels = Some(channels);
    outcome.bound = outcome.bound.max(channels);
    outcome.contention = Some(contention);
    Ok(outcome)
}

fn contention<D: Dispatcher>(engine: &Engine<'_, D>, machine: &Machine) -> Contention {
    let levels = &engine.levels;
    let mut stations = levels.stations.iter();
    let mut buses = Vec::new();
    let mut ports = Vec::new();
    for table in &machine.caches {
        let caches = u64::from(machine.cores).div_ceil(machine.cores_per(table.per)) as usize;
        let (mut bus, mut port) = (Use::default(), Use::default());
        for station in stations.by_ref().take(caches) {
            bus += station.bus_use;
            port += station.port_use;
        }
        buses.push(bus);
        ports.push(port);
    }
    let sum = |counts: &mut dyn Iterator<Item = &Vec<Count>>| {
        let mut sum = vec![Count::default(); machine.caches.len()];
        for count in counts {
            sum.iter_mut()
                .zip(count)
                .for_each(|(sum, count)| *sum += *count);
        }
        sum
    };
    let PoolLock {
        passages,
        held,
        longest,
        ..
    } = engine.lock;
    let scheduling = engine.tally.cores.iter().zip(&engine.cores);
    Contention {
        buses,
        ports,
        memory: levels.memory.used,
        invalidations: levels.invalidations,
        calls: engine.calls,
        calling: scheduling
            .map(|(tally, core)| tally.scheduling + core.in_vain)
            .sum(),
        of_calls: sum(&mut engine.cores.iter().map(|core| &core.of_calls)),
        passages,
        held,
        longest_queue: longest,
        background: engine.streams.iter().map(|stream| stream.accesses).sum(),
        of_background: sum(&mut engine.streams.iter().map(|stream| &stream.counts)),
    }
}
