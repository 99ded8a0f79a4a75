//! What happens after `fork(2)`: the child process has none of its parent's worker threads.
//!
//! A counter is raised in the child by `pthread_atfork`. Every pool remembers the value at its creation; a pool whose value differs
//! belongs to the parent and answers [`crate::GraphError::Forked`] instead of waiting for threads that do not exist.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// Sees to it that later forks are counted. Costs something only at its first call.
pub(crate) fn watch() {
    INSTALL.call_once(|| {
        // SAFETY: `in_child` only touches an atomic, which is allowed after a fork in a program with threads.
        let code = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(code, 0, "pthread_atfork failed: out of memory");
    });
}

/// How many forks lie between the first process and this one, since [`watch`].
#[inline]
pub(crate) fn generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}
