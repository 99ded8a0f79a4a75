//! What encoder and decoder learn from a stream: equal copies of both tables predict the next event.

use crate::TraceError;

/// Blocks of code in the table; the next new block clears both tables.
const MOST_CODES: usize = 1 << 18;

/// Slots from which on the next new block clears both tables.
const MANY_SLOTS: usize = 1 << 20;

/// Slots from which on no slot is added. A block with more accesses than this stays correct, and is larger.
const MOST_SLOTS: usize = 1 << 21;

/// The item's lowest bits: an access at the expected slot has bit 0 clear.
pub(super) const BLOCK: u64 = 0b01;
/// See [`BLOCK`].
pub(super) const OTHER: u64 = 0b11;

/// Codes of items with the lowest bits [`OTHER`].
pub(super) mod other {
    pub(crate) const ACCESS: u64 = 0;
    pub(crate) const CODE: u64 = 1;
    pub(crate) const REST: u64 = 2;
    pub(crate) const PART: u64 = 3;
    pub(crate) const CUT: u64 = 4;
    pub(crate) const CREATE: u64 = 5;
    pub(crate) const JOIN: u64 = 6;
    pub(crate) const LOCK: u64 = 7;
    pub(crate) const SHARE: u64 = 8;
    pub(crate) const UNLOCK: u64 = 9;
    pub(crate) const BARRIER: u64 = 10;
    pub(crate) const WAIT: u64 = 11;
    pub(crate) const SIGNAL: u64 = 12;
    pub(crate) const BROADCAST: u64 = 13;
    pub(crate) const POST: u64 = 14;
    pub(crate) const TAKE: u64 = 15;
    pub(crate) const REGION: u64 = 16;
    pub(crate) const REGION_END: u64 = 17;
    pub(crate) const LOOP: u64 = 18;
    pub(crate) const ITERATION: u64 = 19;
    pub(crate) const LOOP_END: u64 = 20;
    pub(crate) const MARK: u64 = 21;
    pub(crate) const EXIT: u64 = 22;
    pub(crate) const WAIT_COUNTED: u64 = 23;
}

/// A block of code that the stream has named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) instructions: u32,
    /// The slot of its first access; 0 if it has none yet.
    pub(super) first: u32,
    /// The code that followed last time; 0 if none did yet.
    pub(super) successor: u32,
}

/// An access of a block of code: what it was last time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) last: u64,
    /// See [`meta`].
    pub(super) meta: u32,
    /// The slot of the block's next access; 0 if it has none yet.
    pub(super) next: u32,
}

/// Packs the number of instructions from the block's begin to the access, its bytes, and whether it is a store.
#[inline]
pub(super) const fn meta(position: u32, bytes: u8, store: bool) -> u32 {
    position << 9 | (bytes as u32) << 1 | store as u32
}

/// Both tables, and the place in them.
#[derive(Debug)]
pub(super) struct Tables {
    /// Entry 0 is no code: nothing has been executed.
    pub(super) codes: Vec<Code>,
    /// Entry 0 is no slot, and equals no access.
    pub(super) slots: Vec<Slot>,
    /// The code that is executed.
    pub(super) current: u32,
    /// The slot of the block's last access; 0 if it had none.
    pub(super) before: u32,
    /// The slot that is expected next; 0 if none is.
    pub(super) next: u32,
    /// Instructions of the block that events have accounted for.
    pub(super) position: u32,
    /// The last address of an access.
    pub(super) address: u64,
}

const NO_CODE: Code = Code {
    address: 0,
    bytes: 0,
    instructions: 0,
    first: 0,
    successor: 0,
};

const NO_SLOT: Slot = Slot {
    last: 0,
    meta: u32::MAX,
    next: 0,
};

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            codes: vec![NO_CODE],
            slots: vec![NO_SLOT],
            current: 0,
            before: 0,
            next: 0,
            position: 0,
            address: 0,
        }
    }

    pub(super) fn code(&self) -> &Code {
        &self.codes[self.current as usize]
    }

    /// Returns the instructions of the block that no event has accounted for.
    pub(super) fn rest(&self) -> u32 {
        self.code().instructions - self.position
    }

    /// Makes the known `code` the executed one.
    #[inline]
    pub(super) fn enter(&mut self, code: u32) {
        self.codes[self.current as usize].successor = code;
        self.current = code;
        self.before = 0;
        self.next = self.codes[code as usize].first;
        self.position = 0;
    }

    /// Adds a block of code and makes it the executed one. Returns whether the tables were cleared before.
    pub(super) fn add(&mut self, address: u64, bytes: u32, instructions: u32) -> bool {
        let clear = self.codes.len() >= MOST_CODES || self.slots.len() >= MANY_SLOTS;
        if clear {
            self.codes.truncate(1);
            self.slots.truncate(1);
            self.codes[0] = NO_CODE;
            self.current = 0;
        }
        let code = self.codes.len() as u32;
        self.codes.push(Code {
            address,
            bytes,
            instructions,
            ..NO_CODE
        });
        self.enter(code);
        clear
    }

    /// Learns an access that was not the expected one: it replaces the expected slot, or becomes a new one.
    pub(super) fn learn(&mut self, address: u64, meta: u32) {
        self.address = address;
        let slot = match self.next {
            0 if self.slots.len() >= MOST_SLOTS => return,
            0 => {
                let new = self.slots.len() as u32;
                self.slots.push(NO_SLOT);
                match self.before {
                    0 => self.codes[self.current as usize].first = new,
                    before => self.slots[before as usize].next = new,
                }
                new
            }
            next => next,
        };
        let learnt = &mut self.slots[slot as usize];
        (learnt.last, learnt.meta) = (address, meta);
        self.next = learnt.next;
        self.before = slot;
    }
}

/// Returns the error of a stream whose bytes are no events.
#[cold]
pub(super) fn damaged(what: &str) -> TraceError {
    TraceError::at(
        0,
        format!("damaged: a thread's stream: {what}; make or copy the file again"),
    )
}
