//! Programs that lie in memory.

use tanada_sim::{Program, Stream};
use tanada_trace::TraceError;
use tanada_trace::threads::Event;

/// The events of each logical thread, and the address of its stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    pub(crate) threads: Vec<(Vec<Event>, Option<u64>)>,
    /// Events that a stream returns at once; 0: all.
    pub(crate) batch: usize,
}

impl Made {
    pub(crate) fn of(threads: impl IntoIterator<Item = Vec<Event>>) -> Made {
        Made {
            threads: threads.into_iter().map(|events| (events, None)).collect(),
            batch: 3,
        }
    }
}

struct Left<'a> {
    events: &'a [Event],
    batch: usize,
}

impl Stream for Left<'_> {
    fn fill(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let count = match self.batch {
            0 => self.events.len(),
            batch => batch.min(self.events.len()),
        };
        let (now, left) = self.events.split_at(count);
        events.clear();
        events.extend_from_slice(now);
        self.events = left;
        Ok(())
    }
}

impl Program for Made {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn stack(&self, thread: usize) -> Option<u64> {
        self.threads[thread].1
    }

    fn stream(&self, thread: usize) -> Result<Box<dyn Stream + '_>, TraceError> {
        Ok(Box::new(Left {
            events: &self.threads[thread].0,
            batch: self.batch,
        }))
    }
}
