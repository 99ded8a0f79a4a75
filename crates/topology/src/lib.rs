//! The tree of packages, NUMA nodes, caches, cores and hardware threads, and where workers are placed on it.
//!
//! A [`Topology`] is a value: it comes from this machine, from a Linux `sysfs` tree below any folder
//! or from a line of text. Policies and tests therefore meet machines that nobody here
//! owns. A [`Placement`] is what a topology says about a number of workers: which hardware thread each is meant for, and how far apart
//! any two are.
//!
//! Nothing here starts a thread or binds one; the crate depends on no other crate of the workspace.

#![forbid(unsafe_code)]

mod placement;
mod tree;

use std::fmt;

pub use placement::{MAX_DISTANCE, Placement};
pub use tree::{Kind, Object, Topology};

/// Dense number of a worker: 0 to the number of workers minus one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text of a topology is not one; line and column count characters from 1.
    #[error("topology text, line {line}, column {column}: {message}")]
    Text {
        /// Line of the offending word.
        line: usize,
        /// Column of its first character.
        column: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The tree itself is impossible (from JSON, or a text whose words are each correct).
    #[error("impossible topology: {0}")]
    Tree(String),
    /// No hardware thread is left that this process may use.
    #[error("the affinity mask leaves no hardware thread to run on")]
    NothingUsable,
}
