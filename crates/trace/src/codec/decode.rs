//! From operations to records.

use super::{HEAD, PADDING, PERIOD, RECENT, Seen, control, place, size};
use crate::{Kind, Record};

/// Where in a task's records a reader is, and what it has to know of those before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// The block; [`NONE`](crate::graph::NONE) at the end.
    pub(crate) block: u32,
    /// The next operation in it.
    op: u32,
    /// What stands apart of it.
    apart: u32,
    seen: Seen,
    /// What is left of a loop that did not fit.
    left: u32,
    period: u8,
    /// The last records of the windows before, when the task goes on.
    recent: Vec<Record>,
}

/// An operation and what stands apart of it, counted from the begin of each; less than 2^16 both.
pub(super) const fn place_in_block(op: usize, apart: usize) -> u32 {
    (op | apart << 16) as u32
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The window is full.
    Full,
    /// The task ended.
    End,
    /// The task goes on in the next block.
    NextBlock,
}

impl Cursor {
    /// At the begin of a task, which [`place_in_block`] says.
    pub(crate) fn at(block: u32, place: u32) -> Self {
        Self {
            block,
            op: place & 0xffff,
            apart: place >> 16,
            ..Self::default()
        }
    }

    /// Goes on in the next block.
    pub(crate) fn next_block(&mut self) {
        self.block += 1;
        (self.op, self.apart) = (0, 0);
    }

    /// Keeps the end of a window that is about to go.
    pub(crate) fn keep(&mut self, window: &[Record]) {
        if window.len() >= RECENT {
            self.recent.clear();
            self.recent
                .extend_from_slice(&window[window.len() - RECENT..]);
        } else {
            let gone = (self.recent.len() + window.len()).saturating_sub(RECENT);
            self.recent.drain(..gone);
            self.recent.extend_from_slice(window);
        }
    }

    /// The record `back` records ago: 1 is the last of the window.
    fn ago(&self, back: usize, window: &[Record]) -> Option<Record> {
        match window.len().checked_sub(back) {
            Some(at) => Some(window[at]),
            None => self
                .recent
                .len()
                .checked_sub(back - window.len())
                .map(|at| self.recent[at]),
        }
    }

    /// Appends what is left of a loop, as far as it fits; nothing when it is none that can be.
    fn go_on(&mut self, window: &mut Vec<Record>, most: usize) -> Option<()> {
        let period = usize::from(self.period);
        let count = (self.left as usize).min(most.saturating_sub(window.len()));
        self.left -= count as u32;
        // Records of the loop that come at all.
        let active = period.min(count);
        let mut shapes = [Record::compute(0); ROUND];
        let (mut values, mut strides) = ([0_u64; ROUND], [0_u64; ROUND]);
        for i in 0..active {
            shapes[i] = self.ago(period - i, window)?;
            values[i] = shapes[i].value;
            strides[i] = stride_of(
                shapes[i],
                self.ago(2 * period - i, window)?,
                (count - i).div_ceil(period),
            )?;
        }
        // Several short rounds at once, as if they were one.
        let rounds = if active == period { ROUND / period } else { 1 };
        let at_once = rounds * active;
        for i in (0..at_once).rev() {
            let (first, behind) = (i % active, (rounds - 1 - i / active) as u64);
            shapes[i] = shapes[first];
            values[i] = values[first].wrapping_sub(strides[first].wrapping_mul(behind));
            strides[i] = strides[first].wrapping_mul(rounds as u64);
        }
        let (shapes, strides) = (shapes.get(..at_once)?, strides.get(..at_once)?);
        let mut left = count;
        while left > 0 {
            // Values apart from the rest: half a record that was just written is read slowly.
            let parts = shapes.iter().zip(strides).zip(&mut values).take(left);
            window.extend(parts.map(|((&shape, &stride), value)| {
                *value = value.wrapping_add(stride);
                Record {
                    value: *value,
                    ..shape
                }
            }));
            left = left.saturating_sub(at_once);
        }
        for record in &window[window.len() - active..] {
            self.seen.arrive(*record);
        }
        Some(())
    }

    /// Begins a loop.
    fn repeat(
        &mut self,
        period: u8,
        count: u32,
        window: &mut Vec<Record>,
        most: usize,
    ) -> Option<()> {
        (self.period, self.left) = (period, count);
        if (1..=PERIOD).contains(&usize::from(period)) {
            self.go_on(window, most)
        } else {
            None
        }
    }
}

/// The distance of two records, if they are alike, and further ones at the same distance, `rounds` of them, are records.
#[inline]
fn stride_of(last: Record, before: Record, rounds: usize) -> Option<u64> {
    let stride = last.value.wrapping_sub(before.value);
    let alike = (last.kind, last.size) == (before.kind, before.size);
    (alike && stride_good(last.value, stride, rounds, last.size)).then_some(stride)
}

/// Whether so many further accesses are where there are addresses: all of them are on one line, so all are if the last one is.
#[inline]
fn stride_good(value: u64, stride: u64, count: usize, size: u32) -> bool {
    let end = i128::from(value) + i128::from(stride as i64) * count as i128;
    (0..=i128::from(u64::MAX - u64::from(size.saturating_sub(1)))).contains(&end)
}

#[inline]
const fn advance(record: &mut Record, stride: u64) -> Record {
    record.value = record.value.wrapping_add(stride);
    *record
}

/// What an operation means, so that nothing about it has to be decided: a wrong guess would cost as much as several records.
#[derive(Clone, Copy)]
struct Meaning {
    /// Of what is told first.
    distance_mask: u64,
    /// The least distance; of an access behind the last one, 1, as sizes are kept less 1.
    least: i32,
    size_mask: u32,
    /// One less than a constant size.
    size_constant: u8,
    /// In [`Seen::sizes_and_strides`]: what is added to the distance and to the size.
    distance_from: u8,
    size_from: u8,
    /// In [`Seen::values`].
    value_to: u8,
    kind: u8,
    distance_bytes: u8,
    bytes: u8,
    /// A run, or no record at all.
    special: bool,
}

static MEANINGS: [Meaning; 256] = {
    let mut all = [meaning(0); 256];
    let mut op = 1;
    while op < 256 {
        all[op] = meaning(op as u8);
        op += 1;
    }
    all
};

const fn meaning(op: u8) -> Meaning {
    let (kind, place, size) = (op & 3, op >> 2 & 7, op >> 5);
    let (distance_bytes, size_bytes) = (place::BYTES[place as usize], size::BYTES[size as usize]);
    let compute = kind == 0;
    let zero = kind * 4 + 3;
    let run = size == size::RUN;
    let last_size = size == 0 || run;
    Meaning {
        distance_mask: if distance_bytes == 0 {
            0
        } else {
            u64::MAX >> (64 - 8 * distance_bytes)
        },
        least: if place == place::BEHIND && !compute {
            1
        } else {
            place::least(place, compute) as i32
        },
        size_mask: if size_bytes == 0 || run || compute {
            0
        } else {
            u32::MAX >> (32 - 8 * size_bytes)
        },
        size_constant: if compute || last_size {
            0
        } else {
            size::CONSTANTS[size as usize] as u8 - 1
        },
        distance_from: if distance_bytes == 0 {
            kind * 4 + place
        } else {
            zero
        },
        size_from: if last_size && !compute {
            kind * 4
        } else {
            zero
        },
        value_to: if compute { 7 } else { kind },
        kind,
        distance_bytes,
        bytes: distance_bytes + size_bytes,
        special: run || op & control::MASK == control::BITS,
    }
}

/// So many records of a loop are made at once; no less than the longest period.
const ROUND: usize = PERIOD;

/// So many records of a run are made at once.
const STEP: usize = 8;

/// So many records are decoded before they are looked at.
const PIECE: usize = 128;

/// The longest run.
const RUN: usize = 255;

/// Where records are put before they are known to be good.
pub(crate) type Scratch = [Record; PIECE + RUN + STEP];

pub(crate) const SCRATCH: Scratch = [Record::compute(0); PIECE + RUN + STEP];

/// Appends records from `block` to `window` until it has `most` or some more; nothing when the block is no such block.
///
/// The block has [`PADDING`] zeros behind it.
pub(crate) fn decode(
    block: &[u8],
    cursor: &mut Cursor,
    window: &mut Vec<Record>,
    most: usize,
    scratch: &mut Scratch,
) -> Option<Step> {
    let (head, rest) = block.split_first_chunk::<HEAD>()?;
    let (ops, apart) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
    if cursor.left > 0 {
        cursor.go_on(window, most)?;
    }
    while window.len() < most {
        let mut have = 0;
        let op = loop {
            let count = accesses(
                ops.get(cursor.op as usize..)?,
                apart,
                cursor,
                &mut scratch[have..PIECE],
            )?;
            cursor.op += count as u32;
            have += count;
            if have >= PIECE {
                break None;
            }
            let op = *ops.get(cursor.op as usize)?;
            cursor.op += 1;
            if op & control::MASK == control::BITS {
                break Some(op);
            }
            have += run(op, apart, cursor, &mut scratch[have..])?;
            if have >= PIECE {
                break None;
            }
        };
        window.extend_from_slice(&scratch[..have]);
        match op {
            None => {}
            Some(control::END) => return Some(Step::End),
            Some(control::NEXT_BLOCK) => return Some(Step::NextBlock),
            Some(control::LOOP) => {
                let told: &[u8; 3] = apart.get(cursor.apart as usize..)?.first_chunk()?;
                cursor.apart += 3;
                cursor.repeat(
                    told[0],
                    u32::from(u16::from_le_bytes([told[1], told[2]])),
                    window,
                    most,
                )?;
            }
            Some(_) => return None,
        }
    }
    Some(Step::Full)
}

/// What must not be of the records that were decoded.
#[derive(Default)]
struct Faults {
    /// That an access passes the last address: its end is before its begin.
    wrapped: bool,
    /// That bit 32 of a size is set.
    sizes: u64,
}

impl Faults {
    const fn none(&self) -> bool {
        !self.wrapped && self.sizes >> 32 == 0
    }
}

/// Decodes one record, and what was told with its size or of its run.
#[inline(always)]
fn access(
    meaning: &Meaning,
    bytes: &[u8; PADDING],
    seen: &mut Seen,
    faults: &mut Faults,
) -> (Record, u64, u32) {
    const KINDS: [Kind; 4] = [Kind::Compute, Kind::Fetch, Kind::Read, Kind::Write];
    let kind = usize::from(meaning.kind & 3);
    let from = seen.sizes_and_strides[usize::from(meaning.distance_from & 15)];
    let distance = from
        .wrapping_add(word(bytes, 0) & meaning.distance_mask)
        .wrapping_add(meaning.least as i64 as u64);
    let told = word(bytes, meaning.distance_bytes) as u32;
    let from = seen.sizes_and_strides[usize::from(meaning.size_from & 15)];
    let less_one = from + u64::from(meaning.size_constant) + u64::from(told & meaning.size_mask);
    let size = less_one + u64::from(kind != 0);
    let value = seen.values[kind].wrapping_add(distance);
    seen.values[usize::from(meaning.value_to & 7)] = value;
    seen.sizes_and_strides[kind * 4] = less_one;
    seen.distance(kind * 4, distance);
    faults.wrapped |= value.overflowing_add(less_one).1;
    faults.sizes |= size;
    (
        Record {
            value,
            size: size as u32,
            kind: KINDS[kind],
        },
        distance,
        told,
    )
}

/// Decodes records into `out` until it is full or another operation comes: how many; nothing when one of them is no record.
#[inline(never)]
fn accesses(ops: &[u8], apart: &[u8], cursor: &mut Cursor, out: &mut [Record]) -> Option<usize> {
    let mut at = cursor.apart as usize;
    let mut faults = Faults::default();
    let mut count = 0;
    for (out, &op) in out.iter_mut().zip(ops) {
        let meaning = &MEANINGS[usize::from(op)];
        if meaning.special {
            break;
        }
        let bytes = apart.get(at..)?.first_chunk()?;
        at += usize::from(meaning.bytes);
        *out = access(meaning, bytes, &mut cursor.seen, &mut faults).0;
        count += 1;
    }
    cursor.apart = at as u32;
    faults.none().then_some(count)
}

/// Decodes a run: how many records it has.
fn run(op: u8, apart: &[u8], cursor: &mut Cursor, out: &mut [Record]) -> Option<usize> {
    let meaning = &MEANINGS[usize::from(op)];
    let bytes = apart.get(cursor.apart as usize..)?.first_chunk()?;
    cursor.apart += u32::from(meaning.bytes);
    let mut faults = Faults::default();
    let (mut record, distance, told) = access(meaning, bytes, &mut cursor.seen, &mut faults);
    let (first, out) = out.split_first_mut()?;
    *first = record;
    let step = if record.kind == Kind::Compute {
        0
    } else {
        distance
    };
    let more = usize::from(told as u8).checked_sub(1)?;
    if !faults.none() || !stride_good(record.value, step, more, record.size) {
        return None;
    }
    cursor.seen.values[usize::from(meaning.value_to & 7)] =
        record.value.wrapping_add(step.wrapping_mul(more as u64));
    // A fixed number each time, as few runs are longer, and where a loop ends could not be foretold.
    for from in (0..more).step_by(STEP) {
        let out: &mut [Record; STEP] = out[from..].first_chunk_mut()?;
        for out in out {
            *out = advance(&mut record, step);
        }
    }
    Some(more + 1)
}

#[inline]
fn word(bytes: &[u8; PADDING], at: u8) -> u64 {
    // At most eight bytes are before it, so there always are eight.
    bytes[usize::from(at & 15)..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
