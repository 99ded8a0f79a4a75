//! The binary form (`.tnb`), which docs/traces.md specifies byte by byte.
//!
//! ```text
//! | header | blocks of records | blocks of the graph | index of the blocks | footer |
//! ```
//!
//! Writers write it from front to back; readers start at the footer.

mod graph;
mod layout;
mod write;

pub(crate) use graph::{Entry, GraphReader};
pub(crate) use layout::{Counts, Layout, finish_file, start_file};
pub use write::BinaryWriter;
