//! Recorded task graphs: what each task computes, fetches, reads and writes, and which task waits for which.
//!
//! A trace has two forms of the same content: text (`.tnt`), which people and scripts write, and a compact binary form (`.tnb`) for
//! recordings of several hundred million records. docs/traces.md specifies both byte by byte. [`Trace::open`] reads both. The graph is held
//! in memory; records stay compressed, and a [`Reader`] decodes those of a task when the task starts.
//!
//! ```
//! use tanada_trace::{Groups, Record, Trace};
//!
//! let text = b"tanada-trace 1\ntask 1 name=load\nr 0x1000 64\nx 20\ntask 2 name=sum\nw 0x2000 8\ndep 1 2\n";
//! let trace = Trace::parse(text, "example", &Groups::Plain)?;
//! assert_eq!((trace.len(), trace.name(1), trace.tasks()[1].waits), (2, "sum", 1));
//!
//! let mut reader = trace.reader()?;
//! let (mut cursor, mut window) = (reader.start(0), Vec::new());
//! reader.fill(&mut cursor, &mut window)?;
//! assert_eq!(window, [Record::read(0x1000, 64), Record::compute(20)]);
//! # Ok::<(), tanada_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod binary;
mod blocks;
mod codec;
mod container;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod graph;
pub mod import;
mod load;
pub mod output;
mod reader;
mod record;
mod sink;
mod text;
pub mod threads;
mod trace;

pub use binary::BinaryWriter;
pub use error::TraceError;
pub use files::{FileSink, convert, read, read_whole};
pub use reader::{Cursor, Reader};
pub use record::{Kind, Record};
pub use sink::{Grouping, NewTask, Sink};
pub use text::{TextWriter, read_text};
pub use trace::{Edge, Groups, Task, Trace};
