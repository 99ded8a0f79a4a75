//! What this library asks the runtime for, and not the program.

use std::ffi::{c_int, c_uint, c_void};

use super::next::next;

type Outlined = unsafe extern "C-unwind" fn(*mut c_void);

next! {
    fn omp_get_level() -> c_int;
    fn omp_get_max_active_levels() -> c_int;
    fn omp_get_num_procs() -> c_int;
    fn omp_set_dynamic(dynamic: c_int);
    fn kmp_set_blocktime(milliseconds: c_int);
    fn kmp_get_blocktime() -> c_int;
    fn GOMP_parallel(run: Outlined, data: *mut c_void, threads: c_uint, flags: c_uint);
}

/// Returns whether the runtime is LLVM's.
pub(crate) fn is_llvm() -> bool {
    kmp_set_blocktime::is_there()
}

/// Returns whether the runtime is libgomp, as far as it is loaded.
pub(crate) fn is_gcc() -> bool {
    !is_llvm() && GOMP_parallel::is_there()
}

/// Returns the processors that the runtime found when it started.
pub(crate) fn processors() -> u32 {
    // SAFETY: it has no precondition.
    unsafe { omp_get_num_procs::call() }.max(1).unsigned_abs()
}

/// Returns how many regions this thread is in.
pub(crate) fn level() -> i32 {
    // SAFETY: it has no precondition.
    unsafe { omp_get_level::call() }
}

/// Returns how many regions inside of each other have more than one thread.
pub(crate) fn active_levels() -> i32 {
    // SAFETY: it has no precondition.
    unsafe { omp_get_max_active_levels::call() }
}

/// Returns for how many milliseconds members of this thread's team spin before they sleep.
pub(crate) fn spinning() -> i32 {
    // SAFETY: it has no precondition.
    unsafe { kmp_get_blocktime::call() }
}

/// Sets for how many milliseconds members of this thread's team spin before they sleep.
pub(crate) fn set_spinning(milliseconds: i32) {
    // SAFETY: it has no precondition.
    unsafe { kmp_set_blocktime::call(milliseconds) }
}

/// Runs a team of `threads` of this thread that does nothing; its other members then wait for this thread's next team.
pub(crate) fn idle_team(threads: u32) {
    unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}
    // SAFETY: the function looks at nothing.
    unsafe {
        omp_set_dynamic::call(0);
        GOMP_parallel::call(nothing, std::ptr::null_mut(), threads, 0);
    }
}
