//! Who is there: each end of a shared channel holds the lock of a byte of the memory file, which the kernel takes back when its process
//! ends, however it ends.
//!
//! The locks are those of open file descriptions (`F_OFD_SETLK`): two ends in one process exclude each other, and closing another handle of
//! the file releases nothing. Each end opens the file anew. A child of `fork(2)` inherits the description, and so the lock: a parent's end
//! counts as alive until the child, too, has ended or has closed it, as `exec` does.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A held lock; dropping it releases it.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing it releases the lock")] File);

fn request(byte: u64) -> libc::flock {
    // SAFETY: a `flock` of zeros is one.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = libc::F_WRLCK as _;
    request.l_whence = libc::SEEK_SET as _;
    request.l_start = byte as _;
    request.l_len = 1;
    request
}

impl Lock {
    /// Takes the lock of `byte`; `None` if another end holds it.
    ///
    /// # Errors
    /// If the file cannot be opened anew, for which `/proc` must be mounted, or another process would make that wait by a lease.
    pub(super) fn take(file: BorrowedFd<'_>, byte: u64) -> io::Result<Option<Lock>> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let own = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let request = request(byte);
        // SAFETY: the descriptor is open, and the request lives until the call returns.
        let result = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_OFD_SETLK, &request) };
        if result == 0 {
            return Ok(Some(Lock(own)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(None),
            _ => Err(error),
        }
    }
}

/// Returns whether an end holds the lock of `byte`; also if the system does not say, because then no end is to be taken for dead.
pub(super) fn is_held(file: BorrowedFd<'_>, byte: u64) -> bool {
    let mut request = request(byte);
    // SAFETY: the descriptor is open, and the request lives until the call returns.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &mut request) };
    result != 0 || request.l_type != libc::F_UNLCK as libc::c_short
}
