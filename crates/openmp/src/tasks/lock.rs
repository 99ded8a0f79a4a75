//! A lock for a few instructions. (Not the standard library's, whose inside sanitizers do not see when threads wait.)

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rounds in which a thread spins before it yields its processor.
const SPINS: u32 = 64;

/// A value that one thread at a time looks at.
#[derive(Default)]
pub(super) struct Lock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is handed to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Returns what `with` returns, which must not panic or use this lock: the lock would never be free again.
    pub(super) fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        let mut rounds = 0;
        while self.locked.swap(true, Ordering::Acquire) {
            rounds += 1;
            if rounds % SPINS == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        // SAFETY: this thread has the lock.
        let result = with(unsafe { &mut *self.value.get() });
        self.locked.store(false, Ordering::Release);
        result
    }
}
