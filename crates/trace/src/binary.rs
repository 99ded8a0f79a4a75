//! The binary form (`.tnb`): docs/traces.md says it byte by byte.
//!
//! Header, blocks of records, blocks of the graph, index of the blocks, footer. It is written from front to back, and read from its end.

mod graph;
mod layout;
mod write;

pub(crate) use graph::{Entry, GraphReader};
pub(crate) use layout::{Counts, Layout, MAGIC, finish_file, start_file};
pub use write::BinaryWriter;
