//! What a task does, on its way into a trace.

use super::layout::Region;
use tanada_trace::{Record, Sink, TraceError};

/// Bytes that pieces of code are rounded up to.
pub(crate) const LINE: u64 = 64;

/// The largest part of a stack that a task may be said to use at its beginning.
pub(crate) const STACK_ROOM: u32 = 4096;

/// A piece of code: from the first address up to the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u64, pub(crate) u64);

impl Code {
    pub(crate) fn len(self) -> u64 {
        self.1 - self.0
    }
}

/// What each task does before and after its own work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) millis: u64,
    pub(crate) code: Code,
    /// Bytes that are written at first and read at last.
    pub(crate) stack: u32,
    /// Bytes that are read of the task's descriptor.
    pub(crate) descriptor: u32,
}

/// What was recorded, of one kind of task or of all. The JSON form has the names that `tanada record --json` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Tasks.
    pub tasks: u64,
    /// Records.
    pub records: u64,
    /// Cycles of computation.
    pub cycles: u64,
    /// Lines of 64 bytes of code that are fetched.
    #[serde(rename = "instruction_touches")]
    pub fetched: u64,
    /// Lines of 64 bytes of data that are read.
    #[serde(rename = "read_touches")]
    pub read: u64,
    /// Lines of 64 bytes of data that are written.
    #[serde(rename = "write_touches")]
    pub written: u64,
}

impl Counts {
    /// Returns the number of lines that are looked up: code and data.
    pub fn touches(&self) -> u64 {
        self.fetched + self.read + self.written
    }

    fn add(&mut self, other: &Counts) {
        self.tasks += other.tasks;
        self.records += other.records;
        self.cycles += other.cycles;
        self.fetched += other.fetched;
        self.read += other.read;
        self.written += other.written;
    }
}

/// What a recording holds, of whatever.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// Of all tasks.
    pub total: Counts,
    /// Of the tasks of each name, in the order in which they came.
    pub by_name: Vec<(&'static str, Counts)>,
    /// Dependencies.
    pub dependencies: u64,
    /// All addresses that are used.
    pub regions: Vec<Region>,
}

impl Recorded {
    /// Adds a task.
    pub(crate) fn add(&mut self, name: &'static str, counts: &Counts) {
        self.total.add(counts);
        match self.by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => sum.add(counts),
            None => self.by_name.push((name, *counts)),
        }
    }
}

/// Writes records of one task after the other; computation is gathered up to the next access.
pub(crate) struct Tape<'a, S: ?Sized> {
    pub(crate) sink: &'a mut S,
    /// The first error: probes cannot fail.
    error: Option<TraceError>,
    /// Thousandths of cycles that are not written yet.
    millis: u64,
    /// Of the task that was begun last.
    pub(crate) counts: Counts,
}

/// Returns the number of lines of 64 bytes that a range overlaps.
#[inline]
fn lines(address: u64, size: u32) -> u64 {
    ((address + u64::from(size) - 1) >> 6) - (address >> 6) + 1
}

impl<'a, S: Sink + ?Sized> Tape<'a, S> {
    pub(crate) fn new(sink: &'a mut S) -> Self {
        Tape {
            sink,
            error: None,
            millis: 0,
            counts: Counts::default(),
        }
    }

    #[inline]
    fn put(&mut self, record: Record) {
        self.counts.records += 1;
        if self.error.is_none()
            && let Err(error) = self.sink.record(record)
        {
            self.error = Some(error);
        }
    }

    /// Writes the whole cycles that were gathered.
    #[inline]
    fn flush(&mut self) {
        let cycles = self.millis / 1000;
        if cycles > 0 {
            self.millis -= cycles * 1000;
            self.counts.cycles += cycles;
            self.put(Record::compute(cycles));
        }
    }

    #[inline]
    pub(crate) fn compute(&mut self, millis: u64) {
        self.millis += millis;
    }

    #[inline]
    pub(crate) fn read(&mut self, address: u64, size: u32) {
        self.flush();
        self.counts.read += lines(address, size);
        self.put(Record::read(address, size));
    }

    #[inline]
    pub(crate) fn write(&mut self, address: u64, size: u32) {
        self.flush();
        self.counts.written += lines(address, size);
        self.put(Record::write(address, size));
    }

    /// Fetches all of a piece of code once, in records of at most `chunk` bytes.
    #[inline]
    pub(crate) fn fetch(&mut self, code: Code, chunk: u64) {
        if code.len() == 0 {
            return;
        }
        self.flush();
        let mut at = code.0;
        while at < code.1 {
            let size = chunk.min(code.1 - at) as u32;
            self.counts.fetched += lines(at, size);
            self.put(Record::fetch(at, size));
            at += u64::from(size);
        }
    }

    /// What every task does before its own work.
    pub(crate) fn enter(&mut self, entry: &Entry, descriptor: u64, stack: u64) {
        self.counts = Counts {
            tasks: 1,
            ..Counts::default()
        };
        // Cycles of a task are rounded for itself: it is the same whatever comes before it.
        self.millis = 0;
        self.fetch(entry.code, entry.code.len());
        if entry.descriptor > 0 {
            self.read(descriptor, entry.descriptor);
            self.write(descriptor, entry.descriptor.min(8));
        }
        if entry.stack > 0 {
            self.write(stack, entry.stack);
        }
        self.compute(entry.millis);
    }

    /// Does what every task does after its own work, and returns the counts.
    ///
    /// # Errors
    /// The first of all errors since the last task.
    pub(crate) fn leave(&mut self, entry: &Entry, stack: u64) -> Result<Counts, TraceError> {
        if entry.stack > 0 {
            self.read(stack, entry.stack);
        }
        self.flush();
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.counts),
        }
    }
}
