//! Lists to which one thread adds without a lock while others read them.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places of a chunk.
const PLACES: usize = 512;

/// The first `len` places hold values and do not change any more. The one [`Writer`] of the chunk alone touches the others.
struct Chunk<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    len: AtomicUsize,
}

// SAFETY: a place is written by one thread, before `len` says so; afterwards it is only read, by threads that have seen that.
unsafe impl<T: Copy + Send + Sync> Sync for Chunk<T> {}
// SAFETY: it owns its values.
unsafe impl<T: Copy + Send + Sync> Send for Chunk<T> {}

/// Adds to a chunk. There is one for each chunk.
pub(super) struct Writer<T> {
    chunk: Arc<Chunk<T>>,
    /// That of the chunk, which this alone changes.
    len: usize,
}

/// What a [`Writer`] has added so far.
pub(super) struct Written<T>(Arc<Chunk<T>>);

/// Returns an empty chunk.
pub(super) fn chunk<T: Copy + Send + Sync>() -> (Writer<T>, Written<T>) {
    let places = (0..PLACES).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
    let chunk = Arc::new(Chunk {
        places: places.collect(),
        len: AtomicUsize::new(0),
    });
    let writer = Writer {
        chunk: Arc::clone(&chunk),
        len: 0,
    };
    (writer, Written(chunk))
}

impl<T: Copy + Send + Sync> Writer<T> {
    /// Returns whether no place is left.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == self.chunk.places.len()
    }

    /// Adds a value.
    ///
    /// # Panics
    /// If no place is left.
    #[inline(always)]
    pub(super) fn push(&mut self, value: impl FnOnce() -> T) {
        let place = &self.chunk.places[self.len];
        // SAFETY: this is the chunk's only writer, exclusively borrowed, and others read no place from `len` on.
        unsafe { (*place.get()).write(value()) };
        self.len += 1;
        self.chunk.len.store(self.len, Ordering::Release);
    }
}

impl<T: Copy + Send + Sync> Written<T> {
    /// Returns the values from number `from` on that were added so far.
    pub(super) fn since(&self, from: usize) -> impl Iterator<Item = T> {
        let len = self.0.len.load(Ordering::Acquire);
        let places = self.0.places[..len].iter().skip(from);
        // SAFETY: the place was written before `len` said so, and is not written again.
        places.map(|place| unsafe { (*place.get()).assume_init() })
    }

    /// Returns whether nothing will be added.
    pub(super) fn is_full(&self) -> bool {
        self.0.len.load(Ordering::Acquire) == PLACES
    }
}

impl<T> std::fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({})", self.len)
    }
}

impl<T> std::fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_a_prefix_that_grows() {
        let (mut writer, written) = chunk::<[u64; 4]>();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for number in 0..PLACES as u64 {
                    assert!(!writer.is_full());
                    writer.push(|| [number; 4]);
                }
                assert!(writer.is_full());
            });
            let mut seen = 0;
            while !written.is_full() || seen < PLACES {
                for value in written.since(seen) {
                    assert_eq!(value, [seen as u64; 4]);
                    seen += 1;
                }
            }
        });
        assert_eq!(written.since(PLACES - 1).count(), 1);
    }
}
