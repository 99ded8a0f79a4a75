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
    /// The options of its own that choose among names.
    pub choices: &'static [Choice],
}

/// An option of a workload that takes one of a few names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The option, as a command line has it.
    pub flag: &'static str,
    /// The names that it takes.
    pub values: &'static [&'static str],
}

/// All workloads.
pub fn all() -> &'static [Entry] {
    &[Entry {
        name: "h264",
        summary: "H.264 decoding: entropy decoding of the next pictures beside reconstruction (paper 1)",
        choices: &[
            Choice {
                flag: "--tasks",
                values: &h264::Cut::NAMES,
            },
            Choice {
                flag: "--groups",
                values: &h264::Groups::NAMES,
            },
        ],
    }]
}
