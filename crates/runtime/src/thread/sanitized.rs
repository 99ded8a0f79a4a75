//! What sanitizers have to know of a [switch of stacks](super::switch). Only in builds for them (`--cfg sanitized="address"` or
//! `"thread"`, which `cargo xtask sanitize` sets): each switch looks for the stack's bounds in all mappings.

use super::stack;
use super::switch::Place;

#[cfg(sanitized = "address")]
pub(super) use address::{Left, ends, is_prepared, leaves};
#[cfg(sanitized = "thread")]
pub(super) use thread::{Left, ends, is_prepared, leaves};

/// Returns the bounds of the stack that `place` lies on: a slot's, or this OS thread's. Never inlined: see `address::ends`.
#[cfg(sanitized = "address")]
#[inline(never)]
fn bounds(place: Place) -> std::ops::Range<usize> {
    stack::around(place).unwrap_or_else(crate::worker::bounds_of_this_thread)
}

#[cfg(sanitized = "address")]
mod address {
    use std::ffi::c_void;

    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(
            fake_stack: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        fn __sanitizer_finish_switch_fiber(
            fake_stack: *mut c_void,
            old_bottom: *mut *const c_void,
            old_size: *mut usize,
        );
        fn __asan_unpoison_memory_region(start: *const c_void, bytes: usize);
    }

    /// What AddressSanitizer keeps of a stack that has left.
    pub(in crate::thread) struct Left(*mut c_void);

    /// This stack is about to leave for the one at `to`.
    #[inline(never)]
    pub(in crate::thread) fn leaves(to: super::Place) -> Left {
        let mut fake_stack = std::ptr::null_mut();
        let stack = super::bounds(to);
        let bottom = std::ptr::without_provenance(stack.start);
        // SAFETY: the first pointer is valid.
        unsafe { __sanitizer_start_switch_fiber(&raw mut fake_stack, bottom, stack.len()) };
        Left(fake_stack)
    }

    /// As [`leaves`], for ever. The memory in which the sanitizer keeps this stack's variables goes, so this function has none there.
    #[inline(never)]
    pub(in crate::thread) fn ends(to: super::Place) {
        let stack = super::bounds(to);
        let bottom = std::ptr::without_provenance(stack.start);
        // SAFETY: no preconditions.
        unsafe { __sanitizer_start_switch_fiber(std::ptr::null_mut(), bottom, stack.len()) };
    }

    impl Left {
        /// The stack goes on.
        pub(in crate::thread) fn comes_back(self) {
            // SAFETY: it is what this stack was told when it left.
            unsafe {
                __sanitizer_finish_switch_fiber(self.0, std::ptr::null_mut(), std::ptr::null_mut())
            };
        }

        /// A stack begins.
        pub(in crate::thread) fn begins() {
            Left(std::ptr::null_mut()).comes_back();
        }
    }

    /// The memory below `top`, a header, becomes a stack and what lies above that, on which frames of one that has ended may lie.
    pub(in crate::thread) fn is_prepared(top: usize) {
        let stack = super::bounds(top);
        let start = std::ptr::without_provenance(stack.start);
        // SAFETY: the memory is that of a slot.
        unsafe { __asan_unpoison_memory_region(start, top - stack.start) };
    }
}

#[cfg(sanitized = "thread")]
mod thread {
    use parking_lot::Mutex;
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::ffi::c_void;

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }

    /// The fibers of all slots, by the lowest address of their stacks.
    static FIBERS: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);

    thread_local! {
        /// The fiber of this OS thread's own stack, once it has left that.
        static OWN: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
    }

    /// Returns the fiber of the stack that `place` lies on.
    ///
    /// Never inlined: it reads a variable of the OS thread, on which a thread that is not tied may not go on.
    #[inline(never)]
    fn fiber_of(place: super::Place) -> *mut c_void {
        if OWN.get().is_null() {
            // SAFETY: no preconditions. The first stack that leaves on an OS thread is its own.
            OWN.set(unsafe { __tsan_get_current_fiber() });
        }
        match super::stack::around(place) {
            Some(stack) => {
                let fibers = FIBERS.lock();
                let fiber = fibers.as_ref().and_then(|fibers| fibers.get(&stack.start));
                std::ptr::with_exposed_provenance_mut(*fiber.expect("its stack was prepared"))
            }
            None => OWN.get(),
        }
    }

    /// Nothing is kept.
    pub(in crate::thread) struct Left;

    /// This stack is about to leave for the one at `to`.
    ///
    /// Inlined: the sanitizer counts the functions that a fiber has entered, and this one would be left on another fiber.
    #[inline(always)]
    pub(in crate::thread) fn leaves(to: super::Place) -> Left {
        let fiber = fiber_of(to);
        // SAFETY: the fiber is that of a stack that has left, and which goes on next.
        unsafe { __tsan_switch_to_fiber(fiber, 0) };
        Left
    }

    /// As [`leaves`], for ever.
    #[inline(always)]
    pub(in crate::thread) fn ends(to: super::Place) {
        leaves(to);
    }

    impl Left {
        /// The stack goes on.
        pub(in crate::thread) fn comes_back(self) {}

        /// A stack begins.
        pub(in crate::thread) fn begins() {}
    }

    /// The memory below `top`, a header, becomes a stack.
    pub(in crate::thread) fn is_prepared(top: usize) {
        let stack = super::stack::around(top).expect("stacks lie in slots");
        // SAFETY: no preconditions.
        let fiber = unsafe { __tsan_create_fiber(0) }.expose_provenance();
        let mut fibers = FIBERS.lock();
        let before = fibers.get_or_insert_default().insert(stack.start, fiber);
        if let Some(before) = before {
            // SAFETY: the slot was free, so the stack of that fiber has ended.
            unsafe { __tsan_destroy_fiber(std::ptr::with_exposed_provenance_mut(before)) };
        }
    }
}
