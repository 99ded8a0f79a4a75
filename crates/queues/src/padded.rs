//! Values on cache lines of their own.

/// A value on cache lines of its own, so that writing it does not invalidate a neighbour's line. (On a pair of lines: processors prefetch
/// pairs.)
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);
