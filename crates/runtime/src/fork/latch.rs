//! Latches: how a worker or another thread learns that a job which it waits for has ended.

use super::wait::Jobs;
use crate::parking::{self, Thread};
use crate::pool::PoolShared;
use crate::thread::deadlock::{On, Outside};
use crate::worker::WorkerCore;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};
use std::time::Instant;

/// Opens once.
pub(crate) trait Latch {
    /// Opens the latch on `worker`.
    ///
    /// # Safety
    /// The latch is live. It may be gone as soon as it is open, before this returns.
    unsafe fn open(this: NonNull<Self>, worker: &WorkerCore);
}

const CLOSED: u32 = 0;
const OPEN: u32 = 1;
/// The owner parks without a bit in a `Sleep`, and wants to be unparked.
const PARKED: u32 = 2;

/// Whether a latch is open. What was done before it opened is visible to a thread that sees it open.
#[derive(Debug)]
pub(crate) struct Flag(AtomicU32);

impl Flag {
    #[inline]
    pub(crate) fn new() -> Self {
        Flag(AtomicU32::new(CLOSED))
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(SeqCst) == OPEN
    }

    /// Announces that the owner is about to park. Returns false if the latch is open.
    fn will_park(&self) -> bool {
        let _ = self.0.compare_exchange(CLOSED, PARKED, SeqCst, SeqCst);
        !self.is_open()
    }

    /// Waits until the latch is open, or until `or` returns true, parked. Whoever makes `or` true unparks this thread.
    pub(crate) fn park_until(&self, or: impl Fn() -> bool) {
        while self.will_park() && !or() {
            parking::park();
        }
    }

    /// As [`Flag::park_until`], until it is open or a time.
    fn park_until_time(&self, until: Instant) {
        while self.will_park() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            parking::park_timeout(rest);
        }
    }

    /// Opens it. Returns whether the owner wants to be unparked.
    #[inline]
    fn open(&self) -> bool {
        self.0.swap(OPEN, SeqCst) == PARKED
    }
}

/// The latch of a fork, which workers of its owner's pool open.
pub(crate) struct ForkLatch {
    flag: Flag,
    owner: u16,
}

impl ForkLatch {
    #[inline]
    pub(crate) fn new(owner: &WorkerCore) -> Self {
        ForkLatch {
            flag: Flag::new(),
            owner: owner.id.0,
        }
    }

    #[inline]
    pub(crate) fn flag(&self) -> &Flag {
        &self.flag
    }
}

impl Latch for ForkLatch {
    #[inline]
    unsafe fn open(this: NonNull<Self>, worker: &WorkerCore) {
        // SAFETY: it is live until it is open.
        let (owner, parked) = unsafe {
            let this = this.as_ref();
            (usize::from(this.owner), this.flag.open())
        };
        wake(worker.pool(), owner, parked);
    }
}

/// Wakes worker `owner`, whose latch has just opened.
#[inline]
fn wake(pool: &PoolShared, owner: usize, parked: bool) {
    let waits = &pool.forks.demand.waits;
    if !waits.wake_if_asleep(owner) && parked {
        waits.unpark(owner);
    }
}

/// A thread that waits.
#[derive(Clone)]
enum Waiter {
    Worker(Arc<PoolShared>, u16),
    Thread(Thread),
}

/// A latch that any thread may open, for a worker of any pool or another thread. Opens after a number of jobs.
pub(crate) struct CountLatch {
    flag: Flag,
    left: AtomicUsize,
    waiter: Waiter,
}

impl CountLatch {
    /// Returns a latch for this thread, which is `worker` if it is one, that opens after `jobs` jobs.
    pub(crate) fn new(worker: Option<&WorkerCore>, jobs: usize) -> Self {
        let waiter = match worker {
            Some(worker) => Waiter::Worker(worker.pool().shared(), worker.id.0),
            None => Waiter::Thread(parking::current()),
        };
        CountLatch {
            flag: Flag::new(),
            left: AtomicUsize::new(jobs),
            waiter,
        }
    }

    /// Counts one more job. The caller is one that has not ended.
    #[inline]
    pub(crate) fn add(&self, jobs: usize) {
        self.left.fetch_add(jobs, Relaxed);
    }

    /// Counts a job that has ended.
    ///
    /// # Safety
    /// As [`Latch::open`]; called once for each job.
    pub(crate) unsafe fn end_one(this: NonNull<Self>) {
        // SAFETY: it is live until the last job has ended here.
        let latch = unsafe { this.as_ref() };
        if latch.left.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        // The latch may be gone once it is open.
        let waiter = latch.waiter.clone();
        let parked = latch.flag.open();
        match waiter {
            Waiter::Worker(pool, owner) => wake(&pool, usize::from(owner), parked),
            Waiter::Thread(thread) if parked => thread.unpark(),
            Waiter::Thread(_) => {}
        }
    }

    /// Waits until all jobs have ended. `worker` is what the latch was made with; it runs `jobs` meanwhile.
    pub(crate) fn wait(&self, worker: Option<&WorkerCore>, jobs: Jobs) {
        match worker {
            Some(worker) => worker.wait_for(&self.flag, jobs),
            None => self.wait_outside(true),
        }
    }

    /// As [`CountLatch::wait`] on a thread that is no worker. `spins`: the jobs may end at once.
    pub(super) fn wait_outside(&self, spins: bool) {
        if spins && self.left.load(Acquire) != 0 {
            super::wait::spin(|| self.flag.is_open());
        }
        if !self.flag.is_open() {
            let _outside = Outside::enter(On::Fork);
            self.flag.park_until(|| false);
        }
    }

    /// Waits until all jobs have ended, or until a time, on a thread that is no worker.
    pub(crate) fn wait_outside_until(&self, until: Instant) {
        self.flag.park_until_time(until);
    }
}

impl std::fmt::Debug for CountLatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountLatch")
            .field("left", &self.left)
            .finish()
    }
}

impl Latch for CountLatch {
    unsafe fn open(this: NonNull<Self>, _worker: &WorkerCore) {
        // SAFETY: the caller's contract.
        unsafe { CountLatch::end_one(this) };
    }
}

impl<L: Latch> Latch for &L {
    unsafe fn open(this: NonNull<Self>, worker: &WorkerCore) {
        // SAFETY: the reference is live, and so is the latch behind it.
        unsafe { L::open(NonNull::from(*this.as_ref()), worker) };
    }
}
