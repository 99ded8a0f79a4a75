//! The events of one stream, in batches.

use std::sync::Arc;

use super::tables::{BLOCK, OTHER, Tables, damaged, meta, other};
use super::trace::Shared;
use super::{Event, MOST_CODE, MOST_INSTRUCTIONS, Sync, Totals};
use crate::TraceError;
use crate::graph::unzigzag;

/// Events that [`ThreadReader::fill`] returns at once, at least if the stream has as many left. A batch can have a few more.
pub const BATCH: usize = 4096;

/// Zeros behind a block in memory, so that a varint can be read without looking for the end.
const PADDING: usize = 16;

/// Reads one thread's events from first to last. Readers of several threads are independent, and each can be sent to another thread.
///
/// Memory: one block of the stream ([`STREAM_BLOCK`](super::STREAM_BLOCK)), the same compressed, and at most some 60 MB of tables (2 to
/// 5 MB for usual programs).
#[derive(Debug)]
pub struct ThreadReader {
    shared: Arc<Shared>,
    thread: usize,
    tables: Tables,
    /// Blocks of the stream that were not read yet, as numbers in the index.
    blocks: std::ops::Range<usize>,
    packed: Vec<u8>,
    /// A decompressed block, and [`PADDING`].
    bytes: Vec<u8>,
    at: usize,
    length: usize,
    totals: Totals,
    ended: bool,
}

impl ThreadReader {
    pub(super) fn new(shared: Arc<Shared>, thread: usize) -> Self {
        let blocks = shared.head.blocks_of(thread);
        Self {
            shared,
            thread,
            tables: Tables::new(),
            blocks,
            packed: Vec::new(),
            bytes: Vec::new(),
            at: 0,
            length: 0,
            totals: Totals::default(),
            ended: false,
        }
    }

    /// Replaces the content of `events` by the next events, about [`BATCH`] of them; by none at the end of the stream. Some 5 ns an event.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged. Later calls then return no events.
    pub fn fill(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        events.clear();
        let filled = self.try_fill(events);
        if filled.is_err() {
            events.clear();
            (self.ended, self.blocks, self.at) = (true, 0..0, self.length);
        }
        filled.map_err(|error| error.of_file(&self.shared.name))
    }

    fn try_fill(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        while events.len() < BATCH && !self.ended {
            if self.at < self.length {
                self.decode(events)?;
            } else if let Some(block) = self.blocks.next() {
                let block = self.shared.blocks[block];
                let store = &self.shared.store;
                store.block(block, &mut self.packed, &mut self.bytes, PADDING)?;
                (self.at, self.length) = (0, block.length as usize);
            } else {
                self.ended = true;
                let rest = self.tables.rest();
                if rest > 0 {
                    events.push(Event::Instructions(rest));
                }
                if self.totals != self.shared.head.threads[self.thread].totals {
                    return Err(damaged("its events are not as many as the head says"));
                }
            }
        }
        Ok(())
    }

    /// Decodes items of the block until it ends or the batch is full.
    fn decode(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        while self.at < self.length && events.len() < BATCH {
            let item = self.varint()?;
            if item & 1 == 0 {
                self.expected(item >> 1, events)?;
            } else if item & OTHER == BLOCK {
                let code = match item >> 2 {
                    0 => self.tables.code().successor,
                    code => u32::try_from(code).unwrap_or(0),
                };
                if code == 0 || code as usize >= self.tables.codes.len() {
                    return Err(damaged("a block of code that it did not name before"));
                }
                self.leave(events);
                self.tables.enter(code);
                self.begun(events);
            } else {
                self.other(item >> 2, events)?;
            }
        }
        if self.at > self.length {
            return Err(damaged("it ends within an item"));
        }
        Ok(())
    }

    #[inline]
    fn expected(&mut self, distance: u64, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let tables = &mut self.tables;
        let Some(slot) = tables
            .slots
            .get_mut(tables.next as usize)
            .filter(|_| tables.next != 0)
        else {
            return Err(damaged("an access where none is expected"));
        };
        let address = slot.last.wrapping_add(unzigzag(distance) as u64);
        let (position, bytes, store) = (slot.meta >> 9, (slot.meta >> 1) as u8, slot.meta & 1 != 0);
        // A slot that replaced another one can be followed by one that lies before it.
        if position < tables.position {
            return Err(damaged("an access before another one"));
        }
        if address.checked_add(u64::from(bytes) - 1).is_none() {
            return Err(damaged("an access beyond address 2^64-1"));
        }
        slot.last = address;
        tables.address = address;
        tables.before = tables.next;
        tables.next = slot.next;
        let after = position - tables.position;
        tables.position = position;
        self.totals.loads += u64::from(!store);
        self.totals.stores += u64::from(store);
        events.push(Event::Access {
            after,
            address,
            bytes,
            store,
        });
        Ok(())
    }

    /// Returns the rest of the block that ends.
    #[inline]
    fn leave(&mut self, events: &mut Vec<Event>) {
        let rest = self.tables.rest();
        if rest > 0 {
            events.push(Event::Instructions(rest));
        }
    }

    #[inline]
    fn begun(&mut self, events: &mut Vec<Event>) {
        let code = self.tables.code();
        self.totals.instructions = self
            .totals
            .instructions
            .wrapping_add(code.instructions.into());
        events.push(Event::Block {
            address: code.address,
            bytes: code.bytes,
            instructions: code.instructions,
        });
    }

    #[cold]
    fn other(&mut self, code: u64, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let sync = match code {
            other::ACCESS => return self.unexpected(events),
            other::CODE => return self.new_code(events),
            other::REST => {
                self.leave(events);
                self.tables.position = self.tables.code().instructions;
                return Ok(());
            }
            other::PART => {
                let (count, rest) = (self.small()?, self.tables.rest());
                if count == 0 || count >= rest {
                    return Err(damaged("more instructions than a block has"));
                }
                self.tables.position += count;
                events.push(Event::Instructions(count));
                return Ok(());
            }
            other::CUT => {
                let rest = self.tables.rest();
                self.totals.instructions = self.totals.instructions.wrapping_sub(rest.into());
                self.tables.position += rest;
                return Ok(());
            }
            other::CREATE => Sync::Create(self.thread()?),
            other::JOIN => Sync::Join(self.thread()?),
            other::LOCK => Sync::Lock(self.object()?),
            other::SHARE => Sync::Share(self.object()?),
            other::UNLOCK => Sync::Unlock(self.object()?),
            other::BARRIER => Sync::Barrier {
                object: self.object()?,
                parties: self.small()?,
            },
            other::WAIT => Sync::Wait {
                condition: self.object()?,
                lock: self.object()?,
                signals: None,
            },
            other::WAIT_COUNTED => Sync::Wait {
                condition: self.object()?,
                lock: self.object()?,
                signals: Some(self.small()?),
            },
            other::SIGNAL => Sync::Signal(self.object()?),
            other::BROADCAST => Sync::Broadcast(self.object()?),
            other::POST => Sync::Post(self.object()?),
            other::TAKE => Sync::Take(self.object()?),
            other::REGION => Sync::RegionBegin {
                id: self.object()?,
                threads: self.small()?,
            },
            other::REGION_END => Sync::RegionEnd,
            other::LOOP => Sync::LoopBegin(self.object()?),
            other::ITERATION => Sync::Iteration {
                first: self.varint()?,
                count: self.varint()?,
            },
            other::LOOP_END => Sync::LoopEnd,
            other::MARK => Sync::Mark {
                kind: self.small()?,
                a: self.varint()?,
                b: self.varint()?,
            },
            other::EXIT => Sync::Exit,
            _ => return Err(damaged("an unknown item")),
        };
        events.push(Event::Sync(sync));
        Ok(())
    }

    fn unexpected(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let after = self.small()?;
        let what = self.small()?;
        let distance = unzigzag(self.varint()?) as u64;
        let (bytes, store) = ((what >> 1) as u8, what & 1 != 0);
        if after > self.tables.rest() || what >> 9 != 0 || bytes == 0 || self.tables.current == 0 {
            return Err(damaged("an access beyond the end of its block"));
        }
        let address = self.tables.address.wrapping_add(distance);
        if address.checked_add(u64::from(bytes) - 1).is_none() {
            return Err(damaged("an access beyond address 2^64-1"));
        }
        self.tables.position += after;
        self.tables
            .learn(address, meta(self.tables.position, bytes, store));
        self.totals.loads += u64::from(!store);
        self.totals.stores += u64::from(store);
        events.push(Event::Access {
            after,
            address,
            bytes,
            store,
        });
        Ok(())
    }

    fn new_code(&mut self, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let before = self.tables.code();
        let end = before.address.wrapping_add(before.bytes.into());
        let address = end.wrapping_add(unzigzag(self.varint()?) as u64);
        let (bytes, instructions) = (self.small()?, self.small()?);
        let valid = bytes <= MOST_CODE && (1..=MOST_INSTRUCTIONS).contains(&instructions);
        if !valid || address.checked_add(bytes.into()).is_none() {
            return Err(damaged("a block of code of a wrong size"));
        }
        self.leave(events);
        self.tables.add(address, bytes, instructions);
        self.begun(events);
        Ok(())
    }

    fn object(&mut self) -> Result<u32, TraceError> {
        let place = self.varint()?;
        let objects = self.shared.head.objects_of(self.thread);
        named(objects, place).ok_or_else(|| damaged("an object that the head does not name"))
    }

    fn thread(&mut self) -> Result<u32, TraceError> {
        let place = self.varint()?;
        let threads = self.shared.head.threads_of(self.thread);
        named(threads, place).ok_or_else(|| damaged("a thread that the head does not name"))
    }

    fn small(&mut self) -> Result<u32, TraceError> {
        u32::try_from(self.varint()?).map_err(|_| damaged("a number that is too large"))
    }

    /// Reads a varint. Behind the block there are zeros, each of which ends one; [`decode`](Self::decode) finds that the end was passed.
    #[inline]
    fn varint(&mut self) -> Result<u64, TraceError> {
        let first = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.bytes.get(self.at).copied().unwrap_or(0);
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged("a number of more than 64 bits"))
    }
}

/// Returns the number at a place of a list of the head; `None` if the list is shorter.
fn named(numbers: &[u32], place: u64) -> Option<u32> {
    numbers.get(usize::try_from(place).ok()?).copied()
}
