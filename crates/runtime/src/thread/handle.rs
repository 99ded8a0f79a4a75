//! How threads are created, and the handles of those that were.

use super::carrier::program_waits;
use super::deadlock::{Heavily, Outside};
use super::record::{Header, On, Plan, fits};
use super::scheduler::{Queues, Runnable, Why};
use super::waiter::{WaitList, Waiter, wait_in};
use super::{leave, shared, stack};
use crate::name::Name;
use crate::pool::{Pool, PoolShared};
use crate::worker::{self, WorkerCore};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tanada_queues::Ready;

/// What a thread says of itself to the scheduler: a value of any type, which whoever holds the thread's handle can read (paper 5). What it
/// means, and whether it is kept up to date, is between the program and its [`Scheduler`](super::Scheduler).
pub trait Hint: Any + Send + Sync {
    /// Returns the 16 bits that a thief may see of the thread before it owns it; by default 0.
    fn digest(&self) -> u16 {
        0
    }
}

/// No hint.
impl Hint for () {}

/// A hint that is its digest, such as a depth in a recursion.
impl Hint for u16 {
    fn digest(&self) -> u16 {
        *self
    }
}

/// The description of a thread.
///
/// ```
/// use tanada_runtime::thread::Builder;
///
/// let thread = Builder::new().name("sum").stack_size(64 << 10).spawn(|| 1 + 2)?;
/// assert_eq!(thread.join().unwrap(), 3);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder<'p, H = ()> {
    pool: Option<&'p Pool>,
    name: Option<Name>,
    stack_size: usize,
    hint: H,
}

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder {
            pool: None,
            name: None,
            stack_size: stack::USUAL,
            hint: (),
        }
    }
}

impl<'p> Builder<'p> {
    /// Returns the description of a thread without a name and a hint, with a stack of 256 KiB, in the pool of the worker that creates it,
    /// or in [`Pool::global`].
    pub fn new() -> Self {
        Self::default()
    }
}

impl Builder<'_> {
    /// Returns the right to run a new carrier of `worker`, which is this OS thread, with a stack of at least `bytes`, or of the largest
    /// size, and not of the usual one.
    ///
    /// # Errors
    /// If the system has no memory for the stack.
    pub(super) fn carrier(
        worker: &WorkerCore,
        bytes: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<Ready> {
        let builder = Builder::new()
            .name("a closure")
            .stack_size(bytes.clamp(stack::USUAL + 1, stack::MOST));
        let counted = Counted::new(worker.pool(), Some(worker)).unwrap_or_else(|| {
            // The closure is of an adopted thread, or of an exit handler.
            worker.pool().keep(1);
            Counted {
                pool: worker.pool(),
                worker: None,
            }
        });
        // SAFETY: the closure borrows nothing, and the thread is tied.
        let made = unsafe { builder.make_in(counted, body, 0, true, |_, _, right| right) };
        made.map(|(_detached, right)| right)
    }
}

impl<'p, H: Hint> Builder<'p, H> {
    /// Sets the name, for messages.
    #[must_use]
    pub fn name(mut self, name: impl Into<Name>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the least bytes of address space of the thread's stack, at most 256 MiB. They are rounded up to a power of two, at least
    /// 16 KiB, of which a page and what the closure and the hint take are not for the stack. A stack takes the memory that the thread
    /// touches. A thread that may panic needs 32 KiB: a backtrace takes some 20.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Sets the pool.
    #[must_use]
    pub fn pool(mut self, pool: &'p Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Returns this description with a hint.
    #[must_use]
    pub fn hint<I: Hint>(self, hint: I) -> Builder<'p, I> {
        Builder {
            pool: self.pool,
            name: self.name,
            stack_size: self.stack_size,
            hint,
        }
    }

    /// Creates a thread and makes it ready. It is *tied*: it may start on any worker, and then stays there.
    ///
    /// # Errors
    /// If the stack is too large, or the system has no memory for it.
    ///
    /// # Panics
    /// If the closure, the hint and the result take a quarter of the stack, or there is no pool.
    #[inline]
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        // SAFETY: the closure borrows nothing, and the thread is tied.
        unsafe { self.make(body, true, make_new_ready) }.map(|(handle, ())| handle)
    }

    /// As [`Builder::spawn`], and the thread may go on with another worker whenever it was suspended: also in this function, if it creates
    /// an untied thread in a pool whose [`Scheduler`](super::Scheduler) runs that one [first](super::First::Child).
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    ///
    /// # Safety
    /// Whatever is alive on the thread's stack when it is suspended may move to another OS thread: it is `Send`, nothing of it refers to a
    /// variable of the OS thread (`thread_local`, `errno`) or is a lock that the OS thread must release, and no function of
    /// [`fork`](crate::fork) or [`Pool`] is called with a closure in which the thread is suspended ([`scope`](fn@super::scope) and
    /// [`with_hint`] may be). It is not suspended while it unwinds.
    pub unsafe fn spawn_untied<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        // SAFETY: the closure borrows nothing; the rest is the caller's contract.
        unsafe { self.make_untied(body) }
    }

    /// Creates an untied thread and makes it ready, or runs it instead of this one, as the scheduler says.
    ///
    /// # Safety
    /// As [`Builder::make`], not tied.
    pub(super) unsafe fn make_untied<T: Send>(
        self,
        body: impl FnOnce() -> T + Send,
    ) -> io::Result<JoinHandle<T>> {
        let hand_on = |worker: Option<&WorkerCore>, pool: &PoolShared, right| match worker {
            Some(worker) if worker.forks_to_child() => Some(right),
            _ => {
                make_new_ready(worker, pool, right);
                None
            }
        };
        // SAFETY: the caller's contract.
        let (handle, child) = unsafe { self.make(body, false, hand_on) }?;
        if let Some(child) = child {
            leave::leave_to_child(child);
        }
        Ok(handle)
    }

    /// As [`Builder::spawn`], but the thread does not become ready before its [`Runnable`] is used.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    pub fn create<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<(JoinHandle<T>, Runnable)> {
        // SAFETY: the closure borrows nothing, and the thread is tied.
        unsafe { self.make(body, true, |_, _, right| unscheduled(right)) }
    }

    /// As [`Builder::create`], of a thread that is not tied.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    ///
    /// # Safety
    /// As [`Builder::spawn_untied`].
    pub unsafe fn create_untied<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<(JoinHandle<T>, Runnable)> {
        // SAFETY: the closure borrows nothing; the rest is the caller's contract.
        unsafe { self.make(body, false, |_, _, right| unscheduled(right)) }
    }

    /// Creates a thread and calls `hand_on` with its pool, this worker of it, and the right to run the thread.
    ///
    /// # Safety
    /// What the closure borrows and the result live until the thread has ended and its handle is gone. If it is not tied: as
    /// [`Builder::spawn_untied`].
    ///
    /// Never inlined, as all functions here that read a variable of the OS thread: see [`leave::yielding`].
    #[inline(never)]
    pub(super) unsafe fn make<T: Send, R>(
        self,
        body: impl FnOnce() -> T + Send,
        tied: bool,
        hand_on: impl FnOnce(Option<&WorkerCore>, &PoolShared, Ready) -> R,
    ) -> io::Result<(JoinHandle<T>, R)> {
        program_waits();
        // Before anything is taken: it may panic, or wait.
        let digest = self.hint.digest();
        worker::with_any(|worker| {
            // In a pool that has closed, this is an OS thread as any other: one that was adopted, or that runs the exit handler.
            let own = worker.filter(|_| self.pool.is_none());
            if let Some(counted) = own.and_then(|here| Counted::new(here.pool(), worker)) {
                // SAFETY: the caller's contract.
                return unsafe { self.make_in(counted, body, digest, tied, hand_on) };
            }
            let global;
            let pool = match self.pool {
                Some(pool) => pool,
                None => {
                    global = crate::fork::global();
                    &global
                }
            };
            let pool = pool.open();
            let here = worker.filter(|worker| std::ptr::eq(worker.pool(), pool));
            let counted = Counted::new(pool, here).expect("a handle keeps the pool open");
            // SAFETY: the caller's contract.
            unsafe { self.make_in(counted, body, digest, tied, hand_on) }
        })
    }

    #[inline]
    unsafe fn make_in<T: Send, F: FnOnce() -> T + Send, R>(
        self,
        counted: Counted<'_>,
        body: F,
        digest: u16,
        tied: bool,
        hand_on: impl FnOnce(Option<&WorkerCore>, &PoolShared, Ready) -> R,
    ) -> io::Result<(JoinHandle<T>, R)> {
        let (pool, worker) = (counted.pool, counted.worker);
        let class = stack::class_of(self.stack_size)
            .ok_or_else(|| io::Error::other("the stack of a thread has at most 256 MiB"))?;
        assert!(
            fits::<H, T, F>(class),
            "the closure, the hint or the result of a thread is too large for its stack: Builder::stack_size sets another size"
        );
        super::deadlock::used();
        let slot = shared::take_slot(worker, class)?;
        // The thread gives back what was counted.
        std::mem::forget(counted);
        let plan = Plan {
            pool,
            class,
            tied,
            number: worker.map_or_else(shared::number, |worker| worker.threads.number()),
            name: self.name,
            digest,
        };
        // SAFETY: the slot was free, everything fits, and the thread was counted. The rest is the caller's contract.
        let right = unsafe {
            Header::prepare(slot, &plan);
            Header::fill(slot, self.hint, body);
            slot.as_ref().ready()
        };
        let handle = JoinHandle::new(slot);
        Ok((handle, hand_on(worker, pool, right)))
    }
}

/// A thread of `pool` that is not made yet, and counted, so that the pool stays open: on `worker`, if this OS thread is one of the pool.
struct Counted<'a> {
    pool: &'a PoolShared,
    worker: Option<&'a WorkerCore>,
}

impl<'a> Counted<'a> {
    /// Returns `None` if the pool has closed.
    #[inline]
    fn new(pool: &'a PoolShared, worker: Option<&'a WorkerCore>) -> Option<Self> {
        let counts = match worker {
            Some(worker) => worker.count_thread(),
            None => pool.try_keep(1),
        };
        counts.then(|| Counted { pool, worker })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        match self.worker {
            Some(worker) => worker.uncount_thread(),
            None => self.pool.let_go(),
        }
    }
}

/// Returns the right to run a new thread, for the program.
pub(super) fn unscheduled(right: Ready) -> Runnable {
    Header::of(&right).waits_on(On::Schedule, 0);
    Runnable::new(right)
}

/// Makes a new thread ready.
#[inline]
pub(super) fn make_new_ready(worker: Option<&WorkerCore>, pool: &PoolShared, right: Ready) {
    pool.make_new_ready(worker, right);
}

/// Makes the thread ready, as [`Runnable::schedule`].
#[inline(never)]
pub(super) fn schedule(thread: Runnable) {
    let right = thread.into_right();
    let pool = Header::of(&right).pool_address();
    worker::with_any(|worker| match worker {
        Some(worker) if std::ptr::eq(worker.pool(), pool) => {
            let why = why_ready(&right);
            worker.pool().make_ready(Some(worker), right, why);
        }
        _ => schedule_elsewhere(right),
    });
}

/// Makes a thread ready as if this OS thread were no worker.
pub(super) fn schedule_elsewhere(right: Ready) {
    // SAFETY: the thread does not end before the right is used.
    let pool = unsafe { Header::of(&right).pool() }.shared();
    let why = why_ready(&right);
    pool.make_ready(None, right, why);
    PoolShared::drop_aside(pool);
}

/// Returns why a thread is made ready of which nothing else is known.
pub(super) fn why_ready(right: &Ready) -> Why {
    match Header::of(right).home() {
        None => Why::New,
        Some(_) => Why::Woken,
    }
}

/// Makes a thread ready for any worker that may run it, without a word to the scheduler.
pub(super) fn run_somewhere(right: Ready) {
    // SAFETY: as above.
    let pool = unsafe { Header::of(&right).pool() }.shared();
    match Header::of(&right).is_pinned() {
        true => pool.make_pinned_ready(None, right),
        false => pool.inject_thread(right),
    }
    PoolShared::drop_aside(pool);
}

/// Calls `body` with the run queues of this worker's pool; `None` if this OS thread is no worker.
///
/// The same holds for `body` as for a function of a [`Scheduler`](super::Scheduler): the process ends if it panics, yields or has to wait,
/// and of threads that it makes ready otherwise than by the queues the pool's scheduler learns later. It must not call this function, nor
/// may a scheduler: the process ends then.
#[inline(never)]
pub fn with_queues<R>(body: impl FnOnce(&mut Queues<'_>) -> R) -> Option<R> {
    worker::with_any(|worker| worker.map(|worker| worker.ask_scheduler(body)))
}

/// Spreads threads that were created and not scheduled over the workers `over` of the caller's pool, in equal parts and in order: paper
/// 5's authors wished for such an operation. ([`Placement::subtree`](tanada_topology::Placement::subtree) of
/// [`Pool::placement`](crate::Pool::placement) is the workers of a part of the machine.) Worker `over.start` gets the first ones.
/// Each lies at the tail of its worker's queue, the first of them nearest to the head. A thread of another pool is scheduled there.
///
/// # Panics
/// If this OS thread is no worker, or there are no such workers.
pub fn spread(threads: impl IntoIterator<Item = Runnable>, over: std::ops::Range<u16>) {
    let all = crate::fork::current_workers().expect("only a worker spreads threads");
    assert!(
        over.start < over.end && over.end <= all,
        "there are no workers {over:?}"
    );
    let threads: Vec<Runnable> = threads.into_iter().collect();
    let (number, workers) = (threads.len(), usize::from(over.end - over.start));
    with_queues(|queues| {
        for (index, thread) in threads.into_iter().enumerate() {
            let whom = usize::from(over.start) + index * workers / number;
            queues.push_tail(tanada_policy::WorkerId(whom as u16), thread);
        }
    });
}

/// The right to wait for a thread's end and to take its result. A future of the same.
///
/// A handle that is dropped detaches its thread, which runs on. One that is forgotten keeps the thread's stack for ever.
#[must_use = "a thread whose handle is dropped runs on, and its panic is not seen"]
pub struct JoinHandle<T> {
    thread: NonNull<Header>,
    /// Whether the result was taken.
    taken: bool,
    result: PhantomData<T>,
}

// SAFETY: the handle gives access to the result alone, and to the hint, which is `Send` and `Sync`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above; a shared handle gives access to the hint only.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Returns the handle of the slot's thread, whose result is a `T`.
    #[inline]
    fn new(thread: NonNull<Header>) -> Self {
        JoinHandle {
            thread,
            taken: false,
            result: PhantomData,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: headers are at their places for ever, and this one's slot is in use until the handle is gone.
        unsafe { self.thread.as_ref() }
    }

    /// Waits for the thread's end and returns its result, or the payload of its panic.
    ///
    /// A lightweight thread is suspended meanwhile; a worker that is in a task runs other threads and jobs; any other OS thread sleeps.
    ///
    /// # Errors
    /// With the payload, if the thread panicked.
    ///
    /// # Panics
    /// If the handle was polled until it was ready.
    #[inline]
    pub fn join(self) -> std::thread::Result<T> {
        assert!(!self.taken, "a handle was joined after it was ready");
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle goes, and the thread is one of its type.
        unsafe {
            let worker = finish(this.thread);
            // This OS thread is still that worker: nothing has waited since.
            let worker = worker.map(|worker| worker.as_ref());
            this.header().free_with::<T>(worker)
        }
    }

    /// Returns whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.header().is_done()
    }

    /// Returns the thread's hint, if it is an `H`.
    pub fn hint<H: Any>(&self) -> Option<&H> {
        self.header().hint()
    }

    /// Returns the thread, by which it can be unparked.
    pub fn thread(&self) -> Thread {
        Thread::of(self.header())
    }
}

/// Once for so many threads, one that waits for a new one lets others of its worker run first: else a thread that makes one after the other
/// and waits for each would keep them waiting for ever. A power of two.
const LET_OTHERS: u64 = 256;

/// Returns when the thread has ended: the worker that this OS thread is then, `None` if it is none.
///
/// # Safety
/// The caller has the thread's handle.
#[inline(never)]
unsafe fn finish(thread: NonNull<Header>) -> Option<NonNull<WorkerCore>> {
    // SAFETY: headers are at their places for ever.
    let header: &'static Header = unsafe { thread.as_ref() };
    if !header.is_done() {
        check_may_wait();
        // Numbers of threads made one after the other are consecutive.
        if header.number().is_multiple_of(LET_OTHERS) {
            super::yield_now();
        } else if let Some(worker) = run_here(header) {
            return Some(worker);
        }
        // SAFETY: the caller's contract.
        unsafe { wait(header) };
    }
    here()
}

/// Ends the process if a scheduler calls this, or a closure of [`with_queues`]. Never inlined: see [`leave::yielding`].
#[inline(never)]
fn check_may_wait() {
    worker::with_any(|worker| {
        worker.inspect(|worker| worker.check_may_wait());
    });
}

/// Returns the worker that this OS thread is.
#[inline(never)]
fn here() -> Option<NonNull<WorkerCore>> {
    worker::with_any(|worker| worker.map(NonNull::from))
}

/// Runs the thread on top of this one, if it lies at the head of this worker's queue. Returns the worker if the thread has ended.
#[inline(always)]
fn run_here(thread: &'static Header) -> Option<NonNull<WorkerCore>> {
    worker::with_any(|worker| {
        let worker = worker?;
        if worker.pool().threads.scheduler().is_some() || worker.current_thread().is_none() {
            return None;
        }
        let handle = std::ptr::from_ref(thread).addr() as u64;
        let right = (worker.threads).with_head(|head| head.pop_exactly(handle))?;
        (worker.run_thread(right, true)).then(|| NonNull::from(worker))
    })
}

/// Waits for the thread's end.
///
/// # Safety
/// The caller has the thread's handle.
#[cold]
#[inline(never)]
unsafe fn wait(thread: &'static Header) {
    let waiter = Waiter::new();
    // SAFETY: the waiter stays here until it is woken.
    if unsafe { thread.await_end(&waiter) } {
        waiter.wait(On::Join, thread.number());
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle goes.
        unsafe { self.header().detach() };
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Future for JoinHandle<T> {
    type Output = std::thread::Result<T>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let header = self.header();
        if !header.is_done() && header.await_end_as_future(context.waker()) {
            return Poll::Pending;
        }
        assert!(!self.taken, "a handle was polled after it was ready");
        self.taken = true;
        // SAFETY: the thread has ended, the types are those that it was made with, and this is done once.
        Poll::Ready(unsafe { self.header().take_outcome::<T>() })
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle")
            .field(&self.header().label())
            .finish()
    }
}

/// A lightweight thread, by which it can be unparked. It does not keep the thread's result.
#[derive(Clone, Copy)]
pub struct Thread {
    header: NonNull<Header>,
    number: u64,
}

// SAFETY: only atomic words of the header are used.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

impl Thread {
    fn of(header: &Header) -> Self {
        Thread {
            header: NonNull::from(header),
            number: header.label().map_or(0, |(number, _)| number),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: headers are at their places for ever.
        unsafe { self.header.as_ref() }
    }

    /// Lets the thread's current or next call of [`park`] return. Does nothing if the thread has ended.
    pub fn unpark(&self) {
        if self.is_alive() {
            shared::unpark(self.header());
        }
    }

    /// Returns whether the thread has not ended, or its handle is still there.
    fn is_alive(&self) -> bool {
        self.name().is_some()
    }

    /// Returns the thread's number, which no other thread of this process has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the thread's name, empty if it has none; `None` once the thread has ended and its handle is gone.
    pub fn name(&self) -> Option<&'static str> {
        let (number, name) = self.header().label()?;
        (number == self.number).then_some(name)
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Thread {}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread")
            .field("number", &self.number)
            .field("name", &self.name())
            .finish()
    }
}

/// Returns the lightweight thread that calls this; `None` if it is none.
pub fn current() -> Option<Thread> {
    header().map(Thread::of)
}

/// Calls `read` with the hint of the thread that calls this, if that is a lightweight thread whose hint is an `H`.
pub fn with_hint<H: Any, R>(read: impl FnOnce(&H) -> R) -> Option<R> {
    let header = header()?;
    // The thread runs, so its hint is there.
    header.hint().map(read)
}

/// The caller has got a lock of [`sync`](super::sync). Returns the number that stands for the caller in reports: of a lightweight thread,
/// or of the OS thread.
#[inline(never)]
pub(super) fn has_locked() -> u64 {
    program_waits();
    worker::with_any(|worker| {
        let thread = worker.and_then(WorkerCore::current_thread);
        thread.map_or_else(super::deadlock::context, Header::number)
    })
}

/// Returns the header of the lightweight thread that calls this.
#[inline(never)]
pub(super) fn header() -> Option<&'static Header> {
    worker::with_any(|worker| worker.and_then(WorkerCore::current_thread))
}

/// Waits until the calling thread is unparked ([`Thread::unpark`]), or was since it last parked. May return for no reason. On a thread that
/// is not lightweight: as [`std::thread::park`].
#[inline(never)]
pub fn park() {
    match header() {
        Some(header) => {
            header.waits_on(On::Park, 0);
            leave::park(header);
            header.goes_on();
        }
        None => {
            check_may_wait();
            let is_outside = worker::with_any(|worker| worker.is_none());
            let _waits =
                is_outside.then(|| (Outside::enter(On::Park), Heavily::enter(None, On::Park, 0)));
            crate::parking::park();
        }
    }
}

/// Lets other threads of the worker run. In a task or a forked closure, runs a job or a thread until that ends or waits; on a thread that
/// is no worker, does the same as [`std::thread::yield_now`].
#[inline]
pub fn yield_now() {
    if let Some(leave) = leave::yielding() {
        // SAFETY: this is the thread, and nothing has been done meanwhile.
        unsafe { leave.now() };
    }
}

/// Returns the time after `time`, or one that no program lives to see.
pub(super) fn deadline_of(time: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(1 << 32);
    Instant::now() + time.min(LONG)
}

/// Waits for this time, or does as [`yield_now`] if it is none. A lightweight thread is suspended meanwhile. A worker in a task or a forked
/// closure runs other closures and threads meanwhile, and may come back later.
#[inline(never)]
pub fn sleep(time: Duration) {
    let until = deadline_of(time);
    let is_over = || Instant::now() >= until;
    let Some(header) = header() else {
        return idle_until(until, is_over);
    };
    header.waits_on(On::Sleep, 0);
    leave::park_until(header, until, is_over);
    header.goes_on();
}

/// A thread that is not lightweight waits until `is_over`, which is a time or something before, and lets others run at least once.
pub(super) fn idle_until(until: Instant, is_over: impl Fn() -> bool) {
    loop {
        idle_for(until);
        if is_over() {
            return;
        }
    }
}

/// A thread that is not lightweight waits until a time, or less long. A worker in a task runs a job or a thread meanwhile.
fn idle_for(until: Instant) {
    /// A worker looks so often whether there is something that it can do.
    const LOOK: Duration = Duration::from_millis(1);
    let ran = worker::with_any(|worker| worker.map(WorkerCore::run_something));
    let rest = until.saturating_duration_since(Instant::now());
    match ran {
        Some(true) => {}
        Some(false) => crate::parking::pause(rest.min(LOOK)),
        None => crate::parking::pause(rest),
    }
}

/// Waits until `future` is ready, and returns its result. A lightweight thread is suspended meanwhile.
///
/// ```
/// use tanada_runtime::thread;
///
/// let thread = thread::spawn(|| thread::block_on(async { 1 + 2 }));
/// assert_eq!(thread.join().unwrap(), 3);
/// ```
#[inline(never)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut state = signal.0.lock();
        if !std::mem::take(&mut state.woken) {
            wait_in(state, |state| &mut state.waiter, (On::Future, 0), || ());
            signal.0.lock().woken = false;
        }
    }
}

/// Whether a future is to be polled again, and the thread that waits for that.
#[derive(Default)]
struct Signal(parking_lot::Mutex<Signalled>);

#[derive(Default)]
struct Signalled {
    woken: bool,
    waiter: WaitList,
}

impl std::task::Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.0.lock();
        state.woken = true;
        let waiter = state.waiter.pop();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.now();
        }
    }
}

/// Creates a thread and makes it ready, as [`Builder::spawn`] with nothing set.
///
/// # Panics
/// As [`Builder::spawn`], or if that fails.
#[inline]
pub fn spawn<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(body: F) -> JoinHandle<T> {
    if const { fits::<(), T, F>(stack::USUAL_CLASS) }
        && let Some(begun) = shared::begin_usual()
    {
        // SAFETY: everything fits, and the closure borrows nothing. It is filled at once, here.
        unsafe {
            Header::fill(begun.slot, (), body);
            begun.start();
        }
        return JoinHandle::new(begun.slot);
    }
    match Builder::new().spawn(body) {
        Ok(handle) => handle,
        Err(error) => panic!("no stack for a thread: {error}"),
    }
}
