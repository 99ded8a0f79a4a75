//! Room for runs of a template, and how they are started.

use super::Template;
use super::room::{Batch, Room};
use crate::error::GraphError;
use crate::graph::context::Context;
use crate::graph::core::Cancel;
use crate::pool::Pool;
use crate::worker::{self, EndOnPanic};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use tanada_policy::Ready;

/// Room for runs of a template; see [`Template::instance`] and [`Template::instances`].
pub struct Instance<'env, A> {
    template: Template<'env, A>,
    /// One for each run that can go on at a time.
    rooms: Box<[OwnedRoom<'env, A>]>,
    /// Room for roots that are handed to the policy at the same time.
    roots: Vec<Ready>,
    /// Set once a policy has lost tasks of this instance. It may still hold rights to run them, so the instance does not run again, and
    /// its memory is leaked.
    lost: Option<GraphError>,
}

/// The most roots that are handed to the policy at the same time.
const ROOTS_AT_ONCE: usize = 256;

/// An owned [`Room`]. The nodes in it point to it, so it is behind a raw pointer and not in a `Box`.
struct OwnedRoom<'env, A>(NonNull<Room<'env, A>>);

// SAFETY: a room is its owner's alone between two runs. Bodies are `Send + Sync`, and the argument of a run is shared only if it is
// `Sync` (`Instance::start` demands it).
unsafe impl<A> Send for OwnedRoom<'_, A> {}

impl<'env, A> OwnedRoom<'env, A> {
    fn room(&self) -> &Room<'env, A> {
        // SAFETY: made by `Room::new`, and freed only by `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<A> Drop for OwnedRoom<'_, A> {
    fn drop(&mut self) {
        // SAFETY: made by `Room::new`, and freed once. No run goes on here: a run borrows the instance until its end, and an instance that
        // lost tasks forgets its rooms.
        unsafe { Room::free(self.0) };
    }
}

impl<A> Drop for Instance<'_, A> {
    fn drop(&mut self) {
        if self.lost.is_some() {
            std::mem::forget(self.template.clone());
            std::mem::forget(std::mem::take(&mut self.rooms));
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
        let room = |_| OwnedRoom(Room::new(&template.0));
        Instance {
            rooms: (0..rooms).map(room).collect(),
            template,
            roots: Vec::with_capacity(ROOTS_AT_ONCE),
            lost: None,
        }
    }
}

impl<A: Sync> Instance<'_, A> {
    /// Runs the template once with `arg`, on `pool`. Returns when all tasks have ended.
    ///
    /// Allocates nothing once the policy's queues have grown to the template's needs (except on a worker of `pool`, because the run is
    /// nested there).
    ///
    /// # Errors
    /// [`GraphError::Forked`]; [`GraphError::TooDeep`]; and [`GraphError::PolicyLost`], after which the instance does not run again.
    ///
    /// # Panics
    /// With the payload of the first task that panicked; tasks that had not started by then are skipped.
    pub fn run(&mut self, pool: &Pool, arg: &A) -> Result<(), GraphError> {
        self.start(pool, std::slice::from_ref(arg), None)
    }

    /// Runs the template once for each of `args`: one after the other in their order, or several at a time if the instance has room for
    /// them ([`Template::instances`]).
    ///
    /// The worker that ends a run begins the next, so no thread sleeps or is woken between two runs.
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
    /// Returns the errors of [`Instance::run`].
    ///
    /// # Panics
    /// As [`Instance::run`]; runs that had not begun by then are left out.
    pub fn run_each(&mut self, pool: &Pool, args: &[A]) -> Result<(), GraphError> {
        self.start(pool, args, None)
    }

    /// As [`Instance::run`], but the run stops once `cancel` is cancelled.
    ///
    /// # Errors
    /// Returns the errors of [`Instance::run`], and [`GraphError::Cancelled`].
    ///
    /// # Panics
    /// As [`Instance::run`].
    pub fn run_with_cancel(
        &mut self,
        pool: &Pool,
        arg: &A,
        cancel: &Cancel,
    ) -> Result<(), GraphError> {
        self.start(pool, std::slice::from_ref(arg), Some(cancel))
    }

    /// As [`Instance::run_each`], but the runs stop once `cancel` is cancelled.
    ///
    /// # Errors
    /// Returns the errors of [`Instance::run_with_cancel`].
    ///
    /// # Panics
    /// As [`Instance::run_each`].
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
        let _entered = pool.enter();
        let roots = &mut self.roots;
        worker::with_current(pool, |worker| {
            let core = pool.graphs.take_core(pool, worker)?;
            let batch = Batch::new(args);
            let forked = EndOnPanic::around(|| {
                core.begin(pool, cancel, worker);
                let context = Context {
                    graph: &core,
                    pool,
                    worker,
                    outside: None,
                };
                let rooms = &self.rooms[..self.rooms.len().min(args.len().max(1))];
                core.activate(rooms.len() - 1);
                let shares = context.shares();
                for room in rooms {
                    if let Some(workers) = shares {
                        // SAFETY: no run goes on in the room, which is exclusively borrowed with the instance.
                        unsafe { Room::make_shares(room.0, workers) };
                    }
                    // SAFETY: the graph has begun and counts this room as active; no run goes on in it. This call waits for the end of
                    // the graph, so `batch`, its arguments, the template and the room stay; and `A` is `Sync`.
                    unsafe {
                        room.room().begin(&core, pool, &batch, shares, |task| {
                            roots.push(task);
                            // As many as there is room for: this allocates nothing.
                            if roots.len() == roots.capacity() {
                                context.route_all(roots);
                            }
                        })
                    };
                    context.route_all(roots);
                }
                if pool.is_forked() {
                    return true;
                }
                context.wait();
                false
            });
            if forked {
                // This is a child process, forked in a call of the policy. The rooms hold the parent's tasks.
                self.lost = Some(GraphError::Forked);
                return Err(GraphError::Forked);
            }
            let ended = core.has_ended();
            let outcome = catch_unwind(AssertUnwindSafe(|| core.outcome(pool)));
            for room in &self.rooms {
                room.room().end();
            }
            // Whatever failed first: if the graph has not ended, the policy may hold nodes, and the counts are those of a run half done.
            if !ended {
                self.lost = pool.poisoned();
            }
            if ended {
                pool.graphs.give_core(core);
            }
            outcome.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        })
    }
}
