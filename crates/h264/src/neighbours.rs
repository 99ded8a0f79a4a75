//! What the parser keeps of macroblocks for their neighbours below and to the right (6.4.9 to 6.4.11).
//!
//! The parser keeps one [`Edge`] above each macroblock of a row and one edge to the left of the current macroblock. These few kilobytes
//! have everything that contexts, predictions and boundary strengths are computed from. Outside of the slice there are edges with values
//! that mean "not available", so that no case distinction is needed.

use std::ops::Range;

use crate::job::{Mb, Mv, NO_SLOT, Shape};
use crate::mvpred::{INTRA, Neighbour, UNAVAILABLE};

/// TotalCoeff of a block that is not available (see [`context`]).
const NO_TOTAL: u8 = 64;
/// [`Edge::modes`] of a block from which DC prediction is inferred (8.3.1.1).
pub(crate) const NO_MODE: u8 = 0;
/// [`Edge::modes`] of other kinds of macroblocks: Intra4x4PredMode 2.
pub(crate) const DC_MODE: u8 = 3;

/// Returns nC (9.2.1) of a block whose neighbours have `a` and `b` coefficients, either of which may be [`NO_TOTAL`].
#[inline(always)]
pub(crate) fn context(a: u8, b: u8) -> u8 {
    let sum = a + b;
    if sum < NO_TOTAL {
        (sum + 1) >> 1
    } else {
        sum & (NO_TOTAL - 1)
    }
}

/// A motion vector in one word, so that one instruction stores or loads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed(u32);

impl Packed {
    #[inline(always)]
    pub(crate) fn new(mv: Mv) -> Self {
        Packed(u32::from(mv.x as u16) | u32::from(mv.y as u16) << 16)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> Mv {
        Mv {
            x: self.0 as i16,
            y: (self.0 >> 16) as i16,
        }
    }
}

/// One side of a macroblock, from left to right or from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(4))]
pub(crate) struct Edge {
    /// Motion vectors of the four blocks.
    pub(crate) mv: [Packed; 4],
    /// By pair of blocks, the index into the slice's reference list; [`INTRA`] or [`UNAVAILABLE`].
    pub(crate) reference: [i8; 2],
    /// By pair of blocks, the index into `Job::references`.
    pub(crate) slot: [u8; 2],
    /// TotalCoeff of the four luma blocks.
    pub(crate) luma: [u8; 4],
    /// TotalCoeff of the two blocks of Cb and of Cr.
    pub(crate) chroma: [[u8; 2]; 2],
    /// 1 + Intra4x4PredMode of the four blocks.
    pub(crate) modes: [u8; 4],
    /// Whether the edge is one of an inter macroblock with one vector and without luma coefficients: then all blocks of the edge are equal.
    pub(crate) plain: bool,
}

impl Edge {
    /// The edge of a macroblock outside of the slice.
    pub(crate) const OUTSIDE: Edge = Edge {
        mv: [Packed(0); 4],
        reference: [UNAVAILABLE; 2],
        slot: [NO_SLOT; 2],
        luma: [NO_TOTAL; 4],
        chroma: [[NO_TOTAL; 2]; 2],
        modes: [NO_MODE; 4],
        plain: false,
    };

    /// The edge of an intra macroblock without coefficients.
    pub(crate) const INTRA: Edge = Edge {
        reference: [INTRA; 2],
        luma: [0; 4],
        chroma: [[0; 2]; 2],
        modes: [DC_MODE; 4],
        ..Edge::OUTSIDE
    };

    /// Returns the edge of the four blocks at raster positions `first`, `first + step` and so on of a parsed macroblock, for boundary
    /// strengths only: TotalCoeff is 0 or 1, and only the slots of references are set.
    pub(crate) fn of(mb: &Mb, mvs: &[Mv; 16], first: usize, step: usize) -> Edge {
        if mb.is_intra() {
            return Edge::INTRA;
        }
        let coded = mb.coded_raster();
        let blocks: [usize; 4] = std::array::from_fn(|i| first + i * step);
        let whole = mb.shape == Shape::Whole;
        Edge {
            mv: blocks.map(|at| Packed::new(if whole { mb.mv } else { mvs[at] })),
            reference: [0; 2],
            slot: [blocks[0], blocks[2]].map(|at| mb.ref_slot[at / 8 * 2 + at % 4 / 2]),
            luma: blocks.map(|at| (coded >> at & 1) as u8),
            plain: whole && coded == 0,
            ..Edge::INTRA
        }
    }

    #[inline(always)]
    pub(crate) fn is_available(&self) -> bool {
        self.reference[0] != UNAVAILABLE
    }

    #[inline(always)]
    pub(crate) fn is_intra(&self) -> bool {
        self.reference[0] == INTRA
    }

    /// Returns the motion of block `i`.
    #[inline(always)]
    pub(crate) fn motion(&self, i: usize) -> Neighbour {
        Neighbour {
            reference: self.reference[i / 2],
            mv: self.mv[i].get(),
        }
    }
}

/// A set of macroblocks of a picture.
#[derive(Debug, Default)]
pub(crate) struct MacroblockSet {
    /// One bit for each macroblock.
    words: Vec<u64>,
    /// Macroblocks of the picture, and macroblocks in the set.
    count: usize,
    inside: usize,
}

impl MacroblockSet {
    fn reset(&mut self, count: usize) {
        self.words.clear();
        self.words.resize(count.div_ceil(64), 0);
        (self.count, self.inside) = (count, 0);
    }

    /// Returns the number of macroblocks in the set.
    pub(crate) fn len(&self) -> usize {
        self.inside
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    /// Adds the macroblocks of `range`, none of which may be in the set already.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.inside += range.len();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / 64 + 1) * 64);
            self.words[at / 64] |= (u64::MAX >> (64 - (end - at))) << (at % 64);
            at = end;
        }
    }

    /// Returns the first macroblock of the set at or behind `at`; the number of macroblocks of the picture if there is none.
    pub(crate) fn next(&self, at: usize) -> usize {
        let mut mask = u64::MAX << (at % 64);
        for (number, word) in self.words.iter().enumerate().skip(at / 64) {
            let found = word & mask;
            if found != 0 {
                return number * 64 + found.trailing_zeros() as usize;
            }
            mask = u64::MAX;
        }
        self.count
    }
}

/// State of the parser for one picture; its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// The lower edges of two rows of macroblocks, each with an [`Edge::OUTSIDE`] before the first macroblock and one behind the last.
    pub(crate) lines: [Vec<Edge>; 2],
    /// The macroblocks that were parsed so far.
    pub(crate) parsed: MacroblockSet,
    /// By slice, its first macroblock and the one behind its last; without slices that follow no other slice in raster order.
    pub(crate) seams: Vec<(u32, u32)>,
}

impl Context {
    /// Starts a picture of `count` macroblocks.
    pub(crate) fn begin_picture(&mut self, count: usize) {
        self.parsed.reset(count);
        self.seams.clear();
    }

    /// Starts a slice of a picture that is `width` macroblocks wide.
    pub(crate) fn begin_slice(&mut self, width: usize) {
        for line in &mut self.lines {
            line.clear();
            line.resize(width + 2, Edge::OUTSIDE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_those_of_the_standard() {
        for (a, b) in (0..=16).flat_map(|a| (0..=16).map(move |b| (a, b))) {
            assert_eq!(context(a, b), (a + b + 1) >> 1);
            assert_eq!(context(a, NO_TOTAL), a);
            assert_eq!(context(NO_TOTAL, b), b);
        }
        assert_eq!(context(NO_TOTAL, NO_TOTAL), 0);
    }

    #[test]
    fn sets_of_macroblocks_are_sets() {
        let mut state = 9u64;
        let mut random = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % n
        };
        // One set for all pictures, so that what `reset` leaves behind shows.
        let mut set = MacroblockSet::default();
        for _ in 0..200 {
            let count = 1 + random(300);
            let mut slow = vec![false; count];
            set.reset(count);
            for _ in 0..5 {
                let first = random(count);
                let limit = (first..count).find(|&at| slow[at]).unwrap_or(count);
                assert_eq!(set.next(first), limit);
                let end = first + random(limit - first + 1);
                set.add(first..end);
                slow[first..end].fill(true);
            }
            assert!((0..count).all(|at| set.contains(at) == slow[at]));
            assert_eq!(set.len(), slow.iter().filter(|&&inside| inside).count());
        }
    }

    #[test]
    fn an_edge_is_small() {
        assert!(size_of::<Edge>() <= 36);
    }
}
