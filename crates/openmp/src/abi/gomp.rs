//! What gcc's programs call: the parallel regions of libgomp.
//!
//! Types follow gcc's `omp-builtins.def`. libomp has the same names, so a program of gcc that runs on libomp comes through here, too.

use std::ffi::{c_long, c_uint, c_void};

use super::next::next;
use crate::regions;
use crate::tasks::{self, Region};

/// The code of a region, which gcc puts into a function of its own.
type Outlined = unsafe extern "C-unwind" fn(*mut c_void);

next! {
    fn GOMP_parallel(run: Outlined, data: *mut c_void, threads: c_uint, flags: c_uint);
    fn GOMP_parallel_sections(run: Outlined, data: *mut c_void, threads: c_uint, sections: c_uint, flags: c_uint);
    fn GOMP_parallel_reductions(run: Outlined, data: *mut c_void, threads: c_uint, flags: c_uint) -> c_uint;
    fn omp_get_max_threads() -> std::ffi::c_int;
    fn omp_get_num_threads() -> std::ffi::c_int;
    fn omp_get_thread_num() -> std::ffi::c_int;
}

/// What threads run in place of the program's function if its tasks are taken over.
unsafe extern "C-unwind" fn with_tasks(region: *mut c_void) {
    // SAFETY: `parallel` passes a region that lives until all threads have returned, and the runtime's functions have no precondition.
    unsafe {
        let region = &*region.cast::<Region>();
        let run = std::mem::transmute::<usize, Outlined>(region.run);
        let (size, index) = (omp_get_num_threads::call(), omp_get_thread_num::call());
        region.take_part(size, index, index, || run(region.data));
    }
}

/// Runs a region: `call` is handed the function and the data for the runtime, and the number of threads that it is asked for, 0 if that is
/// the runtime's choice.
fn parallel<R>(
    run: Outlined,
    data: *mut c_void,
    threads: c_uint,
    iterations: Option<u64>,
    call: impl FnOnce(Outlined, *mut c_void, c_uint) -> R,
) -> R {
    if threads == 0 && regions::pass_by(run as usize, iterations) {
        return call(run, data, 0);
    }
    let asked = || match threads {
        // SAFETY: it has no precondition.
        0 => unsafe { omp_get_max_threads::call() }.max(1).unsigned_abs(),
        threads => threads,
    };
    let token = regions::begin(run as usize, asked, iterations, true);
    let threads = token.threads().unwrap_or(threads);
    let result = if tasks::active() {
        call_with_tasks(run, data, threads, call)
    } else {
        call(run, data, threads)
    };
    regions::end(token);
    result
}

/// Calls `call` in a program whose tasks are taken over.
#[inline(never)]
fn call_with_tasks<R>(
    run: Outlined,
    data: *mut c_void,
    threads: c_uint,
    call: impl FnOnce(Outlined, *mut c_void, c_uint) -> R,
) -> R {
    regions::none_passes_by();
    let region = Region::new(run as usize, data, 1);
    call(with_tasks, (&raw const region).cast_mut().cast(), threads)
}

/// A region without work sharing of its own.
///
/// # Safety
/// As gcc calls it: `run` may be called with `data` from any thread until this function returns.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel(
    run: Outlined,
    data: *mut c_void,
    threads: c_uint,
    flags: c_uint,
) {
    parallel(run, data, threads, None, |run, data, threads| {
        // SAFETY: as this function's.
        unsafe { GOMP_parallel::call(run, data, threads, flags) }
    });
}

/// A region that is a `sections` construct.
///
/// # Safety
/// As gcc calls it: `run` may be called with `data` from any thread until this function returns.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel_sections(
    run: Outlined,
    data: *mut c_void,
    threads: c_uint,
    sections: c_uint,
    flags: c_uint,
) {
    let iterations = Some(u64::from(sections));
    parallel(run, data, threads, iterations, |run, data, threads| {
        // The code of this region does not say that it has sections: it only asks for the next one.
        regions::watch::sections();
        // SAFETY: as this function's.
        unsafe { GOMP_parallel_sections::call(run, data, threads, sections, flags) }
    });
}

/// A region with reductions of tasks; returns the number of threads that ran it.
///
/// # Safety
/// As gcc calls it: `run` may be called with `data` from any thread until this function returns.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel_reductions(
    run: Outlined,
    data: *mut c_void,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    if !tasks::active() {
        return parallel(run, data, threads, None, |run, data, threads| {
            // SAFETY: as this function's.
            unsafe { GOMP_parallel_reductions::call(run, data, threads, flags) }
        });
    }
    // The runtime would keep the reductions where its own tasks look for them.
    // SAFETY: as this function's; gcc puts the address of the reductions first.
    unsafe {
        let mut region = Region::new(run as usize, data, 1);
        region.reductions = *data.cast::<*mut usize>();
        let region = (&raw mut region).cast::<c_void>();
        let asked = || threads.max(1);
        let token = regions::begin(run as usize, asked, None, true);
        GOMP_parallel::call(
            with_tasks,
            region,
            token.threads().unwrap_or(threads),
            flags,
        );
        regions::end(token);
        (*region.cast::<Region>()).size() as c_uint
    }
}

/// Returns the number of iterations of `for (i = start; i < end; i += step)`, or of `>` with a negative step.
fn iterations(start: c_long, end: c_long, step: c_long) -> Option<u64> {
    let (start, end, step) = (i128::from(start), i128::from(end), i128::from(step));
    let rounds = (end - start + step - step.signum()).checked_div(step)?;
    u64::try_from(rounds.max(0)).ok()
}

/// Regions that are one loop: those with a chunk size, and those without.
macro_rules! loops {
    ($($name:ident($($chunk:ident)?);)*) => {
        next! {
            $(fn $name(
                run: Outlined, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long,
                $($chunk: c_long,)? flags: c_uint
            );)*
        }
        $(
            /// A region that is one loop.
            ///
            /// # Safety
            /// As gcc calls it: `run` may be called with `data` from any thread until this function returns.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                run: Outlined, data: *mut c_void, threads: c_uint, start: c_long, end: c_long, step: c_long,
                $($chunk: c_long,)? flags: c_uint
            ) {
                parallel(run, data, threads, iterations(start, end, step), |run, data, threads| {
                    // SAFETY: as this function's.
                    unsafe { $name::call(run, data, threads, start, end, step, $($chunk,)? flags) }
                });
            }
        )*
    };
}

loops! {
    GOMP_parallel_loop_static(chunk);
    GOMP_parallel_loop_dynamic(chunk);
    GOMP_parallel_loop_guided(chunk);
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk);
    GOMP_parallel_loop_nonmonotonic_guided(chunk);
    GOMP_parallel_loop_runtime();
    GOMP_parallel_loop_nonmonotonic_runtime();
    GOMP_parallel_loop_maybe_nonmonotonic_runtime();
}

#[cfg(test)]
mod tests {
    use super::iterations;

    #[test]
    fn iterations_are_counted_as_a_loop_counts_them() {
        for (start, end, step, count) in [
            (0, 10, 1, 10),
            (0, 10, 3, 4),
            (0, 9, 3, 3),
            (5, 5, 1, 0),
            (7, 5, 1, 0),
            (10, 0, -1, 10),
            (10, 0, -3, 4),
            (i64::MIN, i64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(iterations(start, end, step), Some(count));
        }
        assert_eq!(iterations(0, 10, 0), None);
    }
}
