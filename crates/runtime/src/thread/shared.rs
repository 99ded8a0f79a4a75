//! What a pool and what each of its workers keep for lightweight threads.
//!
//! # Where a thread that is ready lies
//! - One that may move (it has not started, or it is not tied): in the run queue of a worker, where the pool's [`Scheduler`] puts and finds
//!   it. If no worker of the pool made it ready, among the *injected* ones, or with a scheduler among the *arrivals*, of which a worker
//!   tells the scheduler when it takes them. There lies also what is made ready while the scheduler is asked.
//! - One that is tied and has started: in its worker's *ring*, which that worker alone touches, or in its worker's *mail*, if another
//!   thread unparked it.
//!
//! # When a pool may close
//! A pool stays open until its threads have ended. Each counts in [`PoolShared::let_go`]'s number; a worker counts some in advance and
//! holds back those that have ended on it, and gives these back when it finds no thread.

use super::deadlock;
use super::record::{Header, Plan};
use super::refusals::Refusals;
use super::ring::Ring;
use super::scheduler::{Runnable, Scheduler, Why};
use super::stack;
use super::switch::Place;
use crate::list::list;
use crate::pool::PoolShared;
use crate::worker::{self, WorkerCore};
use parking_lot::Mutex;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use tanada_policy::Placement;
use tanada_queues::sync::atomic::AtomicUsize;
use tanada_queues::{Head, Injector, Mailbox, Ready, Tail, run_queue};

/// Threads that a worker counts in advance.
const AHEAD: usize = 64;

/// Numbers of threads that a worker takes at once.
const NUMBERS: u64 = 1 << 20;

/// The number of the next thread that no worker has taken.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What all threads of a pool share for lightweight threads.
pub(crate) struct ThreadShared {
    pub(super) seats: Vec<Seat>,
    pub(super) injected: Injector,
    /// Threads that the user's scheduler has not been told of.
    pub(super) arrivals: Injector,
    /// The user's, if there is one.
    pub(super) scheduler: Option<Arc<dyn Scheduler>>,
    pub(super) refusals: Refusals,
    heads: Mutex<Vec<Option<Head>>>,
    /// Whether some worker is adopted.
    has_adopted: AtomicBool,
    /// The number of workers that are adopted, or wait for something of another pool: see [`PoolShared::is_absent`].
    pub(super) absent: AtomicUsize,
}

/// What one worker lets others reach.
pub(super) struct Seat {
    tail: Tail,
    pub(super) mail: Mailbox,
    /// Looks in vain of the worker, which waits in a task, since it last found something to do; above these 32 bits, how often it did.
    pub(super) looks: AtomicU64,
    /// Odd while the worker waits for something of another pool, or with a stack that is used up, and does nothing meanwhile.
    pub(super) elsewhere: AtomicU64,
    /// Whether the worker has no loop: its OS thread is the program's, or it has ended.
    pub(super) loopless: AtomicBool,
    /// The worker if it is adopted, and [runs no threads](WorkerCore::may_run_threads); else null. It is never freed: leak checkers
    /// find it here after its OS thread has ended.
    adopted: AtomicPtr<WorkerCore>,
}

impl Seat {
    pub(super) fn is_adopted(&self) -> bool {
        !self.adopted.load(SeqCst).is_null()
    }
}

/// What one worker alone touches.
pub(crate) struct ThreadLocal {
    head: UnsafeCell<Head>,
    pub(super) ring: Ring,
    /// This worker's word of [`Demand::limit`](crate::fork::demand::Demand::limit), which is asked for at each switch: behind the pool it
    /// would be two more loads away.
    pub(super) limit: NonNull<AtomicUsize>,
    /// Free slots of the usual size, and their number.
    slots: Cell<Option<&'static Header>>,
    free: Cell<usize>,
    /// How many of those this worker keeps for itself at most.
    room: Cell<usize>,
    /// The thread on whose stack this worker runs.
    pub(super) current: Cell<Option<&'static Header>>,
    /// Where this worker goes on when that thread gives it back.
    pub(super) under: Cell<Place>,
    /// Threads that this worker has counted, and that have not been made or have ended.
    pub(super) credit: Cell<usize>,
    pub(super) picks: Cell<u32>,
    /// Which of three sources the next look at what comes from elsewhere begins with.
    pub(super) looks: Cell<u8>,
    /// How often from now on a thread that leaves may go on with the next one, before it gives this worker back.
    pub(super) turns: Cell<i32>,
    /// How often it may have as many more then.
    pub(super) more_turns: Cell<i32>,
    pub(super) random: Cell<u64>,
    /// The next number of a thread, and the end of those that this worker has taken.
    pub(super) number: Cell<u64>,
    pub(super) numbers: Cell<u64>,
    pub(super) signals: Cell<bool>,
    /// Threads in the ring that wait for something else than a thread, and let others run meanwhile.
    pub(super) helpers: Cell<usize>,
    /// How often in a row one of those has found nothing but others of the kind.
    pub(super) vain: Cell<usize>,
    /// How many jobs and tasks below the thread that runs on top of them poll: they look by themselves whether they may go on.
    pub(super) polls: Cell<usize>,
    /// How many jobs and tasks wait on the worker's own stack, below the thread that runs on top of them.
    pub(super) below: Cell<usize>,
    /// Carriers of this worker.
    pub(super) carriers: Cell<usize>,
    /// A new thread, for which its parent leaves this worker.
    pub(super) child: Cell<Option<Ready>>,
    /// Whether the scheduler or the fork policy is asked, or a closure of [`with_queues`](super::with_queues) is called: meanwhile nothing
    /// must wait here.
    pub(crate) asking: Cell<bool>,
    /// How often in a row the scheduler of the program's own has returned no thread.
    pub(super) refused: Cell<u32>,
}

impl ThreadShared {
    #[inline(always)]
    pub(crate) fn new(placement: &Placement, scheduler: Option<Arc<dyn Scheduler>>) -> Self {
        let workers = usize::from(placement.workers());
        let mut heads = Vec::with_capacity(workers);
        let seats = list(workers, |_| {
            let (head, tail) = run_queue();
            heads.push(Some(head));
            Seat {
                tail,
                mail: Mailbox::new(),
                looks: AtomicU64::new(0),
                elsewhere: AtomicU64::new(0),
                loopless: AtomicBool::new(false),
                adopted: AtomicPtr::new(ptr::null_mut()),
            }
        });
        ThreadShared {
            seats,
            injected: Injector::new(),
            arrivals: Injector::new(),
            scheduler,
            refusals: Refusals::default(),
            heads: Mutex::new(heads),
            has_adopted: AtomicBool::new(false),
            absent: AtomicUsize::new(0),
        }
    }

    /// Returns what worker `me`, which is made now, alone touches. `limit` is that of the worker, and lives as long.
    #[inline]
    pub(crate) fn local(&self, me: usize, seed: u64, limit: &AtomicUsize) -> ThreadLocal {
        let head = self.heads.lock()[me].take();
        ThreadLocal {
            head: UnsafeCell::new(head.expect("each worker is made once")),
            ring: Ring::default(),
            limit: NonNull::from(limit),
            slots: Cell::new(None),
            free: Cell::new(0),
            room: Cell::new(stack::CACHE),
            current: Cell::new(None),
            under: Cell::new(0),
            credit: Cell::new(0),
            picks: Cell::new(0),
            looks: Cell::new(0),
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
            carriers: Cell::new(0),
            child: Cell::new(None),
            asking: Cell::new(false),
            refused: Cell::new(0),
        }
    }

    /// Returns whether worker `me` has been made, on the OS thread that runs it.
    pub(super) fn has_begun(&self, me: usize) -> bool {
        self.heads.lock()[me].is_none()
    }

    /// Returns whether worker `me` might find a thread that lies in a queue.
    pub(super) fn may_have(&self, me: usize) -> bool {
        self.has_mail(me) || self.has_any()
    }

    /// Returns whether worker `me` has to run a thread that no other worker may run.
    #[inline]
    pub(crate) fn has_mail(&self, me: usize) -> bool {
        !self.seats[me].mail.is_empty()
    }

    /// Returns whether some worker might find a thread that lies in a queue.
    pub(crate) fn has_any(&self) -> bool {
        deadlock::are_used()
            && (self.has_injected() || self.seats.iter().any(|seat| !seat.tail.is_empty()))
    }

    /// Returns whether there are threads that no worker has made ready.
    pub(super) fn has_injected(&self) -> bool {
        !self.injected.is_empty() || (self.scheduler.is_some() && !self.arrivals.is_empty())
    }

    /// Returns how often worker `whom` has found something to do in a task that waits, and how often it has looked in vain since then.
    pub(super) fn looks_of(&self, whom: usize) -> (u32, u32) {
        let looks = self.seats[whom].looks.load(Relaxed);
        ((looks >> 32) as u32, looks as u32)
    }

    /// Returns a number that is odd while worker `whom` waits for something of another pool, or with a stack that is used up, and another
    /// one at each wait.
    pub(super) fn waits_elsewhere(&self, whom: usize) -> u64 {
        self.seats[whom].elsewhere.load(SeqCst)
    }

    /// Returns whether worker `whom` has no loop, or none any more.
    pub(super) fn is_loopless(&self, whom: usize) -> bool {
        self.seats[whom].loopless.load(Relaxed)
    }

    /// `worker`, which is this OS thread, has no loop, or is about to leave it for ever.
    pub(crate) fn has_no_loop(&self, worker: &WorkerCore) {
        worker.loopless.set(true);
        self.seats[worker.id.index()].loopless.store(true, Relaxed);
    }

    /// `worker` is adopted.
    pub(crate) fn adopt(&self, worker: &'static WorkerCore) {
        self.has_no_loop(worker);
        // It is never freed, and would keep them for ever.
        worker.threads.room.set(0);
        self.seats[worker.id.index()]
            .adopted
            .store(ptr::from_ref(worker).cast_mut(), SeqCst);
        self.has_adopted.store(true, SeqCst);
        self.absent.fetch_add(1, Relaxed);
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
        if self.free.get() > self.room.get() {
            self.give_back(self.room.get() / 2);
        }
    }

    /// Sets how often from now on a thread that leaves may go on with the next one. Returns what was set before.
    #[inline(always)]
    pub(super) fn replace_turns(&self, (turns, more): (i32, i32)) -> (i32, i32) {
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
        Some(worker) if class == stack::USUAL_CLASS && worker.threads.room.get() > 0 => {
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
/// Never inlined, as all functions that read a variable of the OS thread: see [`leave`](super::leave).
#[inline(never)]
pub(super) fn begin_usual() -> Option<Begun> {
    worker::with_any(|worker| {
        let worker = worker?;
        if worker.pool().threads.scheduler.is_some() {
            return None;
        }
        // Where a free slot is, `deadlock::used` and `program_waits` were called when it was first used: by no carrier, which has a slot
        // of another size.
        let slot = worker.threads.take_slot()?;
        if !worker.count_thread() {
            worker.threads.free(slot);
            return None;
        }
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
        match (worker, self.threads.scheduler()) {
            (None, None) => self.inject_thread(right),
            (Some(worker), None) => match why {
                Why::Yielded => worker.publish_last(right),
                Why::New | Why::Woken | Why::Forked => worker.publish_thread(right),
            },
            (Some(worker), Some(scheduler)) if !worker.threads.asking.get() => {
                worker.ask_scheduler(|queues| {
                    scheduler.ready(queues, Runnable::new(right), why);
                });
                worker.announce_thread();
            }
            // A scheduler that is asked may hold a lock of its own, and expects no other call before it has answered.
            (_, Some(_)) => {
                self.threads.arrivals.push(right);
                self.announce_thread();
            }
        }
    }

    /// Returns whether there may be a worker that [is absent](Self::is_absent).
    pub(super) fn has_absent(&self) -> bool {
        let workers = usize::from(self.placement.workers());
        let has_parked = self.is_governed() && self.sleep.width() < workers;
        has_parked || self.threads.absent.load(Relaxed) > 0
    }

    /// Returns whether worker `whom` does not come to the threads that lie at it: the governor has parked it, it waits for something of
    /// another pool, or it is adopted.
    pub(super) fn is_absent(&self, whom: usize) -> bool {
        let threads = &self.threads;
        !self.sleep.is_active(whom)
            || threads.waits_elsewhere(whom) % 2 == 1
            || threads.is_loopless(whom)
    }

    /// Hands a thread that is ready to the first worker that looks. No scheduler is asked.
    pub(super) fn inject_thread(&self, right: Ready) {
        self.threads.injected.push(right);
        self.announce_thread();
    }

    /// A thread was made ready that any worker may run: wakes one unless some search. If none sleeps, those that wait inside of a task may
    /// run it: they are not in the sleep protocol.
    #[inline]
    pub(crate) fn announce_thread(&self) {
        if self.threads.has_adopted.load(SeqCst) {
            return self.announce_to_all();
        }
        if !self.forks.demand.announce(&self.sleep) && self.sleep.count_waiting() > 0 {
            (0..self.threads.seats.len()).for_each(|whom| self.sleep.unpark(whom));
        }
    }

    /// As [`PoolShared::announce_thread`], in a pool with adopted workers: one of these may search or sleep, and takes no thread.
    #[cold]
    #[inline(never)]
    fn announce_to_all(&self) {
        for (whom, seat) in self.threads.seats.iter().enumerate() {
            if !seat.is_adopted() && self.sleep.is_active(whom) && !self.wake_if_asleep(whom) {
                self.sleep.unpark(whom);
            }
        }
    }

    /// As [`PoolShared::announce_thread`], of a thread that lies in the queue of worker `whom`, which perhaps alone is to take it.
    pub(super) fn announce_thread_of(&self, whom: usize) {
        if self.threads.has_adopted.load(SeqCst) {
            return self.announce_to_all();
        }
        let may_wake = self.sleep.is_active(whom);
        if may_wake && self.wake_if_asleep(whom) {
            return;
        }
        if may_wake && self.sleep.count_waiting() > 0 {
            self.sleep.unpark(whom);
        }
        self.announce_thread();
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
        _ => {
            let pool = pool.shared();
            pool.make_ready(None, right, Why::Woken);
            PoolShared::drop_aside(pool);
        }
    });
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
    pub(super) fn publish_last(&self, right: Ready) {
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
    pub(crate) fn announce_thread(&self) {
        // The only worker need not be woken.
        if !self.alone {
            self.pool().announce_thread();
        }
    }

    /// Returns the lightweight thread on whose stack this worker runs.
    pub(crate) fn current_thread(&self) -> Option<&'static Header> {
        self.threads.current.get()
    }

    /// Counts a new thread, so that the pool stays open. Returns false if the pool has closed, and runs no new threads.
    #[inline]
    pub(super) fn count_thread(&self) -> bool {
        let credit = &self.threads.credit;
        if credit.get() == 0 {
            // A worker without a loop never comes to give back what it has counted in advance.
            let ahead = if self.loopless.get() { 1 } else { AHEAD };
            if !self.pool().try_keep(ahead) {
                return false;
            }
            credit.set(ahead);
        }
        credit.set(credit.get() - 1);
        true
    }

    /// Undoes [`WorkerCore::count_thread`], of a thread that is not made.
    pub(super) fn uncount_thread(&self) {
        match self.loopless.get() {
            true => self.pool().let_go(),
            false => self.threads.credit.set(self.threads.credit.get() + 1),
        }
    }

    /// Gives back what this worker has counted of threads that have ended, or in advance.
    pub(crate) fn settle_threads(&self) {
        let credit = self.threads.credit.replace(0);
        if credit > 0 {
            self.pool().let_go_of(credit);
        }
    }
}
