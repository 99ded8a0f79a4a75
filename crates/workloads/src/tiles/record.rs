//! Recording of programs that go over tiles of fields.

use super::{Caches, Groups, Options, Plan, Program, Tile, Tiled};
use crate::record::{RecordedTask, TaskRecorder};
use crate::workload::{RecordError, Recording};
use std::ops::ControlFlow;
use tanada_trace::Sink;

/// Records all sweeps of a program over tiles, cut and grouped for `workers` workers with such caches, into `sink`.
///
/// The tasks are those that [`Tiled::run`](super::Tiled::run) runs. They carry the groups `default` by name, and the groups that `options`
/// ask for as plain ones. `seen` is called after each task with the number of tasks so far, and stops the recording by `Break`.
///
/// # Errors
/// [`RecordError::Trace`] and [`RecordError::Stopped`]; what `sink` has by then is no whole trace.
///
/// # Panics
/// The field has no points, or is larger than an address space.
pub fn tiles<P: Program, S: Sink + ?Sized>(
    options: Options,
    workers: u16,
    caches: Caches,
    sink: &mut S,
    mut seen: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Recording, RecordError> {
    let plan = Tiled::<P>::plan_for(options, workers, caches);
    let default = Plan::new(plan.shape(), workers, caches, Groups::Default);
    let program = P::new(options, plan.caches());
    plan.tiles().for_each(|tile| program.fill(tile));
    let mut recorder = TaskRecorder::new(sink, workers);
    let costs = recorder.costs().to_owned();
    let mut outcome = Ok(());
    plan.declare(|tile: Tile, sweep, waits: &mut dyn Iterator<Item = u32>| {
        let id = recorder.tasks();
        if outcome.is_err() {
            return id;
        }
        let task = RecordedTask {
            name: P::name(sweep, plan.shape().sweeps),
            plain: plan.groups_of(&tile, sweep),
            named: &[(Groups::Default.name(), default.groups_of(&tile, sweep))],
        };
        let recorded = recorder.task(&task, waits, |seer| program.sweep(tile, sweep, seer));
        outcome = recorded.map(drop).map_err(RecordError::from);
        if outcome.is_ok() && seen(u64::from(id) + 1).is_break() {
            outcome = Err(RecordError::Stopped);
        }
        id
    });
    outcome?;
    Ok(Recording {
        extent: options.input::<P>(),
        groups: options.groups.name(),
        costs,
        recorded: recorder.finish(),
        ..Recording::default()
    })
}
