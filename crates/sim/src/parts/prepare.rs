//! What policies that look at the graph are built from.

use crate::SimError;
use crate::machine::Machine;
use tanada_policy::Prepared;
use tanada_trace::{Kind, Trace};

/// The handle of the first task; see [`crate::parts::handle`].
const FIRST_HANDLE: u64 = 1;

/// Bottom levels of the tasks of `trace` on `machine`, in cycles of least time, as [`Bound`](crate::counts::bound::Bound) counts it: the
/// dispatch, the computation and `hit_cycles` for each line touch (or record that meets no cache). Reads all records once.
///
/// # Errors
/// Where the trace cannot be read to its end, or one of its tasks alone takes more than 2^64-1 cycles.
pub(super) fn prepare(trace: &Trace, machine: &Machine) -> Result<Prepared, SimError> {
    let shift = |fetch| {
        let first = machine.path(fetch).first().copied();
        first.map(|table: usize| machine.caches[table].shift())
    };
    let (fetch, data) = (shift(true), shift(false));
    let mut reader = trace.reader()?;
    let mut window = Vec::new();
    let mut least = Vec::with_capacity(trace.len());
    for task in 0..trace.len() as u32 {
        let (mut time, mut position) = (machine.dispatch_cycles, 0);
        let mut cursor = reader.start(task);
        loop {
            reader.fill(&mut cursor, &mut window)?;
            if window.is_empty() {
                break;
            }
            for record in &window {
                let lines = |shift: Option<u32>| {
                    shift.map_or(1, |shift| {
                        let last = record.value + (u64::from(record.size) - 1);
                        (last >> shift) - (record.value >> shift) + 1
                    })
                };
                let cycles = match record.kind {
                    Kind::Compute => Some(record.value),
                    Kind::Fetch => machine.hit_cycles.checked_mul(lines(fetch)),
                    Kind::Read | Kind::Write => machine.hit_cycles.checked_mul(lines(data)),
                };
                time = cycles
                    .and_then(|cycles| time.checked_add(cycles))
                    .ok_or_else(|| SimError::overflow(trace, task, position))?;
                position += 1;
            }
        }
        least.push(time);
    }
    Ok(Prepared::of_graph(FIRST_HANDLE, least, |task| {
        trace
            .successors(task as u32)
            .iter()
            .map(|edge| edge.to() as usize)
    }))
}
