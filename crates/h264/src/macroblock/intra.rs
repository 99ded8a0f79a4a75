//! Intra macroblocks: prediction modes (8.3.1.1) and I_PCM.

use super::residual::Totals;
use super::{RASTER, SliceParser};
use crate::error::Fault;
use crate::job::{
    AVAILABLE_LEFT, AVAILABLE_TOP, AVAILABLE_TOP_LEFT, AVAILABLE_TOP_RIGHT, Kind, Mb,
};
use crate::neighbours::{DC_MODE, Edge};
use crate::strength;

/// Table 9-4: coded_block_pattern by code number, for intra 4x4 macroblocks.
pub(super) const CODED_BLOCK_PATTERN_INTRA: [u8; 48] = [
    47, 31, 15, 0, 23, 27, 29, 30, 7, 11, 13, 14, 39, 43, 45, 46, 16, 3, 5, 10, 12, 19, 21, 26, 28,
    35, 37, 42, 44, 1, 2, 4, 8, 17, 18, 20, 24, 6, 9, 22, 25, 32, 33, 34, 36, 40, 38, 41,
];

const ALL_AROUND: u8 = AVAILABLE_LEFT | AVAILABLE_TOP | AVAILABLE_TOP_LEFT;
/// By Intra4x4PredMode, the neighbours that it reads (8.3.1.2.1 to 8.3.1.2.9), without the upper right one, which is replaced if it is not
/// available.
const READ_BY_4X4: [u8; 9] = [
    AVAILABLE_TOP,
    AVAILABLE_LEFT,
    0,
    AVAILABLE_TOP,
    ALL_AROUND,
    ALL_AROUND,
    ALL_AROUND,
    AVAILABLE_TOP,
    AVAILABLE_LEFT,
];
/// The neighbours by Intra16x16PredMode (8.3.3). intra_chroma_pred_mode (8.3.4) numbers the same modes differently.
const READ_BY_16X16: [u8; 4] = [AVAILABLE_TOP, AVAILABLE_LEFT, 0, ALL_AROUND];
const READ_BY_CHROMA: [u8; 4] = [0, AVAILABLE_LEFT, AVAILABLE_TOP, ALL_AROUND];

/// Returns the fault `what` unless all neighbours in `read` are `available`.
#[inline(always)]
fn check_available(read: u8, available: u8, what: &'static str) -> Result<(), Fault> {
    Fault::Syntax(what).when(read & !available != 0)
}

impl SliceParser<'_, '_> {
    /// Returns the `AVAILABLE_*` flags of the current macroblock.
    fn intra_available(&self) -> u8 {
        let [above_left, above, above_right] = self.edges_above();
        let usable =
            |edge: &Edge| edge.is_available() && (!self.constrained_intra_pred || edge.is_intra());
        let flag = |edge: &Edge, flag: u8| if usable(edge) { flag } else { 0 };
        flag(&self.left, AVAILABLE_LEFT)
            | flag(above, AVAILABLE_TOP)
            | flag(above_right, AVAILABLE_TOP_RIGHT)
            | flag(above_left, AVAILABLE_TOP_LEFT)
    }

    fn intra_chroma_mode(&mut self, mb: &mut Mb) -> Result<(), Fault> {
        mb.chroma_mode = self.reader.ue_max(3, "intra_chroma_pred_mode")? as u8;
        check_available(
            READ_BY_CHROMA[usize::from(mb.chroma_mode)],
            mb.available,
            "intra chroma prediction from outside the slice",
        )
    }

    pub(super) fn intra4x4(&mut self) -> Result<(), Fault> {
        let mut mb = self.blank;
        mb.available = self.intra_available();
        let (bottom, right) = self.intra4x4_modes(&mut mb)?;
        self.intra_chroma_mode(&mut mb)?;
        let code = self.reader.ue_max(47, "coded_block_pattern")?;
        let pattern = CODED_BLOCK_PATTERN_INTRA[code as usize];
        self.finish_intra(mb, pattern, bottom, right)
    }

    /// Reads the modes of all blocks. Returns those along the lower and the right edge, in the form of [`Edge::modes`].
    fn intra4x4_modes(&mut self, mb: &mut Mb) -> Result<([u8; 4], [u8; 4]), Fault> {
        /// Row length of the array of modes: the first row and column hold the neighbours, then follow four rows of four.
        const STRIDE: usize = 5;
        let mut modes = [0u8; STRIDE * 5];
        modes[1..5].copy_from_slice(&self.edges_above()[1].modes);
        for (y, mode) in self.left.modes.into_iter().enumerate() {
            modes[STRIDE * (y + 1)] = mode;
        }
        let row = AVAILABLE_LEFT
            | if mb.available & AVAILABLE_TOP != 0 {
                AVAILABLE_TOP | AVAILABLE_TOP_LEFT
            } else {
                0
            };
        let column = AVAILABLE_TOP
            | if mb.available & AVAILABLE_LEFT != 0 {
                AVAILABLE_LEFT | AVAILABLE_TOP_LEFT
            } else {
                0
            };
        let mut reader = self.reader;
        for block in RASTER.map(usize::from) {
            let (x, y) = (block % 4, block / 4);
            let at = STRIDE * (y + 1) + x + 1;
            // 0 means "no mode", from which DC prediction is inferred.
            let predicted = match modes[at - 1].min(modes[at - STRIDE]) {
                0 => DC_MODE - 1,
                mode => mode - 1,
            };
            reader.need(4);
            let bits = reader.peek(4) as u8;
            let mode = if bits & 8 != 0 {
                reader.skip(1);
                predicted
            } else {
                reader.skip(4);
                bits + u8::from(bits >= predicted)
            };
            let available = match (x, y) {
                (0, 0) => mb.available,
                (0, _) => column,
                (_, 0) => row,
                _ => ALL_AROUND,
            };
            check_available(
                READ_BY_4X4[usize::from(mode.min(8))],
                available,
                "intra 4x4 prediction from outside the slice",
            )?;
            modes[at] = mode + 1;
            mb.modes |= u64::from(mode) << (4 * block);
        }
        self.reader = reader;
        let bottom = std::array::from_fn(|x| modes[STRIDE * 4 + 1 + x]);
        Ok((bottom, std::array::from_fn(|y| modes[STRIDE * (y + 1) + 4])))
    }

    pub(super) fn intra16x16(&mut self, index: u32) -> Result<(), Fault> {
        let mut mb = Mb {
            kind: Kind::Intra16x16,
            available: self.intra_available(),
            luma_mode: (index % 4) as u8,
            ..self.blank
        };
        check_available(
            READ_BY_16X16[usize::from(mb.luma_mode)],
            mb.available,
            "intra 16x16 prediction from outside the slice",
        )?;
        self.intra_chroma_mode(&mut mb)?;
        let chroma = (index / 4 % 3) as u8;
        let luma = if index >= 12 { 15 } else { 0 };
        self.finish_intra(mb, luma | chroma << 4, [DC_MODE; 4], [DC_MODE; 4])
    }

    /// Reads the residual of an intra macroblock and stores the macroblock, whose lower and right edges have these modes.
    fn finish_intra(
        &mut self,
        mut mb: Mb,
        pattern: u8,
        bottom: [u8; 4],
        right: [u8; 4],
    ) -> Result<(), Fault> {
        let totals = self.residual(&mut mb, pattern)?;
        let edge = |modes: [u8; 4]| Edge {
            modes,
            ..Edge::INTRA
        };
        self.store_intra(mb, &totals, edge(bottom), edge(right))
    }

    fn store_intra(
        &mut self,
        mut mb: Mb,
        totals: &Totals,
        mut bottom: Edge,
        mut right: Edge,
    ) -> Result<(), Fault> {
        if self.deblocked {
            strength::intra(&mut mb, &self.left, &self.edges_above()[1]);
        }
        totals.bottom(&mut bottom);
        totals.right(&mut right);
        self.store(&mut mb, bottom, right)
    }

    pub(super) fn pcm(&mut self) -> Result<(), Fault> {
        self.reader.align();
        let samples = self.reader.bytes(384);
        let samples = samples.ok_or(Fault::Syntax("data ends in an I_PCM macroblock"))?;
        let start = self.room();
        let room = &mut self.coefficients.as_mut_slice()[start..];
        for (to, &from) in room.iter_mut().zip(samples) {
            *to = i16::from(from);
        }
        *self.used += 384;
        let mb = Mb {
            kind: Kind::Pcm,
            qp: self.quantisers(0),
            coefficients: start as u32,
            ..self.blank
        };
        self.store_intra(mb, &Totals::PCM, Edge::INTRA, Edge::INTRA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::macroblock::inter::CODED_BLOCK_PATTERN_INTER;

    #[test]
    fn coded_block_patterns_are_permutations() {
        for mut table in [CODED_BLOCK_PATTERN_INTRA, CODED_BLOCK_PATTERN_INTER] {
            table.sort_unstable();
            assert!(table.into_iter().eq(0..48));
        }
    }
}
