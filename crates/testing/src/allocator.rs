//! An allocator that counts.
#![allow(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call is passed on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The system's allocator, with counts over all threads. The counters are relaxed atomics: a count is exact once the threads that allocated
/// have been joined or have synchronised with the caller.
///
/// A test program declares it, and holds one test only, since tests run at the same time:
///
/// ```
/// use tanada_testing::allocator::Counting;
///
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting::new();
///
/// let before = ALLOCATOR.allocations();
/// drop(std::hint::black_box(Box::new(1_u64)));
/// assert_eq!(ALLOCATOR.allocations() - before, 1);
/// ```
pub struct Counting {
    allocations: AtomicU64,
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

impl Counting {
    /// Returns an allocator whose counts are all 0.
    #[expect(
        clippy::new_without_default,
        reason = "a static needs a constant function"
    )]
    pub const fn new() -> Counting {
        Counting {
            allocations: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Returns the number of allocations and reallocations since the program started.
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that are allocated now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the greatest value of [`bytes`](Counting::bytes) since the last call of [`restart_peak`](Counting::restart_peak).
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Sets the peak to the bytes that are allocated now, and returns those.
    pub fn restart_peak(&self) -> usize {
        let bytes = self.bytes();
        self.peak.store(bytes, Ordering::Relaxed);
        bytes
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters are atomics and allocate nothing. `realloc` and
// `alloc_zeroed` are the trait's, which call the two functions here.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.peak.fetch_max(bytes, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
