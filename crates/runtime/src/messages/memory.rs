//! The words of a channel: on the heap, or in a memory file that several processes map.
//!
//! Everything in it is an atomic variable, so whatever other processes write at whatever moment, an access is no data race of this one.
//! The unsafe code of channels is here, in `lock.rs` and in `bell.rs`.

use super::doze::Doze;
use std::ptr::NonNull;
use std::sync::Arc;
use tanada_policy::ChannelState;
use tanada_queues::sync::atomic::{AtomicU32, AtomicU64};
use tanada_queues::{LaneShape, LaneWords, Padded};

/// The most senders of a channel.
pub const MAX_SENDERS: usize = 64;

/// Words of the description at the beginning of a shared channel.
pub(super) const DESCRIPTION: usize = 16;

/// The words that belong to the receiver.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ReceiverWords {
    pub(super) state: ChannelState,
    pub(super) doze: Doze,
    /// Whether there is a receiver: a value of `super::presence`.
    pub(super) presence: AtomicU32,
    /// Whether there was ever a sender.
    pub(super) had_sender: AtomicU32,
}

/// The words of a channel beside its lanes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    /// What an opener has to know; read once. All 0 in a channel of one process.
    pub(super) description: Padded<[AtomicU64; DESCRIPTION]>,
    pub(super) receiver: Padded<ReceiverWords>,
}

/// The words of a lane that its sender writes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SenderWords {
    /// Not 0: a sender has the lane.
    pub(super) open: AtomicU32,
    /// Not 0: the sender waits here for room, as at a futex.
    pub(super) waits: AtomicU32,
}

/// The words of a lane beside its slots.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LaneHeader {
    pub(super) words: LaneWords,
    pub(super) sender: Padded<SenderWords>,
}

/// A lane of a [`Memory`].
#[derive(Clone, Copy)]
struct Lane {
    header: NonNull<LaneHeader>,
    slots: NonNull<[AtomicU64]>,
}

/// Words that begin on a cache line. What lies across two costs twice as much to hand over.
type Line = Padded<[AtomicU64; 16]>;

/// The words of a channel on the heap.
struct Heap {
    header: Header,
    lanes: Vec<(LaneHeader, Box<[Line]>)>,
}

enum Backing {
    Heap(#[expect(dead_code, reason = "the pointers point into it")] Arc<Heap>),
    #[cfg(not(shuttle))]
    Map(#[expect(dead_code, reason = "the pointers point into it")] memmap2::MmapRaw),
}

/// The words of a channel.
pub(super) struct Memory {
    header: NonNull<Header>,
    lanes: Vec<Lane>,
    shape: LaneShape,
    shared: bool,
    /// What the pointers point into. Never moved out of its heap block or mapping, never written as a whole.
    _backing: Backing,
}

// SAFETY: all that the pointers reach are atomic variables, in memory that this value owns.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Returns the words of a new channel in this process.
    pub(super) fn on_heap(shape: LaneShape, lanes: usize) -> Memory {
        let words = shape.words() as usize;
        let line = |_| Padded(std::array::from_fn(|_| AtomicU64::new(0)));
        let slots = || (0..words.div_ceil(16)).map(line).collect();
        // Not a box: moving one would claim that nothing else points into it.
        let heap = Arc::new(Heap {
            header: Header {
                description: Padded(std::array::from_fn(|_| AtomicU64::new(0))),
                receiver: Padded(ReceiverWords {
                    state: ChannelState::new(),
                    doze: Doze::new(),
                    presence: AtomicU32::new(0),
                    had_sender: AtomicU32::new(0),
                }),
            },
            lanes: (0..lanes)
                .map(|_| (LaneHeader::default(), slots()))
                .collect(),
        });
        Memory {
            header: NonNull::from(&heap.header),
            lanes: heap
                .lanes
                .iter()
                .map(|(header, slots)| Lane {
                    header: NonNull::from(header),
                    // A line is an array of words, and nothing else.
                    slots: NonNull::slice_from_raw_parts(
                        NonNull::from(&**slots).cast::<AtomicU64>(),
                        words,
                    ),
                })
                .collect(),
            shape,
            shared: false,
            _backing: Backing::Heap(heap),
        }
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: points into the backing, which lives as long as `self`; a `Header` consists of atomic variables, for which every
        // content is valid.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    pub(super) fn lane(&self, lane: usize) -> &LaneHeader {
        // SAFETY: as in `header`.
        unsafe { self.lanes[lane].header.as_ref() }
    }

    #[inline]
    pub(super) fn slots(&self, lane: usize) -> &[AtomicU64] {
        // SAFETY: as in `header`; the slice was made with the length that the backing has there.
        unsafe { self.lanes[lane].slots.as_ref() }
    }

    /// Returns the number of lanes.
    #[inline]
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    #[inline]
    pub(super) fn shape(&self) -> LaneShape {
        self.shape
    }

    /// Returns whether other processes may map the words.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }
}

#[cfg(not(shuttle))]
pub(super) use map::{check_file, size_of_map};

/// The form of a shared channel: the header, the headers of lanes, and then the slots of each lane.
#[cfg(not(shuttle))]
mod map {
    use super::{Backing, Header, Lane, LaneHeader, MAX_SENDERS, Memory};
    use crate::messages::ChannelError;
    use std::fs::File;
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicU64;
    use tanada_queues::LaneShape;

    /// Every part begins at a multiple of this.
    const ALIGN: u64 = 128;

    fn slots_at(lanes: usize) -> u64 {
        (size_of::<Header>() + lanes * size_of::<LaneHeader>()) as u64
    }

    fn stride(shape: LaneShape) -> u64 {
        (shape.words() * 8).next_multiple_of(ALIGN)
    }

    /// Returns the bytes of a shared channel, at most 2^56; `None` if that is more than an address can reach.
    pub(in crate::messages) fn size_of_map(shape: LaneShape, lanes: usize) -> Option<usize> {
        usize::try_from(slots_at(lanes) + lanes as u64 * stride(shape)).ok()
    }

    /// Checks that an access to a mapping of `file` cannot end this process, or wait for another one.
    ///
    /// # Errors
    /// If the file is not one of the system's memory, can still be made shorter, or has pages from a pool that others can empty.
    pub(in crate::messages) fn check_file(file: &File) -> Result<(), ChannelError> {
        // Files of memory have seals, and no others do; what asks for them asks no file system that is a process.
        let Ok(seals) = rustix::fs::fcntl_get_seals(file) else {
            return Err(ChannelError::Refused("it is no file of memory"));
        };
        // Otherwise another process could cut the file, and an access end this one.
        if !seals.contains(rustix::fs::SealFlags::SHRINK) {
            return Err(ChannelError::Refused("it can be cut"));
        }
        // Huge pages have seals, too. A page that another process takes out of such a file may have no successor.
        const TMPFS: u64 = 0x0102_1994;
        if rustix::fs::fstatfs(file)?.f_type as u64 != TMPFS {
            return Err(ChannelError::Refused("its pages are huge"));
        }
        Ok(())
    }

    impl Memory {
        /// Maps the words of a shared channel, which the caller has found to be as `shape` and `lanes` say, or new and 0.
        ///
        /// # Errors
        /// If the file is shorter, is none that can safely be mapped, or cannot be.
        pub(in crate::messages) fn map(
            file: &File,
            shape: LaneShape,
            lanes: usize,
        ) -> Result<Memory, ChannelError> {
            let size = size_of_map(shape, lanes).ok_or(ChannelError::Limit("size"))?;
            if lanes == 0 || lanes > MAX_SENDERS || file.metadata()?.len() < size as u64 {
                return Err(ChannelError::Refused("it is too short"));
            }
            check_file(file)?;
            let map = memmap2::MmapOptions::new().len(size).map_raw(file)?;
            let base = map.as_mut_ptr();
            // SAFETY: all offsets are below `size`, the length of the mapping.
            let part = |at: u64| unsafe { base.add(at as usize) };
            let pointer = |at| NonNull::new(part(at)).expect("a mapping is not at 0");
            let lane = |lane: usize| Lane {
                header: pointer((size_of::<Header>() + lane * size_of::<LaneHeader>()) as u64)
                    .cast(),
                slots: NonNull::slice_from_raw_parts(
                    pointer(slots_at(lanes) + lane as u64 * stride(shape)).cast::<AtomicU64>(),
                    shape.words() as usize,
                ),
            };
            Ok(Memory {
                header: pointer(0).cast(),
                lanes: (0..lanes).map(lane).collect(),
                shape,
                shared: true,
                _backing: Backing::Map(map),
            })
        }
    }

    /// What the offsets rely on: pages begin at multiples of it.
    const _: () = {
        assert!((size_of::<Header>() as u64).is_multiple_of(ALIGN));
        assert!(align_of::<Header>() as u64 == ALIGN);
        assert!((size_of::<LaneHeader>() as u64).is_multiple_of(ALIGN));
        assert!(align_of::<LaneHeader>() as u64 == ALIGN);
    };
}

/// Writes `bytes` into `words`, eight bytes a word, by relaxed stores. The rest of the last word is 0.
///
/// # Panics
/// If they do not fit.
pub(super) fn store(words: &[AtomicU64], bytes: &[u8]) {
    use tanada_queues::sync::atomic::Ordering;
    let words = &words[..bytes.len().div_ceil(8)];
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut full = [0; 8];
        full[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_ne_bytes(full), Ordering::Relaxed);
    }
}

/// Copies bytes out of `words` by relaxed loads.
///
/// # Panics
/// If `words` are too short.
pub(super) fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    use tanada_queues::sync::atomic::Ordering;
    let words = &words[..bytes.len().div_ceil(8)];
    for (word, chunk) in words.iter().zip(bytes.chunks_mut(8)) {
        let full = word.load(Ordering::Relaxed).to_ne_bytes();
        chunk.copy_from_slice(&full[..chunk.len()]);
    }
}
