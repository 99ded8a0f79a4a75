//! Templates: graphs that are built once and run many times, for frame after frame.
//!
//! A [`Template`] holds the tasks, an [`Instance`] the counts of its runs (see [`super::run`]).

use super::bodies::{Bodies, Body};
use super::edges::{self, Edges};
use super::instance::Instance;
use super::{SGroup, TGroup, order};
use crate::error::{GraphError, TaskNames};
use crate::graph::slab::{Cold, task_name};
use std::sync::Arc;
use tanada_policy::{Hints, WorkerId};

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

/// What a template keeps of a task, apart from its edges.
pub(super) struct Task<'env, A> {
    pub(super) cold: Cold,
    pub(super) body: Body<'env, A>,
}

/// Builds a [`Template`] whose runs take an argument of type `A`.
pub struct TemplateBuilder<'env, A> {
    tasks: Vec<Task<'env, A>>,
    bodies: Bodies<'env, A>,
    /// (earlier, later), in the order of declaration.
    edges: Vec<(u32, u32)>,
    /// Whether some task was declared to wait for a later declared one: without that there can be no cycle.
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
    /// A template without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task. `index` says which of the tasks of this name it is. The closure is kept beside its neighbours, without an
    /// allocation of its own.
    pub fn task(
        &mut self,
        name: &'static str,
        index: u64,
        body: impl Fn(&A, TemplateTask) + Send + Sync + 'env,
    ) -> NodeId {
        let id = u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks");
        let cold = Cold {
            name,
            index,
            hints: Hints::default(),
        };
        let body = self.bodies.add(body);
        self.tasks.push(Task { cold, body });
        NodeId(id)
    }

    /// Puts a task into groups.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
    pub fn groups(&mut self, task: NodeId, t: TGroup, s: SGroup) -> &mut Self {
        let hints = &mut self.tasks[task.0 as usize].cold.hints;
        (hints.t, hints.s) = (t.0, s.0);
        self
    }

    /// Sets the whole hint of a task.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
    pub fn hints(&mut self, task: NodeId, hints: Hints) -> &mut Self {
        self.tasks[task.0 as usize].cold.hints = hints;
        self
    }

    /// `later` waits for `earlier`.
    ///
    /// # Panics
    /// Where the template that is being built has no such task. (A [`NodeId`] of another builder is not noticed otherwise.)
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

    /// Checks the graph and fixes it, in time linear in tasks and dependencies (for tasks of many dependencies: in the sum of products
    /// of neighbouring degrees, up to a limit). Groups are renumbered densely: their order stays, 0 stays 0. A dependency that two
    /// others in a row imply is dropped: it never is the last to be resolved, so nothing but the work of resolving it changes.
    ///
    /// # Errors
    /// [`GraphError::Cycle`] where tasks wait for each other.
    pub fn build(mut self) -> Result<Template<'env, A>, GraphError> {
        let declared = self.edges.len();
        let edges = Edges::new(self.tasks.len(), &self.edges);
        if self.backwards
            && let Some(cycle) = order::cycle(&edges)
        {
            let name = |at: usize| {
                let Cold { name, index, .. } = self.tasks[at].cold;
                task_name(name, index)
            };
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

/// Makes one kind of group dense, keeping the order of the numbers and 0.
fn renumber<A>(tasks: &mut [Task<'_, A>], group: impl Fn(&mut Hints) -> &mut u32) {
    let mut used: Vec<u32> = vec![0];
    for task in &mut *tasks {
        let number = *group(&mut task.cold.hints);
        if used.last() != Some(&number) {
            used.push(number);
        }
    }
    used.sort_unstable();
    used.dedup();
    let mut last = (0, 0);
    for task in tasks {
        let group = group(&mut task.cold.hints);
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
pub struct Template<'env, A>(pub(super) Arc<Shape<'env, A>>);

/// What all instances of a template share.
pub(super) struct Shape<'env, A> {
    pub(super) tasks: Vec<Task<'env, A>>,
    pub(super) edges: Edges,
    /// How many tasks each waits for, without the implied ones.
    pub(super) predecessors: Vec<u32>,
    /// Tasks that wait for nobody.
    pub(super) roots: Vec<u32>,
    /// How many tasks nobody waits for.
    pub(super) sinks: usize,
    /// Edges before implied ones were dropped.
    declared: usize,
    /// What `tasks` point into.
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
    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    /// How many dependencies were declared.
    pub fn edges(&self) -> usize {
        self.0.declared
    }

    /// Makes room for one run at a time: 132 bytes a task. Several instances can run at once.
    pub fn instance(&self) -> Instance<'env, A> {
        self.instances(1)
    }

    /// Makes room for `rooms` runs at a time, for [`Instance::run_each`] with arguments that do not depend on each other.
    ///
    /// # Panics
    /// Where `rooms` is 0.
    pub fn instances(&self, rooms: usize) -> Instance<'env, A> {
        assert!(rooms > 0, "an instance has room for at least one run");
        Instance::new(self.clone(), rooms)
    }
}
