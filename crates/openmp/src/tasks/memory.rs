//! The memory of tasks: blocks of a few sizes, kept for the next task by the thread that ran the last one.
//!
//! A thread that creates tasks which others run would take new memory for ever, so a thread that has many blocks of a size hands half of
//! them to all threads, and takes from there before it asks the system. Blocks are never given back to the system, except large ones: as
//! much is kept as was once in use at the same time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sizes of blocks.
const SIZES: [usize; 8] = [128, 192, 256, 384, 512, 1024, 2048, 4096];

/// The class of a block that is larger than all sizes; its size lies in front of it.
const LARGE: u8 = SIZES.len() as u8;

/// Bytes of memory that a thread takes at a time.
const SLAB: usize = 32 << 10;

/// Blocks that go from a thread to all and back at a time.
const BATCH: u32 = 32;

const ALIGN: usize = 64;

/// A block that is not in use.
struct Free {
    next: *mut Free,
    /// Of the first of a batch: the next batch.
    batch: *mut Free,
}

#[derive(Clone, Copy)]
struct List {
    /// Blocks that may be handed to others.
    first: *mut Free,
    count: u32,
    /// A full batch that was put aside.
    aside: *mut Free,
    /// Memory that was not yet in use.
    fresh: *mut u8,
    end: *mut u8,
}

/// The blocks of one thread.
pub(super) struct Pool {
    lists: [List; SIZES.len()],
}

// SAFETY: it is used by one thread at a time, which the caller of its functions ensures.
unsafe impl Send for Pool {}

/// Batches that any thread may take.
struct Shared {
    locked: AtomicBool,
    batches: UnsafeCell<[*mut Free; SIZES.len()]>,
}

// SAFETY: `batches` is touched by the thread that set `locked` only.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    locked: AtomicBool::new(false),
    batches: UnsafeCell::new([null_mut(); SIZES.len()]),
};

impl Shared {
    /// Returns what `with` returns, unless another thread is here. (Waiting might be for ever: in the child of a process that forked, the
    /// other thread does not exist.)
    fn enter<R>(&self, with: impl FnOnce(&mut [*mut Free; SIZES.len()]) -> R) -> Option<R> {
        for _ in 0..64 {
            if !self.locked.swap(true, Ordering::Acquire) {
                // SAFETY: this thread has the lock.
                let result = with(unsafe { &mut *self.batches.get() });
                self.locked.store(false, Ordering::Release);
                return Some(result);
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// Asks for the cache line at `address`, which may be none.
#[inline]
pub(super) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

fn large(size: usize) -> Layout {
    Layout::from_size_align(size + ALIGN, ALIGN).expect("a task's data fits into memory")
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool {
            lists: [List {
                first: null_mut(),
                count: 0,
                aside: null_mut(),
                fresh: null_mut(),
                end: null_mut(),
            }; SIZES.len()],
        }
    }

    /// Returns a block of `size` bytes and its class. Its address is a multiple of 64.
    #[inline]
    pub(super) fn take(&mut self, size: usize) -> (*mut u8, u8) {
        let mut class = 0;
        while class < SIZES.len() && SIZES[class] < size {
            class += 1;
        }
        if class == SIZES.len() {
            return (take_large(size), LARGE);
        }
        let list = &mut self.lists[class];
        let block = list.first;
        if block.is_null() {
            return (list.refill(class), class as u8);
        }
        // SAFETY: blocks in the list are not in use.
        list.first = unsafe { (*block).next };
        list.count -= 1;
        // The next one will be in the cache of the thread that used it last.
        prefetch(list.first);
        prefetch(list.first.wrapping_byte_add(64));
        prefetch(list.first.wrapping_byte_add(128));
        (block.cast(), class as u8)
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// `take` returned it, of this pool or another, and nobody uses it.
    #[inline]
    pub(super) unsafe fn give(&mut self, block: *mut u8, class: u8) {
        if class == LARGE {
            // SAFETY: as this function's.
            return unsafe { give_large(block) };
        }
        let list = &mut self.lists[usize::from(class)];
        let block = block.cast::<Free>();
        // SAFETY: it is not in use, and large enough.
        unsafe { (*block).next = list.first };
        list.first = block;
        list.count += 1;
        if list.count >= BATCH {
            list.put_aside(usize::from(class));
        }
    }
}

impl List {
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize) -> *mut u8 {
        let mut batch = std::mem::replace(&mut self.aside, null_mut());
        if batch.is_null() {
            batch = SHARED
                .enter(|batches| {
                    let batch = batches[class];
                    if !batch.is_null() {
                        // SAFETY: blocks in the lists are not in use.
                        batches[class] = unsafe { (*batch).batch };
                    }
                    batch
                })
                .unwrap_or(null_mut());
        }
        if !batch.is_null() {
            // SAFETY: blocks in the lists are not in use.
            self.first = unsafe { (*batch).next };
            self.count = BATCH - 1;
            return batch.cast();
        }
        let size = SIZES[class];
        if (self.end as usize) - (self.fresh as usize) < size {
            let layout = Layout::from_size_align(SLAB, ALIGN).expect("a constant");
            // SAFETY: its size is not 0.
            self.fresh = unsafe { alloc(layout) };
            if self.fresh.is_null() {
                handle_alloc_error(layout);
            }
            // SAFETY: the end of what was allocated.
            self.end = unsafe { self.fresh.add(SLAB) };
        }
        let block = self.fresh;
        // SAFETY: at most the end, as there is room for one.
        self.fresh = unsafe { block.add(size) };
        block
    }

    /// Puts the full list aside, and what lay aside before among those for all.
    #[cold]
    #[inline(never)]
    fn put_aside(&mut self, class: usize) {
        let before = self.aside;
        if !before.is_null() {
            let given = SHARED.enter(|batches| {
                // SAFETY: a block of this list, not in use.
                unsafe { (*before).batch = batches[class] };
                batches[class] = before;
            });
            if given.is_none() {
                return; // the next block tries again; this list is longer meanwhile
            }
        }
        if self.count == BATCH {
            self.aside = self.first;
            self.first = null_mut();
            self.count = 0;
        } else {
            // It has grown beyond a batch while the others' place was taken.
            self.aside = null_mut();
            let mut last = self.first;
            for _ in 1..BATCH {
                // SAFETY: the list has more than a batch of blocks.
                last = unsafe { (*last).next };
            }
            self.aside = self.first;
            // SAFETY: as above.
            unsafe {
                self.first = (*last).next;
                (*last).next = null_mut();
            }
            self.count -= BATCH;
        }
    }
}

#[cold]
fn take_large(size: usize) -> *mut u8 {
    let layout = large(size);
    // SAFETY: its size is not 0.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: there are 64 bytes more than the block.
    unsafe {
        start.cast::<usize>().write(size);
        start.add(ALIGN)
    }
}

#[cold]
unsafe fn give_large(block: *mut u8) {
    // SAFETY: the caller promises that `take_large` returned it.
    unsafe {
        let start = block.sub(ALIGN);
        let size = start.cast::<usize>().read();
        dealloc(start, large(size));
    }
}

/// Takes back a block in a thread that has no pool.
///
/// # Safety
/// As [`Pool::give`]'s.
#[cold]
pub(super) unsafe fn give_without_pool(block: *mut u8, class: u8) {
    if class == LARGE {
        // SAFETY: as this function's.
        unsafe { give_large(block) };
    }
    // Another is lost for later use. This happens to tasks that a thread of the program's own fulfils as the last: one block each. So they
    // are gathered in a pool that all such threads share.
    else {
        static STRAYS: AtomicBool = AtomicBool::new(false);
        struct Strays(UnsafeCell<Pool>);
        // SAFETY: touched by the thread that set the flag only.
        unsafe impl Sync for Strays {}
        static POOL: Strays = Strays(UnsafeCell::new(Pool::new()));
        for _ in 0..64 {
            if !STRAYS.swap(true, Ordering::Acquire) {
                // SAFETY: as this function's, and this thread has the flag.
                unsafe { (*POOL.0.get()).give(block, class) };
                STRAYS.store(false, Ordering::Release);
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_memory_does_not_grow() {
        let (mut creator, mut runner) = (Pool::new(), Pool::new());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            let blocks: Vec<_> = (0..100).map(|_| creator.take(200)).collect();
            for (block, class) in blocks {
                seen.insert(block as usize);
                assert_eq!((block as usize % ALIGN, class), (0, 2));
                // SAFETY: it was taken above, and nobody uses it.
                unsafe { runner.give(block, class) };
            }
        }
        assert!(seen.len() < 1_000, "{} blocks", seen.len());
    }

    #[test]
    fn blocks_do_not_overlap() {
        let mut pool = Pool::new();
        let mut taken = Vec::new();
        for size in [
            1, 64, 65, 192, 193, 256, 300, 500, 1000, 2000, 4096, 4097, 100_000,
        ] {
            for _ in 0..50 {
                let (block, class) = pool.take(size);
                taken.push((block as usize, size, class));
            }
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0);
        }
        for (block, size, class) in taken {
            // SAFETY: it was taken above with at least that size, and nobody uses it.
            unsafe {
                std::ptr::write_bytes(block as *mut u8, 0xff, size);
                pool.give(block as *mut u8, class);
            }
        }
    }
}
