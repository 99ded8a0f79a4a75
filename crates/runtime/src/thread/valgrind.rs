//! What Valgrind has to know of the stacks of threads.
//!
//! Valgrind takes a small step of the stack pointer for a stack that grows or shrinks. Memcheck then forgets what the memory between held,
//! and reports each use of it as an error. Announced stacks are exempt: a step from one of them to another is a switch.
//!
//! A program talks to Valgrind by an instruction sequence that does nothing on a processor (`valgrind.h`, "client requests"): some ten
//! instructions for each stack, once.

use std::ops::Range;

/// The memory at `stack` is a stack from now on. Does nothing outside of Valgrind.
#[inline]
pub(super) fn announce(stack: Range<*const u8>) {
    /// `VG_USERREQ__STACK_REGISTER`, whose arguments are the lowest and the highest address.
    const STACK_REGISTER: usize = 0x1501;
    let request = [
        STACK_REGISTER,
        stack.start.addr(),
        stack.end.addr() - 1,
        0,
        0,
        0,
    ];
    #[cfg(not(miri))]
    ask(&request);
    #[cfg(miri)]
    let _ = request;
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn ask(request: &[usize; 6]) {
    // SAFETY: four rotations by 128 bits in all, and an exchange of a register with itself, change nothing. Under Valgrind the request is
    // read, and `rdx` is written.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request,
            inout("rdx") 0usize => _,
            options(nostack),
        );
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn ask(request: &[usize; 6]) {
    // SAFETY: four rotations by 128 bits in all, and an "or" of a register with itself, change nothing. Under Valgrind the request is
    // read, and `x3` is written.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, 3",
            "ror x12, x12, 13",
            "ror x12, x12, 51",
            "ror x12, x12, 61",
            "orr x10, x10, x10",
            in("x4") request,
            inout("x3") 0usize => _,
            options(nostack),
        );
    }
}
