//! How a thread of whatever kind waits until another one wakes it: a lightweight thread is suspended, and a worker that waits inside of a
//! task runs other threads and jobs meanwhile.

use super::deadlock::{self, Heavily};
use super::record::{Header, On};
use super::{leave, shared};
use crate::fork::{CountLatch, Jobs};
use crate::worker::{self, EndOnPanic};
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::Instant;

/// One wait, on the stack of the thread that waits. It is woken once.
pub(crate) struct Waiter<V = ()> {
    woken: AtomicBool,
    /// What the two threads pass to each other: the waking one's alone until it has woken this one.
    passed: Cell<Option<V>>,
    who: Who,
}

enum Who {
    /// A lightweight thread.
    Light(&'static Header),
    /// Any other, and the number that stands for it in reports.
    Heavy(CountLatch, u64),
}

impl Who {
    /// Returns this thread.
    #[inline(never)]
    fn this() -> Self {
        worker::with_any(|worker| {
            let current = worker.and_then(|worker| worker.threads.current.get());
            match current {
                Some(thread) => Who::Light(thread),
                None => Who::Heavy(CountLatch::new(worker, 1), deadlock::context()),
            }
        })
    }
}

impl Waiter {
    /// Returns a wait of this thread.
    pub(crate) fn new() -> Self {
        Waiter::with(None)
    }
}

impl<V> Waiter<V> {
    /// Returns a wait of this thread, which passes `value` to the one that wakes it.
    fn with(value: Option<V>) -> Self {
        Waiter {
            woken: AtomicBool::new(false),
            passed: Cell::new(value),
            who: Who::this(),
        }
    }

    /// Returns the number that stands for the thread in reports: see [`has_locked`](super::handle::has_locked).
    fn reported_as(&self) -> u64 {
        match &self.who {
            Who::Light(thread) => thread.number(),
            Who::Heavy(_, number) => *number,
        }
    }

    /// Waits until the waiter is woken. Called on the thread that made it.
    pub(crate) fn wait(&self, on: On, what: u64) {
        match &self.who {
            Who::Light(thread) => {
                thread.waits_on(on, what);
                deadlock::may_close_a_circle(on);
                while !self.woken.load(Acquire) {
                    leave::park(thread);
                }
                thread.goes_on();
            }
            Who::Heavy(latch, _) => worker::with_any(|worker| {
                let _heavily = Heavily::enter(worker, on, what);
                latch.wait(worker, Jobs::Apart);
            }),
        }
    }

    /// As [`Waiter::wait`], until a time. Returns whether the time is over; then the waiter may be woken at any moment, or not.
    fn wait_until(&self, on: On, what: u64, until: Instant) -> bool {
        let is_over = || self.woken.load(Acquire) || Instant::now() >= until;
        match &self.who {
            Who::Light(thread) => {
                thread.waits_on(on, what);
                leave::park_until(thread, until, is_over);
                thread.goes_on();
            }
            Who::Heavy(latch, _) => match worker::with_any(|worker| worker.is_some()) {
                // A worker in a task looks again and again, and runs what it finds.
                true => super::idle_until(until, is_over),
                false => latch.wait_outside_until(until),
            },
        }
        !self.woken.load(Acquire)
    }

    /// Wakes the waiter.
    ///
    /// # Safety
    /// It is live, which it need not be any more when this returns, and is woken once.
    pub(crate) unsafe fn wake(this: NonNull<Self>) {
        // SAFETY: it is live until it is woken.
        let waiter = unsafe { this.as_ref() };
        match &waiter.who {
            Who::Light(thread) => {
                let thread = *thread;
                waiter.woken.store(true, Release);
                // A stale wake-up does no harm.
                shared::unpark(thread);
            }
            Who::Heavy(latch, _) => {
                waiter.woken.store(true, Release);
                // SAFETY: the latch is live until this opens it.
                unsafe { CountLatch::end_one(NonNull::from(latch)) };
            }
        }
    }
}

/// Threads that wait for one thing, the first first, and may be passed a `V`, or pass one. It is part of a locked state.
#[derive(Default)]
pub(crate) struct WaitList<V = ()>(VecDeque<NonNull<Waiter<V>>>);

impl<V> std::fmt::Debug for WaitList<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WaitList").field(&self.0.len()).finish()
    }
}

// SAFETY: the waiters are live until they are woken, which any thread may do. What is passed goes to another thread.
unsafe impl<V: Send> Send for WaitList<V> {}

/// A thread that was taken off a list, and has to be woken.
#[must_use]
pub(crate) struct Woken<V = ()>(NonNull<Waiter<V>>);

impl<V> Woken<V> {
    /// Returns the number that stands for the thread in reports.
    pub(crate) fn reported_as(&self) -> u64 {
        // SAFETY: the waiter is live until it is woken.
        unsafe { self.0.as_ref() }.reported_as()
    }

    /// Passes a value to the thread, and returns what the thread has passed.
    pub(crate) fn pass(&self, value: Option<V>) -> Option<V> {
        // SAFETY: the waiter is live until it is woken, and until then nobody else touches what is passed.
        unsafe { self.0.as_ref() }.passed.replace(value)
    }

    /// Wakes the thread.
    pub(crate) fn now(self) {
        // SAFETY: the waiter is live, and was taken off the one list that it was in.
        unsafe { Waiter::wake(self.0) };
    }
}

impl<V> WaitList<V> {
    pub(crate) const fn new() -> Self {
        WaitList(VecDeque::new())
    }

    /// Takes the first thread off the list.
    pub(crate) fn pop(&mut self) -> Option<Woken<V>> {
        self.0.pop_front().map(Woken)
    }

    /// Takes all threads off the list.
    pub(crate) fn take(&mut self) -> Vec<Woken<V>> {
        self.0.drain(..).map(Woken).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number that stands for the last thread in reports; `None` if the list is empty.
    pub(crate) fn last(&self) -> Option<u64> {
        // SAFETY: waiters in a list are live.
        self.0
            .back()
            .map(|waiter| unsafe { waiter.as_ref() }.reported_as())
    }
}

/// Appends this thread to a list in `state`, unlocks that, calls `then`, and waits until the thread has been taken off the list and woken.
pub(crate) fn wait_in<S>(
    state: MutexGuard<'_, S>,
    list: impl FnOnce(&mut S) -> &mut WaitList,
    (on, what): (On, u64),
    then: impl FnOnce(),
) {
    wait_with(None, state, list, (on, what), then);
}

/// As [`wait_in`]. Passes `value` to the thread that wakes this one, and returns what that thread has [passed](Woken::pass) instead:
/// `value` if it has passed nothing.
pub(crate) fn wait_with<S, V>(
    value: Option<V>,
    mut state: MutexGuard<'_, S>,
    list: impl FnOnce(&mut S) -> &mut WaitList<V>,
    (on, what): (On, u64),
    then: impl FnOnce(),
) -> Option<V> {
    let waiter = Waiter::with(value);
    list(&mut state).0.push_back(NonNull::from(&waiter));
    drop(state);
    // The list has the waiter's address, so nothing may unwind.
    EndOnPanic::around(|| {
        then();
        waiter.wait(on, what);
    });
    waiter.passed.take()
}

/// A thread was not woken in time, and is off the list of those that wait.
pub(crate) struct TimedOut;

/// As [`wait_in`], until a time. Returns what the thread that has woken this one has passed. `of` is what `state` was locked in.
pub(crate) fn wait_in_until<S, V>(
    of: &Mutex<S>,
    mut state: MutexGuard<'_, S>,
    list: impl Fn(&mut S) -> &mut WaitList<V>,
    (on, what): (On, u64),
    then: impl FnOnce(),
    until: Instant,
) -> Result<Option<V>, TimedOut> {
    let waiter = Waiter::with(None);
    let place = NonNull::from(&waiter);
    list(&mut state).0.push_back(place);
    drop(state);
    let expire = || {
        let mut state = of.lock();
        let waiters = &mut list(&mut state).0;
        let found = waiters.iter().position(|other| *other == place);
        found.is_some_and(|index| waiters.remove(index).is_some())
    };
    EndOnPanic::around(|| {
        then();
        if waiter.wait_until(on, what, until) && expire() {
            return Err(TimedOut);
        }
        // Another thread has taken it off the list, and wakes it.
        waiter.wait(on, what);
        Ok(waiter.passed.take())
    })
}
