//! The machine in ticks.

use crate::SimError;
use crate::machine::smt::{Fetch, Share, SmtTable};
use crate::machine::{Cycle, Machine};

/// Ticks of a cycle: divisible by 1 to 10, 12, 14, 15 and 16.
pub(super) const TICKS: u64 = 10_080;

/// The largest `miss_cycles` that this model takes: a step then adds less than 2^56 ticks.
const LONGEST_MISS: Cycle = 1 << 30;

/// All times in ticks.
#[derive(Clone, Debug)]
pub(super) struct Params {
    pub(super) cores: usize,
    pub(super) per_core: usize,
    /// For which an instruction holds its pipe.
    pub(super) slot: u64,
    /// For which an instruction without access holds its pipe, at least.
    pub(super) unit: u64,
    /// From an instruction to the next one of its hardware thread.
    pub(super) instruction: u64,
    pub(super) burst: u64,
    pub(super) icount: bool,
    pub(super) static_issue: bool,
    pub(super) static_l1d: bool,
    pub(super) ports: usize,
    pub(super) port: u64,
    /// For which a fill holds all ports.
    pub(super) fill_port: u64,
    /// What a lookup takes beyond a cycle.
    pub(super) hit: u64,
    pub(super) fill: u64,
    pub(super) writeback: u64,
    pub(super) memory_fill: u64,
    pub(super) memory_writeback: u64,
    pub(super) mshrs: usize,
    pub(super) window: u64,
    /// Of each `[[cache]]` table.
    pub(super) miss: Vec<u64>,
    pub(super) period: u64,
    pub(super) scheduler: u64,
    pub(super) switch: u64,
    pub(super) sync: u64,
    pub(super) stack_spacing: Option<u64>,
    pub(super) stack_size: u64,
}

impl Params {
    /// Returns the parameters of a machine.
    ///
    /// # Errors
    /// If a time is too long for a clock in ticks.
    pub(super) fn new(machine: &Machine) -> Result<Params, SimError> {
        let plain = SmtTable::plain();
        let table = machine.smt.as_ref().unwrap_or(&plain);
        let per_core = u64::from(table.threads_per_core);
        let parts = match table.issue {
            Share::Shared => 1,
            Share::Static => per_core,
        };
        let slot = TICKS.div_ceil(table.issue_width) * parts;
        let misses = machine.caches.iter().map(|cache| cache.miss_cycles);
        let longest = misses.clone().max().unwrap_or(0).max(machine.hit_cycles);
        if longest > LONGEST_MISS {
            return Err(SimError::TooSlow {
                cycles: longest,
                most: LONGEST_MISS,
            });
        }
        Ok(Params {
            cores: usize::from(machine.cores),
            per_core: per_core as usize,
            slot,
            unit: TICKS.div_ceil(table.units) * parts,
            instruction: slot.max((TICKS * 100).div_ceil(table.ilp_percent)),
            burst: table.burst,
            icount: table.fetch == Fetch::Icount,
            static_issue: table.issue == Share::Static,
            static_l1d: table.l1d == Share::Static,
            ports: table.ports as usize,
            port: table.port_cycles * TICKS,
            fill_port: table.fill_port_cycles * TICKS,
            hit: machine.hit_cycles.saturating_sub(1) * TICKS,
            fill: table.fill_cycles * TICKS,
            writeback: table.writeback_cycles * TICKS,
            memory_fill: table.memory_fill_cycles * TICKS,
            memory_writeback: table.memory_writeback_cycles * TICKS,
            mshrs: table.mshrs as usize,
            window: table.window,
            miss: misses.map(|cycles| cycles * TICKS).collect(),
            period: table.period_cycles * TICKS,
            scheduler: table.scheduler_cycles * TICKS,
            switch: table.switch_cycles * TICKS,
            sync: table.sync_cycles * TICKS,
            stack_spacing: table.stack_spacing,
            stack_size: table.stack_size,
        })
    }
}
