//! Finds early what would be found late: that a clock is going to pass its end.
//!
//! A record may touch 2^32 lines, and a few of those before the end of a clock would be simulated for minutes. So a run that has spent
//! some time in such records adds up, once, what all tasks take if every touch hits the first level. Where that passes 2^64-1 along a
//! chain of dependencies, or in sum on every core, no schedule gets around it.

use crate::machine::Machine;
use crate::{Options, SimError};
use tanada_trace::{Kind, Record, Trace};

/// So many lines are simulated in a fraction of a second.
const LINES: u64 = 1 << 22;

/// How many lines long records touched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foresight {
    lines: u64,
}

impl Foresight {
    /// So many lines of a long record are about to be touched.
    ///
    /// # Errors
    /// Where a clock must pass its end.
    #[inline]
    pub(crate) fn lines(
        &mut self,
        lines: u64,
        trace: &Trace,
        machine: &Machine,
        options: &Options<'_>,
    ) -> Result<(), SimError> {
        let before = self.lines;
        self.lines = before.saturating_add(lines);
        if before < LINES && self.lines >= LINES {
            look_ahead(trace, machine, options)?;
        }
        Ok(())
    }
}

/// Least cycles of records.
struct Least {
    hit: u64,
    /// Of fetches and of data: log2 of the line of the first level.
    shifts: [Option<u32>; 2],
}

impl Least {
    fn of(machine: &Machine) -> Least {
        let shift = |fetch| {
            let first = machine.path(fetch).first().copied()?;
            Some(machine.caches[first].shift())
        };
        Least {
            hit: machine.hit_cycles,
            shifts: [shift(true), shift(false)],
        }
    }

    fn cycles(&self, record: &Record) -> u64 {
        if record.kind == Kind::Compute {
            return record.value;
        }
        let lines = self.shifts[usize::from(record.kind != Kind::Fetch)].map_or(1, |shift| {
            let last = record.value + (u64::from(record.size) - 1);
            (last >> shift) - (record.value >> shift) + 1
        });
        lines.saturating_mul(self.hit)
    }
}

#[cold]
#[inline(never)]
fn look_ahead(trace: &Trace, machine: &Machine, options: &Options<'_>) -> Result<(), SimError> {
    let least = Least::of(machine);
    let most = u128::from(u64::MAX) * u128::from(machine.cores);
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    // Of each task: its dependencies that are left, and when it begins at the earliest.
    let mut tasks: Vec<(u32, u64)> = trace.tasks().iter().map(|task| (task.waits, 0)).collect();
    let mut ready: Vec<u32> = (0..trace.len() as u32).collect();
    ready.retain(|&task| tasks[task as usize].0 == 0);
    let mut sum = 0_u128;
    while let Some(task) = ready.pop() {
        options.go_on(0)?;
        let begin = tasks[task as usize].1;
        let overflow = |record: Option<u64>| SimError::overflow(trace, task, record);
        let mut end = begin
            .checked_add(machine.dispatch_cycles)
            .ok_or_else(|| overflow(None))?;
        let mut cursor = reader.start(task);
        let mut number = 0;
        loop {
            reader.fill(&mut cursor, &mut window)?;
            if window.is_empty() {
                break;
            }
            for record in &window {
                let cycles = least.cycles(record);
                sum += u128::from(cycles);
                let then = end.checked_add(cycles).filter(|_| sum <= most);
                end = then.ok_or_else(|| overflow(Some(number)))?;
                number += 1;
            }
        }
        for edge in trace.successors(task) {
            let (waits, begins) = &mut tasks[edge.to() as usize];
            *begins = end.max(*begins);
            *waits -= 1;
            if *waits == 0 {
                ready.push(edge.to());
            }
        }
    }
    Ok(())
}
