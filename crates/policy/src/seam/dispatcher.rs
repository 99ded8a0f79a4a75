//! The dispatcher: which ready task an idle worker takes next.

use super::{Hints, Prepared};
use crate::{Placement, Ready, WorkerId};

/// What an engine offers a dispatcher during one call. In the native engine no method allocates, locks or makes a system call.
pub trait Env {
    /// Returns the worker on whose behalf the call is made; [`WorkerId::NONE`] in [`Dispatcher::inject`].
    fn me(&self) -> WorkerId;
    /// Returns the number of workers.
    fn workers(&self) -> u16;
    /// Returns the number of *active* workers, those of the lowest numbers: from 1 to all. The others take no task until the number grows;
    /// one that runs a task ends it first. Without a governor all workers are active. A map from groups to workers maps to active ones.
    ///
    /// The number may change at any moment, so two calls may differ; see [`Dispatcher::resized`].
    #[inline]
    fn active(&self) -> u16 {
        self.workers()
    }
    /// Returns how far apart two workers are; see [`Placement::distance`].
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8;
    /// Returns the full hint of `task`, which the policy holds. (Of a task in a queue only the digest can be seen.)
    fn hints(&self, task: &Ready) -> Hints;
    /// Returns how much work the closure is that `task`, which the policy holds, begins, in any unit, beside those that are forked with it;
    /// 0 if that is not known.
    #[inline]
    fn work(&self, _task: &Ready) -> u64 {
        0
    }
    /// Returns the next random number: SplitMix64 of (seed, worker, calls so far by this worker).
    fn random(&mut self) -> u64;
    /// Requests that a sleeping active worker be woken once this call has returned. A policy may request several in one call. An engine may
    /// deliver several [`Wake::Anyone`] of one call as one, because a worker that is woken and finds a task wakes the next. A request for a
    /// worker that does not exist, such as [`WorkerId::NONE`], is ignored; one for a worker that is not [active](Env::active) counts as
    /// [`Wake::Anyone`].
    fn wake(&mut self, whom: Wake);
    /// Says that this worker will probably take the task with this [handle](Ready::handle) next, so that the engine may load what it needs
    /// to know of it. The task may have gone meanwhile.
    #[inline]
    fn soon(&self, _handle: u64) {}
    /// Pauses inside a call for some tens of nanoseconds, while another worker may finish what it is about to do.
    #[inline]
    fn pause(&mut self) {
        tanada_queues::sync::spin_loop();
    }

    /// Reports queue traffic, so that a simulated machine can charge for it. The native engine ignores it. A policy reports in the order in
    /// which it touches things.
    #[inline]
    fn charge(&mut self, _op: Op) {}
    /// Returns what a look at another worker's oldest fork returns here; [`Peeks::Fresh`] natively.
    fn peeks(&self) -> Peeks {
        Peeks::Fresh
    }
}

/// What a worker sees when it looks at the depth of another worker's oldest fork ([`Thief::peek`](crate::Thief::peek)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peeks {
    /// The depth of the fork that is there.
    #[default]
    Fresh,
    /// What a cache beside the queue has, as in MassiveThreads, paper 5's library: a thief that finds the cache empty fills it; an attempt
    /// to take a fork empties it; what the owner pushes and pops does not.
    Stale,
    /// A random number.
    Garbage,
}

/// Which worker to wake because a task became available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Any one worker that sleeps.
    Anyone,
    /// This worker, if it sleeps.
    This(WorkerId),
}

/// A step of queue traffic that a simulated machine may charge for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A task went into a queue that this worker owns.
    OwnPush,
    /// A task came out of a queue that this worker owns.
    OwnPop,
    /// A passage through a pool that all workers share.
    Pool,
    /// A task went into the slot of another worker, which has no lock.
    Mail(WorkerId),
    /// An attempt to steal from a worker's deque, which has no lock, successful or not.
    Steal(WorkerId),
    /// An attempt to steal from a worker's deque that ends with the first look at it, because it is empty.
    Empty(WorkerId),
    /// A look at the digest of the oldest task of a worker's deque, which stays there.
    Peek(WorkerId),
    /// A passage through the lock of a worker's seat or mailbox: others that want to pass meanwhile wait.
    Seat(WorkerId, Access),
    /// A task came out of the queue of tasks that became ready outside any worker. That queue has no lock for those who take.
    Injected,
    /// The worker reads a word that other workers write.
    Read(Word),
    /// The worker writes a word that other workers read or write.
    Write(Word),
    /// The worker waits as long as [`Env::pause`] does.
    Pause,
}

/// A word that several workers use without a lock. Each is on a cache line of its own, but for [`Word::Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The old end of a worker's deque, which thieves move.
    Top(WorkerId),
    /// The new end of a worker's deque, which its owner moves.
    Bottom(WorkerId),
    /// The inbox of one task of a worker's seat.
    Inbox(WorkerId),
    /// How many tasks lie in a worker's seat or mailbox.
    Load(WorkerId),
    /// How many tasks lie in the pool that all workers share.
    Available,
    /// How many tasks have become ready outside any worker.
    Put,
    /// How many of those have been taken.
    Taken,
    /// How many workers move several of those into queues of their own.
    Moving,
    /// The T group that was opened last.
    Opened,
    /// The worker that an S group belongs to, by its place in a table of 16-bit numbers.
    Owner(u16),
}

/// What a worker does while it holds the lock of a seat or mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It puts a task in.
    Put,
    /// It tries to take a task out.
    Take,
}

/// The queue that a worker took a task from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No queue: the task that this worker just finished released it, and it runs at once.
    Handed,
    /// This worker's own queue.
    Own,
    /// A pool that all workers share.
    Pool,
    /// This worker's mailbox.
    Mailbox,
    /// A queue of another worker.
    Stolen(WorkerId),
}

/// What a dispatcher is built from: the placement of the workers that it serves, and its seed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The workers and how far apart they are.
    pub placement: &'a Placement,
    /// Seed of all random numbers that the policy draws while it is built.
    pub seed: u64,
    /// What is known of the whole graph before it runs. `None` from an engine that knows nothing of it, which then does not offer policies
    /// with [`Dispatcher::NEEDS_PREPARED`].
    pub prepared: Option<&'a Prepared>,
}

impl<'a> Site<'a> {
    /// Returns a site without knowledge of the graph.
    pub fn new(placement: &'a Placement, seed: u64) -> Self {
        Site {
            placement,
            seed,
            prepared: None,
        }
    }

    /// Returns the same site, for a program whose graph is known.
    pub fn knowing(self, prepared: &'a Prepared) -> Self {
        Site {
            prepared: Some(prepared),
            ..self
        }
    }
}

/// Which tasks a worker may take now: of OpenMP's tasks one that waits may be interrupted by its descendants only.
pub trait Choice {
    /// Returns false only if no task with this digest may be taken. Called for tasks that the worker does not own yet.
    fn might_take(&self, digest: u16) -> bool;
    /// Returns whether `task` may be taken.
    fn takes(&self, task: &Ready) -> bool;
}

/// Decides which ready task an idle worker takes next.
///
/// `Self` is what all workers share, [`Dispatcher::Local`] what one worker alone touches; `&mut Local` proves it. Every [`Ready`] that
/// goes in must come out of `next` or `turn` once. Calls may come from all workers at once.
pub trait Dispatcher: Send + Sync + Sized + 'static {
    /// The state that one worker alone touches.
    type Local: Send + 'static;

    /// Whether it reads the T or S groups of tasks. If not, groups change nothing under it, and reports say so.
    const READS_GROUPS: bool = false;

    /// Whether, of several tasks that one task released, it takes the one that became ready last first. An engine that is free in the
    /// order in which they become ready then begins with the last declared, so that the first declared runs next: program order.
    const NEWEST_FIRST: bool = false;

    /// Whether [`Dispatcher::turn`] with one released task does nothing but return that task as [`Origin::Handed`]. An engine may then go
    /// on with the task and leave the call out.
    const HANDS_ON: bool = false;

    /// Whether what a task says of itself changes nothing: it reads neither [`Env::hints`] nor the digest. An engine may then hand it one
    /// task that stands for several which became ready at the same time, and whose order is the engine's.
    const TREATS_ALIKE: bool = false;

    /// Whether it overrides [`Dispatcher::inject_all`]. If not, an engine may call `inject` for each task instead, and look in between
    /// whether there is something else to do.
    const INJECTS_AT_ONCE: bool = false;

    /// Whether it reads [`Site::prepared`]. The native engine does not know a graph before it ran, so it does not offer such a policy.
    const NEEDS_PREPARED: bool = false;

    /// Whether it reads [`Prepared::closures`], too.
    const NEEDS_CLOSURES: bool = false;

    /// Makes and returns the shared state and one local state a worker, in the order of the workers.
    ///
    /// # Panics
    /// If it [needs](Dispatcher::NEEDS_PREPARED) what the site does not have.
    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>);

    /// A task became ready outside any worker.
    fn inject<E: Env>(&self, env: &mut E, task: Ready);

    /// The tasks in `tasks` became ready outside any worker, in this order.
    ///
    /// By default `inject` for each. A policy overrides it to do all in one critical section, and says so
    /// ([`Dispatcher::INJECTS_AT_ONCE`]). It must drain `tasks`.
    fn inject_all<E: Env>(&self, env: &mut E, tasks: &mut Vec<Ready>) {
        for task in tasks.drain(..) {
            self.inject(env, task);
        }
    }

    /// A task became ready on this worker.
    fn ready<E: Env>(&self, local: &mut Self::Local, env: &mut E, task: Ready);

    /// Returns the task that this idle worker takes next, and where it came from.
    fn next<E: Env>(&self, local: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)>;

    /// As [`Dispatcher::next`], for a worker that may not take every task now, and returns one that `choice` takes. A task that came out of
    /// a queue and that `choice` refuses goes into `refused`; from there on it is the engine's.
    ///
    /// By default at most one task comes out, that of `next`. A policy overrides it to look on if the first task that it finds is refused.
    #[inline]
    fn next_of<E: Env>(
        &self,
        local: &mut Self::Local,
        env: &mut E,
        choice: &impl Choice,
        refused: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        let (task, origin) = self.next(local, env)?;
        if choice.takes(&task) {
            return Some((task, origin));
        }
        refused.push(task);
        None
    }

    /// Ends a task on this worker: the tasks in `released` become ready in this order, then the worker takes its next task and this
    /// function returns it.
    ///
    /// By default `ready` for each, then `next`. A policy overrides it to do both in one critical section, or to hand a successor that
    /// it would pick anyway to the worker without a queue. It must drain `released`.
    #[inline]
    fn turn<E: Env>(
        &self,
        local: &mut Self::Local,
        env: &mut E,
        released: &mut Vec<Ready>,
    ) -> Option<(Ready, Origin)> {
        for task in released.drain(..) {
            self.ready(local, env, task);
        }
        self.next(local, env)
    }

    /// The number of [active](Env::active) workers has changed to `active`. Calls come one at a time, from any thread; [`Env::me`] returns
    /// [`WorkerId::NONE`]. Worker 0 is always active.
    ///
    /// By default nothing: that suits a policy under which any active worker finds the tasks that lie at the others, as a thief does. A
    /// policy that keeps a task for one worker must hand the tasks of workers that are not active to others here, and request wake-ups for
    /// them. Another thread may have read the old number just before this call and queue a task by it just after: such a policy stores
    /// `active` here under the lock of its queues, and goes by the stored number.
    fn resized<E: Env>(&self, _env: &mut E, _active: u16) {}

    /// Whether `worker` might find a task. The policy's half of the sleep protocol.
    ///
    /// Two threads each store one thing and load another (Dekker's pattern):
    ///
    /// - a worker that is about to sleep **stores** its announcement, then calls this function, which **loads** how much is queued;
    /// - a worker that makes a task ready **stores** it in a queue; when the call has returned, the engine **loads** the announcements, and
    ///   wakes a worker that has one.
    ///
    /// At least one of the two loads must see the other thread's store: otherwise the task stays queued while the worker sleeps. Release
    /// and acquire do not ensure that, since they allow a load to be reordered before an earlier store to another location. With `SeqCst`
    /// for all four there is one total order in which the second store precedes the load that follows it. So a policy makes a task
    /// available by a `SeqCst` write to the word that this function loads with `SeqCst`; the engine treats its announcements likewise.
    /// ([`total_order`](tanada_queues::sync::total_order) marks these places for loom.) Only a write that turns "nothing" into "something"
    /// needs it: any other one, read late, at most keeps a worker awake for one more search.
    ///
    /// `true` without need costs a search; `false` that overlooks a task which became ready before the announcement loses a wake-up.
    fn may_have(&self, worker: WorkerId) -> bool;
}
