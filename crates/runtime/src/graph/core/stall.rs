//! Graphs that can go on only if something outside of all workers happens, or never.
//!
//! A task that owns the [`Resolver`](crate::Resolver) that would resolve it never runs, and pools whose tasks wait for each other's graphs
//! wait for ever. The runtime cannot know: a thread outside may resolve a task at any time. So it says which tasks it waits for.

use super::GraphCore;
use crate::error::TaskNames;
use crate::parking;
use crate::pool::PoolShared;
use crate::process;
use std::sync::atomic::Ordering;

/// Checks in a row, ten a second, after which a waiting thread says what it waits for, and looks again whether it is something else.
pub(crate) const CHECKS: u32 = 50;

/// By how many checks more a thread is later that waits for a nested graph, for each graph around it: so the thread that waits for the
/// outermost one reports for all, unless it does something else instead of waiting.
const LATER: u32 = 5;

/// What a thread has seen that waits for the end of a graph.
pub(super) struct Stall<'a> {
    /// The pool whose worker the thread is, if the graph belongs to another pool.
    own: Option<&'a PoolShared>,
    /// Whether the thread is counted as waiting there: unless it waits for a pool that is at work.
    counted: bool,
    /// Whether the thread has checked.
    has_looked: bool,
    /// Checks in a row at which no worker of the pool was at work.
    checks: u32,
    /// The number of them at which the thread reports.
    due: u32,
    /// The last report.
    said: String,
}

impl<'a> Stall<'a> {
    pub(super) fn new(own: Option<&'a PoolShared>) -> Self {
        let mut stall = Stall {
            own,
            counted: false,
            has_looked: false,
            checks: 0,
            due: CHECKS,
            said: String::new(),
        };
        stall.count(true);
        stall
    }

    /// Parks this thread, without a limit, as long as workers of `pool` are at work, since there is nothing to look for. Returns false, and
    /// does not park, if the thread is to look from time to time.
    pub(super) fn rests(&mut self, pool: &PoolShared) -> bool {
        // Threads that wait for each other's pools may have begun one after the other. Before this one says that its own pool is at work
        // because the other one is, whoever waits there must have the time to see that it waits here.
        let is_early = self.own.is_some() && !self.has_looked;
        if is_early || pool.must_be_looked_at() {
            self.count(true);
            return false;
        }
        let _watching = pool.sleep.watch();
        if pool.must_be_looked_at() {
            self.count(true);
            return false;
        }
        self.is_at_work();
        parking::park();
        true
    }

    fn is_at_work(&mut self) {
        (self.checks, self.due) = (0, CHECKS);
        self.count(false);
    }

    fn count(&mut self, waits: bool) {
        match self.own {
            Some(own) if waits && !self.counted => own.sleep.begin_wait(),
            Some(own) if !waits && self.counted => own.sleep.end_wait(),
            _ => {}
        }
        self.counted = waits;
    }

    /// Checks once more. Returns true whenever all workers of `pool` have been idle, or in tasks that wait, for [`CHECKS`] further checks,
    /// the first time for [`LATER`] more for each of the `around` graphs.
    fn is_due(&mut self, pool: &PoolShared, around: u32) -> bool {
        self.has_looked = true;
        if !pool.sleep.stands_still() {
            self.is_at_work();
            return false;
        }
        self.count(true);
        self.checks += 1;
        let due = self.checks >= self.due.saturating_add(around.saturating_mul(LATER));
        if due {
            (self.checks, self.due) = (0, CHECKS);
        }
        due
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.count(false);
    }
}

impl GraphCore {
    /// Looks once whether the graph, for whose end this thread waits, has stalled, and reports that, unless a thread that waits for a graph
    /// around it does, or the last report said the same.
    pub(super) fn look_for_stall(&self, pool: &PoolShared, stall: &mut Stall<'_>) {
        if !stall.is_due(pool, self.around().count() as u32) || self.has_ended() {
            return;
        }
        if self
            .around()
            .any(|outer| outer.reported.load(Ordering::Relaxed))
        {
            return;
        }
        self.reported.store(true, Ordering::Relaxed);
        let report = self.stalled(pool);
        if stall.said != report {
            process::report(format_args!("{report}"));
            stall.said = report;
        }
    }

    /// Returns the graphs around this one, the innermost first.
    fn around(&self) -> impl Iterator<Item = &GraphCore> {
        // SAFETY: null, or a core of this graph's pool, which keeps its cores; a graph runs inside of graphs of the same pool only.
        let outer = |graph: &GraphCore| unsafe { graph.outer.load(Ordering::Relaxed).as_ref() };
        std::iter::successors(outer(self), move |graph| outer(graph))
    }

    /// Returns a report with the tasks of this graph, and of graphs that its tasks run on the same pool, that have not ended. Tasks of
    /// templates have no nodes of the pool, so they are not named.
    fn stalled(&self, pool: &PoolShared) -> String {
        let belongs = |graph| self.contains(graph);
        let names = pool
            .graphs
            .slab
            .of_graphs(belongs)
            .into_iter()
            .filter_map(|node| {
                let _ends_later = node.waiting();
                // SAFETY: the node belongs to a graph, so it is filled, and the lock keeps its task from ending.
                belongs(node.graph()).then(|| unsafe { node.view() }.to_string())
            });
        let tasks = TaskNames::collect(names);
        let which = match tasks.total() {
            0 => "tasks of a template".to_owned(),
            some => format!("{some} task(s): {tasks}"),
        };
        format!(
            "no worker of a pool (policy {}) has anything to run for some seconds, and its graph has not ended. \
             It waits for what one of its tasks waits for, for a resolver, or for graphs of pools that wait in their turn, \
             or the policy has lost tasks; not ended: {which}",
            pool.policy,
        )
    }

    /// Returns whether `graph`, of this pool or null, is this graph or runs inside of it.
    fn contains(&self, graph: *const GraphCore) -> bool {
        // SAFETY: null, or a core of this graph's pool, which keeps its cores.
        let graph = unsafe { graph.as_ref() };
        graph.is_some_and(|graph| {
            let same = |one: &GraphCore| std::ptr::eq(one, self);
            same(graph) || graph.around().any(same)
        })
    }
}
