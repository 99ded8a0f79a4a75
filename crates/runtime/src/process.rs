//! Detection of `fork(2)`: a child process has none of its parent's worker threads.
//!
//! `pthread_atfork` raises a counter in the child. Every pool stores the counter's value at its creation. If the value differs later, the
//! pool belongs to the parent, and its functions return [`GraphError::Forked`](crate::GraphError::Forked) instead of waiting for threads
//! that do not exist. In the child nothing of such a pool takes a lock, which another thread may have held at the moment of the fork, and
//! nothing is freed: what belongs to the pool is leaked.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// [`ABSENT`], [`INSTALLED`], or the process (its number and [`INSTALLED`]) of which a thread installs `in_child` now. It is no lock: a
/// child of `fork(2)` installs although a thread of its parent did so at the moment of the fork.
static WATCH: AtomicU64 = AtomicU64::new(ABSENT);
const ABSENT: u64 = 0;
const INSTALLED: u64 = 1;

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// Makes later forks raise the counter. Only the first call costs anything.
///
/// # Panics
/// If the system is out of memory.
pub(crate) fn watch_forks() {
    loop {
        let seen = WATCH.load(Ordering::Acquire);
        if seen == INSTALLED {
            return;
        }
        let mine = u64::from(std::process::id()) + INSTALLED;
        let claim = || WATCH.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed);
        if seen == mine || claim().is_err() {
            std::thread::yield_now();
            continue;
        }
        // SAFETY: `in_child` only changes an atomic variable, which is allowed after a fork of a program with threads. If it is installed
        // twice, it counts twice.
        let code = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        WATCH.store(
            if code == 0 { INSTALLED } else { ABSENT },
            Ordering::Release,
        );
        assert_eq!(code, 0, "pthread_atfork failed: out of memory");
    }
}

/// Returns the number of forks between this process and the one that first called [`watch_forks`].
#[inline]
pub(crate) fn generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Writes a message to standard error. (`eprintln` panics if it cannot be written.)
pub(crate) fn report(message: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "tanada: {message}");
}

/// Ends a child process that was forked in a task, once the task's body has returned or panicked: its thread is a copy of a worker, and
/// the other tasks are the parent's to run.
#[cold]
pub(crate) fn end_child() -> ! {
    let message = b"tanada: a child of fork(2) went on as a worker of its parent's pool; \
        its parent runs the tasks, so it must end by itself\n";
    // SAFETY: reads the message. `eprintln` takes a lock, which another thread may have held when the process forked.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    std::process::abort();
}
