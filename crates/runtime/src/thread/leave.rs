//! How a thread leaves its worker, or goes straight on with the next one.
//!
//! A function that reads a variable of the OS thread decides, and returns how to leave ([`Leave`]). The thread leaves in the caller, where
//! nothing of that OS thread is known: a thread that is not tied may go on elsewhere. So the deciding functions are never inlined.

use super::find::RING;
use super::record::{Header, Leave, Left, Word, parts};
use super::run::{MOST_SLICES, SLICES};
use super::scheduler::{First, Why};
use super::timer;
use crate::worker::{self, EndOnPanic, WorkerCore};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tanada_queues::{Head, Ready};

/// How often in a row, at most, a thread that leaves goes on with the next one without a look at anything else.
pub(super) const TURNS: i32 = RING as i32 - 1;

/// How often in a row, at most, a worker whose threads have used up their [`TURNS`] finds nothing else to do and lets them go on for as
/// many more, before it comes back to its loop. Together they are not more slices than the loop runs before it searches.
pub(super) const MORE_TURNS: i32 = (MOST_SLICES / RING) as i32 - 1;

/// Once in `OTHER_LOOK` times it looks also for what is not a thread: as often as the loop does.
const OTHER_LOOK: i32 = (SLICES / RING) as i32;

/// Lets the current thread wait until it is unparked. May return for no reason.
#[inline(always)]
pub(super) fn park(thread: &Header) {
    if !thread.take_token() {
        let leave = parking(thread);
        // SAFETY: this is the thread, and nothing has been done meanwhile.
        unsafe { leave.now() };
    }
}

/// Lets the current thread wait until `is_over`, which is a time or something before; at least, it lets others run once: a program may
/// wait for no time again and again, until another thread has done something.
#[inline]
pub(super) fn park_until(thread: &Header, until: Instant, is_over: impl Fn() -> bool) {
    if is_over() {
        return super::yield_now();
    }
    let _alarm = timer::unpark_at(thread, until);
    while !is_over() {
        park(thread);
    }
}

/// Lets the new thread `child` run instead of this one, which made it: see [`WorkerCore::forks_to_child`].
#[inline(always)]
pub(super) fn leave_to_child(child: Ready) {
    if let Some(leave) = forking(child) {
        // SAFETY: this is the thread, and nothing has been done meanwhile.
        unsafe { leave.now() };
    }
}

/// Puts a new thread where this worker finds it when its parent, which calls this, has left. Never inlined: see [`yielding`].
#[inline(never)]
fn forking(child: Ready) -> Option<Leave> {
    with_thread(|here| match here {
        Some((worker, parent)) => {
            worker.threads.child.set(Some(child));
            Some(worker.gives_back(parent, Left::Forked))
        }
        None => {
            super::handle::schedule_elsewhere(child);
            None
        }
    })
}

/// Calls `leave` with the worker that this OS thread is and with the lightweight thread that calls this, `None` if it is none.
#[inline(always)]
fn with_thread<R>(leave: impl FnOnce(Option<(&WorkerCore, &'static Header)>) -> R) -> R {
    worker::with_any(|worker| leave(worker.and_then(|here| Some((here, here.current_thread()?)))))
}

/// Returns how the thread that calls this lets others run, `None` if it need not leave. What is no lightweight thread has let others run
/// when this returns.
///
/// Never inlined: a thread that is not tied may go on elsewhere, and what a function has read of its OS thread's own variables would be
/// stale in it afterwards.
#[inline(never)]
pub(super) fn yielding() -> Option<Leave> {
    with_thread(|here| match here {
        Some((worker, thread)) => worker.yields(thread),
        None => yield_elsewhere(),
    })
}

/// As [`yield_now`](super::yield_now), of what is no lightweight thread.
#[cold]
#[inline(never)]
fn yield_elsewhere() -> Option<Leave> {
    let ran = worker::with_any(|worker| worker.is_some_and(WorkerCore::run_something));
    if !ran {
        crate::parking::yield_now();
    }
    None
}

/// Returns how the thread that calls this leaves to be unparked. Never inlined: see [`yielding`].
#[inline(never)]
fn parking(thread: &Header) -> Leave {
    with_thread(|here| {
        let (worker, here) = here.expect("a lightweight thread runs on a worker");
        debug_assert!(std::ptr::eq(here, thread));
        worker.parks(here)
    })
}

/// Returns how the thread that calls this, whose closure has returned, leaves. Never inlined: see [`yielding`].
#[inline(never)]
pub(super) fn ending() -> Leave {
    with_thread(|here| {
        let (worker, here) = here.expect("a lightweight thread runs on a worker");
        worker.gives_back(here, Left::Ended)
    })
}

/// Does what is to be done with the thread that has just left for the one that calls this. Never inlined: see [`yielding`].
#[inline(never)]
pub(super) fn put_away(word: Word) {
    let (thread, left) = parts(word);
    worker::with_any(|worker| {
        let worker = worker.expect("a lightweight thread runs on a worker");
        match left {
            Left::Yielded => {
                debug_assert!(!thread.is_tied() && worker.pool().threads.scheduler.is_none());
                // SAFETY: its right was used up when it was resumed, and it has left.
                worker.publish_last(unsafe { thread.ready() });
            }
            left => worker.has_left_to_return(thread, left),
        }
    });
}

/// A scheduler or a fork policy waits. Nothing may be unwound: what it waits for has the addresses of jobs on this stack.
#[cold]
#[inline(never)]
fn leaves_a_scheduler() -> ! {
    EndOnPanic::around(|| {
        panic!(
            "a scheduler of threads, a fork policy, or a closure of `with_queues`, must not wait or yield"
        )
    })
}

impl WorkerCore {
    /// Ends the process if this worker asks a scheduler or a fork policy, or calls a closure of [`with_queues`](super::with_queues), which
    /// is about to wait: the worker would ask again meanwhile.
    #[inline(always)]
    pub(crate) fn check_may_wait(&self) {
        if self.threads.asking.get() {
            leaves_a_scheduler();
        }
    }

    /// Returns whether a new untied thread runs before the one that this worker runs, which creates it.
    pub(super) fn forks_to_child(&self) -> bool {
        let Some(scheduler) = self.pool().threads.scheduler() else {
            return false;
        };
        let may_leave = self
            .current_thread()
            .is_some_and(|thread| !thread.is_tied());
        // Asked like the other functions: a scheduler that suspended the thread would let it go on with another worker than this one.
        may_leave
            && !self.threads.asking.get()
            && self.ask_scheduler(|_| scheduler.first()) == First::Child
    }

    /// Returns how `thread`, which runs, leaves for `next`, whose right to run is used up thereby.
    #[inline(always)]
    fn leaves_for(&self, thread: &'static Header, why: Left, next: &'static Header) -> Leave {
        thread.graph.set(self.graph.running());
        self.graph.run(next.graph.get());
        self.threads.current.set(Some(next));
        Leave::new(thread, why, next.place.get())
    }

    /// Returns how `thread`, which runs, leaves for what this worker has run it on top of.
    #[inline(always)]
    fn gives_back(&self, thread: &'static Header, why: Left) -> Leave {
        self.check_may_wait();
        Leave::new(thread, why, self.threads.under.get())
    }

    /// Returns whether a thread that leaves may go on with the next one: this worker has nothing else to look at.
    #[inline(always)]
    fn may_go_straight_on(&self) -> bool {
        // One instruction, where a comparison before would make it four.
        let turns = self.threads.turns.get() - 1;
        self.threads.turns.set(turns);
        if turns < 0 {
            self.threads.turns.set(0);
            return false;
        }
        let pool = self.pool();
        // SAFETY: the limit is the pool's, which this worker keeps.
        let has_forks = unsafe { self.threads.limit.as_ref() }.load(Relaxed) != 0;
        // A pool with a schedule is always disturbed, and so is one in a child of `fork`, where no other thread may run. The next thread
        // must not see what is known of the forks of this one.
        !self.graph.held.is_some() && !pool.is_disturbed() && !has_forks
    }

    /// Returns how `thread`, which runs, lets others run; `None` if there are none. If it is tied, this calls nothing in the most frequent
    /// case, so that nothing need be saved.
    #[inline(always)]
    fn yields(&self, thread: &'static Header) -> Option<Leave> {
        if !thread.is_tied() {
            return self.yields_untied(thread);
        }
        if !self.may_go_straight_on() {
            return self.yields_to_worker(thread);
        }
        match self.threads.ring.take_turns(thread) {
            Some(next) => Some(self.leaves_for(thread, Left::Turned, next)),
            None => self.yields_to_queued(thread),
        }
    }

    /// As [`WorkerCore::yields`], of a tied thread beside which no other one is in the ring.
    #[inline(never)]
    fn yields_to_queued(&self, thread: &'static Header) -> Option<Leave> {
        if self.pool().threads.scheduler.is_some() {
            // The scheduler knows which thread is the next one. The worker's loop asks it before it comes back to this one.
            let picks = &self.threads.picks;
            picks.set(picks.get() | (RING - 1));
            return Some(self.gives_back(thread, Left::Yielded));
        }
        let right = self.threads.with_head(Head::pop)?;
        // SAFETY: the right was used up when the thread was resumed. Only this worker touches the ring, and not before the thread has left.
        self.threads.ring.push_back(unsafe { thread.ready() });
        let next = Header::of(&right);
        next.goes_to(self);
        Some(self.leaves_for(thread, Left::Turned, next))
    }

    /// As [`WorkerCore::yields`], of a thread that gives the worker back, unless it gets more turns.
    #[inline(never)]
    fn yields_to_worker(&self, thread: &'static Header) -> Option<Leave> {
        match self.gets_more_turns() {
            true => self.yields(thread),
            false => Some(self.gives_back(thread, Left::Yielded)),
        }
    }

    /// Lets threads that leave go straight on for [`TURNS`] more turns, if these are used up and there is nothing that the loop of this
    /// worker would find in as many: all its threads lie in the ring.
    #[inline]
    fn gets_more_turns(&self) -> bool {
        let (local, threads) = (&self.threads, &self.pool().threads);
        let more = local.more_turns.get();
        if local.turns.get() > 0 || more == 0 {
            return false;
        }
        let has_others = !local.with_head(|head| head.is_empty())
            || threads.has_mail(self.id.index())
            || threads.has_injected()
            || (more % OTHER_LOOK == 0 && self.may_have_other());
        if !has_others {
            local.replace_turns((TURNS, more - 1));
        }
        !has_others
    }

    /// As [`WorkerCore::yields`], of a thread that any worker may go on with.
    #[inline(never)]
    fn yields_untied(&self, thread: &'static Header) -> Option<Leave> {
        let is_ring_empty = self.threads.ring.first.get().is_none();
        let has_scheduler = self.pool().threads.scheduler.is_some();
        if has_scheduler || !is_ring_empty || !self.may_go_straight_on() {
            return self.yields_to_worker(thread);
        }
        // It is put behind the others when it has left: before, another worker could take it.
        let right = self.threads.with_head(Head::pop)?;
        let next = Header::of(&right);
        next.goes_to(self);
        Some(self.leaves_for(thread, Left::Yielded, next))
    }

    /// Returns how `thread`, which runs, leaves to be unparked.
    #[inline(always)]
    fn parks(&self, thread: &'static Header) -> Leave {
        // If it is unparked meanwhile, a scheduler is asked, which shall not be called on the stack of another thread.
        let asks = self.pool().threads.scheduler.is_some() && !thread.is_tied();
        let next = || {
            let from_ring = self.threads.ring.pop_front();
            from_ring.or_else(|| match self.pool().threads.scheduler {
                None => self.threads.with_head(Head::pop),
                Some(_) => None,
            })
        };
        let may_go = !asks
            && (self.may_go_straight_on() || self.gets_more_turns() && self.may_go_straight_on());
        let Some(right) = may_go.then(next).flatten() else {
            return self.gives_back(thread, Left::Parked);
        };
        let next = Header::of(&right);
        next.goes_to(self);
        self.leaves_for(thread, Left::Parked, next)
    }

    /// A thread has left to be unparked. Makes it ready if it has been meanwhile.
    #[inline]
    fn has_parked(&self, thread: &'static Header) {
        if thread.settle_park() {
            // SAFETY: it is not parked, and its right was used up when it was resumed.
            let right = unsafe { thread.ready() };
            self.pool().make_ready(Some(self), right, Why::Woken);
        }
    }

    /// Does what is to be done with a thread that has left its worker. Returns whether it has ended.
    #[inline(always)]
    pub(super) fn has_left(&self, thread: &'static Header, left: Left, owner: bool) -> bool {
        if left != Left::Ended {
            self.has_left_to_return(thread, left);
            return false;
        }
        self.end_if_forked();
        self.threads.credit.set(self.threads.credit.get() + 1);
        // SAFETY: it has just ended.
        unsafe {
            match owner {
                true => thread.end_here(),
                false => thread.end(self),
            }
        }
        true
    }

    /// As [`WorkerCore::has_left`], of one that has not ended.
    #[inline(never)]
    fn has_left_to_return(&self, thread: &'static Header, left: Left) {
        match left {
            Left::Yielded => {
                // SAFETY: its right was used up when it was resumed.
                let right = unsafe { thread.ready() };
                match thread.is_tied() {
                    true => self.threads.ring.push_back(right),
                    false => {
                        // In a child of `fork`, a scheduler might wait for a lock that an OS thread holds which is not there.
                        self.end_if_forked();
                        self.pool().make_ready(Some(self), right, Why::Yielded);
                    }
                }
            }
            Left::Parked => {
                self.end_if_forked();
                self.has_parked(thread);
            }
            Left::Forked => {
                self.end_if_forked();
                // SAFETY: its right was used up when it was resumed.
                let parent = unsafe { thread.ready() };
                self.pool().make_ready(Some(self), parent, Why::Forked);
                if let Some(child) = self.threads.child.take() {
                    self.pool().make_ready(Some(self), child, Why::New);
                }
            }
            Left::Turned | Left::Ended => unreachable!("nothing is left to be done with it"),
        }
    }

    /// Lets the worker go on with something else than `thread`, which runs, is pinned and waits, and returns when it has its next turn.
    pub(super) fn stands_back(&self, thread: &'static Header) {
        let helpers = &self.threads.helpers;
        helpers.set(helpers.get() + 1);
        let leave = self.gives_back(thread, Left::Yielded);
        // SAFETY: this is the thread, on this worker. It is pinned (caller), and comes back to it.
        unsafe { leave.now() };
        helpers.set(helpers.get() - 1);
    }
}
