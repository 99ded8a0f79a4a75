//! How much is left of a worker's stack.

/// The stack of one worker's thread.
pub(crate) struct Stack {
    pub(crate) size: usize,
    /// The lowest address at which a nested graph may begin.
    low: usize,
}

impl Stack {
    /// Returns the stack of this thread, which has just begun and was made with a stack of `size` bytes. The last quarter is for the tasks
    /// of the innermost graph.
    pub(crate) fn of_this_thread(size: usize) -> Self {
        let low = pointer().saturating_sub(size - size / 4);
        Stack { size, low }
    }

    /// Returns whether too little is left for another nested graph. Called on the thread itself.
    pub(crate) fn is_low(&self) -> bool {
        pointer() < self.low
    }
}

/// Returns the address of the top of the stack. (That of a local variable is another one under an address sanitizer.)
#[inline(always)]
fn pointer() -> usize {
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
