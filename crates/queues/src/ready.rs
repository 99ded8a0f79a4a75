//! The one word that stands for a ready task.

use std::num::NonZeroU64;

/// Bits of an address that a [`Ready`] can hold.
const ADDRESS_BITS: u32 = 48;

/// Bits of a number that a [`Ready`] can hold.
const NUMBER_BITS: u32 = ADDRESS_BITS - 1;

/// A task that is ready to run: the engine's handle and a 16-bit *digest* of its hint.
///
/// A `Ready` is the right to run its task once. Safe code can neither copy nor make one: a policy can only hand on what an engine has
/// passed to it. So no policy, however wrong, can run a task twice or run one that does not exist. (It can lose one by dropping it;
/// engines report that as an error.)
///
/// A handle is a number, or the address of a task in memory, and the lowest bit of the 48 shows which. So an engine that follows addresses
/// refuses the tasks of engines that count theirs, which a policy may have kept in a `static`.
///
/// A thief may read the digest of a task that it does not own yet. The digest is T mod 2^16 of a task with groups, else the depth.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping a Ready loses its task"]
pub struct Ready(NonZeroU64);

impl Ready {
    /// Returns the right to run the task with the number `handle`.
    ///
    /// # Safety
    /// `handle` must name a task of the engine that this `Ready` will come back to, that task must be ready, and no other `Ready` for
    /// the same readiness of that task may exist. The engine must not rely on the task's memory: a `Ready` of another engine that counts
    /// its tasks looks the same.
    ///
    /// # Panics
    /// If `handle` is 0 or does not fit into 47 bits.
    #[inline]
    pub unsafe fn new(handle: u64, digest: u16) -> Self {
        assert!(
            handle != 0 && handle >> NUMBER_BITS == 0,
            "the number of a task is not 0 and has at most 47 bits"
        );
        Self::from_parts(handle << 1 | 1, digest)
    }

    /// Returns the right to run the task at `address`.
    ///
    /// # Safety
    /// As [`Ready::new`]. The task is of the one kind of engine that follows addresses, `tanada_runtime`'s, and its memory stays until the
    /// right is used, or for ever if it is not.
    ///
    /// # Panics
    /// If `address` is 0, is odd, or does not fit into 48 bits.
    #[inline]
    pub unsafe fn at(address: u64, digest: u16) -> Self {
        assert!(
            address & (!0 << ADDRESS_BITS | 1) == 0,
            "the address of a task is even and has at most 48 bits"
        );
        Self::from_parts(address, digest)
    }

    #[inline]
    fn from_parts(tagged: u64, digest: u16) -> Self {
        let word = (tagged << 16) | u64::from(digest);
        assert!(tagged != 0, "no task has the address 0");
        Ready(NonZeroU64::new(word).expect("the handle is not 0"))
    }

    /// Returns the engine's handle of the task: the number or the address that it was made with.
    #[inline]
    pub fn handle(&self) -> u64 {
        handle_of(self.0)
    }

    /// Returns the task's address, unless the handle is a number.
    #[inline]
    pub fn address(&self) -> Option<u64> {
        let tagged = self.0.get() >> 16;
        (tagged & 1 == 0).then_some(tagged)
    }

    /// Returns the 16-bit digest of the task's hint.
    #[inline]
    pub fn digest(&self) -> u16 {
        digest_of(self.0)
    }

    /// Returns the same right with another digest.
    #[inline]
    pub fn with_digest(self, digest: u16) -> Self {
        let word = (self.0.get() & !0xffff) | u64::from(digest);
        Ready(NonZeroU64::new(word).expect("the handle is not 0"))
    }

    /// Returns the right as a word, for a slot of a queue.
    #[inline]
    pub(crate) fn into_word(self) -> NonZeroU64 {
        self.0
    }

    /// Returns the right that was turned into `word`.
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

/// Returns the handle in a word that was read from a slot. The reader need not have the right to the task.
#[inline]
pub(crate) fn handle_of(word: NonZeroU64) -> u64 {
    let tagged = word.get() >> 16;
    tagged >> (tagged & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_round_trip_keeps_handle_and_digest() {
        for (handle, digest) in [(1, 0), (1, 0xffff), ((1 << NUMBER_BITS) - 1, 0x1234)] {
            // SAFETY: no engine is involved; the handle is only read back.
            let ready = unsafe { Ready::new(handle, digest) };
            let word = ready.into_word();
            // SAFETY: the word was made on the line above and is used once.
            let again = unsafe { Ready::from_word(word) };
            assert_eq!((again.handle(), again.digest()), (handle, digest));
            assert_eq!(again.address(), None);
        }
        for address in [2, (1 << ADDRESS_BITS) - 2] {
            // SAFETY: no engine is involved; the address is only read back.
            let ready = unsafe { Ready::at(address, 3) };
            assert_eq!((ready.handle(), ready.digest()), (address, 3));
            assert_eq!(ready.address(), Some(address));
        }
    }
}
