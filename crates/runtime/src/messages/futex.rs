//! Waiting at a word of memory, in one process or between several.

use tanada_policy::Time;
use tanada_queues::sync::atomic::AtomicU32;

/// Waits while `word` is `expected`, until another thread calls [`wake`] or `until` has come. May return for no reason.
#[cfg(not(shuttle))]
pub(super) fn wait(word: &AtomicU32, expected: u32, until: Option<Time>, shared: bool) {
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

/// What the kernel does, in words of the model: threads that wait in a list, which the comparison and the waking see under one lock.
#[cfg(shuttle)]
mod model {
    use super::{AtomicU32, Time};
    use tanada_queues::sync::atomic::Ordering;
    use tanada_queues::sync::{Mutex, thread};

    shuttle::lazy_static! {
        static ref WAITING: Mutex<Vec<(usize, u64, thread::Thread)>> = Mutex::new(Vec::new());
        static ref TICKETS: tanada_queues::sync::atomic::AtomicU64 =
            tanada_queues::sync::atomic::AtomicU64::new(0);
    }

    pub(in crate::messages) fn wait(
        word: &AtomicU32,
        expected: u32,
        until: Option<Time>,
        _shared: bool,
    ) {
        let key = std::ptr::from_ref(word).addr();
        let ticket = TICKETS.fetch_add(1, Ordering::SeqCst);
        {
            let mut waiting = WAITING.lock();
            if word.load(Ordering::SeqCst) != expected {
                return;
            }
            if until.is_some() {
                // The timer may fire at any moment, also now: what is to come without it has no timer.
                drop(waiting);
                thread::yield_now();
                return;
            }
            waiting.push((key, ticket, thread::current()));
        }
        while WAITING.lock().iter().any(|entry| entry.1 == ticket) {
            thread::park();
        }
    }

    pub(in crate::messages) fn wake(word: &AtomicU32, _shared: bool) {
        let key = std::ptr::from_ref(word).addr();
        let mut waiting = WAITING.lock();
        if let Some(at) = waiting.iter().position(|entry| entry.0 == key) {
            let (_, _, sleeper) = waiting.remove(at);
            drop(waiting);
            sleeper.unpark();
        }
    }
}
