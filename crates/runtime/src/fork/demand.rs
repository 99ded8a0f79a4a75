//! Who is hungry: how a worker that forks learns that another one looks for work, at the cost of one load, and how idle workers learn that
//! there is a fork to take.
//!
//! # The word of a worker
//! A `join` is *plain* (two calls one after the other) or *kept* (its second closure lies in the worker's deque, where thieves reach it).
//! Each worker has a word, its *limit*. A `join` at the stack address `sp` is plain if `limit - sp < WINDOW`, wrapping: one load, one
//! subtraction, one comparison. 0 keeps every fork. A `join_context` is always kept and neither looks at a limit nor sets one.
//!
//! - The first fork that a worker keeps while nobody is hungry is its *base*: it sets the limit some way below its own place. So forks near
//!   the base are kept as well, those of the next `WINDOW` bytes of stack are plain, and one that is deeper still is kept and becomes the
//!   base (an unbalanced recursion). When the first closure of the base returns, the one before is the base again. If there is none, the
//!   limit is 0, and the next fork is the base; but if that closure was short, forks below its place are plain, and the next one above it
//!   is the base: bases climb from small parts of a recursion to larger ones. How far the limit lies below the base, from `NEAR` to `FAR`,
//!   depends on how long the pieces of the recursion take ([`reach`](super::reach)). A job that a worker runs has bases of its own.
//! - A worker is *hungry* if it sleeps or searches. As long as one is, limits are 0, every fork is kept, and the oldest is stolen first;
//!   but beside one that searches a worker has bases again when `ENOUGH` forks lie in its deque: the other finds these. A few more forks
//!   are kept after that (`fork/shared.rs`), and all while many lie in the deque, unless they come and go as fast as in the depth of an
//!   unbalanced tree ([`reach`](super::reach)). Then the next one is the base.
//!
//! So a deep recursion on busy workers costs calls, and one on workers of which some are idle costs what a work-stealing deque costs.
//! The limit lies here and not in thread-local storage, because a thief may write it when the thread has ended.
//!
//! # No request is lost
//! *If a worker sleeps, no worker's limit stays above 0: it is 0, or its owner or the sleeper is about to store 0. If a worker searches,
//! the same holds, or the limit was stored when forks lay in the owner's deque, which the searching one finds; and it asks again before
//! it sleeps.*
//!
//! The owner stores a limit `x > 0` ([`Demand::set`]), then loads who is idle; if anybody is hungry for more than what lies in its deque
//! ([`Demand::wants_more`]), it stores 0. The hungry worker announces itself (it counts itself as searching, or sets its bit), then loads
//! each limit and stores 0 if it is not 0 ([`Demand::request`]); a worker that goes to sleep has set its bit before it stops being counted,
//! so it is announced without a break, and asks once more after that. All of these are sequentially consistent. If the hungry worker's
//! load sees `x`, it stores 0 after it. If it does not see `x`, the load comes before the owner's store in the total order, and so does the
//! announcement; the owner's load of who is idle comes after the store and sees it. ∎
//! A limit that the owner sets to 0 by itself asks for nothing, so that store needs no order.
//!
//! # No fork is overlooked
//! Workers that wait inside of a job take forks and lightweight threads, and no tasks, so they sleep in a [`Sleep`] of their own, `waits`,
//! beside the pool's. (Adopted ones take no threads, either: `PoolShared::announce_thread` wakes the others.) A thread that makes a fork
//! available pushes it, then calls [`Demand::announce`]: it loads both numbers of searching workers, and if both are 0 it wakes a sleeper
//! of the pool, or else one of `waits`. The proof of `worker/sleep.rs` holds with the union of both: a worker that leaves either number as
//! the last one, and not to sleep, looks whether there is a fork and calls `announce` again ([`Demand::leave`]); one that leaves to sleep
//! has set its bit before and looks once more after it. The look comes after the leaving, so it sees what a thread pushed that relied on
//! this worker.
//!
//! A worker that stops searching because it found a *task* looks in the same way (`pass_forks_on` in `fork/shared.rs`), and so does a
//! thread that has come too late to wake a worker for a task: it counts as searching for a moment, in which a thread that announces a fork
//! wakes nobody in `waits` ([`Sleep::takes_late`]).
//!
//! The test `tests/model_forks.rs` runs this file and `sleep.rs` under shuttle.

use super::reach::{Base, Reach};
use crate::list::list;
use crate::worker::sleep::Sleep;
use tanada_queues::Padded;
use tanada_queues::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

/// Bytes of stack below the limit in which forks are plain.
pub const WINDOW: usize = 16 << 10;

/// With so many jobs in its deque, a worker keeps every further fork: such a recursion is deep on one side, so that each fork is a small
/// part of it, and what is plain on the way down is out of reach on the way up.
const MANY: usize = 32;

/// Forks in the deque of a worker that are enough for those that search. shuttle explores few forks.
pub const ENOUGH: usize = if cfg!(shuttle) { 2 } else { MANY };

/// Bytes of stack below the base in which forks are kept, at least.
pub const NEAR: usize = 1 << 10;

/// The same, at most.
pub const FAR: usize = 64 << 10;

/// The limits of a pool's workers, and those of them that wait inside of a job.
#[derive(Debug)]
pub struct Demand {
    limits: Vec<Padded<AtomicUsize>>,
    /// Workers that wait inside of a job, and would take a fork meanwhile.
    pub waits: Sleep,
}

impl Demand {
    /// Returns the state of `workers` workers, which keep all forks.
    #[inline]
    pub fn new(workers: usize) -> Self {
        Demand {
            limits: list(workers, |_| Padded(AtomicUsize::new(0))),
            waits: Sleep::new(workers),
        }
    }

    /// Returns the word of worker `me`.
    #[inline]
    pub fn limit(&self, me: usize) -> &AtomicUsize {
        &self.limits[me].0
    }

    /// Returns whether a worker of the pool, whose sleepers `sleep` knows, is hungry for more than what lies in the deque of a worker that
    /// forks: `kept` forks.
    #[inline]
    pub fn wants_more(&self, kept: impl FnOnce() -> usize, sleep: &Sleep) -> bool {
        let searching = || sleep.is_anyone_searching() || self.waits.is_anyone_searching();
        (searching() && kept() < ENOUGH)
            || sleep.is_anyone_asleep()
            || self.waits.is_anyone_asleep()
    }

    /// A fork was pushed or a job was injected: wakes a worker unless some search. Returns whether a worker was hungry.
    #[inline]
    pub fn announce(&self, sleep: &Sleep) -> bool {
        sleep.is_anyone_searching()
            || self.waits.is_anyone_searching()
            || sleep.wake_a_sleeper()
            || self.waits.wake_a_sleeper()
            // In `waits` this thread may have counted for a moment, so that a third one woke nobody: it looks once more.
            || sleep.wake_a_sleeper()
    }

    /// Worker `me` keeps a fork at the stack address `sp`, when nobody was hungry a moment ago. `kept` forks lie in its deque, this one
    /// among them. If the fork is the worker's base from now on, returns the one before for [`Demand::clear`].
    #[inline]
    pub fn set(
        &self,
        me: usize,
        sp: usize,
        kept: usize,
        reach: &Reach,
        sleep: &Sleep,
    ) -> Option<Base> {
        let now = self.limit(me).load(Relaxed);
        // Not `sp > now`: the frame of the fork lies below that of the `join` that compared, which may be above the limit.
        let is_near = |limit| sp.saturating_add(WINDOW) > limit;
        if now != 0 && reach.has_base() && is_near(now) {
            if let Some(limit) = reach.keep() {
                self.store(me, limit, || kept, sleep);
            }
            return None;
        }
        if kept >= MANY && !reach.churns(kept) {
            return None;
        }
        if now == 0 {
            // A worker was hungry since the base was made: it may have taken all of what is kept.
            reach.forget();
        }
        let before = reach.begin(sp);
        if let Some(limit) = reach.limit() {
            self.store(me, limit, || kept, sleep);
        }
        Some(before)
    }

    /// Sets the limit of worker `me`, which calls this and in whose deque `kept` forks lie, to `to`; to 0 if a worker is hungry for more.
    #[inline]
    fn store(&self, me: usize, to: usize, kept: impl FnOnce() -> usize, sleep: &Sleep) {
        let limit = self.limit(me);
        limit.store(to, SeqCst);
        if self.wants_more(kept, sleep) {
            limit.store(0, Relaxed);
        }
    }

    /// The first closure of the base of worker `me`, in whose deque `kept` forks lie, has returned: the one `before` is the base again.
    #[inline]
    pub fn clear(
        &self,
        me: usize,
        before: Base,
        kept: impl FnOnce() -> usize,
        reach: &Reach,
        sleep: &Sleep,
    ) {
        let limit = self.limit(me);
        match reach.end(before) {
            None => limit.store(0, Relaxed),
            Some(to) if limit.load(Relaxed) != 0 => self.store(me, to, kept, sleep),
            // A worker has asked.
            Some(_) => {}
        }
    }

    /// Worker `me` begins a job, above whose frame the bases of other jobs lie. Returns the last of these for [`Demand::leave_job`].
    #[inline]
    pub fn enter_job(&self, me: usize, reach: &Reach) -> Base {
        self.limit(me).store(0, Relaxed);
        reach.forget()
    }

    /// Worker `me` has ended a job, before which it had the base `before`.
    #[inline]
    pub fn leave_job(&self, me: usize, before: Base, reach: &Reach) {
        self.limit(me).store(0, Relaxed);
        reach.restore(before);
    }

    /// Worker `me`, which has announced that it is hungry and found nothing, asks the others to keep forks.
    pub fn request(&self, me: usize) {
        for (whom, limit) in self.limits.iter().enumerate() {
            if whom != me && limit.0.load(SeqCst) != 0 {
                limit.0.store(0, SeqCst);
            }
        }
    }

    /// Worker `me`, counted as searching in `of`, stops searching. If it was the last and `is_left` returns true, there are forks whose
    /// makers may have relied on it: another worker is woken.
    #[inline]
    pub fn leave(&self, of: &Sleep, me: usize, sleep: &Sleep, is_left: impl FnOnce() -> bool) {
        if of.leave_search(me) && is_left() {
            self.announce(sleep);
        }
    }
}
