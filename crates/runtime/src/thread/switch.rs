//! The switch of stacks: one goes on where it left, and this one leaves.
//!
//! A stack that has left is known by one address, its [`Place`]. There lies the address at which it goes on, and above that what the
//! compiler cannot be told to keep in memory over the switch. All other registers are named as lost, so the compiler saves those that it
//! needs, and no others. Each switch passes a word to the stack that goes on.
//!
//! Stacks know nothing of each other: any may go on with any other, so a thread that waits goes on with the next one, and not with the
//! worker's stack first. A stack begins with a return address of 0, where debuggers, backtraces and the unwinder end. No floating-point
//! control words are saved: see the head of [the module above](super).

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("lightweight threads switch stacks on x86-64 and aarch64 only");

use std::arch::{asm, naked_asm};
use std::cell::Cell;

/// Where a stack goes on that has left: an address on it. 0: nowhere.
pub(super) type Place = usize;

/// Leaves this stack, whose place is stored in `from`, for the one at `to`, and returns the word that is passed when this stack goes on.
///
/// Inlined wherever that matters: the processor predicts where a function returns to, and after a switch it is wrong for each function
/// that was called before it and returns after it.
///
/// # Safety
/// `to` is the place of a stack that has left and has not gone on since, or of one that [`begin_at`] has prepared. `from` is valid when
/// this stack has left. What is alive on this stack may go on at another OS thread only if the caller sees to it.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn switch(from: *const Cell<Place>, to: Place, word: usize) -> usize {
    let passed;
    // SAFETY: the two registers that cannot be named as lost are saved on this stack, all others are named. What is written lies below the
    // stack's top, which is the caller's to use, and at `from`. The rest is the caller's contract.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rcx, [rip + 2f]",
            "push rcx",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rcx",
            "jmp rcx",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") from => _,
            inout("rsi") to => _,
            inout("rax") word => passed,
            out("rcx") _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    passed
}

/// As on x86-64.
///
/// # Safety
/// As there.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn switch(from: *const Cell<Place>, to: Place, word: usize) -> usize {
    let passed;
    // SAFETY: as on x86-64.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x9, 2f",
            "stp x9, xzr, [sp, #-16]!",
            "mov x9, sp",
            "str x9, [x0]",
            "mov sp, x1",
            "ldp x16, x9, [sp], #16",
            "br x16",
            "2:",
            "ldp x19, x29, [sp], #16",
            inout("x0") from => _,
            inout("x1") to => _,
            inout("x2") word => passed,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            out("x24") _,
            out("x25") _,
            out("x26") _,
            out("x27") _,
            out("x28") _,
            out("v8") _,
            out("v9") _,
            out("v10") _,
            out("v11") _,
            out("v12") _,
            out("v13") _,
            out("v14") _,
            out("v15") _,
            clobber_abi("C"),
        );
    }
    passed
}

/// What a new stack does: it gets `about` and the word of the switch, and never returns.
pub(super) type Entry = unsafe extern "C" fn(about: *const (), word: usize) -> !;

/// Prepares the stack below the address `top`, to call `entry` with `about` when it first goes on. Returns its place.
///
/// # Safety
/// The 64 bytes below `top` are the caller's to write, and their memory is exposed.
#[inline(always)]
pub(super) unsafe fn begin_at(top: usize, about: *const (), entry: Entry) -> Place {
    let top = top & !15;
    let about = about.expose_provenance();
    let words = [start as *const () as usize, about, entry as usize, 0];
    let place = top - size_of_val(&words);
    let first = std::ptr::with_exposed_provenance_mut::<usize>(place);
    for (index, word) in words.into_iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { first.add(index).write(word) };
    }
    place
}

/// Where a new stack goes on first: calls what [`begin_at`] was given, with a return address of 0.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn start() {
    naked_asm!(
        "pop rdi",
        "pop rcx",
        "mov rsi, rax",
        "xor ebp, ebp",
        "jmp rcx",
    )
}

/// As on x86-64. The switch has taken the address of this function and `about` already.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
unsafe extern "C" fn start() {
    naked_asm!(
        "ldp x16, x29, [sp], #16",
        "mov x0, x9",
        "mov x1, x2",
        "mov x30, xzr",
        "br x16",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stack of the test shares with the test.
    struct Shared {
        test: Cell<Place>,
        own: Cell<Place>,
    }

    /// Passes on what it is passed, multiplied by the number of times. Keeps more values over the switch than there are registers for.
    unsafe extern "C" fn multiply(about: *const (), word: usize) -> ! {
        // SAFETY: the test passes it.
        let shared = unsafe { &*about.cast::<Shared>() };
        let mut kept: [usize; 24] = std::array::from_fn(std::hint::black_box);
        let mut floats: [f64; 24] = std::array::from_fn(|at| std::hint::black_box(at as f64));
        let (mut word, mut times) = (word, 1.0);
        loop {
            let product = (word as f64 * times) as usize;
            // SAFETY: the test has left.
            word = unsafe { switch(&shared.own, shared.test.get(), product) };
            times += 1.0;
            for (at, (kept, float)) in kept.iter_mut().zip(&mut floats).enumerate() {
                *kept += 1;
                *float += 1.0;
                // A panic here ends the process.
                assert_eq!(
                    (*kept, *float),
                    (at + times as usize - 1, at as f64 + times - 1.0)
                );
            }
        }
    }

    unsafe extern "C" fn look_at_the_stack(about: *const (), _word: usize) -> ! {
        // SAFETY: the test passes it.
        let shared = unsafe { &*about.cast::<Shared>() };
        let frames = std::backtrace::Backtrace::force_capture().to_string();
        let aligned = std::hint::black_box(&0_u128);
        let right = frames.contains("look_at_the_stack")
            && !frames.contains("a_new_stack_is_aligned")
            && std::ptr::from_ref(aligned).addr().is_multiple_of(16);
        // SAFETY: the test has left.
        unsafe { switch(&shared.own, shared.test.get(), usize::from(right)) };
        unreachable!("the test does not go on with it");
    }

    #[test]
    fn a_new_stack_is_aligned_and_a_backtrace_ends_on_it() {
        let mut memory = vec![0_u128; 1 << 16];
        let shared = Shared {
            test: Cell::new(0),
            own: Cell::new(0),
        };
        let top = memory.as_mut_ptr_range().end.expose_provenance();
        let about = std::ptr::from_ref(&shared).cast();
        // SAFETY: the memory is the test's.
        let place = unsafe { begin_at(top, about, look_at_the_stack) };
        // SAFETY: that stack begins.
        assert_eq!(unsafe { switch(&shared.test, place, 0) }, 1);
    }

    #[test]
    fn words_are_passed_and_each_stack_keeps_its_values() {
        let mut memory = vec![0_u128; 4096];
        let shared: [Shared; 2] = std::array::from_fn(|_| Shared {
            test: Cell::new(0),
            own: Cell::new(0),
        });
        let halves = memory.split_at_mut(2048);
        for (shared, half) in shared.iter().zip([halves.0, halves.1]) {
            let top = half.as_mut_ptr_range().end.expose_provenance();
            let about = std::ptr::from_ref(shared).cast();
            // SAFETY: the memory is the test's.
            (shared.own).set(unsafe { begin_at(top, about, multiply) });
        }
        for times in 1..100 {
            for (index, shared) in shared.iter().enumerate() {
                let word = times + 7 * index;
                // SAFETY: that stack has left, or begins.
                let product = unsafe { switch(&shared.test, shared.own.get(), word) };
                assert_eq!(product, word * times);
            }
        }
    }
}
