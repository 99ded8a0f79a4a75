//! The dependency count of a dynamic task.

use std::sync::atomic::{AtomicU64, Ordering};

const EDGE_BITS: u32 = 20;
const RESOLVE_BITS: u32 = 20;
const EDGE: u64 = 1;
const RESOLVE: u64 = 1 << EDGE_BITS;
const COUNTS: u64 = (1 << (EDGE_BITS + RESOLVE_BITS)) - 1;

/// The most edges into one task, and the most `resolve`s of one task.
pub(crate) const MAX_COUNT: u32 = (1 << EDGE_BITS) - 2;

/// A dependency count and a generation in one word.
///
/// From the lowest bit: 20 bits of unresolved edges (the *guard*, which the registration holds until it is complete, counts as one),
/// 20 bits of unresolved `resolve`s, and 24 bits for the generation. Because all are in one word, a `resolve` with an old token
/// fails instead of changing the count of a later task in the same node. A node in which 2^24 tasks have lived serves no other.
pub(super) struct Count(AtomicU64);

/// A `resolve` of a task that has no unresolved count, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surplus;

impl Count {
    /// Returns the count of a free node, whose next task is number `generation`.
    pub(super) fn closed(generation: u32) -> Self {
        Count(AtomicU64::new(Self::generation_bits(generation)))
    }

    /// Returns the generation, as far as it is kept: 0 if as many tasks have lived in the node as can.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> (EDGE_BITS + RESOLVE_BITS)) as u32
    }

    #[inline]
    fn generation_bits(generation: u32) -> u64 {
        u64::from(generation) << (EDGE_BITS + RESOLVE_BITS)
    }

    /// Starts with `resolves` unresolved counts, `edges` unresolved edges and the guard.
    ///
    /// # Panics
    /// If one of the two is above [`MAX_COUNT`].
    #[inline]
    pub(super) fn open(&self, generation: u32, edges: u32, resolves: u32) {
        assert!(
            resolves <= MAX_COUNT && edges <= MAX_COUNT,
            "a task has at most {MAX_COUNT} unresolved dependencies"
        );
        let counts = u64::from(resolves) * RESOLVE + (u64::from(edges) + 1) * EDGE;
        self.0.store(
            Self::generation_bits(generation) | counts,
            Ordering::Release,
        );
    }

    /// The node is free again; `generation` is that of its next task. Release: a thread that finds the last task ended sees its writes.
    #[inline]
    pub(super) fn close(&self, generation: u32) {
        self.0
            .store(Self::generation_bits(generation), Ordering::Release);
    }

    /// Adds an edge, unless the task is ready or has ended. Returns whether the edge was added.
    ///
    /// # Panics
    /// If the task has [`MAX_COUNT`] edges.
    pub(super) fn try_add_edge(&self, generation: u32) -> bool {
        let add = |counts: u64| {
            assert!(
                counts & (RESOLVE - 1) < u64::from(MAX_COUNT),
                "a task has at most {MAX_COUNT} dependencies"
            );
            (counts != 0).then_some(EDGE as i64)
        };
        self.update(generation, add).is_some()
    }

    /// Subtracts `number` edges (the guard is one). Returns whether this took the whole count to zero.
    #[inline]
    pub(super) fn drop_edges(&self, number: u32) -> bool {
        let edges = u64::from(number) * EDGE;
        self.0.fetch_sub(edges, Ordering::AcqRel) & COUNTS == edges
    }

    /// Subtracts one `resolve`. Returns whether this took the whole count to zero.
    pub(super) fn resolve(&self, generation: u32) -> Result<bool, Surplus> {
        let subtract = |counts| (counts >= RESOLVE).then_some(-(RESOLVE as i64));
        let left = self.update(generation, subtract).ok_or(Surplus)?;
        Ok(left == 0)
    }

    /// Adds `change(counts)` to the counts, if the generation is this one and `change` returns a number. Returns the new counts.
    fn update(&self, generation: u32, change: impl Fn(u64) -> Option<i64>) -> Option<u64> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen & !COUNTS != Self::generation_bits(generation) {
                return None;
            }
            let next = seen.wrapping_add_signed(change(seen & COUNTS)?);
            match self
                .0
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(next & COUNTS),
                Err(now) => seen = now,
            }
        }
    }
}
