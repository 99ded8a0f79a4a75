//! How records become bytes: docs/traces.md, Records, says it byte by byte.
//!
//! An operation is one byte, whose low two bits are the [`Kind`](crate::Kind), and up to twelve bytes more, which stand apart in the second
//! half of the block: so where the next operation is does not depend on what this one says, and a processor works on many at once. Most
//! records are at a distance from the last of their kind that was there before; rows of a picture and loops, which are most of a recording,
//! become one operation for many records.

use std::hint::select_unpredictable;

use crate::{Kind, Record};

mod decode;
mod encode;

pub(crate) use decode::{Cursor, SCRATCH, Scratch, Step, decode};
pub(crate) use encode::Encoder;

/// The longest block before compression: how much is decoded at once.
pub(crate) const BLOCK: usize = 64 << 10;

/// More bytes than an operation has apart (12), so that any part of them can be read as eight bytes.
pub(crate) const PADDING: usize = 24;

/// Before a block's operations: their number, in four bytes.
const HEAD: usize = 4;

/// No operation, which is a byte at least, says more records than a loop can.
pub(crate) const MOST_AT_ONCE: usize = u16::MAX as usize;

/// The longest loop.
const PERIOD: usize = 32;

/// How many records are looked back at: two rounds of the longest loop.
const RECENT: usize = 2 * PERIOD;

/// Operations that are no records: the low two bits are [`Compute`](crate::Kind::Compute)'s, and the upper three are set, which no record
/// has.
mod control {
    /// Whose bits say that it is one.
    pub(super) const MASK: u8 = 0b1110_0011;
    /// And what they are then.
    pub(super) const BITS: u8 = 0b1110_0000;
    /// The task ends.
    pub(super) const END: u8 = BITS;
    /// The task goes on at the begin of the next block.
    pub(super) const NEXT_BLOCK: u8 = BITS | 1 << 2;
    /// The last records again, each at its distance from the one a period before: the period (a byte) and how many records (two).
    pub(super) const LOOP: u8 = BITS | 2 << 2;
}

/// Where an access is (computation: how many cycles), in bits 2 to 4: its distance from the last of its kind (computation: from 0).
mod place {
    /// The size of that one: it is behind it.
    pub(super) const BEHIND: u8 = 0;
    /// The last distance.
    pub(super) const STRIDE: u8 = 1;
    /// The last distance that differed from that.
    pub(super) const OTHER_STRIDE: u8 = 2;
    /// From here on the distance is told in so many bytes, as its difference from [`least`].
    pub(super) const BYTES: [u8; 8] = [0, 0, 0, 1, 2, 3, 4, 8];

    /// The least distance that can be told: computation has no negative ones.
    pub(super) const fn least(place: u8, compute: bool) -> i64 {
        let bytes = BYTES[place as usize];
        if compute || bytes == 0 || bytes == 8 {
            0
        } else {
            -1 << (8 * bytes - 1)
        }
    }
}

/// What size an access has, in bits 5 to 7; computation, which has none, has the first or the run.
mod size {
    /// A constant (where it is told, 1, and what is told is added); 0: the last of its kind.
    pub(super) const CONSTANTS: [u32; 8] = [0, 4, 8, 16, 0, 1, 1, 1];
    /// The last of its kind, and it is a run: a byte tells how many records, each at this distance from the one before.
    pub(super) const RUN: u8 = 4;
    /// Told in so many bytes (of a run, its length).
    pub(super) const BYTES: [u8; 8] = [0, 0, 0, 0, 1, 1, 2, 4];
}

/// What is known of the records before: encoder and decoder keep the same.
///
/// An array, so that a decoder can look anything up in the same way.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of each kind four: one less than its last size (of computation 0), last distance, last distance that differed from that; and 0.
    sizes_and_strides: [u64; 16],
    /// Of each kind its last address: of computation always 0. The last four are never read.
    values: [u64; 8],
}

impl Seen {
    const fn size(&self, kind: Kind) -> u64 {
        self.sizes_and_strides[kind as usize * 4] + !matches!(kind, Kind::Compute) as u64
    }

    const fn stride(&self, kind: Kind) -> u64 {
        self.sizes_and_strides[kind as usize * 4 + place::STRIDE as usize]
    }

    const fn other_stride(&self, kind: Kind) -> u64 {
        self.sizes_and_strides[kind as usize * 4 + place::OTHER_STRIDE as usize]
    }

    /// What distances are counted from.
    const fn base(&self, kind: Kind) -> u64 {
        self.values[kind as usize]
    }

    /// Notes a record of which only address and size are to be known.
    #[inline]
    const fn arrive(&mut self, record: Record) {
        if !matches!(record.kind, Kind::Compute) {
            self.sizes_and_strides[record.kind as usize * 4] = record.size as u64 - 1;
            self.values[record.kind as usize] = record.value;
        }
    }

    /// Notes the distance of a record of the kind whose first place is `begin`.
    #[inline]
    fn distance(&mut self, begin: usize, distance: u64) {
        let stride = self.sizes_and_strides[begin + 1];
        let other = self.sizes_and_strides[begin + 2];
        self.sizes_and_strides[begin + 1] = distance;
        // No branch, as it could not be foretold.
        self.sizes_and_strides[begin + 2] = select_unpredictable(distance == stride, other, stride);
    }
}
