//! Clauses 7.3.4 and 7.3.5: slice data and the macroblock layer, from bits to the macroblocks of a [`Job`].

use crate::bits::BitReader;
use crate::cavlc;
use crate::error::Fault;
use crate::job::{
    AVAILABLE_LEFT, AVAILABLE_TOP, AVAILABLE_TOP_LEFT, AVAILABLE_TOP_RIGHT, Job, Kind, Mb, Mv,
    NO_SLICE, NO_SLOT, Shape, SubShape,
};
use crate::mvpred::{INTRA, MotionGrid, Neighbour, median_prediction, skip_prediction};
use crate::params::Pps;
use crate::recon::chroma_qp;
use crate::slice::SliceHeader;

/// TotalCoeff of each 4x4 block of a macroblock: 16 of luma by raster position, 4 of Cb, 4 of Cr.
pub(crate) type Totals = [u8; 24];

/// Table 9-4: coded_block_pattern of each code number, for intra 4x4 macroblocks.
const CODED_BLOCK_PATTERN_INTRA: [u8; 48] = [
    47, 31, 15, 0, 23, 27, 29, 30, 7, 11, 13, 14, 39, 43, 45, 46, 16, 3, 5, 10, 12, 19, 21, 26, 28,
    35, 37, 42, 44, 1, 2, 4, 8, 17, 18, 20, 24, 6, 9, 22, 25, 32, 33, 34, 36, 40, 38, 41,
];
/// Table 9-4: the same for inter macroblocks.
const CODED_BLOCK_PATTERN_INTER: [u8; 48] = [
    0, 16, 1, 2, 4, 8, 32, 3, 5, 10, 12, 15, 47, 7, 11, 13, 14, 6, 9, 31, 35, 37, 42, 44, 33, 34,
    36, 40, 39, 43, 45, 46, 17, 18, 20, 24, 19, 21, 26, 28, 23, 27, 29, 30, 22, 25, 38, 41,
];
/// Figure 6-10: raster position of each luma4x4BlkIdx.
pub(crate) const RASTER: [u8; 16] = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];

/// What a slice needs of the parser while its macroblocks are read.
pub(crate) struct SliceParser<'a, 'r> {
    reader: &'a mut BitReader<'r>,
    job: &'a mut Job,
    totals: &'a mut [Totals],
    slice: u16,
    /// Slots in `Job::references` of the reference list.
    list: &'a [u8],
    predicted: bool,
    constrained_intra_pred: bool,
    chroma_qp_offset: [i32; 2],
    qp: i32,
    address: usize,
    /// Addresses of the neighbours that belong to the slice.
    left: Option<usize>,
    top: Option<usize>,
    top_right: Option<usize>,
    top_left: Option<usize>,
}

impl<'a, 'r> SliceParser<'a, 'r> {
    /// A parser of the slice with index `slice` in `job.slices`. `totals` has an entry for each macroblock.
    pub(crate) fn new(
        reader: &'a mut BitReader<'r>,
        job: &'a mut Job,
        totals: &'a mut [Totals],
        slice: u16,
        header: &SliceHeader,
        pps: &Pps,
        list: &'a [u8],
    ) -> Self {
        SliceParser {
            reader,
            job,
            totals,
            slice,
            list,
            predicted: header.predicted,
            constrained_intra_pred: pps.constrained_intra_pred,
            chroma_qp_offset: pps.chroma_qp_offset,
            qp: header.qp,
            address: header.first_mb as usize,
            left: None,
            top: None,
            top_right: None,
            top_left: None,
        }
    }

    /// Reads all macroblocks of the slice (7.3.4). On a fault, those before it are kept.
    pub(crate) fn parse(&mut self) -> Result<(), Fault> {
        loop {
            if self.predicted {
                let run = self.reader.ue() as usize;
                if run > self.job.mbs.len() - self.address {
                    return Err(Fault::Syntax("mb_skip_run leads outside the picture"));
                }
                self.reader.check()?;
                for _ in 0..run {
                    self.locate()?;
                    self.skip();
                    self.address += 1;
                }
                if !self.reader.more_data() {
                    return Ok(());
                }
            }
            if self.address >= self.job.mbs.len() {
                return Err(Fault::Syntax("the slice leads outside the picture"));
            }
            self.locate()?;
            let coefficients = self.job.coefficients.len();
            if let Err(fault) = self.macroblock().and_then(|()| self.reader.check()) {
                self.job.mbs[self.address].slice = NO_SLICE;
                self.job.coefficients.truncate(coefficients);
                return Err(fault);
            }
            self.address += 1;
            if !self.reader.more_data() {
                return Ok(());
            }
        }
    }

    /// Finds the neighbours of the current macroblock (6.4.9) and claims it for the slice.
    fn locate(&mut self) -> Result<(), Fault> {
        let (at, width) = (self.address, self.job.mb_width as usize);
        if self.job.mbs[at].slice != NO_SLICE {
            return Err(Fault::Syntax("a macroblock is coded twice"));
        }
        let x = at % width;
        let slice = self.slice;
        let mbs = &self.job.mbs;
        let same = |condition: bool, distance: usize| {
            if condition && at >= distance && mbs[at - distance].slice == slice {
                Some(at - distance)
            } else {
                None
            }
        };
        self.left = same(x > 0, 1);
        self.top = same(true, width);
        self.top_right = same(x + 1 < width, width.saturating_sub(1));
        self.top_left = same(x > 0, width + 1);
        self.job.mbs[at].slice = slice;
        Ok(())
    }

    /// The quantisers of Y, Cb and Cr for luma quantiser `qp`.
    fn quantisers(&self, qp: i32) -> [u8; 3] {
        let [cb, cr] = self.chroma_qp_offset;
        [qp as u8, chroma_qp(qp + cb), chroma_qp(qp + cr)]
    }

    /// A macroblock of the current slice and quantiser, all else being default.
    fn blank(&self) -> Mb {
        let qp = self.quantisers(self.qp);
        Mb {
            slice: self.slice,
            qp,
            filter_qp: qp,
            ref_idx: [INTRA; 4],
            ref_slot: [NO_SLOT; 4],
            coefficients: self.job.coefficients.len() as u32,
            ..Mb::default()
        }
    }

    fn skip(&mut self) {
        let corner = |mb: Option<usize>, block: usize| self.motion_of(mb, block);
        let (a, b) = (corner(self.left, 3), corner(self.top, 12));
        let c = if self.top_right.is_some() {
            corner(self.top_right, 12)
        } else {
            corner(self.top_left, 15)
        };
        let mv = skip_prediction(a, b, c);
        let mut mb = self.blank();
        mb.kind = Kind::Inter;
        mb.ref_idx = [0; 4];
        mb.ref_slot = [self.list[0]; 4];
        self.job.mbs[self.address] = mb;
        self.job.mvs[self.address] = [mv; 16];
        self.totals[self.address] = [0; 24];
    }

    fn macroblock(&mut self) -> Result<(), Fault> {
        let mut mb_type = self.reader.ue();
        if self.predicted {
            if mb_type < 5 {
                return self.inter_macroblock(mb_type);
            }
            mb_type -= 5;
            self.job.mvs[self.address] = [Mv::default(); 16];
        }
        match mb_type {
            0 => self.intra4x4(),
            1..=24 => self.intra16x16(mb_type - 1),
            25 => self.pcm(),
            _ => Err(Fault::Syntax("mb_type is too large")),
        }
    }

    // ---- intra ----

    /// Whether intra prediction may use that neighbour (8.3.1.2 and following).
    fn intra_usable(&self, neighbour: Option<usize>) -> bool {
        neighbour.is_some_and(|at| !self.constrained_intra_pred || self.job.mbs[at].is_intra())
    }

    fn intra_available(&self) -> u8 {
        [
            (self.left, AVAILABLE_LEFT),
            (self.top, AVAILABLE_TOP),
            (self.top_right, AVAILABLE_TOP_RIGHT),
            (self.top_left, AVAILABLE_TOP_LEFT),
        ]
        .into_iter()
        .map(|(neighbour, flag)| {
            if self.intra_usable(neighbour) {
                flag
            } else {
                0
            }
        })
        .sum()
    }

    fn intra_chroma_mode(&mut self, mb: &mut Mb) -> Result<(), Fault> {
        mb.chroma_mode = self.reader.ue_max(3, "intra_chroma_pred_mode")? as u8;
        let (left, top) = (
            mb.available & AVAILABLE_LEFT != 0,
            mb.available & AVAILABLE_TOP != 0,
        );
        let possible = match mb.chroma_mode {
            0 => true,
            1 => left,
            2 => top,
            _ => left && top && mb.available & AVAILABLE_TOP_LEFT != 0,
        };
        if possible {
            Ok(())
        } else {
            Err(Fault::Syntax(
                "intra chroma prediction from outside the slice",
            ))
        }
    }

    /// The Intra4x4PredMode of the neighbouring block, 2 for other kinds, None where DC prediction is inferred (8.3.1.1).
    fn neighbour_mode(&self, neighbour: Option<usize>, block: usize) -> Option<u8> {
        let mb = &self.job.mbs[neighbour?];
        match mb.kind {
            Kind::Intra4x4 => Some(mb.mode(block)),
            Kind::Inter if self.constrained_intra_pred => None,
            _ => Some(2),
        }
    }

    fn intra4x4(&mut self) -> Result<(), Fault> {
        let mut mb = self.blank();
        mb.available = self.intra_available();
        let mut modes = [0u8; 16];
        for block in RASTER.map(usize::from) {
            let (x, y) = (block % 4, block / 4);
            let a = if x > 0 {
                Some(modes[block - 1])
            } else {
                self.neighbour_mode(self.left, block + 3)
            };
            let b = if y > 0 {
                Some(modes[block - 4])
            } else {
                self.neighbour_mode(self.top, block + 12)
            };
            let predicted = match (a, b) {
                (Some(a), Some(b)) => a.min(b),
                _ => 2,
            };
            let bits = self.reader.peek(4) as u8;
            modes[block] = if bits & 8 != 0 {
                self.reader.skip(1);
                predicted
            } else {
                self.reader.skip(4);
                bits + u8::from(bits >= predicted)
            };
            let left = x > 0 || mb.available & AVAILABLE_LEFT != 0;
            let top = y > 0 || mb.available & AVAILABLE_TOP != 0;
            let top_left = match (x, y) {
                (0, 0) => mb.available & AVAILABLE_TOP_LEFT != 0,
                (0, _) => left,
                _ => top,
            };
            let possible = match modes[block] {
                0 | 3 | 7 => top,
                1 | 8 => left,
                2 => true,
                _ => left && top && top_left,
            };
            if !possible {
                return Err(Fault::Syntax("intra 4x4 prediction from outside the slice"));
            }
        }
        mb.modes = modes
            .iter()
            .rev()
            .fold(0, |all, &mode| all << 4 | u64::from(mode));
        self.intra_chroma_mode(&mut mb)?;
        let code = self.reader.ue_max(47, "coded_block_pattern")?;
        let pattern = CODED_BLOCK_PATTERN_INTRA[code as usize];
        self.residual(mb, pattern)
    }

    fn intra16x16(&mut self, index: u32) -> Result<(), Fault> {
        let mut mb = self.blank();
        mb.kind = Kind::Intra16x16;
        mb.available = self.intra_available();
        mb.luma_mode = (index % 4) as u8;
        let (left, top) = (
            mb.available & AVAILABLE_LEFT != 0,
            mb.available & AVAILABLE_TOP != 0,
        );
        let possible = match mb.luma_mode {
            0 => top,
            1 => left,
            2 => true,
            _ => left && top && mb.available & AVAILABLE_TOP_LEFT != 0,
        };
        if !possible {
            return Err(Fault::Syntax(
                "intra 16x16 prediction from outside the slice",
            ));
        }
        self.intra_chroma_mode(&mut mb)?;
        let chroma = (index / 4 % 3) as u8;
        let luma = if index >= 12 { 15 } else { 0 };
        self.residual(mb, luma | chroma << 4)
    }

    fn pcm(&mut self) -> Result<(), Fault> {
        let mut mb = self.blank();
        mb.kind = Kind::Pcm;
        mb.filter_qp = self.quantisers(0);
        self.reader.align();
        let samples = self
            .reader
            .bytes(384)
            .ok_or(Fault::Syntax("data ends in an I_PCM macroblock"))?;
        for (to, &from) in self.job.coefficients.grow(384).iter_mut().zip(samples) {
            *to = i16::from(from);
        }
        self.job.mbs[self.address] = mb;
        self.totals[self.address] = [16; 24];
        Ok(())
    }

    // ---- inter ----

    /// The motion of 4x4 block `block` of a macroblock of the slice.
    fn motion_of(&self, mb: Option<usize>, block: usize) -> Neighbour {
        match mb {
            None => Neighbour::UNAVAILABLE,
            Some(at) => Neighbour {
                reference: self.job.mbs[at].ref_idx[block / 8 * 2 + block % 4 / 2],
                mv: self.job.mvs[at][block],
            },
        }
    }

    fn motion_grid(&self) -> MotionGrid {
        let mut grid = MotionGrid::new();
        for i in 0..4 {
            grid.set(-1, i as i32, self.motion_of(self.left, 4 * i + 3));
            grid.set(i as i32, -1, self.motion_of(self.top, 12 + i));
        }
        grid.set(-1, -1, self.motion_of(self.top_left, 15));
        grid.set(4, -1, self.motion_of(self.top_right, 12));
        grid
    }

    fn reference_index(&mut self) -> Result<i8, Fault> {
        let count = self.list.len() as u32;
        if count == 1 {
            return Ok(0);
        }
        let index = self.reader.te(count - 1);
        if index >= count {
            Err(Fault::Syntax("ref_idx_l0 is too large"))
        } else {
            Ok(index as i8)
        }
    }

    fn vector(&mut self, prediction: Mv) -> Mv {
        let (x, y) = (self.reader.se(), self.reader.se());
        Mv {
            x: prediction.x.wrapping_add(x as i16),
            y: prediction.y.wrapping_add(y as i16),
        }
    }

    fn inter_macroblock(&mut self, mb_type: u32) -> Result<(), Fault> {
        let mut mb = self.blank();
        mb.kind = Kind::Inter;
        let mut grid = self.motion_grid();
        match mb_type {
            0 => {
                mb.ref_idx = [self.reference_index()?; 4];
                self.partition(&mut grid, mb.ref_idx[0], [0, 0, 4, 4], None);
            }
            1 => {
                mb.shape = Shape::Rows;
                let (upper, lower) = (self.reference_index()?, self.reference_index()?);
                mb.ref_idx = [upper, upper, lower, lower];
                self.partition(&mut grid, upper, [0, 0, 4, 2], Some(1));
                self.partition(&mut grid, lower, [0, 2, 4, 2], Some(0));
            }
            2 => {
                mb.shape = Shape::Columns;
                let (left, right) = (self.reference_index()?, self.reference_index()?);
                mb.ref_idx = [left, right, left, right];
                self.partition(&mut grid, left, [0, 0, 2, 4], Some(0));
                self.partition(&mut grid, right, [2, 0, 2, 4], Some(2));
            }
            _ => self.quarters(&mut mb, &mut grid, mb_type == 4)?,
        }
        mb.ref_slot = mb.ref_idx.map(|index| self.list[index as usize]);
        self.job.mvs[self.address] = grid.motion_vectors();
        let code = self.reader.ue_max(47, "coded_block_pattern")?;
        let pattern = CODED_BLOCK_PATTERN_INTER[code as usize];
        self.residual(mb, pattern)
    }

    /// Predicts and reads the vector of one partition; `preferred` is the neighbour that 16x8 and 8x16 partitions take
    /// when it has the same reference (8.4.1.3).
    fn partition(
        &mut self,
        grid: &mut MotionGrid,
        reference: i8,
        [x, y, w, h]: [usize; 4],
        preferred: Option<usize>,
    ) {
        let neighbours = grid.neighbours(x, y, w);
        let [a, b, c] = neighbours;
        let prediction = match preferred.map(|index| neighbours[index]) {
            Some(neighbour) if neighbour.reference == reference => neighbour.mv,
            _ => median_prediction(reference, a, b, c),
        };
        let mv = self.vector(prediction);
        grid.fill(x, y, w, h, Neighbour { reference, mv });
    }

    fn quarters(
        &mut self,
        mb: &mut Mb,
        grid: &mut MotionGrid,
        first_reference_only: bool,
    ) -> Result<(), Fault> {
        mb.shape = Shape::Quarters;
        for sub in &mut mb.sub {
            *sub = match self.reader.ue_max(3, "sub_mb_type")? {
                0 => SubShape::Whole,
                1 => SubShape::Rows,
                2 => SubShape::Columns,
                _ => SubShape::Quarters,
            };
        }
        for index in &mut mb.ref_idx {
            *index = if first_reference_only {
                0
            } else {
                self.reference_index()?
            };
        }
        for quarter in 0..4 {
            let (x, y, reference) = (quarter % 2 * 2, quarter / 2 * 2, mb.ref_idx[quarter]);
            let parts: &[[usize; 4]] = match mb.sub[quarter] {
                SubShape::Whole => &[[0, 0, 2, 2]],
                SubShape::Rows => &[[0, 0, 2, 1], [0, 1, 2, 1]],
                SubShape::Columns => &[[0, 0, 1, 2], [1, 0, 1, 2]],
                SubShape::Quarters => &[[0, 0, 1, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]],
            };
            for &[dx, dy, w, h] in parts {
                self.partition(grid, reference, [x + dx, y + dy, w, h], None);
            }
        }
        Ok(())
    }

    // ---- residual ----

    /// Reads mb_qp_delta and the residual (7.3.5.3) and stores the macroblock. `pattern` is the coded block pattern.
    fn residual(&mut self, mut mb: Mb, pattern: u8) -> Result<(), Fault> {
        let mut totals = [0; 24];
        if pattern != 0 || mb.kind == Kind::Intra16x16 {
            let delta = self.reader.se_in(-26..=25, "mb_qp_delta")?;
            self.qp = (self.qp + delta + 52) % 52;
            mb.qp = self.quantisers(self.qp);
            mb.filter_qp = mb.qp;
            self.residual_luma(&mut mb, pattern & 15, &mut totals)?;
            self.residual_chroma(&mut mb, pattern >> 4, &mut totals)?;
        }
        self.job.mbs[self.address] = mb;
        self.totals[self.address] = totals;
        Ok(())
    }

    /// nC (9.2.1) of the block at (x, y) in a plane of `width` by `width` blocks whose totals begin at `base`.
    fn context(&self, totals: &Totals, base: usize, width: usize, x: usize, y: usize) -> u8 {
        let at = base + y * width + x;
        let a = if x > 0 {
            Some(totals[at - 1])
        } else {
            self.left.map(|mb| self.totals[mb][at + width - 1])
        };
        let b = if y > 0 {
            Some(totals[at - width])
        } else {
            self.top.map(|mb| self.totals[mb][at + width * (width - 1)])
        };
        match (a, b) {
            (Some(a), Some(b)) => (a + b + 1) >> 1,
            (Some(n), None) | (None, Some(n)) => n,
            (None, None) => 0,
        }
    }

    /// Appends a block and reads its coefficients, if it has any. The answer is TotalCoeff.
    fn block(&mut self, mb: &mut Mb, bit: usize, start: usize, context: u8) -> Result<u8, Fault> {
        let token = cavlc::coeff_token(self.reader, context)?;
        if token.total > 0 {
            let present = mb.coded & 1 << bit != 0;
            let offset = if present {
                mb.block_offset(bit as u32)
            } else {
                self.job.coefficients.len()
            };
            if !present {
                self.job.coefficients.grow(16);
                mb.coded |= 1 << bit;
            }
            let Some(block) =
                self.job.coefficients.as_mut_slice()[offset..].first_chunk_mut::<16>()
            else {
                return Err(Fault::Syntax("a block without room"));
            };
            if cavlc::coefficients(self.reader, token, start, block)? {
                mb.ac |= 1 << bit;
            }
        }
        Ok(token.total)
    }

    fn residual_luma(
        &mut self,
        mb: &mut Mb,
        pattern: u8,
        totals: &mut Totals,
    ) -> Result<(), Fault> {
        let whole = mb.kind == Kind::Intra16x16;
        if whole {
            self.luma_dc(mb, totals)?;
        }
        for index in (0..16).filter(|index| pattern & 1 << (index / 4) != 0) {
            let block = usize::from(RASTER[index]);
            let context = self.context(totals, 0, 4, block % 4, block / 4);
            totals[block] = self.block(mb, index, usize::from(whole), context)?;
        }
        Ok(())
    }

    /// Reads Intra16x16DCLevel; each level is put at the place of its block's DC coefficient.
    fn luma_dc(&mut self, mb: &mut Mb, totals: &Totals) -> Result<(), Fault> {
        let token = cavlc::coeff_token(self.reader, self.context(totals, 0, 4, 0, 0))?;
        if token.total > 0 {
            let mut dc = [0; 16];
            cavlc::coefficients(self.reader, token, 0, &mut dc)?;
            let blocks = self.job.coefficients.grow(256);
            for (index, &block) in RASTER.iter().enumerate() {
                blocks[16 * index] = dc[usize::from(block)];
            }
            mb.coded |= 0xffff;
        }
        Ok(())
    }

    fn residual_chroma(
        &mut self,
        mb: &mut Mb,
        pattern: u8,
        totals: &mut Totals,
    ) -> Result<(), Fault> {
        if pattern == 0 {
            return Ok(());
        }
        let dc = [
            cavlc::chroma_dc(self.reader)?,
            cavlc::chroma_dc(self.reader)?,
        ];
        for (plane, (levels, any)) in dc.into_iter().enumerate() {
            let base = 16 + 4 * plane;
            if any {
                let blocks = self.job.coefficients.grow(64);
                for (index, level) in levels.into_iter().enumerate() {
                    blocks[16 * index] = level;
                }
                mb.coded |= 15 << base;
            }
            if pattern == 2 {
                for block in 0..4 {
                    let context = self.context(totals, base, 2, block % 2, block / 2);
                    totals[base + block] = self.block(mb, base + block, 1, context)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cavlc::ZIGZAG;

    #[test]
    fn tables_are_permutations() {
        for table in [CODED_BLOCK_PATTERN_INTRA, CODED_BLOCK_PATTERN_INTER] {
            let mut sorted = table;
            sorted.sort_unstable();
            assert!(
                sorted
                    .iter()
                    .enumerate()
                    .all(|(i, &pattern)| usize::from(pattern) == i)
            );
        }
        for table in [RASTER, ZIGZAG] {
            let mut sorted = table;
            sorted.sort_unstable();
            assert!(
                sorted
                    .iter()
                    .enumerate()
                    .all(|(i, &at)| usize::from(at) == i)
            );
        }
    }
}
