//! The tree of packages, NUMA nodes, caches, cores and hardware threads, and the placement of workers on it.
//!
//! A [`Topology`] is a value: of this machine ([`Topology::detect`]), of a Linux `sysfs` tree below any folder ([`Topology::from_sysfs`]),
//! or of a line of text ([`Topology::parse`]). So policies and tests can use machines that are not at hand. A [`Placement`] computes from a
//! topology and a number of workers the hardware thread of each worker and the distance between any two.
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
//! The crate starts and binds no threads, and depends on no other crate of the workspace.

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

pub use affinity::usable_threads;
pub use list::{format_size, parse_size};
pub use placement::{MAX_DISTANCE, Placement};
pub use tree::{Kind, Object, Topology};

/// Returns the bytes of memory that the control groups of this process leave it; `None` if they set no limit or are not known.
pub fn free_group_memory() -> Option<u64> {
    cgroup::free_memory(std::path::Path::new("/"))
}

/// Returns the processor time that the control groups of this process grant it, in cores; `None` if they set no limit or are not known.
/// [`Topology::quota`] is the same, and costs a walk through the machine.
pub fn group_quota() -> Option<f64> {
    cgroup::quota(std::path::Path::new("/"))
}

/// The number of a worker: 0 to the number of workers minus one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// No worker: the caller is outside of the pool. A pool has at most 65,535 workers, so no worker has this number.
    pub const NONE: WorkerId = WorkerId(u16::MAX);

    /// Returns the number as an index into a table with one entry a worker.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns whether this is a worker, that is, not [`WorkerId::NONE`].
    #[inline]
    pub fn is_worker(self) -> bool {
        self != WorkerId::NONE
    }
}

impl fmt::Display for WorkerId {
    /// Writes `w3`; `outside` for [`WorkerId::NONE`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_worker() {
            write!(f, "w{}", self.0)
        } else {
            f.write_str("outside")
        }
    }
}

/// Why a topology cannot be built.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text of a topology has a fault. Line and column count characters from 1.
    Text {
        /// Line of the faulty word.
        line: usize,
        /// Column of its first character.
        column: usize,
        /// The fault, and what was expected.
        message: String,
    },
    /// The tree itself is impossible (from JSON, or from a text whose words are each correct).
    Tree(String),
    /// There is no hardware thread that this process may use.
    NothingUsable,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
