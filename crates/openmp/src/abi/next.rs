//! The runtime's functions of the same names as ours: those that the loader finds behind this library.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One function of the runtime, looked up at its first call.
pub(super) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Next {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns the function's address; null if no library behind this one has it.
    #[inline]
    pub(super) fn address(&self) -> *mut c_void {
        // The address never changes, so a second thread that looks it up at the same time stores the same value.
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look() } else { found }
    }

    #[cold]
    fn look(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero byte.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = in_any_module(self.name);
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }

    /// Ends the process with a message: the program calls a function that no runtime has, which the loader would have reported if this
    /// library did not have the name.
    #[cold]
    pub(super) fn missing(&self) -> ! {
        eprintln!(
            "tanada: the program calls {}, which no OpenMP runtime that it loads has",
            self.name.to_string_lossy()
        );
        std::process::abort()
    }
}

/// Returns the function `name` of a module that `RTLD_NEXT` does not see: one that the program has loaded for itself (`RTLD_LOCAL`), as
/// Python loads its extensions. Null if there is none.
#[cold]
fn in_any_module(name: &CStr) -> *mut c_void {
    struct Search {
        modules: Vec<std::ffi::CString>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> std::ffi::c_int {
        // SAFETY: the loader hands out a valid description, whose name ends with a zero byte.
        let name = unsafe { CStr::from_ptr((*info).dlpi_name) };
        // SAFETY: it is the pointer that was handed to `dl_iterate_phdr`.
        let search = unsafe { &mut *search.cast::<Search>() };
        let file = name.to_bytes().rsplit(|&byte| byte == b'/').next();
        // Names as libgomp.so.1, libgomp-a34b3233.so.1.0.0, libomp.so.5 and libiomp5.so.
        let is_runtime = |file: &[u8]| {
            [&b"libgomp"[..], b"libomp", b"libiomp"]
                .iter()
                .any(|start| file.starts_with(start))
        };
        if file.is_some_and(is_runtime) {
            search.modules.push(name.to_owned());
        }
        0
    }
    let mut search = Search {
        modules: Vec::new(),
    };
    // SAFETY: the function is called with this pointer before this call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    for module in &search.modules {
        // SAFETY: the names end with a zero byte. The handle keeps the module loaded, whose functions are called from now on.
        let found = unsafe {
            let handle = libc::dlopen(module.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            match handle.is_null() {
                true => std::ptr::null_mut(),
                false => libc::dlsym(handle, name.as_ptr()),
            }
        };
        if !found.is_null() {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// Declares functions of the runtime: `next! { fn NAME(argument: Type, ...) -> Result; }` makes `next::NAME::call(...)`, which calls it,
/// and `next::NAME::is_there()`.
macro_rules! next {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(
            $(#[$doc])*
            #[allow(non_snake_case)]
            pub(super) mod $name {
                #[allow(unused_imports)]
                use super::*;
                static NEXT: $crate::abi::next::Next = $crate::abi::next::Next::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => unreachable!(),
                    },
                );

                /// Returns whether a library behind this one has the function.
                #[allow(dead_code)]
                pub(in crate::abi) fn is_there() -> bool {
                    !NEXT.address().is_null()
                }

                /// Calls the runtime's function.
                ///
                /// # Safety
                /// As the runtime says of its function.
                #[inline]
                #[allow(clippy::too_many_arguments, dead_code)]
                pub(in crate::abi) unsafe fn call($($argument: $type),*) $(-> $result)? {
                    let address = NEXT.address();
                    if address.is_null() {
                        NEXT.missing();
                    }
                    // SAFETY: the runtime's function of this name has this type.
                    let function = unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>(address)
                    };
                    // SAFETY: the caller promises it.
                    unsafe { function($($argument),*) }
                }
            }
        )*
    };
}

pub(super) use next;
