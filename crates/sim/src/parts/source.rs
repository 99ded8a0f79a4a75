//! Instruction sources: the records of the task that a hardware thread runs, one window at a time.

use tanada_trace::{Cursor, Reader, Record, TraceError};

/// Returns the numbers of the first and the last line that `record` touches; `shift` is log2 of the length of a line.
#[inline(always)]
pub(crate) fn lines(record: &Record, shift: u32) -> (u64, u64) {
    let last = record.value + (u64::from(record.size) - 1);
    (record.value >> shift, last >> shift)
}

/// The records of the task that a hardware thread runs.
#[derive(Debug, Default)]
pub(crate) struct Source {
    cursor: Option<Cursor>,
    window: Vec<Record>,
    /// Number of records of the window that are taken.
    taken: usize,
    /// Number of records of the task before the window.
    before: u64,
}

impl Source {
    /// Goes to the first record of a task.
    pub(crate) fn start(&mut self, reader: &mut Reader<'_>, task: u32) {
        self.cursor = Some(reader.start(task));
        self.window.clear();
        self.taken = 0;
        self.before = 0;
    }

    /// Returns the rest of the window, or a new window if there is no rest. An empty slice means that the task has no more records.
    ///
    /// # Errors
    /// If the trace cannot be read.
    #[inline]
    pub(crate) fn records(&mut self, reader: &mut Reader<'_>) -> Result<&[Record], TraceError> {
        if self.taken == self.window.len() {
            self.refill(reader)?;
        }
        Ok(&self.window[self.taken..])
    }

    /// As [`Source::records`], without a copy of a new window: the caller takes what it needs by [`Source::take_of`], before another source
    /// uses the reader.
    #[inline]
    pub(crate) fn borrow_records<'a>(
        &'a mut self,
        reader: &'a mut Reader<'_>,
    ) -> Result<&'a [Record], TraceError> {
        if self.taken < self.window.len() {
            return Ok(&self.window[self.taken..]);
        }
        self.before += self.window.len() as u64;
        self.taken = 0;
        self.window.clear();
        match &mut self.cursor {
            Some(cursor) => reader.next_window(cursor),
            None => Ok(&[]),
        }
    }

    /// Marks the next `count` records of those that [`Source::borrow_records`] returned as taken. Copies the rest.
    #[inline]
    pub(crate) fn take_of(&mut self, reader: &Reader<'_>, count: usize) {
        if !self.window.is_empty() {
            return self.take(count);
        }
        self.before += count as u64;
        self.window
            .extend_from_slice(&reader.last_window()[count..]);
    }

    #[cold]
    fn refill(&mut self, reader: &mut Reader<'_>) -> Result<(), TraceError> {
        self.before += self.window.len() as u64;
        self.taken = 0;
        match &mut self.cursor {
            Some(cursor) => reader.fill(cursor, &mut self.window)?,
            None => self.window.clear(),
        }
        Ok(())
    }

    /// Marks the next `count` records as taken.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        debug_assert!(self.taken <= self.window.len(), "more than the window has");
    }

    /// Marks the last `count` records of the window as not taken.
    pub(crate) fn give_back(&mut self, count: usize) {
        self.taken -= count;
    }

    /// Returns the number of the next record in its task, from 0.
    pub(crate) fn position(&self) -> u64 {
        self.before + self.taken as u64
    }
}
