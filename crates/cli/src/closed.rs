//! Whether the program was started without a standard output.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks at standard output before `main`: the standard library opens /dev/null in the place of a closed descriptor, and that cannot be
/// told later from a /dev/null that the user named.
extern "C" fn look() {
    let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    CLOSED.store(flags.is_err(), Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions without arguments that must be called before `main`, and this static is one. `look` needs
// nothing that the standard library sets up: it makes one system call and stores its result, and it cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Returns whether standard output was closed when the program started.
pub(crate) fn standard_output() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
