//! What the model runs: logical threads with their streams of events.

use tanada_trace::TraceError;
use tanada_trace::threads::{Event, ThreadReader, ThreadTrace};

/// A recorded parallel program.
pub trait Program: Sync {
    /// Returns the number of logical threads; their numbers are their order of creation.
    fn threads(&self) -> usize;

    /// Returns an address in the stack of `thread` near its begin, if it is known.
    fn stack(&self, thread: usize) -> Option<u64>;

    /// Returns the stream of `thread`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn stream(&self, thread: usize) -> Result<Box<dyn Stream + '_>, TraceError>;
}

/// The events of one logical thread.
pub trait Stream {
    /// Replaces the content of `events` by the next events; by none at the end.
    ///
    /// # Errors
    /// If the stream cannot be read or is damaged.
    fn fill(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError>;
}

impl Program for ThreadTrace {
    fn threads(&self) -> usize {
        ThreadTrace::threads(self).len()
    }

    fn stack(&self, thread: usize) -> Option<u64> {
        ThreadTrace::threads(self)[thread].stack
    }

    fn stream(&self, thread: usize) -> Result<Box<dyn Stream + '_>, TraceError> {
        Ok(Box::new(self.reader(thread as u32)?))
    }
}

impl Stream for ThreadReader {
    fn fill(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        ThreadReader::fill(self, events)
    }
}
