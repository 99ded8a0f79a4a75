//! Closures without their type.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};

/// Words of a task that hold its closure; a larger closure is boxed, and the words hold the box.
const BODY_WORDS: usize = 8;

/// The bytes of an erased closure, or of a pointer to it.
pub(crate) type BodyWords = [MaybeUninit<u64>; BODY_WORDS];

/// How to call and how to drop a closure of one type.
pub(crate) struct BodyTable {
    call: unsafe fn(*mut u8, *const ()),
    drop: unsafe fn(*mut u8),
}

/// A closure without its type. Dropping an `ErasedBody` leaks the closure: use [`ErasedBody::call`] or [`ErasedBody::discard`].
pub(crate) struct ErasedBody {
    table: &'static BodyTable,
    words: BodyWords,
}

impl ErasedBody {
    /// Returns `body` without its type; the body will be called with a pointer to a `C`.
    #[inline]
    pub(crate) fn new<C, F: FnOnce(&C) + Send>(body: F) -> Self {
        let mut words = [MaybeUninit::uninit(); BODY_WORDS];
        if size_of::<F>() <= size_of::<BodyWords>() && align_of::<F>() <= align_of::<BodyWords>() {
            // SAFETY: size and alignment fit (checked above), and no other reference to `words` exists.
            unsafe { words.as_mut_ptr().cast::<F>().write(body) };
            ErasedBody {
                table: &Inline::<C, F>::TABLE,
                words,
            }
        } else {
            let boxed = Box::into_raw(Box::new(body));
            // SAFETY: a thin pointer fits into a word, and no other reference to `words` exists.
            unsafe { words.as_mut_ptr().cast::<*mut F>().write(boxed) };
            ErasedBody {
                table: &Boxed::<C, F>::TABLE,
                words,
            }
        }
    }

    /// Returns the body in parts that a task stores apart.
    #[inline]
    pub(crate) fn into_parts(self) -> (&'static BodyTable, BodyWords) {
        (self.table, self.words)
    }

    /// Returns the body that was split into these parts.
    ///
    /// # Safety
    /// Both are from one call of [`ErasedBody::into_parts`] and are joined once.
    #[inline]
    pub(crate) unsafe fn from_parts(table: &'static BodyTable, words: BodyWords) -> Self {
        ErasedBody { table, words }
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// `context` is of the type that the body was erased with (lifetimes aside), and what the closure borrows is alive.
    #[inline]
    pub(crate) unsafe fn call<C>(mut self, context: &C) {
        let context = std::ptr::from_ref(context).cast();
        // SAFETY: the table belongs to the words; `self` is consumed, so the closure is used once.
        unsafe { (self.table.call)(self.words.as_mut_ptr().cast(), context) }
    }

    /// Drops the closure without calling it.
    ///
    /// # Safety
    /// What the closure borrows is alive.
    pub(crate) unsafe fn discard(mut self) {
        // SAFETY: as in `call`.
        unsafe { (self.table.drop)(self.words.as_mut_ptr().cast()) }
    }
}

/// Closures that lie in the words themselves.
struct Inline<C, F>(PhantomData<(C, F)>);

impl<C, F: FnOnce(&C)> Inline<C, F> {
    const TABLE: BodyTable = BodyTable {
        // SAFETY: the words hold an `F` that is used once, and the context is a `C`: `ErasedBody` keeps them together.
        call: |words, context| unsafe { words.cast::<F>().read()(&*context.cast::<C>()) },
        // SAFETY: the words hold an `F` that is used once.
        drop: |words| unsafe { words.cast::<F>().drop_in_place() },
    };
}

/// Closures in a box to which the first word points.
struct Boxed<C, F>(PhantomData<(C, F)>);

impl<C, F: FnOnce(&C)> Boxed<C, F> {
    const TABLE: BodyTable = BodyTable {
        // SAFETY: the words hold a pointer from `Box::into_raw` that is used once, and the context is a `C`.
        call: |words, context| unsafe {
            Box::from_raw(words.cast::<*mut F>().read())(&*context.cast::<C>())
        },
        // SAFETY: the words hold a pointer from `Box::into_raw` that is used once.
        drop: |words| unsafe { drop(Box::from_raw(words.cast::<*mut F>().read())) },
    };
}
