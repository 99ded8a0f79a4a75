//! How much is left of a worker's stack.

use std::cell::Cell;

/// The stack of one worker's thread.
pub(crate) struct Stack {
    pub(crate) size: usize,
    /// Where the worker began.
    top: usize,
    /// The lowest address at which a nested graph may begin; 0 until somebody asks, which many workers never do.
    low: Cell<usize>,
}

/// The least that is kept for the tasks of the innermost graph, in bytes.
const LEAST: usize = 12 << 10;

impl Stack {
    /// Returns the stack of this thread, which has just begun and was made with a stack of `size` bytes. The last quarter of what is left
    /// of it is for the tasks of the innermost graph.
    pub(crate) fn of_this_thread(size: usize) -> Self {
        Stack {
            size,
            top: pointer(),
            low: Cell::new(0),
        }
    }

    /// Returns the lowest address at which a nested graph may begin on a stack of `size` bytes that ends at `end`.
    pub(crate) fn low(end: usize, size: usize) -> usize {
        end.saturating_add((size / 4).max(LEAST))
    }

    /// Returns whether too little is left for another nested graph. Called on the thread itself.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low_in(0)
    }

    /// Returns whether the stack is low `bytes` further down.
    pub(crate) fn is_low_in(&self, bytes: usize) -> bool {
        let low = match self.low.get() {
            0 => self.find_low(),
            low => low,
        };
        pointer() < low + bytes
    }

    #[cold]
    fn find_low(&self) -> usize {
        let end = end_of_stack(self.top, self.size);
        let low = Self::low(end, self.top.saturating_sub(end));
        self.low.set(low);
        low
    }
}

/// Returns the lowest address of this thread's stack of `size` bytes, near whose other end `top` lies.
#[cfg(not(miri))]
fn end_of_stack(top: usize, size: usize) -> usize {
    let known = of_this_thread().map(|stack| stack.start);
    known.unwrap_or_else(|| top.saturating_sub(size))
}

/// Returns the bounds of this thread's stack. They are asked for: the C library takes thread-local variables and its own data from the same
/// memory, so that a thread does not begin at the stack's highest address.
#[cfg(not(miri))]
fn of_this_thread() -> Option<std::ops::Range<usize>> {
    let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: `pthread_getattr_np` fills the attributes, which are then read, and destroyed once.
    let known = unsafe {
        let thread = libc::pthread_self();
        libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) == 0 && {
            let read = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut bytes) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            read
        }
    };
    known.then(|| low.addr()..low.addr() + bytes)
}

/// As [`of_this_thread`], for a sanitizer.
#[cfg(sanitized = "address")]
pub(crate) fn bounds_of_this_thread() -> std::ops::Range<usize> {
    of_this_thread().expect("the system knows a thread's stack")
}

#[cfg(miri)]
fn end_of_stack(_top: usize, _size: usize) -> usize {
    0
}

/// Returns the address of the top of the stack. (That of a local variable is another one under an address sanitizer.)
#[inline(always)]
pub(crate) fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: only reads a register.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        std::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    // Other architectures, and an interpreter without a stack: no limit is known.
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        pointer = usize::MAX;
    }
    pointer
}
