//! What clang's programs call: the parallel regions of libomp.
//!
//! Types follow `kmp.h` of LLVM.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::next::{Next, next};
use crate::regions;
use crate::tasks::{self, Region};

/// Where a construct stands in the source (`ident_t`), which this library does not look into.
type Location = *mut c_void;

/// The code of a region, which clang puts into a function of its own. Its arguments follow these two.
type Microtask = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int);

/// Most arguments of an outlined function that this library hands on; a program with more ends with a message.
const ARGUMENTS: usize = 128;

/// Nearly all have no more than these.
const FEW: usize = 8;

next! {
    fn __kmpc_push_num_threads(location: Location, thread: c_int, threads: c_int);
    fn __kmpc_global_thread_num(location: Location) -> c_int;
    fn omp_get_max_threads() -> c_int;
    fn omp_get_num_threads() -> c_int;
    fn omp_get_thread_num() -> c_int;
    fn __kmp_invoke_microtask(
        run: Microtask, number: c_int, index: c_int, count: c_int, arguments: *mut c_void, frame: *mut *mut c_void
    ) -> c_int;
}

/// What threads run in place of the program's function if its tasks are taken over; its third argument is the region.
unsafe extern "C-unwind" fn with_tasks(
    number: *mut c_int,
    _bound: *mut c_int,
    region: *mut c_void,
) {
    // SAFETY: `fork` passes a region that lives until all threads have returned; the runtime's functions have no other precondition.
    unsafe {
        let region = &*region.cast::<Region>();
        let run = std::mem::transmute::<usize, Microtask>(region.run);
        let (size, index) = (omp_get_num_threads::call(), omp_get_thread_num::call());
        region.take_part(size, index, *number, || {
            let mut frame = std::ptr::null_mut();
            let count = region.count as c_int;
            __kmp_invoke_microtask::call(run, *number, index, count, region.data, &mut frame);
        });
    }
}

thread_local! {
    /// What the program's `num_threads` clause says of the next region of this thread; 0: nothing.
    static PUSHED: Cell<c_int> = const { Cell::new(0) };
}

/// The clause `num_threads` of the next region.
///
/// # Safety
/// As clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_push_num_threads(
    location: Location,
    thread: c_int,
    threads: c_int,
) {
    PUSHED.set(threads);
    regions::sized();
    // SAFETY: as this function's.
    unsafe { __kmpc_push_num_threads::call(location, thread, threads) }
}

/// A region. The function is variadic in C: behind the three named arguments come `count` pointers. Rust cannot define such a function, so
/// this code puts the arguments into a row, and calls `fork`; or goes on to the runtime's function, as if it had been called in place of
/// this one, if `straight` returns that.
///
/// # Safety
/// As clang calls it: the outlined function may be called with the arguments from any thread until this function returns.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_fork_call(location: Location, count: c_int, run: Microtask) {
    // The first three variable arguments are in rcx, r8 and r9, the others on the stack above the return address.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 48",
        "mov [rsp], rcx",
        "mov [rsp + 8], r8",
        "mov [rsp + 16], r9",
        "mov [rsp + 24], rdi",
        "mov [rsp + 32], rsi",
        "mov [rsp + 40], rdx",
        "mov rdi, rdx",
        "call {straight}",
        "mov rdi, [rsp + 24]",
        "mov rsi, [rsp + 32]",
        "mov rdx, [rsp + 40]",
        "test rax, rax",
        "je 2f",
        "mov rcx, [rsp]",
        "mov r8, [rsp + 8]",
        "mov r9, [rsp + 16]",
        "mov r11, rax",
        // No argument is in a vector register.
        "xor eax, eax",
        ".cfi_remember_state",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "jmp r11",
        ".cfi_restore_state",
        "2:",
        "mov rcx, rsp",
        "lea r8, [rbp + 16]",
        "call {fork}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        straight = sym straight,
        fork = sym fork,
    )
}

/// As the function for x86-64: see there.
///
/// # Safety
/// As clang calls it: the outlined function may be called with the arguments from any thread until this function returns.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_fork_call(location: Location, count: c_int, run: Microtask) {
    // The first five variable arguments are in x3 to x7, the others on the stack.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-80]!",
        ".cfi_def_cfa_offset 80",
        ".cfi_offset x29, -80",
        ".cfi_offset x30, -72",
        "mov x29, sp",
        "stp x3, x4, [sp, #16]",
        "stp x5, x6, [sp, #32]",
        "stp x7, x0, [sp, #48]",
        "stp x1, x2, [sp, #64]",
        "mov x0, x2",
        "bl {straight}",
        "mov x16, x0",
        "ldr x0, [sp, #56]",
        "ldp x1, x2, [sp, #64]",
        "cbz x16, 2f",
        "ldp x3, x4, [sp, #16]",
        "ldp x5, x6, [sp, #32]",
        "ldr x7, [sp, #48]",
        ".cfi_remember_state",
        "ldp x29, x30, [sp], #80",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x16",
        ".cfi_restore_state",
        "2:",
        "add x3, sp, #16",
        "add x4, sp, #80",
        "bl {fork}",
        "ldp x29, x30, [sp], #80",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        straight = sym straight,
        fork = sym fork,
    )
}

/// The runtime's function for regions.
static FORK: Next = Next::new(c"__kmpc_fork_call");

/// Returns the runtime's function if an invocation of the region `run` goes there as it comes; null if it is [`fork`]'s.
extern "C" fn straight(run: Microtask) -> *mut c_void {
    if regions::pass_by(run as usize, None) {
        FORK.address()
    } else {
        std::ptr::null_mut()
    }
}

/// Variable arguments that are in registers.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 3;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 5;

/// Runs a region whose `count` variable arguments lie at `registers` and behind these at `stack`.
///
/// # Safety
/// As `__kmpc_fork_call`'s, and the arguments lie there.
unsafe extern "C-unwind" fn fork(
    location: Location,
    count: c_int,
    run: Microtask,
    registers: *const usize,
    stack: *const usize,
) {
    // Filling the larger row with zeros takes as long as all the rest.
    if count <= FEW as c_int {
        // SAFETY: as this function's.
        unsafe { fork_few::<FEW>(location, count, run, registers, stack) }
    } else {
        // SAFETY: as this function's.
        unsafe { fork_many(location, count, run, registers, stack) }
    }
}

/// As [`fork`], with more than [`FEW`] arguments.
///
/// # Safety
/// As [`fork`]'s.
#[cold]
unsafe fn fork_many(
    location: Location,
    count: c_int,
    run: Microtask,
    registers: *const usize,
    stack: *const usize,
) {
    if count > ARGUMENTS as c_int {
        eprintln!(
            "tanada: a parallel region has {count} arguments, more than the {ARGUMENTS} that can be handed on"
        );
        std::process::abort();
    }
    // SAFETY: as this function's.
    unsafe { fork_few::<ARGUMENTS>(location, count, run, registers, stack) }
}

/// As [`fork`], with at most `N` arguments, as the caller has checked.
///
/// # Safety
/// As [`fork`]'s.
#[inline]
unsafe fn fork_few<const N: usize>(
    location: Location,
    count: c_int,
    run: Microtask,
    registers: *const usize,
    stack: *const usize,
) {
    let mut arguments = [0; N];
    let on_stack = (count.max(0) as usize).saturating_sub(IN_REGISTERS);
    let (first, others) = arguments.split_at_mut(IN_REGISTERS);
    // SAFETY: `__kmpc_fork_call` puts all registers there, and the caller the others. Volatile reads are made neither a call that copies
    // memory nor wide loads, which would wait for the stores of the single words; both take longer than these few reads.
    unsafe {
        for (at, argument) in first.iter_mut().enumerate() {
            *argument = registers.add(at).read_volatile();
        }
        for (at, argument) in others.iter_mut().take(on_stack).enumerate() {
            *argument = stack.add(at).read_volatile();
        }
    }
    let pushed = PUSHED.replace(0);
    let asked = || match pushed {
        // SAFETY: it has no precondition.
        0 => unsafe { omp_get_max_threads::call() }.max(1).unsigned_abs(),
        pushed => pushed.max(1).unsigned_abs(),
    };
    let token = regions::begin(run as usize, asked, None, false);
    if let Some(threads) = token.threads() {
        // SAFETY: the thread's own number.
        unsafe {
            let thread = __kmpc_global_thread_num::call(location);
            __kmpc_push_num_threads::call(location, thread, threads as c_int);
        }
    }
    // SAFETY: as this function's.
    unsafe {
        if tasks::active() {
            fork_with_tasks(location, count, run, &mut arguments);
        } else {
            fork_with(location, count, run, &arguments);
        }
    };
    regions::end(token);
}

/// As [`fork_with`], in a program whose tasks are taken over.
///
/// # Safety
/// As `__kmpc_fork_call`'s.
#[inline(never)]
unsafe fn fork_with_tasks(
    location: Location,
    count: c_int,
    run: Microtask,
    arguments: &mut [usize],
) {
    regions::none_passes_by();
    let data = arguments.as_mut_ptr().cast();
    let region = Region::new(run as usize, data, count.max(0) as usize);
    let mut one = [0; FEW];
    one[0] = &raw const region as usize;
    type WithRegion = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *mut c_void);
    // SAFETY: the runtime calls it with the one argument that it is handed; the rest is as this function's.
    unsafe {
        let run = std::mem::transmute::<WithRegion, Microtask>(with_tasks);
        fork_with(location, 1, run, &one);
    }
}

/// Calls the runtime's `__kmpc_fork_call` with `count` of the arguments, of which there are [`FEW`] or [`ARGUMENTS`].
///
/// # Safety
/// As `__kmpc_fork_call`'s.
unsafe fn fork_with(location: Location, count: c_int, run: Microtask, arguments: &[usize]) {
    let address = FORK.address();
    if address.is_null() {
        FORK.missing();
    }
    // The runtime reads `count` variable arguments and never looks at those behind them, so two lengths serve all.
    macro_rules! with {
        ($($i:literal)*) => {{
            type Fork = unsafe extern "C-unwind" fn(Location, c_int, Microtask, ...);
            // SAFETY: the runtime's function of this name has this type.
            let function = unsafe { std::mem::transmute::<*mut c_void, Fork>(address) };
            // SAFETY: the caller promises it.
            unsafe { function(location, count, run, $(arguments[$i]),*) }
        }};
    }
    if arguments.len() < ARGUMENTS {
        with!(0 1 2 3 4 5 6 7)
    } else {
        with!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
            64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
            96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121
            122 123 124 125 126 127)
    }
}
