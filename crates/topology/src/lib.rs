//! The tree of packages, NUMA nodes, caches, cores and hardware threads, and where workers are placed on it.
//!
//! A [`Topology`] is a value: it comes from this machine ([`Topology::detect`]), from a Linux `sysfs` tree below any folder
//! ([`Topology::from_sysfs`]) or from a line of text ([`Topology::parse`]). Policies and tests therefore meet machines that nobody here
//! owns. A [`Placement`] is what a topology says about a number of workers: which hardware thread each is meant for, and how far apart
//! any two are.
//!
//! ```
//! use tanada_topology::{Topology, WorkerId};
//!
//! let machine = Topology::parse("package:2 numa:1 l3:1(size=32M) l2:4(size=1M) core:1 pu:2")?;
//! assert_eq!(machine.default_workers(), 16);
//! let placement = machine.place(8); // eight cores: one worker each
//! assert_eq!(placement.distance(WorkerId(0), WorkerId(1)), 3); // they share an L3
//! assert_eq!(placement.distance(WorkerId(0), WorkerId(4)), 6); // another package
//! # Ok::<(), tanada_topology::Error>(())
//! ```
//!
//! Nothing here starts a thread or binds one; the crate depends on no other crate of the workspace. With the feature `serde` a topology
//! can be written as JSON and read back.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod affinity;
mod cgroup;
mod list;
mod picture;
mod placement;
mod sysfs;
mod text;
mod tree;

use std::fmt;

pub use placement::{MAX_DISTANCE, Placement};
pub use tree::{Kind, Object, Topology};

/// Dense number of a worker: 0 to the number of workers minus one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// "Outside any worker": the number of no worker, since a pool has at most 65,535 of them.
    pub const NONE: WorkerId = WorkerId(u16::MAX);

    /// The number as an index into a table with one entry a worker.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether this is a worker at all, that is not [`WorkerId::NONE`].
    #[inline]
    pub fn is_worker(self) -> bool {
        self != WorkerId::NONE
    }
}

impl fmt::Display for WorkerId {
    /// `w3`; [`WorkerId::NONE`] is `outside`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_worker() {
            write!(f, "w{}", self.0)
        } else {
            f.write_str("outside")
        }
    }
}

/// Why a topology could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text of a topology is not one; line and column count characters from 1.
    Text {
        /// Line of the offending word.
        line: usize,
        /// Column of its first character.
        column: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The tree itself is impossible (from JSON, or a text whose words are each correct).
    Tree(String),
    /// No hardware thread is left that this process may use.
    NothingUsable,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Text {
                line,
                column,
                message,
            } => write!(f, "topology text, line {line}, column {column}: {message}"),
            Error::Tree(what) => write!(f, "impossible topology: {what}"),
            Error::NothingUsable => {
                f.write_str("the affinity mask leaves no hardware thread to run on")
            }
        }
    }
}

impl std::error::Error for Error {}
