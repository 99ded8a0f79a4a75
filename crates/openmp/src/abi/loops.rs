//! Loops of clang's programs: their iterations, and which of them are sections.

use std::ffi::{c_int, c_void};

use super::next::next;
use crate::regions::{self, watch};

/// Returns whether the construct at `location` (an `ident_t`: a reserved word of 4 bytes, then flags) is a `sections` construct, which
/// clang compiles to a loop.
fn is_sections(location: *const c_void) -> bool {
    /// `KMP_IDENT_WORK_SECTIONS`.
    const SECTIONS: u32 = 0x400;
    if location.is_null() {
        return false;
    }
    // SAFETY: clang hands over a valid description.
    let flags = unsafe { location.cast::<u32>().add(1).read() };
    flags & SECTIONS != 0
}

/// Returns the number of iterations of a loop from `first` to `last`, both included.
fn iterations(first: i128, last: i128, step: i128) -> Option<u64> {
    let rounds = (last - first).checked_div(step)?;
    u64::try_from((rounds + 1).max(0)).ok()
}

macro_rules! loops {
    ($($start:ident $dispatch:ident: $type:ty, $signed:ty;)*) => {
        next! {
            $(
                fn $start(
                    location: *mut c_void, thread: c_int, schedule: c_int, last: *mut c_int, lower: *mut $type, upper: *mut $type,
                    stride: *mut $signed, step: $signed, chunk: $signed
                );
                fn $dispatch(
                    location: *mut c_void, thread: c_int, schedule: c_int, lower: $type, upper: $type, step: $signed, chunk: $signed
                );
            )*
        }
        $(
            /// A loop whose iterations are shared out at its beginning.
            ///
            /// # Safety
            /// As clang calls it.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $start(
                location: *mut c_void, thread: c_int, schedule: c_int, last: *mut c_int, lower: *mut $type, upper: *mut $type,
                stride: *mut $signed, step: $signed, chunk: $signed
            ) {
                if regions::wants_iterations() {
                    if is_sections(location) {
                        watch::sections();
                    } else {
                        // SAFETY: clang hands over valid pointers to the bounds of the whole loop.
                        let (lower, upper) = unsafe { (*lower, *upper) };
                        regions::iterations(iterations(lower.into(), upper.into(), step.into()));
                    }
                }
                // SAFETY: as this function's.
                unsafe { $start::call(location, thread, schedule, last, lower, upper, stride, step, chunk) }
            }

            /// A loop whose iterations are shared out as it runs.
            ///
            /// # Safety
            /// As clang calls it.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $dispatch(
                location: *mut c_void, thread: c_int, schedule: c_int, lower: $type, upper: $type, step: $signed, chunk: $signed
            ) {
                if regions::wants_iterations() {
                    regions::iterations(iterations(lower.into(), upper.into(), step.into()));
                }
                // SAFETY: as this function's.
                unsafe { $dispatch::call(location, thread, schedule, lower, upper, step, chunk) }
            }
        )*
    };
}

loops! {
    __kmpc_for_static_init_4 __kmpc_dispatch_init_4: i32, i32;
    __kmpc_for_static_init_4u __kmpc_dispatch_init_4u: u32, i32;
    __kmpc_for_static_init_8 __kmpc_dispatch_init_8: i64, i64;
    __kmpc_for_static_init_8u __kmpc_dispatch_init_8u: u64, i64;
}

#[cfg(test)]
mod tests {
    use super::iterations;

    #[test]
    fn both_bounds_are_iterations() {
        assert_eq!(iterations(0, 9, 1), Some(10));
        assert_eq!(iterations(0, 9, 4), Some(3));
        assert_eq!(iterations(9, 0, -1), Some(10));
        assert_eq!(iterations(0, -1, 1), Some(0));
        assert_eq!(iterations(0, 9, 0), None);
    }
}
