//! What a pool and what each of its workers keep for lightweight threads, and how a worker finds the next one to run.
//!
//! # Where a thread that is ready lies
//! - One that may move (it has not started, or it is not tied): in the run queue of a worker, where the pool's [`Scheduler`] puts and finds
//!   it, or among the *injected* ones, if no worker of the pool made it ready.
//! - One that is tied and has started: in its worker's *ring*, which that worker alone touches, or in its worker's *mail*, if another
//!   thread unparked it.
//!
//! A worker looks at its ring and at its run queue by turns, at its mail and the injected ones once in a while, and steals only if it
//! has nothing of its own. So none of them waits for ever while the worker runs threads.
//!
//! # When a pool may close
//! A pool stays open until its threads have ended. Each counts in [`PoolShared::let_go`]'s number; a worker counts some in advance and
//! holds back those that have ended on it, and gives these back when it finds no thread.

use super::record::{Header, Left};
use super::scheduler::{Queues, Runnable, Scheduler, Why};
use super::stack;
use crate::pool::PoolShared;
use crate::worker::{self, EndOnPanic, WorkerCore};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use tanada_policy::{Origin, Placement};
use tanada_queues::{Head, Injector, Mailbox, Ready, Tail, run_queue};

/// Threads that a worker counts in advance.
const AHEAD: usize = 64;

/// Of so many threads that a worker takes, one is of its run queue if that holds any, and the others are of its ring. A power of two.
const RING: u32 = 16;

/// So often, a multiple of [`RING`], a worker looks at its mail and at the injected threads although it has others.
const ONCE_IN: u32 = 32;

/// After so many slices a worker looks whether there is something else to do than threads.
const SLICES: u32 = 64;

/// Numbers of threads that a worker takes at once.
const NUMBERS: u64 = 1 << 20;

/// The number of the next thread that no worker has taken.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What all threads of a pool share for lightweight threads.
pub(crate) struct ThreadShared {
    seats: Box<[Seat]>,
    injected: Injector,
    /// The user's, if there is one.
    scheduler: Option<Arc<dyn Scheduler>>,
    heads: Mutex<Vec<Option<Head>>>,
}

/// What one worker lets others reach.
struct Seat {
    tail: Tail,
    mail: Mailbox,
}

/// What one worker alone touches.
pub(crate) struct ThreadLocal {
    head: RefCell<Head>,
    ring: RefCell<VecDeque<Ready>>,
    /// Free slots of the usual size.
    slots: RefCell<Vec<NonNull<Header>>>,
    /// The thread on whose stack this worker runs.
    pub(super) current: Cell<Option<&'static Header>>,
    /// Threads that this worker has counted, and that have not been made or have ended.
    credit: Cell<usize>,
    picks: Cell<u32>,
    pub(super) random: Cell<u64>,
    numbers: Cell<(u64, u64)>,
    signals: Cell<bool>,
    /// Whether the scheduler is asked: meanwhile this worker's thread must not be suspended.
    asking: Cell<bool>,
}

impl ThreadShared {
    pub(crate) fn new(placement: &Placement, scheduler: Option<Arc<dyn Scheduler>>) -> Self {
        let (heads, seats): (Vec<_>, Vec<_>) = placement
            .ids()
            .map(|_| {
                let (head, tail) = run_queue();
                let mail = Mailbox::new();
                (Some(head), Seat { tail, mail })
            })
            .unzip();
        ThreadShared {
            seats: seats.into(),
            injected: Injector::new(),
            scheduler,
            heads: Mutex::new(heads),
        }
    }

    /// Returns what worker `me`, which is made now, alone touches.
    pub(crate) fn local(&self, me: usize, seed: u64) -> ThreadLocal {
        let head = self.heads.lock()[me].take();
        ThreadLocal {
            head: RefCell::new(head.expect("each worker is made once")),
            ring: RefCell::default(),
            slots: RefCell::default(),
            current: Cell::new(None),
            credit: Cell::new(0),
            picks: Cell::new(0),
            random: Cell::new(seed ^ (me as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            numbers: Cell::new((0, 0)),
            signals: Cell::new(false),
            asking: Cell::new(false),
        }
    }

    /// Returns whether worker `me` might find a thread.
    pub(crate) fn may_have(&self, me: usize) -> bool {
        self.has_mail(me) || self.has_any()
    }

    /// Returns whether worker `me` has to run a thread that no other worker may run.
    #[inline]
    pub(crate) fn has_mail(&self, me: usize) -> bool {
        !self.seats[me].mail.is_empty()
    }

    /// Returns whether some worker might find a thread.
    pub(crate) fn has_any(&self) -> bool {
        !self.injected.is_empty() || self.seats.iter().any(|seat| !seat.tail.is_empty())
    }

    pub(super) fn tail(&self, whom: usize) -> &Tail {
        &self.seats[whom].tail
    }

    pub(super) fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.scheduler.as_deref()
    }
}

impl ThreadLocal {
    pub(super) fn head(&self) -> &RefCell<Head> {
        &self.head
    }

    /// Returns a number that no other thread of this process has.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        let (mut next, mut end) = self.numbers.get();
        if next == end {
            next = NUMBER.fetch_add(NUMBERS, Relaxed);
            end = next + NUMBERS;
        }
        self.numbers.set((next + 1, end));
        next
    }
}

/// Returns a number that no other thread of this process has. For threads outside of pools.
pub(super) fn number() -> u64 {
    NUMBER.fetch_add(1, Relaxed)
}

/// Returns a free slot of the class.
///
/// # Errors
/// If the system has none left.
#[inline]
pub(super) fn take_slot(worker: Option<&WorkerCore>, class: usize) -> io::Result<NonNull<Header>> {
    match worker {
        Some(worker) if class == stack::USUAL_CLASS => {
            let mut slots = worker.threads.slots.borrow_mut();
            match slots.pop() {
                Some(slot) => Ok(slot),
                None => {
                    stack::take(class, stack::CACHE / 2, &mut slots)?;
                    Ok(slots.pop().expect("at least one was taken"))
                }
            }
        }
        _ => {
            let mut one = Vec::new();
            stack::take(class, 1, &mut one)?;
            Ok(one.pop().expect("one was taken"))
        }
    }
}

/// Takes a slot back.
#[inline]
pub(super) fn free_slot(worker: Option<&WorkerCore>, class: usize, slot: NonNull<Header>) {
    match worker {
        Some(worker) if class == stack::USUAL_CLASS => {
            let mut slots = worker.threads.slots.borrow_mut();
            slots.push(slot);
            if slots.len() > stack::CACHE {
                let rest = slots.len() - stack::CACHE / 2;
                stack::give_back(class, slots.drain(..rest));
            }
        }
        _ => stack::give_back(class, std::iter::once(slot)),
    }
}

impl Drop for ThreadLocal {
    fn drop(&mut self) {
        stack::give_back(stack::USUAL_CLASS, self.slots.get_mut().drain(..));
    }
}

impl PoolShared {
    /// Hands a new thread to the scheduler of the pool, or to `worker`, which is this OS thread, if it is a worker of this pool.
    #[inline]
    pub(super) fn make_new_ready(&self, worker: Option<&WorkerCore>, right: Ready) {
        match worker {
            Some(worker) if self.threads.scheduler.is_none() => {
                worker.threads.head.borrow_mut().push(right);
                self.announce_thread();
            }
            _ => self.make_ready(worker, right, Why::New),
        }
    }

    /// Hands a thread that is ready to the worker that has to run it, or to the scheduler. `worker` is this OS thread, if it is a worker of
    /// this pool.
    pub(super) fn make_ready(&self, worker: Option<&WorkerCore>, right: Ready, why: Why) {
        let thread = Header::of(&right);
        if thread.is_pinned() {
            return self.make_pinned_ready(worker, right);
        }
        let Some(worker) = worker else {
            self.threads.injected.push(right);
            self.announce_thread();
            return;
        };
        match self.threads.scheduler() {
            None if why == Why::Yielded => self.threads.tail(worker.id.index()).push(right),
            None => worker.threads.head.borrow_mut().push(right),
            Some(scheduler) => worker.ask_scheduler(|queues| {
                scheduler.ready(queues, Runnable::new(right), why);
            }),
        }
        self.announce_thread();
    }

    /// A thread was made ready that any worker may run: wakes one unless some search. If none sleeps, those that wait inside of a task may
    /// run it: they are not in the sleep protocol.
    #[inline]
    pub(super) fn announce_thread(&self) {
        if !self.forks.demand.announce(&self.sleep) && self.waiting.load(SeqCst) > 0 {
            (0..self.threads.seats.len()).for_each(|whom| self.sleep.unpark(whom));
        }
    }

    /// As [`PoolShared::make_ready`], of a thread that stays on its worker.
    #[inline]
    pub(super) fn make_pinned_ready(&self, worker: Option<&WorkerCore>, right: Ready) {
        let home = Header::of(&right).home().expect("it has started");
        match worker {
            Some(worker) if worker.id.0 == home => {
                worker.threads.ring.borrow_mut().push_back(right);
            }
            _ => {
                self.threads.seats[usize::from(home)].mail.push(right);
                self.rouse(usize::from(home));
            }
        }
    }
}

/// Unparks a thread.
#[inline(never)]
pub(super) fn unpark(thread: &Header) {
    if !thread.unpark() {
        return;
    }
    // SAFETY: it was parked, so there was no right, and it does not end before this one is used.
    let (right, pool) = unsafe { (thread.ready(), thread.pool()) };
    worker::with_any(|worker| match worker {
        Some(worker) if std::ptr::eq(worker.pool(), pool) => {
            pool.make_ready(Some(worker), right, Why::Woken);
        }
        // The thread may have ended, and the pool be gone, before the wake-up has been delivered.
        _ => pool.shared().make_ready(None, right, Why::Woken),
    });
}

/// Lets the current thread wait until it is unparked. May return for no reason.
#[inline(always)]
pub(super) fn park(thread: &Header) {
    if !thread.take_token() {
        let here = leaving();
        debug_assert!(here.is_some_and(|here| std::ptr::eq(here, thread)));
        thread.leave(Left::Parked);
    }
}

/// Returns the lightweight thread that calls this and is about to leave its worker; `None` if it is none.
///
/// Never inlined: a thread that is not tied may go on elsewhere, and what a function has read of its OS thread's own variables would be
/// stale in it afterwards.
#[inline(never)]
pub(super) fn leaving() -> Option<&'static Header> {
    worker::with_any(|worker| {
        let worker = worker?;
        // A panic here ends the process.
        assert!(
            !worker.threads.asking.get(),
            "a scheduler of threads must not wait or yield"
        );
        worker.current_thread()
    })
}

impl WorkerCore {
    /// Returns the lightweight thread on whose stack this worker runs.
    pub(crate) fn current_thread(&self) -> Option<&'static Header> {
        self.threads.current.get()
    }

    /// Counts a new thread, so that the pool stays open.
    #[inline]
    pub(super) fn count_thread(&self) {
        let credit = &self.threads.credit;
        if credit.get() == 0 {
            self.pool().forks.keep_many(AHEAD);
            credit.set(AHEAD);
        }
        credit.set(credit.get() - 1);
    }

    /// Gives back what this worker has counted of threads that have ended, or in advance.
    pub(crate) fn settle_threads(&self) {
        let credit = self.threads.credit.replace(0);
        if credit > 0 {
            self.pool().let_go_of(credit);
        }
    }

    /// Runs a thread until it gives this worker back, and does what is to be done then. Returns whether it has ended.
    ///
    /// `owner` is whether the caller has the thread's handle.
    #[inline(always)]
    pub(super) fn run_thread(&self, right: Ready, owner: bool) -> bool {
        let thread = Header::of(&right);
        if self.graph.held.is_some() {
            self.settle();
        }
        // Addresses of another stack say nothing of this one.
        let (demand, reach) = (&self.pool().forks.demand, &self.forks.reach);
        let base = demand.enter_job(self.id.index(), reach);
        // A profile of forks sees each slice as a job: what a suspended closure does later is not part of it.
        let interrupted = (self.forks.lane.as_ref()).map(|lane| lane.job_begins(Origin::Own));
        // SAFETY: the right is used up hereby.
        let left = unsafe {
            let _ = right;
            thread.resume(self)
        };
        if let (Some(lane), Some(interrupted)) = (&self.forks.lane, interrupted) {
            lane.job_ends(interrupted);
        }
        demand.leave_job(self.id.index(), base, reach);
        match left {
            Left::Ended => {
                self.end_if_forked();
                self.threads.credit.set(self.threads.credit.get() + 1);
                // SAFETY: it has just ended.
                unsafe {
                    match owner {
                        true => thread.end_here(),
                        false => thread.end(self),
                    }
                }
                return true;
            }
            Left::Yielded => {
                // SAFETY: its right was used up above.
                let right = unsafe { thread.ready() };
                match thread.is_tied() {
                    true => self.threads.ring.borrow_mut().push_back(right),
                    false => self.pool().make_ready(Some(self), right, Why::Yielded),
                }
            }
            Left::Parked => {
                self.end_if_forked();
                if thread.settle_park() {
                    // SAFETY: it is not parked, and its right was used up above.
                    let right = unsafe { thread.ready() };
                    self.pool().make_ready(Some(self), right, Why::Woken);
                }
            }
        }
        false
    }

    /// Takes and returns a thread for this worker, which is free to run any.
    #[inline]
    pub(crate) fn find_thread(&self) -> Option<Ready> {
        self.own_thread().or_else(|| {
            let pool = self.pool();
            pool.threads.injected.pop().or_else(|| self.steal_thread())
        })
    }

    fn steal_thread(&self) -> Option<Ready> {
        let stolen = match self.pool().threads.scheduler() {
            Some(scheduler) => self.ask_scheduler(|queues| scheduler.steal(queues)),
            None => Queues::of(self).steal_nearest(),
        };
        // A scheduler may return a thread of another pool.
        stolen.and_then(|thread| Queues::of(self).ours(thread))
    }

    /// Calls the user's scheduler. A panic of it ends the process: threads in its hands would be lost to those that wait for them.
    pub(super) fn ask_scheduler<R>(&self, call: impl FnOnce(&mut Queues<'_>) -> R) -> R {
        let before = self.threads.asking.replace(true);
        let answer = EndOnPanic::around(|| call(&mut Queues::of(self)));
        self.threads.asking.set(before);
        answer
    }

    /// Takes and returns a thread that lies at this worker.
    #[inline(always)]
    pub(crate) fn own_thread(&self) -> Option<Ready> {
        let local = &self.threads;
        let picks = local.picks.get().wrapping_add(1);
        local.picks.set(picks);
        if !picks.is_multiple_of(RING)
            && let Some(right) = local.ring.borrow_mut().pop_front()
        {
            return Some(right);
        }
        self.next_own_thread(picks)
    }

    /// Looks in the run queue first, and once in a while at what comes from elsewhere.
    #[inline]
    fn next_own_thread(&self, picks: u32) -> Option<Ready> {
        let (pool, local) = (self.pool(), &self.threads);
        if picks.is_multiple_of(ONCE_IN) {
            if pool.threads.has_mail(self.id.index()) {
                self.open_mail();
            }
            if let Some(right) = pool.threads.injected.pop() {
                return Some(right);
            }
        }
        let from_ring = || local.ring.borrow_mut().pop_front();
        self.pop_thread().or_else(from_ring).or_else(|| {
            pool.threads
                .has_mail(self.id.index())
                .then(|| self.open_mail());
            from_ring()
        })
    }

    /// Takes and returns what the scheduler has for this worker without stealing.
    #[inline]
    fn pop_thread(&self) -> Option<Ready> {
        match self.pool().threads.scheduler() {
            None => self.threads.head.borrow_mut().pop(),
            Some(scheduler) => {
                let next = self.ask_scheduler(|queues| scheduler.next(queues));
                next.and_then(|thread| Queues::of(self).ours(thread))
            }
        }
    }

    #[cold]
    fn open_mail(&self) {
        let mail = &self.pool().threads.seats[self.id.index()].mail;
        let mut ring = self.threads.ring.borrow_mut();
        for _ in 0..mail.len() {
            ring.extend(mail.pop());
        }
    }

    /// Runs threads, `first` first, until this worker has none or `done` returns true, or until it has to look for something else.
    pub(crate) fn run_threads(&self, first: Ready, done: impl Fn() -> bool) {
        if !self.threads.signals.replace(true) {
            stack::ensure_signal_stack();
        }
        let mut right = first;
        for slice in 1.. {
            self.run_thread(right, false);
            if slice == SLICES || self.pool().is_disturbed() || done() {
                self.end_if_forked();
                return;
            }
            match self.own_thread() {
                Some(next) => right = next,
                None => return,
            }
        }
    }

    /// Returns whether this worker might find a thread.
    pub(crate) fn may_have_threads(&self) -> bool {
        self.pool().threads.may_have(self.id.index())
    }

    /// Runs threads for a worker that waits until `flag` is open, after a call of `leave`: on top of the task that waits, or by suspending
    /// the thread that waits. Returns `None`, without the call, if there are none, else whether the flag is open.
    pub(crate) fn help_threads(
        &self,
        leave: impl FnOnce(),
        is_done: impl Fn() -> bool,
    ) -> Option<bool> {
        let other = self.find_thread()?;
        leave();
        match self.current_thread() {
            None => self.run_threads(other, &is_done),
            Some(thread) => {
                self.threads.ring.borrow_mut().push_front(other);
                let here = leaving();
                debug_assert!(here.is_some_and(|here| std::ptr::eq(here, thread)));
                thread.leave(Left::Yielded);
            }
        }
        self.settle_threads();
        Some(is_done())
    }

    /// Runs a job or a slice of a thread, if there is one for this worker, which is in a task. Returns whether there was.
    pub(super) fn run_something(&self) -> bool {
        let _pin = self.pin();
        if let Some(job) = self.find_job() {
            self.run_job(job);
        } else if let Some(thread) = self.find_thread() {
            self.run_thread(thread, false);
        } else {
            return false;
        }
        true
    }

    /// Keeps the current lightweight thread on this worker until the result is dropped, although it may not be tied: what runs on its
    /// stack meanwhile relies on the worker.
    pub(crate) fn pin(&self) -> Pin {
        Pin(self.current_thread().filter(|thread| thread.tie()))
    }
}

/// See [`WorkerCore::pin`].
pub(crate) struct Pin(Option<&'static Header>);

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            thread.untie();
        }
    }
}
