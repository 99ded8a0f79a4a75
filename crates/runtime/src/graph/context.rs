//! The way of a task that became ready, from its graph to the policy.

use super::GraphCore;
use super::slab::{NodeRef, Slab};
use crate::parking;
use crate::pool::PoolShared;
use crate::worker::WorkerCore;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tanada_policy::Ready;

/// The graph, the pool and the worker, if any, for which graph code runs.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) graph: &'a GraphCore,
    pub(super) pool: &'a PoolShared,
    /// The worker that this thread is; `None` on a thread outside of `pool`.
    pub(super) worker: Option<&'a WorkerCore>,
    /// What this thread keeps if it is none and runs the body of a scope.
    pub(super) outside: Option<&'a Outside>,
}

/// What a thread that is no worker keeps while it runs the body of a scope.
#[derive(Default)]
pub(super) struct Outside {
    /// Free nodes.
    nodes: RefCell<Vec<NodeRef>>,
    /// Activities of the graph that are counted in advance.
    ahead: Cell<usize>,
    /// How many were counted the last time.
    step: Cell<usize>,
    /// How many times [`MANY`] tasks may be ready before this thread waits, less one.
    patience: Cell<u32>,
}

/// The most nodes that such a thread takes at once, and the most activities that it counts at once.
const MOST_AHEAD: usize = 64;

/// Ready tasks of one graph, above which a thread that registers more helps to run them, or waits.
const MANY: usize = if cfg!(miri) { 64 } else { 1 << 15 };

/// Tasks that a worker runs at once when it helps: more than become ready between two times.
const HELPED: u32 = 2 * MOST_AHEAD as u32;

/// A pause of a thread that waits for workers, and how many in a row without the end of a task show that these wait for the thread.
const PAUSE: Duration = Duration::from_micros(100);
const VAIN_PAUSES: u32 = 100;

impl Outside {
    /// Counts an activity of `graph`. Returns how many there were, if it had to be counted: once in a while.
    #[inline]
    fn activate(&self, graph: &GraphCore) -> Option<usize> {
        if let Some(left) = self.ahead.get().checked_sub(1) {
            self.ahead.set(left);
            return None;
        }
        let step = (2 * self.step.get()).clamp(1, MOST_AHEAD);
        self.step.set(step);
        self.ahead.set(step);
        Some(graph.activate(1 + step))
    }

    /// The body has ended: ends its activity and gives everything back.
    pub(super) fn end(&self, graph: &GraphCore, slab: &Slab) {
        let mut nodes = self.nodes.borrow_mut();
        if !nodes.is_empty() {
            slab.give_back(&mut nodes, 0);
        }
        graph.deactivate(1 + self.ahead.take());
    }

    fn take_node(&self, slab: &Slab) -> NodeRef {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.is_empty() {
            slab.refill(&mut nodes, (2 * self.step.get()).clamp(1, MOST_AHEAD));
        }
        Slab::pop(&mut nodes)
    }
}

impl Context<'_> {
    /// Counts a task that became ready as active, and routes it.
    #[inline]
    pub(super) fn activate(&self, task: Ready) {
        self.count_active();
        self.route(task);
    }

    /// Counts one more activity. Returns whether the graph has so many that a thread that registers tasks should stop for a while.
    #[inline]
    fn count_active(&self) -> bool {
        let before = match (self.worker, self.outside) {
            (Some(worker), _) => self.graph.activate_on(worker, 1),
            (None, Some(outside)) => outside.activate(self.graph),
            (None, None) => Some(self.graph.activate(1)),
        };
        before.is_some_and(|before| before > MANY)
    }

    /// As [`Context::activate`], for a thread that registers tasks: if too many are ready, it runs some, or waits until some have run.
    #[inline]
    pub(super) fn activate_registered(&self, task: Ready) {
        let many = self.count_active();
        self.route(task);
        if many {
            self.relieve();
        }
    }

    #[cold]
    fn relieve(&self) {
        match (self.worker, self.outside) {
            (Some(worker), _) => self.help_out(worker),
            (None, Some(outside)) => self.hold_on(outside),
            (None, None) => {}
        }
    }

    /// Runs ready tasks of this graph inside of a task that registers more and more; not inside of one that runs here in its turn. Of this
    /// graph only: any other task could hold up the one that registers, as it could one that waits for a nested graph.
    fn help_out(self, worker: &WorkerCore) {
        if worker.graph.helps.get() || worker.check_stack().is_err() {
            return;
        }
        worker.graph.helps.set(true);
        let running = worker.graph.running();
        for _ in 0..HELPED {
            let ran = match self.graph.nested.is_on() {
                true => {
                    let next = self.take_next(worker);
                    next.map(|task| self.run(worker, task)).is_some()
                }
                false => worker.run_one_of(self.graph),
            };
            if !ran {
                break;
            }
        }
        // What ended here would be used up for further registrations before these are counted again.
        worker.settle();
        worker.graph.run(running);
        worker.graph.helps.set(false);
    }

    /// Waits until many tasks have run. But if none ends for long, they may wait for what this thread does next: it then waits the next
    /// time when there are twice as many.
    fn hold_on(self, outside: &Outside) {
        let bound = MANY << outside.patience.get().min(20);
        let (mut least, mut vain) = (self.graph.activities(), 0);
        if least <= bound {
            return;
        }
        while self.graph.activities() > bound / 2 && !self.pool.is_forked() {
            parking::pause(PAUSE);
            let now = self.graph.activities();
            vain = if now < least { 0 } else { vain + 1 };
            least = least.min(now);
            if vain == VAIN_PAUSES {
                outside.patience.set(outside.patience.get() + 1);
                return;
            }
        }
    }

    /// As [`Context::route`] for each of `tasks`, which are roots of one run and become ready at the same time. Leaves `tasks` empty.
    pub(super) fn route_all(self, tasks: &mut Vec<Ready>) {
        let alone = self.worker.is_some() || self.graph.nested.is_on();
        if alone || self.graph.watch.0.is_some() {
            tasks.drain(..).for_each(|task| self.route(task));
        } else if self.pool.is_forked() {
            std::mem::take(tasks).into_iter().for_each(std::mem::forget);
        } else {
            self.pool.inject_all(tasks);
        }
    }

    /// Returns the number of workers that roots of this graph may be handed out to in [shares](super::template), if they may: the policy
    /// treats tasks alike, and nothing watches single tasks or holds them back.
    pub(super) fn shares(self) -> Option<usize> {
        let free = self.pool.shares && !self.graph.nested.is_on() && self.graph.watch.0.is_none();
        free.then(|| usize::from(self.pool.placement.workers()))
    }

    /// Passes an active task on: to the table of its graph if that is nested, to the graph's observer if that holds tasks back, else to the
    /// policy. The run may be over when this returns.
    #[inline]
    pub(super) fn route(&self, task: Ready) {
        let graph = self.graph;
        if graph.nested.is_on() {
            return self.offer([task]);
        }
        let task = match self.worker {
            Some(_) => Some(task),
            None => graph
                .watch
                .observer()
                .inject(graph.run_id(), self.pool, task),
        };
        if let Some(task) = task {
            self.dispatch(task);
        }
    }

    /// Hands a task or ticket to the policy: through the worker, or from outside.
    #[inline]
    pub(super) fn dispatch(&self, task: Ready) {
        match self.worker {
            Some(worker) => worker.dispatch(task),
            // In a child process, forked in the policy, another thread may have held the policy's lock.
            None if self.pool.is_forked() => {}
            None => self.pool.inject(task),
        }
    }

    /// Returns a free node of the pool.
    #[inline]
    pub(super) fn take_node(&self) -> NodeRef {
        let slab = &self.pool.graphs.slab;
        match (self.worker, self.outside) {
            (Some(worker), _) => worker.graph.take_node(slab),
            (None, Some(outside)) => outside.take_node(slab),
            (None, None) => slab.take_one(),
        }
    }

    /// As [`Context::take_node`], for a block that few tasks need: out of line, so that registrations stay small.
    #[cold]
    #[inline(never)]
    pub(super) fn borrow_node(&self) -> NodeRef {
        self.take_node()
    }
}
