//! The keys of `[smt]`: cores that run several logical threads at once. `models/smt/RULES.md` defines them.

use crate::machine::{Cycle, MachineError, Section};

/// The longest time of `[smt]`, in cycles. One such time for each of 2^30 misses does not overflow a clock that counts in 10,080ths of a
/// cycle.
const LONGEST_CYCLES: u64 = 1 << 20;

/// The longest period, in cycles.
const LONGEST_PERIOD: u64 = 1 << 36;

/// The most hardware threads of a core.
const MOST_THREADS: u64 = 64;

/// Which hardware thread issues next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The next one by number after the one that issued last.
    RoundRobin,
    /// The one with the fewest instructions in its part of the pipeline (Tullsen et al., ISCA 1996).
    Icount,
}

/// Whether hardware threads share a resource of their core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All use all of it.
    Shared,
    /// Each has an equal part.
    Static,
}

/// `[smt]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtTable {
    /// Hardware threads of a core.
    pub threads_per_core: u16,
    /// Instructions that a core issues in a cycle.
    pub issue_width: u64,
    /// Instructions that one hardware thread issues in 100 cycles if nothing stalls it.
    pub ilp_percent: u64,
    /// Instructions without memory access that a core issues in a cycle.
    pub units: u64,
    /// Ports of the first-level data cache.
    pub ports: u64,
    /// Cycles for which a lookup holds its port; 0: no lookup waits.
    pub port_cycles: Cycle,
    /// Cycles for which a fill of the first-level data cache holds all of its ports; 0: others look up lines meanwhile.
    pub fill_port_cycles: Cycle,
    /// The most instructions that a hardware thread issues in one step.
    pub burst: u64,
    /// Which hardware thread issues next.
    pub fetch: Fetch,
    /// Whether issue slots and units are divided.
    pub issue: Share,
    /// Whether the first-level data cache is divided.
    pub l1d: Share,
    /// Misses that a hardware thread may have outstanding; 0: it stalls until its miss is filled.
    pub mshrs: u64,
    /// Instructions behind an outstanding load that may issue.
    pub window: u64,
    /// Cycles for which a fill of a first level holds the channel of its core.
    pub fill_cycles: Cycle,
    /// The same for a dirty line that a first level evicts.
    pub writeback_cycles: Cycle,
    /// Cycles for which a fill of the last level holds memory.
    pub memory_fill_cycles: Cycle,
    /// The same for a dirty line that goes to memory.
    pub memory_writeback_cycles: Cycle,
    /// Cycles from one call of the governor to the next.
    pub period_cycles: Cycle,
    /// Cycles of a call of the governor, in which no logical thread runs.
    pub scheduler_cycles: Cycle,
    /// Cycles that a hardware thread needs to begin with a logical thread.
    pub switch_cycles: Cycle,
    /// Cycles of an operation on a lock, barrier or another thing of the thread library.
    pub sync_cycles: Cycle,
    /// Bytes from the stack of one logical thread to that of the next; `None`: stacks lie as recorded.
    pub stack_spacing: Option<u64>,
    /// Bytes below a thread's first known stack address that belong to its stack.
    pub stack_size: u64,
}

/// The usual period: paper 2 has one to two million cycles.
const PERIOD: Cycle = 1_000_000;
/// The usual size of a stack, as far as it counts.
const STACK: u64 = 64 << 10;

impl SmtTable {
    /// The keys that `[smt]` needs, with the values that [`plain`](Self::plain) has for them.
    pub(crate) const PLAIN: [(&str, u64); 3] = [
        ("threads_per_core", 1),
        ("issue_width", 1),
        ("ilp_percent", 100),
    ];

    /// Returns what a machine without `[smt]` has: one hardware thread a core, one instruction a cycle, and no request waits.
    pub(crate) fn plain() -> SmtTable {
        SmtTable {
            threads_per_core: 1,
            issue_width: 1,
            ilp_percent: 100,
            units: 1,
            ports: 1,
            port_cycles: 0,
            fill_port_cycles: 0,
            burst: 8,
            fetch: Fetch::RoundRobin,
            issue: Share::Shared,
            l1d: Share::Shared,
            mshrs: 0,
            window: 0,
            fill_cycles: 0,
            writeback_cycles: 0,
            memory_fill_cycles: 0,
            memory_writeback_cycles: 0,
            period_cycles: PERIOD,
            scheduler_cycles: 0,
            switch_cycles: 0,
            sync_cycles: 0,
            stack_spacing: None,
            stack_size: STACK,
        }
    }

    /// Reads and returns `[smt]`.
    pub(crate) fn read(section: &mut Section<'_>) -> Result<SmtTable, MachineError> {
        let plain = SmtTable::plain();
        let mut cycles = |key| section.number_or(key, 0..=LONGEST_CYCLES, 0);
        let fill_cycles = cycles("fill_cycles")?;
        let writeback_cycles = cycles("writeback_cycles")?;
        let memory_fill_cycles = cycles("memory_fill_cycles")?;
        let memory_writeback_cycles = cycles("memory_writeback_cycles")?;
        let scheduler_cycles = cycles("scheduler_cycles")?;
        let switch_cycles = cycles("switch_cycles")?;
        let sync_cycles = cycles("sync_cycles")?;
        let port_cycles = cycles("port_cycles")?;
        let fill_port_cycles = cycles("fill_port_cycles")?;
        let issue_width = section.number_in("issue_width", 1..=64)?;
        let ilp_percent = section.number_in("ilp_percent", 1..=6400)?;
        if ilp_percent > 100 * issue_width {
            let message = format!(
                "`ilp_percent` is {ilp_percent}: a thread cannot issue more than `issue_width` = {issue_width} instructions a cycle"
            );
            return Err(section.wrong("ilp_percent", message));
        }
        let shares = [("shared", Share::Shared), ("static", Share::Static)];
        let fetches = [
            ("round-robin", Fetch::RoundRobin),
            ("icount", Fetch::Icount),
        ];
        let mshrs = section.number_or("mshrs", 0..=64, 0)?;
        let window = section.number_or("window", 0..=4096, 0)?;
        if (mshrs == 0) != (window == 0) {
            let message = "`mshrs` and `window` need each other: without one of them a thread stalls at its miss";
            let key = if mshrs == 0 { "window" } else { "mshrs" };
            return Err(section.wrong(key, message));
        }
        let table = SmtTable {
            threads_per_core: section.number_in("threads_per_core", 1..=MOST_THREADS)? as u16,
            issue_width,
            ilp_percent,
            units: section.number_or("units", 1..=64, issue_width)?,
            ports: section.number_or("ports", 1..=16, 1)?,
            port_cycles,
            fill_port_cycles,
            burst: section.number_or("burst", 1..=4096, plain.burst)?,
            fetch: section
                .optional_one_of("fetch", &fetches)?
                .unwrap_or(plain.fetch),
            issue: section
                .optional_one_of("issue", &shares)?
                .unwrap_or(plain.issue),
            l1d: section
                .optional_one_of("l1d", &shares)?
                .unwrap_or(plain.l1d),
            mshrs,
            window,
            fill_cycles,
            writeback_cycles,
            memory_fill_cycles,
            memory_writeback_cycles,
            period_cycles: section.number_or("period_cycles", 1..=LONGEST_PERIOD, PERIOD)?,
            scheduler_cycles,
            switch_cycles,
            sync_cycles,
            stack_spacing: section.optional_number_in("stack_spacing", 1..=1 << 32)?,
            stack_size: section.optional_size("stack_size")?.unwrap_or(STACK),
        };
        if section.has("ports") && port_cycles == 0 {
            let wrong = || {
                section.wrong(
                    "ports",
                    "`ports` without `port_cycles`: they would serve in no time",
                )
            };
            return Err(section.misspelt("port_cycles").unwrap_or_else(wrong));
        }
        if fill_port_cycles > 0 && port_cycles == 0 {
            let message = "`fill_port_cycles` without `port_cycles`: no lookup waits for a port";
            return Err(section.wrong("fill_port_cycles", message));
        }
        if table.scheduler_cycles >= table.period_cycles {
            let message = "`scheduler_cycles` must be less than `period_cycles`";
            return Err(section.wrong("scheduler_cycles", message));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines;
    use std::path::Path;

    #[test]
    fn overrides_of_a_machine_without_the_table_begin_with_the_plain_one() {
        let machine = machines::find(Path::new("desktop")).expect("it comes along");
        let same = machine.overridden(&["smt.burst=8"]).expect("it is sound");
        assert_eq!((machine.smt, same.smt), (None, Some(SmtTable::plain())));
    }
}
