//! Thread traces: what each logical thread of a program executes and accesses, and how threads synchronise.
//!
//! A thread trace holds one ordered stream of [`Event`]s a logical thread. Streams say nothing of each other's time: a simulator replays
//! them under its own timing, and its machine decides who gets a lock and when a barrier opens (as in SynchroTrace, ISPASS 2015, section
//! III). docs/traces.md, section Thread traces, specifies the text form and the binary form byte by byte.
//!
//! ```
//! use tanada_trace::threads::{Event, InstructionSet, Sync, ThreadTrace, ThreadWriter};
//!
//! let mut writer = ThreadWriter::new(Vec::new(), "example", InstructionSet::X86_64)?;
//! writer.thread(None, Some(0x7fff_0000))?;
//! writer.event(Event::Block { address: 0x40_1000, bytes: 12, instructions: 3 })?;
//! writer.event(Event::Access { after: 2, address: 0x1000, bytes: 8, store: true })?;
//! writer.event(Event::Instructions(1))?;
//! writer.event(Event::Sync(Sync::Create(1)))?;
//! writer.thread(Some(0), None)?;
//! writer.event(Event::Sync(Sync::Exit))?;
//! let trace = ThreadTrace::from_bytes(writer.finish()?, "example.tnb")?;
//!
//! assert_eq!((trace.threads().len(), trace.threads()[0].totals.instructions), (2, 3));
//! let (mut reader, mut events) = (trace.reader(0)?, Vec::new());
//! reader.fill(&mut events)?;
//! assert_eq!(events[3], Event::Sync(Sync::Create(1)));
//! reader.fill(&mut events)?;
//! assert!(events.is_empty());
//! # Ok::<(), tanada_trace::TraceError>(())
//! ```

mod decode;
mod encode;
mod event;
mod head;
pub mod spool;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod write;

pub use decode::{BATCH, ThreadReader};
pub use encode::Encoder;
pub use event::{Event, InstructionSet, Sync, Thread, Totals};
pub use head::Head;
pub(crate) use head::{VERSION, file_of};
pub use text::{read_thread_text, write_thread_text};
pub use trace::ThreadTrace;
pub use write::{Stored, ThreadWriter};

/// The longest block of a stream in bytes before compression.
pub const STREAM_BLOCK: usize = 256 << 10;

/// The most instructions of one [`Event::Block`].
pub const MOST_INSTRUCTIONS: u32 = (1 << 22) - 1;

/// The most bytes of code of one [`Event::Block`].
pub const MOST_CODE: u32 = 1 << 20;
