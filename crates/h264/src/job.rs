//! One picture between entropy decoding and reconstruction.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::frame::Frame;
use crate::plane::Shared;
use crate::probe::{NoProbe, Probe, Region, job_base};
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
    /// The bits of the deblocking stages in `Mb::stages`.
    pub(crate) const DEBLOCKING: u8 = 1 << Stage::LumaDeblocking as u8
        | 1 << Stage::CbDeblocking as u8
        | 1 << Stage::CrDeblocking as u8;
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

/// `Mb::ref_slot` of an intra quarter.
pub(crate) const NO_SLOT: u8 = u8::MAX;

/// The syntax of one macroblock: a cache line. The motion vectors of those with several are apart, since few have.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Mb {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) sub: [SubShape; 4],
    /// Index into the slice's reference list of each quarter; -1 in intra macroblocks.
    pub(crate) ref_idx: [i8; 4],
    /// Index into `Job::references` of each quarter.
    pub(crate) ref_slot: [u8; 4],
    /// Quantisers of Y, Cb and Cr; 0 for I_PCM, which has no residual, as deblocking wants it.
    pub(crate) qp: [u8; 3],
    /// Intra16x16 prediction mode.
    pub(crate) luma_mode: u8,
    /// Intra chroma prediction mode.
    pub(crate) chroma_mode: u8,
    /// `AVAILABLE_*` flags for intra prediction.
    pub(crate) available: u8,
    /// A bit for each [`Stage`] that has anything to do.
    pub(crate) stages: u8,
    /// The motion vector where `shape` is `Whole`; others are in `Job::mvs`.
    pub(crate) mv: Mv,
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

    /// What `stages` has to be, by all the rest.
    #[inline(always)]
    pub(crate) fn needed_stages(&self) -> u8 {
        let [luma, chroma] = [self.coded & 0xffff != 0, self.coded >> 16 != 0];
        let (v, h) = (&self.bs_vertical, &self.bs_horizontal);
        let chroma_edges = v[0] | v[2] | h[0] | h[2] != 0;
        let edges = chroma_edges || v[1] | v[3] | h[1] | h[3] != 0;
        let needed = |stage: Stage, condition: bool| u8::from(condition) << stage as u8;
        needed(Stage::LumaResidual, luma)
            | needed(Stage::LumaPrediction, true)
            | needed(
                Stage::LumaReconstruction,
                luma && self.kind != Kind::Intra4x4,
            )
            | needed(Stage::LumaDeblocking, edges)
            | needed(Stage::ChromaPrediction, true)
            | needed(Stage::ChromaReconstruction, chroma)
            | needed(Stage::CbDeblocking, chroma_edges)
            | needed(Stage::CrDeblocking, chroma_edges)
    }

    /// Which luma blocks have room in `Job::coefficients`, by raster position.
    #[inline(always)]
    pub(crate) fn coded_raster(&self) -> u16 {
        // luma4x4BlkIdx and raster position differ in the order of their two middle bits.
        let coded = self.coded as u16;
        let swapped = (coded >> 2 ^ coded) & 0x0c0c;
        coded ^ swapped ^ swapped << 2
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
    /// One for each entry of the reference list, of which there are at most 16.
    pub(crate) entries: SmallVec<[Weight; 16]>,
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
    /// By raster position of 4x4 blocks; only those of inter macroblocks whose shape is not `Whole` are valid.
    pub(crate) mvs: Vec<[Mv; 16]>,
    /// Levels, and later residuals; behind the first `used` is room that is not cleared.
    pub(crate) coefficients: Shared<i16>,
    pub(crate) used: usize,
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
            used: 0,
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
        self.mvs.resize(count, [Mv::default(); 16]);
        self.used = 0;
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
        self.mbs[mb as usize].stages & 1 << stage as u8 != 0
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
        probe.read(self.mb_address(mb as usize), size_of::<Mb>() as u32);
        if self.needs(mb, stage) {
            recon::run(self, stage, mb, probe);
        } else {
            probe.skipped(stage, mb);
        }
    }

    /// Tells `probe` what `stage` would read and write of macroblock `mb`, which does not need it, in a decoder that passes over every
    /// macroblock: its syntax, the residual that is zero, and the samples that stay as they are. Changes nothing.
    ///
    /// For recordings of such decoders. A residual that is zero lies where it would if every macroblock had one.
    ///
    /// # Panics
    /// When `mb` is not in the picture.
    pub fn pass_with<P: Probe>(&self, stage: Stage, mb: u32, probe: &mut P) {
        recon::pass(self, stage, mb, probe);
    }

    /// Runs every stage of every macroblock on this thread, in raster order, deblocking one row behind.
    #[inline(never)]
    pub fn reconstruct(&self) {
        self.reconstruct_with(&mut NoProbe);
    }

    /// [`reconstruct`](Self::reconstruct) with a probe.
    pub fn reconstruct_with<P: Probe>(&self, probe: &mut P) {
        let row = 0..self.mb_width;
        for y in 0..self.mb_height {
            recon::run_front(self, y, row.clone(), probe);
            if y > 0 {
                recon::run_rear(self, y - 1, row.clone(), probe);
            }
        }
        if self.mb_height > 0 {
            recon::run_rear(self, self.mb_height - 1, row, probe);
        }
    }

    /// Runs the stages before deblocking of these macroblocks of one row, one macroblock after the other: faster than
    /// [`run_stage`](Self::run_stage) for each, and bound to the same order.
    ///
    /// # Panics
    /// Where `mbs` are not neighbours in one row of the picture; in debug builds also where the order is not kept.
    #[inline(never)]
    pub fn run_front(&self, mbs: Range<u32>) {
        self.run_front_with(mbs, &mut NoProbe);
    }

    /// [`run_front`](Self::run_front) with a probe.
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(always)]
    pub fn run_front_with<P: Probe>(&self, mbs: Range<u32>, probe: &mut P) {
        let (y, xs) = self.in_row(mbs);
        recon::run_front(self, y, xs, probe);
    }

    /// Runs the deblocking stages of these macroblocks of one row; otherwise as [`run_front`](Self::run_front).
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(never)]
    pub fn run_rear(&self, mbs: Range<u32>) {
        self.run_rear_with(mbs, &mut NoProbe);
    }

    /// [`run_rear`](Self::run_rear) with a probe.
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(always)]
    pub fn run_rear_with<P: Probe>(&self, mbs: Range<u32>, probe: &mut P) {
        let (y, xs) = self.in_row(mbs);
        recon::run_rear(self, y, xs, probe);
    }

    /// Row and columns of neighbouring macroblocks.
    fn in_row(&self, mbs: Range<u32>) -> (u32, Range<u32>) {
        let (y, x) = (mbs.start / self.mb_width, mbs.start % self.mb_width);
        let end = x + (mbs.end - mbs.start);
        assert!(
            mbs.start <= mbs.end && y < self.mb_height && end <= self.mb_width,
            "{mbs:?} are not macroblocks of one row"
        );
        (y, x..end)
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

    /// The same for slice `slice`, of which we say that it takes a line of 64 bytes.
    pub(crate) fn slice_address(&self, slice: u16) -> u64 {
        let before = self.mbs.len() * (size_of::<Mb>() + 64);
        job_base(self.buffer) + (before + 64 * usize::from(slice)) as u64
    }

    /// The same for coefficient `index`.
    pub(crate) fn coefficient_address(&self, index: usize) -> u64 {
        let before = self.mbs.len() * (size_of::<Mb>() + 64) + 64 * self.slices.len();
        job_base(self.buffer) + (before + index * 2) as u64
    }

    /// The same for the first of a macroblock's 384 coefficients, if each macroblock had all of them.
    pub(crate) fn whole_residual_address(&self, mb: usize) -> u64 {
        self.coefficient_address(384 * mb)
    }

    /// The buffer of what was parsed of this picture, in the virtual layout that a [`Probe`] sees, and how many bytes one for pictures of
    /// this size takes.
    pub fn buffer(&self) -> (Region, u64) {
        const SLICE: u64 = 64;
        const COEFFICIENTS: u64 = 2 * 384;
        let macroblock = size_of::<Mb>() as u64 + 64 + SLICE + COEFFICIENTS;
        (
            Region::Job(self.buffer),
            u64::from(self.mb_count()) * macroblock,
        )
    }
}
