//! The first policy: which ready task an idle worker takes next.

use crate::{Hints, Placement, Prepared, Ready, WorkerId};

/// What an engine offers a dispatcher during one call. Natively it costs nothing.
pub trait Env {
    /// The worker on whose behalf the call is made; [`WorkerId::NONE`] in [`Dispatcher::inject`].
    fn me(&self) -> WorkerId;
    /// How many workers there are.
    fn workers(&self) -> u16;
    /// How far apart two workers are; see [`Placement::distance`].
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8;
    /// The full hint of a task in hand. (Of a task in a queue only the digest can be seen.)
    fn hints(&self, task: &Ready) -> Hints;
    /// The next random number: SplitMix64 of (seed, worker, calls so far by this worker).
    fn random(&mut self) -> u64;
    /// Asks that a sleeping worker be woken once this call has returned. May be asked several times in one call. Several
    /// [`Wake::Anyone`] of one call may be delivered as one, since a worker that is woken and finds a task wakes the next.
    fn wake(&mut self, whom: Wake);
    /// Waits a moment, some tens of nanoseconds, inside a call, for what others are about to do.
    #[inline]
    fn pause(&mut self) {
        tanada_queues::sync::spin_loop();
    }

    /// Tells of queue traffic, so that a simulated machine can make it cost.
    #[inline]
    fn charge(&mut self, _op: Op) {}
}

/// Whom to wake because a task became available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One worker, whichever sleeps.
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
    /// A task went into another worker's mailbox.
    Mail(WorkerId),
    /// An attempt to steal from a worker, successful or not.
    Steal(WorkerId),
}

/// Where a task came from when a worker took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Released by the task that this worker just finished and run at once, through no queue.
    Handed,
    /// This worker's own queue.
    Own,
    /// A pool that all workers share.
    Pool,
    /// This worker's mailbox.
    Mailbox,
    /// Taken from another worker.
    Stolen(WorkerId),
}

/// What a fork becomes (fork-join layer; asked only where [`Dispatcher::DECIDES_FORKS`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Stays latent on the worker until somebody asks for it.
    Latent,
    /// Runs at once as a plain call.
    Inline,
    /// The child becomes ready, the parent goes on.
    HelpFirst,
    /// The child runs, the parent's continuation becomes ready.
    ChildFirst,
    /// The child goes to this worker.
    Send(WorkerId),
}

/// Where a dispatcher is built: the placement of the workers that it serves, and its seed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The workers and how far apart they are.
    pub placement: &'a Placement,
    /// Seed of whatever the policy draws at random while it is built.
    pub seed: u64,
    /// What is known of the whole graph before it runs. Engines that know nothing give nothing, and do not offer what
    /// [`Dispatcher::NEEDS_PREPARED`].
    pub prepared: Option<&'a Prepared>,
}

impl<'a> Site<'a> {
    /// A site without further knowledge of the program.
    pub fn new(placement: &'a Placement, seed: u64) -> Self {
        Site {
            placement,
            seed,
            prepared: None,
        }
    }

    /// The same site, of a program whose graph is known.
    pub fn knowing(self, prepared: &'a Prepared) -> Self {
        Site {
            prepared: Some(prepared),
            ..self
        }
    }
}

/// Decides which ready task an idle worker takes next.
///
/// `Self` is what all workers share, [`Dispatcher::Local`] what one worker alone touches; `&mut Local` proves it. Every [`Ready`] that
/// goes in must come out of `next` or `turn` once. Calls may come from all workers at once.
pub trait Dispatcher: Send + Sync + Sized + 'static {
    /// The state that one worker alone touches.
    type Local: Send + 'static;

    /// Whether forks are put before [`Dispatcher::fork`]. While it is false a fork stays at the cost of a call.
    const DECIDES_FORKS: bool = false;

    /// Whether no worker idles while a task is ready. Tests hold a policy to what it says here.
    const GREEDY: bool = true;

    /// Whether it looks at the T or S groups of tasks. Where not, groups change nothing under it.
    const READS_GROUPS: bool = false;

    /// Whether, of several tasks that one task released, it takes the one that became ready last first. An engine that is free in the
    /// order in which they become ready then begins with the last declared, so that the first declared runs next: program order.
    const NEWEST_FIRST: bool = false;

    /// Whether it looks at the graph before it runs ([`Site::prepared`]). The native engine does not offer such a policy: it does not know
    /// a graph before it ran.
    const NEEDS_PREPARED: bool = false;

    /// Makes the shared state and one local state a worker, in the order of the workers.
    ///
    /// # Panics
    /// Where it [needs](Dispatcher::NEEDS_PREPARED) what the site does not have.
    fn build(site: &Site<'_>) -> (Self, Vec<Self::Local>);

    /// A task became ready outside any worker.
    fn inject<E: Env>(&self, env: &mut E, task: Ready);

    /// A task became ready on this worker.
    fn ready<E: Env>(&self, local: &mut Self::Local, env: &mut E, task: Ready);

    /// The task that this idle worker takes next, and where it came from.
    fn next<E: Env>(&self, local: &mut Self::Local, env: &mut E) -> Option<(Ready, Origin)>;

    /// A task ended on this worker: its released successors become ready in this order, then the worker takes its next task.
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

    /// Whether `worker` would perhaps find a task. Asked after that worker announced that it will sleep; a `false` that overlooks a
    /// task which became ready before the announcement loses a wake-up.
    fn may_have(&self, worker: WorkerId) -> bool;

    /// What becomes of a fork (only where [`Dispatcher::DECIDES_FORKS`]).
    #[inline]
    fn fork<E: Env>(&self, _local: &mut Self::Local, _env: &mut E, _hints: Hints) -> Fork {
        Fork::Latent
    }

    /// Whom an idle worker asks to promote its oldest latent fork.
    #[inline]
    fn ask<E: Env>(&self, _local: &mut Self::Local, _env: &mut E) -> Option<WorkerId> {
        None
    }
}
