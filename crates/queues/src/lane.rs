//! A bounded queue from one sender to one receiver, in words that two processes may share.
//!
//! The words are atomics, and both ends work on them by safe code: whatever another process writes there, an end reads numbers, compares
//! them with what it knows, and reports [`Garbage`] if they cannot be. No index and no length is used before that.
//!
//! # Layout
//! A lane has `capacity` slots, a power of two. Message number `n` (from 0) goes into slot `n mod capacity`:
//!
//! | word | holds |
//! |---|---|
//! | 0 | the *stamp*: `n + 1` once message `n` is complete, before that what the last lap left: `n + 1 - capacity`, or 0 |
//! | 1 | the destination in the lower half, the length of the payload in bytes in the upper half |
//! | 2 | the message's value |
//! | from 3 | the payload, in place |
//!
//! A message is *committed* by the store of its stamp, one word. So a sender that ends before it, at whatever instruction, has sent
//! nothing and holds nothing up; and the receiver finds the stamp and a short message in one cache line. The receiver publishes in `head`
//! how many messages it has released. A receiver that ends between taking and releasing leaves the message to its successor.

use crate::Padded;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::total_order;

/// Words of a slot before the payload.
const HEADER: usize = 3;

/// What the other end wrote cannot be: it is at fault, or another process writes into the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Garbage;

impl std::fmt::Debug for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the other end of the lane has written what cannot be")
    }
}

impl std::error::Error for Garbage {}

/// How many slots a lane has, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShape {
    capacity: u64,
    payload: u32,
    stride: usize,
}

impl LaneShape {
    /// The most messages of a lane.
    pub const MAX_CAPACITY: u64 = 1 << 24;
    /// The most bytes of a payload.
    pub const MAX_PAYLOAD: u32 = 1 << 24;

    /// Returns the shape of a lane for at least `capacity` messages, each with up to `payload` bytes; `None` if that is 0 or more than
    /// the limits.
    pub fn new(capacity: u64, payload: u32) -> Option<LaneShape> {
        if capacity == 0 || capacity > Self::MAX_CAPACITY || payload > Self::MAX_PAYLOAD {
            return None;
        }
        let words = HEADER + payload.div_ceil(8) as usize;
        // Half a cache line, or whole ones: a short message never lies across two.
        let stride = if words <= 4 {
            4
        } else {
            words.next_multiple_of(8)
        };
        Some(LaneShape {
            capacity: capacity.next_power_of_two(),
            payload,
            stride,
        })
    }

    /// Returns the number of messages for which there is room.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// Returns the most bytes of a payload.
    pub fn payload(self) -> u32 {
        self.payload
    }

    /// Returns the number of words that the slots of a lane take: at most 2^24 times (3 + 2^21 + 7).
    pub fn words(self) -> u64 {
        self.capacity * self.stride as u64
    }

    fn slot(self, slots: &[AtomicU64], number: u64) -> &[AtomicU64] {
        let at = (number & (self.capacity - 1)) as usize * self.stride;
        &slots[at..at + self.stride]
    }

    fn payload_of(self, slots: &[AtomicU64], number: u64) -> &[AtomicU64] {
        let words = self.payload.div_ceil(8) as usize;
        &self.slot(slots, number)[HEADER..HEADER + words]
    }
}

/// The words of a lane beside its slots, at first 0.
#[derive(Debug, Default)]
#[repr(C)]
pub struct LaneWords {
    /// Messages that the sender has committed; may be one too few if the sender was killed. Nothing but a successor reads it.
    tail: Padded<AtomicU64>,
    /// Messages that the receiver has released.
    head: Padded<AtomicU64>,
}

impl LaneWords {
    /// Returns the words of a lane that was never used.
    pub fn new() -> LaneWords {
        LaneWords::default()
    }
}

/// The sender's end. Its owner passes the same words, slots and shape in every call; the memory is shared, the end is not.
#[derive(Debug)]
pub struct LaneSender {
    shape: LaneShape,
    /// The number of the next message.
    next: u64,
    /// Messages that the receiver had released when the sender last looked.
    released: u64,
}

impl LaneSender {
    /// Continues after the last message that an earlier sender, if any, has committed. No other sender may be at work.
    ///
    /// # Errors
    /// If the words cannot be those of a lane of this shape.
    pub fn resume(
        shape: LaneShape,
        words: &LaneWords,
        slots: &[AtomicU64],
    ) -> Result<Self, Garbage> {
        let released = words.head.0.load(Ordering::Acquire);
        let mut next = words.tail.0.load(Ordering::Acquire);
        // The sender before this one may have been killed between its stamp and this word.
        if released == next.wrapping_add(1) {
            next = released;
        }
        if next.wrapping_sub(released) > shape.capacity || next > u64::MAX / 2 {
            return Err(Garbage);
        }
        if next - released < shape.capacity
            && shape.slot(slots, next)[0].load(Ordering::Acquire) == next + 1
        {
            next += 1;
        }
        // So the word never lacks more than one message, however many senders were killed.
        words.tail.0.store(next, Ordering::Release);
        Ok(LaneSender {
            shape,
            next,
            released,
        })
    }

    /// Returns the number of messages that were ever committed in this lane.
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// Returns whether there is room for a message. Cost: a comparison; a cache line of the receiver's once in `capacity` messages.
    ///
    /// # Errors
    /// If the receiver's word cannot be.
    #[inline]
    pub fn has_room(&mut self, words: &LaneWords) -> Result<bool, Garbage> {
        if self.next - self.released < self.shape.capacity {
            return Ok(true);
        }
        self.look(words)?;
        Ok(self.next - self.released < self.shape.capacity)
    }

    /// Returns how many messages the receiver has not released yet.
    ///
    /// # Errors
    /// If the receiver's word cannot be.
    pub fn pending(&mut self, words: &LaneWords) -> Result<u64, Garbage> {
        self.look(words)?;
        Ok(self.next - self.released)
    }

    fn look(&mut self, words: &LaneWords) -> Result<(), Garbage> {
        total_order();
        let released = words.head.0.load(Ordering::SeqCst);
        if !(self.released..=self.next).contains(&released) {
            return Err(Garbage);
        }
        self.released = released;
        Ok(())
    }

    /// Returns the payload of the next message, to be written by relaxed stores before [`commit`](Self::commit). Only if there
    /// [is room](Self::has_room).
    #[inline]
    pub fn payload<'a>(&self, slots: &'a [AtomicU64]) -> &'a [AtomicU64] {
        self.shape.payload_of(slots, self.next)
    }

    /// Commits the next message. With `SeqCst` as the order, it is visible to every [`LaneReceiver::peek`] that follows in the total order
    /// of `SeqCst` operations. `Release` is enough, and costs less, for a receiver that never sleeps.
    ///
    /// # Panics
    /// If `length` is more than the shape's payload, or there was no [room](Self::has_room).
    #[inline]
    pub fn commit(
        &mut self,
        words: &LaneWords,
        slots: &[AtomicU64],
        (to, length, value): (u32, u32, u64),
        order: Ordering,
    ) {
        assert!(length <= self.shape.payload, "the payload fits into a slot");
        assert!(
            self.next - self.released < self.shape.capacity,
            "there is room"
        );
        let slot = self.shape.slot(slots, self.next);
        slot[1].store(u64::from(to) | u64::from(length) << 32, Ordering::Relaxed);
        slot[2].store(value, Ordering::Relaxed);
        self.next += 1;
        slot[0].store(self.next, order);
        if order == Ordering::SeqCst {
            total_order();
        }
        words.tail.0.store(self.next, Ordering::Release);
    }
}

/// A committed message: copies of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The destination.
    pub to: u32,
    /// Bytes of the payload; at most as many as the lane's shape allows.
    pub length: u32,
    /// The value.
    pub value: u64,
}

/// The receiver's end. Its owner passes the same words, slots and shape in every call.
#[derive(Debug)]
pub struct LaneReceiver {
    shape: LaneShape,
    /// The number of the next message.
    next: u64,
}

impl LaneReceiver {
    /// Continues with the first message that an earlier receiver, if any, has not released. No other receiver may be at work.
    ///
    /// # Errors
    /// If the words cannot be those of a lane of this shape.
    pub fn resume(shape: LaneShape, words: &LaneWords) -> Result<Self, Garbage> {
        let next = words.head.0.load(Ordering::Acquire);
        match next > u64::MAX / 2 {
            true => Err(Garbage),
            false => Ok(LaneReceiver { shape, next }),
        }
    }

    /// Returns the number of messages that were ever released in this lane.
    pub fn released(&self) -> u64 {
        self.next
    }

    /// Returns the next message, without taking it; `None` if there is none. `SeqCst`: a receiver that announces its sleep before it
    /// calls this sees each message whose sender did not see the announcement.
    ///
    /// # Errors
    /// If the sender's words cannot be.
    #[inline]
    pub fn peek(&self, slots: &[AtomicU64]) -> Result<Option<Descriptor>, Garbage> {
        let slot = self.shape.slot(slots, self.next);
        total_order();
        let stamp = slot[0].load(Ordering::SeqCst);
        if stamp != self.next + 1 {
            let before = (self.next + 1).saturating_sub(self.shape.capacity);
            return match stamp == before {
                true => Ok(None),
                false => Err(Garbage),
            };
        }
        let word = slot[1].load(Ordering::Relaxed);
        let (to, length) = (word as u32, (word >> 32) as u32);
        if length > self.shape.payload {
            return Err(Garbage);
        }
        let value = slot[2].load(Ordering::Relaxed);
        Ok(Some(Descriptor { to, length, value }))
    }

    /// Returns the payload of the message that [`peek`](Self::peek) has found, to be read by relaxed loads before it is released.
    #[inline]
    pub fn payload<'a>(&self, slots: &'a [AtomicU64]) -> &'a [AtomicU64] {
        self.shape.payload_of(slots, self.next)
    }

    /// Releases the message that [`peek`](Self::peek) has found: its slot can be written again. `SeqCst`, as [`peek`](Self::peek): a
    /// sender that announces that it waits for room before it [looks](LaneSender::has_room) sees the room, or the receiver sees the
    /// announcement. `Release` is enough for a sender that never sleeps.
    #[inline]
    pub fn release(&mut self, words: &LaneWords, order: Ordering) {
        self.next += 1;
        words.head.0.store(self.next, order);
        if order == Ordering::SeqCst {
            total_order();
        }
    }
}
