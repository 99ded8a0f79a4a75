//! Templates: graphs that are built once and run many times, for frame after frame.
//!
//! A [`Template`] holds the tasks and their dependencies, an [`Instance`] the counts of its runs (module `room`).

mod bodies;
mod instance;
mod room;
mod shares;

pub use instance::Instance;

use super::edges::{self, Edges};
use super::order;
use super::scope::{SGroup, TGroup};
use crate::error::{GraphError, TaskNames};
use crate::executable::Description;
use crate::name::Name;
use crate::observer;
use bodies::{Bodies, Body};
use std::panic::Location;
use std::sync::Arc;
use tanada_policy::{Hints, WorkerId};

/// Names a task of a template while it is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// What a task of a template gets when it runs, beside the run's argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TemplateTask {
    /// The worker that runs the task.
    pub worker: WorkerId,
}

/// What a template keeps of a task, apart from its edges.
struct Task<'env, A> {
    description: Description,
    body: Body<'env, A>,
}

/// Builds a [`Template`] whose runs take an argument of type `A`.
pub struct TemplateBuilder<'env, A> {
    tasks: Vec<Task<'env, A>>,
    bodies: Bodies<'env, A>,
    /// Pairs (earlier, later), in the order of declaration.
    edges: Vec<(u32, u32)>,
    /// Whether some task waits for one that was added after it. Only then can there be a cycle.
    backwards: bool,
}

impl<A> Default for TemplateBuilder<'_, A> {
    fn default() -> Self {
        TemplateBuilder {
            tasks: Vec::new(),
            bodies: Bodies::default(),
            edges: Vec::new(),
            backwards: false,
        }
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
    /// Returns a template without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task, the `index`th of its name, and returns its number. The closure is stored beside those of its neighbours, without an
    /// allocation of its own.
    ///
    /// # Panics
    /// If there are 2^32 tasks.
    #[inline]
    #[track_caller]
    pub fn task(
        &mut self,
        name: impl Into<Name>,
        index: u64,
        body: impl Fn(&A, TemplateTask) + Send + Sync + 'env,
    ) -> NodeId {
        let id = u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks");
        let description = Description {
            name: name.into().as_str(),
            index,
            hints: Hints::default(),
        };
        let body = self.bodies.add(body);
        if self
            .tasks
            .last()
            .is_none_or(|last| !std::ptr::eq(last.description.name, description.name))
        {
            observer::described(description.name, Location::caller());
        }
        self.tasks.push(Task { description, body });
        NodeId(id)
    }

    /// Puts a task into groups.
    ///
    /// # Panics
    /// If this builder has no task of that number. (A [`NodeId`] of another builder is not detected otherwise.)
    pub fn groups(&mut self, task: NodeId, t: TGroup, s: SGroup) -> &mut Self {
        let hints = &mut self.tasks[task.0 as usize].description.hints;
        (hints.t, hints.s) = (t.0, s.0);
        self
    }

    /// Sets the whole hint of a task.
    ///
    /// # Panics
    /// If this builder has no task of that number. (A [`NodeId`] of another builder is not detected otherwise.)
    pub fn hints(&mut self, task: NodeId, hints: Hints) -> &mut Self {
        self.tasks[task.0 as usize].description.hints = hints;
        self
    }

    /// Makes `later` wait for `earlier`.
    ///
    /// # Panics
    /// If this builder has no task of that number. (A [`NodeId`] of another builder is not detected otherwise.)
    pub fn edge(&mut self, earlier: NodeId, later: NodeId) -> &mut Self {
        let (earlier, later) = (earlier.0, later.0);
        let known = self.tasks.len();
        assert!(
            (earlier as usize) < known && (later as usize) < known,
            "the template that is being built has only {known} tasks"
        );
        self.backwards |= earlier >= later;
        self.edges.push((earlier, later));
        self
    }

    /// Checks the graph and returns it as a template.
    ///
    /// - Groups are renumbered densely: their order stays, 0 stays 0.
    /// - A dependency that two others in a row imply is dropped, because it is never the last one to be resolved: A -> C, if A -> B and
    ///   B -> C.
    ///
    /// Costs time linear in tasks and dependencies, times the number of successors a task has, up to a constant limit.
    ///
    /// # Errors
    /// [`GraphError::Cycle`] if tasks wait for each other.
    pub fn build(mut self) -> Result<Template<'env, A>, GraphError> {
        let declared = self.edges.len();
        let edges = Edges::new(self.tasks.len(), &self.edges);
        if self.backwards
            && let Some(cycle) = order::cycle(&edges)
        {
            let name = |at: usize| self.tasks[at].description.view(0).to_string();
            return Err(GraphError::Cycle {
                tasks: TaskNames::collect(cycle.into_iter().map(name)),
            });
        }
        renumber(&mut self.tasks, |hints| &mut hints.t);
        renumber(&mut self.tasks, |hints| &mut hints.s);
        let edges = edges::without_implied(edges);
        let predecessors = edges.predecessors();
        let sinks = (0..edges.nodes()).filter(|&at| edges.of(at).is_empty());
        Ok(Template(Arc::new(Shape {
            sinks: sinks.count(),
            roots: (0..)
                .zip(&predecessors)
                .filter(|(_, count)| **count == 0)
                .map(|(at, _)| at)
                .collect(),
            predecessors,
            edges,
            tasks: self.tasks,
            declared,
            _bodies: self.bodies,
        })))
    }
}

/// Renumbers one kind of group densely, keeping the order of the numbers and 0.
fn renumber<A>(tasks: &mut [Task<'_, A>], group: impl Fn(&mut Hints) -> &mut u32) {
    let mut used: Vec<u32> = vec![0];
    for task in &mut *tasks {
        let number = *group(&mut task.description.hints);
        if used.last() != Some(&number) {
            used.push(number);
        }
    }
    used.sort_unstable();
    used.dedup();
    let mut last = (0, 0);
    for task in tasks {
        let group = group(&mut task.description.hints);
        if *group != last.0 {
            let place = used.binary_search(group).expect("all were collected");
            last = (*group, place as u32);
        }
        *group = last.1;
    }
}

/// A graph that is built once and run many times; see [`TemplateBuilder`].
///
/// ```
/// use tanada_runtime::{Pool, TemplateBuilder, TGroup, SGroup};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let mut builder = TemplateBuilder::<AtomicU32>::new();
/// let double = builder.task("double", 0, |frame, _| { frame.fetch_add(frame.load(Ordering::Relaxed), Ordering::Relaxed); });
/// let add = builder.task("add", 0, |frame, _| { frame.fetch_add(1, Ordering::Relaxed); });
/// builder.edge(double, add).groups(double, TGroup(1), SGroup(1));
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
pub struct Template<'env, A>(Arc<Shape<'env, A>>);

/// What all instances of a template share.
struct Shape<'env, A> {
    tasks: Vec<Task<'env, A>>,
    edges: Edges,
    /// For each task the number of its dependencies, without the implied ones.
    predecessors: Vec<u32>,
    /// Tasks without dependencies.
    roots: Vec<u32>,
    /// Number of tasks without successors.
    sinks: usize,
    /// Number of edges before implied ones were dropped.
    declared: usize,
    /// Owns the closures that `tasks` point to.
    _bodies: Bodies<'env, A>,
}

impl<A> Clone for Template<'_, A> {
    fn clone(&self) -> Self {
        Template(Arc::clone(&self.0))
    }
}

impl<A> std::fmt::Debug for Template<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template")
            .field("tasks", &self.tasks())
            .finish()
    }
}

impl<'env, A> Template<'env, A> {
    /// Returns the number of its tasks.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    /// Returns the number of declared dependencies.
    pub fn edges(&self) -> usize {
        self.0.declared
    }

    /// Returns room for one run at a time, of 132 bytes for each task. Several instances can run at the same time.
    pub fn instance(&self) -> Instance<'env, A> {
        self.instances(1)
    }

    /// Returns room for `rooms` runs at a time, for [`Instance::run_each`] with arguments that do not depend on each other.
    ///
    /// # Panics
    /// If `rooms` is 0.
    pub fn instances(&self, rooms: usize) -> Instance<'env, A> {
        assert!(rooms > 0, "an instance has room for at least one run");
        Instance::new(self.clone(), rooms)
    }
}
