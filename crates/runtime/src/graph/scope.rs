//! Dynamic graphs: tasks that are registered while the graph runs (paper 1's `register` and `resolve`).

use super::core::foreign_task;
use super::{Cancel, GraphCore};
use crate::error::GraphError;
use crate::marks;
use crate::observer::TaskView;
use crate::pool::{Pool, PoolShared};
use crate::graph::slab::{Cold, ErasedBody, Executable, Header, MAX_COUNT, NodeRef};
use crate::worker::{self, WorkerCore};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use tanada_policy::{Hints, WorkerId};

/// A temporal group: tasks of one T group should run close in time, on any worker. `TGroup(0)` is the exception group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TGroup(pub u32);

/// A spatial group: tasks of one S group should run on one worker. `SGroup(0)` is the exception group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SGroup(pub u32);

/// Names a registered task, so that others can wait for it or resolve it. Copying it costs nothing and keeps nothing alive: the token of
/// a task that has ended stays valid and means "nothing to wait for".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    node: NodeRef,
    generation: u32,
    run: u64,
}

/// A dependency came too late: the task that was to wait is ready already, or has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the task is ready already, so it can wait for nothing more; keep a count unresolved until its last dependency is known"
)]
pub struct TooLate;

/// A graph that runs while it is being registered.
///
/// [`Pool::scope`] hands one to its body, and every task gets one for as long as it runs, by which it registers further tasks and
/// resolves others. Tasks may borrow whatever outlives `'scope`.
pub struct Scope<'scope> {
    graph: *const GraphCore,
    pool: *const PoolShared,
    worker: Option<NonNull<WorkerCore>>,
    /// Invariant in `'scope`: else a shorter borrow could be smuggled in.
    marker: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope> Scope<'scope> {
    /// Safety: all three outlive the scope; the worker is the one that this thread is.
    #[inline]
    unsafe fn new(graph: &GraphCore, pool: &PoolShared, worker: Option<&WorkerCore>) -> Self {
        Scope {
            graph,
            pool,
            worker: worker.map(NonNull::from),
            marker: PhantomData,
        }
    }

    fn graph(&self) -> &GraphCore {
        // SAFETY: see `new`.
        unsafe { &*self.graph }
    }

    fn pool(&self) -> &PoolShared {
        // SAFETY: see `new`.
        unsafe { &*self.pool }
    }

    fn worker_core(&self) -> Option<&WorkerCore> {
        // SAFETY: see `new`.
        self.worker.map(|worker| unsafe { &*worker.as_ptr() })
    }

    /// Begins a task called `name`; [`TaskBuilder::register`] ends it. The name is for messages, traces and pictures.
    #[inline]
    pub fn task(&self, name: &'static str) -> TaskBuilder<'_, 'scope> {
        TaskBuilder {
            scope: self,
            name,
            index: 0,
            hints: Hints::default(),
            count: 0,
            after: SmallVec::new(),
        }
    }

    /// Registers a task without name that waits for `count` calls of [`Scope::resolve`]: paper 1's
    /// `register(token, count, entry, arg, T, S)`, where the closure is entry and argument at once.
    pub fn register<F>(&self, count: u32, t: TGroup, s: SGroup, entry: F) -> Token
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.task("task").groups(t, s).count(count).register(entry)
    }

    /// Resolves one of the counts that `task` was registered with (paper 1's `resolve(token)`). At the last one the task is ready, if
    /// it waits for no other task.
    ///
    /// # Errors
    /// [`GraphError::SurplusResolve`] where the task has no unresolved count. The whole graph then fails with that error, too.
    pub fn resolve(&self, task: Token) -> Result<(), GraphError> {
        resolve(self.graph(), self.pool(), self.worker_core(), task)
    }

    /// Makes `task`, which is not ready yet, wait for `other` as well.
    ///
    /// # Errors
    /// [`TooLate`] where `task` is ready already.
    ///
    /// # Panics
    /// Where a token is of another graph, or `task` has more than 2^20 - 2 dependencies.
    pub fn depend(&self, task: Token, other: Token) -> Result<(), TooLate> {
        self.own(task);
        self.own(other);
        let node = task.node.get();
        if !node.state.try_add_edge(task.generation) {
            return Err(TooLate);
        }
        if self.graph().marked {
            let run = task.run;
            let [task, other] = [task, other].map(|of| (of.node.address(), of.generation));
            marks::resolved(run, task);
            marks::edge(run, other, task);
        }
        if !wait_for(task.node, other.node, other.generation) && node.state.drop_edges(1) {
            self.make_ready(task.node);
        }
        Ok(())
    }

    /// A handle by which other threads resolve tasks of this graph. While one lives the graph does not end: so the body must not give
    /// it back as its result, and whoever forgets one makes [`Pool::scope`] wait for ever.
    pub fn resolver(&self) -> Resolver {
        self.graph().add_resolver();
        Resolver {
            graph: NonNull::from(self.graph()),
            pool: self.pool().shared(),
        }
    }

    /// Stops the graph: tasks that have not started are dropped, and [`Pool::scope`] gives [`GraphError::Cancelled`].
    pub fn cancel(&self) {
        self.graph().fail(GraphError::Cancelled);
    }

    /// Whether the graph was cancelled or has failed, so that long tasks can stop early.
    pub fn is_stopped(&self) -> bool {
        self.graph().must_skip()
    }

    /// The worker that runs this task; `None` in the body of the scope on a thread outside the pool.
    pub fn worker(&self) -> Option<WorkerId> {
        self.worker_core().map(|worker| worker.id)
    }

    fn own(&self, token: Token) {
        assert!(
            token.run == self.graph().run(),
            "a token of another graph: tokens are good only in the scope that they were made in"
        );
    }

    fn make_ready(&self, node: NodeRef) {
        self.graph().activate(1);
        // SAFETY: the node's last dependency was just dropped, by this thread alone.
        let ready = unsafe { Header::ready(node.header()) };
        self.graph()
            .make_ready(self.pool(), self.worker_core(), ready);
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("worker", &self.worker())
            .finish_non_exhaustive()
    }
}

/// A task that is being described. Nothing happens until [`TaskBuilder::register`].
#[derive(Debug)]
#[must_use = "a task exists only once it is registered"]
pub struct TaskBuilder<'a, 'scope> {
    scope: &'a Scope<'scope>,
    name: &'static str,
    index: u64,
    hints: Hints,
    count: u32,
    /// Node and generation of each task that it waits for.
    after: SmallVec<[(NodeRef, u32); 8]>,
}

impl<'scope> TaskBuilder<'_, 'scope> {
    /// Which of the tasks of this name it is.
    #[inline]
    pub fn index(mut self, index: u64) -> Self {
        self.index = index;
        self
    }

    /// Puts the task into a temporal and a spatial group.
    #[inline]
    pub fn groups(mut self, t: TGroup, s: SGroup) -> Self {
        (self.hints.t, self.hints.s) = (t.0, s.0);
        self
    }

    /// Sets the whole hint.
    #[inline]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// The task waits for `count` calls of [`Scope::resolve`], too.
    #[inline]
    pub fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// The task waits for these, too. Those that have ended already count for nothing.
    ///
    /// # Panics
    /// Where a token is of another graph.
    #[inline]
    pub fn after(mut self, tasks: impl IntoIterator<Item = Token>) -> Self {
        self.after.extend(tasks.into_iter().map(|token| {
            self.scope.own(token);
            (token.node, token.generation)
        }));
        self
    }

    /// Registers the task. It may run before this returns.
    ///
    /// Costs one node of the pool and a lock a dependency. Nodes are reused, so nothing is allocated in the long run, but for a closure
    /// above 64 bytes, a ninth dependency and the seventh task that waits for one.
    ///
    /// # Panics
    /// Where the task has more than 2^20 - 2 dependencies or counts.
    pub fn register<F>(self, entry: F) -> Token
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let scope = self.scope;
        let (graph, worker) = (scope.graph(), scope.worker_core());
        // All that can go wrong goes wrong before the node is filled: a filled node must become a task.
        let most = MAX_COUNT as usize;
        assert!(
            self.count as usize <= most && self.after.len() <= most,
            "a task waits for at most {most} others and for at most {most} resolves"
        );
        let node = worker::take_node(scope.pool(), worker);
        let cold = Cold {
            name: self.name,
            index: self.index,
            hints: self.hints,
        };
        let body = ErasedBody::new::<Scope<'scope>, F>(entry);
        // SAFETY: the node is free and ours; the graph's run ends before `'scope` does, because `Pool::scope` waits for it.
        let generation = unsafe {
            node.fill(
                std::ptr::from_ref(graph).cast_mut(),
                &Task::KIND,
                cold,
                self.after.len() as u32,
                self.count,
                body,
            )
        };
        graph.count_open(worker, 1);
        if graph.marked {
            mark(graph.run(), (node, generation), &cold, &self.after);
        }
        // The guard, and what has ended already.
        let mut dropped = 1;
        for &(other, generation) in &self.after {
            dropped += u32::from(!wait_for(node, other, generation));
        }
        if node.get().state.drop_edges(dropped) {
            scope.make_ready(node);
        }
        Token {
            node,
            generation,
            run: graph.run(),
        }
    }
}

/// Tells of a registered task and what it waits for; see [`marks`].
#[cold]
fn mark(run: u64, task: (NodeRef, u32), cold: &Cold, after: &[(NodeRef, u32)]) {
    let name = |(node, generation): (NodeRef, u32)| (node.address(), generation);
    let Cold {
        name: word,
        index,
        hints,
    } = *cold;
    let view = TaskView {
        name: word,
        index,
        hints,
    };
    marks::registered(run, name(task), &view);
    for &other in after {
        marks::edge(run, name(other), name(task));
    }
}

/// Puts `node` among those that wait for `other`, unless that has ended.
#[inline]
fn wait_for(node: NodeRef, other: NodeRef, generation: u32) -> bool {
    let other = other.get();
    // A generation comes back only after 2^32 tasks in one node: until then another one means that the task has ended, and the Acquire of
    // `generation` makes visible what it did. No lock is needed to know that.
    if other.generation() != generation {
        return false;
    }
    let mut successors = other.successors();
    let waits = other.generation() == generation;
    if waits {
        successors.push(node);
    }
    waits
}

fn resolve(
    graph: &GraphCore,
    pool: &PoolShared,
    worker: Option<&WorkerCore>,
    task: Token,
) -> Result<(), GraphError> {
    if graph.marked {
        marks::resolved(task.run, (task.node.address(), task.generation));
    }
    let resolved = if task.run == graph.run() {
        task.node.get().state.resolve(task.generation)
    } else {
        None
    };
    match resolved {
        Some(false) => Ok(()),
        Some(true) => {
            graph.activate(1);
            // SAFETY: the last count was just resolved, by this thread alone.
            let ready = unsafe { Header::ready(task.node.header()) };
            graph.make_ready(pool, worker, ready);
            Ok(())
        }
        None => {
            let error = GraphError::SurplusResolve {
                task: surplus_name(graph, task),
            };
            graph.fail(error.clone());
            Err(error)
        }
    }
}

/// The name of a task that was resolved once too often, as far as it can be told.
fn surplus_name(graph: &GraphCore, task: Token) -> String {
    if task.run != graph.run() {
        // Its node is not to be touched: its pool may be gone.
        return "of another graph".to_owned();
    }
    let node = task.node.get();
    let _ends_later = node.successors();
    if node.generation() == task.generation {
        // SAFETY: the lock keeps the task from ending, so it is filled and stays so; headers are written before tokens exist.
        unsafe { task.node.name() }
    } else {
        "that has ended".to_owned()
    }
}

/// Resolves tasks of one graph from any thread. The graph does not end while one lives, so whoever keeps one keeps [`Pool::scope`]
/// waiting.
pub struct Resolver {
    graph: NonNull<GraphCore>,
    pool: Arc<PoolShared>,
}

// SAFETY: graph cores are shared between threads by design; the pool keeps this one.
unsafe impl Send for Resolver {}
// SAFETY: as above.
unsafe impl Sync for Resolver {}

impl Resolver {
    fn graph(&self) -> &GraphCore {
        // SAFETY: cores live as long as their pool, which `self.pool` keeps.
        unsafe { self.graph.as_ref() }
    }

    /// Resolves one of the counts that `task` was registered with.
    ///
    /// # Errors
    /// [`GraphError::Forked`] in a child process;
    /// [`GraphError::SurplusResolve`] where the task has no unresolved count. The whole graph then fails with that error, too.
    pub fn resolve(&self, task: Token) -> Result<(), GraphError> {
        if self.pool.is_forked() {
            return Err(GraphError::Forked);
        }
        resolve(self.graph(), &self.pool, None, task)
    }
}

impl Clone for Resolver {
    fn clone(&self) -> Self {
        self.graph().add_resolver();
        Resolver {
            graph: self.graph,
            pool: Arc::clone(&self.pool),
        }
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.graph().drop_resolver();
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

/// A task of a dynamic graph.
struct Task;

impl Executable for Task {
    const OBSERVED: bool = true;

    unsafe fn run(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is the node's of a dynamic graph.
        let node = unsafe { NodeRef::from_header(header) };
        // SAFETY: a graph's core lives as long as its nodes' memory; a task that was lost and then discarded has none.
        let Some(graph) = (unsafe { node.graph().as_ref() }) else {
            foreign_task()
        };
        graph.check_pool(worker.pool());
        // SAFETY: this is the task's only run.
        let body = unsafe { node.take_body() };
        // SAFETY: all three outlive this call.
        let scope = unsafe { Scope::new(graph, worker.pool(), Some(worker)) };
        // SAFETY: the body was erased with `Scope<'scope>`, which differs only in its lifetime; the run is not over, so borrows live.
        let work = || unsafe {
            if graph.must_skip() {
                body.discard()
            } else {
                body.call(&scope)
            }
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            graph.panicked(payload);
        }
    }

    unsafe fn finish(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: as in `run`.
        let (node, graph) = unsafe {
            let node = NodeRef::from_header(header);
            (node, &*node.graph())
        };
        let mut waiting = node.end();
        worker::free_node(worker, node);
        graph.count_open(Some(worker), -1);
        waiting.retain(|next| next.get().state.drop_edges(1));
        graph.exchange(waiting.len());
        // SAFETY: each of these lost its last dependency just now, to this thread.
        let ready = waiting
            .into_iter()
            .map(|next| unsafe { Header::ready(next.header()) });
        if graph.releases_by_turn() {
            worker.released.borrow_mut().extend(ready);
        } else {
            ready.for_each(|task| graph.make_ready(worker.pool(), Some(worker), task));
        }
    }
}

/// Drops the tasks of a run that is over before they ran.
pub(super) fn discard(pool: &PoolShared, nodes: &[NodeRef]) {
    let mut free = Vec::with_capacity(nodes.len());
    for node in nodes {
        // SAFETY: the run is over and the task has not run: nobody else holds its body, and `'scope` still lives.
        let body = unsafe { node.take_body() };
        // A panic while dropping must not stop the others from being dropped.
        // SAFETY: as above.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { body.discard() }));
        if dropped.is_err() {
            eprintln!("tanada: a task that was never run panicked while it was dropped");
        }
        drop(node.end());
        free.push(*node);
    }
    pool.slab.give_back(&mut free, 0);
}

impl Pool {
    /// Runs a graph: `body` registers its first tasks, which may register more; returns when all have ended.
    ///
    /// `body` runs on this thread, at the same time as the tasks. On a worker of this pool (in a task) the worker runs tasks of the new
    /// graph while it waits, and no others.
    ///
    /// ```
    /// use tanada_runtime::Pool;
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let words = ["terraced", "fields"];
    /// let (mut a, mut b) = (0, 0);
    /// pool.scope(|s| {
    ///     let first = s.task("count").register(|_| a = words[0].len());
    ///     s.task("count").after([first]).register(|_| b = words[1].len());
    /// })?;
    /// assert_eq!((a, b), (8, 6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Where tasks are left that can never become ready ([`GraphError::Unresolved`], [`GraphError::Cycle`]), a task was resolved too
    /// often, the graph was cancelled, or the pool cannot run it.
    ///
    /// # Panics
    /// With the payload of the first task (or of the body) that panicked; tasks that had not started by then are dropped.
    pub fn scope<'scope, R>(
        &self,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        self.run_scope(None, body)
    }

    /// As [`Pool::scope`]; the graph stops when `cancel` says so.
    ///
    /// # Errors
    /// As [`Pool::scope`], and [`GraphError::Cancelled`].
    pub fn scope_with_cancel<'scope, R>(
        &self,
        cancel: &Cancel,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        self.run_scope(Some(cancel), body)
    }

    fn run_scope<'scope, R>(
        &self,
        cancel: Option<&Cancel>,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        let pool = self.usable()?;
        worker::with_current(pool, |worker| {
            let graph = pool.take_graph();
            graph.begin(pool, cancel, worker.is_some());
            // SAFETY: all three outlive this closure, and with it the scope, which the body cannot keep.
            let scope = unsafe { Scope::new(graph, pool, worker) };
            let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
            let result = result.map_err(|payload| graph.panicked(payload));
            graph.deactivate();
            graph.wait(pool, worker);
            let outcome = catch_unwind(AssertUnwindSafe(|| graph.outcome(pool)));
            pool.give_graph(graph);
            match outcome {
                Err(payload) => std::panic::resume_unwind(payload),
                Ok(outcome) => outcome.map(|()| {
                    result.unwrap_or_else(|()| unreachable!("a body that panicked fails its graph"))
                }),
            }
        })
    }
}
