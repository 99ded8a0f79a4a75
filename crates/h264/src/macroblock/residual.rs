//! Residuals (7.3.5.3): from CAVLC blocks to the coefficients of a job.

use super::{RASTER, SliceParser};
use crate::bits::BitReader;
use crate::cavlc;
use crate::error::Fault;
use crate::job::{Kind, Mb};
use crate::neighbours::{Edge, context};

/// Coefficients of a macroblock and of one more block: the next block is cleared before it is known whether it has coefficients.
const MOST: usize = 16 * 25;

/// TotalCoeff of the blocks of a macroblock, and before them those of the neighbours above and to the left.
#[derive(Clone, Copy)]
pub(super) struct Totals {
    /// Rows of [`Totals::STRIDE`]; the first row and column are the neighbours'.
    luma: [u8; Totals::STRIDE * 5],
    /// For Cb and Cr, rows of [`Totals::CHROMA_STRIDE`].
    chroma: [[u8; Totals::CHROMA_STRIDE * 3]; 2],
}

impl Totals {
    const STRIDE: usize = 8;
    const CHROMA_STRIDE: usize = 4;

    /// No coefficients.
    pub(super) const NONE: Totals = Totals {
        luma: [0; Totals::STRIDE * 5],
        chroma: [[0; Totals::CHROMA_STRIDE * 3]; 2],
    };

    /// The totals that contexts use for an I_PCM macroblock (9.2.1).
    pub(super) const PCM: Totals = Totals {
        luma: [16; Totals::STRIDE * 5],
        chroma: [[16; Totals::CHROMA_STRIDE * 3]; 2],
    };

    /// Returns the totals of a macroblock without coefficients between these neighbours.
    #[inline(always)]
    fn between(left: &Edge, above: &Edge) -> Totals {
        let mut totals = Totals::NONE;
        totals.luma[1..5].copy_from_slice(&above.luma);
        for (y, total) in left.luma.into_iter().enumerate() {
            totals.luma[Self::STRIDE * (y + 1)] = total;
        }
        for (plane, chroma) in totals.chroma.iter_mut().enumerate() {
            chroma[1..3].copy_from_slice(&above.chroma[plane]);
            for (y, total) in left.chroma[plane].into_iter().enumerate() {
                chroma[Self::CHROMA_STRIDE * (y + 1)] = total;
            }
        }
        totals
    }

    /// Copies the totals of the lower blocks to `edge`.
    #[inline(always)]
    pub(super) fn bottom(&self, edge: &mut Edge) {
        edge.luma = std::array::from_fn(|x| self.luma[Self::STRIDE * 4 + 1 + x]);
        edge.chroma = self
            .chroma
            .map(|plane| std::array::from_fn(|x| plane[Self::CHROMA_STRIDE * 2 + 1 + x]));
    }

    /// Copies the totals of the right blocks to `edge`.
    #[inline(always)]
    pub(super) fn right(&self, edge: &mut Edge) {
        edge.luma = std::array::from_fn(|y| self.luma[Self::STRIDE * (y + 1) + 4]);
        edge.chroma = self
            .chroma
            .map(|plane| std::array::from_fn(|y| plane[Self::CHROMA_STRIDE * (y + 1) + 2]));
    }
}

/// The coefficients of a macroblock while they are read.
struct Blocks<'a, 'r> {
    reader: &'a mut BitReader<'r>,
    /// The job's coefficients from the macroblock's first one on.
    room: &'a mut [i16],
    /// The number of coefficients of `room` in use.
    used: usize,
    mb: &'a mut Mb,
}

impl Blocks<'_, '_> {
    /// Appends `count` blocks from bit `first` of `Mb::coded` on, with only their DC levels.
    fn add_dc(&mut self, first: usize, count: usize, dc: impl Iterator<Item = i16>) {
        let (blocks, _) = self.room[self.used..][..16 * count].as_chunks_mut::<16>();
        for (block, dc) in blocks.iter_mut().zip(dc) {
            *block = [0; 16];
            block[0] = dc;
        }
        self.used += 16 * count;
        self.mb.coded |= ((1 << count) - 1) << first;
    }

    /// Reads the block with bit `bit` of `Mb::coded` and returns TotalCoeff.
    #[inline(always)]
    fn read(&mut self, bit: usize, start: usize, context: u8) -> Result<u8, Fault> {
        let present = self.mb.coded >> bit & 1 != 0;
        let offset = if present {
            self.mb.block_offset(bit as u32) - self.mb.coefficients as usize
        } else {
            self.used
        };
        let Some(block) = self.room[offset..].first_chunk_mut::<16>() else {
            return Err(Fault::Syntax("a block without room"));
        };
        let found = cavlc::block(self.reader, context, start, block, !present)?;
        if found.total > 0 {
            if !present {
                self.mb.coded |= 1 << bit;
                self.used += 16;
            }
            self.mb.ac |= u32::from(found.ac) << bit;
        }
        Ok(found.total)
    }

    fn luma(&mut self, pattern: u8, totals: &mut Totals) -> Result<(), Fault> {
        let whole = self.mb.kind == Kind::Intra16x16;
        if whole {
            self.luma_dc(totals)?;
        }
        for (quarter, blocks) in RASTER.chunks_exact(4).enumerate() {
            if pattern >> quarter & 1 == 0 {
                continue;
            }
            for (bit, &block) in (4 * quarter..).zip(blocks) {
                let block = usize::from(block);
                let at = Totals::STRIDE * (block / 4 + 1) + block % 4 + 1;
                let context = context(totals.luma[at - 1], totals.luma[at - Totals::STRIDE]);
                totals.luma[at] = self.read(bit, usize::from(whole), context)?;
            }
        }
        Ok(())
    }

    /// Reads Intra16x16DCLevel and stores each level as the DC coefficient of its block.
    fn luma_dc(&mut self, totals: &Totals) -> Result<(), Fault> {
        let context = context(totals.luma[Totals::STRIDE], totals.luma[1]);
        let mut dc = [0; 16];
        if cavlc::block(self.reader, context, 0, &mut dc, false)?.total > 0 {
            self.add_dc(0, 16, RASTER.iter().map(|&block| dc[usize::from(block)]));
        }
        Ok(())
    }

    fn chroma(&mut self, pattern: u8, totals: &mut Totals) -> Result<(), Fault> {
        if pattern == 0 {
            return Ok(());
        }
        let dc = [
            cavlc::chroma_dc(self.reader)?,
            cavlc::chroma_dc(self.reader)?,
        ];
        for (plane, (levels, any)) in dc.into_iter().enumerate() {
            let first = 16 + 4 * plane;
            if any {
                self.add_dc(first, 4, levels.into_iter());
            }
            if pattern == 2 {
                let totals = &mut totals.chroma[plane];
                for block in 0..4 {
                    let at = Totals::CHROMA_STRIDE * (block / 2 + 1) + block % 2 + 1;
                    let context = context(totals[at - 1], totals[at - Totals::CHROMA_STRIDE]);
                    totals[at] = self.read(first + block, 1, context)?;
                }
            }
        }
        Ok(())
    }
}

impl SliceParser<'_, '_> {
    /// Grows the coefficients for one more macroblock and returns the index of its first one. The memory is not cleared.
    pub(super) fn room(&mut self) -> usize {
        let (start, length) = (*self.used, self.coefficients.len());
        if length < start + MOST {
            // Rare, because the memory is kept from picture to picture.
            self.coefficients.grow(length.max(16 * MOST));
        }
        start
    }

    /// Reads and returns mb_qp_delta and the residual of a macroblock with coded block pattern `pattern`.
    #[inline(always)]
    pub(super) fn residual(&mut self, mb: &mut Mb, pattern: u8) -> Result<Totals, Fault> {
        if pattern == 0 && mb.kind != Kind::Intra16x16 {
            return Ok(Totals::NONE);
        }
        self.some_residual(mb, pattern)
    }

    fn some_residual(&mut self, mb: &mut Mb, pattern: u8) -> Result<Totals, Fault> {
        let delta = self.reader.se_in(-26..=25, "mb_qp_delta")?;
        if delta != 0 {
            self.set_qp((self.qp + delta + 52) % 52);
            mb.qp = self.blank.qp;
        }
        let start = self.room();
        mb.coefficients = start as u32;
        let mut totals = Totals::between(&self.left, &self.edges_above()[1]);
        let mut blocks = Blocks {
            reader: &mut self.reader,
            room: &mut self.coefficients.as_mut_slice()[start..],
            used: 0,
            mb,
        };
        blocks.luma(pattern & 15, &mut totals)?;
        blocks.chroma(pattern >> 4, &mut totals)?;
        *self.used = start + blocks.used;
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cavlc::ZIGZAG;

    #[test]
    fn orders_of_blocks_are_permutations() {
        for mut table in [RASTER, ZIGZAG] {
            table.sort_unstable();
            assert!(table.into_iter().eq(0..16));
        }
    }
}
