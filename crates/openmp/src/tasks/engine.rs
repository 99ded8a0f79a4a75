//! The engine of a team: one dispatcher for its size, whose workers are the threads of the team.

use std::cell::{Cell, UnsafeCell};

use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Choice, Dispatcher, Env, Hints, Origin, Ready, Site, Wake, WorkerId, draw};
use tanada_topology::Placement;

use super::task::Task;

/// A dispatcher with the local states of its workers.
///
/// # Safety
/// `me` is the worker that the calling thread is, and no call for the same worker runs at the same time.
pub(super) trait Queues: Send + Sync {
    /// A task became ready on `me`. Returns whether a sleeping thread is to be woken.
    unsafe fn ready(&self, me: usize, task: Ready) -> bool;
    /// Returns the task that `me` takes next.
    unsafe fn next(&self, me: usize) -> Option<Ready>;
    /// Returns the task that `me` takes next, of the descendants of `of`; others that came out of a queue go into `refused`.
    unsafe fn next_of(&self, me: usize, of: *const Task, refused: &mut Vec<Ready>)
    -> Option<Ready>;
    /// `me` ended a task that released others. Returns the task that it takes next.
    unsafe fn turn(&self, me: usize, released: &mut Vec<Ready>) -> (Option<Ready>, bool);
    /// A task became ready outside of the team.
    fn inject(&self, task: Ready);
    /// Returns whether there might be a task for `me`.
    fn may_have(&self, me: usize) -> bool;
}

/// Worker-local state on cache lines of its own.
#[repr(align(128))]
struct Seat<L> {
    local: UnsafeCell<L>,
    draws: Cell<u64>,
}

struct Engine<D: Dispatcher> {
    dispatcher: D,
    seats: Box<[Seat<D::Local>]>,
}

// SAFETY: a seat is touched by its worker only, as `Queues` demands.
unsafe impl<D: Dispatcher> Sync for Engine<D> {}
// SAFETY: local states can move between threads.
unsafe impl<D: Dispatcher> Send for Engine<D> {}

/// What a dispatcher sees of a team.
struct TeamEnv<'a> {
    me: WorkerId,
    workers: u16,
    draws: Option<&'a Cell<u64>>,
    wake: bool,
}

/// Returns the task that `ready` stands for.
#[inline]
pub(super) fn task_of(ready: &Ready) -> *mut Task {
    ready.address().expect("this engine's tasks have addresses") as *mut Task
}

fn hints(task: &Task) -> Hints {
    Hints::groups(0, task.place.get())
        .with_depth(task.depth)
        .with_priority(task.priority.get())
        .with_footprint(task.footprint.get().into())
        .with_code(task.run.get() as u64)
}

/// Returns the right to run `task`.
///
/// # Safety
/// The task is ready, and this is called once for that.
#[inline]
pub(super) unsafe fn right(task: *mut Task) -> Ready {
    // SAFETY: the caller promises it; a task's memory stays until it has run.
    unsafe {
        let digest = if (*task).place.get() == 0 {
            (*task).depth.min(0xffff) as u16
        } else {
            0 // T is 0 in all tasks: see `Hints::digest`
        };
        Ready::at(task as u64, digest)
    }
}

impl Env for TeamEnv<'_> {
    #[inline]
    fn me(&self) -> WorkerId {
        self.me
    }
    #[inline]
    fn workers(&self) -> u16 {
        self.workers
    }
    #[inline]
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        u8::from(a != b)
    }
    #[inline]
    fn hints(&self, task: &Ready) -> Hints {
        // SAFETY: the policy holds the right to run it, so its memory is there.
        hints(unsafe { &*task_of(task) })
    }
    #[inline]
    fn random(&mut self) -> u64 {
        let calls = self.draws.map_or(0, |draws| draws.replace(draws.get() + 1));
        draw(0, self.me, calls)
    }
    #[inline]
    fn wake(&mut self, _whom: Wake) {
        self.wake = true;
    }
}

/// The descendants of one task.
struct Descendants(*const Task);

/// Returns whether `task` descends from `of`. The memory of both and of what is between them is there.
#[inline]
pub(super) unsafe fn descends(task: *const Task, of: *const Task) -> bool {
    // SAFETY: the caller promises it; parents outlive their descendants.
    unsafe {
        let depth = (*of).depth;
        let mut at = task;
        while (*at).depth > depth {
            at = (*at).parent;
        }
        at == of
    }
}

impl Choice for Descendants {
    #[inline]
    fn might_take(&self, digest: u16) -> bool {
        // SAFETY: the task that waits is there.
        let depth = unsafe { (*self.0).depth };
        // The digest is the depth, or 0 of a task with a group.
        digest == 0 || digest == u16::MAX || u32::from(digest) > depth
    }
    #[inline]
    fn takes(&self, task: &Ready) -> bool {
        // SAFETY: this thread has the right to run the task, so its memory is there.
        unsafe { descends(task_of(task), self.0) }
    }
}

impl<D: Dispatcher> Engine<D> {
    #[inline]
    fn env(&self, me: usize) -> TeamEnv<'_> {
        TeamEnv {
            me: WorkerId(me as u16),
            workers: self.seats.len() as u16,
            draws: Some(&self.seats[me].draws),
            wake: false,
        }
    }

    /// # Safety
    /// As [`Queues`] says.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn local(&self, me: usize) -> &mut D::Local {
        // SAFETY: the caller promises it.
        unsafe { &mut *self.seats[me].local.get() }
    }
}

#[inline]
fn task((task, _): (Ready, Origin)) -> Ready {
    task
}

impl<D: Dispatcher> Queues for Engine<D> {
    #[inline]
    unsafe fn ready(&self, me: usize, task: Ready) -> bool {
        let mut env = self.env(me);
        // SAFETY: as this function's.
        self.dispatcher
            .ready(unsafe { self.local(me) }, &mut env, task);
        env.wake
    }

    #[inline]
    unsafe fn next(&self, me: usize) -> Option<Ready> {
        // SAFETY: as this function's.
        self.dispatcher
            .next(unsafe { self.local(me) }, &mut self.env(me))
            .map(task)
    }

    unsafe fn next_of(
        &self,
        me: usize,
        of: *const Task,
        refused: &mut Vec<Ready>,
    ) -> Option<Ready> {
        let env = &mut self.env(me);
        // SAFETY: as this function's.
        let local = unsafe { self.local(me) };
        self.dispatcher
            .next_of(local, env, &Descendants(of), refused)
            .map(task)
    }

    unsafe fn turn(&self, me: usize, released: &mut Vec<Ready>) -> (Option<Ready>, bool) {
        let mut env = self.env(me);
        // SAFETY: as this function's.
        let local = unsafe { self.local(me) };
        let next = self.dispatcher.turn(local, &mut env, released).map(task);
        (next, env.wake)
    }

    fn inject(&self, task: Ready) {
        let mut env = TeamEnv {
            me: WorkerId::NONE,
            workers: self.seats.len() as u16,
            draws: None,
            wake: false,
        };
        self.dispatcher.inject(&mut env, task);
    }

    fn may_have(&self, me: usize) -> bool {
        self.dispatcher.may_have(WorkerId(me as u16))
    }
}

struct Build(u16);

impl Visitor for Build {
    type Out = Box<dyn Queues>;
    fn visit<D: Dispatcher>(self, _entry: &'static Entry) -> Box<dyn Queues> {
        let placement = Placement::flat(self.0);
        let (dispatcher, locals) = D::build(&Site::new(&placement, 0));
        let seats = locals.into_iter().map(|local| Seat {
            local: UnsafeCell::new(local),
            draws: Cell::new(0),
        });
        Box::new(Engine {
            dispatcher,
            seats: seats.collect(),
        })
    }
}

/// Returns the queues of a team of `size` threads under the policy called `policy`, which is a registered native one.
pub(super) fn build(policy: &str, size: u16) -> Box<dyn Queues> {
    registry::with(policy, Build(size)).unwrap_or_else(|_| unreachable!("the name was looked up"))
}
