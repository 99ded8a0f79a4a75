//! How many tasks of a team are open.
//!
//! Each thread counts what it created and what it ended, each in a word of its own that only it writes. A thread that reads all of the
//! second words, then all of the first, and finds equal sums knows that at some moment between nothing was open: what it missed of the
//! first can only have made their sum larger.

use super::sync::{AtomicU64, Line, Ordering};

/// What one thread counts.
#[derive(Default)]
pub(super) struct Counts {
    created: Line<AtomicU64>,
    ended: AtomicU64,
}

fn one_more(count: &AtomicU64) {
    let value = count.load(Ordering::Relaxed);
    count.store(value.wrapping_add(1), Ordering::Release);
}

impl Counts {
    /// Counts a task, before any thread can run it. For the thread whose counts these are.
    #[inline]
    pub(super) fn created(&self) {
        one_more(&self.created.0);
    }

    /// Counts a task that has ended, after all that it created. For the thread whose counts these are.
    #[inline]
    pub(super) fn ended(&self) {
        one_more(&self.ended);
    }
}

/// Returns whether no task is open. `ended_outside`: tasks that other threads ended.
pub(super) fn nothing_open<'a>(
    ended_outside: &AtomicU64,
    threads: impl Iterator<Item = &'a Counts> + Clone,
) -> bool {
    let mut ended = ended_outside.load(Ordering::Acquire);
    for thread in threads.clone() {
        ended = ended.wrapping_add(thread.ended.load(Ordering::Acquire));
    }
    let mut created = 0_u64;
    for thread in threads {
        created = created.wrapping_add(thread.created.0.load(Ordering::Acquire));
    }
    ended == created
}
