//! Threads that borrow from the one that creates them.

use super::handle::{Builder, Hint, JoinHandle, header, make_new_ready, unscheduled};
use super::record::On;
use super::scheduler::Runnable;
use super::waiter::{WaitList, wait_in};
use crate::worker::EndOnPanic;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Where threads are created that borrow from outside of [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    /// Invariant in both, as the standard library's.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Debug, Default)]
struct Shared(parking_lot::Mutex<State>);

#[derive(Debug, Default)]
struct State {
    threads: usize,
    /// How many threads have panicked and were not joined.
    panicked: usize,
    waiters: WaitList,
}

/// Calls `body`, and returns when it and all threads that it has created in the scope have ended.
///
/// ```
/// use tanada_runtime::thread;
///
/// let mut rows = [[1, 2], [3, 4]];
/// thread::scope(|scope| {
///     for row in &mut rows {
///         scope.spawn(|| row.iter_mut().for_each(|value| *value *= 10));
///     }
/// });
/// assert_eq!(rows, [[10, 20], [30, 40]]);
/// ```
///
/// # Panics
/// With the panic of `body`; or if a thread whose handle was not joined panicked, or its result
/// did when it was dropped.
pub fn scope<'env, R>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
    let scope = Scope {
        shared: Arc::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    scope.shared.wait();
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.shared.0.lock().panicked > 0 => panic!("a thread of the scope panicked"),
        Ok(result) => result,
    }
}

impl Shared {
    /// Returns the number that stands for the scope in reports: no other one has it at the same time.
    fn number(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    fn wait(&self) {
        // The threads borrow from this frame and its callers'.
        EndOnPanic::around(|| {
            loop {
                let state = self.0.lock();
                if state.threads == 0 {
                    return;
                }
                let on = (On::Scope, self.number());
                wait_in(state, |state| &mut state.waiters, on, || ());
            }
        });
    }
}

/// A thread of the scope ends when this is dropped.
struct Member(Arc<Shared>);

impl Member {
    /// The lightweight thread that calls this is the member.
    fn begins(&self) {
        if let Some(thread) = header() {
            thread.is_part_of(self.0.number());
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may be the thread of a scope's creator, if no thread could be made.
        if let Some(thread) = header()
            && thread.scope() == self.0.number()
        {
            thread.is_part_of(0);
        }
        let mut state = self.0.0.lock();
        state.threads -= 1;
        let waiters = match state.threads {
            0 => state.waiters.take(),
            _ => Vec::new(),
        };
        drop(state);
        waiters.into_iter().for_each(|waiter| waiter.now());
    }
}

/// Where a thread of a scope leaves its result. The thread lets go of it before it ends for the scope: a result may borrow, too.
type Packet<T> = parking_lot::Mutex<Option<std::thread::Result<T>>>;

/// As [`JoinHandle`], of a thread in a scope.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<()>,
    shared: Arc<Shared>,
    packet: Arc<Packet<T>>,
    marker: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end and returns its result; see [`JoinHandle::join`].
    ///
    /// # Errors
    /// With the payload, if the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join()?;
        let result = self.packet.lock().take();
        let result = result.expect("a thread that has ended has a result");
        if result.is_err() {
            self.shared.0.lock().panicked -= 1;
        }
        result
    }

    /// Returns whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Returns the thread's hint, if it is an `H`.
    pub fn hint<H: std::any::Any>(&self) -> Option<&H> {
        self.handle.hint()
    }
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ScopedJoinHandle")
            .field(&self.handle)
            .finish()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Creates a thread that may borrow what lives longer than the scope, and makes it ready.
    ///
    /// # Panics
    /// As [`spawn`](super::spawn).
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        match Builder::new().spawn_scoped(self, body) {
            Ok(handle) => handle,
            Err(error) => panic!("no stack for a thread: {error}"),
        }
    }
}

impl<H: Hint> Builder<'_, H> {
    /// As [`Scope::spawn`], of a thread of this description.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let (body, packet) = scope.member(body);
        // SAFETY: the scope does not end before the closure has, and its result is not a borrow. The thread is tied.
        let made = unsafe { self.make(body, true, make_new_ready) };
        made.map(|(handle, ())| scope.handle(handle, packet))
    }

    /// As [`Builder::spawn_scoped`], of a thread that is not tied.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    ///
    /// # Safety
    /// As [`Builder::spawn_untied`].
    pub unsafe fn spawn_scoped_untied<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let (body, packet) = scope.member(body);
        // SAFETY: as in `spawn_scoped`; the rest is the caller's contract.
        let made = unsafe { self.make_untied(body) };
        made.map(|handle| scope.handle(handle, packet))
    }

    /// As [`Builder::spawn_scoped`], but the thread does not become ready before its [`Runnable`] is used. The scope waits for it.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    /// As [`Builder::spawn`].
    pub fn create_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<(ScopedJoinHandle<'scope, T>, Runnable)> {
        let (body, packet) = scope.member(body);
        // SAFETY: as in `spawn_scoped`.
        let made = unsafe { self.make(body, true, |_, _, right| unscheduled(right)) };
        made.map(|(handle, thread)| (scope.handle(handle, packet), thread))
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Returns `body` as a closure that counts in the scope, and where it leaves its result.
    fn member<T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
        &self,
        body: F,
    ) -> (impl FnOnce() + Send + use<'scope, T, F>, Arc<Packet<T>>) {
        self.shared.0.lock().threads += 1;
        let member = Member(Arc::clone(&self.shared));
        let packet = Arc::new(Packet::new(None));
        let place = Arc::clone(&packet);
        let counted = move || {
            // Named in the order in which they are dropped if the thread is never run: the scope does not end before the closure has gone.
            let (body, place, member) = (body, place, member);
            member.begins();
            let result = catch_unwind(AssertUnwindSafe(body));
            if result.is_err() {
                member.0.0.lock().panicked += 1;
            }
            *place.lock() = Some(result);
            // It drops the result if the handle is gone.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(place))) {
                member.0.0.lock().panicked += 1;
                resume_unwind(panic);
            }
            drop(member);
        };
        (counted, packet)
    }

    /// Returns the handle of a thread of the scope, which leaves its result in `packet`.
    fn handle<T>(
        &self,
        handle: JoinHandle<()>,
        packet: Arc<Packet<T>>,
    ) -> ScopedJoinHandle<'scope, T> {
        ScopedJoinHandle {
            handle,
            shared: Arc::clone(&self.shared),
            packet,
            marker: PhantomData,
        }
    }
}
