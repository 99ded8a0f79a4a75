//! Recording of programs that go over tiles of fields.

use super::{Caches, Groups, Plan, Program, Tile};
use crate::record::{Recorded, RecordedTask, TaskRecorder};
use std::ops::ControlFlow;
use tanada_trace::{Sink, TraceError};

/// What a recording holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TilesRecording {
    /// How the field is cut.
    pub plan: Plan,
    /// What the table of costs calls itself.
    pub costs: String,
    /// Tasks, dependencies and addresses.
    pub recorded: Recorded,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TilesError {
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// Records all sweeps of a program over tiles, cut and grouped for `workers` workers with such caches, into `sink`.
///
/// The tasks are those that [`Tiled::run`](super::Tiled::run) runs. They carry the groups `default` by name, and the groups that `options`
/// ask for as plain ones. `seen` is called after each task with the number of tasks so far, and stops the recording by `Break`.
///
/// # Errors
/// See [`TilesError`]; what `sink` has by then is no whole trace.
///
/// # Panics
/// The field has no points, or is larger than an address space.
pub fn tiles<P: Program, S: Sink + ?Sized>(
    options: P::Options,
    workers: u16,
    caches: Caches,
    sink: &mut S,
    mut seen: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<TilesRecording, TilesError> {
    let (shape, groups) = P::shape(options);
    let plan = Plan::new(shape, workers, caches, groups);
    let default = Plan::new(shape, workers, caches, Groups::Default);
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
            name: P::name(sweep, shape.sweeps),
            plain: plan.groups_of(&tile, sweep),
            named: &[(Groups::Default.name(), default.groups_of(&tile, sweep))],
        };
        let recorded = recorder.task(&task, waits, |seer| program.sweep_with(tile, sweep, seer));
        outcome = recorded.map(drop).map_err(TilesError::from);
        if outcome.is_ok() && seen(u64::from(id) + 1).is_break() {
            outcome = Err(TilesError::Stopped);
        }
        id
    });
    outcome?;
    Ok(TilesRecording {
        plan,
        costs,
        recorded: recorder.finish(),
    })
}
