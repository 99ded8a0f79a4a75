//! Who watches the workers: a type parameter of the pool that costs nothing when it is absent.

use tanada_policy::{Hints, Origin, WorkerId};

/// What an observer may see of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskView {
    /// The name that the task was registered under.
    pub name: &'static str,
    /// Which of the tasks of that name it is.
    pub index: u64,
    /// Its hint.
    pub hints: Hints,
}

/// Watches a pool. `()` watches nothing and costs nothing.
pub trait Observer: Send + Sync + 'static {
    /// What one worker alone touches.
    type Worker: WorkerObserver;

    /// Makes the part that `worker` gets.
    fn worker(&self, worker: WorkerId) -> Self::Worker;
}

/// Watches one worker; called on its thread. Both calls are on the hot path.
pub trait WorkerObserver: Send + 'static {
    /// Whether it wants to be called at all. Where not, a task's description is never put together.
    const WATCHES: bool = true;

    /// Whether the engine writes marks around tasks. For the engine's own use.
    #[doc(hidden)]
    const MARKS: bool = false;

    /// A task's body is about to start.
    fn start(&mut self, task: &TaskView, origin: Origin);

    /// The body of the task that started last has ended; its successors are not yet released.
    fn end(&mut self, task: &TaskView);

    /// The dispatcher had no task: the worker begins to search.
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
