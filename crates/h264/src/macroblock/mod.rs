//! Clauses 7.3.4 and 7.3.5: slice data and the macroblock layer, from bits to the macroblocks of a [`Job`].

mod inter;
mod intra;
mod residual;

use crate::bits::BitReader;
use crate::error::Fault;
use crate::job::{Job, Kind, Mb, Mv, NO_SLOT};
use crate::mvpred::{INTRA, skip_prediction};
use crate::neighbours::{Context, DC_MODE, Edge, NO_MODE, Packed};
use crate::params::Pps;
use crate::plane::Shared;
use crate::recon::chroma_qp;
use crate::slice::SliceHeader;
use crate::strength;

/// Figure 6-10: raster position of each luma4x4BlkIdx.
pub(crate) const RASTER: [u8; 16] = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];

const TWICE: Fault = Fault::Syntax("a macroblock is coded twice");

/// The state of the parser within a slice.
pub(crate) struct SliceParser<'a, 'r> {
    reader: BitReader<'r>,
    mbs: &'a mut [Mb],
    mvs: &'a mut [[Mv; 16]],
    coefficients: &'a mut Shared<i16>,
    used: &'a mut usize,
    /// The first macroblock ahead that another slice has parsed; the end of the picture if there is none.
    limit: usize,
    /// The lower edges of the macroblocks above; that of column x has index x + 1.
    above: &'a mut [Edge],
    /// The lower edges of the current row, with the same indices.
    below: &'a mut [Edge],
    /// The right edge of the macroblock to the left.
    left: Edge,
    /// Column of the current macroblock.
    x: usize,
    address: usize,
    /// The reference list as indices into `Job::references`.
    list: &'a [u8],
    predicted: bool,
    /// Whether macroblocks of the slice are deblocked.
    deblocked: bool,
    constrained_intra_pred: bool,
    chroma_qp_offset: [i32; 2],
    qp: i32,
    /// A macroblock of the slice with the current quantiser; all other fields have their default.
    blank: Mb,
    /// A P_Skip macroblock with the current quantiser, and its edges.
    skipped: (Mb, Edge),
}

impl<'a, 'r> SliceParser<'a, 'r> {
    /// Returns a parser of the slice with index `slice` in `job.slices`.
    pub(crate) fn new(
        reader: BitReader<'r>,
        job: &'a mut Job,
        context: &'a mut Context,
        slice: u16,
        header: &SliceHeader,
        pps: &Pps,
        list: &'a [u8],
    ) -> Self {
        let width = job.mb_width as usize;
        context.begin_slice(width);
        let [above, below] = &mut context.lines;
        let blank = Mb {
            slice,
            ref_idx: [INTRA; 4],
            ref_slot: [NO_SLOT; 4],
            ..Mb::default()
        };
        let slot = list.first().copied().unwrap_or(NO_SLOT);
        let skipped = Mb {
            kind: Kind::Inter,
            ref_idx: [0; 4],
            ref_slot: [slot; 4],
            ..blank
        };
        let skipped = Mb {
            stages: skipped.needed_stages(),
            ..skipped
        };
        let mut mode = DC_MODE;
        if pps.constrained_intra_pred {
            mode = NO_MODE;
        }
        let edge = Edge {
            reference: [0; 2],
            slot: [slot; 2],
            modes: [mode; 4],
            plain: true,
            ..Edge::INTRA
        };
        let mut parser = SliceParser {
            reader,
            mbs: &mut job.mbs,
            mvs: &mut job.mvs,
            coefficients: &mut job.coefficients,
            used: &mut job.used,
            limit: context.parsed.next(header.first_mb as usize),
            above,
            below,
            left: Edge::OUTSIDE,
            x: header.first_mb as usize % width,
            address: header.first_mb as usize,
            list,
            predicted: header.predicted,
            deblocked: header.deblocking != 1,
            constrained_intra_pred: pps.constrained_intra_pred,
            chroma_qp_offset: pps.chroma_qp_offset,
            qp: header.qp,
            blank,
            skipped: (skipped, edge),
        };
        parser.set_qp(header.qp);
        parser
    }

    /// Returns the position in the slice.
    pub(crate) fn reader(&self) -> BitReader<'r> {
        self.reader
    }

    /// Returns the address of the macroblock that is read next.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Reads all macroblocks of the slice (7.3.4). If one has a fault, those before it are kept.
    pub(crate) fn parse(&mut self) -> Result<(), Fault> {
        loop {
            if self.predicted {
                let run = self.reader.ue() as usize;
                Fault::Syntax("mb_skip_run leads outside the picture")
                    .when(run > self.mbs.len() - self.address)?;
                self.reader.check()?;
                self.skip_run(run)?;
                if !self.reader.more_data() {
                    return Ok(());
                }
            }
            Fault::Syntax("the slice leads outside the picture")
                .when(self.address >= self.mbs.len())?;
            TWICE.when(self.address >= self.limit)?;
            self.macroblock()?;
            if !self.reader.more_data() {
                return Ok(());
            }
        }
    }

    /// Stores the current macroblock, unless its data ended too early, and its edges. Moves to the next macroblock.
    #[inline(always)]
    fn store(&mut self, mb: &mut Mb, bottom: Edge, right: Edge) -> Result<(), Fault> {
        self.reader.check()?;
        mb.stages = mb.needed_stages();
        self.mbs[self.address] = *mb;
        self.below[self.x + 1] = bottom;
        self.left = right;
        self.advance(1);
        Ok(())
    }

    /// Moves forward by `n` macroblocks, which must all be left in the row.
    #[inline(always)]
    fn advance(&mut self, n: usize) {
        self.address += n;
        self.x += n;
        if self.x + 2 == self.below.len() {
            self.x = 0;
            self.left = Edge::OUTSIDE;
            std::mem::swap(&mut self.above, &mut self.below);
        }
    }

    /// Sets the luma quantiser and the chroma quantisers that follow from it.
    fn set_qp(&mut self, qp: i32) {
        self.qp = qp;
        self.blank.qp = self.quantisers(qp);
        self.skipped.0.qp = self.blank.qp;
    }

    /// Returns the quantisers of Y, Cb and Cr for the luma quantiser `qp`.
    fn quantisers(&self, qp: i32) -> [u8; 3] {
        let [cb, cr] = self.chroma_qp_offset;
        [qp as u8, chroma_qp(qp + cb), chroma_qp(qp + cr)]
    }

    /// Stores `run` P_Skip macroblocks.
    fn skip_run(&mut self, mut run: usize) -> Result<(), Fault> {
        while run > 0 {
            let in_row = self.below.len() - 2 - self.x;
            let n = run.min(in_row).min(self.limit - self.address);
            TWICE.when(n == 0)?;
            self.skip_in_row(n);
            run -= n;
        }
        Ok(())
    }

    /// Stores `n` P_Skip macroblocks, which must all be left in the row.
    #[inline(never)]
    fn skip_in_row(&mut self, n: usize) {
        // Copied as a whole and then changed in place, so that no macroblock is assembled in temporary memory.
        let (blank, blank_edge) = (&self.skipped.0, &self.skipped.1);
        let above = self.above[self.x..self.x + n + 2].windows(3);
        let below = &mut self.below[self.x + 1..][..n];
        let mbs = &mut self.mbs[self.address..][..n];
        let mut left = &self.left;
        for ((above, edge), mb) in above.zip(below).zip(mbs) {
            let [above_left, above, above_right] = above else {
                return;
            };
            let c = above_right.motion(0).or(above_left.motion(3));
            let mv = skip_prediction(left.motion(0), above.motion(0), c);
            *edge = *blank_edge;
            edge.mv = [Packed::new(mv); 4];
            *mb = *blank;
            mb.mv = mv;
            if self.deblocked {
                strength::plain(mb, edge, left, above);
            }
            // All edges of a P_Skip macroblock are equal, so this one is also its right edge.
            left = edge;
        }
        let left = *left;
        self.left = left;
        self.advance(n);
    }

    /// Returns the lower edges of the macroblocks above left, above, and above right.
    #[inline(always)]
    fn edges_above(&self) -> &[Edge; 3] {
        match self.above[self.x..].first_chunk() {
            Some(edges) => edges,
            None => &[Edge::OUTSIDE; 3],
        }
    }

    fn macroblock(&mut self) -> Result<(), Fault> {
        let mut mb_type = self.reader.ue();
        if self.predicted {
            if mb_type < 5 {
                return self.inter(mb_type);
            }
            mb_type -= 5;
        }
        match mb_type {
            0 => self.intra4x4(),
            1..=24 => self.intra16x16(mb_type - 1),
            25 => self.pcm(),
            _ => Err(Fault::Syntax("mb_type is too large")),
        }
    }
}
