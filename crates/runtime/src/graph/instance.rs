//! Room for runs of a template, and how they are started.

use super::Cancel;
use super::run::{Batch, Run};
use super::template::Template;
use crate::error::GraphError;
use crate::pool::Pool;
use crate::worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// Room for runs of a template; see [`Template::instance`] and [`Template::instances`].
pub struct Instance<'env, A> {
    template: Template<'env, A>,
    /// One for each run that can go on at a time.
    rooms: Box<[NonNull<Run<'env, A>>]>,
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
        for room in &self.rooms {
            // SAFETY: made by `new`, freed once; no run is going on, because `run` borrows the instance until its end.
            unsafe { Run::free(*room) };
        }
    }
}

impl<A> std::fmt::Debug for Instance<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("tasks", &self.template.tasks())
            .finish()
    }
}

impl<'env, A> Instance<'env, A> {
    pub(super) fn new(template: Template<'env, A>, rooms: usize) -> Self {
        let room = |_| Run::new(&template.0);
        Instance {
            rooms: (0..rooms).map(room).collect(),
            template,
            lost: None,
        }
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
        self.start(pool, std::slice::from_ref(arg), None)
    }

    /// Runs the template once for each of `args`: in their order one after the other, or, where the instance has room for several runs
    /// ([`Template::instances`]), so many at a time. The worker that ends a run begins the next, so no thread sleeps or is woken in
    /// between: for frame after frame.
    ///
    /// ```
    /// use tanada_runtime::{Pool, TemplateBuilder};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let mut builder = TemplateBuilder::<AtomicU32>::new();
    /// builder.task("count", 0, |frame, _| { frame.fetch_add(1, Ordering::Relaxed); });
    /// let template = builder.build()?;
    /// let frames: Vec<AtomicU32> = (0..3).map(AtomicU32::new).collect();
    /// template.instance().run_each(&Pool::builder().workers(2).build()?, &frames)?;
    /// assert_eq!(frames.into_iter().map(AtomicU32::into_inner).collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Instance::run`].
    ///
    /// # Panics
    /// As [`Instance::run`]; the runs that had not begun by then are left out.
    pub fn run_each(&mut self, pool: &Pool, args: &[A]) -> Result<(), GraphError> {
        self.start(pool, args, None)
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
        self.start(pool, std::slice::from_ref(arg), Some(cancel))
    }

    /// As [`Instance::run_each`]; it stops when `cancel` says so.
    ///
    /// # Errors
    /// As [`Instance::run_with_cancel`].
    pub fn run_each_with_cancel(
        &mut self,
        pool: &Pool,
        args: &[A],
        cancel: &Cancel,
    ) -> Result<(), GraphError> {
        self.start(pool, args, Some(cancel))
    }

    fn start(
        &mut self,
        pool: &Pool,
        args: &[A],
        cancel: Option<&Cancel>,
    ) -> Result<(), GraphError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let pool = pool.usable()?;
        worker::with_current(pool, |worker| {
            let graph = pool.take_graph();
            graph.begin(pool, cancel, worker.is_some());
            let batch = Batch::new(args);
            let rooms = &self.rooms[..self.rooms.len().min(args.len().max(1))];
            graph.activate(rooms.len() - 1);
            for room in rooms {
                let release = |task| graph.make_ready(pool, worker, task);
                // SAFETY: rooms live as long as the instance. The graph has begun and waits for this room; before that no run was going on
                // in it. This call waits for the end of the graph, and `A` is `Sync`.
                unsafe { room.as_ref().begin(graph, pool, &batch, release) };
            }
            graph.wait(pool, worker);
            let ended = graph.has_ended();
            let outcome = catch_unwind(AssertUnwindSafe(|| graph.outcome(pool)));
            for room in &self.rooms {
                // SAFETY: as above.
                unsafe { room.as_ref() }.end();
            }
            // Whatever failed first: the policy may still hold nodes, whose counts stand somewhere in the middle.
            if !ended {
                self.lost = Some(pool.poisoned().unwrap_or(GraphError::Forked));
            }
            pool.give_graph(graph);
            outcome.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        })
    }
}
