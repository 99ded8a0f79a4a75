//! Events as bytes of a stream.

use std::collections::HashMap;

use super::tables::{BLOCK, OTHER, Tables, meta, other};
use super::{Event, MOST_CODE, MOST_INSTRUCTIONS, STREAM_BLOCK, Sync, Totals};
use crate::TraceError;
use crate::graph::zigzag;

/// The most bytes of one item: four varints.
const LONGEST_ITEM: usize = 40;

/// Items that a caller may write between two looks at [`Encoder::is_full`]: an access, the rest of a block, and an event.
const HEADROOM: usize = 3 * LONGEST_ITEM;

/// Encodes the stream of one thread into blocks of bytes.
///
/// A recorder calls [`known`](Self::known), [`code`](Self::code), [`access`](Self::access) and [`sync`](Self::sync); other callers pass
/// events to [`event`](Self::event). A caller that finds [`is_full`](Self::is_full) must take the block with [`block`](Self::block) and
/// then call [`clear`](Self::clear); it must look after each call, but for an access that another call follows.
///
/// Objects and threads have any names of 64 bits. The stream holds their places in two lists, [`objects`](Self::objects) and
/// [`threads`](Self::threads), so that they can be numbered when all threads are known. An access takes about 3 ns.
#[derive(Debug)]
pub struct Encoder {
    tables: Tables,
    bytes: Box<[u8]>,
    at: usize,
    totals: Totals,
    /// [`Event::Instructions`] said that the block was executed to its end, and no item has said so yet.
    owed: bool,
    codes: HashMap<(u64, u32, u32), u32>,
    generation: u32,
    objects: Names,
    threads: Names,
}

/// Names in the order of their first use.
#[derive(Debug, Default)]
struct Names {
    list: Vec<u64>,
    places: HashMap<u64, u32>,
}

impl Names {
    fn place(&mut self, name: u64) -> u64 {
        let next = self.list.len() as u32;
        let place = *self.places.entry(name).or_insert(next);
        if place == next {
            self.list.push(name);
        }
        place.into()
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            tables: Tables::new(),
            bytes: vec![0; STREAM_BLOCK].into_boxed_slice(),
            at: 0,
            totals: Totals::default(),
            owed: false,
            codes: HashMap::new(),
            generation: 0,
            objects: Names::default(),
            threads: Names::default(),
        }
    }
}

impl Encoder {
    /// Returns the encoder of an empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sums over all events.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the names of objects, in the order of their first use.
    #[must_use]
    pub fn objects(&self) -> &[u64] {
        &self.objects.list
    }

    /// Returns the names of threads that were created or joined, in the order of their first use.
    #[must_use]
    pub fn threads(&self) -> &[u64] {
        &self.threads.list
    }

    /// Returns whether the block must be taken before the next event.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.at > STREAM_BLOCK - HEADROOM
    }

    /// Returns the bytes of the block so far.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// Begins the next block.
    pub const fn clear(&mut self) {
        self.at = 0;
    }

    /// Returns a number that changes whenever numbers of codes become invalid.
    #[inline]
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Begins a new block of code and returns its number for [`known`](Self::known). The block before was executed to its end.
    ///
    /// # Panics
    /// `bytes` or `instructions` is more than a block can have, or `instructions` is 0.
    pub fn code(&mut self, address: u64, bytes: u32, instructions: u32) -> u32 {
        assert!(bytes <= MOST_CODE && (1..=MOST_INSTRUCTIONS).contains(&instructions));
        let before = self.tables.code();
        let end = before.address.wrapping_add(before.bytes.into());
        self.put(other::CODE << 2 | OTHER);
        self.put(zigzag(address.wrapping_sub(end) as i64));
        self.put(bytes.into());
        self.put(instructions.into());
        if self.tables.add(address, bytes, instructions) {
            self.generation = self.generation.wrapping_add(1);
            self.codes.clear();
        }
        self.totals.instructions += u64::from(instructions);
        self.tables.current
    }

    /// Begins a block of code that [`code`](Self::code) has numbered since the last change of [`generation`](Self::generation). The block
    /// before was executed to its end.
    #[inline]
    pub fn known(&mut self, code: u32) {
        let expected = self.tables.code().successor == code;
        self.put(if expected {
            BLOCK
        } else {
            u64::from(code) << 2 | BLOCK
        });
        self.tables.enter(code);
        self.totals.instructions += u64::from(self.tables.code().instructions);
    }

    /// Writes an access by the instruction that ends `position` instructions behind the begin of the block.
    #[inline]
    pub fn access(&mut self, position: u32, address: u64, bytes: u8, store: bool) {
        let accesses = if store {
            &mut self.totals.stores
        } else {
            &mut self.totals.loads
        };
        *accesses += 1;
        let tables = &mut self.tables;
        let word = meta(position, bytes, store);
        let slot = &mut tables.slots[tables.next as usize];
        let distance = zigzag(address.wrapping_sub(slot.last) as i64);
        if slot.meta != word || distance >> 63 != 0 || position < tables.position {
            return self.unexpected(position, address, bytes, store);
        }
        slot.last = address;
        tables.address = address;
        tables.before = tables.next;
        tables.next = slot.next;
        tables.position = position;
        self.put(distance << 1);
    }

    #[cold]
    fn unexpected(&mut self, position: u32, address: u64, bytes: u8, store: bool) {
        // An instruction that began again, after a signal for example, can lie before the last access.
        let position = position.max(self.tables.position);
        let after = position - self.tables.position;
        let distance = address.wrapping_sub(self.tables.address) as i64;
        self.put(other::ACCESS << 2 | OTHER);
        self.put(after.into());
        self.put(u64::from(bytes) << 1 | u64::from(store));
        self.put(zigzag(distance));
        self.tables.position = position;
        self.tables.learn(address, meta(position, bytes, store));
    }

    /// Writes that the block of code was executed to its end, if no event has said so.
    pub fn rest(&mut self) {
        if self.tables.rest() > 0 {
            self.put(other::REST << 2 | OTHER);
            self.tables.position = self.tables.code().instructions;
        }
    }

    /// Writes that the block of code was left before its end, if no event has said that the end was reached.
    fn cut(&mut self) {
        let rest = self.tables.rest();
        if rest > 0 && !self.owed {
            self.put(other::CUT << 2 | OTHER);
            self.totals.instructions -= u64::from(rest);
            self.tables.position = self.tables.code().instructions;
        }
        self.owed = false;
    }

    /// Writes a synchronisation with the numbers of `sync` as names of objects and threads.
    pub fn sync(&mut self, sync: Sync) {
        self.write(sync, u64::from);
    }

    /// Writes `sync`, whose objects and threads are numbered by the place of their name in `names`.
    ///
    /// # Panics
    /// `sync` has a number for which there is no name.
    pub fn named(&mut self, sync: Sync, names: [u64; 2]) {
        self.write(sync, |number| names[number as usize]);
    }

    fn write(&mut self, sync: Sync, name: impl Fn(u32) -> u64) {
        match sync {
            Sync::Create(thread) => self.of_thread(other::CREATE, name(thread)),
            Sync::Join(thread) => self.of_thread(other::JOIN, name(thread)),
            Sync::Lock(object) => self.of_object(other::LOCK, name(object), None),
            Sync::Share(object) => self.of_object(other::SHARE, name(object), None),
            Sync::Unlock(object) => self.of_object(other::UNLOCK, name(object), None),
            Sync::Barrier { object, parties } => {
                self.of_object(other::BARRIER, name(object), Some(parties));
            }
            Sync::Wait {
                condition,
                lock,
                signals,
            } => {
                let [condition, lock] =
                    [name(condition), name(lock)].map(|name| self.objects.place(name));
                match signals {
                    Some(signals) => {
                        self.plain(other::WAIT_COUNTED, &[condition, lock, u64::from(signals)]);
                    }
                    None => self.plain(other::WAIT, &[condition, lock]),
                }
            }
            Sync::Signal(object) => self.of_object(other::SIGNAL, name(object), None),
            Sync::Broadcast(object) => self.of_object(other::BROADCAST, name(object), None),
            Sync::Post(object) => self.of_object(other::POST, name(object), None),
            Sync::Take(object) => self.of_object(other::TAKE, name(object), None),
            Sync::RegionBegin { id, threads } => {
                self.of_object(other::REGION, name(id), Some(threads));
            }
            Sync::RegionEnd => self.plain(other::REGION_END, &[]),
            Sync::LoopBegin(object) => self.of_object(other::LOOP, name(object), None),
            Sync::Iteration { first, count } => self.plain(other::ITERATION, &[first, count]),
            Sync::LoopEnd => self.plain(other::LOOP_END, &[]),
            Sync::Mark { kind, a, b } => self.plain(other::MARK, &[kind.into(), a, b]),
            Sync::Exit => self.plain(other::EXIT, &[]),
        }
    }

    fn plain(&mut self, code: u64, operands: &[u64]) {
        self.rest_if_owed();
        self.put(code << 2 | OTHER);
        for &operand in operands {
            self.put(operand);
        }
    }

    fn of_thread(&mut self, code: u64, name: u64) {
        let place = self.threads.place(name);
        self.plain(code, &[place]);
    }

    fn of_object(&mut self, code: u64, name: u64, count: Option<u32>) {
        let place = self.objects.place(name);
        match count {
            Some(count) => self.plain(code, &[place, count.into()]),
            None => self.plain(code, &[place]),
        }
    }

    fn rest_if_owed(&mut self) {
        if std::mem::take(&mut self.owed) {
            self.rest();
        }
    }

    /// Writes any event.
    ///
    /// # Errors
    /// Returns an error if the event cannot follow those before: an access or instructions beyond the end of their block, or numbers that
    /// a trace cannot hold.
    pub fn event(&mut self, event: Event) -> Result<(), TraceError> {
        match event {
            Event::Block {
                address,
                bytes,
                instructions,
            } => {
                if bytes > MOST_CODE || !(1..=MOST_INSTRUCTIONS).contains(&instructions) {
                    let what = format!(
                        "a block of {instructions} instructions in {bytes} bytes; it can have 1 to {MOST_INSTRUCTIONS} in up to {MOST_CODE}"
                    );
                    return Err(TraceError::at(0, what));
                }
                if address.checked_add(bytes.into()).is_none() {
                    return Err(TraceError::at(0, "a block of code beyond address 2^64-1"));
                }
                self.cut();
                let key = (address, bytes, instructions);
                match self.codes.get(&key) {
                    Some(&code) => self.known(code),
                    None => {
                        let code = self.code(address, bytes, instructions);
                        self.codes.insert(key, code);
                    }
                }
            }
            Event::Access {
                after,
                address,
                bytes,
                store,
            } => {
                self.rest_if_owed();
                if self.tables.current == 0 || after > self.tables.rest() {
                    return Err(beyond(after));
                }
                if bytes == 0 || address.checked_add(u64::from(bytes) - 1).is_none() {
                    let what = format!(
                        "an access of {bytes} bytes at {address:#x}: 1 to 255 bytes, none beyond 2^64-1"
                    );
                    return Err(TraceError::at(0, what));
                }
                self.access(self.tables.position + after, address, bytes, store);
            }
            Event::Instructions(count) => {
                self.rest_if_owed();
                let rest = self.tables.rest();
                if count == 0 || count > rest {
                    return Err(beyond(count));
                }
                if count == rest {
                    self.owed = true;
                } else {
                    self.put(other::PART << 2 | OTHER);
                    self.put(count.into());
                    self.tables.position += count;
                }
            }
            Event::Sync(sync) => self.sync(sync),
        }
        Ok(())
    }

    /// Ends the stream that [`event`](Self::event) wrote. A recorder need not call this: its last block counts as executed to its end.
    pub fn end(&mut self) {
        self.cut();
    }

    /// Writes a varint. The block has room, because [`is_full`](Self::is_full) leaves enough.
    #[inline]
    fn put(&mut self, mut value: u64) {
        let Self { bytes, at, .. } = self;
        while value >= 0x80 {
            bytes[*at] = value as u8 | 0x80;
            *at += 1;
            value >>= 7;
        }
        bytes[*at] = value as u8;
        *at += 1;
    }
}

#[cold]
fn beyond(count: u32) -> TraceError {
    let what = format!(
        "{count} instructions are more than their block has left; a block (`b`) begins one"
    );
    TraceError::at(0, what)
}
