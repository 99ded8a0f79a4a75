//! Waiting at a word of memory, in one process or between several.

use tanada_policy::Time;
use tanada_queues::sync::atomic::AtomicU32;

/// Waits while `word` is `expected`, until another thread calls [`wake`] or `until` has come. May return for no reason.
#[cfg(not(shuttle))]
pub(super) fn wait(word: &AtomicU32, expected: u32, until: Option<Time>, shared: bool) {
    if let Some(actor) = crate::replay::actor() {
        // Other threads of the schedule may send; the caller looks again.
        return actor.poll();
    }
    let until = until.map(super::clock::timespec);
    // Whatever it returns, the caller looks at its condition again.
    let _ = rustix::thread::futex::wait_bitset(
        word,
        flags(shared),
        expected,
        until.as_ref(),
        std::num::NonZeroU32::MAX,
    );
}

/// Wakes the thread that waits at `word`, if there is one.
#[cfg(not(shuttle))]
pub(super) fn wake(word: &AtomicU32, shared: bool) {
    // It fails only for a word that is no memory.
    let _ = rustix::thread::futex::wake(word, flags(shared), 1);
}

#[cfg(not(shuttle))]
fn flags(shared: bool) -> rustix::thread::futex::Flags {
    match shared {
        true => rustix::thread::futex::Flags::empty(),
        false => rustix::thread::futex::Flags::PRIVATE,
    }
}

#[cfg(shuttle)]
pub(super) use model::{wait, wake};

/// What the kernel does, in words of the model: a list of the threads that wait. A thread stands in the list before it compares, so a
/// waking that follows the change of the word finds it.
#[cfg(shuttle)]
mod model {
    use super::{AtomicU32, Time};
    use std::sync::atomic::AtomicU64;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use tanada_queues::sync::atomic::Ordering;
    use tanada_queues::sync::thread;

    /// Address of the word, number of the waiting, and the thread. No thread of the model is switched while this lock is held.
    static WAITING: Mutex<Vec<(usize, u64, thread::Thread)>> = Mutex::new(Vec::new());
    static NUMBERS: AtomicU64 = AtomicU64::new(0);

    fn waiting() -> MutexGuard<'static, Vec<(usize, u64, thread::Thread)>> {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::messages) fn wait(
        word: &AtomicU32,
        expected: u32,
        until: Option<Time>,
        _shared: bool,
    ) {
        if until.is_some() {
            // The timer may fire at any moment, also now: what has to come without it is sent to a receiver that has none.
            thread::yield_now();
            return;
        }
        let key = std::ptr::from_ref(word).addr();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let this = thread::current();
        waiting().push((key, number, this));
        if word.load(Ordering::SeqCst) != expected {
            waiting().retain(|entry| entry.1 != number);
            return;
        }
        loop {
            let waits = waiting().iter().any(|entry| entry.1 == number);
            match waits {
                true => thread::park(),
                false => return,
            }
        }
    }

    pub(in crate::messages) fn wake(word: &AtomicU32, _shared: bool) {
        let key = std::ptr::from_ref(word).addr();
        let sleeper = {
            let mut waiting = waiting();
            let at = waiting.iter().position(|entry| entry.0 == key);
            at.map(|at| waiting.remove(at))
        };
        if let Some((_, _, sleeper)) = sleeper {
            sleeper.unpark();
        }
    }
}
