//! How a task is described and registered.

use super::task::Task;
use super::{Scope, Token};
use crate::executable::Description;
use crate::graph::context::Context;
use crate::graph::observer::{GraphObserver, TaskId};
use crate::graph::slab::{MAX_COUNT, NodeRef};
use smallvec::SmallVec;
use std::panic::Location;
use tanada_policy::{Hints, Ready};

/// A temporal group: tasks of one T group should run close in time, on any worker. `TGroup(0)` is the exception group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TGroup(pub u32);

/// A spatial group: tasks of one S group should run on one worker. `SGroup(0)` is the exception group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SGroup(pub u32);

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

impl<'a, 'scope> TaskBuilder<'a, 'scope> {
    #[inline]
    pub(super) fn new(scope: &'a Scope<'scope>, name: &'static str) -> Self {
        TaskBuilder {
            scope,
            name,
            index: 0,
            hints: Hints::default(),
            count: 0,
            after: SmallVec::new(),
        }
    }

    /// Sets the task's number among the tasks of its name; by default 0. Messages and traces show it.
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

    /// Makes the task wait for `count` calls of [`Scope::resolve`], too.
    #[inline]
    pub fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// Makes the task wait for these, too. Tasks that have ended are allowed, and are not waited for.
    ///
    /// # Panics
    /// If a token is of another graph.
    #[inline]
    pub fn after(mut self, tasks: impl IntoIterator<Item = Token>) -> Self {
        self.after.extend(tasks.into_iter().map(|token| {
            self.scope.check(token);
            // A lock waits for all loads before it: without this, the nodes would be loaded one by one.
            token.node.prefetch();
            (token.node, token.generation)
        }));
        self
    }

    /// Registers the task. It may run before this returns. (In a child of `fork(2)` it is leaked.)
    ///
    /// If more than 32,768 tasks of the graph are ready, a worker that registers one more runs some of the ready tasks before this returns:
    /// a body that registers that many must not hold a lock that they take. Any other thread waits until half of them have run, unless none
    /// ends for 10 ms. So a loop that registers without end needs bounded memory.
    ///
    /// Costs one node of the pool, of 128 bytes, and a lock for each dependency; one node more for a closure above 48 bytes, for hints
    /// beside the groups, for the fourth task that waits for one and for each eight behind that. Nodes are reused, so in the long run only
    /// these allocate: a closure above 72 bytes, and a ninth dependency.
    ///
    /// # Panics
    /// If the task has more than 2^20 - 2 dependencies or counts.
    #[track_caller]
    pub fn register<F>(self, entry: F) -> Token
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let context = self.scope.context();
        let (graph, after) = (context.graph, &self.after[..]);
        if context.pool.is_forked() {
            std::mem::forget(entry);
            return Token {
                node: NodeRef::dangling(),
                generation: 0,
                run_id: graph.run_id(),
            };
        }
        // All checks come before the node is filled: a filled node must become a task.
        let most = MAX_COUNT as usize;
        assert!(
            self.count as usize <= most && after.len() <= most,
            "a task waits for at most {most} others and for at most {most} resolves"
        );
        let node = context.take_node();
        let description = Description {
            name: self.name,
            index: self.index,
            hints: self.hints,
        };
        let (edges, count) = (after.len() as u32, self.count);
        // SAFETY: the node is free and this thread's. The graph's run ends before `'scope` does, because `Pool::scope` waits for it. A
        // `Task` is a node whose body is called with a `Scope`.
        let (generation, ready) = unsafe {
            let take = || context.borrow_node();
            node.fill::<Task, Scope<'scope>, F>(graph, &description, (edges, count), take, entry)
        };
        let token = Token {
            node,
            generation,
            run_id: graph.run_id(),
        };
        graph.count_open(context.worker, 1);
        match graph.watch.0 {
            None => complete(context, node, after, ready),
            Some(watch) => {
                let line = Location::caller();
                complete_watched(watch, context, token, (&description, line), after, ready);
            }
        }
        token
    }
}

/// Lets a node wait for `after`, and activates its task if that is ready.
#[inline(always)]
fn complete(context: &Context<'_>, node: NodeRef, after: &[(NodeRef, u32)], ready: Option<Ready>) {
    let ready = match ready {
        Some(ready) => Some(ready),
        None => {
            // The guard, and the edges from tasks that have ended.
            let mut dropped = 1;
            for &(earlier, generation) in after {
                // SAFETY: a node that was taken is free, and this thread's.
                let waits =
                    unsafe { earlier.add_successor(generation, node, || context.borrow_node()) };
                dropped += u32::from(!waits);
            }
            node.drop_edges(dropped)
        }
    };
    if let Some(ready) = ready {
        context.activate_registered(ready);
    }
}

/// As [`complete`], between two reports to the graph's observer.
#[cold]
fn complete_watched(
    watch: &dyn GraphObserver,
    context: &Context<'_>,
    token: Token,
    (description, line): (&Description, &'static Location<'static>),
    after: &[(NodeRef, u32)],
    ready: Option<Ready>,
) {
    let id = token.id();
    let view = description.view(id.address);
    watch.registered(token.run_id, id, &view, Some(line));
    for &(earlier, generation) in after {
        watch.edge(token.run_id, TaskId::new(earlier, generation), id);
    }
    complete(context, token.node, after, ready);
    watch.acted();
}
