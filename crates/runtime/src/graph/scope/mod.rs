//! Dynamic graphs: tasks that are registered while the graph runs (paper 1's `register` and `resolve`).

mod builder;
mod resolver;
mod task;

pub use builder::{SGroup, TGroup, TaskBuilder};
pub use resolver::Resolver;
pub(super) use task::discard;

use super::context::{Context, Outside};
use super::core::Cancel;
use super::observer::TaskId;
use super::slab::NodeRef;
use crate::error::GraphError;
use crate::name::Name;
use crate::pool::Pool;
use crate::worker::{self, EndOnPanic};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tanada_policy::WorkerId;

/// Names a registered task, so that other tasks can wait for it or resolve it. A token keeps nothing alive: the token of a task that has
/// ended stays valid and means "nothing to wait for".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    node: NodeRef,
    generation: u32,
    run_id: u64,
}

impl Token {
    fn id(&self) -> TaskId {
        TaskId::new(self.node, self.generation)
    }
}

/// A dependency came too late: the task that was to wait is ready already, or has run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TooLate;

impl fmt::Debug for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the task is ready already, so it can wait for nothing more; keep a count unresolved until its last dependency is known",
        )
    }
}

impl std::error::Error for TooLate {}

/// A graph that runs while it is being registered.
///
/// [`Pool::scope`] passes one to its body, and every task gets one for as long as it runs, to register further tasks and to resolve
/// others. Tasks may borrow whatever outlives `'scope`.
///
/// A scope stays on its thread; other threads use a [`Scope::resolver`].
///
/// ```compile_fail,E0277
/// # let pool = tanada_runtime::Pool::builder().workers(1).build().unwrap();
/// pool.scope(|s| {
///     std::thread::scope(|threads| {
///         threads.spawn(|| s.task("elsewhere").register(|_| ()));
///     });
/// });
/// ```
pub struct Scope<'scope> {
    /// Its lifetime is not `'static`, but that of the call that the scope is passed to.
    context: Context<'static>,
    /// Invariant in `'scope`: otherwise a body could choose a shorter lifetime for what its tasks borrow.
    marker: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope> Scope<'scope> {
    /// Returns the scope of `context`.
    ///
    /// # Safety
    /// The references in `context` outlive the scope, and its worker is the one that this thread is.
    #[inline]
    unsafe fn new(context: Context<'_>) -> Self {
        Scope {
            // SAFETY: only the lifetime changes; `Scope::context` returns it shortened to a borrow of the scope (caller).
            context: unsafe { std::mem::transmute::<Context<'_>, Context<'static>>(context) },
            marker: PhantomData,
        }
    }

    /// By reference: a copy of what was stored a moment ago, in words, would be loaded in pairs of words, for which a processor has to wait
    /// until they have left its store buffer.
    #[inline]
    fn context(&self) -> &Context<'_> {
        &self.context
    }

    /// Returns the builder of a task called `name`, which [`TaskBuilder::register`] completes. Messages, traces and pictures show the name.
    /// A `&'static str` costs nothing; see [`Name`] for others.
    #[inline]
    pub fn task(&self, name: impl Into<Name>) -> TaskBuilder<'_, 'scope> {
        TaskBuilder::new(self, name.into().as_str())
    }

    /// Resolves one of the counts that `task` was registered with (paper 1's `resolve(token)`). The last one makes the task ready, unless
    /// it waits for other tasks.
    ///
    /// # Errors
    /// Returns an error:
    ///
    /// - [`GraphError::Forked`] in a child process;
    /// - [`GraphError::SurplusResolve`] if the task has no unresolved count. The whole graph then fails with that error, too.
    pub fn resolve(&self, task: Token) -> Result<(), GraphError> {
        resolver::resolve(*self.context(), task)
    }

    /// Makes `task`, which is not ready yet, wait for `other` as well.
    ///
    /// # Errors
    /// Returns [`TooLate`] if `task` is ready already.
    ///
    /// # Panics
    /// If a token is of another graph, or `task` has more than 2^20 - 2 dependencies.
    pub fn depend(&self, task: Token, other: Token) -> Result<(), TooLate> {
        let context = self.context();
        self.check(task);
        self.check(other);
        if context.pool.is_forked() {
            return Ok(());
        }
        if !task.node.try_add_edge(task.generation) {
            return Err(TooLate);
        }
        context.graph.watch.tell(|watch| {
            watch.resolves(task.run_id, task.id());
            watch.edge(task.run_id, other.id(), task.id());
        });
        let take = || context.borrow_node();
        // SAFETY: a node that was taken is free, and this thread's.
        if !unsafe { (other.node).add_successor(other.generation, task.node, take) }
            && let Some(ready) = task.node.drop_edges(1)
        {
            context.activate(ready);
            context.graph.watch.tell(|watch| watch.acted());
        }
        Ok(())
    }

    /// Returns a handle by which other threads resolve tasks of this graph. The graph does not end while one lives: if the body returns
    /// it as its result, or a program forgets one, [`Pool::scope`] never returns. If no worker has anything to run for some seconds, the
    /// tasks that wait are named on standard error.
    pub fn resolver(&self) -> Resolver {
        Resolver::new(*self.context())
    }

    /// Stops the graph: tasks that have not started are dropped, and [`Pool::scope`] returns [`GraphError::Cancelled`]. Graphs that its
    /// tasks run on the same pool are stopped, too.
    pub fn cancel(&self) {
        let context = self.context();
        if !context.pool.is_forked() {
            context.graph.fail(GraphError::Cancelled);
        }
    }

    /// Returns whether the graph was cancelled or has failed, so that long tasks can stop early.
    pub fn is_stopped(&self) -> bool {
        let context = self.context();
        context.pool.is_forked() || context.graph.must_skip()
    }

    /// Returns the worker that runs this task; `None` in the body of the scope on a thread outside of the pool.
    pub fn worker(&self) -> Option<WorkerId> {
        self.context().worker.map(|worker| worker.id)
    }

    fn check(&self, token: Token) {
        assert!(
            token.run_id == self.context().graph.run_id(),
            "a token of another graph: tokens are good only in the scope that they were made in"
        );
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("worker", &self.worker())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Runs a graph: `body` registers its first tasks, which may register more. Returns when all tasks have ended.
    ///
    /// `body` runs on this thread, at the same time as the tasks. If this thread is a worker of the pool (that is, in a task), it runs
    /// tasks of the new graph while it waits, and no others. Such a nested graph is stopped with the graph of that task: it returns
    /// [`GraphError::Cancelled`] if that one was cancelled or has failed.
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
    /// If tasks are left that can never become ready ([`GraphError::Unresolved`], [`GraphError::Cycle`]), a task was resolved too often,
    /// the graph was cancelled, or the pool cannot run it.
    ///
    /// # Panics
    /// With the payload of the first task (or of the body) that panicked; tasks that had not started by then are dropped.
    pub fn scope<'scope, R>(
        &self,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        self.scope_until(None, body)
    }

    /// Does and returns the same as [`Pool::scope`], but the graph stops once `cancel` is cancelled.
    ///
    /// # Errors
    /// As [`Pool::scope`], and [`GraphError::Cancelled`].
    ///
    /// # Panics
    /// As [`Pool::scope`].
    pub fn scope_with_cancel<'scope, R>(
        &self,
        cancel: &Cancel,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        self.scope_until(Some(cancel), body)
    }

    fn scope_until<'scope, R>(
        &self,
        cancel: Option<&Cancel>,
        body: impl FnOnce(&Scope<'scope>) -> R,
    ) -> Result<R, GraphError> {
        let pool = self.usable()?;
        let _entered = pool.enter();
        worker::with_current(pool, |worker| {
            let core = pool.graphs.take_core(pool, worker)?;
            let result = EndOnPanic::around(|| {
                core.begin(pool, cancel, worker);
                let outside = Outside::default();
                let context = Context {
                    graph: &core,
                    pool,
                    worker,
                    outside: worker.is_none().then_some(&outside),
                };
                // SAFETY: `context` outlives this closure and with it the scope, of which the body gets a reference only.
                let scope = unsafe { Scope::new(context) };
                if let Some(worker) = worker {
                    // A graph that the body runs is inside of this one. The wait takes this back.
                    worker.graph.run(&raw const *core);
                }
                let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
                if pool.is_forked() {
                    return Err(result.err());
                }
                let result = result.map_err(|payload| core.panicked(payload));
                if pool.is_forked() {
                    // The payload of a second panic was dropped, which runs code of the user's.
                    return Err(None);
                }
                outside.end(&core, &pool.graphs.slab);
                context.wait();
                Ok(result)
            });
            let result = match result {
                Ok(result) => result,
                // This is a child process, forked in the body. The tasks are the parent's; here they are leaked.
                Err(None) => return Err(GraphError::Forked),
                Err(Some(payload)) => std::panic::resume_unwind(payload),
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| core.outcome(pool)));
            if pool.is_forked() {
                return Err(GraphError::Forked);
            }
            if core.has_ended() {
                pool.graphs.give_core(core);
            }
            match outcome {
                Err(payload) => std::panic::resume_unwind(payload),
                Ok(outcome) => outcome.map(|()| {
                    result.unwrap_or_else(|()| unreachable!("a body that panicked fails its graph"))
                }),
            }
        })
    }
}
