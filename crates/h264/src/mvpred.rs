//! Clause 8.4.1: prediction of motion vectors.

use crate::job::Mv;
use crate::neighbours::Edge;

/// `Neighbour::reference` of a block that is outside of the slice or is decoded later.
pub(crate) const UNAVAILABLE: i8 = -2;
/// `Neighbour::reference` of an intra block.
pub(crate) const INTRA: i8 = -1;

/// The motion of a neighbouring block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) reference: i8,
    pub(crate) mv: Mv,
}

impl Neighbour {
    pub(crate) const UNAVAILABLE: Neighbour = Neighbour {
        reference: UNAVAILABLE,
        mv: Mv { x: 0, y: 0 },
    };

    #[inline(always)]
    pub(crate) fn is_available(&self) -> bool {
        self.reference != UNAVAILABLE
    }

    /// Returns this neighbour if it is available, else `other`.
    #[inline(always)]
    pub(crate) fn or(self, other: Neighbour) -> Neighbour {
        if self.is_available() { self } else { other }
    }
}

#[inline(always)]
fn median(a: i16, b: i16, c: i16) -> i16 {
    a.max(b).min(a.min(b).max(c))
}

/// Returns the median prediction (8.4.1.3.1) from the left, upper and upper right neighbours `a`, `b` and `c`. The caller passes the upper
/// left neighbour as `c` if the upper right one is not available.
#[inline(always)]
pub(crate) fn median_prediction(
    reference: i8,
    a: Neighbour,
    mut b: Neighbour,
    mut c: Neighbour,
) -> Mv {
    if b.reference == UNAVAILABLE && c.reference == UNAVAILABLE && a.reference != UNAVAILABLE {
        (b, c) = (a, a);
    }
    let same = [a, b, c].map(|neighbour| neighbour.reference == reference);
    match same {
        [true, false, false] => a.mv,
        [false, true, false] => b.mv,
        [false, false, true] => c.mv,
        _ => Mv {
            x: median(a.mv.x, b.mv.x, c.mv.x),
            y: median(a.mv.y, b.mv.y, c.mv.y),
        },
    }
}

/// Returns the motion vector of a P_Skip macroblock (8.4.1.1).
#[inline(always)]
pub(crate) fn skip_prediction(a: Neighbour, b: Neighbour, c: Neighbour) -> Mv {
    let still = |n: Neighbour| n.reference == 0 && n.mv == Mv::default();
    if a.reference == UNAVAILABLE || b.reference == UNAVAILABLE || still(a) || still(b) {
        return Mv::default();
    }
    median_prediction(0, a, b, c)
}

/// The motion of the 4x4 blocks of a macroblock and of the neighbouring blocks that predict it.
///
/// Blocks that are not decoded yet are marked unavailable, as the standard requires of neighbours that come later in decoding order.
pub(crate) struct MotionGrid {
    /// Five rows of 6 blocks: above left, 4 above, above right; then left, 4 of the macroblock, and one that stays unavailable.
    cells: [Neighbour; 30],
}

impl MotionGrid {
    const STRIDE: usize = 6;

    /// Returns a grid in which nothing is available.
    pub(crate) fn new() -> Self {
        MotionGrid {
            cells: [Neighbour::UNAVAILABLE; 30],
        }
    }

    fn index(x: usize, y: usize) -> usize {
        (y + 1) * Self::STRIDE + x + 1
    }

    /// Returns a grid with these neighbouring edges: the left one, and those above left, above and above right.
    pub(crate) fn between(left: &Edge, [above_left, above, above_right]: &[Edge; 3]) -> Self {
        let mut grid = Self::new();
        for i in 0..4 {
            grid.cells[Self::STRIDE * (i + 1)] = left.motion(i);
            grid.cells[i + 1] = above.motion(i);
        }
        grid.cells[0] = above_left.motion(3);
        grid.cells[Self::STRIDE - 1] = above_right.motion(0);
        grid
    }

    /// Sets the motion of a rectangle of blocks.
    pub(crate) fn fill(&mut self, x: usize, y: usize, w: usize, h: usize, neighbour: Neighbour) {
        for row in y..y + h {
            let start = Self::index(x, row);
            self.cells[start..start + w].fill(neighbour);
        }
    }

    /// Returns the neighbours A, B and C (D if C is not available) of the partition at (`x`, `y`) that is `w` blocks wide.
    pub(crate) fn neighbours(&self, x: usize, y: usize, w: usize) -> [Neighbour; 3] {
        let at = Self::index(x, y);
        let above_right = self.cells[at - Self::STRIDE + w];
        let c = if above_right.reference == UNAVAILABLE {
            self.cells[at - Self::STRIDE - 1]
        } else {
            above_right
        };
        [self.cells[at - 1], self.cells[at - Self::STRIDE], c]
    }

    /// Returns the motion vectors of the macroblock itself.
    pub(crate) fn motion_vectors(&self) -> [Mv; 16] {
        std::array::from_fn(|block| self.cells[Self::index(block % 4, block / 4)].mv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn motion(reference: i8, x: i16, y: i16) -> Neighbour {
        Neighbour {
            reference,
            mv: Mv { x, y },
        }
    }

    #[test]
    fn the_median_is_taken_component_by_component() {
        let (a, b, c) = (motion(0, 1, 9), motion(0, 5, -3), motion(0, 3, 4));
        assert_eq!(median_prediction(0, a, b, c), Mv { x: 3, y: 4 });
        assert_eq!(
            median_prediction(1, a, motion(1, 5, -3), c),
            Mv { x: 5, y: -3 }
        );
        assert_eq!(median_prediction(2, a, b, c), Mv { x: 3, y: 4 });
        // The only neighbour with the same reference picture is taken as it is.
        let other = |n: Neighbour| Neighbour { reference: 7, ..n };
        assert_eq!(median_prediction(0, a, other(b), other(c)), a.mv);
        assert_eq!(median_prediction(0, other(a), b, other(c)), b.mv);
        assert_eq!(median_prediction(0, other(a), other(b), c), c.mv);
        let gone = Neighbour::UNAVAILABLE;
        assert_eq!(median_prediction(3, a, gone, gone), a.mv);
        assert_eq!(median_prediction(0, gone, b, gone), b.mv);
    }

    #[test]
    fn skip_is_still_at_borders_and_beside_still_blocks() {
        let (a, b, c) = (motion(0, 1, 9), motion(0, 5, -3), motion(0, 3, 4));
        assert_eq!(skip_prediction(a, b, c), Mv { x: 3, y: 4 });
        assert_eq!(skip_prediction(Neighbour::UNAVAILABLE, b, c), Mv::default());
        assert_eq!(skip_prediction(a, motion(0, 0, 0), c), Mv::default());
        assert_ne!(skip_prediction(a, motion(1, 0, 0), c), Mv::default());
    }

    #[test]
    fn blocks_not_decoded_yet_are_replaced_by_the_upper_left_one() {
        let mut grid = MotionGrid::new();
        grid.fill(0, 0, 4, 1, motion(0, 7, 7));
        let [_, b, c] = grid.neighbours(1, 1, 1);
        assert_eq!((b.mv.x, c.mv.x), (7, 7));
        let [.., c] = grid.neighbours(3, 1, 1);
        assert_eq!(c, motion(0, 7, 7));
        let [.., c] = grid.neighbours(0, 2, 1);
        assert_eq!(c, Neighbour::UNAVAILABLE);
    }
}
