//! A mutex whose waiting threads get it in the order in which they came.

use super::super::handle::has_locked;
use super::super::record::On;
use super::super::waiter::{WaitList, wait_in};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const FREE: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and threads wait.
const WANTED: u32 = 2;

/// A value that one thread at a time may use. Threads that wait get it in the order in which they came: unlocking hands it to the first.
/// A panic while it is locked does not poison it.
///
/// ```
/// use tanada_runtime::thread::{self, sync::Mutex};
/// use std::sync::Arc;
///
/// let sum = Arc::new(Mutex::new(0));
/// let threads: Vec<_> = (0..10)
///     .map(|n| {
///         let sum = Arc::clone(&sum);
///         thread::spawn(move || *sum.lock() += n)
///     })
///     .collect();
/// threads.into_iter().for_each(|thread| thread.join().unwrap());
/// assert_eq!(*sum.lock(), 45);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    state: AtomicU32,
    /// The number of the thread that has it, or 0. For reports.
    holder: AtomicU64,
    waiters: parking_lot::Mutex<WaitList>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by one thread at a time.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex {
            state: AtomicU32::new(FREE),
            holder: AtomicU64::new(0),
            waiters: parking_lot::Mutex::new(WaitList::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the mutex, takes it and returns its guard. A thread that has it already waits for ever, which is reported as a deadlock.
    ///
    /// The guard is to be dropped by the thread that has called this. If another one does that, by way of a thread-local variable, a
    /// report of a deadlock may be wrong meanwhile.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        self.guard()
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_take().then(|| self.guard())
    }

    /// Returns the value, which nobody else can use.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline]
    fn try_take(&self) -> bool {
        let taken = self.state.compare_exchange(FREE, LOCKED, Acquire, Relaxed);
        taken.is_ok()
    }

    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        self.holder.store(has_locked(), Relaxed);
        MutexGuard {
            mutex: self,
            one_thread: PhantomData,
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let waiters = self.waiters.lock();
        // Who unlocks a wanted mutex looks at the list under its lock.
        if self.state.swap(WANTED, Acquire) == FREE {
            if waiters.is_empty() {
                let _ = self
                    .state
                    .compare_exchange(WANTED, LOCKED, Relaxed, Relaxed);
            }
            return;
        }
        let before = waiters.last().unwrap_or_else(|| self.holder());
        wait_in(waiters, |waiters| waiters, (On::Mutex, before), || ());
    }

    /// Returns the number of the thread that has it; 0 if that has not said so.
    fn holder(&self) -> u64 {
        /// The thread says so at once, unless it is interrupted.
        const LOOKS: u32 = 100;
        let look = |_| {
            std::hint::spin_loop();
            let holder = self.holder.load(Relaxed);
            (holder != 0).then_some(holder)
        };
        (0..LOOKS).find_map(look).unwrap_or(0)
    }

    #[inline]
    fn unlock(&self) {
        self.holder.store(0, Relaxed);
        if self
            .state
            .compare_exchange(LOCKED, FREE, Release, Relaxed)
            .is_err()
        {
            self.hand_on();
        }
    }

    /// Hands the mutex to the first thread that waits.
    #[cold]
    fn hand_on(&self) {
        let mut waiters = self.waiters.lock();
        let next = waiters.pop();
        match &next {
            None => self.state.store(FREE, Release),
            Some(next) => {
                // It may not run for long, and others may come to wait for it meanwhile.
                self.holder.store(next.reported_as(), Relaxed);
                if waiters.is_empty() {
                    self.state.store(LOCKED, Release);
                }
            }
        }
        drop(waiters);
        if let Some(next) = next {
            next.now();
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("Mutex").field(&&*value).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

/// The right to use the value of a [`Mutex`], which is unlocked when this is dropped.
#[must_use = "the mutex is unlocked when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Not `Send`, as the guards of the standard library.
    one_thread: PhantomData<*mut ()>,
}

// SAFETY: a shared guard is a shared value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's owner has the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
