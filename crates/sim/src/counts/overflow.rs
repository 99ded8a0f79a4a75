//! Early detection of a clock overflow that no schedule avoids.
//!
//! A record may touch 2^32 lines, so the simulation of a trace whose clock must pass 2^64-1 could take minutes before it fails. A run that
//! has spent a fraction of a second in long records therefore adds up the least cycles of all tasks, once. If they pass 2^64-1 along a
//! chain of dependencies, or 2^64-1 times the number of cores in sum, every schedule overflows.

use super::least::Least;
use crate::machine::Machine;
use crate::{Options, SimError};
use tanada_trace::Trace;

/// Touches of long records before the check; they are simulated in a fraction of a second.
pub(crate) const TOUCHES: u64 = 1 << 22;

/// Checks whether a clock overflows on every schedule, in a run of which `ended` tasks have ended. Reads all records once.
///
/// # Errors
/// Returns an error if a clock overflows on every schedule, or the run is cancelled.
#[cold]
#[inline(never)]
pub(crate) fn check(
    trace: &Trace,
    machine: &Machine,
    options: &Options<'_>,
    ended: u64,
) -> Result<(), SimError> {
    let least = Least::of(machine);
    let most = u128::from(u64::MAX) * u128::from(machine.cores);
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    // Of each task: its unresolved dependencies, and its earliest beginning.
    let mut tasks: Vec<(u32, u64)> = trace.tasks().iter().map(|task| (task.waits, 0)).collect();
    let mut ready: Vec<u32> = (0..trace.len() as u32).collect();
    ready.retain(|&task| tasks[task as usize].0 == 0);
    let mut sum = 0_u128;
    while let Some(task) = ready.pop() {
        options.check_cancelled(ended)?;
        let begin = tasks[task as usize].1;
        let overflow = |record: Option<u64>| SimError::overflow(trace, task, record);
        let mut end = begin
            .checked_add(machine.dispatch_cycles)
            .ok_or_else(|| overflow(None))?;
        let mut number = 0;
        reader.for_each(task, &mut window, |record| {
            let cycles = least.cycles(record);
            let then = cycles.and_then(|cycles| end.checked_add(cycles));
            sum += u128::from(cycles.unwrap_or(0));
            let then = then.filter(|_| sum <= most);
            end = then.ok_or_else(|| overflow(Some(number)))?;
            number += 1;
            Ok::<_, SimError>(())
        })?;
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
