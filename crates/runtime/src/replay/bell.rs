//! What one actor of a schedule waits at.

use parking_lot::MutexGuard;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// A condition variable for one thread that waits.
///
/// Not `parking_lot`'s: its waiting threads stand in a table of the process, whose locks a child of `fork(2)` inherits as they were. In a
/// schedule some thread nearly always waits or is woken, so a child would often find one of them locked for ever.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// How often it was rung.
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread that waits. The caller holds the lock of the state, so a thread that is about to wait sees that the bell rang.
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_one();
    }

    /// Unlocks `state`, waits until the bell rings or `until` has come, and locks `state` again. Returns whether it rang.
    pub(super) fn wait<S>(&self, state: &mut MutexGuard<'_, S>, until: Option<Instant>) -> bool {
        let before = *self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard::unlocked(state, || {
            let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
            while *rung == before {
                rung = match until {
                    None => self
                        .changed
                        .wait(rung)
                        .unwrap_or_else(PoisonError::into_inner),
                    Some(until) => {
                        let left = until.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return false;
                        }
                        let waited = self.changed.wait_timeout(rung, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            true
        })
    }
}
