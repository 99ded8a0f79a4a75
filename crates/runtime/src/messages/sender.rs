//! The sender's end.

use super::channel::{Claim, Core};
use super::error::{ChannelError, SendError};
use super::memory::store;
use super::{LOOK_FOR_DEATHS, clock, futex, presence};
use crate::parking;
use std::fmt;
use std::time::Instant;
use tanada_policy::Time;
use tanada_queues::LaneSender;
use tanada_queues::sync::Arc;
use tanada_queues::sync::atomic::{AtomicU64, Ordering};
use tanada_queues::sync::{spin_loop, total_order};

/// Sends messages through a lane of its own. Dropping it frees the lane.
pub struct Sender {
    core: Arc<Core>,
    lane: usize,
    end: LaneSender,
    /// The lane's words are corrupt: nothing is sent any more.
    corrupt: bool,
    _claim: Claim,
}

impl Sender {
    pub(super) fn new(core: &Arc<Core>, lane: usize, claim: Claim) -> Result<Sender, ChannelError> {
        let memory = &core.memory;
        let words = &memory.lane(lane).words;
        let end = LaneSender::resume(memory.shape(), words, memory.slots(lane));
        let Ok(end) = end else {
            memory.lane(lane).sender.0.open.store(0, Ordering::SeqCst);
            return Err(ChannelError::Refused("a lane is corrupt"));
        };
        let had_sender = &memory.header().receiver.0.had_sender;
        had_sender.store(1, Ordering::SeqCst);
        Ok(Sender {
            core: Arc::clone(core),
            lane,
            end,
            corrupt: false,
            _claim: claim,
        })
    }

    /// Returns the number of its lane.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Returns how many messages were ever sent in its lane, by it and by the senders that had the lane before.
    pub fn sent(&self) -> u64 {
        self.end.sent()
    }

    /// Returns whether the receiver has closed the channel, or has died. Costs a system call in a shared channel.
    pub fn is_closed(&self) -> bool {
        self.core.has_no_receiver()
    }

    /// Sends a message, unless there is no room.
    ///
    /// Cost: about one cache line from the receiver's core. If the receiver sleeps, the delivery is asked, and telling it costs a system
    /// call.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::Closed`], [`SendError::TooLong`] or [`SendError::Corrupt`]; the message was not sent.
    #[inline]
    pub fn try_send(&mut self, to: u32, value: u64, payload: &[u8]) -> Result<(), SendError> {
        let mut draft = self.draft()?;
        draft.write(0, payload)?;
        draft.send(to, value);
        Ok(())
    }

    /// Sends a message, and waits for room until the receiver has released a message.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::TooLong`] or [`SendError::Corrupt`]; the message was not sent.
    #[inline]
    pub fn send(&mut self, to: u32, value: u64, payload: &[u8]) -> Result<(), SendError> {
        self.send_until(to, value, payload, None)
    }

    /// Sends a message, and waits for room until `deadline`.
    ///
    /// # Errors
    /// As [`send`](Self::send), or [`SendError::TimedOut`].
    pub fn send_deadline(
        &mut self,
        to: u32,
        value: u64,
        payload: &[u8],
        deadline: Instant,
    ) -> Result<(), SendError> {
        self.send_until(to, value, payload, Some(clock::moment(deadline)))
    }

    #[inline]
    fn send_until(
        &mut self,
        to: u32,
        value: u64,
        payload: &[u8],
        until: Option<Time>,
    ) -> Result<(), SendError> {
        loop {
            match self.try_send(to, value, payload) {
                Err(SendError::Full) => self.wait_for_room(until)?,
                other => return other,
            }
        }
    }

    /// Returns the next message's slot, to write its payload in place.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::Closed`] or [`SendError::Corrupt`].
    #[inline]
    pub fn draft(&mut self) -> Result<Draft<'_>, SendError> {
        let memory = &self.core.memory;
        let receiver = &memory.header().receiver.0;
        if receiver.presence.load(Ordering::Relaxed) == presence::GONE {
            return Err(SendError::Closed);
        }
        match self.end.has_room(&memory.lane(self.lane).words) {
            Ok(true) if !self.corrupt => Ok(Draft {
                sender: self,
                length: 0,
            }),
            Ok(_) | Err(_) => Err(self.no_room()),
        }
    }

    /// Returns why there is no room.
    #[cold]
    fn no_room(&mut self) -> SendError {
        let words = &self.core.memory.lane(self.lane).words;
        self.corrupt |= self.end.pending(words).is_err();
        if self.corrupt {
            return SendError::Corrupt;
        }
        if self.core.has_no_receiver() {
            return SendError::Closed;
        }
        // Whatever the delivery answered: only the receiver can make room.
        self.core.tell_sleeper();
        SendError::Full
    }

    /// Waits until there may be room.
    #[cold]
    pub(super) fn wait_for_room(&mut self, until: Option<Time>) -> Result<(), SendError> {
        if !self.core.sleeps {
            return self.spin_for_room(until);
        }
        let memory = &self.core.memory;
        let waits = &memory.lane(self.lane).sender.0.waits;
        waits.store(1, Ordering::SeqCst);
        total_order();
        let room = self.end.has_room(&memory.lane(self.lane).words);
        if room.map_err(|_| SendError::Corrupt)? {
            waits.store(0, Ordering::SeqCst);
            return Ok(());
        }
        let now = clock::now();
        if until.is_some_and(|until| until <= now) {
            waits.store(0, Ordering::SeqCst);
            return Err(SendError::TimedOut);
        }
        let look = memory
            .is_shared()
            .then(|| now.saturating_add(LOOK_FOR_DEATHS.as_nanos() as u64));
        let until = [until, look].into_iter().flatten().min();
        futex::wait(waits, 1, until, memory.is_shared());
        waits.store(0, Ordering::SeqCst);
        match self.core.has_no_receiver() {
            true => Err(SendError::Closed),
            false => Ok(()),
        }
    }
}

impl Sender {
    /// As [`wait_for_room`](Self::wait_for_room), awake.
    fn spin_for_room(&mut self, until: Option<Time>) -> Result<(), SendError> {
        /// Looks between two turns for other threads.
        const LOOKS: u32 = 64;
        let start = clock::now();
        loop {
            for _ in 0..LOOKS {
                let memory = &self.core.memory;
                let room = self.end.has_room(&memory.lane(self.lane).words);
                if room.map_err(|_| SendError::Corrupt)? {
                    return Ok(());
                }
                spin_loop();
            }
            parking::yield_now();
            let now = clock::now();
            if until.is_some_and(|until| until <= now) {
                return Err(SendError::TimedOut);
            }
            // The caller then asks whether the receiver lives.
            if now.saturating_sub(start) >= LOOK_FOR_DEATHS.as_nanos() as u64 {
                return Ok(());
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.core.is_ours() {
            let open = &self.core.memory.lane(self.lane).sender.0.open;
            open.store(0, Ordering::SeqCst);
            total_order();
            self.core.tell_sleeper();
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("lane", &self.lane)
            .field("sent", &self.end.sent())
            .finish_non_exhaustive()
    }
}

/// A message that is being written, in its slot. Dropping it sends nothing.
pub struct Draft<'a> {
    sender: &'a mut Sender,
    length: u32,
}

impl Draft<'_> {
    fn words(&self) -> &[AtomicU64] {
        let sender = &self.sender;
        sender.end.payload(sender.core.memory.slots(sender.lane))
    }

    /// Writes bytes of the payload from byte `at` on, and makes the payload as long as that needs. Bytes that were never written are
    /// what an earlier message of the channel left there. Aligned whole words are fastest.
    ///
    /// # Errors
    /// [`SendError::TooLong`] if they do not fit.
    #[inline]
    pub fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), SendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let most = self.sender.core.memory.shape().payload();
        let length = u32::try_from(bytes.len()).ok();
        let end = length.and_then(|length| at.checked_add(length));
        let end = end.filter(|end| *end <= most).ok_or(SendError::TooLong)?;
        let words = self.words();
        let (first, within) = ((at / 8) as usize, (at % 8) as usize);
        if within == 0 && (bytes.len().is_multiple_of(8) || end >= self.length) {
            store(&words[first..], bytes);
        } else {
            for (at, byte) in (at as usize..).zip(bytes) {
                let word = &words[at / 8];
                let mut full = word.load(Ordering::Relaxed).to_ne_bytes();
                full[at % 8] = *byte;
                word.store(u64::from_ne_bytes(full), Ordering::Relaxed);
            }
        }
        self.length = self.length.max(end);
        Ok(())
    }

    /// Sends the message to the destination `to`.
    #[inline]
    pub fn send(self, to: u32, value: u64) {
        let Draft { sender, length } = self;
        let (core, lane) = (&sender.core, sender.lane);
        let words = &core.memory.lane(lane).words;
        let (slots, message) = (core.memory.slots(lane), (to, length, value));
        if !core.sleeps {
            sender.end.commit(words, slots, message, Ordering::Release);
            return;
        }
        sender.end.commit(words, slots, message, Ordering::SeqCst);
        if let Some(bed) = core.memory.header().receiver.0.doze.asleep() {
            // A word that cannot be is found when there is no room any more; until then the receiver is told.
            let pending = sender.end.pending(words).unwrap_or(u64::MAX);
            core.consider(bed, pending);
        }
    }
}

impl fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
