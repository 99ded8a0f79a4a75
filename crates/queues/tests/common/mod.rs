//! Tasks without an engine.
#![allow(unsafe_code, reason = "handles made up by tests")]

use std::thread::ScopedJoinHandle;
use tanada_queues::Ready;

/// The task with a number (at least 1). The digest is the number's low half.
pub(crate) fn task(number: u64) -> Ready {
    // SAFETY: no engine is involved; the handle is only read back.
    unsafe { Ready::new(number, number as u16) }
}

/// Waits for threads of a scope. (The scope's own way of waiting is inside of std, where ThreadSanitizer does not see it.)
#[allow(dead_code, reason = "not every test has threads")]
pub(crate) fn join<'scope>(threads: impl IntoIterator<Item = ScopedJoinHandle<'scope, ()>>) {
    for thread in threads {
        thread.join().expect("no panic");
    }
}
