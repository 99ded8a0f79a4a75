//! Detection of `fork(2)`: a child process has none of its parent's worker threads.
//!
//! `pthread_atfork` raises a counter in the child. Every pool stores the counter's value at its creation. If the value differs later, the
//! pool belongs to the parent, and its functions return [`GraphError::Forked`](crate::GraphError::Forked) instead of waiting for threads
//! that do not exist. In the child nothing of such a pool takes a lock, which another thread may have held at the moment of the fork, and
//! nothing is freed: what belongs to the pool is leaked.

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

/// Writes a message to standard error, unless that would wait: a thread that a graph needs must not hang because nothing reads a pipe, or
/// because the program holds the lock of `std::io::stderr`. (`eprintln` takes that lock, and panics if it cannot write.)
pub(crate) fn report(message: std::fmt::Arguments<'_>) {
    write_to_stderr(format!("tanada: {message}\n").as_bytes());
}

/// Writes as much of `text` as standard error takes at once. Takes no lock.
fn write_to_stderr(text: &[u8]) {
    // A pipe that can be written to takes this much without waiting.
    for part in text.chunks(libc::PIPE_BUF) {
        let mut stderr = libc::pollfd {
            fd: libc::STDERR_FILENO,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: writes to `stderr`, and reads `part`.
        let written = unsafe {
            libc::poll(&mut stderr, 1, 0) == 1
                && libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len())
                    == part.len() as isize
        };
        if !written {
            return;
        }
    }
}

/// Ends a child process that was forked in a task, once the task's body has returned or panicked: its thread is a copy of a worker, and
/// the other tasks are the parent's to run.
#[cold]
pub(crate) fn end_child() -> ! {
    // Another thread may have held the allocator's lock when the process forked.
    write_to_stderr(
        b"tanada: a child of fork(2) went on as a worker of its parent's pool; \
        its parent runs the tasks, so it must end by itself\n",
    );
    std::process::abort();
}
