//! Detection of `fork(2)`, and of every other way to copy a process: the copy has none of its parent's worker threads.
//!
//! Every pool stores the [`Process`] in which it was made. In a child of that process its functions return
//! [`GraphError::Forked`](crate::GraphError::Forked) instead of waiting for threads that do not exist. In the child nothing of such a pool
//! takes a lock, which another thread may have held at the moment of the fork, and nothing is freed: what belongs to the pool is leaked.
//!
//! The number of the process is in a page that the kernel clears in a child (`MADV_WIPEONFORK`), whatever call makes the child: `fork`,
//! `_Fork` and `clone` without `CLONE_VM`. So a check is one load. If the kernel refuses that advice (Linux before 4.14, some emulators),
//! `pthread_atfork` clears the number, which notices `fork` alone.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[cfg(not(target_os = "linux"))]
pub(crate) use libc::mmap as map_memory;
/// `mmap` under the name by which the standard library calls it: another one would be one more that the loader looks up at every start of
/// a program.
#[cfg(target_os = "linux")]
pub(crate) use libc::mmap64 as map_memory;

// The C library, before the libraries that the standard library names: the loader looks for most names of a program in the first one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[link(name = "c")]
unsafe extern "C" {}

/// The number of this process among its ancestors that have asked for one; 0 until it asks. The pointer is null until some process asks.
static NUMBER: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The greatest number that this process or an ancestor has had.
static GREATEST: AtomicU64 = AtomicU64::new(0);

/// A process: that in which something was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// The number of the process that loads it.
    present: &'static AtomicU64,
    number: u64,
}

impl Process {
    /// Returns this process. Only the first call in a process costs anything.
    ///
    /// It takes no lock: a child of `fork(2)` asks although a thread of its parent did so at the moment of the fork.
    ///
    /// # Panics
    /// If the system is out of memory.
    // Inlined where pools are made, as what it calls: each piece of code elsewhere takes the first pool some microseconds more.
    #[inline(always)]
    pub(crate) fn this() -> Process {
        let present = present();
        let mut number = present.load(Ordering::Relaxed);
        if number == 0 {
            let next = GREATEST.fetch_add(1, Ordering::Relaxed) + 1;
            let first = present.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            number = first.map_or_else(|other| other, |_| next);
        }
        Process { present, number }
    }

    /// Returns whether this process is still the one, and no child of it.
    #[inline]
    pub(crate) fn is_this(&self) -> bool {
        self.present() == self.number
    }

    /// Returns the number of the process that calls this: [`Process::number`], unless it is another process.
    #[inline]
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Returns a number that no ancestor of this process has; neither 0 nor `u64::MAX`.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// A value that each process has for itself: a child of `fork(2)` makes a new one, and leaves that of its parent, whose locks another
/// thread may have held.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Kept<T>>);

struct Kept<T> {
    home: Process,
    value: T,
}

impl<T: Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns this process's value, which the first call makes. It is never freed.
    #[inline(always)]
    pub(crate) fn get(&self, make: impl Fn() -> T) -> &'static T {
        match self.kept() {
            Ok(value) => value,
            Err(_) => self.make(make),
        }
    }

    /// Returns this process's value if there is one, else what was found.
    #[inline]
    fn kept(&self) -> Result<&'static T, *mut Kept<T>> {
        let seen = self.0.load(Ordering::Acquire);
        // SAFETY: what was stored is never freed.
        match unsafe { seen.as_ref() } {
            Some(kept) if kept.home.is_this() => Ok(&kept.value),
            _ => Err(seen),
        }
    }

    /// As [`PerProcess::get`], if there is no value.
    #[inline(always)]
    fn make(&self, make: impl Fn() -> T) -> &'static T {
        loop {
            let seen = match self.kept() {
                Ok(value) => return value,
                Err(seen) => seen,
            };
            let kept = Kept {
                home: Process::this(),
                value: make(),
            };
            let made = Box::into_raw(Box::new(kept));
            let set = self
                .0
                .compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire);
            if set.is_ok() {
                // SAFETY: as above.
                return &unsafe { &*made }.value;
            }
            // SAFETY: no other thread has seen it.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

/// Returns the number of this process, which is 0 in a new child.
#[inline(always)]
fn present() -> &'static AtomicU64 {
    let mut seen = NUMBER.load(Ordering::Acquire);
    if seen.is_null() {
        let page = cleared_in_children();
        let first = NUMBER.compare_exchange(seen, page, Ordering::AcqRel, Ordering::Acquire);
        // Another thread may have been first; then this page stays unused.
        seen = first.map_or_else(|other| other, |_| page);
    }
    // SAFETY: what `cleared_in_children` returns is valid for ever.
    unsafe { &*seen }
}

/// Lets the system make the page at once: to read it later would cost a fault, and to write it another one.
#[cfg(all(target_os = "linux", not(miri)))]
const POPULATE: i32 = libc::MAP_POPULATE;
#[cfg(not(all(target_os = "linux", not(miri))))]
const POPULATE: i32 = 0;

/// Makes and returns a word, now 0, that is 0 again in every child of this process. It is valid for ever.
///
/// # Panics
/// If the system is out of memory.
#[inline(always)]
fn cleared_in_children() -> *mut AtomicU64 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | POPULATE;
    // SAFETY: a new mapping touches no other memory.
    let page = unsafe {
        map_memory(
            std::ptr::null_mut(),
            size_of::<AtomicU64>(),
            access,
            kind,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED, "mmap failed: out of memory");
    if !is_cleared_by_the_kernel(page) {
        // SAFETY: `in_child` only changes an atomic variable, which is allowed after a fork of a program with threads. It may be installed
        // twice.
        let code = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(code, 0, "pthread_atfork failed: out of memory");
    }
    page.cast()
}

/// Asks the kernel to clear `page`, which holds nothing but a word of [`cleared_in_children`], in children. Returns whether it will.
#[cfg(all(target_os = "linux", not(miri)))]
fn is_cleared_by_the_kernel(page: *mut libc::c_void) -> bool {
    // SAFETY: this changes nothing in this process, and in a child only the page.
    unsafe { libc::madvise(page, size_of::<AtomicU64>(), libc::MADV_WIPEONFORK) == 0 }
}

/// Other systems have no such advice, and Miri has no processes.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn is_cleared_by_the_kernel(_page: *mut libc::c_void) -> bool {
    false
}

extern "C" fn in_child() {
    let number = NUMBER.load(Ordering::Relaxed);
    // SAFETY: what `cleared_in_children` returns is valid for ever.
    if let Some(number) = unsafe { number.as_ref() } {
        number.store(0, Ordering::Relaxed);
    }
}

/// Writes a message to standard error, unless that would wait: a thread that a graph needs must not hang because nothing reads a pipe, or
/// because the program holds the lock of `std::io::stderr`. (`eprintln` takes that lock, and panics if it cannot write.)
pub(crate) fn report(message: std::fmt::Arguments<'_>) {
    write_to_stderr(format!("tanada: {message}\n").as_bytes());
}

/// Writes as much of `text` as standard error takes at once. Takes no lock.
pub(crate) fn write_to_stderr(text: &[u8]) {
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
