//! Schedulers of lightweight threads that a program can replace: paper 5's interface.

use super::record::Header;
use crate::worker::WorkerCore;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use tanada_policy::WorkerId;
use tanada_queues::{Ready, Steal};

/// Why a thread is ready to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was created.
    New,
    /// It was unparked, or was made ready again by [`Runnable::schedule`].
    Woken,
    /// It lets others run.
    Yielded,
    /// It has created a thread that runs first ([`First::Child`]): that one becomes ready after it.
    Forked,
}

/// Which of two untied threads runs first if one of them has created the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The one that creates the other.
    Parent,
    /// The one that is created. The other may go on with another worker.
    Child,
}

/// Decides which thread a worker runs next, of those that may move: threads that have not started, and
/// [untied](super::Builder::spawn_untied) ones. (A tied thread that has started stays with its worker, which resumes such threads in the
/// order in which they became ready, in turns with the scheduler's.)
///
/// The defaults do what a pool does without a scheduler, with two exceptions. Such a pool puts threads that yield into a line between the
/// worker's own threads and those that were pushed at the tail. And once in 32 threads its worker takes one that waits behind others in its
/// queue; with a scheduler, a thread behind others waits as long as [`Scheduler::next`] finds these.
///
/// Calls come from all workers at once, each for the worker that [`Queues::me`] names. No call is made inside of another one: a thread that
/// becomes ready in a call is announced by a later [`Scheduler::ready`]. A panic ends the process. A function must not block, and one that
/// yields, or has to wait for a thread, for something of [`sync`](super::sync), or for a fork, a graph or a call, ends the process.
///
/// A scheduler may keep threads itself instead of in [`Queues`]; then it says so by [`Scheduler::may_have`]. If no worker has got a thread
/// for ten seconds, although some are ready and no worker runs anything else, standard error says so, and the workers ask on.
pub trait Scheduler: Send + Sync + 'static {
    /// Returns which thread goes on when an untied thread creates another one and makes it ready; by default the parent. If it is the
    /// child, both become ready, first the parent ([`Why::Forked`]) and then the child ([`Why::New`]), and the worker asks for the next.
    fn first(&self) -> First {
        First::Parent
    }

    /// A thread became ready on this worker, or became ready elsewhere than on a worker of the pool and was found by this one. By default
    /// the head of the worker's own queue gets it, and the tail if it has yielded.
    fn ready(&self, queues: &mut Queues<'_>, thread: Runnable, why: Why) {
        let me = queues.me();
        match why {
            Why::Yielded => queues.push_tail(me, thread),
            Why::New | Why::Woken | Why::Forked => queues.push(thread),
        }
    }

    /// Returns the thread that this worker takes from its own queue; by default that at the head.
    fn next(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        queues.pop()
    }

    /// Returns a thread of another worker for this one, which has none, or none but threads that wait; by default
    /// [`Queues::steal_nearest`]. Called once in a while, too, if a thread lies at a worker that does not come to it: the governor has
    /// parked it, it is adopted, or it waits for something of another pool.
    fn steal(&self, queues: &mut Queues<'_>) -> Option<Runnable> {
        queues.steal_nearest()
    }

    /// Returns whether the scheduler itself keeps a thread that [`Scheduler::next`] or [`Scheduler::steal`] might return for worker `me`;
    /// by default false. Asked before a worker sleeps, so that no thread is overlooked which was made ready in between: what one call of
    /// [`Scheduler::ready`] has stored, later calls of this function see. Asked, too, when those two have often returned no thread.
    fn may_have(&self, me: WorkerId) -> bool {
        let _ = me;
        false
    }
}

/// The right to run a thread that is ready, or that was created and not scheduled.
///
/// A thread is run once for each such right. A right that is dropped goes to the thread's pool, so no scheduler loses a thread unless it
/// forgets the right ([`std::mem::forget`]).
#[must_use = "a thread whose right is dropped runs at some time"]
pub struct Runnable(Ready);

impl Runnable {
    pub(super) fn new(right: Ready) -> Self {
        Runnable(right)
    }

    pub(super) fn into_right(self) -> Ready {
        let this = ManuallyDrop::new(self);
        Header::of(&this.0).goes_on_if_created();
        // SAFETY: `this` is not dropped, so the right is moved out once.
        unsafe { std::ptr::read(&this.0) }
    }

    /// Returns the thread's hint, if it is an `H`.
    pub fn hint<H: Any>(&self) -> Option<&H> {
        Header::of(&self.0).hint()
    }

    /// Returns the digest of the thread's hint.
    pub fn digest(&self) -> u16 {
        self.0.digest()
    }

    /// Makes the thread ready: on this worker's queue if this OS thread is a worker of the thread's pool.
    pub fn schedule(self) {
        super::handle::schedule(self);
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        // SAFETY: the right is moved out once: nothing uses the field after the drop.
        let right = unsafe { std::ptr::read(&self.0) };
        Header::of(&right).goes_on_if_created();
        // A scheduler that has dropped it is not asked again: it might do the same for ever.
        super::handle::run_somewhere(right);
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = Header::of(&self.0).label();
        f.debug_tuple("Runnable").field(&label).finish()
    }
}

/// The run queues of a pool, as one worker sees them. Each worker has one, with a *head* for itself and a *tail* for all.
pub struct Queues<'a> {
    worker: &'a WorkerCore,
}

impl<'a> Queues<'a> {
    pub(super) fn of(worker: &'a WorkerCore) -> Self {
        Queues { worker }
    }

    /// Returns the worker on whose behalf the call is made.
    pub fn me(&self) -> WorkerId {
        self.worker.id
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> u16 {
        self.worker.pool().placement.workers()
    }

    /// Returns how far apart two workers are; see [`Placement::distance`](tanada_policy::Placement::distance).
    pub fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.worker.pool().placement.distance(a, b)
    }

    /// Returns the next random number of this worker.
    pub fn random(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        let state = &self.worker.threads.random;
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = state.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Puts a thread at the head of this worker's queue: the worker runs it next.
    pub fn push(&mut self, thread: Runnable) {
        if let Some(right) = self.ours(thread) {
            self.worker.threads.with_head(|head| head.push(right));
            self.announce();
        }
    }

    /// Takes and returns the thread at the head of this worker's queue.
    pub fn pop(&mut self) -> Option<Runnable> {
        let popped = self.worker.threads.with_head(tanada_queues::Head::pop);
        popped.map(Runnable::new)
    }

    /// Puts a thread at the tail of the queue of worker `whom`: it is the next to be stolen, and the last that the worker itself runs. A
    /// thief that rejects what it has taken gives it back so. Wakes the worker, unless a governor has parked it: then others have to steal
    /// the thread.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn push_tail(&mut self, whom: WorkerId, thread: Runnable) {
        assert!(whom.0 < self.workers(), "there is no worker {whom:?}");
        if let Some(right) = self.ours(thread) {
            self.worker.pool().threads.tail(whom.index()).push(right);
            match whom == self.me() {
                true => self.announce(),
                false => self.worker.pool().announce_thread_of(whom.index()),
            }
        }
    }

    /// Takes and returns the thread at the tail of the queue of worker `whom`; `None` also if there is no such worker.
    pub fn pop_tail(&mut self, whom: WorkerId) -> Option<Runnable> {
        self.pop_tail_if(whom, |_| true)
    }

    /// As [`Queues::pop_tail`], if `accept` returns true for the digest of the thread's hint. `accept` is called while the queue may be
    /// locked, and again if another worker takes the thread meanwhile.
    pub fn pop_tail_if(
        &mut self,
        whom: WorkerId,
        mut accept: impl FnMut(u16) -> bool,
    ) -> Option<Runnable> {
        if whom.0 >= self.workers() {
            return None;
        }
        let tail = self.worker.pool().threads.tail(whom.index());
        loop {
            match tail.pop_if(&mut accept) {
                Steal::Taken(right) => return Some(Runnable::new(right)),
                Steal::Empty | Steal::Refused => return None,
                // Another thread took one: this ends.
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Returns the digest of the thread at the tail of the queue of worker `whom`, without a lock. It may be taken at any moment.
    pub fn peek_tail(&self, whom: WorkerId) -> Option<u16> {
        let here = whom.0 < self.workers();
        here.then(|| self.worker.pool().threads.tail(whom.index()).peek())
            .flatten()
    }

    /// Returns the number of threads in the queue of worker `whom` at some moment.
    pub fn len(&self, whom: WorkerId) -> usize {
        match whom.0 < self.workers() {
            true => self.worker.pool().threads.tail(whom.index()).len(),
            false => 0,
        }
    }

    /// Returns whether the queue of worker `whom` was empty at some moment.
    pub fn is_empty(&self, whom: WorkerId) -> bool {
        self.len(whom) == 0
    }

    /// Takes and returns the thread at the tail of the nearest other worker that has some; of equally near ones, in the order of a random
    /// start. Workers that do not come to their threads, as [`Scheduler::steal`] says, are before all others.
    pub fn steal_nearest(&mut self) -> Option<Runnable> {
        self.steal_nearest_of(|_, _| true)
    }

    /// As [`Queues::steal_nearest`], from workers of which `may_take` returns true.
    pub(super) fn steal_nearest_of(
        &mut self,
        mut may_take: impl FnMut(&Self, WorkerId) -> bool,
    ) -> Option<Runnable> {
        let (worker, start) = (self.worker, self.random() as usize);
        let pool = worker.pool();
        let placement = &pool.placement;
        let distance = |other: &WorkerId| placement.distance(worker.id, *other);
        let others = placement.by_distance(worker.id);
        let mut take = |queues: &mut Self, victim| {
            let takes = may_take(queues, victim);
            takes.then(|| queues.pop_tail(victim)).flatten()
        };
        if pool.has_absent() {
            let mut absent = others.iter().filter(|other| pool.is_absent(other.index()));
            if let Some(thread) = absent.find_map(|victim| take(self, *victim)) {
                return Some(thread);
            }
        }
        for ring in others.chunk_by(|a, b| distance(a) == distance(b)) {
            let start = start % ring.len();
            let mut victims = ring[start..].iter().chain(&ring[..start]);
            if let Some(thread) = victims.find_map(|victim| take(self, *victim)) {
                return Some(thread);
            }
        }
        None
    }

    /// Returns the right of a thread that a worker of this pool may run or queue. Any other goes where it belongs.
    pub(super) fn ours(&self, thread: Runnable) -> Option<Ready> {
        let header = Header::of(&thread.0);
        let here = std::ptr::eq(header.pool_address(), self.worker.pool());
        let right = thread.into_right();
        if here && !header.is_pinned() {
            return Some(right);
        }
        super::handle::schedule_elsewhere(right);
        None
    }

    fn announce(&self) {
        self.worker.pool().announce_thread();
    }
}

impl fmt::Debug for Queues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("me", &self.me()).finish()
    }
}
