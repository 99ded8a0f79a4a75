//! Closures without their type.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::NonNull;

/// Words of a task that hold its closure; a larger closure is boxed, and the words hold the box.
const BODY_WORDS: usize = 6;

/// The bytes of an erased closure, or of a pointer to it.
pub(crate) type BodyWords = [MaybeUninit<u64>; BODY_WORDS];

/// How to call and how to drop a closure of one type that lies in [`BodyWords`].
pub(crate) struct BodyTable {
    call: unsafe fn(NonNull<BodyWords>, *const ()),
    drop: unsafe fn(NonNull<BodyWords>),
}

/// A closure without its type, where it lies. Dropping an `ErasedBody` leaks the closure: use [`ErasedBody::call`] or
/// [`ErasedBody::discard`].
pub(crate) struct ErasedBody {
    table: &'static BodyTable,
    words: NonNull<BodyWords>,
}

impl ErasedBody {
    /// Returns the body in `words`, which `table` belongs to.
    ///
    /// # Safety
    /// The words were written by [`Stored::store`] for this table, stay until the body was used, and hold it once.
    #[inline]
    pub(crate) unsafe fn at(table: &'static BodyTable, words: NonNull<BodyWords>) -> Self {
        ErasedBody { table, words }
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// `context` is of the type that the body was erased with (lifetimes aside), and what the closure borrows is alive.
    #[inline]
    pub(crate) unsafe fn call<C>(self, context: &C) {
        let context = std::ptr::from_ref(context).cast();
        // SAFETY: the table belongs to the words; `self` is consumed, so the closure is used once.
        unsafe { (self.table.call)(self.words, context) }
    }

    /// Drops the closure without calling it.
    ///
    /// # Safety
    /// What the closure borrows is alive.
    pub(crate) unsafe fn discard(self) {
        // SAFETY: as in `call`.
        unsafe { (self.table.drop)(self.words) }
    }
}

/// How closures of type `F`, which are called with a `C`, are stored.
pub(crate) struct Stored<C, F>(PhantomData<(C, F)>);

impl<C, F: FnOnce(&C) + Send> Stored<C, F> {
    const FITS: bool =
        size_of::<F>() <= size_of::<BodyWords>() && align_of::<F>() <= align_of::<BodyWords>();

    pub(crate) const TABLE: BodyTable = match Self::FITS {
        true => BodyTable {
            // SAFETY: the words hold an `F` that is used once, and the context is a `C`: `ErasedBody` keeps them together. The closure is
            // moved out of the words before it is called.
            call: |words, context| unsafe { words.cast::<F>().read()(&*context.cast::<C>()) },
            // SAFETY: the words hold an `F` that is used once.
            drop: |words| unsafe { drop(words.cast::<F>().read()) },
        },
        false => BodyTable {
            // SAFETY: the words hold a pointer from `Box::into_raw` that is used once, and the context is a `C`.
            call: |words, context| unsafe {
                Box::from_raw(words.cast::<*mut F>().read())(&*context.cast::<C>())
            },
            // SAFETY: the words hold a pointer from `Box::into_raw` that is used once.
            drop: |words| unsafe { drop(Box::from_raw(words.cast::<*mut F>().read())) },
        },
    };

    /// Stores `body` in `words`.
    ///
    /// # Safety
    /// The words can be written, and nothing else uses them.
    #[inline]
    pub(crate) unsafe fn store(words: NonNull<BodyWords>, body: F) {
        if Self::FITS {
            // SAFETY: size and alignment fit.
            unsafe { words.cast::<F>().write(body) };
        } else {
            // SAFETY: a thin pointer fits into a word.
            unsafe { words.cast::<*mut F>().write(Box::into_raw(Box::new(body))) };
        }
    }
}
