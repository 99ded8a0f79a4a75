//! Programs cut into tasks, as every command, benchmark and test runs them.
//!
//! A new workload is one module and one line in [`all`].
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod field;
pub mod h264;
pub mod options;
mod pass;
pub mod pipeline;
pub mod record;
pub mod stencil;
pub mod tiles;
#[allow(unsafe_code)]
mod vector;

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
    &[
        Entry {
            name: "h264",
            summary: "H.264 decoding: entropy decoding of the next pictures beside reconstruction (paper 1)",
            choices: &[
                Choice {
                    flag: "--tasks",
                    values: &h264::Cut::NAMES,
                },
                Choice {
                    flag: "--dependencies",
                    values: &h264::Dependencies::NAMES,
                },
                Choice {
                    flag: "--groups",
                    values: &h264::Groups::NAMES,
                },
            ],
        },
        Entry {
            name: "stencil",
            summary: "Jacobi's method in two dimensions: sweeps over a field that is larger than the caches",
            choices: &TILES,
        },
        Entry {
            name: "pipeline",
            summary: "Passes over a large image: blur, sharpen, gradient, smooth, tone curve",
            choices: &TILES,
        },
    ]
}

/// The choices of the workloads that go over [`tiles`].
const TILES: [Choice; 1] = [Choice {
    flag: "--groups",
    values: &tiles::Groups::NAMES,
}];

/// The one of `all` that is called `text`, or a message that lists the right names.
fn by_name<X: Copy>(
    text: &str,
    what: &str,
    all: &[X],
    name: fn(X) -> &'static str,
) -> Result<X, String> {
    all.iter()
        .copied()
        .find(|&one| name(one) == text)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|&one| name(one)).collect();
            format!("unknown {what} \"{text}\"; there are {}", names.join(", "))
        })
}
