//! Encoding: from records to operations and operands.
//!
//! The encoder is greedy: at each record it finds the longest run and the best loop that begin there, and writes the longer of the two. If
//! both are too short, it writes the record alone.

use std::io::Write;

use super::decode::{MAX_RUN, position};
use super::{
    BLOCK, HEAD, History, MAX_PERIOD, MAX_RECORDS_PER_OP, RECENT, control, distance_code, size_code,
};
use crate::blocks::BlockWriter;
use crate::{Kind, Record, TraceError};

/// Records that are collected before they are encoded, so that runs and loops can be seen as a whole.
const CHUNK: usize = 4096;

/// The shortest loop that is written, in records. A loop takes 4 bytes, and the decoder needs about as long to start one as for several
/// single operations, so a shorter loop would save little space and cost time.
const MIN_LOOP: usize = 12;

/// The shortest run that is written, in records: a shorter one would hardly save space, and would cost the decoder time.
const MIN_RUN: usize = 5;

/// Encodes the records of one task after another into blocks.
#[derive(Debug)]
pub(crate) struct Encoder<W> {
    pub(crate) blocks: BlockWriter<W>,
    /// Operations of the block that is being filled.
    ops: Vec<u8>,
    /// Operands of the block that is being filled.
    operands: Vec<u8>,
    /// Up to [`RECENT`] records that are encoded already, then those that are not.
    records: Vec<Record>,
    /// How many of `records` are encoded.
    encoded: usize,
    /// For each value of [`hash`], the index in `records` of the last encoded record with this hash; [`ABSENT`] if there is none. The
    /// number of records since then is a candidate for the period of a loop.
    last_with_hash: Box<[u32; 256]>,
    history: History,
    /// The period of the last loop: the next loop often has the same.
    last_period: usize,
    /// Block and [`position`] at which the current task's records begin; `None` before its first operation.
    task_start: Option<(u32, u32)>,
}

impl<W: Write> Encoder<W> {
    pub(crate) fn new(blocks: BlockWriter<W>) -> Self {
        Self {
            blocks,
            ops: Vec::with_capacity(BLOCK),
            operands: Vec::with_capacity(BLOCK),
            records: Vec::with_capacity(RECENT + CHUNK),
            encoded: 0,
            last_with_hash: Box::new([ABSENT; 256]),
            history: History::default(),
            last_period: 1,
            task_start: None,
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

    /// Ends the current task and returns the block and [`position`] at which its records begin; `None` if it has none.
    pub(crate) fn end_task(&mut self) -> Result<Option<(u32, u32)>, TraceError> {
        if self.records.is_empty() {
            return Ok(None);
        }
        self.encode()?;
        self.ops.push(control::END);
        self.records.clear();
        self.encoded = 0;
        self.last_with_hash.fill(ABSENT);
        self.history = History::default();
        self.last_period = 1;
        Ok(self.task_start.take())
    }

    /// Writes the last block and returns the writer.
    pub(crate) fn finish(mut self) -> Result<BlockWriter<W>, TraceError> {
        if !self.ops.is_empty() {
            self.put_block()?;
        }
        Ok(self.blocks)
    }

    /// Writes the collected operations and operands as one block.
    fn put_block(&mut self) -> Result<(), TraceError> {
        let count = self.ops.len() as u32;
        // The whole block is put together in `ops`: the count before the operations, the operands after them.
        self.ops.splice(..0, count.to_le_bytes());
        self.ops.append(&mut self.operands);
        self.blocks.put(&self.ops)?;
        self.ops.clear();
        Ok(())
    }

    /// Encodes all collected records, then drops all but the last [`RECENT`].
    fn encode(&mut self) -> Result<(), TraceError> {
        while self.encoded < self.records.len() {
            self.make_room()?;
            let run = self.run_length();
            match self.best_loop() {
                Some((period, count)) if count > run => self.put_loop(period, count),
                _ => self.put_run_or_record(run),
            }
        }
        if self.encoded > RECENT {
            let dropped = self.encoded - RECENT;
            self.records.drain(..dropped);
            self.encoded = RECENT;
            for index in self.last_with_hash.iter_mut() {
                *index = match *index {
                    ABSENT => ABSENT,
                    index => index.checked_sub(dropped as u32).unwrap_or(ABSENT),
                };
            }
        }
        Ok(())
    }

    /// Starts another block if the longest operation and the end of the task might not fit into this one. Then notes where the current task
    /// begins, unless that is known already.
    fn make_room(&mut self) -> Result<(), TraceError> {
        /// An operation of one byte with 12 bytes of operands.
        const LONGEST: usize = 13;
        if HEAD + self.ops.len() + self.operands.len() + LONGEST + 1 > BLOCK {
            if self.task_start.is_some() {
                self.ops.push(control::NEXT_BLOCK);
            }
            self.put_block()?;
        }
        if self.task_start.is_none() {
            self.task_start = Some((
                self.blocks.next_number()?,
                position(self.ops.len(), self.operands.len()),
            ));
        }
        Ok(())
    }

    /// Returns the number of records (1 to [`MAX_RUN`]) of the run that starts at the next record. All records of a run have the same kind
    /// and size, and the size is the last size of the kind. Each is at the same distance from the one before; the first, from the last
    /// address of the kind.
    fn run_length(&self) -> usize {
        let first = self.records[self.encoded];
        if u64::from(first.size) != self.history.last_size(first.kind) {
            return 1;
        }
        // Neither the distance nor the address of any record may wrap, because the decoder checks only the last record of a run.
        let Some(distance) = distance(self.history.address(first.kind), first.value) else {
            return 1;
        };
        // All records of a run of computation have the same cycles.
        let stride = if first.kind == Kind::Compute {
            0
        } else {
            distance
        };
        let mut next = Some(first.value);
        let alike = |record: &&Record| {
            let good = (record.kind, record.size) == (first.kind, first.size)
                && next == Some(record.value);
            next = record.value.checked_add_signed(stride);
            good
        };
        self.records[self.encoded..]
            .iter()
            .take(MAX_RUN)
            .take_while(alike)
            .count()
    }

    /// Returns period and length of the loop, among the candidate periods, that predicts the most of the next records; `None` if each is
    /// shorter than [`MIN_LOOP`].
    fn best_loop(&self) -> Option<(usize, usize)> {
        let at = self.encoded;
        let mut best = (0, 0);
        let index = self.last_with_hash[hash(self.records[at])] as usize;
        // 0, which is no period, if the index is `ABSENT`.
        let since_similar = at.saturating_sub(index);
        for period in [self.last_period, since_similar, 2, 3, 4] {
            if !(2..=MAX_PERIOD).contains(&period) || 2 * period > at || period == best.0 {
                continue;
            }
            let records = self.records[at..].iter().take(MAX_RECORDS_PER_OP).zip(at..);
            let count = records
                .take_while(|(record, i)| self.predicted(*i, period) == Some(**record))
                .count();
            if count > best.1 {
                best = (period, count);
            }
        }
        (best.1 >= MIN_LOOP).then_some(best)
    }

    /// Returns what record `at` has to be to continue a loop of `period`; `None` if the two records before it in the loop differ in kind or
    /// size, or if the prediction would wrap.
    fn predicted(&self, at: usize, period: usize) -> Option<Record> {
        let (last, before) = (self.records[at - period], self.records[at - 2 * period]);
        let value = last
            .value
            .checked_add_signed(distance(before.value, last.value)?)?;
        (last.kind == before.kind && last.size == before.size).then_some(Record { value, ..last })
    }

    /// Writes a loop of the next `count` records.
    fn put_loop(&mut self, period: usize, count: usize) {
        self.ops.push(control::LOOP);
        self.operands.push(period as u8);
        self.operands.extend((count as u16).to_le_bytes());
        let end = self.encoded + count;
        // The last period is enough: it holds the last record of each kind in the loop, and hashes only propose candidates.
        for at in end - period.min(count)..end {
            let record = self.records[at];
            self.history.set_last(record);
            self.last_with_hash[hash(record)] = at as u32;
        }
        self.encoded = end;
        self.last_period = period;
    }

    /// Writes one operation: a run of the next `run` records if that is at least [`MIN_RUN`], else the next record alone.
    fn put_run_or_record(&mut self, run: usize) {
        let record = self.records[self.encoded];
        let distance = record.value.wrapping_sub(self.history.address(record.kind));
        let distance_code = self.shortest_distance_code(record.kind, distance);
        let size_code = if run >= MIN_RUN {
            size_code::RUN
        } else {
            self.shortest_size_code(record)
        };
        self.ops
            .push(record.kind as u8 | distance_code << 2 | size_code << 5);
        let least = distance_code::least(distance_code, record.kind == Kind::Compute);
        self.put_operand(
            distance.wrapping_sub(least as u64),
            distance_code::BYTES[usize::from(distance_code)],
        );
        let (count, operand) = if size_code == size_code::RUN {
            (run, run as u64)
        } else {
            // Wraps for computation, whose size is 0 and whose size code has no operand.
            (1, u64::from(record.size.wrapping_sub(1)))
        };
        self.put_operand(operand, size_code::BYTES[usize::from(size_code)]);
        self.encoded += count;
        let last = self.records[self.encoded - 1];
        self.history.set_last(last);
        self.history
            .set_distance(record.kind as usize * 4, distance);
        self.last_with_hash[hash(last)] = (self.encoded - 1) as u32;
    }

    /// Returns the shortest code that expresses `distance`.
    fn shortest_distance_code(&self, kind: Kind, distance: u64) -> u8 {
        if distance == self.history.last_distance(kind) {
            return distance_code::LAST;
        }
        if distance == self.history.last_size(kind) {
            return distance_code::BEHIND;
        }
        if distance == self.history.other_distance(kind) {
            return distance_code::OTHER;
        }
        let fits = |&code: &u8| {
            let least = distance_code::least(code, kind == Kind::Compute);
            let operand = distance.wrapping_sub(least as u64);
            operand >> (8 * distance_code::BYTES[usize::from(code)]) == 0
        };
        (distance_code::FIRST_EXPLICIT..distance_code::WIDEST)
            .find(fits)
            .unwrap_or(distance_code::WIDEST)
    }

    /// Returns the shortest code that expresses the size of the single record `record`.
    fn shortest_size_code(&self, record: Record) -> u8 {
        if u64::from(record.size) == self.history.last_size(record.kind) {
            return size_code::LAST;
        }
        let constants = &size_code::CONSTANTS[1..usize::from(size_code::RUN)];
        match constants.iter().position(|&size| size == record.size) {
            Some(i) => 1 + i as u8,
            None => {
                let wider = u8::from(record.size > 1 << 8) + u8::from(record.size > 1 << 16);
                size_code::FIRST_EXPLICIT + wider
            }
        }
    }

    /// Appends the low `bytes` bytes of `operand`.
    fn put_operand(&mut self, operand: u64, bytes: u8) {
        self.operands
            .extend(&operand.to_le_bytes()[..usize::from(bytes)]);
    }
}

/// In `Encoder::last_with_hash`: no record has the hash.
const ABSENT: u32 = u32::MAX;

/// Returns the distance from `from` to `to`; `None` if it does not fit into an `i64`.
fn distance(from: u64, to: u64) -> Option<i64> {
    i64::try_from(i128::from(to) - i128::from(from)).ok()
}

/// Returns a hash that is equal for records that could be one period of a loop apart. The hash of a read or write depends on kind and size
/// only, because its address advances. Fetches and computation mostly repeat exactly, so their values count too.
fn hash(record: Record) -> usize {
    let value = if matches!(record.kind, Kind::Compute | Kind::Fetch) {
        record.value
    } else {
        0
    };
    let word = value ^ u64::from(record.size) << 32 ^ record.kind as u64;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
