//! The system's way to sleep on a word.

use super::sync::AtomicU32;

/// Sleeps until `wake` is called for this word with one of the bits of `mask`, for `ns` nanoseconds at most. Not if the word is not
/// `value`.
pub(super) fn wait(word: &AtomicU32, value: u32, mask: u32, ns: i64) {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the address of a time; then that of a word that is there, and of a time.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        let until = time.tv_nsec + ns;
        time.tv_sec += until / 1_000_000_000;
        time.tv_nsec = until % 1_000_000_000;
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
            std::ptr::null::<u32>(),
            mask,
        );
    }
}

/// Wakes up to `threads` threads that sleep on this word with one of these bits.
pub(super) fn wake(word: &AtomicU32, threads: i32, mask: u32) {
    // SAFETY: the address of a word that is there.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG,
            threads,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            mask,
        );
    }
}
