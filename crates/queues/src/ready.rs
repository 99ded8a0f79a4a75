//! The one word that stands for a ready task.

use std::num::NonZeroU64;

/// Bits of a [`Ready`] that hold the engine's handle.
pub const HANDLE_BITS: u32 = 48;

/// A task that is ready to run: 48 bits of the engine's handle and a 16-bit *digest* of its hint.
///
/// A `Ready` is the right to run its task once. It can be neither copied nor made up by safe code: a policy can only hand on what an
/// engine gave to it, so no policy, however wrong, can run a task twice or run one that does not exist. (It can lose one by dropping
/// it; engines report that as an error.)
///
/// The digest is what a thief may see of a task before it owns it: T mod 2^16 of a task with groups, else its depth.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping a Ready loses its task"]
pub struct Ready(NonZeroU64);

impl Ready {
    /// Makes the word for a task.
    ///
    /// # Safety
    /// `handle` must name a task of the engine that this `Ready` will come back to, that task must be ready, and no other `Ready` for
    /// the same readiness of that task may exist.
    ///
    /// # Panics
    /// Where `handle` is 0 or does not fit into 48 bits.
    #[inline]
    pub unsafe fn new(handle: u64, digest: u16) -> Self {
        assert!(
            handle >> HANDLE_BITS == 0,
            "a task handle has at most 48 bits"
        );
        let word = (handle << 16) | u64::from(digest);
        assert!(handle != 0, "a task handle is not 0");
        Ready(NonZeroU64::new(word).expect("the handle is not 0"))
    }

    /// The engine's handle of the task.
    #[inline]
    pub fn handle(&self) -> u64 {
        self.0.get() >> 16
    }

    /// The 16-bit digest of the task's hint.
    #[inline]
    pub fn digest(&self) -> u16 {
        digest_of(self.0)
    }

    /// The word itself, for a slot of a queue. The right to run the task goes into the word.
    #[inline]
    pub(crate) fn into_word(self) -> NonZeroU64 {
        self.0
    }

    /// Takes the right back out of a slot.
    ///
    /// # Safety
    /// `word` came from [`Ready::into_word`] and is turned back only once.
    #[inline]
    pub(crate) unsafe fn from_word(word: NonZeroU64) -> Self {
        Ready(word)
    }
}

/// The digest in a word that was read from a slot, without the right to its task.
#[inline]
pub(crate) fn digest_of(word: NonZeroU64) -> u16 {
    (word.get() & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_round_trip_keeps_handle_and_digest() {
        for (handle, digest) in [(1, 0), (1, 0xffff), ((1 << 48) - 1, 0x1234)] {
            // SAFETY: no engine is involved; the handle is only read back.
            let ready = unsafe { Ready::new(handle, digest) };
            let word = ready.into_word();
            // SAFETY: the word was made on the line above and is used once.
            let again = unsafe { Ready::from_word(word) };
            assert_eq!((again.handle(), again.digest()), (handle, digest));
        }
    }
}
