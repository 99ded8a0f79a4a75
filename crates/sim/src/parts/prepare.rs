//! What a policy that looks at the whole graph is built from.

use crate::SimError;
use crate::counts::least::Least;
use crate::machine::Machine;
use tanada_policy::Prepared;
use tanada_trace::Trace;

/// The handle of the first task; see `handle.rs`.
const FIRST_HANDLE: u64 = 1;

/// Returns the bottom levels of the tasks of `trace` on `machine`, in cycles of least time as [`Bound`](crate::counts::bound::Bound)
/// defines it, and the closures if `closures`. Reads all records once.
///
/// # Errors
/// If the trace cannot be read, or one of its tasks alone takes more than 2^64-1 cycles.
pub(crate) fn prepare(
    trace: &Trace,
    machine: &Machine,
    closures: bool,
) -> Result<Prepared, SimError> {
    let record_cycles = Least::of(machine);
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    let mut least = Vec::with_capacity(trace.len());
    for task in 0..trace.len() as u32 {
        let (mut time, mut position) = (machine.dispatch_cycles, 0);
        reader.for_each(task, &mut window, |record| {
            let cycles = record_cycles.cycles(record);
            let sum = cycles.and_then(|cycles| time.checked_add(cycles));
            time = sum.ok_or_else(|| SimError::overflow(trace, task, position))?;
            position += 1;
            Ok::<_, SimError>(())
        })?;
        least.push(time);
    }
    let successors = |task| trace.successors(task as u32).iter();
    let depth = |task: usize| trace.tasks()[task].depth;
    let depth: Option<&dyn Fn(usize) -> u32> = if closures { Some(&depth) } else { None };
    Ok(Prepared::of_graph(FIRST_HANDLE, least, depth, |task| {
        successors(task).map(|edge| edge.to() as usize)
    }))
}
