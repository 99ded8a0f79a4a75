//! Programs cut into tasks, as every command, benchmark and test runs them.
//!
//! A new workload is one module and one line in [`all`].
#![deny(unsafe_code)]

pub mod h264;

/// What the registry says of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name that every command knows.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// All workloads.
pub fn all() -> &'static [Entry] {
    &[Entry {
        name: "h264",
        summary: "H.264 decoding: entropy decoding of the next pictures beside reconstruction (paper 1)",
    }]
}
