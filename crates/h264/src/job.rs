//! One picture between entropy decoding and reconstruction.

use std::ops::Range;
use std::sync::Arc;

use crate::frame::Frame;
use crate::plane::Shared;
use crate::probe::{NoProbe, Probe, job_base};
use crate::recon;

/// One of the eight steps in which a macroblock is reconstructed (paper 1, "stages").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Inverse quantisation and transform of luma, in place in the job.
    LumaResidual = 0,
    /// Intra prediction or motion compensation of luma; reconstructs 4x4 intra macroblocks and I_PCM.
    LumaPrediction = 1,
    /// Adds the luma residual to the prediction.
    LumaReconstruction = 2,
    /// Deblocks luma.
    LumaDeblocking = 3,
    /// Inverse quantisation and transform of both chroma planes, and their prediction.
    ChromaPrediction = 4,
    /// Adds the chroma residual to the prediction.
    ChromaReconstruction = 5,
    /// Deblocks Cb.
    CbDeblocking = 6,
    /// Deblocks Cr.
    CrDeblocking = 7,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub const ALL: [Stage; 8] = [
        Stage::LumaResidual,
        Stage::LumaPrediction,
        Stage::LumaReconstruction,
        Stage::LumaDeblocking,
        Stage::ChromaPrediction,
        Stage::ChromaReconstruction,
        Stage::CbDeblocking,
        Stage::CrDeblocking,
    ];
    /// The stages before deblocking, in an order in which one macroblock may run them.
    pub const FRONT: [Stage; 5] = [
        Stage::LumaResidual,
        Stage::LumaPrediction,
        Stage::LumaReconstruction,
        Stage::ChromaPrediction,
        Stage::ChromaReconstruction,
    ];
    /// The deblocking stages.
    pub const REAR: [Stage; 3] = [
        Stage::LumaDeblocking,
        Stage::CbDeblocking,
        Stage::CrDeblocking,
    ];
}

/// A motion vector in quarter luma samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mv {
    pub(crate) x: i16,
    pub(crate) y: i16,
}

/// How a macroblock is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// Sixteen 4x4 intra blocks.
    #[default]
    Intra4x4,
    /// One 16x16 intra block.
    Intra16x16,
    /// Samples without prediction.
    Pcm,
    /// Motion compensated; see `Mb::shape`. P_Skip is one of them, without coefficients.
    Inter,
}

/// Partitions of an inter macroblock (Table 7-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Whole,
    Rows,
    Columns,
    Quarters,
}

/// Partitions of an 8x8 quarter (Table 7-17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SubShape {
    #[default]
    Whole,
    Rows,
    Columns,
    Quarters,
}

/// A macroblock's left, upper, upper right and upper left neighbours that intra prediction may use.
pub(crate) const AVAILABLE_LEFT: u8 = 1;
pub(crate) const AVAILABLE_TOP: u8 = 2;
pub(crate) const AVAILABLE_TOP_RIGHT: u8 = 4;
pub(crate) const AVAILABLE_TOP_LEFT: u8 = 8;

/// `Mb::slice` of a macroblock that no slice has brought yet.
pub(crate) const NO_SLICE: u16 = u16::MAX;
/// `Mb::ref_slot` of an intra quarter.
pub(crate) const NO_SLOT: u8 = u8::MAX;

/// The syntax of one macroblock. Motion vectors are apart, since intra pictures have none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mb {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) sub: [SubShape; 4],
    /// Index into the slice's reference list of each quarter; -1 in intra macroblocks.
    pub(crate) ref_idx: [i8; 4],
    /// Index into `Job::references` of each quarter.
    pub(crate) ref_slot: [u8; 4],
    /// Quantisers of Y, Cb and Cr for the residual.
    pub(crate) qp: [u8; 3],
    /// The same for deblocking, where I_PCM counts as 0.
    pub(crate) filter_qp: [u8; 3],
    /// Intra16x16 prediction mode.
    pub(crate) luma_mode: u8,
    /// Intra chroma prediction mode.
    pub(crate) chroma_mode: u8,
    /// `AVAILABLE_*` flags for intra prediction.
    pub(crate) available: u8,
    /// Intra4x4 prediction modes by raster position, four bits each.
    pub(crate) modes: u64,
    /// Which 4x4 blocks have room in `Job::coefficients`: bits 0..16 luma by luma4x4BlkIdx, 16..20 Cb, 20..24 Cr.
    pub(crate) coded: u32,
    /// Which of them have more than a DC coefficient.
    pub(crate) ac: u32,
    /// Where the first of them lies; 16 coefficients a block, in the order of the bits. I_PCM: 384 samples.
    pub(crate) coefficients: u32,
    /// Number of the slice in `Job::slices`.
    pub(crate) slice: u16,
    /// bS of the vertical edges at x = 0, 4, 8, 12: four bits for each group of four rows.
    pub(crate) bs_vertical: [u16; 4],
    /// bS of the horizontal edges at y = 0, 4, 8, 12.
    pub(crate) bs_horizontal: [u16; 4],
}

impl Mb {
    pub(crate) fn is_intra(&self) -> bool {
        self.kind != Kind::Inter
    }

    /// Intra4x4 prediction mode of the block at raster position `block`.
    pub(crate) fn mode(&self, block: usize) -> u8 {
        (self.modes >> (4 * block)) as u8 & 15
    }

    /// Where the coefficients of block `bit` (as in `coded`) lie in `Job::coefficients`.
    pub(crate) fn block_offset(&self, bit: u32) -> usize {
        self.coefficients as usize + 16 * (self.coded & ((1 << bit) - 1)).count_ones() as usize
    }
}

/// Weight and offset of each plane of one reference (8.4.2.3.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) weight: [i16; 3],
    pub(crate) offset: [i16; 3],
}

/// Explicit weighted prediction of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) log2_denominator: [u8; 3],
    pub(crate) entries: Vec<Weight>,
}

/// What reconstruction needs of a slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slice {
    /// `disable_deblocking_filter_idc`.
    pub(crate) deblocking: u8,
    /// Offsets to the indices of the alpha and beta tables: twice the syntax elements.
    pub(crate) alpha_offset: i8,
    pub(crate) beta_offset: i8,
    pub(crate) weights: Option<Weights>,
}

/// One picture: everything that entropy decoding found out, and the frame that reconstruction shall write.
///
/// A job holds no pixel except those of I_PCM macroblocks. Stages transform its coefficients in place, so each (stage,
/// macroblock) runs at most once.
pub struct Job {
    pub(crate) mb_width: u32,
    pub(crate) mb_height: u32,
    pub(crate) frame: Arc<Frame>,
    pub(crate) references: Vec<Arc<Frame>>,
    pub(crate) mbs: Vec<Mb>,
    pub(crate) mvs: Vec<[Mv; 16]>,
    pub(crate) coefficients: Shared<i16>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) concealed: u32,
    pub(crate) buffer: u32,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("frame", &self.frame)
            .field("mb_width", &self.mb_width)
            .field("mb_height", &self.mb_height)
            .field("references", &self.references.len())
            .field("slices", &self.slices.len())
            .field("concealed", &self.concealed)
            .finish_non_exhaustive()
    }
}

impl Job {
    /// An empty job for a picture of that many macroblocks.
    pub(crate) fn new(frame: Arc<Frame>, buffer: u32) -> Self {
        let mut job = Job {
            mb_width: 0,
            mb_height: 0,
            frame: Arc::clone(&frame),
            references: Vec::new(),
            mbs: Vec::new(),
            mvs: Vec::new(),
            coefficients: Shared::new(1, 0),
            slices: Vec::new(),
            concealed: 0,
            buffer,
        };
        job.reset(frame);
        job
    }

    /// Makes the job ready for a new picture; keeps its memory.
    pub(crate) fn reset(&mut self, frame: Arc<Frame>) {
        let count = (frame.mb_width * frame.mb_height) as usize;
        self.mb_width = frame.mb_width;
        self.mb_height = frame.mb_height;
        self.frame = frame;
        self.references.clear();
        self.mbs.resize(count, Mb::default());
        for mb in &mut self.mbs {
            mb.slice = NO_SLICE;
        }
        self.mvs.resize(count, [Mv::default(); 16]);
        self.coefficients.truncate(0);
        self.slices.clear();
        self.concealed = 0;
    }

    /// Macroblocks in a row.
    pub fn mb_width(&self) -> u32 {
        self.mb_width
    }

    /// Rows of macroblocks.
    pub fn mb_height(&self) -> u32 {
        self.mb_height
    }

    /// Macroblocks of the picture; their addresses are 0 up to this, in raster order.
    pub fn mb_count(&self) -> u32 {
        self.mb_width * self.mb_height
    }

    /// The frame that the stages write.
    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    /// The frames that prediction may read: each once, in no particular order.
    pub fn references(&self) -> &[Arc<Frame>] {
        &self.references
    }

    /// How many macroblocks were lost and are concealed from the previous picture.
    pub fn concealed(&self) -> u32 {
        self.concealed
    }

    /// Whether macroblock `mb` is predicted from its neighbours (or is I_PCM) and not from other pictures.
    ///
    /// # Panics
    /// When `mb` is not in the picture.
    pub fn is_intra(&self, mb: u32) -> bool {
        self.mbs[mb as usize].is_intra()
    }

    /// False where `stage` would do nothing for macroblock `mb`: then it need not run.
    ///
    /// A stage that need not run still counts as ended when the stages that it would have waited for have ended: see
    /// the rules in [`recon`].
    ///
    /// # Panics
    /// When `mb` is not in the picture.
    pub fn needs(&self, mb: u32, stage: Stage) -> bool {
        let mb = &self.mbs[mb as usize];
        let luma = mb.coded & 0xffff != 0;
        let chroma_edges = |mb: &Mb| {
            mb.bs_vertical[0] | mb.bs_vertical[2] | mb.bs_horizontal[0] | mb.bs_horizontal[2] != 0
        };
        match stage {
            Stage::LumaResidual => luma,
            Stage::LumaPrediction | Stage::ChromaPrediction => true,
            Stage::LumaReconstruction => luma && mb.kind != Kind::Intra4x4,
            Stage::LumaDeblocking => mb.bs_vertical != [0; 4] || mb.bs_horizontal != [0; 4],
            Stage::ChromaReconstruction => mb.coded >> 16 != 0,
            Stage::CbDeblocking | Stage::CrDeblocking => chroma_edges(mb),
        }
    }

    /// Runs one stage of one macroblock.
    ///
    /// May be called for different (stage, macroblock) pairs at once, as long as the order that [`recon`] documents is kept
    /// with a happens-before between threads; each pair runs at most once. **Where the order is not kept, debug builds panic, and in
    /// release builds two threads may touch the same pixels at once, which is undefined behaviour**: hold your graph to the order by
    /// running it in a debug build.
    ///
    /// # Panics
    /// When `mb` is not in the picture; in debug builds also where the order is not kept.
    pub fn run_stage(&self, stage: Stage, mb: u32) {
        self.run_stage_with(stage, mb, &mut NoProbe);
    }

    /// [`run_stage`](Self::run_stage) with a probe that sees what it computes, reads and writes.
    ///
    /// # Panics
    /// As [`run_stage`](Self::run_stage).
    pub fn run_stage_with<P: Probe>(&self, stage: Stage, mb: u32, probe: &mut P) {
        if self.needs(mb, stage) {
            recon::run(self, stage, mb as usize, probe);
        }
    }

    /// Runs every stage of every macroblock on this thread, in raster order, deblocking one row behind.
    #[inline(never)]
    pub fn reconstruct(&self) {
        self.reconstruct_with(&mut NoProbe);
    }

    /// [`reconstruct`](Self::reconstruct) with a probe.
    pub fn reconstruct_with<P: Probe>(&self, probe: &mut P) {
        let row = |y: u32| y * self.mb_width..(y + 1) * self.mb_width;
        for y in 0..=self.mb_height {
            if y < self.mb_height {
                for mb in row(y) {
                    Stage::FRONT
                        .into_iter()
                        .for_each(|stage| self.run_stage_with(stage, mb, probe));
                }
            }
            if y > 0 {
                for mb in row(y - 1) {
                    Stage::REAR
                        .into_iter()
                        .for_each(|stage| self.run_stage_with(stage, mb, probe));
                }
            }
        }
    }

    /// Which rows of which reference pictures the prediction of the macroblock rows `mb_rows` reads: calls `f` once for
    /// each frame of [`references`](Self::references) that is read, with the last row of macroblocks of which every
    /// stage must have ended (and of all rows above it) before the stages 1 and 4 of `mb_rows` may start.
    ///
    /// Covers the margin of the interpolation filters and the pixels that deblocking of the row below changes. Costs a
    /// walk over the motion vectors of the rows.
    pub fn reference_reach(&self, mb_rows: Range<u32>, f: &mut dyn FnMut(&Arc<Frame>, u32)) {
        recon::reference_reach(self, mb_rows, f);
    }

    /// Address of the syntax of macroblock `mb` in the virtual layout that a [`Probe`] sees.
    pub(crate) fn mb_address(&self, mb: usize) -> u64 {
        job_base(self.buffer) + (mb * size_of::<Mb>()) as u64
    }

    /// The same for its motion vectors.
    pub(crate) fn mv_address(&self, mb: usize) -> u64 {
        job_base(self.buffer) + (self.mbs.len() * size_of::<Mb>() + mb * 64) as u64
    }

    /// The same for coefficient `index`.
    pub(crate) fn coefficient_address(&self, index: usize) -> u64 {
        job_base(self.buffer) + (self.mbs.len() * (size_of::<Mb>() + 64) + index * 2) as u64
    }
}
