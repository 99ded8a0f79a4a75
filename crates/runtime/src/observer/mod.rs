//! Observers of workers: a type parameter of the pool's builder, which costs nothing unless it is used.

#[allow(unsafe_code)]
mod chunk;
#[allow(unsafe_code)]
mod clock;
mod profile;
mod recorder;

pub(crate) use profile::{DEPENDENCIES, described};
pub use profile::{PathPart, Profile};
pub use recorder::{Recorded, RecordedTask, Recorder, Totals};

use std::fmt;
use tanada_policy::{Hints, Origin, WorkerId};

/// What an observer sees of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskView {
    /// The name that the task was registered under.
    pub name: &'static str,
    /// The task's number among the tasks of that name.
    pub index: u64,
    /// The task's hint.
    pub hints: Hints,
    /// The task's address in memory, which identifies it among those that run.
    pub(crate) address: usize,
}

impl fmt::Display for TaskView {
    /// Writes `name[index]`, as error messages name tasks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.index)
    }
}

/// Watches the workers of a pool. `()` watches nothing and costs nothing.
pub trait Observer: Send + Sync + 'static {
    /// The part of the observer that one worker owns.
    type Worker: WorkerObserver;

    /// Makes and returns the part of `worker`. Called once for each worker, on the thread that makes the pool.
    fn worker(&self, worker: WorkerId) -> Self::Worker;

    /// Returns whether the dependencies of tasks are to be kept for [`Recorded::profile`].
    #[doc(hidden)]
    fn keeps_dependencies(&self) -> bool {
        false
    }
}

/// Watches one worker; called on its thread. `start` and `end` are on the hot path. A panic in one of the functions ends the process. So
/// does a task that runs in a graph which one of them begins on the pool that it watches.
pub trait WorkerObserver: Send + 'static {
    /// Whether the functions below are called at all.
    const WATCHES: bool = true;

    /// Called right before a task's body runs.
    fn start(&mut self, task: &TaskView, origin: Origin);

    /// Called right after the body of the task that started last; its successors are not released yet.
    fn end(&mut self, task: &TaskView);

    /// Called when the dispatcher has no task for the worker, which begins to search, and before it runs parts of broadcasts between two
    /// tasks.
    fn idle(&mut self) {}
}

impl Observer for () {
    type Worker = ();

    #[inline]
    fn worker(&self, _worker: WorkerId) {}
}

impl WorkerObserver for () {
    const WATCHES: bool = false;

    #[inline]
    fn start(&mut self, _task: &TaskView, _origin: Origin) {}

    #[inline]
    fn end(&mut self, _task: &TaskView) {}
}
