//! How much is left of a worker's stack.

/// The stack of one worker's thread.
pub(crate) struct Stack {
    pub(crate) size: usize,
    /// The lowest address at which a nested graph may begin.
    low: usize,
}

/// The least that is kept for the tasks of the innermost graph, in bytes.
const LEAST: usize = 12 << 10;

impl Stack {
    /// Returns the stack of this thread, which has just begun and was made with a stack of `size` bytes. The last quarter of what is left
    /// of it is for the tasks of the innermost graph.
    pub(crate) fn of_this_thread(size: usize) -> Self {
        let (top, end) = (pointer(), end_of_stack(size));
        let low = Self::low(end, top.saturating_sub(end));
        Stack { size, low }
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
        pointer() < self.low + bytes
    }
}

/// Returns the lowest address of this thread's stack of `size` bytes.
#[cfg(not(miri))]
fn end_of_stack(size: usize) -> usize {
    let known = of_this_thread().map(|stack| stack.start);
    known.unwrap_or_else(|| pointer().saturating_sub(size))
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
fn end_of_stack(_size: usize) -> usize {
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
