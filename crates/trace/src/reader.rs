//! Decodes a task's records when it runs.

use crate::blocks::{Store, bad};
use crate::codec::{self, PADDING, SCRATCH, Scratch, Step};
use crate::graph::NONE;
use crate::{Record, Trace, TraceError};

/// How many records a window has.
const WINDOW: usize = 512;

/// How many decompressed blocks are kept: 16 MiB.
const CACHE: usize = 256;

/// Decodes records of a [`Trace`]; holds up to 16 MiB of decompressed blocks.
#[derive(Debug)]
pub struct Reader<'a> {
    trace: &'a Trace,
    cache: Cache,
    scratch: Box<Scratch>,
}

/// Where in a task's records a core is; some hundred bytes, and 1 KiB more while a task of more than one window runs.
#[derive(Clone, Debug)]
pub struct Cursor(codec::Cursor);

impl<'a> Reader<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let slot_of = vec![NONE; trace.blocks.len()];
        Self {
            trace,
            scratch: Box::new(SCRATCH),
            cache: Cache {
                slot_of,
                slots: Vec::new(),
                packed: Vec::new(),
                now: 0,
            },
        }
    }

    /// A cursor at the first record of the task with this index; costs nothing.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn start(&self, task: u32) -> Cursor {
        let task = &self.trace.tasks()[task as usize];
        Cursor(codec::Cursor::at(task.block, task.offset))
    }

    /// Replaces what is in `window` by the next records of the cursor's task, some hundred; by none at its end.
    ///
    /// A nanosecond or two a record, and about 25 microseconds for each block of them that was not read lately.
    ///
    /// # Errors
    /// The file cannot be read or is damaged there.
    pub fn fill(
        &mut self,
        cursor: &mut Cursor,
        window: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        window.clear();
        let cursor = &mut cursor.0;
        while cursor.block != NONE {
            let bytes = self
                .cache
                .block(cursor.block, self.trace)
                .map_err(|error| error.of_file(&self.trace.name))?;
            match codec::decode(bytes, cursor, window, WINDOW, &mut self.scratch) {
                Some(Step::Full) => {
                    cursor.keep(window);
                    return Ok(());
                }
                Some(Step::End) => cursor.block = NONE,
                Some(Step::NextBlock) if cursor.block as usize + 1 < self.trace.blocks.len() => {
                    cursor.next_block();
                }
                Some(Step::NextBlock) | None => {
                    let block = self.trace.blocks[cursor.block as usize];
                    cursor.block = NONE;
                    return Err(bad(block, "its records make no sense").of_file(&self.trace.name));
                }
            }
        }
        Ok(())
    }
}

/// Decompressed blocks, those used last.
#[derive(Debug)]
struct Cache {
    /// Where a block is kept, or [`NONE`].
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
        store.block(
            trace.blocks[block as usize],
            &mut self.packed,
            &mut slot.bytes,
            PADDING,
        )?;
        slot.block = block;
        self.slot_of[block as usize] = index as u32;
        Ok(index as u32)
    }
}
