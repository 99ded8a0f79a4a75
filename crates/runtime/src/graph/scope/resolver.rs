//! How counts are resolved: in the graph, and from other threads.

use super::Token;
use crate::error::GraphError;
use crate::graph::GraphCore;
use crate::graph::context::Context;
use crate::graph::observer::GraphObserver;
use crate::graph::slab::Surplus;
use crate::pool::PoolShared;
use std::fmt;
use std::sync::Arc;

/// Resolves tasks of one graph from any thread. The graph does not end while a `Resolver` lives, so [`Pool::scope`](crate::Pool::scope)
/// waits for all of them to be dropped.
pub struct Resolver {
    graph: Arc<GraphCore>,
    pool: Arc<PoolShared>,
}

impl Resolver {
    pub(super) fn new(context: Context<'_>) -> Self {
        context.graph.add_resolver();
        Resolver {
            graph: context.graph.shared(),
            pool: context.pool.shared(),
        }
    }

    /// Resolves one of the counts that `task` was registered with.
    ///
    /// # Errors
    /// Returns an error:
    ///
    /// - [`GraphError::Forked`] in a child process;
    /// - [`GraphError::SurplusResolve`] if the task has no unresolved count. The whole graph then fails with that error, too.
    pub fn resolve(&self, task: Token) -> Result<(), GraphError> {
        let context = Context {
            graph: &self.graph,
            pool: &self.pool,
            worker: None,
            outside: None,
        };
        resolve(context, task)
    }
}

impl Clone for Resolver {
    fn clone(&self) -> Self {
        self.graph.add_resolver();
        Resolver {
            graph: Arc::clone(&self.graph),
            pool: Arc::clone(&self.pool),
        }
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        if !self.pool.is_forked() {
            self.graph.drop_resolver();
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// Resolves one count of `task`; returns an error if its graph is another one: the count is then a surplus.
pub(super) fn resolve(context: Context<'_>, task: Token) -> Result<(), GraphError> {
    if context.pool.is_forked() {
        return Err(GraphError::Forked);
    }
    match context.graph.watch.0 {
        None => resolve_unwatched(context, task),
        Some(watch) => resolve_watched(watch, context, task),
    }
}

/// As [`resolve`], between two reports to the graph's observer.
#[cold]
fn resolve_watched(
    watch: &dyn GraphObserver,
    context: Context<'_>,
    task: Token,
) -> Result<(), GraphError> {
    watch.resolves(task.run_id, task.id());
    let result = resolve_unwatched(context, task);
    watch.acted();
    result
}

#[inline(always)]
fn resolve_unwatched(context: Context<'_>, task: Token) -> Result<(), GraphError> {
    let graph = context.graph;
    let resolved = if task.run_id == graph.run_id() {
        task.node.resolve(task.generation)
    } else {
        Err(Surplus)
    };
    match resolved {
        Ok(Some(ready)) => context.activate(ready),
        Ok(None) => {}
        Err(Surplus) => {
            let error = GraphError::SurplusResolve {
                task: surplus_name(graph, task),
            };
            graph.fail(error.clone());
            return Err(error);
        }
    }
    Ok(())
}

/// Returns how the error names a task that was resolved once too often, as far as it is still known.
fn surplus_name(graph: &GraphCore, task: Token) -> String {
    if task.run_id != graph.run_id() {
        // The node is not touched: its pool may be gone.
        return "of another graph".to_owned();
    }
    let _ends_later = task.node.waiting();
    if task.node.generation() == task.generation {
        // SAFETY: a token exists only for a filled node, and the lock keeps the task from ending.
        unsafe { task.node.view() }.to_string()
    } else {
        "that has ended".to_owned()
    }
}
