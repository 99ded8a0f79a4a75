//! What the code of a region asks its runtime for: these questions tell whether the region depends on the size of its team
//! ([`crate::regions::watch`]).

use std::ffi::{c_int, c_uint, c_void};

use super::next::next;
use crate::regions::{self, watch};

/// Functions that report to `watch`, and hand the question on.
macro_rules! asks {
    ($($watch:ident: $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        next! { $(fn $name($($argument: $type),*) -> $result;)* }
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                watch::$watch();
                // SAFETY: as this function's.
                unsafe { $name::call($($argument),*) }
            }
        )*
    };
}

// The names with an underscore are Fortran's.
asks! {
    size: omp_get_num_threads() -> c_int;
    size: omp_get_num_threads_() -> c_int;
    number: omp_get_thread_num() -> c_int;
    number: omp_get_thread_num_() -> c_int;
    other: omp_in_parallel() -> c_int;
    other: omp_in_parallel_() -> c_int;
    other: omp_get_team_size(level: c_int) -> c_int;
    other: omp_get_team_size_(level: *const c_int) -> c_int;
    other: omp_get_ancestor_thread_num(level: c_int) -> c_int;
    other: omp_get_ancestor_thread_num_(level: *const c_int) -> c_int;
    other: omp_get_active_level() -> c_int;
    other: omp_get_active_level_() -> c_int;
    sections: GOMP_sections_start(count: c_uint) -> c_uint;
}

type Outlined = unsafe extern "C-unwind" fn(*mut c_void);

/// Constructs that this library does not understand: it leaves the whole program alone.
macro_rules! leaves {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        next! { $(fn $name($($argument: $type),*);)* }
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) {
                regions::leave_alone(1);
                // SAFETY: as this function's.
                unsafe { $name::call($($argument),*) }
            }
        )*
    };
}

leaves! {
    GOMP_teams_reg(run: Outlined, data: *mut c_void, teams: c_uint, limit: c_uint, flags: c_uint);
    __kmpc_push_num_teams(location: *mut c_void, thread: c_int, teams: c_int, threads: c_int);
    __kmpc_push_num_teams_51(location: *mut c_void, thread: c_int, least: c_int, most: c_int, threads: c_int);
}

next! {
    fn __kmpc_threadprivate_cached(location: *mut c_void, thread: c_int, data: *mut c_void, size: usize, cache: *mut c_void) -> *mut c_void;
}

/// Data of threads, of programs that clang compiled without the system's support for it.
///
/// # Safety
/// As the runtime's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_threadprivate_cached(
    location: *mut c_void,
    thread: c_int,
    data: *mut c_void,
    size: usize,
    cache: *mut c_void,
) -> *mut c_void {
    regions::leave_alone(3);
    // SAFETY: as this function's.
    unsafe { __kmpc_threadprivate_cached::call(location, thread, data, size, cache) }
}
