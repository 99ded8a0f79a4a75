//! The names that programs call: a file a compiler.
//!
//! A function here has the type that the compiler emits calls of. It asks the layers above, then calls the runtime's function of the same
//! name ([`next`]). Programs may unwind through it (C++ exceptions do not leave a region, but `pthread_exit` and cancellation do).

mod gomp;
mod gomp_tasks;
mod kmp;
mod kmp_tasks;
mod locks;
mod loops;
mod next;
mod queries;
pub(crate) mod runtime;
pub(crate) mod settings;
