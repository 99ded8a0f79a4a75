//! Which standard descriptors the program was started without.

use std::sync::atomic::{AtomicU32, Ordering};

/// A bit for each of the descriptors 0 to 2 that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Looks at the standard descriptors before `main`: the standard library opens /dev/null in the place of a closed one, and that cannot be
/// told later from a /dev/null that the user named.
extern "C" fn look() {
    use rustix::stdio::{stderr, stdin, stdout};
    let mut closed = 0;
    for (number, descriptor) in [stdin(), stdout(), stderr()].into_iter().enumerate() {
        closed |= u32::from(rustix::io::fcntl_getfd(descriptor).is_err()) << number;
    }
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions without arguments that must be called before `main`, and this static is one. `look` needs
// nothing that the standard library sets up: it makes system calls and stores their results, and it cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Returns whether this descriptor, of 0 to 2, was closed when the program started. Of others it returns `false`.
pub(crate) fn at_start(descriptor: u32) -> bool {
    let closed = CLOSED.load(Ordering::Relaxed);
    closed
        .checked_shr(descriptor)
        .is_some_and(|bits| bits & 1 == 1)
}
