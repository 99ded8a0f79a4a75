//! Closures without their type.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::NonNull;

/// Words of a task that hold its closure, or a pointer to it.
const BODY_WORDS: usize = 6;

/// Words of a [`Block`].
const BLOCK_WORDS: usize = 9;

/// The bytes of an erased closure, or of a pointer to it.
pub(crate) type BodyWords = [MaybeUninit<u64>; BODY_WORDS];

/// Memory that is lent to a task for what its own has no room for: a closure, a description, a part of a list.
pub(crate) type Block = [MaybeUninit<u64>; BLOCK_WORDS];

/// How to call and how to drop a closure of one type that lies where [`BodyWords`] say.
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

/// Where closures of a type lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the words.
    Words,
    /// In a block, to which the first word points.
    Block,
    /// On the heap: the first word holds a box.
    Heap,
}

/// How closures of type `F`, which are called with a `C`, are stored.
pub(crate) struct Stored<C, F>(PhantomData<(C, F)>);

impl<C, F: FnOnce(&C) + Send> Stored<C, F> {
    const PLACE: Place = {
        match align_of::<F>() <= align_of::<u64>() {
            true if size_of::<F>() <= size_of::<BodyWords>() => Place::Words,
            true if size_of::<F>() <= size_of::<Block>() => Place::Block,
            _ => Place::Heap,
        }
    };

    /// Whether [`Stored::store`] needs a block, which the closure leaves when it is called or dropped.
    pub(crate) const NEEDS_BLOCK: bool = matches!(Self::PLACE, Place::Block);

    pub(crate) const TABLE: BodyTable = match Self::PLACE {
        Place::Words => BodyTable {
            // SAFETY: the words hold an `F` that is used once, and the context is a `C`: `ErasedBody` keeps them together. The closure is
            // moved out of the words before it is called.
            call: |words, context| unsafe { words.cast::<F>().read()(&*context.cast::<C>()) },
            // SAFETY: the words hold an `F` that is used once.
            drop: |words| unsafe { drop(words.cast::<F>().read()) },
        },
        Place::Block => BodyTable {
            // SAFETY: the first word points to a block with an `F` that is used once, and the context is a `C`. The closure is moved out of
            // the block before it is called.
            call: |words, context| unsafe {
                words.cast::<NonNull<F>>().read().read()(&*context.cast::<C>())
            },
            // SAFETY: the first word points to a block with an `F` that is used once.
            drop: |words| unsafe { drop(words.cast::<NonNull<F>>().read().read()) },
        },
        Place::Heap => BodyTable {
            // SAFETY: the words hold a pointer from `Box::into_raw` that is used once, and the context is a `C`.
            call: |words, context| unsafe {
                Box::from_raw(words.cast::<*mut F>().read())(&*context.cast::<C>())
            },
            // SAFETY: the words hold a pointer from `Box::into_raw` that is used once.
            drop: |words| unsafe { drop(Box::from_raw(words.cast::<*mut F>().read())) },
        },
    };

    /// Stores `body` in `words`, or in the block that `block` returns if it [needs one](Stored::NEEDS_BLOCK), or on the heap.
    ///
    /// # Safety
    /// The words can be written, and nothing else uses them; the same holds of the block, until the body has been used.
    #[inline]
    pub(crate) unsafe fn store(
        words: NonNull<BodyWords>,
        block: impl FnOnce() -> NonNull<Block>,
        body: F,
    ) {
        match Self::PLACE {
            // SAFETY: size and alignment fit.
            Place::Words => unsafe { words.cast::<F>().write(body) },
            Place::Block => {
                let block = block().cast::<F>();
                // SAFETY: size and alignment fit; a thin pointer fits into a word.
                unsafe {
                    block.write(body);
                    words.cast::<NonNull<F>>().write(block);
                }
            }
            // SAFETY: a thin pointer fits into a word.
            Place::Heap => unsafe {
                words.cast::<*mut F>().write(Box::into_raw(Box::new(body)));
            },
        }
    }
}

/// Returns the block of a closure that [needs one](Stored::NEEDS_BLOCK).
///
/// # Safety
/// [`Stored::store`] wrote the words, with such a block.
#[inline]
pub(crate) unsafe fn block_of(words: NonNull<BodyWords>) -> NonNull<Block> {
    // SAFETY: the caller says so.
    unsafe { words.cast::<NonNull<Block>>().read() }
}
