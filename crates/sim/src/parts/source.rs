//! Where a hardware thread gets its records from: those of its task, a window of them at a time.

use tanada_trace::{Cursor, Reader, Record, TraceError};

/// The records of the task that a hardware thread runs.
#[derive(Debug, Default)]
pub(crate) struct Source {
    cursor: Option<Cursor>,
    window: Vec<Record>,
    at: usize,
    /// Records of this task before the window.
    before: u64,
}

impl Source {
    /// Goes to the first record of a task.
    pub(crate) fn start(&mut self, reader: &mut Reader<'_>, task: u32) {
        self.cursor = Some(reader.start(task));
        self.window.clear();
        self.at = 0;
        self.before = 0;
    }

    /// The records that are decoded and not taken yet; decodes more where there are none. Empty: the task has no more.
    ///
    /// # Errors
    /// Where the trace cannot be read.
    #[inline]
    pub(crate) fn records(&mut self, reader: &mut Reader<'_>) -> Result<&[Record], TraceError> {
        if self.at == self.window.len() {
            self.refill(reader)?;
        }
        Ok(&self.window[self.at..])
    }

    #[cold]
    fn refill(&mut self, reader: &mut Reader<'_>) -> Result<(), TraceError> {
        self.before += self.window.len() as u64;
        self.at = 0;
        match &mut self.cursor {
            Some(cursor) => reader.fill(cursor, &mut self.window)?,
            None => self.window.clear(),
        }
        Ok(())
    }

    /// `count` of the records that [`Source::records`] gave are done.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        self.at += count;
        debug_assert!(self.at <= self.window.len(), "more than there were");
    }

    /// The number of the next record in its task, from 0.
    pub(crate) fn position(&self) -> u64 {
        self.before + self.at as u64
    }
}
