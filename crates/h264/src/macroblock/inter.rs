//! Inter macroblocks: partitions, references and motion vectors (7.3.5.1, 7.3.5.2).

use super::SliceParser;
use crate::error::Fault;
use crate::job::{Mb, Mv, Shape};
use crate::mvpred::{MotionGrid, Neighbour, median_prediction};
use crate::neighbours::{Edge, Packed};
use crate::strength;

/// Table 9-4: coded_block_pattern by code number, for inter macroblocks.
pub(super) const CODED_BLOCK_PATTERN_INTER: [u8; 48] = [
    0, 16, 1, 2, 4, 8, 32, 3, 5, 10, 12, 15, 47, 7, 11, 13, 14, 6, 9, 31, 35, 37, 42, 44, 33, 34,
    36, 40, 39, 43, 45, 46, 17, 18, 20, 24, 19, 21, 26, 28, 23, 27, 29, 30, 22, 25, 38, 41,
];

impl SliceParser<'_, '_> {
    fn reference_index(&mut self) -> Result<i8, Fault> {
        let count = self.list.len() as u32;
        if count == 1 {
            return Ok(0);
        }
        let index = self.reader.te(count - 1);
        Fault::Syntax("ref_idx_l0 is too large").when(index >= count)?;
        Ok(index as i8)
    }

    #[inline(always)]
    fn vector(&mut self, prediction: Mv) -> Mv {
        let (x, y) = (self.reader.se(), self.reader.se());
        Mv {
            x: prediction.x.wrapping_add(x as i16),
            y: prediction.y.wrapping_add(y as i16),
        }
    }

    #[inline(never)]
    pub(super) fn inter(&mut self, mb_type: u32) -> Result<(), Fault> {
        if mb_type == 0 {
            return self.whole();
        }
        let mut mb = self.skipped.0;
        match mb_type {
            1 => self.rows(&mut mb)?,
            2 => self.columns(&mut mb)?,
            _ => self.quarters(&mut mb, mb_type == 4)?,
        }
        mb.ref_slot = mb.ref_idx.map(|index| self.list[index as usize]);
        let pattern = self.inter_pattern()?;
        self.finish_inter(mb, pattern)
    }

    /// Reads and returns coded_block_pattern.
    #[inline(always)]
    fn inter_pattern(&mut self) -> Result<u8, Fault> {
        let code = self.reader.ue_max(47, "coded_block_pattern")?;
        Ok(CODED_BLOCK_PATTERN_INTER[code as usize])
    }

    /// Reads a macroblock with one partition.
    #[inline(always)]
    fn whole(&mut self) -> Result<(), Fault> {
        let reference = self.reference_index()?;
        let [above_left, above, above_right] = self.edges_above();
        let c = above_right.motion(0).or(above_left.motion(3));
        let prediction = median_prediction(reference, self.left.motion(0), above.motion(0), c);
        let mv = self.vector(prediction);
        let pattern = self.inter_pattern()?;
        if pattern == 0 {
            return self.finish_plain(reference, mv);
        }
        let mb = Mb {
            ref_idx: [reference; 4],
            ref_slot: [self.list[reference as usize]; 4],
            mv,
            ..self.skipped.0
        };
        self.finish_inter(mb, pattern)
    }

    /// Reads an upper and a lower half. The upper one prefers the vector of neighbour B, the lower one that of A (8.4.1.3).
    fn rows(&mut self, mb: &mut Mb) -> Result<(), Fault> {
        mb.shape = Shape::Rows;
        let references = [self.reference_index()?, self.reference_index()?];
        let [upper, lower] = references;
        mb.ref_idx = [upper, upper, lower, lower];
        let [above_left, above, above_right] = self.edges_above();
        let (a, b) = (self.left.motion(0), above.motion(0));
        let c = above_right.motion(0).or(above_left.motion(3));
        let prediction = if b.reference == upper {
            b.mv
        } else {
            median_prediction(upper, a, b, c)
        };
        let b = Neighbour {
            reference: upper,
            mv: self.vector(prediction),
        };
        // C of the lower half is decoded later, so D replaces it.
        let (a, d) = (self.left.motion(2), self.left.motion(1));
        let prediction = if a.reference == lower {
            a.mv
        } else {
            median_prediction(lower, a, b, d)
        };
        let mv = self.vector(prediction);
        let mvs = &mut self.mvs[self.address];
        mvs[..8].fill(b.mv);
        mvs[8..].fill(mv);
        Ok(())
    }

    /// Reads a left and a right half. The left one prefers the vector of neighbour A, the right one that of C.
    fn columns(&mut self, mb: &mut Mb) -> Result<(), Fault> {
        mb.shape = Shape::Columns;
        let references = [self.reference_index()?, self.reference_index()?];
        let [left, right] = references;
        mb.ref_idx = [left, right, left, right];
        let [above_left, above, above_right] = *self.edges_above();
        let (a, b) = (self.left.motion(0), above.motion(0));
        let prediction = if a.reference == left {
            a.mv
        } else {
            let c = above.motion(2).or(above_left.motion(3));
            median_prediction(left, a, b, c)
        };
        let a = Neighbour {
            reference: left,
            mv: self.vector(prediction),
        };
        let b = above.motion(2);
        let c = above_right.motion(0).or(above.motion(1));
        let prediction = if c.reference == right {
            c.mv
        } else {
            median_prediction(right, a, b, c)
        };
        let mv = self.vector(prediction);
        for row in self.mvs[self.address].chunks_exact_mut(4) {
            row[..2].fill(a.mv);
            row[2..].fill(mv);
        }
        Ok(())
    }

    fn quarters(&mut self, mb: &mut Mb, first_reference_only: bool) -> Result<(), Fault> {
        mb.shape = Shape::Quarters;
        for sub in &mut mb.sub {
            *sub = match self.reader.ue_max(3, "sub_mb_type")? {
                0 => Shape::Whole,
                1 => Shape::Rows,
                2 => Shape::Columns,
                _ => Shape::Quarters,
            };
        }
        for index in &mut mb.ref_idx {
            *index = if first_reference_only {
                0
            } else {
                self.reference_index()?
            };
        }
        let mut grid = MotionGrid::between(&self.left, self.edges_above());
        for quarter in 0..4 {
            let (x, y, reference) = (quarter % 2 * 2, quarter / 2 * 2, mb.ref_idx[quarter]);
            let parts: &[[usize; 4]] = match mb.sub[quarter] {
                Shape::Whole => &[[0, 0, 2, 2]],
                Shape::Rows => &[[0, 0, 2, 1], [0, 1, 2, 1]],
                Shape::Columns => &[[0, 0, 1, 2], [1, 0, 1, 2]],
                Shape::Quarters => &[[0, 0, 1, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]],
            };
            for &[dx, dy, w, h] in parts {
                let [a, b, c] = grid.neighbours(x + dx, y + dy, w);
                let mv = self.vector(median_prediction(reference, a, b, c));
                grid.fill(x + dx, y + dy, w, h, Neighbour { reference, mv });
            }
        }
        self.mvs[self.address] = grid.motion_vectors();
        Ok(())
    }

    /// Stores a macroblock with one vector and no residual.
    #[inline(always)]
    fn finish_plain(&mut self, reference: i8, mv: Mv) -> Result<(), Fault> {
        self.reader.check()?;
        let slot = self.list[reference as usize];
        // Copied and changed in place, as in `skip_in_row`.
        let mb = &mut self.mbs[self.address];
        *mb = self.skipped.0;
        (mb.ref_idx, mb.ref_slot, mb.mv) = ([reference; 4], [slot; 4], mv);
        let edge = &mut self.below[self.x + 1];
        *edge = self.skipped.1;
        edge.mv = [Packed::new(mv); 4];
        (edge.reference, edge.slot) = ([reference; 2], [slot; 2]);
        if self.deblocked {
            strength::plain(mb, edge, &self.left, &self.above[self.x + 1]);
        }
        self.left = *edge;
        self.advance(1);
        Ok(())
    }

    /// Reads the residual of an inter macroblock and stores it.
    #[inline(never)]
    fn finish_inter(&mut self, mut mb: Mb, pattern: u8) -> Result<(), Fault> {
        let totals = self.residual(&mut mb, pattern)?;
        let mvs = &self.mvs[self.address];
        // The lower and the right edge for the prediction of later macroblocks.
        let side = |first: usize, step: usize, quarters: [usize; 2]| Edge {
            reference: quarters.map(|quarter| mb.ref_idx[quarter]),
            modes: self.skipped.1.modes,
            ..Edge::of(&mb, mvs, first, step)
        };
        let (mut bottom, mut right) = (side(12, 1, [2, 3]), side(3, 4, [1, 3]));
        totals.bottom(&mut bottom);
        totals.right(&mut right);
        if self.deblocked {
            let own = [Edge::of(&mb, mvs, 0, 4), Edge::of(&mb, mvs, 0, 1)];
            mb.bs_vertical[0] = strength::outer(&self.left, &own[0]);
            mb.bs_horizontal[0] = strength::outer(&self.edges_above()[1], &own[1]);
            strength::inner(&mut mb, mvs);
        }
        self.store(&mut mb, bottom, right)
    }
}
