//! What is said of a task, in one word.

use super::Description;
use std::ptr::NonNull;
use tanada_policy::Hints;

/// Bytes from the start of a [`Header`](super::Header) to a [`Brief`].
pub(crate) const BRIEF_AT: usize = 40;

/// Bits of an address; the others of the word hold a length.
const ADDRESS_BITS: u32 = 48;

/// The longest name that is stored so.
const LONGEST: usize = (1 << (usize::BITS - ADDRESS_BITS)) - 1;

/// A name; or a pointer to a whole description, which it owns. Which of the two, the [`Form`](super::Form) in the header says.
pub(crate) struct Brief(*const u8);

// SAFETY: it stands for a `&'static str` or a `Box<Description>`.
unsafe impl Send for Brief {}
// SAFETY: as for `Send`.
unsafe impl Sync for Brief {}

impl Brief {
    /// Returns the name of a task of which there is nothing else to say than its groups and this index; `None` if there is, or if the name
    /// is too long or lies too high in memory.
    #[inline]
    pub(crate) fn of(description: &Description) -> Option<Brief> {
        let Description { name, index, hints } = description;
        let only_groups = *hints == Hints::groups(hints.t, hints.s);
        let (address, len) = (name.as_ptr().addr(), name.len());
        let fits = address >> ADDRESS_BITS == 0 && len <= LONGEST && *index <= u32::MAX.into();
        (only_groups && fits).then(|| {
            Brief(
                name.as_ptr()
                    .map_addr(|address| address | len << ADDRESS_BITS),
            )
        })
    }

    /// Returns the name.
    ///
    /// # Safety
    /// This was made by [`Brief::of`].
    #[inline]
    pub(crate) unsafe fn name(&self) -> &'static str {
        let len = self.0.addr() >> ADDRESS_BITS;
        let first = self
            .0
            .map_addr(|address| address & ((1 << ADDRESS_BITS) - 1));
        // SAFETY: address and length of a `&'static str` (caller).
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(first, len)) }
    }

    /// Returns a pointer to `description` on the heap.
    #[cold]
    pub(crate) fn boxed(description: &Description) -> Brief {
        Brief(Box::into_raw(Box::new(*description)).cast())
    }

    /// Returns the whole description.
    ///
    /// # Safety
    /// This was made by [`Brief::boxed`], and not freed yet.
    #[inline]
    pub(crate) unsafe fn apart(&self) -> &Description {
        // SAFETY: from `Box::into_raw` (caller).
        unsafe { &*self.0.cast() }
    }

    /// Frees the whole description.
    ///
    /// # Safety
    /// This was made by [`Brief::boxed`], and nothing uses it any more.
    #[cold]
    pub(crate) unsafe fn free(self) {
        let description = NonNull::new(self.0.cast_mut().cast::<Description>());
        // SAFETY: from `Box::into_raw`, freed once (caller).
        drop(unsafe { Box::from_raw(description.expect("a box is not null").as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &'static str, index: u64, hints: Hints) -> Description {
        Description { name, index, hints }
    }

    #[test]
    fn a_name_comes_back() {
        for name in ["", "a task", "日本"] {
            let brief = Brief::of(&described(name, 7, Hints::groups(1, 2))).expect("brief");
            // SAFETY: made by `of`.
            assert_eq!(unsafe { brief.name() }, name);
        }
    }

    #[test]
    fn what_does_not_fit_is_said_apart() {
        static LONG: [u8; LONGEST + 1] = [b'x'; LONGEST + 1];
        let long = std::str::from_utf8(&LONG).expect("letters");
        let all = [
            described(long, 0, Hints::default()),
            described("deep", 0, Hints::default().with_depth(1)),
            described("urgent", 0, Hints::groups(1, 1).with_priority(-1)),
            described("late", 1 << 32, Hints::default()),
        ];
        for description in all {
            assert!(Brief::of(&description).is_none());
            let brief = Brief::boxed(&description);
            // SAFETY: made by `boxed`, and freed once behind its last use.
            unsafe {
                assert_eq!(brief.apart().name, description.name);
                assert_eq!(brief.apart().hints, description.hints);
                brief.free();
            }
        }
    }
}
