//! Decoding a task's records while it runs.

use crate::blocks::{Store, bad};
use crate::codec::{self, Decoded, PADDING, Stop};
use crate::graph::NONE;
use crate::{Record, Trace, TraceError};

/// Decompressed blocks that are kept: 16 MiB.
const CACHE: usize = 256;

/// Decodes records of a [`Trace`]. Holds up to 16 MiB of decompressed blocks.
#[derive(Debug)]
pub struct Reader<'a> {
    trace: &'a Trace,
    cache: Cache,
    decoded: Box<Decoded>,
    count: Count,
}

/// Position in a task's records. Some hundred bytes, and 1 KiB more while a task of more than one window runs.
#[derive(Clone, Debug)]
pub struct Cursor {
    place: codec::Cursor,
    task: u32,
    /// Records of the task decoded so far.
    records: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let slot_of = vec![NONE; trace.blocks.len()];
        Self {
            trace,
            decoded: Decoded::new(),
            count: Count::new(trace.len()),
            cache: Cache {
                slot_of,
                slots: Vec::new(),
                packed: Vec::new(),
                now: 0,
            },
        }
    }

    /// Returns a cursor at the first record of the task with index `task`. Decodes nothing yet.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn start(&self, task: u32) -> Cursor {
        let begin = &self.trace.tasks()[task as usize];
        Cursor {
            place: codec::Cursor::at(begin.block, begin.offset),
            task,
            records: 0,
        }
    }

    /// Replaces the content of `window` by the next records of the cursor's task: some hundred, or none at the end of the task.
    ///
    /// Takes one or two nanoseconds a record, and about 25 microseconds for each block that is not among those kept.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged there; or this was the end of the last task, and the number of all records
    /// differs from the footer's.
    pub fn fill(
        &mut self,
        cursor: &mut Cursor,
        window: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        window.clear();
        window.extend_from_slice(self.next_window(cursor)?);
        Ok(())
    }

    /// Returns the next records of the cursor's task, as [`Reader::fill`] does, without a copy.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::fill`].
    pub fn next_window(&mut self, cursor: &mut Cursor) -> Result<&[Record], TraceError> {
        self.decoded.begin(&cursor.place);
        let mut filled = self.decode(&mut cursor.place);
        let count = self.decoded.records().len();
        cursor.records += count as u64;
        if filled.is_ok() && count == 0 {
            filled = self.count.end(cursor, self.trace.records);
        }
        match filled {
            Ok(()) => Ok(self.decoded.records()),
            Err(error) => Err(error.of_file(&self.trace.name)),
        }
    }

    /// Returns the records that were decoded last.
    #[must_use]
    pub fn last_window(&self) -> &[Record] {
        self.decoded.records()
    }

    /// Calls `each` with every record of the task with index `task`, in order; `window` is scratch memory.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::fill`], and the first error of `each`.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn for_each<E: From<TraceError>>(
        &mut self,
        task: u32,
        window: &mut Vec<Record>,
        mut each: impl FnMut(&Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = self.start(task);
        loop {
            self.fill(&mut cursor, window)?;
            if window.is_empty() {
                return Ok(());
            }
            window.iter().try_for_each(&mut each)?;
        }
    }

    fn decode(&mut self, place: &mut codec::Cursor) -> Result<(), TraceError> {
        while place.block != NONE {
            let bytes = self.cache.block(place.block, self.trace)?;
            match codec::decode(bytes, place, &mut self.decoded) {
                Some(Stop::Full) => {
                    self.decoded.keep_recent(place);
                    return Ok(());
                }
                Some(Stop::End) => place.block = NONE,
                Some(Stop::NextBlock) if place.block as usize + 1 < self.trace.blocks.len() => {
                    place.next_block();
                }
                Some(Stop::NextBlock) | None => {
                    let block = self.trace.blocks[place.block as usize];
                    place.block = NONE;
                    return Err(bad(block, "its records are invalid"));
                }
            }
        }
        Ok(())
    }
}

/// Compares the number of records with the footer's, once each task was read to its end.
#[derive(Debug)]
struct Count {
    /// One bit a task: set if it was read to its end.
    ended: Vec<u64>,
    /// Tasks that were not read to their end yet.
    left: usize,
    records: u64,
}

impl Count {
    fn new(tasks: usize) -> Self {
        Self {
            ended: vec![0; tasks.div_ceil(64)],
            left: tasks,
            records: 0,
        }
    }

    /// Notes the end of the cursor's task. A task that is read again counts once.
    fn end(&mut self, cursor: &Cursor, expected: u64) -> Result<(), TraceError> {
        let (word, bit) = (cursor.task as usize / 64, 1 << (cursor.task % 64));
        if self.ended[word] & bit != 0 {
            return Ok(());
        }
        self.ended[word] |= bit;
        self.left -= 1;
        self.records += cursor.records;
        if self.records > expected || self.left == 0 && self.records < expected {
            return Err(wrong_count(self.records, expected));
        }
        Ok(())
    }
}

#[cold]
fn wrong_count(records: u64, expected: u64) -> TraceError {
    let relation = match records > expected {
        true => "at least",
        false => "only",
    };
    let text = format!(
        "damaged: its footer counts {expected} records, but its tasks have {relation} {records}; make or copy the file again"
    );
    TraceError::at(0, text)
}

/// The decompressed blocks that were used last.
#[derive(Debug)]
struct Cache {
    /// By block, its index in `slots`, or [`NONE`].
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    packed: Vec<u8>,
    now: u64,
}

#[derive(Debug)]
struct Slot {
    block: u32,
    used: u64,
    bytes: Vec<u8>,
}

impl Cache {
    fn block(&mut self, block: u32, trace: &Trace) -> Result<&[u8], TraceError> {
        self.now += 1;
        let mut slot = self.slot_of[block as usize];
        if slot == NONE {
            slot = self.load(block, &trace.store, trace)?;
        }
        let slot = &mut self.slots[slot as usize];
        slot.used = self.now;
        Ok(&slot.bytes)
    }

    #[cold]
    fn load(&mut self, block: u32, store: &Store, trace: &Trace) -> Result<u32, TraceError> {
        let index = if self.slots.len() < CACHE {
            self.slots.push(Slot {
                block: NONE,
                used: 0,
                bytes: Vec::new(),
            });
            self.slots.len() - 1
        } else {
            (0..CACHE).min_by_key(|&i| self.slots[i].used).unwrap_or(0)
        };
        let slot = &mut self.slots[index];
        if slot.block != NONE {
            self.slot_of[slot.block as usize] = NONE;
            slot.block = NONE;
        }
        let packed = trace.blocks[block as usize];
        store.block(packed, &mut self.packed, &mut slot.bytes, PADDING)?;
        slot.block = block;
        self.slot_of[block as usize] = index as u32;
        Ok(index as u32)
    }
}
