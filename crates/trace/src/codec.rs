//! The coding of records as bytes. docs/traces.md, section Records, specifies the same format byte by byte.
//!
//! A block has two streams: *operations* of one byte each, and their *operands* of 0 to 12 bytes. An operation stands for one record, for a
//! run (records of one kind and size at one distance) or for a loop (the last records again, each moved on by its own stride). Rows of
//! pictures and loops make up most of a recording, and become one operation for many records.
//!
//! The streams are apart so that the position of operation `i + 1` never depends on operation `i`: a processor can then decode several
//! operations at once.
//!
//! ```text
//! block       | count of operations (4 bytes) | operations (1 byte each) | operands |
//!
//! operation   |  7   6   5  |  4   3   2   |  1   0  |
//!             |  size code  | distance code |  kind   |      111ccc00: control code c (end, next block, loop), not a record
//! ```
//!
//! # Example
//! The 27 records on the left become a block of 21 bytes: `08 00 00 00`, then the 8 operations, then the 9 bytes of operands.
//! `tests::example_of_the_module` encodes it and decodes it again.
//!
//! ```text
//! records                  operation = size | distance | kind         operands  because
//! r 0x1000 8               52 = 8     | 2 bytes  | read           00 90     0x1000 from address 0; the operand is 0x1000 + 2^15
//! w 0x2000 8               53 = 8     | 2 bytes  | write          00 a0     0x2000 from address 0: each kind has its own last address
//! r 0x1008 8               02 = last  | behind   | read           -         8 bytes on, which is the last size
//! w 0x2008 8               03 = last  | behind   | write          -
//! r 0x1010 8, w 0x2010 8,
//! ... (12 records)         e8 = loop                              02 0c 00  period 2, 12 records
//! x 5                      0c = last  | 1 byte   | computation    05
//! r 0x1040 8, r 0x1048 8,
//! ... (10 records)         86 = run   | last     | read           0a        10 records, each 8 bytes (the last distance) on
//! (end of the task)        e0 = end                               -
//! ```

use std::hint::select_unpredictable;

use crate::{Kind, Record};

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Cursor, Decoded, Stop, decode};
pub(crate) use encode::Encoder;

/// The longest block in bytes before compression. A block is decompressed as a whole.
pub(crate) const BLOCK: usize = 64 << 10;

/// Zeros after a block in memory. The decoder takes an array of this many bytes at the start of each operation's operands (at most 12
/// bytes), also near the end of the block. In this array it loads 8 bytes at any index from 0 to 15 without a bounds check.
pub(crate) const PADDING: usize = 24;

/// Bytes of the count of operations at the start of a block.
const HEAD: usize = 4;

/// The most records that one operation can stand for: those of the longest loop, whose count has two bytes.
pub(crate) const MAX_RECORDS_PER_OP: usize = u16::MAX as usize;

/// The longest period of a loop in records.
const MAX_PERIOD: usize = 32;

/// The number of earlier records that a loop can refer to: two rounds of the longest period.
const RECENT: usize = 2 * MAX_PERIOD;

/// Operations that are not records. The kind bits are those of [`Compute`](crate::Kind::Compute) and all size bits are set: computation
/// does not use this size code.
mod control {
    /// The kind bits and the size bits.
    pub(super) const MASK: u8 = 0b1110_0011;
    /// Their value in each control operation.
    pub(super) const BITS: u8 = 0b1110_0000;
    /// The task ends. No operands.
    pub(super) const END: u8 = BITS;
    /// The task continues with the first operation of the next block. No operands.
    pub(super) const NEXT_BLOCK: u8 = BITS | 1 << 2;
    /// A loop. Operands: the period in one byte, the number of records in two. Each record continues the two that stand one and two
    /// periods before it: `next = last + (last - before)`.
    pub(super) const LOOP: u8 = BITS | 2 << 2;
}

/// The distance code (bits 2 to 4): how far the record's address is from the last address of the same kind. For computation, whose last
/// address is always 0, the distance is the number of cycles.
mod distance_code {
    /// The last size: the record begins right behind the last record of its kind.
    pub(super) const BEHIND: u8 = 0;
    /// The last distance.
    pub(super) const LAST: u8 = 1;
    /// The most recent distance that differs from the last one.
    pub(super) const OTHER: u8 = 2;
    /// The first code with an operand: the distance minus [`least`], in [`BYTES`] bytes.
    pub(super) const FIRST_EXPLICIT: u8 = 3;
    /// The code with an operand of 8 bytes, into which each distance fits.
    pub(super) const WIDEST: u8 = 7;
    /// Bytes of the operand by code.
    pub(super) const BYTES: [u8; 8] = [0, 0, 0, 1, 2, 3, 4, 8];

    /// Returns the least distance that `code` can express: -2^(bits - 1), or 0 for computation, which has no negative distances, and for
    /// 8 bytes, whose distances wrap.
    pub(super) const fn least(code: u8, compute: bool) -> i64 {
        let bytes = BYTES[code as usize];
        if compute || bytes == 0 || bytes == 8 {
            0
        } else {
            -1 << (8 * bytes - 1)
        }
    }
}

/// The size code (bits 5 to 7). Computation has no size and uses only [`LAST`](size_code::LAST) and [`RUN`](size_code::RUN).
mod size_code {
    /// The last size of the kind.
    pub(super) const LAST: u8 = 0;
    /// The size by code, or for the codes with an operand the least size, to which the operand is added. Unused for [`LAST`] and [`RUN`].
    pub(super) const CONSTANTS: [u32; 8] = [0, 4, 8, 16, 0, 1, 1, 1];
    /// The last size, and the operation is a run: the operand is the number of records, each at the operation's distance from the one
    /// before.
    pub(super) const RUN: u8 = 4;
    /// The first code whose operand is the size minus 1, in [`BYTES`] bytes.
    pub(super) const FIRST_EXPLICIT: u8 = 5;
    /// Bytes of the operand by code.
    pub(super) const BYTES: [u8; 8] = [0, 0, 0, 0, 1, 1, 2, 4];
}

/// What an operation can refer to of the records before it: last sizes, distances and addresses, by kind. The encoder and the decoder
/// keep equal copies.
///
/// Arrays instead of named fields, so that the decoder can look up each of the numbers by an index from a table.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    /// Four words a kind (those of kind `k` begin at `4 * k`): the last size minus 1 (computation: 0), the last distance, the most recent
    /// distance that differs from the last one, and 0. The index of each of the first three among them is the distance code that refers to
    /// it. The decoder adds one word to every operand; if an operation refers to no earlier size or distance, that is the fourth, which is
    /// never written.
    sizes_and_distances: [u64; 16],
    /// The last address by kind; computation's is always 0. The upper four are never read: the decoder writes the value of a computation
    /// to the last one, so that every operation writes one address.
    addresses: [u64; 8],
}

impl History {
    /// Returns the last size of `kind`; 0 for computation.
    const fn last_size(&self, kind: Kind) -> u64 {
        self.sizes_and_distances[kind as usize * 4] + !matches!(kind, Kind::Compute) as u64
    }

    /// Returns the last distance of `kind`.
    const fn last_distance(&self, kind: Kind) -> u64 {
        self.sizes_and_distances[kind as usize * 4 + distance_code::LAST as usize]
    }

    /// Returns the most recent distance of `kind` that differs from [`last_distance`](Self::last_distance).
    const fn other_distance(&self, kind: Kind) -> u64 {
        self.sizes_and_distances[kind as usize * 4 + distance_code::OTHER as usize]
    }

    /// Returns the last address of `kind`, from which its next distance is counted.
    const fn address(&self, kind: Kind) -> u64 {
        self.addresses[kind as usize]
    }

    /// Stores the address and the size of `record` as the last ones of its kind. Leaves the distances as they are: a loop does not change
    /// them, and single records and runs store theirs with [`set_distance`](Self::set_distance).
    #[inline]
    const fn set_last(&mut self, record: Record) {
        // Without a branch on the kind, which would be mispredicted: computation has the size 0, and address 7 is never read.
        let kind = record.kind as usize;
        let access = kind != Kind::Compute as usize;
        self.sizes_and_distances[kind * 4] = (record.size - access as u32) as u64;
        self.addresses[kind | (!access as usize * 7)] = record.value;
    }

    /// Stores `distance` as the last one of the kind whose words in `sizes_and_distances` begin at `first`.
    #[inline]
    fn set_distance(&mut self, first: usize, distance: u64) {
        let last = self.sizes_and_distances[first + 1];
        let other = self.sizes_and_distances[first + 2];
        self.sizes_and_distances[first + 1] = distance;
        // A conditional move, because a branch here would often be mispredicted.
        self.sizes_and_distances[first + 2] = select_unpredictable(distance == last, other, last);
    }
}
