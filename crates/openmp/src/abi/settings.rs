//! What a program sets for the current task: each task has values of its own, but runtimes keep them for what they take for the task.

use std::ffi::c_int;

use super::next::next;
use crate::{regions, tasks};

next! {
    fn omp_get_max_threads() -> c_int;
    fn omp_get_dynamic() -> c_int;
    fn omp_get_schedule(kind: *mut c_int, chunk: *mut c_int);
}

/// The values of a task.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    threads: c_int,
    dynamic: c_int,
    schedule: c_int,
    chunk: c_int,
}

impl Settings {
    /// Returns those that the runtime has now.
    pub(crate) fn now() -> Settings {
        let (mut schedule, mut chunk) = (0, 0);
        // SAFETY: the addresses of two numbers.
        unsafe {
            omp_get_schedule::call(&raw mut schedule, &raw mut chunk);
            Settings {
                threads: omp_get_max_threads::call(),
                dynamic: omp_get_dynamic::call(),
                schedule,
                chunk,
            }
        }
    }

    /// Hands these to the runtime.
    #[cold]
    pub(crate) fn restore(self) {
        // SAFETY: values that the runtime had.
        unsafe {
            omp_set_num_threads::call(self.threads);
            omp_set_dynamic::call(self.dynamic);
            omp_set_schedule::call(self.schedule, self.chunk);
        }
    }
}

/// Functions that set a value, which is another after the current task.
macro_rules! sets {
    ($($name:ident($($argument:ident: $type:ty),*) $(tells $told:ident)?;)*) => {
        next! { $(fn $name($($argument: $type),*);)* }
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) {
                tasks::keep_settings();
                $(regions::$told();)?
                // SAFETY: as this function's.
                unsafe { $name::call($($argument),*) };
            }
        )*
    };
}

// The names with an underscore are Fortran's.
sets! {
    omp_set_num_threads(threads: c_int) tells sized;
    omp_set_num_threads_(threads: *const c_int) tells sized;
    omp_set_dynamic(dynamic: c_int);
    omp_set_dynamic_(dynamic: *const c_int);
    omp_set_schedule(kind: c_int, chunk: c_int);
    omp_set_schedule_(kind: *const c_int, chunk: *const c_int);
}
