//! From records to operations.

use std::io::Write;

use super::decode::place_in_block;
use super::{BLOCK, HEAD, MOST_AT_ONCE, PERIOD, RECENT, Seen, control, place, size};
use crate::blocks::BlockWriter;
use crate::{Kind, Record, TraceError};

/// How many records are looked at together.
const CHUNK: usize = 4096;

/// A loop pays from so many records on.
const LEAST_LOOP: usize = 12;

/// A run pays from so many records on.
const LEAST_RUN: usize = 5;

/// Encodes the records of one task after another into blocks.
#[derive(Debug)]
pub(crate) struct Encoder<W> {
    pub(crate) blocks: BlockWriter<W>,
    /// The block that is being filled: its operations, and what stands apart.
    ops: Vec<u8>,
    apart: Vec<u8>,
    /// Up to [`RECENT`] records that are encoded, and then those that are not.
    records: Vec<Record>,
    encoded: usize,
    /// Where a record like this one was last, by a hash, as an index into `records`.
    places: Box<[u32; 256]>,
    seen: Seen,
    /// The period of the last loop.
    period: usize,
    /// Block and offset where the task's records begin, once one of them is encoded.
    start: Option<(u32, u32)>,
}

impl<W: Write> Encoder<W> {
    pub(crate) fn new(blocks: BlockWriter<W>) -> Self {
        Self {
            blocks,
            ops: Vec::with_capacity(BLOCK),
            apart: Vec::with_capacity(BLOCK),
            records: Vec::with_capacity(RECENT + CHUNK),
            encoded: 0,
            places: Box::new([u32::MAX; 256]),
            seen: Seen::default(),
            period: 1,
            start: None,
        }
    }

    /// Adds a record to the current task.
    pub(crate) fn push(&mut self, record: Record) -> Result<(), TraceError> {
        self.records.push(record);
        if self.records.len() - self.encoded >= CHUNK {
            self.encode()
        } else {
            Ok(())
        }
    }

    /// Ends the current task: where its records begin, if it has any.
    pub(crate) fn end_task(&mut self) -> Result<Option<(u32, u32)>, TraceError> {
        if self.records.is_empty() {
            return Ok(None);
        }
        self.encode()?;
        self.ops.push(control::END);
        self.records.clear();
        self.encoded = 0;
        self.places.fill(u32::MAX);
        self.seen = Seen::default();
        self.period = 1;
        Ok(self.start.take())
    }

    /// Writes the last block.
    pub(crate) fn finish(mut self) -> Result<BlockWriter<W>, TraceError> {
        if !self.ops.is_empty() {
            self.put_block()?;
        }
        Ok(self.blocks)
    }

    fn put_block(&mut self) -> Result<(), TraceError> {
        let count = self.ops.len() as u32;
        self.ops.splice(..0, count.to_le_bytes());
        self.ops.append(&mut self.apart);
        self.blocks.put(&self.ops)?;
        self.ops.clear();
        Ok(())
    }

    /// Encodes all records that are there, and keeps the last ones to look back at.
    fn encode(&mut self) -> Result<(), TraceError> {
        while self.encoded < self.records.len() {
            self.make_room()?;
            let run = self.run();
            match self.repetition() {
                Some((period, count)) if count > run => self.repeat(period, count),
                _ => self.single(run),
            }
        }
        if self.encoded > RECENT {
            let gone = self.encoded - RECENT;
            self.records.drain(..gone);
            self.encoded = RECENT;
            for place in self.places.iter_mut() {
                *place = if *place == u32::MAX {
                    u32::MAX
                } else {
                    place.checked_sub(gone as u32).unwrap_or(u32::MAX)
                };
            }
        }
        Ok(())
    }

    /// Begins another block if the next operation and the task's end might not fit into this one.
    fn make_room(&mut self) -> Result<(), TraceError> {
        const LONGEST: usize = 13;
        if HEAD + self.ops.len() + self.apart.len() + LONGEST + 1 > BLOCK {
            if self.start.is_some() {
                self.ops.push(control::NEXT_BLOCK);
            }
            self.put_block()?;
        }
        if self.start.is_none() {
            self.start = Some((
                self.blocks.next()?,
                place_in_block(self.ops.len(), self.apart.len()),
            ));
        }
        Ok(())
    }

    /// How many records come next that are alike and at one distance from each other and from the last of their kind.
    fn run(&self) -> usize {
        let first = self.records[self.encoded];
        if u64::from(first.size) != self.seen.size(first.kind) {
            return 1;
        }
        // Without passing either end of the addresses, so that a decoder needs to look at the last one only.
        let Some(distance) = distance(self.seen.base(first.kind), first.value) else {
            return 1;
        };
        let step = if first.kind == Kind::Compute {
            0
        } else {
            distance
        };
        let mut next = Some(first.value);
        let alike = |record: &&Record| {
            let good = (record.kind, record.size) == (first.kind, first.size)
                && next == Some(record.value);
            next = record.value.checked_add_signed(step);
            good
        };
        self.records[self.encoded..]
            .iter()
            .take(0xff)
            .take_while(alike)
            .count()
    }

    /// The period of a loop that says the most of the records that come next, and how many.
    fn repetition(&self) -> Option<(usize, usize)> {
        let at = self.encoded;
        let mut best = (0, 0);
        let place = self.places[hash(self.records[at])] as usize;
        let apart = at.saturating_sub(place);
        for period in [self.period, apart, 2, 3, 4] {
            if !(2..=PERIOD).contains(&period) || 2 * period > at || period == best.0 {
                continue;
            }
            let records = self.records[at..].iter().take(MOST_AT_ONCE).zip(at..);
            let count = records
                .take_while(|(record, i)| self.foretold(*i, period) == Some(**record))
                .count();
            if count > best.1 {
                best = (period, count);
            }
        }
        (best.1 >= LEAST_LOOP).then_some(best)
    }

    /// What record `at` is if it goes on as those one and two periods before.
    fn foretold(&self, at: usize, period: usize) -> Option<Record> {
        let (last, before) = (self.records[at - period], self.records[at - 2 * period]);
        let value = last
            .value
            .checked_add_signed(distance(before.value, last.value)?)?;
        (last.kind == before.kind && last.size == before.size).then_some(Record { value, ..last })
    }

    fn repeat(&mut self, period: usize, count: usize) {
        self.ops.push(control::LOOP);
        self.apart.push(period as u8);
        self.apart.extend((count as u16).to_le_bytes());
        let end = self.encoded + count;
        for at in end - period.min(count)..end {
            let record = self.records[at];
            self.seen.arrive(record);
            self.places[hash(record)] = at as u32;
        }
        self.encoded = end;
        self.period = period;
    }

    /// The next record, or `run` of them.
    fn single(&mut self, run: usize) {
        let record = self.records[self.encoded];
        let (kind, seen) = (record.kind, &mut self.seen);
        let distance = record.value.wrapping_sub(seen.base(kind));
        let compute = kind == Kind::Compute;
        let place = if distance == seen.stride(kind) {
            place::STRIDE
        } else if distance == seen.size(kind) {
            place::BEHIND
        } else if distance == seen.other_stride(kind) {
            place::OTHER_STRIDE
        } else {
            let fits = |&place: &u8| {
                (distance.wrapping_sub(place::least(place, compute) as u64))
                    >> (8 * place::BYTES[usize::from(place)])
                    == 0
            };
            (3..7).find(fits).unwrap_or(7)
        };
        let long = if run >= LEAST_RUN {
            size::RUN
        } else if u64::from(record.size) == seen.size(kind) {
            0
        } else if let Some(i) = size::CONSTANTS[..4]
            .iter()
            .position(|&size| size == record.size)
        {
            i as u8
        } else {
            5 + u8::from(record.size > 1 << 8) + u8::from(record.size > 1 << 16)
        };
        self.ops.push(kind as u8 | place << 2 | long << 5);
        let told = distance.wrapping_sub(place::least(place, compute) as u64);
        self.apart
            .extend(&told.to_le_bytes()[..usize::from(place::BYTES[usize::from(place)])]);
        let told = if long == size::RUN {
            run as u32
        } else {
            record.size.wrapping_sub(1)
        };
        self.apart
            .extend(&told.to_le_bytes()[..usize::from(size::BYTES[usize::from(long)])]);
        let count = if long == size::RUN { run } else { 1 };
        self.encoded += count;
        let last = self.records[self.encoded - 1];
        seen.arrive(last);
        seen.distance(kind as usize * 4, distance);
        self.places[hash(last)] = (self.encoded - 1) as u32;
    }
}

/// How far `to` is from `from`, if that can be said with a sign.
fn distance(from: u64, to: u64) -> Option<i64> {
    i64::try_from(i128::from(to) - i128::from(from)).ok()
}

/// Records that are alike in a loop have the same: code and computations also by their value.
fn hash(record: Record) -> usize {
    let value = if matches!(record.kind, Kind::Compute | Kind::Fetch) {
        record.value
    } else {
        0
    };
    let word = value ^ u64::from(record.size) << 32 ^ record.kind as u64;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
