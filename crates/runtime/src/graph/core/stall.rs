//! Graphs that can go on only if something outside of all workers happens, or never.
//!
//! A task that owns the [`Resolver`](crate::Resolver) that would resolve it never runs, and pools whose tasks wait for each other's graphs
//! wait for ever. The runtime cannot know: a thread outside may resolve a task at any time. So it says which tasks it waits for.

use super::GraphCore;
use crate::error::TaskNames;
use crate::pool::PoolShared;
use crate::process;
use std::sync::atomic::Ordering;

/// Checks in a row, ten a second, after which a waiting thread says what it waits for.
const CHECKS: u32 = 50;

/// What a thread has seen that waits for the end of a graph.
pub(super) struct Stall<'a> {
    /// The pool whose worker the thread is, if the graph belongs to another pool.
    own: Option<&'a PoolShared>,
    /// Whether the thread is counted as waiting there: unless it waits for a pool that is at work.
    counted: bool,
    /// Checks in a row at which no worker of the pool was at work.
    checks: u32,
}

impl<'a> Stall<'a> {
    pub(super) fn new(own: Option<&'a PoolShared>) -> Self {
        let mut stall = Stall {
            own,
            counted: false,
            checks: 0,
        };
        stall.count(true);
        stall
    }

    fn count(&mut self, waits: bool) {
        match self.own {
            Some(own) if waits && !self.counted => own.waiting.fetch_add(1, Ordering::Relaxed),
            Some(own) if !waits && self.counted => own.waiting.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.counted = waits;
    }

    /// Checks once more. Returns true once: when all workers of `pool` have been idle, or in tasks that wait, for [`CHECKS`] checks.
    pub(super) fn begins(&mut self, pool: &PoolShared) -> bool {
        let unoccupied = pool.sleep.count_idle() + pool.waiting.load(Ordering::Relaxed);
        let stalled = unoccupied >= usize::from(pool.placement.workers());
        self.count(stalled);
        self.checks = if stalled {
            self.checks.saturating_add(1)
        } else {
            0
        };
        self.checks == CHECKS
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.count(false);
    }
}

impl GraphCore {
    /// Names the tasks of this graph, and of graphs that its tasks run on the same pool, that have not ended. Tasks of templates have no
    /// nodes of the pool, so they are not named.
    pub(super) fn report_stall(&self, pool: &PoolShared) {
        let belongs = |graph| self.contains(graph);
        let names = pool
            .graphs
            .slab
            .of_graphs(belongs)
            .into_iter()
            .filter_map(|node| {
                let _ends_later = node.successors();
                // SAFETY: the node belongs to a graph, so it is filled, and the lock keeps its task from ending.
                belongs(node.graph()).then(|| unsafe { node.view() }.to_string())
            });
        let tasks = TaskNames::collect(names);
        let which = match tasks.total() {
            0 => "tasks of a template".to_owned(),
            some => format!("{some} task(s): {tasks}"),
        };
        process::report(format_args!(
            "no worker of a pool (policy {}) has anything to run for some seconds, and its graph has not ended. \
             It waits for a resolver, or for graphs of pools that wait in their turn; not ended: {which}",
            pool.policy,
        ));
    }

    /// Returns whether `graph`, of this pool or null, is this graph or runs inside of it.
    fn contains(&self, mut graph: *const GraphCore) -> bool {
        // SAFETY: null, or a core of this graph's pool, which keeps its cores; a graph runs inside of graphs of the same pool only.
        while let Some(inner) = unsafe { graph.as_ref() } {
            if std::ptr::eq(inner, self) {
                return true;
            }
            graph = inner.outer.load(Ordering::Relaxed);
        }
        false
    }
}
