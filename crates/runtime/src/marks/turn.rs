//! One task of the process runs at a time, so that the accesses of two tasks are never mixed. Pools have one worker each, but a program
//! can have several pools.

use super::locked;
use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

static TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN: Condvar = Condvar::new();

thread_local! {
    static MINE: Cell<bool> = const { Cell::new(false) };
}

/// Waits for the turn and takes it.
pub(super) fn take() {
    let taken = GIVEN.wait_while(locked(&TAKEN), |taken| *taken);
    *taken.unwrap_or_else(PoisonError::into_inner) = true;
    MINE.set(true);
}

/// Returns whether this thread has the turn.
pub(super) fn is_mine() -> bool {
    MINE.get()
}

/// Releases the turn.
pub(super) fn give() {
    MINE.set(false);
    *locked(&TAKEN) = false;
    GIVEN.notify_one();
}
