//! One set of names for `std`, `loom` and `shuttle`, so that the code that runs is the code that is model-checked.
//!
//! `RUSTFLAGS="--cfg loom"` selects loom, `--cfg shuttle` selects shuttle. Otherwise atomics and threads are `std`'s and the lock is
//! `parking_lot`'s, which spins for about a microsecond and then parks: with 64 workers on two processors the holder of a lock is
//! often not running, so a waiting thread must give up its processor.

/// Atomics, all orders.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(not(any(loom, shuttle)))]
    pub use std::sync::atomic::{
        AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Threads: `spawn`, `yield_now`, `park`, `current` and what they return.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    #[cfg(shuttle)]
    pub use shuttle::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    #[cfg(not(any(loom, shuttle)))]
    pub use std::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
}

#[cfg(loom)]
use loom::sync as imp;
#[cfg(not(any(loom, shuttle)))]
use parking_lot as imp;
#[cfg(shuttle)]
use shuttle::sync as imp;

pub use imp::MutexGuard;

#[cfg(loom)]
pub use loom::sync::Arc;
#[cfg(shuttle)]
pub use shuttle::sync::Arc;
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::Arc;

/// A lock that parks threads that wait for long. A panic while it is held does not poison it.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// Returns an unlocked lock around `value`.
    pub fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    /// Waits for the lock, takes it and returns its guard.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// Waits for the lock, takes it and returns its guard.
    #[cfg(any(loom, shuttle))]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Hints to the processor that this loop waits for another thread; under a model checker lets another thread run.
#[inline]
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(any(loom, shuttle))]
    thread::yield_now();
}

/// Does nothing, except under loom: there it is a `fence(SeqCst)`.
///
/// The queues order themselves by `SeqCst` loads and stores, which have a place in one total order. loom treats such an access as
/// acquire-release only (it models `fence(SeqCst)` fully), and would report executions that the language forbids. So this is called
/// after each `SeqCst` store and before each `SeqCst` load whose place in the total order some argument uses. Outside of loom there is
/// no fence: it would be redundant, and ThreadSanitizer does not understand fences.
#[inline(always)]
pub fn total_order() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}
