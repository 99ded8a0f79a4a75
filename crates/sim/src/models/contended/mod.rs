#![doc = include_str!("RULES.md")]

mod background;
mod call;
mod core;
mod engine;
mod layout;
mod levels;
mod lull;
mod taking;

use super::Simulation;
use crate::SimError;
use crate::counts::contention::Contention;
use crate::counts::outcome::{Count, Outcome};
use crate::machine::{Cycle, Machine};
use crate::parts::station::Use;
use engine::Engine;
use tanada_policy::Dispatcher;

/// Runs a trace to its end and returns the results.
pub(crate) fn run<D: Dispatcher>(sim: Simulation<'_, D>) -> Result<Outcome, SimError> {
    let machine = sim.machine;
    let mut engine = Engine::new(sim);
    engine.run()?;
    let contention = contention(&engine, machine);
    // Each unavoidable miss of the last level holds a channel.
    let table = &machine.contended.memory;
    let memories = engine.levels.memory.each.len() as u128;
    let last = machine.path(false).last().copied();
    let fills = last.map_or(0, |last| engine.sim.bound.unavoidable(last));
    let channels =
        u128::from(fills) * u128::from(table.fill_cycles) / (u128::from(table.channels) * memories);
    let channels = u64::try_from(channels).unwrap_or(u64::MAX);
    let Engine {
        cores, levels, sim, ..
    } = engine;
    let mut outcome = sim.outcome(levels.writebacks);
    for (stalls, core) in outcome.stalls.iter_mut().zip(&cores) {
        stalls.scheduling += core.in_vain;
        stalls.idle = core.idle;
        let caches: u64 = stalls.caches.iter().sum();
        let all = stalls.compute + caches + stalls.memory_queue + stalls.scheduling + stalls.idle;
        let makespan = outcome.makespan;
        assert_eq!(all, makespan, "a core's cycles are all somewhere, once");
    }
    outcome.channels = Some(channels);
    outcome.bound = outcome.bound.max(channels);
    outcome.contention = Some(contention);
    Ok(outcome)
}

fn contention<D: Dispatcher>(engine: &Engine<'_, D>, machine: &Machine) -> Contention {
    let levels = &engine.levels;
    let mut stations = levels.stations.iter();
    let (mut buses, mut ports) = (Vec::new(), Vec::new());
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
        for (table, count) in counts.flat_map(|counts| counts.iter().enumerate()) {
            sum[table] += *count;
        }
        sum
    };
    let lock = &engine.lock;
    let cores = engine.sim.tally.cores.iter().zip(&engine.cores);
    let calling = cores.map(|(tally, core)| tally.scheduling + core.in_vain);
    let accesses = engine.streams.iter().map(|stream| stream.accesses);
    Contention {
        buses,
        ports,
        memory: levels.memory.used(),
        numa: levels.memory.numa_used(),
        memories: levels
            .memory
            .each
            .iter()
            .map(|memory| memory.used)
            .collect(),
        invalidations: levels.invalidations,
        calls: engine.calls,
        calling: calling.fold(0, Cycle::saturating_add),
        of_calls: sum(&mut engine.cores.iter().map(|core| &core.of_calls)),
        passages: lock.passages,
        held: lock.held,
        longest_queue: lock.longest,
        background: accesses.fold(0, u64::saturating_add),
        of_background: sum(&mut engine.streams.iter().map(|stream| &stream.counts)),
    }
}
