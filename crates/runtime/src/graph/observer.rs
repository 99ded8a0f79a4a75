//! Observers of graphs.

use super::slab::NodeRef;
use crate::observer::TaskView;
use crate::pool::PoolShared;
use std::panic::Location;
use tanada_policy::Ready;

/// Identifies a task in the calls of a [`GraphObserver`]: its address, and its generation among the tasks at that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) address: usize,
    pub(crate) generation: u32,
}

impl TaskId {
    pub(super) fn new(node: NodeRef, generation: u32) -> Self {
        TaskId {
            address: node.address(),
            generation,
        }
    }
}

/// Watches what happens to the graphs of a pool outside of task bodies, which an [`Observer`](crate::Observer) watches.
///
/// Every function has a default that changes nothing. `run` is the number of the graph's run.
pub(crate) trait GraphObserver: Sync {
    /// A graph that is not nested begins on `pool`; its body is about to register tasks.
    fn begins(&self, _run: u64, _pool: &PoolShared) {}

    /// This thread has registered a task, which is not ready yet, at `line` of the program, if that is known.
    fn registered(
        &self,
        _run: u64,
        _task: TaskId,
        _view: &TaskView,
        _line: Option<&'static Location<'static>>,
    ) {
    }

    /// `later` waits for `earlier`.
    fn edge(&self, _run: u64, _earlier: TaskId, _later: TaskId) {}

    /// This thread is about to resolve a count of `task`, or to make `task` wait for another.
    fn resolves(&self, _run: u64, _task: TaskId) {}

    /// This thread has registered a task of a graph, or resolved one, in a body, and is about to go on with that.
    fn acted(&self) {}

    /// A run of a template begins in a room, the `number`th of the process, at this address. `list` reports its tasks and edges.
    fn begins_in_room(&self, _run: u64, _address: usize, _number: u64, _list: &mut dyn FnMut()) {}

    /// A task became ready on a thread that is no worker. Returns the task if it may go to the policy now; else the observer passes it to
    /// `pool` later.
    fn inject(&self, _run: u64, _pool: &PoolShared, task: Ready) -> Option<Ready> {
        Some(task)
    }

    /// This thread waits for the end of a graph by calling `wait`.
    fn waits(&self, _run: u64, wait: &mut dyn FnMut()) {
        wait();
    }

    /// This thread, a worker of another pool, waits by calling `wait` for workers of this pool to run its closure.
    fn calls_from_elsewhere(&self, wait: &mut dyn FnMut()) {
        wait();
    }
}

/// Watches nothing.
impl GraphObserver for () {}

/// The observer of a pool's graphs: `()` by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch(pub(crate) Option<&'static dyn GraphObserver>);

impl Watch {
    /// Returns the observer, for calls that are made once a run or once a task from outside.
    pub(crate) fn observer(self) -> &'static dyn GraphObserver {
        self.0.unwrap_or(&())
    }

    /// Calls `report` with the observer unless that is `()`, for calls that are made for each task or edge: the branch costs less than
    /// making up the arguments of a call that does nothing.
    #[inline]
    pub(super) fn tell(self, report: impl FnOnce(&dyn GraphObserver)) {
        if let Some(observer) = self.0 {
            report(observer);
        }
    }
}
