//! The closures of a template, packed one behind the other.

use super::TemplateTask;
use crate::prefetch::prefetch;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;

/// What a template's task does.
type DynBody<'env, A> = dyn Fn(&A, TemplateTask) + Send + Sync + 'env;

/// A closure that [`Bodies`] own.
pub(super) struct Body<'env, A>(NonNull<DynBody<'env, A>>);

impl<A> Clone for Body<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Body<'_, A> {}

// SAFETY: a `Body` stands for a `&` to a closure that is `Sync`. Its owner drops the closure, on any thread: it is `Send`, too.
unsafe impl<A> Send for Body<'_, A> {}
// SAFETY: as for `Send`.
unsafe impl<A> Sync for Body<'_, A> {}

impl<A> Body<'_, A> {
    /// Prefetches what the closure holds.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.0.as_ptr().cast::<u8>());
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// Its [`Bodies`] are alive.
    #[inline(always)]
    pub(super) unsafe fn call(self, arg: &A, task: TemplateTask) {
        // SAFETY: `Bodies` drop their closures only when they are dropped themselves.
        unsafe { self.0.as_ref()(arg, task) }
    }
}

/// Owns closures. A closure stays at its address, so its [`Body`] can be called for as long as the `Bodies` live.
pub(super) struct Bodies<'env, A> {
    /// The closures that have something to drop. They lie in `memory`, so they are dropped before it.
    to_drop: Vec<Owned<'env, A>>,
    memory: Memory,
}

/// A closure that is dropped with this. If its drop panics, the vector of them still drops the others.
struct Owned<'env, A>(Body<'env, A>);

impl<A> Drop for Owned<'_, A> {
    fn drop(&mut self) {
        // SAFETY: `Bodies::add` wrote it once, and no `Body` is called any more (contract of `Body::call`).
        unsafe { self.0.0.drop_in_place() };
    }
}

impl<A> Default for Bodies<'_, A> {
    fn default() -> Self {
        Bodies {
            to_drop: Vec::new(),
            memory: Memory::default(),
        }
    }
}

impl<'env, A> Bodies<'env, A> {
    /// Stores a closure and returns its place. Allocates rarely: memory for many closures at once.
    pub(super) fn add<F>(&mut self, body: F) -> Body<'env, A>
    where
        F: Fn(&A, TemplateTask) + Send + Sync + 'env,
    {
        let place: NonNull<F> = self.memory.reserve();
        // SAFETY: `reserve` returns memory for an `F` that nothing else uses.
        unsafe { place.write(body) };
        let body = Body(place);
        if std::mem::needs_drop::<F>() {
            self.to_drop.push(Owned(body));
        }
        body
    }
}

/// Bytes of the first chunk; every further one has twice as many, up to [`LARGEST`].
const SMALLEST: usize = 256;
const LARGEST: usize = 1 << 19;

/// Memory that is taken piece by piece and freed as a whole.
#[derive(Default)]
struct Memory {
    /// Every chunk is a vector without elements, whose capacity is the memory: moving it or the vector around it leaves pointers into the
    /// memory valid.
    chunks: Vec<Vec<u8>>,
    /// Where the free bytes of the last chunk begin. (An `AtomicPtr` is a pointer that may go to another thread.)
    free: AtomicPtr<u8>,
    /// Number of free bytes there.
    left: usize,
}

impl Memory {
    /// Takes and returns memory for a `T`, aligned for it.
    #[inline]
    fn reserve<T>(&mut self) -> NonNull<T> {
        if size_of::<T>() == 0 {
            return NonNull::dangling();
        }
        let mut padding = self.free.get_mut().align_offset(align_of::<T>());
        if self.left < size_of::<T>() || self.left - size_of::<T>() < padding {
            self.add_chunk(size_of::<T>() + align_of::<T>());
            padding = self.free.get_mut().align_offset(align_of::<T>());
        }
        let place = self.free.get_mut().wrapping_add(padding);
        *self.free.get_mut() = place.wrapping_add(size_of::<T>());
        self.left -= padding + size_of::<T>();
        NonNull::new(place.cast()).expect("inside of a chunk")
    }

    /// Makes a chunk of `bytes` bytes at least.
    #[cold]
    fn add_chunk(&mut self, bytes: usize) {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        let size = (2 * last).clamp(SMALLEST, LARGEST).max(bytes);
        let mut chunk = Vec::with_capacity(size);
        self.free = AtomicPtr::new(chunk.as_mut_ptr());
        self.left = size;
        self.chunks.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_does_not_overlap() {
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Large([u8; 64]);
        let mut memory = Memory::default();
        let mut places = Vec::new();
        for round in 0..200_u8 {
            let byte: NonNull<u8> = memory.reserve();
            let large: NonNull<Large> = memory.reserve();
            let nothing: NonNull<()> = memory.reserve();
            let array: NonNull<[u64; 100]> = memory.reserve();
            assert!(large.is_aligned() && nothing.is_aligned() && array.is_aligned());
            // SAFETY: memory for these types that nothing else uses.
            unsafe {
                byte.write(round);
                large.write(Large([round; 64]));
                array.write([u64::from(round); 100]);
            }
            places.push((byte, large, array));
        }
        for (round, (byte, large, array)) in (0..200).zip(places) {
            // SAFETY: written above.
            let (byte, large, array) = unsafe { (byte.read(), large.read(), array.read()) };
            assert_eq!(byte, round);
            assert_eq!(large.0, [round; 64]);
            assert_eq!(array, [u64::from(round); 100]);
        }
    }
}
