//! Decoding: from operations and operands to records.
//!
//! Decoding is branch-free per record: a table ([`OP_INFOS`]) holds for each of the 256 operations where its distance and its size come
//! from, and [`decode_record`] adds the same terms for all of them. Only runs and control operations (loops, the end of a task or block)
//! are decoded elsewhere. Records and runs are decoded into a scratch buffer, from which they go to the caller's window once they are
//! checked. Loops are checked first, and then written to the window.
//!
//! Functions that return an `Option` return `None` if they see that the block is damaged; the checksums of a trace find all other damage.

use super::{HEAD, History, MAX_PERIOD, PADDING, RECENT, control, distance_code, size_code};
use crate::{Kind, Record};

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
    /// Records of the current loop that are still to come, because they did not fit into the window.
    loop_left: u32,
    loop_period: u8,
    /// The last records (at most [`RECENT`]) of earlier windows: what a loop at the start of the next window continues.
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

    /// Stores the last records of `window`, which the caller is about to clear, in `recent`.
    pub(crate) fn keep_recent(&mut self, window: &[Record]) {
        if window.len() >= RECENT {
            self.recent.clear();
            self.recent
                .extend_from_slice(&window[window.len() - RECENT..]);
        } else {
            let too_many = (self.recent.len() + window.len()).saturating_sub(RECENT);
            self.recent.drain(..too_many);
            self.recent.extend_from_slice(window);
        }
    }

    /// Returns the record that is `back` records before the next one: 1 is the last record that was decoded. Records before the window are
    /// found in `recent`.
    fn record_before(&self, back: usize, window: &[Record]) -> Option<Record> {
        match window.len().checked_sub(back) {
            Some(at) => Some(window[at]),
            None => self
                .recent
                .len()
                .checked_sub(back - window.len())
                .map(|at| self.recent[at]),
        }
    }

    /// Appends the rest of the current loop to `window`, until the loop ends or the window has `limit` records; returns `None` if the block
    /// is damaged.
    ///
    /// Example with period 2 and the records `r 0`, `x 1`, `r 8`, `x 2` before it: `r 16`, `x 3`, `r 24`, `x 4`, ...
    fn continue_loop(&mut self, window: &mut Vec<Record>, limit: usize) -> Option<()> {
        let period = usize::from(self.loop_period);
        let count = (self.loop_left as usize).min(limit.saturating_sub(window.len()));
        self.loop_left -= count as u32;
        // Records of the period that are continued at least once: all of them, unless fewer records than one period follow.
        let active = period.min(count);
        let mut templates = [Record::compute(0); LOOP_BATCH];
        let (mut values, mut strides) = ([0_u64; LOOP_BATCH], [0_u64; LOOP_BATCH]);
        for i in 0..active {
            templates[i] = self.record_before(period - i, window)?;
            values[i] = templates[i].value;
            let before = self.record_before(2 * period - i, window)?;
            let rounds_left = (count - i).div_ceil(period);
            strides[i] = loop_stride(templates[i], before, rounds_left)?;
        }
        // A period of 2 or 3 records would make short inner loops. So records are computed in batches of as many rounds of the period as
        // fit into the arrays, and from one batch to the next each value advances by `rounds` strides. The arrays begin one batch early.
        //
        // Example: the period's last records are `r 8`, `x 2`, their strides 8 and 1, and a batch is 3 rounds. Then `values` begins with
        // -8, 0, 0, 1, 8, 2, and `strides` becomes 24, 3, 24, 3, 24, 3. Their sum is the first batch: 16, 3, 24, 4, 32, 5.
        let rounds = if active == period {
            LOOP_BATCH / period
        } else {
            1
        };
        let batch = rounds * active;
        // Entry `i` is computed from entry `i % active`, so the loop runs in reverse and overwrites the first `active` entries last.
        for i in (0..batch).rev() {
            let (place, round) = (i % active, i / active);
            let rounds_early = (rounds - 1 - round) as u64;
            templates[i] = templates[place];
            values[i] = values[place].wrapping_sub(strides[place].wrapping_mul(rounds_early));
            strides[i] = strides[place].wrapping_mul(rounds as u64);
        }
        let (templates, strides) = (templates.get(..batch)?, strides.get(..batch)?);
        let mut left = count;
        while left > 0 {
            // `values` is an array of its own: if each value were advanced in `templates`, a copy of the whole record would load more than
            // what was just stored, and such a load cannot be forwarded from the store.
            let parts = templates.iter().zip(strides).zip(&mut values).take(left);
            window.extend(parts.map(|((&template, &stride), value)| {
                *value = value.wrapping_add(stride);
                Record {
                    value: *value,
                    ..template
                }
            }));
            left = left.saturating_sub(batch);
        }
        // The last period holds the last record of each kind in the loop.
        for record in &window[window.len() - active..] {
            self.history.set_last(*record);
        }
        Some(())
    }

    /// Starts a loop of `count` records with `period`, and appends as much of it as fits; returns `None` if the block is damaged.
    fn start_loop(
        &mut self,
        period: u8,
        count: u16,
        window: &mut Vec<Record>,
        limit: usize,
    ) -> Option<()> {
        (self.loop_period, self.loop_left) = (period, count.into());
        if (1..=MAX_PERIOD).contains(&usize::from(period)) {
            self.continue_loop(window, limit)
        } else {
            None
        }
    }
}

/// Returns the stride from `before` to `last`; `None` if their kinds or sizes differ, or if one of the records that continue them in the
/// next `rounds` rounds would pass either end of the address space.
#[inline]
fn loop_stride(last: Record, before: Record, rounds: usize) -> Option<u64> {
    let stride = last.value.wrapping_sub(before.value);
    let alike = (last.kind, last.size) == (before.kind, before.size);
    (alike && stays_in_range(last.value, stride, rounds, last.size)).then_some(stride)
}

/// Returns whether `count` further accesses, each `stride` from the one before, stay within the addresses 0 to 2^64-1. Checking the last
/// one is enough, because the addresses change in one direction only.
#[inline]
fn stays_in_range(value: u64, stride: u64, count: usize, size: u32) -> bool {
    let end = i128::from(value) + i128::from(stride as i64) * count as i128;
    (0..=i128::from(u64::MAX - u64::from(size.saturating_sub(1)))).contains(&end)
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
    /// The [`Kind`] as a number.
    kind: u8,
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
        kind,
        distance_bytes,
        operand_bytes: distance_bytes + size_bytes,
        special: run || op & control::MASK == control::BITS,
    }
}

/// Records of a loop that are computed together; at least [`MAX_PERIOD`].
const LOOP_BATCH: usize = MAX_PERIOD;

/// Records of a run that are computed together.
const RUN_BATCH: usize = 8;

/// Records that are decoded before they are copied to the window.
const BATCH: usize = 128;

/// The longest run in records: its length is one byte.
pub(super) const MAX_RUN: usize = 255;

/// Space for one batch, one run after it, and what is written past the end of the run, because a run is computed [`RUN_BATCH`] records at
/// a time.
pub(crate) type Scratch = [Record; BATCH + MAX_RUN + RUN_BATCH];

/// An empty [`Scratch`].
pub(crate) const SCRATCH: Scratch = [Record::compute(0); BATCH + MAX_RUN + RUN_BATCH];

/// Appends records from `block` to `window` until `window` has at least `limit` records, or the task or the block ends, and returns which;
/// `None` if the block is damaged. Batches and runs are appended as a whole, so `window` may pass `limit`, by less than [`BATCH`] +
/// [`MAX_RUN`] records. `block` must end with [`PADDING`] zeros, after the bytes of the block itself.
pub(crate) fn decode(
    block: &[u8],
    cursor: &mut Cursor,
    window: &mut Vec<Record>,
    limit: usize,
    scratch: &mut Scratch,
) -> Option<Stop> {
    let (head, rest) = block.split_first_chunk::<HEAD>()?;
    let (ops, operands) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
    if cursor.loop_left > 0 {
        cursor.continue_loop(window, limit)?;
    }
    while window.len() < limit {
        let (decoded, control_op) = decode_batch(ops, operands, cursor, scratch)?;
        window.extend_from_slice(&scratch[..decoded]);
        match control_op {
            None => {}
            Some(control::END) => return Some(Stop::End),
            Some(control::NEXT_BLOCK) => return Some(Stop::NextBlock),
            Some(control::LOOP) => {
                let &[period, low, high] =
                    operands.get(cursor.operand_at as usize..)?.first_chunk()?;
                cursor.operand_at += 3;
                cursor.start_loop(period, u16::from_le_bytes([low, high]), window, limit)?;
            }
            Some(_) => return None,
        }
    }
    Some(Stop::Full)
}

/// Decodes records and runs into `scratch` until it has [`BATCH`] records or a control operation follows. Returns the number of records and
/// the control operation.
#[inline]
fn decode_batch(
    ops: &[u8],
    operands: &[u8],
    cursor: &mut Cursor,
    scratch: &mut Scratch,
) -> Option<(usize, Option<u8>)> {
    let mut decoded = 0;
    while decoded < BATCH {
        let rest = ops.get(cursor.op_at as usize..)?;
        let count = decode_until_special(rest, operands, cursor, &mut scratch[decoded..BATCH])?;
        cursor.op_at += count as u32;
        decoded += count;
        if decoded == BATCH {
            break;
        }
        // A special operation follows. (A block that ends here, without a control operation, is damaged.)
        let op = *ops.get(cursor.op_at as usize)?;
        cursor.op_at += 1;
        if op & control::MASK == control::BITS {
            return Some((decoded, Some(op)));
        }
        decoded += decode_run(op, operands, cursor, &mut scratch[decoded..])?;
    }
    Some((decoded, None))
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
    const KINDS: [Kind; 4] = [Kind::Compute, Kind::Fetch, Kind::Read, Kind::Write];
    // The masks of indices here and below change no index; with them the compiler leaves out bounds checks.
    let kind = usize::from(info.kind & 3);
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
            kind: KINDS[kind],
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
