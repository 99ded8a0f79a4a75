//! Queues of one-word tasks, and the `std`/`loom` shim that they are checked through.
//!
//! This crate knows no policy and no engine. A queue moves [`Ready`] values: each stands for one task that is ready to run, is one
//! word long and cannot be copied, so a task that went into a queue comes out of it once.

mod ready;

pub use ready::Ready;
