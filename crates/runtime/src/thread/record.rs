//! What the runtime knows of one lightweight thread, and how its stack is entered and left.
//!
//! A thread's [`Header`] lies at the end of its slot. Below it lies what has a type that only the creator knows ([`Typed`]), and below that
//! the stack begins. Who may touch what:
//!
//! - The right to run a thread is a [`Ready`] with the header's address. Its holder alone touches the coroutine.
//! - `state`, `joiner` and the words for reports are atomic, and `waker` has a lock: any thread may use them at any time, also when the
//!   thread has ended and another one has its slot. A stale wake-up is a wake-up too many, which every wait expects.
//! - The other fields are written before the thread is first handed on, and read until its slot is free.

use super::stack;
use super::waiter::Waiter;
use crate::graph::GraphCore;
use crate::name::Name;
use crate::pool::PoolShared;
use crate::worker::{Stack as OsStack, WorkerCore, stack_pointer};
use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
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

/// What a coroutine's stack is, for the library.
#[derive(Clone, Copy)]
struct Raw {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: both are addresses in one slot, whose memory stays mapped, with a guard page below `limit`.
unsafe impl Stack for Raw {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

type Body = Coroutine<(), (), (), Raw>;

/// The result of a thread's closure.
pub(super) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Why a thread gave its worker back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It lets others run.
    Yielded,
    /// It waits to be unparked.
    Parked,
    /// Its closure has returned.
    Ended,
}

/// What a thread waits for, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum On {
    /// Nothing.
    Nothing,
    /// The end of the thread whose header is at the address.
    Join,
    /// A mutex that the thread whose header is at the address, or 0, has or gets before.
    Mutex,
    /// A condition variable.
    Condvar,
    /// A barrier.
    Barrier,
    /// A message in a channel.
    Receive,
    /// Room in a channel.
    Send,
    /// A closure that another thread runs once.
    Once,
    /// The end of a scope's threads.
    Scope,
    /// A future.
    Future,
    /// The passing of time.
    Sleep,
    /// [`park`](super::park).
    Park,
}

impl On {
    const ALL: [On; 12] = [
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
    ];
}

/// What the runtime knows of one thread. All zeros, it is that of a free slot.
#[repr(C, align(64))]
pub(crate) struct Header {
    state: AtomicU32,
    home: AtomicU32,
    joiner: AtomicUsize,
    /// Number of the thread in its process, 0 in a free slot.
    number: AtomicU64,
    tied: Cell<bool>,
    left: Cell<Left>,
    /// Whether `waker` was ever set.
    polled: AtomicBool,
    class: Cell<u8>,
    digest: Cell<u16>,
    yielder: Cell<*const Yielder<(), ()>>,
    body: UnsafeCell<MaybeUninit<Body>>,
    /// The graph of the task inside of which it runs at the moment, or null.
    graph: Cell<*const GraphCore>,
    /// The pool, which is open until the thread has ended.
    pool: Cell<*const PoolShared>,
    typed: Cell<*mut ()>,
    drop_typed: Cell<Option<unsafe fn(*mut ())>>,
    hint: Cell<*const ()>,
    hint_type: Cell<Option<TypeId>>,
    waker: Mutex<Option<Waker>>,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    on: AtomicUsize,
    on_what: AtomicUsize,
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

/// What has a type that only the creator of a thread knows.
struct Typed<H, T> {
    hint: H,
    outcome: UnsafeCell<Option<Outcome<T>>>,
}

/// What a thread is made from.
pub(super) struct Plan<H, F> {
    pub(super) class: usize,
    pub(super) tied: bool,
    pub(super) number: u64,
    pub(super) name: Option<Name>,
    pub(super) digest: u16,
    pub(super) hint: H,
    pub(super) body: F,
}

/// Returns whether the closure, the hint and the result leave most of a slot of this class for the stack.
pub(super) fn fits<H, T, F>(class: usize) -> bool {
    size_of::<Typed<H, T>>() + align_of::<Typed<H, T>>() + size_of::<F>() + align_of::<F>()
        < stack::size_of_class(class) / 4
}

/// Returns the place for a `V` below `top`.
fn below<V>(top: *mut u8) -> *mut V {
    let place = top.wrapping_sub(size_of::<V>());
    place
        .map_addr(|address| address & !(align_of::<V>() - 1))
        .cast()
}

impl Header {
    /// Makes a thread in a free slot.
    ///
    /// # Safety
    /// `slot` is free and of the class, in which the types [`fits`]. `pool` lives until the thread has ended. What `hint` and `body` borrow
    /// lives until the slot is free.
    #[inline]
    pub(super) unsafe fn make<H: 'static, T, F: FnOnce() -> T>(
        slot: NonNull<Header>,
        pool: &PoolShared,
        plan: Plan<H, F>,
    ) {
        let typed = below::<Typed<H, T>>(slot.as_ptr().cast());
        let body = below::<F>(typed.cast());
        let limit = stack::limit_of(slot, plan.class);
        // SAFETY: the place lies in the slot, above the stack.
        unsafe {
            typed.write(Typed {
                hint: plan.hint,
                outcome: UnsafeCell::new(None),
            });
            body.write(plan.body);
        }
        // SAFETY: free slots are zeroed or used before, so the fields have valid values; nothing but stale wakers looks at them.
        let header = unsafe { slot.as_ref() };
        let run = move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: the header outlives the coroutine, and this thread has the right to run it.
            unsafe { slot.as_ref() }.yielder.set(yielder);
            // SAFETY: it was written above, and the coroutine begins once.
            let body = unsafe { body.read() };
            let outcome = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: others read it once the thread has ended.
            unsafe { *(*typed).outcome.get() = Some(outcome) };
        };
        let address = |address: usize| NonZero::new(address).expect("no slot is at 0");
        let raw = Raw {
            base: address(body.addr() & !15),
            limit: address(limit),
        };
        // SAFETY: what the closure uses lives as long as the thread.
        let body = unsafe { Body::with_stack_unchecked(raw, run) };
        // SAFETY: a free slot holds no coroutine.
        unsafe { (*header.body.get()).write(body) };
        header.home.store(NOT_STARTED, Relaxed);
        header.joiner.store(NOBODY, Relaxed);
        header.tied.set(plan.tied);
        header.polled.store(false, Relaxed);
        header.class.set(plan.class as u8);
        header.digest.set(plan.digest);
        header.graph.set(ptr::null());
        header.pool.set(pool);
        header.typed.set(typed.cast());
        header.drop_typed.set(Some(drop_typed::<H, T>));
        // SAFETY: it was written above.
        header
            .hint
            .set(unsafe { ptr::from_ref(&(*typed).hint) }.cast());
        header.hint_type.set(Some(TypeId::of::<H>()));
        let name = plan.name.map_or("", Name::as_str);
        // A reader that sees one of these sees, too, that the number has been 0 meanwhile.
        header.name.store(name.as_ptr().cast_mut(), Release);
        header.name_bytes.store(name.len(), Release);
        header.on.store(On::Nothing as usize, Relaxed);
        header.state.store(RUNNING, Relaxed);
        header.number.store(plan.number, Release);
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

    /// Runs the thread until it gives its worker back.
    ///
    /// # Safety
    /// The caller has consumed the right to run it.
    #[inline(always)]
    pub(super) unsafe fn resume(&'static self, worker: &WorkerCore) -> Left {
        self.home.store(u32::from(worker.id.0), Relaxed);
        let local = &worker.threads;
        let outer = local.current.replace(Some(self));
        let graph = worker.graph.running();
        worker.graph.run(self.graph.get());
        // SAFETY: the caller alone touches the coroutine, which exists until it has returned.
        let body = unsafe { (*self.body.get()).assume_init_mut() };
        let result = body.resume(());
        self.graph.set(worker.graph.running());
        worker.graph.run(graph);
        local.current.set(outer);
        match result {
            CoroutineResult::Yield(()) => self.left.get(),
            CoroutineResult::Return(()) => {
                // SAFETY: nobody resumes it any more. This tells sanitizers that its stack is free.
                unsafe { (*self.body.get()).assume_init_drop() };
                Left::Ended
            }
        }
    }

    /// Gives the worker back. Returns when the thread runs again, perhaps on another worker if it is not tied.
    ///
    /// Inlined wherever that matters: the processor predicts where a function returns to, and after a switch it is wrong for each function
    /// that was called before it and returns after it.
    #[inline(always)]
    pub(super) fn leave(&self, why: Left) {
        self.left.set(why);
        // SAFETY: this is called on the thread itself, inside of its coroutine.
        unsafe { (*self.yielder.get()).suspend(()) };
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
            self.state.store(RUNNING, Relaxed);
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
                Ok(_) => break guard.and_then(|mut waker| waker.take()),
                Err(now) => seen = now,
            }
        };
        match seen {
            NOBODY => {}
            DETACHED => {
                worker.pool().catch(|| {
                    // SAFETY: no handle is left, and no right.
                    unsafe { self.free(Some(worker)) }
                });
            }
            FUTURE => {
                if let Some(waker) = waker {
                    worker.pool().catch(|| waker.wake());
                }
            }
            // SAFETY: the waiter waits until it is woken here.
            waiter => unsafe {
                Waiter::wake(NonNull::new_unchecked(ptr::with_exposed_provenance_mut(
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
        let mut seen = self.joiner.load(Relaxed);
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

    /// Returns where the thread's closure leaves its result: a [`Typed`].
    pub(super) fn typed(&self) -> *mut () {
        self.typed.get()
    }

    /// The handle goes without waiting.
    ///
    /// # Safety
    /// The handle's owner calls this, once.
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

    /// Takes the outcome by `read` and frees the slot.
    ///
    /// # Safety
    /// As [`Header::free`] and [`read_outcome`], which is called with `all`.
    #[inline]
    pub(super) unsafe fn free_with<T>(
        &self,
        worker: Option<&WorkerCore>,
        read: unsafe fn(*mut (), bool) -> Outcome<T>,
    ) -> Outcome<T> {
        self.drop_typed.set(None);
        if self.polled.load(Relaxed) {
            let last = self.waker.lock().take();
            drop(last);
        }
        // What is dropped may wait.
        let _pin = worker.map(WorkerCore::pin);
        let free = Free(self, worker);
        // SAFETY: the caller's contract.
        let outcome = unsafe { read(self.typed.get(), true) };
        drop(free);
        outcome
    }

    /// Drops what is in the slot and frees it.
    ///
    /// # Safety
    /// There is neither a right to run the thread, nor a handle, nor a coroutine.
    pub(super) unsafe fn free(&self, worker: Option<&WorkerCore>) {
        // What is dropped may wait.
        let _pin = worker.map(WorkerCore::pin);
        let free = Free(self, worker);
        if self.polled.load(Relaxed) {
            let last = self.waker.lock().take();
            drop(last);
        }
        if let Some(drop_typed) = self.drop_typed.take() {
            // SAFETY: it is of the type that `make` wrote, and is dropped once.
            unsafe { drop_typed(self.typed.get()) };
        }
        drop(free);
    }

    /// Returns the hint, if it is an `H`. The caller has a handle or a right, or is the thread.
    pub(super) fn hint<H: 'static>(&self) -> Option<&H> {
        let is = self.hint_type.get() == Some(TypeId::of::<H>());
        // SAFETY: it is of that type, and lives as long as the slot is in use.
        is.then(|| unsafe { &*self.hint.get().cast::<H>() })
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
        self.tied.get() && self.home.load(Relaxed) != NOT_STARTED
    }

    /// Returns whether the thread, which has started, stays on its worker.
    #[inline]
    pub(super) fn is_tied(&self) -> bool {
        self.tied.get()
    }

    /// Makes the thread tied, which runs and calls this. Returns whether it was not.
    pub(super) fn tie(&self) -> bool {
        !self.tied.replace(true)
    }

    /// Undoes [`Header::tie`].
    pub(super) fn untie(&self) {
        self.tied.set(false);
    }

    /// Returns the pool of a thread that has not ended.
    ///
    /// # Safety
    /// It does not end as long as the result is used.
    pub(super) unsafe fn pool(&self) -> &PoolShared {
        // SAFETY: the pool is open until the thread has ended.
        unsafe { &*self.pool.get() }
    }

    /// Returns whether too little is left of the thread's stack, on which the caller runs, to wait for something on top of it.
    pub(crate) fn is_stack_low(&self) -> bool {
        let end = stack::limit_of(NonNull::from(self), usize::from(self.class.get()));
        stack_pointer() < OsStack::low(end, ptr::from_ref(self).addr() - end)
    }

    /// Stores what the thread waits for, for reports.
    #[inline]
    pub(super) fn waits_on(&self, on: On, what: usize) {
        self.on_what.store(what, Relaxed);
        self.on.store(on as usize, Relaxed);
    }

    /// Returns what the thread waits for, if it is alive and parked.
    pub(super) fn blocked_on(&self) -> Option<(On, usize)> {
        let parked = self.number.load(Relaxed) != 0 && self.state.load(Acquire) == PARKED;
        let on = On::ALL.get(self.on.load(Relaxed)).copied()?;
        parked.then(|| (on, self.on_what.load(Relaxed)))
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
    pub(super) fn pool_address(&self) -> *const PoolShared {
        self.pool.get()
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

/// Drops a [`Typed`].
///
/// # Safety
/// `typed` points to one, which is not used any more.
unsafe fn drop_typed<H, T>(typed: *mut ()) {
    // SAFETY: the caller's contract.
    unsafe { typed.cast::<Typed<H, T>>().drop_in_place() };
}

/// Takes the outcome out of a [`Typed`], and drops the hint if `all`.
///
/// # Safety
/// `typed` points to one of these types, whose thread has ended and whose outcome was not taken. If `all`, it is not used any more.
pub(super) unsafe fn read_outcome<H, T>(typed: *mut (), all: bool) -> Outcome<T> {
    let typed = typed.cast::<Typed<H, T>>();
    let outcome = match all {
        // SAFETY: the caller's contract; nothing else uses it.
        true => unsafe { typed.read() }.outcome.into_inner(),
        // SAFETY: the caller's contract; nothing else uses the outcome.
        false => unsafe { (*(*typed).outcome.get()).take() },
    };
    outcome.expect("a thread that has ended has an outcome")
}
