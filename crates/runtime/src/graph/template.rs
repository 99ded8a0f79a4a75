//! Templates: graphs that are built once and run many times, for frame after frame.
//!
//! A [`Template`] holds the tasks, an [`Instance`] the counts of one run at a time. A run allocates nothing: each node sets its own
//! dependency count back when it starts, and only tasks without successors touch a counter that the run shares.

use super::core::foreign_task;
use super::{Cancel, GraphCore, S, T, order};
use crate::error::{GraphError, TaskNames};
use crate::pool::Pool;
use crate::slab::{Header, Kind, task_name};
use crate::worker::{self, WorkerCore};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use tanada_policy::{Hints, WorkerId};

type Body<'env, A> = Box<dyn Fn(&A, TemplateTask) + Send + Sync + 'env>;

/// Names a task of a template while it is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// What a template's task is told when it runs, beside the run's argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TemplateTask {
    /// The worker that runs it.
    pub worker: WorkerId,
}

struct Task<'env, A> {
    name: &'static str,
    index: u64,
    hints: Hints,
    successors: Vec<u32>,
    predecessors: u32,
    body: Body<'env, A>,
}

/// Builds a [`Template`] whose runs take an argument of type `A`.
pub struct TemplateBuilder<'env, A> {
    tasks: Vec<Task<'env, A>>,
}

impl<A> Default for TemplateBuilder<'_, A> {
    fn default() -> Self {
        TemplateBuilder { tasks: Vec::new() }
    }
}

impl<A> std::fmt::Debug for TemplateBuilder<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemplateBuilder")
            .field("tasks", &self.tasks.len())
            .finish()
    }
}

impl<'env, A> TemplateBuilder<'env, A> {
    /// A template without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task. Costs an allocation. `index` says which of the tasks of this name it is.
    pub fn task(
        &mut self,
        name: &'static str,
        index: u64,
        body: impl Fn(&A, TemplateTask) + Send + Sync + 'env,
    ) -> NodeId {
        let id = u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks");
        self.tasks.push(Task {
            name,
            index,
            hints: Hints::default(),
            successors: Vec::new(),
            predecessors: 0,
            body: Box::new(body),
        });
        NodeId(id)
    }

    /// Puts a task into groups.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
    pub fn groups(&mut self, task: NodeId, t: T, s: S) -> &mut Self {
        let hints = &mut self.tasks[task.0 as usize].hints;
        (hints.t, hints.s) = (t.0, s.0);
        self
    }

    /// Sets the whole hint of a task.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
    pub fn hints(&mut self, task: NodeId, hints: Hints) -> &mut Self {
        self.tasks[task.0 as usize].hints = hints;
        self
    }

    /// `later` waits for `earlier`.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
    pub fn edge(&mut self, earlier: NodeId, later: NodeId) -> &mut Self {
        self.tasks[earlier.0 as usize].successors.push(later.0);
        self.tasks[later.0 as usize].predecessors += 1;
        self
    }

    /// Checks the graph and fixes it, in time linear in tasks and dependencies. Groups are renumbered densely: their
    /// order stays, 0 stays 0.
    ///
    /// # Errors
    /// [`GraphError::Cycle`] where tasks wait for each other.
    pub fn build(mut self) -> Result<Template<'env, A>, GraphError> {
        let successors: Vec<Vec<usize>> = self
            .tasks
            .iter()
            .map(|task| task.successors.iter().map(|&next| next as usize).collect())
            .collect();
        if let Some(cycle) = order::cycle(&successors) {
            let name = |at: usize| task_name(self.tasks[at].name, self.tasks[at].index);
            return Err(GraphError::Cycle {
                tasks: TaskNames::collect(cycle.into_iter().map(name)),
            });
        }
        renumber(&mut self.tasks, |hints| &mut hints.t);
        renumber(&mut self.tasks, |hints| &mut hints.s);
        Ok(Template {
            tasks: self.tasks.into(),
        })
    }
}

/// Makes one kind of group dense, keeping the order of the numbers and 0.
fn renumber<A>(tasks: &mut [Task<'_, A>], group: impl Fn(&mut Hints) -> &mut u32) {
    let mut dense: BTreeMap<u32, u32> = tasks
        .iter_mut()
        .map(|task| (*group(&mut task.hints), 0))
        .collect();
    dense.remove(&0);
    for (number, place) in dense.values_mut().zip(1..) {
        *number = place;
    }
    for task in tasks {
        let group = group(&mut task.hints);
        *group = dense.get(group).copied().unwrap_or(0);
    }
}

/// A graph that is built once and run many times; see [`TemplateBuilder`].
///
/// ```
/// use tanada_runtime::{Pool, TemplateBuilder, T, S};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let mut builder = TemplateBuilder::<AtomicU32>::new();
/// let double = builder.task("double", 0, |frame, _| { frame.fetch_add(frame.load(Ordering::Relaxed), Ordering::Relaxed); });
/// let add = builder.task("add", 0, |frame, _| { frame.fetch_add(1, Ordering::Relaxed); });
/// builder.edge(double, add).groups(double, T(1), S(1));
/// let template = builder.build()?;
///
/// let pool = Pool::builder().workers(2).build()?;
/// let mut instance = template.instance();
/// for frame in 0..3 {
///     let frame = AtomicU32::new(frame);
///     let before = frame.load(Ordering::Relaxed);
///     instance.run(&pool, &frame)?;
///     assert_eq!(frame.into_inner(), 2 * before + 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Template<'env, A> {
    tasks: Arc<[Task<'env, A>]>,
}

impl<A> Clone for Template<'_, A> {
    fn clone(&self) -> Self {
        Template {
            tasks: Arc::clone(&self.tasks),
        }
    }
}

impl<A> std::fmt::Debug for Template<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template")
            .field("tasks", &self.tasks.len())
            .finish()
    }
}

impl<'env, A> Template<'env, A> {
    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// How many dependencies it has.
    pub fn edges(&self) -> usize {
        self.tasks.iter().map(|task| task.successors.len()).sum()
    }

    /// Makes room for one run at a time: two allocations, about 120 bytes a task. Several instances can run at once.
    pub fn instance(&self) -> Instance<'env, A> {
        let run = Box::new(Run {
            arg: AtomicPtr::default(),
            graph: AtomicPtr::default(),
            sinks: AtomicUsize::new(0),
        });
        let run = NonNull::new(Box::into_raw(run)).expect("a box is not null");
        let nodes: Box<[Node<'env, A>]> = self
            .tasks
            .iter()
            .enumerate()
            .map(|(at, task)| Node {
                header: Header {
                    kind: &NodeKind::<A>::KIND,
                    name: task.name,
                    index: task.index,
                    hints: task.hints,
                },
                unresolved: AtomicU32::new(task.predecessors),
                at: u32::try_from(at).expect("checked by the builder"),
                run,
                tasks: NonNull::from(&*self.tasks),
                first: NonNull::dangling(),
            })
            .collect();
        let len = nodes.len();
        let first =
            NonNull::new(Box::into_raw(nodes).cast::<Node<'env, A>>()).expect("a box is not null");
        for at in 0..len {
            // SAFETY: inside the allocation, which is ours alone.
            unsafe { (*first.as_ptr().add(at)).first = first };
        }
        Instance {
            template: self.clone(),
            first,
            len,
            run,
            lost: None,
        }
    }
}

/// What the nodes of an instance share during a run.
struct Run<A> {
    arg: AtomicPtr<A>,
    graph: AtomicPtr<GraphCore>,
    /// Tasks without successors that have not ended.
    sinks: AtomicUsize,
}

#[repr(C)]
struct Node<'env, A> {
    header: Header,
    unresolved: AtomicU32,
    at: u32,
    run: NonNull<Run<A>>,
    tasks: NonNull<[Task<'env, A>]>,
    first: NonNull<Node<'env, A>>,
}

impl<'env, A> Node<'env, A> {
    fn run(&self) -> &Run<A> {
        // SAFETY: the instance frees it after the nodes.
        unsafe { self.run.as_ref() }
    }

    fn task(&self) -> &Task<'env, A> {
        // SAFETY: the instance holds the template.
        unsafe { &self.tasks.as_ref()[self.at as usize] }
    }

    fn graph(&self) -> &GraphCore {
        // SAFETY: null or the core of the run that goes on, which lives as long as its pool.
        let graph = unsafe { self.run().graph.load(Ordering::Relaxed).as_ref() };
        graph.unwrap_or_else(|| foreign_task())
    }

    fn sibling(&self, at: u32) -> NonNull<Node<'env, A>> {
        // SAFETY: successors are nodes of the same instance.
        unsafe { self.first.add(at as usize) }
    }
}

/// Room for one run of a template at a time.
pub struct Instance<'env, A> {
    template: Template<'env, A>,
    first: NonNull<Node<'env, A>>,
    len: usize,
    run: NonNull<Run<A>>,
    /// A policy lost tasks of this instance: it may still hold them, so the instance does not run again and its memory stays.
    lost: Option<GraphError>,
}

// SAFETY: the nodes are this instance's own; bodies are `Send + Sync`, the argument is shared only if it is `Sync` (see `run`).
unsafe impl<A> Send for Instance<'_, A> {}

impl<A> Drop for Instance<'_, A> {
    fn drop(&mut self) {
        if self.lost.is_some() {
            std::mem::forget(self.template.clone());
            return;
        }
        // SAFETY: from `Box::into_raw`; no run is going on, because `run` borrows the instance until its end.
        unsafe {
            drop(Box::from_raw(
                NonNull::slice_from_raw_parts(self.first, self.len).as_ptr(),
            ));
            drop(Box::from_raw(self.run.as_ptr()));
        }
    }
}

impl<A> std::fmt::Debug for Instance<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("tasks", &self.len)
            .finish()
    }
}

impl<A: Sync> Instance<'_, A> {
    /// Runs the template once with `arg`, on `pool`; returns when all tasks have ended. Allocates nothing once the policy's queues have
    /// grown to what the template needs (except on a worker of that pool, where the run is nested).
    ///
    /// # Errors
    /// [`GraphError::Forked`], and [`GraphError::PolicyLost`], after which the instance does not run again.
    ///
    /// # Panics
    /// With the payload of the first task that panicked; tasks that had not started by then are skipped.
    pub fn run(&mut self, pool: &Pool, arg: &A) -> Result<(), GraphError> {
        self.start(pool, arg, None)
    }

    /// As [`Instance::run`]; the run stops when `cancel` says so.
    ///
    /// # Errors
    /// As [`Instance::run`], and [`GraphError::Cancelled`].
    pub fn run_with_cancel(
        &mut self,
        pool: &Pool,
        arg: &A,
        cancel: &Cancel,
    ) -> Result<(), GraphError> {
        self.start(pool, arg, Some(cancel))
    }

    fn start(&mut self, pool: &Pool, arg: &A, cancel: Option<&Cancel>) -> Result<(), GraphError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let pool = pool.usable()?;
        worker::with_current(pool, |worker| {
            let graph = pool.take_graph();
            graph.begin(cancel, worker.is_some());
            let tasks = &self.template.tasks;
            // SAFETY: the run block lives as long as the instance.
            let run = unsafe { self.run.as_ref() };
            run.arg
                .store(std::ptr::from_ref(arg).cast_mut(), Ordering::Relaxed);
            run.graph
                .store(std::ptr::from_ref(graph).cast_mut(), Ordering::Relaxed);
            let sinks = tasks
                .iter()
                .filter(|task| task.successors.is_empty())
                .count();
            run.sinks.store(sinks, Ordering::Relaxed);
            if sinks == 0 {
                graph.deactivate();
            }
            for (at, task) in tasks.iter().enumerate() {
                if task.predecessors == 0 {
                    // SAFETY: inside the allocation; the node has no dependency, is made ready once a run, and stays until the run ends.
                    let ready = unsafe { Header::ready(self.first.add(at).cast()) };
                    graph.make_ready(pool, worker, ready);
                }
            }
            graph.wait(pool, worker);
            let outcome = catch_unwind(AssertUnwindSafe(|| graph.outcome(pool)));
            run.graph.store(std::ptr::null_mut(), Ordering::Relaxed);
            if let Ok(Err(error @ GraphError::PolicyLost { .. })) = &outcome {
                self.lost = Some(error.clone());
            }
            pool.give_graph(graph);
            outcome.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        })
    }
}

struct NodeKind<A>(std::marker::PhantomData<A>);

impl<A> NodeKind<A> {
    const KIND: Kind = Kind {
        observed: true,
        run: Self::run,
        finish: Self::finish,
    };

    /// Safety: see [`Kind::run`].
    unsafe fn run(header: NonNull<Header>, worker: &dyn WorkerCore) {
        // SAFETY: the header is the first field of a node whose instance waits for its run.
        let node = unsafe { header.cast::<Node<'_, A>>().as_ref() };
        let graph = node.graph();
        graph.check_pool(worker.shared());
        // For the next run: in this one nobody resolves this node any more.
        node.unresolved
            .store(node.task().predecessors, Ordering::Relaxed);
        if graph.must_skip() {
            return;
        }
        // SAFETY: the argument is borrowed for the length of the run, and shared between threads only where it is `Sync`.
        let arg = unsafe { &*node.run().arg.load(Ordering::Relaxed) };
        let work = || {
            (node.task().body)(
                arg,
                TemplateTask {
                    worker: worker.id(),
                },
            )
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            graph.panicked(payload);
        }
    }

    /// Safety: see [`Kind::finish`].
    unsafe fn finish(header: NonNull<Header>, worker: &dyn WorkerCore) {
        // SAFETY: as in `run`.
        let node = unsafe { header.cast::<Node<'_, A>>().as_ref() };
        let graph = node.graph();
        let task = node.task();
        if task.successors.is_empty() {
            if node.run().sinks.fetch_sub(1, Ordering::AcqRel) == 1 {
                graph.deactivate();
            }
            return;
        }
        let by_turn = graph.releases_by_turn();
        for &next in &task.successors {
            let next = node.sibling(next);
            // SAFETY: nodes live as long as the instance.
            let unresolved = unsafe { &next.as_ref().unresolved };
            // A count that reads 1 is the last: nobody else can change it, so no atomic subtraction is needed.
            if unresolved.load(Ordering::Acquire) == 1
                || unresolved.fetch_sub(1, Ordering::AcqRel) == 1
            {
                // SAFETY: the last dependency is resolved, by this thread alone.
                let ready = unsafe { Header::ready(next.cast()) };
                if by_turn {
                    worker.released().borrow_mut().push(ready);
                } else {
                    graph.make_ready(worker.shared(), Some(worker), ready);
                }
            }
        }
    }
}
