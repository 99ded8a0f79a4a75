//! Locks and critical sections. A thread that has one runs no task at its creation, since the task may want the lock, too.

use std::ffi::{c_int, c_uint, c_void};

use super::next::next;
use crate::tasks;

/// Functions that return when the thread has a lock, and those with which it gives one back.
macro_rules! locks {
    (takes { $($takes:ident($($taken:ident: $taken_type:ty),*);)* } gives { $($gives:ident($($given:ident: $given_type:ty),*);)* }) => {
        next! {
            $(fn $takes($($taken: $taken_type),*);)*
            $(fn $gives($($given: $given_type),*);)*
        }
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $takes($($taken: $taken_type),*) {
                // SAFETY: as this function's.
                unsafe { $takes::call($($taken),*) };
                tasks::took_lock();
            }
        )*
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $gives($($given: $given_type),*) {
                tasks::gave_lock();
                // SAFETY: as this function's.
                unsafe { $gives::call($($given),*) };
            }
        )*
    };
}

// The names with an underscore are Fortran's.
locks! {
    takes {
        GOMP_critical_start();
        GOMP_critical_name_start(name: *mut *mut c_void);
        __kmpc_critical(location: *mut c_void, thread: c_int, name: *mut c_void);
        __kmpc_critical_with_hint(location: *mut c_void, thread: c_int, name: *mut c_void, hint: c_uint);
        omp_set_lock(lock: *mut c_void);
        omp_set_lock_(lock: *mut c_void);
        omp_set_nest_lock(lock: *mut c_void);
        omp_set_nest_lock_(lock: *mut c_void);
    }
    gives {
        GOMP_critical_end();
        GOMP_critical_name_end(name: *mut *mut c_void);
        __kmpc_end_critical(location: *mut c_void, thread: c_int, name: *mut c_void);
        omp_unset_lock(lock: *mut c_void);
        omp_unset_lock_(lock: *mut c_void);
        omp_unset_nest_lock(lock: *mut c_void);
        omp_unset_nest_lock_(lock: *mut c_void);
    }
}

/// Functions that may return with a lock, and say whether they do.
macro_rules! tests {
    ($($name:ident;)*) => {
        next! { $(fn $name(lock: *mut c_void) -> c_int;)* }
        $(
            /// See the module's documentation.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(lock: *mut c_void) -> c_int {
                // SAFETY: as this function's.
                let has = unsafe { $name::call(lock) };
                if has != 0 {
                    tasks::took_lock();
                }
                has
            }
        )*
    };
}

tests! {
    omp_test_lock;
    omp_test_lock_;
    omp_test_nest_lock;
    omp_test_nest_lock_;
}
