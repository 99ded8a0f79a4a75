//! Decoding: from operations and operands to records.
//!
//! Decoding is branch-free per record: a table ([`OP_INFOS`]) holds for each of the 256 operations where its distance and its size come
//! from, and [`decode_record`] adds the same terms for all of them. Only runs and control operations (loops, the end of a task or block)
//! are decoded elsewhere. All go into one buffer ([`Decoded`]), in which loops find the records that they continue.
//!
//! Functions that return an `Option` return `None` if they see that the block is damaged; the checksums of a trace find all other damage.

use super::{HEAD, History, MAX_PERIOD, PADDING, RECENT, control, distance_code, size_code};
use crate::{Kind, Record};
use std::hint::select_unpredictable;

/// Position of a reader in a task's records, and what later operations can refer to of earlier records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// Number of the current block; [`NONE`](crate::graph::NONE) at the end of the task.
    pub(crate) block: u32,
    /// Index of the next operation in the block.
    op_at: u32,
    /// Index of the next operand byte in the block.
    operand_at: u32,
    history: History,
    /// Records of the current loop that are still to come, because they did not fit into [`Decoded`].
    loop_left: u32,
    loop_period: u8,
    /// The last records (at most [`RECENT`]) before the next one: what a loop may continue.
    recent: Vec<Record>,
}

/// Returns an index of an operation and one of an operand byte, both less than 2^16, packed into the position that the graph stores for a
/// task.
pub(super) const fn position(op: usize, operand: usize) -> u32 {
    (op | operand << 16) as u32
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The window is full.
    Full,
    /// The task ended.
    End,
    /// The task continues in the next block.
    NextBlock,
}

impl Cursor {
    /// Returns a cursor at the first record of a task: `position` (see [`position`]) in `block`.
    pub(crate) fn at(block: u32, position: u32) -> Self {
        Self {
            block,
            op_at: position & 0xffff,
            operand_at: position >> 16,
            ..Self::default()
        }
    }

    /// Moves to the start of the next block.
    pub(crate) fn next_block(&mut self) {
        self.block += 1;
        (self.op_at, self.operand_at) = (0, 0);
    }

    /// Appends the rest of the current loop to `out`, until the loop ends or `out` is full; returns `None` if the block is damaged.
    ///
    /// Example with period 2 and the records `r 0`, `x 1`, `r 8`, `x 2` before it: `r 16`, `x 3`, `r 24`, `x 4`, ...
    fn continue_loop(&mut self, out: &mut Decoded) -> Option<()> {
        let period = usize::from(self.loop_period);
        let from = out.end;
        let count = (self.loop_left as usize).min(FULL.saturating_sub(from));
        self.loop_left -= count as u32;
        // Each record of the loop continues one that stands two periods before it.
        if count > 0 && from - out.first < 2 * period {
            return None;
        }
        let (rounds, rest) = (count / period, count % period);
        let records = out.records.get_mut(..from + count)?;
        let mut is_good = true;
        // One place of the period after another, in all rounds: value and stride stay in registers.
        for place in 0..period.min(count) {
            let last = records[from + place - period];
            let before = records[from + place - 2 * period];
            let rounds = rounds + usize::from(place < rest);
            let stride = last.value.wrapping_sub(before.value);
            is_good &= (last.kind, last.size) == (before.kind, before.size)
                && stays_in_range(last.value, stride, rounds, last.size);
            let (mut value, mut at) = (last.value, from + place);
            while let Some(record) = records.get_mut(at) {
                value = value.wrapping_add(stride);
                *record = Record { value, ..last };
                at += period;
            }
        }
        // The last period holds the last record of each kind in the loop.
        for record in &records[from + count - period.min(count)..] {
            self.history.set_last(*record);
        }
        out.end = from + count;
        is_good.then_some(())
    }

    /// Starts a loop of `count` records with `period`, and appends as much of it as fits; returns `None` if the block is damaged.
    fn start_loop(&mut self, period: u8, count: u16, out: &mut Decoded) -> Option<()> {
        (self.loop_period, self.loop_left) = (period, count.into());
        if (1..=MAX_PERIOD).contains(&usize::from(period)) {
            self.continue_loop(out)
        } else {
            None
        }
    }
}

/// Returns whether `count` further accesses (at most [`MAX_RECORDS_PER_OP`]), each `stride` from the one before, stay within the addresses
/// 0 to 2^64-1, in which the access at `value` lies. Checking the last one is enough, because the addresses change in one direction only.
#[inline(always)]
fn stays_in_range(value: u64, stride: u64, count: usize, size: u32) -> bool {
    let last = u64::MAX - u64::from(size.saturating_sub(1));
    let stride = stride as i64;
    let length = stride.unsigned_abs();
    let room = select_unpredictable(stride < 0, value, last.wrapping_sub(value));
    // A product of 128 bits is slower; most have 64.
    if length >> 48 == 0 {
        length * count as u64 <= room
    } else {
        u128::from(length) * count as u128 <= u128::from(room)
    }
}

/// Adds `stride` to the value of `record` and returns a copy.
#[inline]
const fn advance(record: &mut Record, stride: u64) -> Record {
    record.value = record.value.wrapping_add(stride);
    *record
}

/// How one operation computes its record:
///
/// ```text
/// distance = sizes_and_distances[distance_from] + (first operand & distance_mask) + least
/// size - 1 = sizes_and_distances[size_from] + size_constant + (second operand & size_mask)
/// value    = addresses[kind] + distance
/// ```
///
/// Terms that an operation does not use are 0, so that no operation needs a branch: a mispredicted one would cost as much as decoding
/// several records.
#[derive(Clone, Copy)]
struct OpInfo {
    /// Which bits of the first eight operand bytes belong to the distance.
    distance_mask: u64,
    /// The least distance of the code; 1 for [`BEHIND`](distance_code::BEHIND), since the history has the size minus 1.
    least: i32,
    /// Which bits of the four bytes behind the distance's belong to the size.
    size_mask: u32,
    /// The constant part of the size: the size itself or, with an operand, the least size; minus 1. 0 for computation and the last size.
    size_constant: u8,
    /// Index in [`History::sizes_and_distances`] of the term that is added to the distance.
    distance_from: u8,
    /// Index in [`History::sizes_and_distances`] of the term that is added to the size.
    size_from: u8,
    /// Index in [`History::addresses`] that receives the value; 7, which is never read, for computation.
    address_to: u8,
    kind: Kind,
    /// Bytes of the distance's operand.
    distance_bytes: u8,
    /// Bytes of all operands.
    operand_bytes: u8,
    /// Whether the operation is a run or a control operation, which the branch-free loop ([`decode_until_special`]) leaves to its caller.
    special: bool,
}

/// By operation, how it computes its record.
static OP_INFOS: [OpInfo; 256] = {
    let mut all = [op_info(0); 256];
    let mut op = 1;
    while op < 256 {
        all[op] = op_info(op as u8);
        op += 1;
    }
    all
};

/// Returns a mask of the lowest `bytes` bytes of a word.
const fn low_bytes(bytes: u8) -> u64 {
    if bytes == 0 {
        0
    } else {
        u64::MAX >> (64 - 8 * bytes)
    }
}

/// Computes and returns the table entry of `op`.
const fn op_info(op: u8) -> OpInfo {
    const KINDS: [Kind; 4] = [Kind::Compute, Kind::Fetch, Kind::Read, Kind::Write];
    let (kind, distance, size) = (op & 3, op >> 2 & 7, op >> 5);
    let (distance_bytes, size_bytes) = (
        distance_code::BYTES[distance as usize],
        size_code::BYTES[size as usize],
    );
    let compute = kind == 0;
    // The word of each kind that is always 0.
    let zero = kind * 4 + 3;
    let run = size == size_code::RUN;
    let last_size = size == size_code::LAST || run;
    OpInfo {
        distance_mask: low_bytes(distance_bytes),
        least: if distance == distance_code::BEHIND && !compute {
            1
        } else {
            distance_code::least(distance, compute) as i32
        },
        size_mask: low_bytes(if run || compute { 0 } else { size_bytes }) as u32,
        size_constant: if compute || last_size {
            0
        } else {
            size_code::CONSTANTS[size as usize] as u8 - 1
        },
        distance_from: if distance_bytes == 0 {
            kind * 4 + distance
        } else {
            zero
        },
        size_from: if last_size && !compute {
            kind * 4
        } else {
            zero
        },
        address_to: if compute { 7 } else { kind },
        kind: KINDS[kind as usize],
        distance_bytes,
        operand_bytes: distance_bytes + size_bytes,
        special: run || op & control::MASK == control::BITS,
    }
}

/// Records of a run that are computed together.
const RUN_BATCH: usize = 8;

/// The longest run in records: its length is one byte.
pub(super) const MAX_RUN: usize = 255;

/// Records that are decoded at once, unless the task ends. A run may add up to [`MAX_RUN`] - 1 more.
const WINDOW: usize = 512;

/// The end of [`Decoded`] from which on nothing is added.
const FULL: usize = RECENT + WINDOW;

/// Records that were decoded at once, behind the last ones that were decoded before them.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// Up to [`RECENT`] earlier records, then, from [`RECENT`] on, those that were decoded. Behind these there is space for a run, which is
    /// computed [`RUN_BATCH`] records at a time.
    records: [Record; FULL + MAX_RUN + RUN_BATCH],
    /// Index of the first earlier record.
    first: usize,
    /// Index behind the last record.
    end: usize,
}

impl Decoded {
    /// Returns no records.
    pub(crate) fn new() -> Box<Decoded> {
        Box::new(Decoded {
            records: [Record::compute(0); FULL + MAX_RUN + RUN_BATCH],
            first: RECENT,
            end: RECENT,
        })
    }

    /// Forgets all records. What is decoded next continues at `cursor`.
    pub(crate) fn begin(&mut self, cursor: &Cursor) {
        self.first = RECENT - cursor.recent.len();
        self.end = RECENT;
        self.records[self.first..RECENT].copy_from_slice(&cursor.recent);
    }

    /// Stores in `cursor` what a continuation may refer to.
    pub(crate) fn keep_recent(&self, cursor: &mut Cursor) {
        let first = self.first.max(self.end.saturating_sub(RECENT));
        cursor.recent.clear();
        cursor
            .recent
            .extend_from_slice(&self.records[first..self.end]);
    }

    /// Returns the records that were decoded since [`Decoded::begin`].
    pub(crate) fn records(&self) -> &[Record] {
        &self.records[RECENT..self.end]
    }
}

/// Appends records from `block` to `out` until it is full, or the task or the block ends, and returns which; `None` if the block is
/// damaged. `block` must end with [`PADDING`] zeros, after the bytes of the block itself.
pub(crate) fn decode(block: &[u8], cursor: &mut Cursor, out: &mut Decoded) -> Option<Stop> {
    let (head, rest) = block.split_first_chunk::<HEAD>()?;
    let (ops, operands) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
    if cursor.loop_left > 0 {
        cursor.continue_loop(out)?;
    }
    while out.end < FULL {
        let rest = ops.get(cursor.op_at as usize..)?;
        let records = out.records.get_mut(out.end..FULL)?;
        let count = decode_until_special(rest, operands, cursor, records)?;
        cursor.op_at += count as u32;
        out.end += count;
        if out.end == FULL {
            break;
        }
        // A special operation follows. (A block that ends here, without a control operation, is damaged.)
        let op = *rest.get(count)?;
        cursor.op_at += 1;
        match op {
            control::END => return Some(Stop::End),
            control::NEXT_BLOCK => return Some(Stop::NextBlock),
            control::LOOP => {
                let &[period, low, high] =
                    operands.get(cursor.operand_at as usize..)?.first_chunk()?;
                cursor.operand_at += 3;
                cursor.start_loop(period, u16::from_le_bytes([low, high]), out)?;
            }
            _ if op & control::MASK == control::BITS => return None,
            _ => out.end += decode_run(op, operands, cursor, out.records.get_mut(out.end..)?)?,
        }
    }
    Some(Stop::Full)
}

/// Faults of decoded records, collected without a branch and checked once a batch.
#[derive(Default)]
struct Faults {
    /// Some access passes the last address: its address plus its size minus 1 overflows.
    wrapped: bool,
    /// The bitwise or of all sizes. A size of 2^32, the only size too large that an operation can express, sets bit 32.
    sizes: u64,
}

impl Faults {
    const fn are_none(&self) -> bool {
        !self.wrapped && self.sizes >> 32 == 0
    }
}

/// Decodes one record as [`OpInfo`] describes, and updates `history`. Returns the record, its distance and the second operand, which is the
/// length if the operation is a run.
#[inline(always)]
fn decode_record(
    info: &OpInfo,
    bytes: &[u8; PADDING],
    history: &mut History,
    faults: &mut Faults,
) -> (Record, u64, u32) {
    // The masks of indices here and below change no index; with them the compiler leaves out bounds checks.
    let kind = info.kind as usize;
    let distance_base = history.sizes_and_distances[usize::from(info.distance_from & 15)];
    let distance = distance_base
        .wrapping_add(word(bytes, 0) & info.distance_mask)
        .wrapping_add(info.least as i64 as u64);
    let operand = word(bytes, info.distance_bytes) as u32;
    let size_base = history.sizes_and_distances[usize::from(info.size_from & 15)];
    let size_minus_1 =
        size_base + u64::from(info.size_constant) + u64::from(operand & info.size_mask);
    let size = size_minus_1 + u64::from(kind != 0);
    let value = history.addresses[kind].wrapping_add(distance);
    history.addresses[usize::from(info.address_to & 7)] = value;
    history.sizes_and_distances[kind * 4] = size_minus_1;
    history.set_distance(kind * 4, distance);
    faults.wrapped |= value.overflowing_add(size_minus_1).1;
    faults.sizes |= size;
    (
        Record {
            value,
            size: size as u32,
            kind: info.kind,
        },
        distance,
        operand,
    )
}

/// Decodes records into `out` until `out` is full or a special operation or the end of `ops` follows. Returns the number of records.
#[inline(never)]
fn decode_until_special(
    ops: &[u8],
    operands: &[u8],
    cursor: &mut Cursor,
    out: &mut [Record],
) -> Option<usize> {
    let mut at = cursor.operand_at as usize;
    let mut faults = Faults::default();
    let mut count = 0;
    for (record, &op) in out.iter_mut().zip(ops) {
        let info = &OP_INFOS[usize::from(op)];
        if info.special {
            break;
        }
        let bytes = operands.get(at..)?.first_chunk()?;
        at += usize::from(info.operand_bytes);
        *record = decode_record(info, bytes, &mut cursor.history, &mut faults).0;
        count += 1;
    }
    cursor.operand_at = at as u32;
    faults.are_none().then_some(count)
}

/// Decodes the run `op` into `out` and returns the number of its records.
fn decode_run(op: u8, operands: &[u8], cursor: &mut Cursor, out: &mut [Record]) -> Option<usize> {
    let info = &OP_INFOS[usize::from(op)];
    let bytes = operands.get(cursor.operand_at as usize..)?.first_chunk()?;
    cursor.operand_at += u32::from(info.operand_bytes);
    let mut faults = Faults::default();
    let (mut record, distance, operand) =
        decode_record(info, bytes, &mut cursor.history, &mut faults);
    let (first, out) = out.split_first_mut()?;
    *first = record;
    // Computation has no address that advances: all records of the run have the same cycles.
    let stride = if record.kind == Kind::Compute {
        0
    } else {
        distance
    };
    // The number of records after the first, which is decoded already. Only the lowest byte of `operand` is the run's; a run of 0 records
    // is refused.
    let more = usize::from(operand as u8).checked_sub(1)?;
    if !faults.are_none() || !stays_in_range(record.value, stride, more, record.size) {
        return None;
    }
    cursor.history.addresses[usize::from(info.address_to & 7)] =
        record.value.wrapping_add(stride.wrapping_mul(more as u64));
    // Always whole batches, for which `Scratch` has space: most runs fit into one, and the exit of a loop with an exact count would be
    // mispredicted.
    for from in (0..more).step_by(RUN_BATCH) {
        let out: &mut [Record; RUN_BATCH] = out[from..].first_chunk_mut()?;
        for next in out {
            *next = advance(&mut record, stride);
        }
    }
    Some(more + 1)
}

/// Returns the eight bytes at `at`, which is at most 8 (the distance's operand is before it).
#[inline]
fn word(bytes: &[u8; PADDING], at: u8) -> u64 {
    // The mask lets the compiler leave out the bounds check: 15 + 8 is less than `PADDING`.
    bytes[usize::from(at & 15)..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
