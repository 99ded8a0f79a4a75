//! The one word that stands for a ready task.

use std::num::NonZeroU64;

/// Bits of a [`Ready`] that hold the engine's handle.
pub const HANDLE_BITS: u32 = 48;

/// A task that is ready to run: 48 bits of the engine's handle and a 16-bit *digest* of its hint.
///
/// A `Ready` is the right to run its task once. Safe code can neither copy nor make one: a policy can only hand on what an engine has
/// passed to it. So no policy, however wrong, can run a task twice or run one that does not exist. (It can lose one by dropping it;
/// engines report that as an error.)
///
/// A thief may read the digest of a task that it does not own yet. The digest is T mod 2^16 of a task with groups, else the depth.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping a Ready loses its task"]
pub struct Ready(NonZeroU64);

impl Ready {
    /// Makes the right to run a task.
    ///
    /// # Safety
    /// `handle` must name a task of the engine that this `Ready` will come back to, that task must be ready, and no other `Ready` for
    /// the same readiness of that task may exist.
    ///
    /// # Panics
    /// If `handle` is 0 or does not fit into 48 bits.
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

    /// Returns the engine's handle of the task.
    #[inline]
    pub fn handle(&self) -> u64 {
        self.0.get() >> 16
    }

    /// Returns the 16-bit digest of the task's hint.
    #[inline]
    pub fn digest(&self) -> u16 {
        digest_of(self.0)
    }

    /// Turns the right into a word, for a slot of a queue.
    #[inline]
    pub(crate) fn into_word(self) -> NonZeroU64 {
        self.0
    }

    /// Turns a word back into the right.
    ///
    /// # Safety
    /// `word` came from [`Ready::into_word`] and is turned back only once.
    #[inline]
    pub(crate) unsafe fn from_word(word: NonZeroU64) -> Self {
        Ready(word)
    }
}

/// Returns the digest in a word that was read from a slot. The reader need not have the right to the task.
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
