//! A closure that runs once.

use super::super::handle::has_locked;
use super::super::record::On;
use super::super::waiter::{WaitList, wait_in};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

/// Runs a closure once, whoever comes first; the others wait until it has ended.
#[derive(Debug, Default)]
pub struct Once {
    done: AtomicBool,
    state: parking_lot::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of what runs its closure, for reports.
    runner: Option<u64>,
    waiters: WaitList,
}

impl Once {
    /// Returns one whose closure has not run.
    pub const fn new() -> Self {
        Once {
            done: AtomicBool::new(false),
            state: parking_lot::Mutex::new(State {
                runner: None,
                waiters: WaitList::new(),
            }),
        }
    }

    /// Returns whether a closure has run.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.done.load(Acquire)
    }

    /// Runs `body` unless a closure has run, or waits for one that runs. If it panics, the next thread that comes or waits runs its own.
    #[inline]
    pub fn call_once(&self, body: impl FnOnce()) {
        if !self.is_completed() {
            self.call(body);
        }
    }

    #[cold]
    fn call(&self, body: impl FnOnce()) {
        /// Ends the turn of this thread, also if the closure panics.
        struct Turn<'a>(&'a Once);
        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                let mut state = self.0.state.lock();
                state.runner = None;
                let waiters = state.waiters.take();
                drop(state);
                waiters.into_iter().for_each(|waiter| waiter.now());
            }
        }
        loop {
            let mut state = self.state.lock();
            if self.is_completed() {
                return;
            }
            let Some(runner) = state.runner else {
                state.runner = Some(has_locked());
                break;
            };
            let on = (On::Once, runner);
            wait_in(state, |state| &mut state.waiters, on, || ());
        }
        let turn = Turn(self);
        body();
        self.done.store(true, Release);
        drop(turn);
    }
}

/// A value that the first thread that needs it makes; the others wait for it.
///
/// ```
/// use tanada_runtime::thread::sync::OnceCell;
///
/// static ANSWER: OnceCell<u32> = OnceCell::new();
/// assert_eq!(*ANSWER.get_or_init(|| 42), 42);
/// assert_eq!(ANSWER.get(), Some(&42));
/// ```
#[derive(Default)]
pub struct OnceCell<T> {
    once: Once,
    value: OnceLock<T>,
}

impl<T> OnceCell<T> {
    /// Returns an empty one.
    pub const fn new() -> Self {
        OnceCell {
            once: Once::new(),
            value: OnceLock::new(),
        }
    }

    /// Returns the value, if it has been made.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value, which `make` makes unless another thread has.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        self.once.call_once(|| {
            // Only this closure sets it. `OnceLock` would make others wait with their workers.
            let _ = self.value.set(make());
        });
        self.get().expect("it was made")
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}
