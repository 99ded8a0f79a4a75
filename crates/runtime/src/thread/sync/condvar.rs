//! A condition variable.

use super::super::handle::deadline_of;
use super::super::record::On;
use super::super::waiter::{WaitList, wait_in, wait_in_until};
use super::MutexGuard;
use std::time::Duration;

/// Lets threads wait until another one says that something has changed, while a [`Mutex`](super::Mutex) protects what they look at.
///
/// ```
/// use tanada_runtime::thread::{self, sync::{Condvar, Mutex}};
/// use std::sync::Arc;
///
/// let shared = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = Arc::clone(&shared);
/// let thread = thread::spawn(move || {
///     let (ready, changed) = &*other;
///     *ready.lock() = true;
///     changed.notify_one();
/// });
/// let (ready, changed) = &*shared;
/// let mut guard = ready.lock();
/// while !*guard {
///     guard = changed.wait(guard);
/// }
/// # drop(guard);
/// # thread.join().unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Mutex<WaitList>);

impl Condvar {
    /// Returns a condition variable that nobody waits for.
    pub const fn new() -> Self {
        Condvar(parking_lot::Mutex::new(WaitList::new()))
    }

    /// Unlocks the mutex, waits until the thread is notified, and locks the mutex again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        // In the list before the mutex is free: a notification in between finds this thread.
        let waiters = self.0.lock();
        wait_in(waiters, |waiters| waiters, (On::Condvar, 0), || drop(guard));
        mutex.lock()
    }

    /// As [`Condvar::wait`], for at most `most`. Returns the guard, and whether the thread was notified.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (mutex, until) = (guard.mutex(), deadline_of(most));
        let waiters = self.0.lock();
        let unlock = || drop(guard);
        let woken = wait_in_until(
            &self.0,
            waiters,
            |waiters| waiters,
            (On::Condvar, 0),
            unlock,
            until,
        );
        (mutex.lock(), woken.is_ok())
    }

    /// Lets the thread go on that has waited longest, if one waits.
    pub fn notify_one(&self) {
        let first = self.0.lock().pop();
        if let Some(first) = first {
            first.now();
        }
    }

    /// Lets all threads go on that wait.
    pub fn notify_all(&self) {
        let all = self.0.lock().take();
        all.into_iter().for_each(|waiter| waiter.now());
    }
}
