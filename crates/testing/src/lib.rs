//! Helpers for the tests of several crates; depends on nothing and is linked into test programs only.
//!
//! - [`skip`] and [`program`] record that a test could not run, so that `cargo xtask test` lists it instead of counting it as passed.
//! - [`shared`] finds the test data that lie beside the workspace.
//! - [`allocator::Counting`] counts allocations and bytes.
//! - [`compute`] keeps a processor busy.

#![deny(unsafe_code)]

pub mod allocator;
mod data;
mod skips;

pub use data::{shared, streams};
pub use skips::{RECORD, STRICT, program, skip};

/// Returns after `time`, without giving the processor away.
pub fn compute(time: std::time::Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
