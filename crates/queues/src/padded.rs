//! Cache lines of one's own.

/// Keeps a value on cache lines (pairs of lines, as they are prefetched) of its own, so that whoever writes it does not take away a
/// neighbour's line.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);
