//! What a pool and what each of its workers keep for lightweight threads, and how a worker finds the next one to run.
//!
//! # Where a thread that is ready lies
//! - One that may move (it has not started, or it is not tied): in the run queue of a worker, where the pool's [`Scheduler`] puts and finds
//!   it. If no worker of the pool made it ready, among the *injected* ones, or with a scheduler among the *arrivals*, of which a worker
//!   tells the scheduler when it takes them.
//! - One that is tied and has started: in its worker's *ring*, which that worker alone touches, or in its worker's *mail*, if another
//!   thread unparked it.
//!
//! A worker looks at its ring and at its run queue by turns, at its mail and the injected ones once in a while, and then also at those in
//! its run queue that others come before, unless there is a scheduler. It steals only if it has nothing of its own. So none of them waits
//! for ever while the worker runs threads.
//!
//! # When a pool may close
//! A pool stays open until its threads have ended. Each counts in [`PoolShared::let_go`]'s number; a worker counts some in advance and
//! holds back those that have ended on it, and gives these back when it finds no thread.

use super::deadlock;
use super::record::{Header, Leave, Left, Plan, Word, parts};
use super::scheduler::{First, Queues, Runnable, Scheduler, Why};
use super::stack;
use super::switch::{Place, switch};
use crate::fork::reach::Base;
use crate::fork::{Jobs, Lane};
use crate::graph::GraphCore;
use crate::pool::PoolShared;
use crate::worker::{self, EndOnPanic, WorkerCore};
use parking_lot::Mutex;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tanada_policy::{Origin, Placement};
use tanada_queues::sync::atomic::AtomicUsize;
use tanada_queues::{Head, Injector, Mailbox, Ready, Tail, run_queue};

/// Threads that a worker counts in advance.
const AHEAD: usize = 64;

/// Of so many threads that a worker takes, one is of its run queue if that holds any, and the others are of its ring. A power of two.
const RING: u32 = 16;

/// So often, a multiple of [`RING`], a worker looks at its mail, at the injected threads and at those that wait behind others in its run
/// queue although it has others.
const ONCE_IN: u32 = 32;

/// After so many slices a worker looks whether there is something else to do than threads.
const SLICES: u32 = 64;

/// After so many slices a worker searches, even if there seemed to be nothing else.
const MOST_SLICES: u32 = 1024;

/// So often in a row at most a thread that leaves goes on with the next one, without a look at anything else.
const TURNS: i32 = RING as i32 - 1;

/// So often at most a worker whose threads have used up their turns finds nothing else than these, and lets them go on for as many more,
/// before it comes back to its loop. Together they are not more slices than the loop runs before it searches.
const MORE_TURNS: i32 = (MOST_SLICES / RING) as i32 - 1;

/// Once in so many times it looks also for what is not a thread: as often as the loop does.
const OTHER_LOOK: i32 = (SLICES / RING) as i32;

/// Numbers of threads that a worker takes at once.
const NUMBERS: u64 = 1 << 20;

/// The number of the next thread that no worker has taken.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What all threads of a pool share for lightweight threads.
pub(crate) struct ThreadShared {
    seats: Box<[Seat]>,
    injected: Injector,
    /// Threads that the user's scheduler has not been told of.
    arrivals: Injector,
    /// The user's, if there is one.
    scheduler: Option<Arc<dyn Scheduler>>,
    heads: Mutex<Vec<Option<Head>>>,
}

/// What one worker lets others reach.
struct Seat {
    tail: Tail,
    mail: Mailbox,
    /// Looks in vain of the worker, which waits in a task, since it last found something to do; above these 32 bits, how often it did.
    looks: AtomicU64,
}

/// What one worker alone touches.
pub(crate) struct ThreadLocal {
    head: UnsafeCell<Head>,
    ring: Ring,
    /// This worker's word of [`Demand::limit`](crate::fork::demand::Demand::limit), which is asked for at each switch: behind the pool it
    /// would be two more loads away.
    limit: NonNull<AtomicUsize>,
    /// Free slots of the usual size, and their number.
    slots: Cell<Option<&'static Header>>,
    free: Cell<usize>,
    /// The thread on whose stack this worker runs.
    pub(super) current: Cell<Option<&'static Header>>,
    /// Where this worker goes on when that thread gives it back.
    under: Cell<Place>,
    /// Threads that this worker has counted, and that have not been made or have ended.
    credit: Cell<usize>,
    picks: Cell<u32>,
    /// Whether the next look at what has waited for long begins with this worker's run queue.
    waiting_first: Cell<bool>,
    /// How often from now on a thread that leaves may go on with the next one, before it gives this worker back.
    turns: Cell<i32>,
    /// How often it may have [`TURNS`] more then.
    more_turns: Cell<i32>,
    pub(super) random: Cell<u64>,
    /// The next number of a thread, and the end of those that this worker has taken.
    number: Cell<u64>,
    numbers: Cell<u64>,
    signals: Cell<bool>,
    /// Threads in the ring that wait for something else than a thread, and let others run meanwhile.
    helpers: Cell<usize>,
    /// How often in a row one of those has found nothing but others of the kind.
    vain: Cell<usize>,
    /// How many jobs and tasks below the thread that runs on top of them poll: they look by themselves whether they may go on.
    polls: Cell<usize>,
    /// How many jobs and tasks wait on the worker's own stack, below the thread that runs on top of them.
    below: Cell<usize>,
    /// As [`Header::locks`], of the jobs and tasks on the worker's own stack.
    pub(super) locks: Cell<u32>,
    /// Carriers of this worker.
    pub(super) carriers: Cell<usize>,
    /// A new thread, for which its parent leaves this worker.
    child: Cell<Option<Ready>>,
    /// Whether the scheduler is asked: meanwhile this worker's thread must not be suspended.
    asking: Cell<bool>,
}

/// What a worker runs threads on top of.
struct Around<'a> {
    base: Base,
    limit: &'a AtomicUsize,
    current: Option<&'static Header>,
    under: Place,
    graph: *const GraphCore,
}

/// Threads of one worker, which alone touches them and is noted in them, in the order in which they became ready: a list through their
/// headers, of which the last one's word says nothing. They are tied to the worker, but for one that a waiting thread has found and put
/// first.
#[derive(Default)]
struct Ring {
    first: Cell<Option<&'static Header>>,
    /// Says nothing if there is no first one.
    last: Cell<Option<&'static Header>>,
    len: Cell<usize>,
}

impl Ring {
    #[inline]
    fn push_back(&self, right: Ready) {
        let thread = Header::of(&right);
        self.len.set(self.len.get() + 1);
        let last = self.last.replace(Some(thread));
        match (self.first.get(), last) {
            (Some(_), Some(last)) => last.next.set(Some(thread)),
            _ => self.first.set(Some(thread)),
        }
    }

    fn push_front(&self, right: Ready) {
        let thread = Header::of(&right);
        self.len.set(self.len.get() + 1);
        let before = self.first.replace(Some(thread));
        thread.next.set(before);
        if before.is_none() {
            self.last.set(Some(thread));
        }
    }

    /// Puts `thread`, whose right is used up, behind all others, and takes the first of these, whose right is used up thereby. Returns
    /// `None`, and does nothing, if there is none.
    #[inline(always)]
    fn take_turns(&self, thread: &'static Header) -> Option<&'static Header> {
        let next = self.first.get()?;
        match self.last.replace(Some(thread)) {
            Some(last) if !std::ptr::eq(last, next) => {
                last.next.set(Some(thread));
                self.first.set(next.next.get());
            }
            // Two threads take turns, and nothing has to be read that was just written.
            _ => self.first.set(Some(thread)),
        }
        Some(next)
    }

    #[inline]
    fn pop_front(&self) -> Option<Ready> {
        let thread = self.first.get()?;
        self.len.set(self.len.get() - 1);
        let is_last = self
            .last
            .get()
            .is_some_and(|last| std::ptr::eq(last, thread));
        self.first
            .set(if is_last { None } else { thread.next.get() });
        // SAFETY: the right was used up when the thread was put here, and the thread is not parked.
        Some(unsafe { thread.ready() })
    }
}

impl ThreadShared {
    pub(crate) fn new(placement: &Placement, scheduler: Option<Arc<dyn Scheduler>>) -> Self {
        let (heads, seats): (Vec<_>, Vec<_>) = placement
            .ids()
            .map(|_| {
                let (head, tail) = run_queue();
                let (mail, looks) = (Mailbox::new(), AtomicU64::new(0));
                (Some(head), Seat { tail, mail, looks })
            })
            .unzip();
        ThreadShared {
            seats: seats.into(),
            injected: Injector::new(),
            arrivals: Injector::new(),
            scheduler,
            heads: Mutex::new(heads),
        }
    }

    /// Returns what worker `me`, which is made now, alone touches. `limit` is that of the worker, and lives as long.
    pub(crate) fn local(&self, me: usize, seed: u64, limit: &AtomicUsize) -> ThreadLocal {
        let head = self.heads.lock()[me].take();
        ThreadLocal {
            head: UnsafeCell::new(head.expect("each worker is made once")),
            ring: Ring::default(),
            limit: NonNull::from(limit),
            slots: Cell::new(None),
            free: Cell::new(0),
            current: Cell::new(None),
            under: Cell::new(0),
            credit: Cell::new(0),
            picks: Cell::new(0),
            waiting_first: Cell::new(false),
            turns: Cell::new(0),
            more_turns: Cell::new(0),
            random: Cell::new(seed ^ (me as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            number: Cell::new(0),
            numbers: Cell::new(0),
            signals: Cell::new(false),
            helpers: Cell::new(0),
            vain: Cell::new(0),
            polls: Cell::new(0),
            below: Cell::new(0),
            locks: Cell::new(0),
            carriers: Cell::new(0),
            child: Cell::new(None),
            asking: Cell::new(false),
        }
    }

    /// Returns whether worker `me` has been made, on the OS thread that runs it.
    pub(super) fn has_begun(&self, me: usize) -> bool {
        self.heads.lock()[me].is_none()
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
        self.has_injected() || self.seats.iter().any(|seat| !seat.tail.is_empty())
    }

    /// Returns whether there are threads that no worker has made ready.
    fn has_injected(&self) -> bool {
        !self.injected.is_empty() || (self.scheduler.is_some() && !self.arrivals.is_empty())
    }

    /// Returns how often worker `whom` has found something to do in a task that waits, and how often it has looked in vain since then.
    pub(super) fn looks_of(&self, whom: usize) -> (u32, u32) {
        let looks = self.seats[whom].looks.load(Relaxed);
        ((looks >> 32) as u32, looks as u32)
    }

    pub(super) fn tail(&self, whom: usize) -> &Tail {
        &self.seats[whom].tail
    }

    pub(super) fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.scheduler.as_deref()
    }
}

impl ThreadLocal {
    /// Calls `change` with the owner's side of this worker's run queue. (Not by a `RefCell`, whose mark costs as much as the rest.)
    #[inline(always)]
    pub(super) fn with_head<R>(&self, change: impl FnOnce(&mut Head) -> R) -> R {
        // SAFETY: the worker's own thread alone gets here. The closures, all of which are in this layer, call functions of `Head` and
        // nothing else: none of them calls this function, and none runs a program's code.
        change(unsafe { &mut *self.head.get() })
    }

    /// Returns a number that no other thread of this process has.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        let next = self.number.get();
        if next == self.numbers.get() {
            return self.more_numbers();
        }
        self.number.set(next + 1);
        next
    }

    #[cold]
    fn more_numbers(&self) -> u64 {
        let next = NUMBER.fetch_add(NUMBERS, Relaxed);
        self.number.set(next + 1);
        self.numbers.set(next + NUMBERS);
        next
    }

    /// Takes a free slot of the usual size, if there is one.
    #[inline]
    fn take_slot(&self) -> Option<NonNull<Header>> {
        let slot = self.slots.get()?;
        self.slots.set(slot.next.get());
        self.free.set(self.free.get() - 1);
        Some(NonNull::from(slot))
    }

    /// Takes back a slot of the usual size.
    #[inline]
    pub(super) fn free(&self, slot: NonNull<Header>) {
        // SAFETY: headers are at their places for ever.
        let header: &'static Header = unsafe { slot.as_ref() };
        header.next.set(self.slots.replace(Some(header)));
        self.free.set(self.free.get() + 1);
        if self.free.get() > stack::CACHE {
            self.give_back(stack::CACHE / 2);
        }
    }

    /// Sets how often from now on a thread that leaves may go on with the next one. Returns what was set before.
    #[inline(always)]
    fn replace_turns(&self, (turns, more): (i32, i32)) -> (i32, i32) {
        (self.turns.replace(turns), self.more_turns.replace(more))
    }

    /// Gives free slots to the process, until so many are left.
    #[cold]
    #[inline(never)]
    fn give_back(&self, left: usize) {
        let number = self.free.get().saturating_sub(left);
        let slots: Vec<_> = std::iter::from_fn(|| self.take_slot())
            .take(number)
            .collect();
        stack::give_back(stack::USUAL_CLASS, slots.into_iter());
    }

    /// Takes free slots from the process.
    #[cold]
    #[inline(never)]
    fn more_slots(&self) -> io::Result<()> {
        let mut slots = Vec::new();
        stack::take(stack::USUAL_CLASS, stack::CACHE / 2, &mut slots)?;
        // The first one is used first: of a new mapping, it has the lowest address.
        slots.into_iter().rev().for_each(|slot| self.free(slot));
        Ok(())
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
            if worker.threads.slots.get().is_none() {
                worker.threads.more_slots()?;
            }
            let slot = worker.threads.take_slot();
            Ok(slot.expect("at least one was taken"))
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
        Some(worker) if class == stack::USUAL_CLASS => worker.threads.free(slot),
        _ => stack::give_back(class, std::iter::once(slot)),
    }
}

/// A thread that [`begin_usual`] has begun to make, and the worker on which that is.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) slot: NonNull<Header>,
    worker: NonNull<WorkerCore>,
}

/// Begins to make a thread with nothing set, on the worker that this is, if that needs nothing but a slot which it has: the caller calls
/// [`Header::fill`] and [`Begun::start`].
///
/// Never inlined, as all functions that read a variable of the OS thread: see [`yielding`].
#[inline(never)]
pub(super) fn begin_usual() -> Option<Begun> {
    worker::with_any(|worker| {
        let worker = worker?;
        if worker.pool().threads.scheduler.is_some() {
            return None;
        }
        // Where a free slot is, `deadlock::used` was called when it was taken from the process.
        let slot = worker.threads.take_slot()?;
        worker.count_thread();
        let plan = Plan {
            pool: worker.pool(),
            class: stack::USUAL_CLASS,
            tied: true,
            number: worker.threads.number(),
            name: None,
            digest: 0,
        };
        // SAFETY: the slot was free, and the pool was kept by the count.
        unsafe { Header::prepare(slot, &plan) };
        Some(Begun {
            slot,
            worker: NonNull::from(worker),
        })
    })
}

impl Begun {
    /// Makes the thread ready.
    ///
    /// # Safety
    /// It was filled, on this OS thread since it was begun, and this is called once.
    #[inline(never)]
    pub(super) unsafe fn start(self) {
        // SAFETY: the worker is the one that this OS thread is, which runs the caller.
        let worker = unsafe { self.worker.as_ref() };
        // SAFETY: the thread is new.
        let right = unsafe { self.slot.as_ref().ready() };
        worker.publish_thread(right);
    }
}

impl Drop for ThreadLocal {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

impl PoolShared {
    /// Hands a new thread to the scheduler of the pool, or to `worker`, which is this OS thread, if it is a worker of this pool.
    #[inline]
    pub(super) fn make_new_ready(&self, worker: Option<&WorkerCore>, right: Ready) {
        match worker {
            Some(worker) if self.threads.scheduler.is_none() => worker.publish_thread(right),
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
            return match self.threads.scheduler {
                None => self.inject_thread(right),
                Some(_) => {
                    self.threads.arrivals.push(right);
                    self.announce_thread();
                }
            };
        };
        match (self.threads.scheduler(), why) {
            (None, Why::Yielded) => worker.publish_last(right),
            (None, Why::New | Why::Woken | Why::Forked) => worker.publish_thread(right),
            (Some(scheduler), why) => {
                worker.ask_scheduler(|queues| {
                    scheduler.ready(queues, Runnable::new(right), why);
                });
                worker.announce_thread();
            }
        }
    }

    /// Hands a thread that is ready to the first worker that looks. No scheduler is asked.
    pub(super) fn inject_thread(&self, right: Ready) {
        self.threads.injected.push(right);
        self.announce_thread();
    }

    /// A thread was made ready that any worker may run: wakes one unless some search. If none sleeps, those that wait inside of a task may
    /// run it: they are not in the sleep protocol.
    #[inline]
    pub(super) fn announce_thread(&self) {
        if !self.forks.demand.announce(&self.sleep) && self.sleep.count_waiting() > 0 {
            (0..self.threads.seats.len()).for_each(|whom| self.sleep.unpark(whom));
        }
    }

    /// As [`PoolShared::make_ready`], of a thread that stays on its worker.
    #[inline]
    pub(super) fn make_pinned_ready(&self, worker: Option<&WorkerCore>, right: Ready) {
        let home = Header::of(&right).home().expect("it has started");
        match worker {
            Some(worker) if worker.id.0 == home => {
                worker.threads.ring.push_back(right);
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
        let leave = parking(thread);
        // SAFETY: this is the thread, and nothing has been done meanwhile.
        unsafe { leave.now() };
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

/// A scheduler waits. (The panic ends the process.)
#[cold]
#[inline(never)]
fn leaves_a_scheduler() -> ! {
    panic!("a scheduler of threads must not wait or yield")
}

impl WorkerCore {
    /// Puts a thread that is ready at the head of this worker's run queue.
    #[inline]
    fn publish_thread(&self, right: Ready) {
        // The only worker need not be woken.
        match self.alone {
            true => self.threads.with_head(|head| head.push_quietly(right)),
            false => {
                self.threads.with_head(|head| head.push(right));
                self.pool().announce_thread();
            }
        }
    }

    /// As [`WorkerCore::publish_thread`], behind all others that this worker has put there.
    #[inline]
    fn publish_last(&self, right: Ready) {
        match self.alone {
            true => self.threads.with_head(|head| head.push_last_quietly(right)),
            false => {
                self.threads.with_head(|head| head.push_last(right));
                self.pool().announce_thread();
            }
        }
    }

    /// As [`PoolShared::announce_thread`], of a thread that this worker has put into a run queue.
    #[inline]
    pub(super) fn announce_thread(&self) {
        // The only worker need not be woken.
        if !self.alone {
            self.pool().announce_thread();
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

    /// Returns the lightweight thread on whose stack this worker runs.
    pub(crate) fn current_thread(&self) -> Option<&'static Header> {
        self.threads.current.get()
    }

    /// Counts a new thread, so that the pool stays open.
    #[inline]
    pub(super) fn count_thread(&self) {
        let credit = &self.threads.credit;
        if credit.get() == 0 {
            // A worker without a loop never comes to give back what it has counted in advance.
            let ahead = if self.adopted.get() { 1 } else { AHEAD };
            self.pool().forks.keep_many(ahead);
            credit.set(ahead);
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
        let around = self.begin_slices();
        // The caller waits for this thread only.
        let turns = self.threads.replace_turns((0, 0));
        let ended = self.run_slice(&around, right, owner);
        self.threads.replace_turns(turns);
        self.end_slices(around);
        ended
    }

    /// Puts away what this worker knows of the task or thread that it runs, because it is about to run threads on top of it.
    #[inline(always)]
    fn begin_slices(&self) -> Around<'_> {
        let (demand, reach) = (&self.pool().forks.demand, &self.forks.reach);
        let graph = self.graph.running();
        self.graph.run(std::ptr::null());
        Around {
            // Addresses of another stack say nothing of this one.
            base: demand.enter_job(self.id.index(), reach),
            limit: demand.limit(self.id.index()),
            current: self.threads.current.get(),
            under: self.threads.under.get(),
            graph,
        }
    }

    /// Undoes [`WorkerCore::begin_slices`].
    #[inline(always)]
    fn end_slices(&self, around: Around<'_>) {
        let (demand, reach) = (&self.pool().forks.demand, &self.forks.reach);
        self.graph.run(around.graph);
        self.threads.under.set(around.under);
        demand.leave_job(self.id.index(), around.base, reach);
    }

    /// As [`WorkerCore::run_thread`], of one of several, between [`WorkerCore::begin_slices`] and [`WorkerCore::end_slices`], and of those
    /// that it takes turns with.
    #[inline(always)]
    fn run_slice(&self, around: &Around<'_>, right: Ready, owner: bool) -> bool {
        let first = Header::of(&right);
        if self.graph.held.is_some() {
            self.settle();
        }
        first.goes_to(self);
        // SAFETY: the right is used up hereby.
        let (thread, left) = unsafe {
            let _ = right;
            match &self.forks.lane {
                None => self.resume(first),
                Some(lane) => self.resume_recorded(lane, first),
            }
        };
        debug_assert!(
            !owner || std::ptr::eq(first, thread),
            "no turns are left to it"
        );
        // This worker is on top of what it was on top of before. Whatever forks the thread has left on its stack, nothing is known of them
        // here.
        self.threads.current.set(around.current);
        self.graph.run(std::ptr::null());
        around.limit.store(0, Relaxed);
        self.forks.reach.clear();
        self.has_left(thread, left, owner)
    }

    /// Goes on with a thread until one gives this worker back. Returns that one, and why it has left.
    ///
    /// # Safety
    /// The right to run the thread is used up hereby, and the thread is this worker's.
    #[inline(always)]
    unsafe fn resume(&self, thread: &'static Header) -> (&'static Header, Left) {
        self.threads.current.set(Some(thread));
        self.graph.run(thread.graph.get());
        #[cfg(sanitized)]
        let left = super::sanitized::leaves(thread.place.get());
        // SAFETY: the thread has left or is new, and nobody else goes on with it, since there was a right.
        let word = unsafe { switch(&raw const self.threads.under, thread.place.get(), 0) };
        #[cfg(sanitized)]
        left.comes_back();
        let (thread, why) = parts(word);
        thread.graph.set(self.graph.running());
        (thread, why)
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
        if self.threads.asking.get() {
            leaves_a_scheduler();
        }
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
        let next = self.threads.ring.take_turns(thread)?;
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
    fn has_left(&self, thread: &'static Header, left: Left, owner: bool) -> bool {
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

    /// As [`WorkerCore::resume`], for a profile of forks, which sees each slice as a job: what a suspended closure does later is not
    /// part of it.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn resume_recorded(
        &self,
        lane: &Lane,
        thread: &'static Header,
    ) -> (&'static Header, Left) {
        let interrupted = lane.job_begins(Origin::Own);
        // SAFETY: the caller's contract.
        let left = unsafe { self.resume(thread) };
        lane.job_ends(interrupted);
        left
    }

    /// Takes and returns a thread for this worker, which is free to run any.
    #[inline]
    pub(crate) fn find_thread(&self) -> Option<Ready> {
        self.own_thread()
            .or_else(|| self.take_injected().or_else(|| self.steal_thread()))
    }

    /// Takes and returns a thread that no worker of this pool has made ready. A scheduler is told of one that has arrived, and decides
    /// which thread this worker takes.
    fn take_injected(&self) -> Option<Ready> {
        let pool = self.pool();
        let threads = &pool.threads;
        threads.injected.pop().or_else(|| {
            threads.scheduler.as_ref()?;
            let right = threads.arrivals.pop()?;
            let why = match Header::of(&right).home() {
                None => Why::New,
                Some(_) => Why::Woken,
            };
            pool.make_ready(Some(self), right, why);
            self.pop_thread()
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

    /// Returns whether threads are queued that a scheduler of the program's own may take, and has not taken when it was asked.
    pub(crate) fn leaves_threads_to_others(&self) -> bool {
        let (pool, me) = (self.pool(), self.id.index());
        let threads = &pool.threads;
        // In a schedule, time decides nothing.
        threads.scheduler.is_some() && pool.schedule.is_none() && threads.may_have(me)
    }

    /// Calls the user's scheduler. A panic of it ends the process: threads in its hands would be lost to those that wait for them.
    pub(super) fn ask_scheduler<R>(&self, call: impl FnOnce(&mut Queues<'_>) -> R) -> R {
        let before = self.threads.asking.replace(true);
        // With turns left, a thread could leave without a look at the mark.
        let turns = self.threads.replace_turns((0, 0));
        let answer = EndOnPanic::around(|| call(&mut Queues::of(self)));
        self.threads.replace_turns(turns);
        self.threads.asking.set(before);
        answer
    }

    /// Takes and returns a thread that lies at this worker.
    #[inline]
    pub(crate) fn own_thread(&self) -> Option<Ready> {
        self.own_thread_after(1)
    }

    /// As [`WorkerCore::own_thread`], after so many turns since the last call.
    #[inline]
    fn own_thread_after(&self, turns: u32) -> Option<Ready> {
        let local = &self.threads;
        let before = local.picks.get();
        let picks = before.wrapping_add(turns);
        local.picks.set(picks);
        if before / RING == picks / RING
            && let Some(right) = local.ring.pop_front()
        {
            return Some(right);
        }
        self.next_own_thread(before / ONCE_IN != picks / ONCE_IN)
    }

    /// Looks in the run queue first, and if `all` before that at what comes from elsewhere.
    #[inline]
    fn next_own_thread(&self, all: bool) -> Option<Ready> {
        let (pool, local) = (self.pool(), &self.threads);
        if all {
            if pool.threads.has_mail(self.id.index()) {
                self.open_mail();
            }
            // By turns, so that none of them keeps the other waiting for ever. What a scheduler of the program's own leaves in a queue
            // for long is its affair.
            let waiting = || match pool.threads.scheduler {
                None => local.with_head(Head::pop_waiting),
                Some(_) => None,
            };
            let injected = || self.take_injected();
            let found = match local.waiting_first.replace(!local.waiting_first.get()) {
                true => waiting().or_else(injected),
                false => injected().or_else(waiting),
            };
            if found.is_some() {
                return found;
            }
        }
        let from_ring = || local.ring.pop_front();
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
            None => self.threads.with_head(Head::pop),
            Some(scheduler) => {
                let next = self.ask_scheduler(|queues| scheduler.next(queues));
                next.and_then(|thread| Queues::of(self).ours(thread))
            }
        }
    }

    #[cold]
    fn open_mail(&self) {
        let mail = &self.pool().threads.seats[self.id.index()].mail;
        for _ in 0..mail.len() {
            let Some(right) = mail.pop() else { break };
            self.threads.ring.push_back(right);
        }
    }

    /// Runs threads, `first` first, until this worker has none or has to look for something else.
    pub(crate) fn run_threads(&self, first: Ready) {
        self.run_threads_until(first, None::<fn() -> bool>);
    }

    /// As [`WorkerCore::run_threads`], or until `until` returns true.
    fn run_threads_until(&self, first: Ready, until: Option<impl Fn() -> bool>) {
        if !self.threads.signals.replace(true) {
            stack::ensure_signal_stack();
        }
        let around = self.begin_slices();
        // What a task waits for, and a profile, see each slice.
        let (turns, more) = match until.is_some() || self.forks.lane.is_some() {
            true => (0, 0),
            false => (TURNS, MORE_TURNS),
        };
        let before = self.threads.replace_turns((turns, more));
        let (mut next, mut slices) = (Some(first), 0);
        while let Some(right) = next.take() {
            self.threads.replace_turns((turns, more));
            self.run_slice(&around, right, false);
            let (left, more_left) = self.threads.replace_turns((0, 0));
            let turn = (1 + turns - left + (more - more_left) * TURNS).cast_unsigned();
            let looked = slices / SLICES;
            slices += turn;
            let look = slices / SLICES != looked;
            if self.pool().is_disturbed()
                || until.as_ref().is_some_and(|until| until())
                || (look && (slices >= MOST_SLICES || self.may_have_other()))
            {
                self.end_if_forked();
                break;
            }
            next = self.own_thread_after(turn);
        }
        self.threads.replace_turns(before);
        self.end_slices(around);
    }

    /// Returns whether there may be something else to do for this worker than to run threads.
    fn may_have_other(&self) -> bool {
        self.pool().forks.may_have(self.id.index()) || self.may_have_tasks()
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
        self.run_meanwhile(other, &is_done);
        Some(is_done())
    }

    /// Runs `other`, and perhaps more threads, for a worker that waits until `is_done`: on top of the task that waits, or by suspending the
    /// thread that waits.
    pub(crate) fn run_meanwhile(&self, other: Ready, is_done: impl Fn() -> bool) {
        match self.current_thread() {
            None => {
                self.found_something();
                self.on_top(|| self.run_threads_until(other, Some(&is_done)));
            }
            Some(thread) => {
                // A scheduler waits for a fork, a graph or a call.
                if self.threads.asking.get() {
                    leaves_a_scheduler();
                }
                self.rest_if_vain(&other, &is_done);
                // Threads in the ring are this worker's.
                Header::of(&other).goes_to(self);
                self.threads.ring.push_front(other);
                self.stands_back(thread);
            }
        }
        self.settle_threads();
    }

    /// Runs `thread` on top of what this worker runs, until it ends or waits.
    pub(super) fn run_on_top(&self, thread: Ready) {
        let _pin = self.pin();
        let polls = &self.threads.polls;
        polls.set(polls.get() + 1);
        self.on_top(|| self.run_thread(thread, false));
        polls.set(polls.get() - 1);
        // An adopted worker may never get to another place where it gives back what it has counted of threads.
        self.settle_threads();
    }

    /// Lets the worker go on with something else than `thread`, which runs, is pinned and waits, and returns when it has its next turn.
    fn stands_back(&self, thread: &'static Header) {
        let helpers = &self.threads.helpers;
        helpers.set(helpers.get() + 1);
        let leave = self.gives_back(thread, Left::Yielded);
        // SAFETY: this is the thread, on this worker. It is pinned (caller), and comes back to it.
        unsafe { leave.now() };
        helpers.set(helpers.get() - 1);
    }

    /// Calls `run`, which runs threads on top of a job or task that waits.
    fn on_top<R>(&self, run: impl FnOnce() -> R) -> R {
        let below = &self.threads.below;
        below.set(below.get() + 1);
        let ran = run();
        below.set(below.get() - 1);
        ran
    }

    /// Returns whether this worker runs a thread on top of a job or task that waits.
    pub(crate) fn is_on_top(&self) -> bool {
        self.threads.below.get() > 0 && self.current_thread().is_some()
    }

    /// What this worker runs waits for a job, a graph or a call, and there is nothing that it could do meanwhile. If that is a thread on
    /// top of a job or task that waits, what it waits for may be that one, or lie below it: then the thread lets that go on after a
    /// moment, and this returns true when the thread has its next turn. The thread is pinned.
    pub(crate) fn gives_way(&self, is_done: impl Fn() -> bool) -> bool {
        let Some(thread) = self.current_thread().filter(|_| self.is_on_top()) else {
            return false;
        };
        if self.threads.asking.get() {
            leaves_a_scheduler();
        }
        self.rest(is_done);
        self.stands_back(thread);
        self.settle_threads();
        true
    }

    /// This worker, which waits in a task, has woken up by itself, and there was nothing to do.
    pub(crate) fn looked_in_vain(&self) {
        /// Of so many looks, one is followed by a search for threads that wait for each other.
        const SEARCH: u64 = 64;
        const LOOKS: u32 = deadlock::LOOKS;
        if self.threads.polls.get() > 0 {
            // What polls may be what others wait for.
            return;
        }
        let looks = &self.pool().threads.seats[self.id.index()].looks;
        let next = looks.load(Relaxed).wrapping_add(1);
        looks.store(next, Relaxed);
        if next as u32 == LOOKS || next.is_multiple_of(SEARCH) {
            deadlock::suspect();
        }
    }

    /// This worker, which waits in a task, has found something to do.
    #[inline]
    pub(crate) fn found_something(&self) {
        let looks = &self.pool().threads.seats[self.id.index()].looks;
        let now = looks.load(Relaxed);
        if now as u32 != 0 {
            looks.store(((now >> 32) + 1) << 32, Relaxed);
        }
    }

    /// Sleeps for a moment, unless there is something to do, or `is_done`.
    fn rest(&self, is_done: impl Fn() -> bool) {
        const REST: Duration = Duration::from_micros(500);
        let pool = self.pool();
        if pool.schedule.is_some() {
            // Time decides nothing in a schedule: the other workers get their turns.
            return crate::parking::yield_now();
        }
        pool.wait_in_a_task(|| {
            let other = || self.is_called() || pool.forks.has_jobs() || self.may_have_threads();
            if !is_done() && !other() {
                crate::parking::park_timeout(REST);
            }
            if !is_done() && !other() {
                self.looked_in_vain();
            }
        });
    }

    /// A thread of this worker waits for a job, a graph or a call, and is about to let `other` run. If `other` does nothing but wait for
    /// such a thing, too, as all others here, and none of them has come to its end for some time, this worker sleeps for a moment: whoever
    /// opens what one of them waits for need not know that the worker sleeps.
    fn rest_if_vain(&self, other: &Ready, is_done: impl Fn() -> bool) {
        /// They look as often before the worker sleeps.
        const LOOKS: usize = 64;
        let local = &self.threads;
        // `other` was taken out of the ring.
        let helps =
            Header::of(other).is_pinned() && local.ring.len.get() + 1 == local.helpers.get();
        let vain = if helps { local.vain.get() + 1 } else { 0 };
        if !helps {
            self.found_something();
        }
        let most = LOOKS.max(local.helpers.get() + 1);
        local.vain.set(vain % most);
        if vain == most {
            self.rest(is_done);
        }
    }

    /// Runs parts of broadcasts, a job or a thread until it ends or waits, if there is one for this worker, which is in a task. Returns
    /// whether there was.
    pub(super) fn run_something(&self) -> bool {
        if self.threads.asking.get() {
            leaves_a_scheduler();
        }
        if self.pool().forks.has_mail(self.id.index()) {
            self.run_mail(Jobs::Apart);
            return true;
        }
        let next = self.find_carrier(WorkerCore::find_job);
        let next = next.or_else(|| self.find_thread());
        let found = next.is_some();
        next.into_iter().for_each(|next| self.run_on_top(next));
        found
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
