//! How the lists of a pool are made.

/// Returns what `make` makes of 0 to `length - 1`.
///
/// For what is made when a pool is. Adapters of iterators would be functions of their own, which the compiler puts far from the code that
/// calls them; each such place is a page fault when a program makes its first pool. A list is no `Box<[T]>` for the same reason.
#[inline(always)]
pub(crate) fn list<T>(length: usize, mut make: impl FnMut(usize) -> T) -> Vec<T> {
    let mut list = Vec::with_capacity(length);
    for index in 0..length {
        list.push(make(index));
    }
    list
}
