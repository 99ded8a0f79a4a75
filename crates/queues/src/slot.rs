//! A queue of one task in one word.

use std::num::NonZeroU64;

use crate::Ready;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::total_order;

/// Room for one task, on a cache line of its own. Any thread may put a task in while it is empty, and any thread may take it out.
///
/// Handing a task to another core costs one transfer of this line; a locked queue costs one for the lock and more for what it protects.
/// Both directions are one exchange of one word, so no thread can see anything half done.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot(AtomicU64);

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// Returns an empty slot.
    pub fn new() -> Self {
        Slot(AtomicU64::new(0))
    }

    /// Puts a task in.
    ///
    /// The task is visible to every `is_empty` that follows in the total order of `SeqCst` operations.
    ///
    /// # Errors
    /// Returns the task if the slot is full.
    #[inline]
    pub fn put(&self, task: Ready) -> Result<(), Ready> {
        let word = task.into_word();
        let put = self
            .0
            .compare_exchange(0, word.get(), Ordering::SeqCst, Ordering::Relaxed);
        total_order();
        match put {
            Ok(_) => Ok(()),
            // SAFETY: the word was made above and did not get into the slot, so it is turned back here and nowhere else.
            Err(_) => Err(unsafe { Ready::from_word(word) }),
        }
    }

    /// Takes the task out and returns it, if there is one; otherwise writes nothing.
    #[inline]
    pub fn take(&self) -> Option<Ready> {
        if self.is_empty() {
            return None;
        }
        let word = NonZeroU64::new(self.0.swap(0, Ordering::SeqCst))?;
        // SAFETY: words that are not 0 are put in by `put` only, from `into_word`; the swap took it out, so no other thread gets it.
        Some(unsafe { Ready::from_word(word) })
    }

    /// Takes the task out and returns it if `accept` returns true for its digest; otherwise writes nothing.
    pub fn take_if(&self, accept: impl FnOnce(u16) -> bool) -> Option<Ready> {
        total_order();
        let word = NonZeroU64::new(self.0.load(Ordering::SeqCst))?;
        let taken = accept(crate::ready::digest_of(word))
            && (self.0)
                .compare_exchange(word.get(), 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        // SAFETY: as in `take`: the exchange took the word out.
        taken.then(|| unsafe { Ready::from_word(word) })
    }

    /// Returns the digest of the task inside, if there is one. Another thread may take the task meanwhile.
    #[inline]
    pub fn digest(&self) -> Option<u16> {
        total_order();
        NonZeroU64::new(self.0.load(Ordering::SeqCst)).map(crate::ready::digest_of)
    }

    /// Returns whether there was no task at some moment during the call. `SeqCst`: see the crate's promise to sleepers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.digest().is_none()
    }
}
