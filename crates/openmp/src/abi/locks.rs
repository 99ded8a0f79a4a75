//! Locks and critical sections. A thread that has one runs no task at its creation, since the task may want the lock, too.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::next::next;
use super::runtime;
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
    }
    gives {
        GOMP_critical_end();
        GOMP_critical_name_end(name: *mut *mut c_void);
        __kmpc_end_critical(location: *mut c_void, thread: c_int, name: *mut c_void);
        omp_unset_lock(lock: *mut c_void);
        omp_unset_lock_(lock: *mut c_void);
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
}

/// A nest lock as libgomp has it: the first word is one of its simple locks.
#[repr(C)]
struct Nest {
    lock: c_int,
    count: c_int,
    owner: *const c_void,
}

/// Whether the program has used a nest lock.
static NESTS: AtomicBool = AtomicBool::new(false);

/// Returns whether the program has used a nest lock: then a task can be told from a call by whether it has the locks of its caller.
#[inline]
pub(super) fn has_nest_locks() -> bool {
    NESTS.load(Ordering::Relaxed)
}

/// Returns the calling task if nest locks are its: in libgomp they belong to tasks, and it takes all tasks of a thread for one if they are
/// not its own. In LLVM's runtime they belong to the thread.
fn owner() -> Option<*const c_void> {
    static IS_LLVM: OnceLock<bool> = OnceLock::new();
    NESTS.store(true, Ordering::Relaxed);
    if !tasks::active() || *IS_LLVM.get_or_init(runtime::is_llvm) {
        return None;
    }
    Some(std::ptr::from_ref(tasks::me_or_alone().current()).cast())
}

/// Nest locks; `at` returns where the lock is that a variable stands for.
macro_rules! nests {
    ($(($set:ident $unset:ident $test:ident, $at:ident);)*) => {
        next! {
            $(
                fn $set(lock: *mut c_void);
                fn $unset(lock: *mut c_void);
                fn $test(lock: *mut c_void) -> c_int;
            )*
        }
        $(
            /// Takes a nest lock.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $set(lock: *mut c_void) {
                // SAFETY: as this function's: a lock of libgomp, of which only its owner and who has the simple lock touch the other words.
                unsafe {
                    let Some(owner) = owner() else {
                        $set::call(lock);
                        return tasks::took_lock();
                    };
                    let nest = $at(lock);
                    if owner_of(nest) == owner {
                        (*nest).count += 1;
                    } else {
                        self::omp_set_lock::call(nest.cast());
                        set_owner(nest, owner);
                        (*nest).count = 1;
                    }
                    tasks::took_lock();
                }
            }

            /// Gives a nest lock back.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $unset(lock: *mut c_void) {
                tasks::gave_lock();
                // SAFETY: as this function's; the calling task has the lock.
                unsafe {
                    if owner().is_none() {
                        return $unset::call(lock);
                    }
                    let nest = $at(lock);
                    (*nest).count -= 1;
                    if (*nest).count == 0 {
                        set_owner(nest, std::ptr::null());
                        self::omp_unset_lock::call(nest.cast());
                    }
                }
            }

            /// Takes a nest lock if that needs no waiting. Returns how often the task has it, 0 if it does not.
            ///
            /// # Safety
            /// As the runtime's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $test(lock: *mut c_void) -> c_int {
                // SAFETY: as in the function that takes it.
                unsafe {
                    let count = match owner() {
                        None => $test::call(lock),
                        Some(owner) => {
                            let nest = $at(lock);
                            if owner_of(nest) == owner {
                                (*nest).count += 1;
                                (*nest).count
                            } else if self::omp_test_lock::call(nest.cast()) != 0 {
                                set_owner(nest, owner);
                                (*nest).count = 1;
                                1
                            } else {
                                0
                            }
                        }
                    };
                    if count != 0 {
                        tasks::took_lock();
                    }
                    count
                }
            }
        )*
    };
}

/// Returns the task that has the lock. Another task may change it meanwhile, but not to or from the calling one.
unsafe fn owner_of(nest: *mut Nest) -> *const c_void {
    // SAFETY: a word of a lock that is there.
    unsafe { AtomicPtr::from_ptr((&raw mut (*nest).owner).cast::<*mut c_void>()) }
        .load(Ordering::Relaxed)
}

unsafe fn set_owner(nest: *mut Nest, owner: *const c_void) {
    // SAFETY: a word of a lock that the caller has.
    unsafe { AtomicPtr::from_ptr((&raw mut (*nest).owner).cast::<*mut c_void>()) }
        .store(owner.cast_mut(), Ordering::Relaxed);
}

fn itself(lock: *mut c_void) -> *mut Nest {
    lock.cast()
}

/// Returns the lock whose address a variable of Fortran has, which has room for no more.
fn behind(lock: *mut c_void) -> *mut Nest {
    // SAFETY: called with such a variable.
    unsafe { *lock.cast::<*mut Nest>() }
}

nests! {
    (omp_set_nest_lock omp_unset_nest_lock omp_test_nest_lock, itself);
    (omp_set_nest_lock_ omp_unset_nest_lock_ omp_test_nest_lock_, behind);
}
