//! What the lock-free parts are made of: the standard library's atomics, or those of loom, which tries all interleavings
//! (`tests/loom_*.rs`).

#[cfg(loom)]
pub(super) use loom::sync::atomic::{
    AtomicI32, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering,
};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{
    AtomicI32, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

/// A word on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Line<T>(pub(super) T);

/// Does nothing, except under loom: there it is a fence. loom takes a sequentially consistent access for one that acquires and releases;
/// what is proved by the total order of such accesses needs one behind each store and in front of each load.
#[inline(always)]
pub(super) fn total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
