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

/// A name; or a pointer to a whole description. Which of the two, the [`Form`](super::Form) in the header says.
pub(crate) struct Brief(*const u8);

// SAFETY: it stands for a `&'static str` or a pointer to a `Description`, which is `Send` and `Sync`.
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

    /// Returns a pointer to a description.
    #[inline]
    pub(crate) fn apart(description: NonNull<Description>) -> Brief {
        Brief(description.as_ptr().cast_const().cast())
    }

    /// Returns the pointer that this was made of.
    ///
    /// # Safety
    /// This was made by [`Brief::apart`].
    #[inline]
    pub(crate) unsafe fn place(&self) -> NonNull<Description> {
        // SAFETY: of a `NonNull` (caller).
        unsafe { NonNull::new_unchecked(self.0.cast_mut().cast()) }
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
    fn what_does_not_fit_is_not_brief() {
        static LONG: [u8; LONGEST + 1] = [b'x'; LONGEST + 1];
        let long = std::str::from_utf8(&LONG).expect("letters");
        let all = [
            described(long, 0, Hints::default()),
            described("deep", 0, Hints::default().with_depth(1)),
            described("urgent", 0, Hints::groups(1, 1).with_priority(-1)),
            described("late", 1 << 32, Hints::default()),
        ];
        for mut description in all {
            assert!(Brief::of(&description).is_none());
            let place = NonNull::from(&mut description);
            // SAFETY: made by `apart`.
            assert_eq!(unsafe { Brief::apart(place).place() }, place);
        }
    }
}
