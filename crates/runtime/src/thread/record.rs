//! What the runtime knows of one lightweight thread, and how its stack is entered and left.
//!
//! A thread's [`Header`] lies at the end of its slot. Below it lies what has a type that only the creator knows: the outcome, then the hint
//! ([`Types`]), and below these the stack begins, with the closure at its top. Making a thread is to write all of that, so the header's
//! words that change for each thread lie on two cache lines, and what follows from the types is behind one pointer. Who may touch what:
//!
//! - The right to run a thread is a [`Ready`] with the header's address. Its holder alone goes on with the thread's stack.
//! - `state`, `joiner`, `pool`, `tied` and the words for reports are atomic, and `waker` has a lock: any thread may use them at any time,
//!   also when the thread has ended and another one has its slot. A stale wake-up is a wake-up too many, which every wait expects.
//! - The other fields are written before the thread is first handed on, and read until its slot is free.

use super::deadlock::Label;
use super::leave::{ending, put_away};
use super::stack;
use super::switch::{Place, begin_at, switch};
use super::waiter::Waiter;
use crate::graph::GraphCore;
use crate::name::Name;
use crate::pool::PoolShared;
use crate::worker::{Stack as OsStack, WorkerCore, stack_pointer};
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::task::Waker;
use tanada_queues::Ready;

/// [`Header::state`]: it runs, or a right to run it is somewhere.
const RUNNING: u32 = 0;
/// It waits to be unparked; there is no right to run it.
const PARKED: u32 = 1;
/// As [`RUNNING`], and its next call of `park` returns at once.
const TOKEN: u32 = 2;

/// [`Header::joiner`]: nothing waits for the thread's end. (Any other value than these four is the address of a [`Waiter`].)
const NOBODY: usize = 0;
/// The thread has ended.
const DONE: usize = 1;
/// The handle is gone.
const DETACHED: usize = 2;
/// [`Header::waker`] waits.
const FUTURE: usize = 3;

/// [`Header::home`] of a thread that has not started.
const NOT_STARTED: u32 = u32::MAX;

/// What a switch passes: the address of the header of the thread that leaves, and in its lowest bits why ([`Left`]). 0: who leaves waits
/// until the worker is given back, and nothing is to be done with it.
pub(super) type Word = usize;

/// The bits of a [`Word`] that say why: addresses of headers have none of them.
const WHY: usize = 7;

/// A thread that is about to leave, why, and where its worker goes on. Two words, which a function returns in registers.
#[must_use]
pub(super) struct Leave {
    word: NonZero<Word>,
    to: Place,
}

impl Leave {
    #[inline(always)]
    pub(super) fn new(thread: &'static Header, why: Left, to: Place) -> Self {
        let word = ptr::from_ref(thread).expose_provenance() | why as usize;
        Leave {
            word: NonZero::new(word).expect("no header is at 0"),
            to,
        }
    }

    /// Leaves the thread. Returns when it runs again, perhaps on another worker if it is not tied.
    ///
    /// # Safety
    /// This is called on the thread itself, on the worker that has made this value, which has done nothing since then.
    #[inline(always)]
    pub(super) unsafe fn now(self) {
        let (thread, _) = parts(self.word.get());
        #[cfg(sanitized)]
        let left = super::sanitized::leaves(self.to);
        // SAFETY: the place is that of a stack that has left, as the caller's contract implies, and headers are at their places for ever.
        let word = unsafe { switch(&raw const thread.place, self.to, self.word.get()) };
        #[cfg(sanitized)]
        left.comes_back();
        if word & WHY != 0 {
            put_away(word);
        }
    }

    /// As [`Leave::now`], of a thread whose closure has returned.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn for_ever(self) -> ! {
        let (thread, _) = parts(self.word.get());
        #[cfg(sanitized)]
        super::sanitized::ends(self.to);
        // SAFETY: as there.
        unsafe { switch(&raw const thread.place, self.to, self.word.get()) };
        unreachable!("a thread that has ended does not go on")
    }
}

/// Returns the thread that a word names, and why it has left. The word is not 0.
#[inline(always)]
pub(super) fn parts(word: Word) -> (&'static Header, Left) {
    let thread: *const Header = ptr::with_exposed_provenance(word & !WHY);
    let why = match word & WHY {
        0 => Left::Turned,
        1 => Left::Yielded,
        2 => Left::Parked,
        3 => Left::Ended,
        _ => Left::Forked,
    };
    // SAFETY: headers are at their places for ever.
    (unsafe { &*thread }, why)
}

/// Where the stack of the slot's thread begins: runs its closure, and leaves the result where the thread's handle finds it.
///
/// # Safety
/// [`Header::fill`] has stored the closure, and this is the thread.
unsafe extern "C" fn begin<H, T, F: FnOnce() -> T>(slot: *const (), word: Word) -> ! {
    #[cfg(sanitized)]
    super::sanitized::Left::begins();
    if word & WHY != 0 {
        put_away(word);
    }
    let slot = NonNull::new(slot.cast_mut())
        .expect("no slot is at 0")
        .cast();
    let outcome = outcome_of::<T>(slot);
    let code = below::<F>(hint_of::<H, T>(slot).addr());
    // SAFETY: it was written, and the stack begins once.
    let body = unsafe { code.read() };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let result = body();
        // SAFETY: nobody else looks before the thread has ended. It holds `None`.
        unsafe { outcome.write(Some(Ok(result))) };
    }));
    let mut may_wait = std::mem::needs_drop::<T>();
    if let Err(panic) = ended {
        may_wait = true;
        // SAFETY: as above.
        unsafe { outcome.write(Some(Err(panic))) };
    }
    if may_wait {
        // SAFETY: the slot is this thread's, which has just written the result.
        unsafe { slot.as_ref().drop_if_detached::<T>() };
    }
    // SAFETY: this is the thread, and its worker has just made the value.
    unsafe { ending().for_ever() }
}

/// The result of a thread's closure.
pub(super) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Why a thread has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Left {
    /// It lets others run, and has been put behind them.
    Turned = 0,
    /// It lets others run.
    Yielded = 1,
    /// It waits to be unparked.
    Parked = 2,
    /// Its closure has returned.
    Ended = 3,
    /// It lets a thread run that it has created.
    Forked = 4,
}

/// What a thread waits for, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum On {
    /// Nothing.
    Nothing,
    /// The end of the thread with the number.
    Join,
    /// A mutex that what has the number, or 0, has or gets before: a thread or an OS thread.
    Mutex,
    /// A condition variable.
    Condvar,
    /// A barrier.
    Barrier,
    /// A message in a channel.
    Receive,
    /// Room in a channel.
    Send,
    /// A closure that what has the number runs once: a thread or an OS thread.
    Once,
    /// The end of the threads of the scope with the number.
    Scope,
    /// A future.
    Future,
    /// The passing of time.
    Sleep,
    /// [`park`](super::park).
    Park,
    /// To be scheduled, after it was created.
    Schedule,
    /// The end of a fork, a graph or a call. The thread is not parked.
    Work,
    /// The end of the pool with the [number](pool_number); of one that ends although threads of it have not ended, if that is 0. The thread
    /// is not parked.
    Pool,
    /// The end of a closure that runs in a pool. Of OS threads alone, as the next two.
    Fork,
    /// The end of a graph.
    Graph,
    /// The end of the parts of a call.
    Call,
}

/// A wait of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) on: On,
    pub(super) what: u64,
    /// No other wait of the thread has it.
    pub(super) since: usize,
}

impl On {
    pub(super) const ALL: [On; 18] = [
        On::Nothing,
        On::Join,
        On::Mutex,
        On::Condvar,
        On::Barrier,
        On::Receive,
        On::Send,
        On::Once,
        On::Scope,
        On::Future,
        On::Sleep,
        On::Park,
        On::Schedule,
        On::Work,
        On::Pool,
        On::Fork,
        On::Graph,
        On::Call,
    ];
}

/// What the runtime knows of one thread. All zeros, it is that of a free slot.
#[repr(C, align(64))]
pub(crate) struct Header {
    /// Where its stack goes on, unless the thread runs.
    pub(super) place: Cell<Place>,
    /// The next one in the list of its worker that the slot or the thread is in.
    pub(super) next: Cell<Option<&'static Header>>,
    /// The graph of the task inside of which it runs at the moment, or null.
    pub(super) graph: Cell<*const GraphCore>,
    /// The pool, which is open until the thread has ended.
    pool: AtomicPtr<PoolShared>,
    joiner: AtomicUsize,
    /// Number of the thread in its process, 0 in a free slot.
    number: AtomicU64,
    state: AtomicU32,
    home: AtomicU32,
    tied: AtomicBool,
    class: Cell<u8>,
    digest: Cell<u16>,
    /// Whether `waker` was ever set.
    polled: AtomicBool,
    /// Whether it runs a job for a worker whose stack is used up ([`carrier`](super::carrier)).
    pub(super) is_deep: Cell<bool>,
    /// Of the closure that it runs in its tree of forks, while it does not run: if the pool's fork policy decides.
    pub(super) depth: Cell<u16>,
    /// What follows from the types that the creator knows, until the outcome and the hint are dropped.
    types: Cell<Option<&'static Types>>,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    /// An [`On`] in the lowest byte; above it, how often it has changed.
    on: AtomicUsize,
    on_what: AtomicU64,
    /// The number of the scope that the thread is part of, or 0.
    scope: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// Frees a slot, also if its hint or its result panics when they are dropped.
struct Free<'a>(&'a Header, Option<&'a WorkerCore>);

impl Drop for Free<'_> {
    #[inline]
    fn drop(&mut self) {
        let Free(header, worker) = *self;
        header.number.store(0, Relaxed);
        let class = usize::from(header.class.get());
        super::shared::free_slot(worker, class, NonNull::from(header));
    }
}

/// What follows from the types of a thread's hint and result. One for each pair.
pub(super) struct Types {
    /// Drops the outcome and the hint.
    drop: unsafe fn(NonNull<Header>),
    /// Whether dropping the hint does anything.
    has_hint: bool,
    hint_type: fn() -> TypeId,
    /// Where the hint is.
    hint: fn(NonNull<Header>) -> *const (),
}

/// [`Types`] of a hint `H` and a result `T`.
struct Of<H, T>(PhantomData<(H, T)>);

impl<H: 'static, T> Of<H, T> {
    const TYPES: &'static Types = &Types {
        drop: drop_typed::<H, T>,
        has_hint: std::mem::needs_drop::<H>(),
        hint_type: TypeId::of::<H>,
        hint: |slot| hint_of::<H, T>(slot).cast_const().cast(),
    };
}

/// What the type of a thread says nothing of.
pub(super) struct Plan<'a> {
    pub(super) pool: &'a PoolShared,
    pub(super) class: usize,
    pub(super) tied: bool,
    pub(super) number: u64,
    pub(super) name: Option<Name>,
    pub(super) digest: u16,
}

/// Returns whether the closure, the hint and the result leave most of a slot of this class for the stack.
pub(super) const fn fits<H, T, F>(class: usize) -> bool {
    let outcome = size_of::<Option<Outcome<T>>>() + align_of::<Option<Outcome<T>>>();
    let hint = size_of::<H>() + align_of::<H>();
    let body = size_of::<F>() + align_of::<F>();
    outcome + hint + body < stack::size_of_class(class) / 4
}

/// Returns the place for a `V` below the address `top`, which lies in a slot: the memory of all slots is exposed.
#[inline]
fn below<V>(top: usize) -> *mut V {
    ptr::with_exposed_provenance_mut((top - size_of::<V>()) & !(align_of::<V>() - 1))
}

/// Returns where the closure of the slot's thread leaves its result, a `T`.
#[inline]
fn outcome_of<T>(slot: NonNull<Header>) -> *mut Option<Outcome<T>> {
    below(slot.addr().get())
}

/// Returns where the hint of the slot's thread is, an `H`, if its result is a `T`.
#[inline]
fn hint_of<H, T>(slot: NonNull<Header>) -> *mut H {
    below(outcome_of::<T>(slot).addr())
}

impl Header {
    /// Begins to make a thread in a free slot: all that has no type of the creator's. [`Header::fill`] is called next.
    ///
    /// # Safety
    /// `slot` is free and of the class. The pool lives until the thread has ended.
    #[inline]
    pub(super) unsafe fn prepare(slot: NonNull<Header>, plan: &Plan<'_>) {
        // SAFETY: free slots are zeroed or used before, so the fields have valid values; nothing but stale wakers looks at them.
        let header = unsafe { slot.as_ref() };
        header.home.store(NOT_STARTED, Relaxed);
        header.joiner.store(NOBODY, Relaxed);
        header.polled.store(false, Relaxed);
        header.class.set(plan.class as u8);
        header.digest.set(plan.digest);
        debug_assert!(
            header.graph.get().is_null() && header.depth.get() == 0,
            "a thread ends outside of all tasks and forks"
        );
        let name = plan.name.map_or("", Name::as_str);
        // A reader that sees one of these sees, too, that the number has been 0 meanwhile.
        let pool = ptr::from_ref(plan.pool).cast_mut();
        header.pool.store(pool, Release);
        header.tied.store(plan.tied, Release);
        header.name.store(name.as_ptr().cast_mut(), Release);
        header.name_bytes.store(name.len(), Release);
        // `on` says that nothing is waited for, as at the end of every wait.
        header.state.store(RUNNING, Relaxed);
        header.number.store(plan.number, Release);
    }

    /// Makes a thread in a slot that was prepared.
    ///
    /// # Safety
    /// The types [`fits`] a slot of the class. What `hint` and `body` borrow lives until the slot is free.
    #[inline(always)]
    pub(super) unsafe fn fill<H: 'static, T, F: FnOnce() -> T>(
        slot: NonNull<Header>,
        hint: H,
        body: F,
    ) {
        #[cfg(sanitized)]
        super::sanitized::is_prepared(slot.addr().get());
        let (outcome, place) = (outcome_of::<T>(slot), hint_of::<H, T>(slot));
        // SAFETY: the places lie in the slot, above the stack.
        unsafe {
            outcome.write(None);
            place.write(hint);
        }
        let code = below::<F>(place.addr());
        // SAFETY: as above, and below that nothing is used yet. What the closure uses lives as long as the thread.
        unsafe {
            code.write(body);
            let header = slot.as_ref();
            let place = begin_at(code.addr(), slot.as_ptr().cast(), begin::<H, T, F>);
            header.place.set(place);
            header.types.set(Some(Of::<H, T>::TYPES));
        }
    }

    /// Returns the right to run the thread.
    ///
    /// # Safety
    /// No such right exists, and the thread is not parked.
    #[inline]
    pub(super) unsafe fn ready(&self) -> Ready {
        // SAFETY: the address is even, and rights of threads come back to this layer alone.
        unsafe { Ready::at(ptr::from_ref(self).addr() as u64, self.digest.get()) }
    }

    /// Returns the header of the thread that a right of this layer stands for.
    #[inline]
    pub(super) fn of(right: &Ready) -> &'static Header {
        let address = right
            .address()
            .expect("a right of this layer is an address");
        // SAFETY: headers are at their places for ever, and the right is one of this layer's. (The address was exposed by `Ready::at`.)
        unsafe { &*(address as *const Header) }
    }

    /// Notes on which worker the thread runs from now on. Called by its holder.
    #[inline]
    pub(super) fn goes_to(&self, worker: &WorkerCore) {
        self.home.store(u32::from(worker.id.0), Relaxed);
    }

    /// Takes the token, if there is one. Called by the thread itself.
    #[inline]
    pub(super) fn take_token(&self) -> bool {
        self.state.load(Relaxed) == TOKEN && self.state.swap(RUNNING, Acquire) == TOKEN
    }

    /// The thread has left as [`Left::Parked`]. Returns whether it has been unparked meanwhile: then there is a right to run it again.
    #[inline]
    pub(super) fn settle_park(&self) -> bool {
        let parked = self
            .state
            .compare_exchange(RUNNING, PARKED, AcqRel, Acquire);
        if parked.is_err() {
            // It has been unparked, and may be once more before this. A plain store would hide that without a view of what the other
            // thread did before, and the thread would park for ever.
            self.state.swap(RUNNING, AcqRel);
        }
        parked.is_err()
    }

    /// Unparks the thread. Returns whether it was parked: then the caller has to make it ready.
    #[inline]
    pub(super) fn unpark(&self) -> bool {
        let mut seen = self.state.load(Relaxed);
        loop {
            let next = match seen {
                TOKEN => TOKEN,
                PARKED => RUNNING,
                _ => TOKEN,
            };
            match self
                .state
                .compare_exchange_weak(seen, next, AcqRel, Relaxed)
            {
                Ok(_) => return seen == PARKED,
                Err(now) => seen = now,
            }
        }
    }

    /// The thread has ended: lets those go on that wait for it, and frees what nobody waits for.
    ///
    /// # Safety
    /// It has left as [`Left::Ended`], and this is called once.
    #[inline]
    pub(super) unsafe fn end(&self, worker: &WorkerCore) {
        let mut seen = self.joiner.load(Acquire);
        // The lock is held when the end becomes visible: from then on the handle's owner may free the slot, which takes it, too.
        let waker = loop {
            let guard = (seen == FUTURE).then(|| self.waker.lock());
            match self.joiner.compare_exchange(seen, DONE, AcqRel, Acquire) {
                Ok(_) => break guard.and_then(|mut waker| Some((waker.take()?, self.label()))),
                Err(now) => seen = now,
            }
        };
        match seen {
            NOBODY => {}
            DETACHED => self.catch(worker.pool(), || {
                // SAFETY: no handle is left, and no right.
                unsafe { self.free(Some(worker)) }
            }),
            FUTURE => {
                if let Some((waker, label)) = waker {
                    let (number, name) = label.unwrap_or_default();
                    let label = Label::Light(number, name);
                    let what =
                        || format!("the waker that the end of lightweight {label} wakes panicked");
                    worker.pool().catch_of(what, || waker.wake());
                }
            }
            // SAFETY: the waiter waits until it is woken here.
            waiter => unsafe {
                Waiter::<()>::wake(NonNull::new_unchecked(ptr::with_exposed_provenance_mut(
                    waiter,
                )));
            },
        }
    }

    /// As [`Header::end`], of a thread whose handle's owner calls this.
    ///
    /// # Safety
    /// As [`Header::end`].
    #[inline]
    pub(super) unsafe fn end_here(&self) {
        self.joiner.store(DONE, Relaxed);
    }

    /// Returns whether the thread has ended. Then its outcome may be taken.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.joiner.load(Acquire) == DONE
    }

    /// Lets `waiter` be woken at the end. Returns false if the thread has ended.
    ///
    /// # Safety
    /// The handle's owner calls this, once, and the waiter lives until it is woken.
    pub(super) unsafe fn await_end(&self, waiter: &Waiter) -> bool {
        let address = ptr::from_ref(waiter).expose_provenance();
        // If it has ended, its outcome is read next.
        let mut seen = self.joiner.load(Acquire);
        loop {
            if seen == DONE {
                return false;
            }
            match self.joiner.compare_exchange(seen, address, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Lets `waker` be woken at the end, instead of one that was passed before. Returns false if the thread has ended.
    pub(super) fn await_end_as_future(&self, waker: &Waker) -> bool {
        self.polled.store(true, Relaxed);
        let waker = waker.clone();
        let before = self.waker.lock().replace(waker);
        drop(before);
        let set = self
            .joiner
            .compare_exchange(NOBODY, FUTURE, AcqRel, Acquire);
        if matches!(set, Err(DONE)) {
            let last = self.waker.lock().take();
            drop(last);
            return false;
        }
        true
    }

    /// The handle goes without waiting.
    ///
    /// # Safety
    /// The handle's owner calls this, once.
    #[inline(never)]
    pub(super) unsafe fn detach(&self) {
        let mut seen = self.joiner.load(Relaxed);
        while seen != DONE {
            match self
                .joiner
                .compare_exchange(seen, DETACHED, AcqRel, Acquire)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        let _ = self.joiner.load(Acquire);
        // SAFETY: it has ended, so there is no right, and the handle goes.
        crate::worker::with_any(|worker| unsafe { self.free(worker) });
    }

    /// Takes the outcome and frees the slot.
    ///
    /// # Safety
    /// As [`Header::free`] and [`Header::take_outcome`].
    #[inline(always)]
    pub(super) unsafe fn free_with<T>(&self, worker: Option<&WorkerCore>) -> Outcome<T> {
        // SAFETY: the caller's contract.
        let outcome = unsafe { self.take_outcome::<T>() };
        match worker {
            Some(worker) if !self.has_more() => {
                self.number.store(0, Relaxed);
                worker.threads.free(NonNull::from(self));
            }
            // SAFETY: the caller's contract. The outcome is `None` now.
            _ => unsafe { self.free_rest(worker) },
        }
        outcome
    }

    /// Returns whether there is more to do when the slot becomes free than to put it to those of its worker.
    #[inline]
    fn has_more(&self) -> bool {
        self.has_hint()
            || self.polled.load(Relaxed)
            || usize::from(self.class.get()) != stack::USUAL_CLASS
    }

    /// Returns whether dropping the hint does anything, or may.
    #[inline]
    fn has_hint(&self) -> bool {
        self.types.get().is_none_or(|types| types.has_hint)
    }

    /// As [`Header::free`].
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn free_rest(&self, worker: Option<&WorkerCore>) {
        // SAFETY: the caller's contract.
        unsafe { self.free(worker) };
    }

    /// Takes the outcome.
    ///
    /// # Safety
    /// The thread has ended, its result is a `T`, and its outcome was not taken. The caller has its handle.
    #[inline(always)]
    pub(super) unsafe fn take_outcome<T>(&self) -> Outcome<T> {
        // SAFETY: the caller's contract; nothing else uses the outcome.
        let outcome = unsafe { (*outcome_of::<T>(NonNull::from(self))).take() };
        outcome.expect("a thread that has ended has an outcome")
    }

    /// Drops what is in the slot and frees it.
    ///
    /// # Safety
    /// There is neither a right to run the thread, nor a handle, and the thread has ended.
    pub(super) unsafe fn free(&self, worker: Option<&WorkerCore>) {
        // What is dropped may wait.
        let _pin = worker.map(WorkerCore::pin);
        let free = Free(self, worker);
        if self.polled.load(Relaxed) {
            let last = self.waker.lock().take();
            drop(last);
        }
        if let Some(types) = self.types.take() {
            // SAFETY: they are the types that `fill` was called with, and this is done once.
            unsafe { (types.drop)(NonNull::from(self)) };
        }
        drop(free);
    }

    /// Drops the result of the thread, which calls this at its end, if its handle has gone: on a stack of its own, where a destructor may
    /// wait. If the handle goes afterwards, the worker drops it.
    ///
    /// # Safety
    /// The result is a `T`, and was written.
    #[inline(never)]
    unsafe fn drop_if_detached<T>(&self) {
        // SAFETY: the pool is open until the thread has ended.
        let pool = unsafe { self.pool() };
        if self.joiner.load(Acquire) == DETACHED && !pool.is_forked() {
            // SAFETY: there is no handle, so nothing else uses the outcome.
            let take = || unsafe { (*outcome_of::<T>(NonNull::from(self))).take() };
            self.catch(pool, || drop(take()));
        }
    }

    /// Calls `clear`, which drops the outcome of the thread, and perhaps the hint. The handler of `pool`, which is the thread's, gets a
    /// panic.
    fn catch(&self, pool: &PoolShared, clear: impl FnOnce()) {
        // Afterwards the slot may be another thread's.
        let (label, has_hint) = (self.label(), self.has_hint());
        let what = || {
            let (number, name) = label.unwrap_or_default();
            let label = Label::Light(number, name);
            let value = if has_hint {
                "result or the hint"
            } else {
                "result"
            };
            format!("the {value} of lightweight {label} panicked when it was dropped")
        };
        pool.catch_of(what, clear);
    }

    /// Returns the hint, if it is an `H`. The caller has a handle or a right, or is the thread.
    pub(super) fn hint<H: 'static>(&self) -> Option<&H> {
        let types = self.types.get()?;
        let is = (types.hint_type)() == TypeId::of::<H>();
        // SAFETY: it is of that type, and lives as long as the slot is in use.
        is.then(|| unsafe { &*(types.hint)(NonNull::from(self)).cast::<H>() })
    }

    /// Returns the worker that the thread last ran on, `None` if it has not started.
    #[inline]
    pub(super) fn home(&self) -> Option<u16> {
        match self.home.load(Relaxed) {
            NOT_STARTED => None,
            home => Some(home as u16),
        }
    }

    /// Returns whether the thread stays on its worker: it is tied and has started.
    #[inline]
    pub(super) fn is_pinned(&self) -> bool {
        self.tied.load(Relaxed) && self.home.load(Relaxed) != NOT_STARTED
    }

    /// Returns whether the thread, which has started, stays on its worker.
    #[inline]
    pub(super) fn is_tied(&self) -> bool {
        self.tied.load(Relaxed)
    }

    /// Makes the thread tied, which runs and calls this. Returns whether it was not.
    pub(super) fn tie(&self) -> bool {
        let was = self.tied.load(Relaxed);
        self.tied.store(true, Relaxed);
        !was
    }

    /// Undoes [`Header::tie`].
    pub(super) fn untie(&self) {
        self.tied.store(false, Relaxed);
    }

    /// Returns the pool of a thread that has not ended.
    ///
    /// # Safety
    /// It does not end as long as the result is used.
    pub(super) unsafe fn pool(&self) -> &PoolShared {
        // SAFETY: the pool is open until the thread has ended.
        unsafe { &*self.pool_address() }
    }

    /// Returns whether too little is left of the thread's stack, on which the caller runs, to wait for something on top of it, or nothing
    /// is to be run on top of it.
    pub(crate) fn is_stack_low(&self) -> bool {
        if self.is_deep.get() {
            return true;
        }
        let end = stack::limit_of(NonNull::from(self), usize::from(self.class.get()));
        stack_pointer() < OsStack::low(end, ptr::from_ref(self).addr() - end)
    }

    /// Returns the thread's number, 0 in a free slot.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Stores what the thread begins to wait for, for reports: that thread calls this, or the one that makes it.
    #[inline]
    pub(super) fn waits_on(&self, on: On, what: u64) {
        self.on_what.store(what, Release);
        self.changes_to(on);
    }

    /// Stores that the thread does not wait any more.
    #[inline]
    pub(super) fn goes_on(&self) {
        self.changes_to(On::Nothing);
    }

    /// Stores that the thread, whose right to run has left the program's hands, does not wait for being scheduled any more, if it did.
    #[inline]
    pub(super) fn goes_on_if_created(&self) {
        if self.on.load(Relaxed) & usize::from(u8::MAX) == On::Schedule as usize {
            self.goes_on();
        }
    }

    #[inline]
    fn changes_to(&self, on: On) {
        const CHANGE: usize = 1 << u8::BITS;
        let changes = (self.on.load(Relaxed) | (CHANGE - 1)).wrapping_add(1);
        self.on.store(changes | on as usize, Release);
    }

    /// Returns what the thread waits for, if it has not ended, and no worker runs it. If two calls return the same of one thread, it has
    /// waited all the time between them, unless it [runs](On::Work).
    pub(super) fn blocked_on(&self) -> Option<Wait> {
        if self.number.load(Relaxed) == 0 || self.is_done() {
            return None;
        }
        let since = self.on.load(Acquire);
        let on = On::ALL.get(since & usize::from(u8::MAX)).copied()?;
        let is_parked = self.state.load(Acquire) == PARKED;
        let what = self.on_what.load(Acquire);
        // What it waited for before is stored over by the next wait only, when this has changed.
        let is_same = self.on.load(Relaxed) == since;
        let wait = |on, what| Wait { on, what, since };
        match self.home() {
            _ if is_parked => is_same.then(|| wait(on, what)),
            None => (on == On::Schedule).then(|| wait(on, 0)),
            Some(_) if on == On::Pool => is_same.then(|| wait(on, what)),
            Some(_) => Some(wait(On::Work, 0)),
        }
    }

    /// Notes which scope the thread is part of: the one with the number, or none if that is 0.
    #[inline]
    pub(super) fn is_part_of(&self, scope: u64) {
        self.scope.store(scope, Relaxed);
    }

    /// Returns the number of the scope that the thread is part of, or 0.
    pub(super) fn scope(&self) -> u64 {
        self.scope.load(Relaxed)
    }

    /// Returns the thread's number and name, if it is alive.
    pub(super) fn label(&self) -> Option<(u64, &'static str)> {
        let number = self.number.load(Acquire);
        let (start, bytes) = (self.name.load(Acquire), self.name_bytes.load(Acquire));
        // Numbers are unique: the name is that thread's if the number is still there.
        if number == 0 || self.number.load(Relaxed) != number {
            return None;
        }
        // SAFETY: both are of the name of one thread, and names live for ever.
        Some((number, unsafe { text(start, bytes) }))
    }

    /// Returns the pool's address, to be compared.
    #[inline]
    pub(super) fn pool_address(&self) -> *const PoolShared {
        self.pool.load(Relaxed)
    }

    /// Returns the number that stands for the pool in [`Wait`]s, if the slot still is the thread's with `number`.
    pub(super) fn pool_of(&self, number: u64) -> Option<u64> {
        let pool = self.pool.load(Acquire);
        (self.number() == number).then(|| pool_number(pool))
    }

    /// Writes that the thread has used up its stack. Called in a signal handler: neither allocates nor locks.
    pub(super) fn report_overflow(&self, bytes: usize) {
        let mut text = [0_u8; 256];
        let mut rest = &mut text[..];
        use std::io::Write as _;
        let (number, name) = self.label().unwrap_or_default();
        let name = if name.is_empty() { "unnamed" } else { name };
        let _ = writeln!(
            rest,
            "tanada: lightweight thread {number} ({name}) has overflowed its stack of {} KiB; Builder::stack_size sets another size",
            bytes >> 10,
        );
        let left = rest.len();
        let written = text.len() - left;
        crate::process::write_to_stderr(&text[..written]);
    }
}

/// Returns the number that stands for a pool in [`Wait`]s: no other pool has it as long as it is open. It is not 0.
pub(super) fn pool_number(pool: *const PoolShared) -> u64 {
    pool.addr() as u64
}

/// Returns the text of so many bytes at `start`, or none.
///
/// # Safety
/// They are those of a `&'static str`, or 0 and null.
unsafe fn text(start: *const u8, bytes: usize) -> &'static str {
    if start.is_null() {
        return "";
    }
    // SAFETY: the caller's contract.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(start, bytes)) }
}

/// Drops the outcome and the hint of a thread.
///
/// # Safety
/// They are of these types, and are not used any more.
unsafe fn drop_typed<H, T>(slot: NonNull<Header>) {
    /// Drops a value, also while a panic of another one unwinds.
    struct Dropped<V>(*mut V);
    impl<V> Drop for Dropped<V> {
        fn drop(&mut self) {
            // SAFETY: the caller's contract; it is dropped once.
            unsafe { self.0.drop_in_place() };
        }
    }
    let _hint = Dropped(hint_of::<H, T>(slot));
    let _outcome = Dropped(outcome_of::<T>(slot));
}
