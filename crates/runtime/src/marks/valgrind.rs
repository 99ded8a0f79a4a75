//! Valgrind's client requests (`valgrind.h`): instructions that do nothing on a processor and that Valgrind recognises.

use std::ffi::CStr;

/// Returns whether this process runs on Valgrind.
pub(super) fn is_running() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    // SAFETY: the request takes no argument.
    unsafe { request([RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0], 0) != 0 }
}

/// Writes `format`, which must ask for no argument, into Valgrind's log.
#[inline]
pub(super) fn print(format: &CStr) {
    const PRINTF_VALIST_BY_REF: usize = 0x1403;
    // An empty `va_list`, larger than that of any architecture below.
    let list = [0_usize; 8];
    let list = std::ptr::from_ref(&list) as usize;
    // SAFETY: both pointers are valid for the call, the format ends with a zero and has no conversions.
    unsafe {
        request(
            [
                PRINTF_VALIST_BY_REF,
                format.as_ptr() as usize,
                list,
                0,
                0,
                0,
            ],
            0,
        )
    };
}

/// Sends a request to Valgrind and returns its answer, or `default` if the program does not run on Valgrind.
///
/// # Safety
/// The arguments are those that `valgrind.h` defines for the request.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn request(arguments: [usize; 6], default: usize) -> usize {
    let answer;
    // SAFETY: four rotations by 128 bits in sum and an exchange of a register with itself change nothing but flags. Valgrind
    // recognises them, reads the arguments and may read what they point to.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const arguments,
            inout("rdx") default => answer,
            options(nostack),
        );
    }
    answer
}

/// Sends a request to Valgrind and returns its answer, or `default` if the program does not run on Valgrind.
///
/// # Safety
/// The arguments are those that `valgrind.h` defines for the request.
#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn request(arguments: [usize; 6], default: usize) -> usize {
    let answer;
    // SAFETY: as above, with a register that is combined with itself.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, 3",
            "ror x12, x12, 13",
            "ror x12, x12, 51",
            "ror x12, x12, 61",
            "orr x10, x10, x10",
            in("x4") &raw const arguments,
            inout("x3") default => answer,
            options(nostack),
        );
    }
    answer
}

/// Returns `default`: on this architecture no request is known.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn request(_arguments: [usize; 6], default: usize) -> usize {
    default
}
