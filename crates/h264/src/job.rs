//! One picture between entropy decoding and reconstruction.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::frame::Frame;
use crate::plane::Shared;
use crate::probe::{NoProbe, Probe, Region, job_base};
use crate::recon;

/// One of the eight steps that reconstruct a macroblock (paper 1, "stages").
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
    /// All stages in the order of their numbers.
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
    /// The deblocking stages as bits of `Mb::stages`.
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
    /// Motion compensated; `Mb::shape` has the partitions. P_Skip is an inter macroblock without coefficients.
    Inter,
}

/// Partitions of an inter macroblock (Table 7-13), and of an 8x8 quarter (Table 7-17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Whole,
    Rows,
    Columns,
    Quarters,
}

/// Bits of `Mb::available`: which of the left, upper, upper right and upper left neighbours intra prediction may use.
pub(crate) const AVAILABLE_LEFT: u8 = 1;
pub(crate) const AVAILABLE_TOP: u8 = 2;
pub(crate) const AVAILABLE_TOP_RIGHT: u8 = 4;
pub(crate) const AVAILABLE_TOP_LEFT: u8 = 8;

/// `Mb::ref_slot` of a quarter without a reference: all of them in intra macroblocks.
pub(crate) const NO_SLOT: u8 = u8::MAX;

/// The syntax of one macroblock, in one cache line. The vectors of macroblocks with several are stored elsewhere, since few macroblocks
/// have them.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Mb {
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) sub: [Shape; 4],
    /// By quarter, the index into the slice's reference list; -1 in intra macroblocks.
    pub(crate) ref_idx: [i8; 4],
    /// By quarter, the index into `Job::references`.
    pub(crate) ref_slot: [u8; 4],
    /// Quantisers of Y, Cb and Cr. 0 for I_PCM, which has no residual: deblocking needs that value (8.7.2.2).
    pub(crate) qp: [u8; 3],
    /// Intra16x16 prediction mode.
    pub(crate) luma_mode: u8,
    /// Intra chroma prediction mode.
    pub(crate) chroma_mode: u8,
    /// `AVAILABLE_*` flags for intra prediction.
    pub(crate) available: u8,
    /// One bit for each [`Stage`] that has anything to do.
    pub(crate) stages: u8,
    /// The motion vector if `shape` is `Whole`; otherwise the vectors are in `Job::mvs`.
    pub(crate) mv: Mv,
    /// Intra4x4 prediction modes by raster position, four bits each.
    pub(crate) modes: u64,
    /// Which 4x4 blocks have levels in `Job::coefficients`: bits 0..16 luma by luma4x4BlkIdx, 16..20 Cb, 20..24 Cr.
    pub(crate) coded: u32,
    /// Which of the `coded` blocks have more than a DC coefficient.
    pub(crate) ac: u32,
    /// Index of the first coefficient; 16 coefficients for each coded block, in the order of the bits. I_PCM: 384 samples.
    pub(crate) coefficients: u32,
    /// Index of the slice in `Job::slices`.
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

    /// Returns the Intra4x4 prediction mode of the block at raster position `block`.
    pub(crate) fn mode(&self, block: usize) -> u8 {
        (self.modes >> (4 * block)) as u8 & 15
    }

    /// Computes and returns `stages` from all other fields.
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

    /// Returns which luma blocks are coded, by raster position.
    #[inline(always)]
    pub(crate) fn coded_raster(&self) -> u16 {
        // luma4x4BlkIdx and raster position differ in the order of their two middle bits.
        let coded = self.coded as u16;
        let swapped = (coded >> 2 ^ coded) & 0x0c0c;
        coded ^ swapped ^ swapped << 2
    }

    /// Returns the index in `Job::coefficients` of the block with bit `bit` of `coded`.
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
    /// One entry for each entry of the reference list, which has at most 16.
    pub(crate) entries: SmallVec<[Weight; 16]>,
}

/// What reconstruction needs to know about a slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slice {
    /// `disable_deblocking_filter_idc`.
    pub(crate) deblocking: u8,
    /// Offsets to the indices of the alpha and beta tables: twice the syntax elements.
    pub(crate) alpha_offset: i8,
    pub(crate) beta_offset: i8,
    pub(crate) weights: Option<Weights>,
}

/// One picture: everything that entropy decoding produced, and the frame that reconstruction writes.
///
/// A job has no pixels except those of I_PCM macroblocks. Stages transform its coefficients in place, so each (stage, macroblock) pair runs
/// at most once.
pub struct Job {
    pub(crate) mb_width: u32,
    pub(crate) mb_height: u32,
    pub(crate) frame: Arc<Frame>,
    pub(crate) references: Vec<Arc<Frame>>,
    pub(crate) mbs: Vec<Mb>,
    /// Vectors by raster position of 4x4 blocks; valid only for inter macroblocks whose shape is not `Whole`.
    pub(crate) mvs: Vec<[Mv; 16]>,
    /// Levels, which stage 0 and 4 turn into residuals. The memory behind the first `used` is not cleared.
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
    /// Returns an empty job for a picture of the size of `frame`. `buffer` is its number in the virtual layout.
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

    /// Prepares the job for a new picture; keeps its memory.
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

    /// Returns the number of macroblocks in a row.
    pub fn mb_width(&self) -> u32 {
        self.mb_width
    }

    /// Returns the number of rows of macroblocks.
    pub fn mb_height(&self) -> u32 {
        self.mb_height
    }

    /// Returns the number of macroblocks. Their addresses are 0 to this number minus 1, in raster order.
    pub fn mb_count(&self) -> u32 {
        self.mb_width * self.mb_height
    }

    /// Returns the frame that the stages write.
    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    /// Returns the frames that prediction may read, each once, in no particular order.
    pub fn references(&self) -> &[Arc<Frame>] {
        &self.references
    }

    /// Returns the number of lost macroblocks, which are concealed from the previous picture.
    pub fn concealed(&self) -> u32 {
        self.concealed
    }

    /// Returns whether macroblock `mb` is predicted from its neighbours (or is I_PCM) and not from other pictures.
    ///
    /// # Panics
    /// If `mb` is not in the picture.
    pub fn is_intra(&self, mb: u32) -> bool {
        self.mbs[mb as usize].is_intra()
    }

    /// Returns whether `stage` has anything to do for macroblock `mb`. If not, it need not run.
    ///
    /// A stage that need not run still counts as ended only once the stages that it would have waited for have ended: see the dependencies
    /// in [`recon`].
    ///
    /// # Panics
    /// If `mb` is not in the picture.
    pub fn needs(&self, mb: u32, stage: Stage) -> bool {
        self.mbs[mb as usize].stages & 1 << stage as u8 != 0
    }

    /// Runs one stage of one macroblock.
    ///
    /// May be called for different (stage, macroblock) pairs at the same time, as long as the order that [`recon`] documents is kept, with
    /// a happens-before relation between threads. Each pair runs at most once. **If the order is not kept, debug builds panic; in release
    /// builds two threads may then access the same pixels at the same time, which is undefined behaviour.** Run a task graph in a debug
    /// build to check its order.
    ///
    /// # Panics
    /// If `mb` is not in the picture; in debug builds also if the order is not kept.
    pub fn run_stage(&self, stage: Stage, mb: u32) {
        self.run_stage_with(stage, mb, &mut NoProbe);
    }

    /// Runs a stage as [`run_stage`](Self::run_stage), with a probe that observes what it computes, reads and writes.
    ///
    /// # Panics
    /// As [`run_stage`](Self::run_stage).
    pub fn run_stage_with<P: Probe>(&self, stage: Stage, mb: u32, probe: &mut P) {
        recon::run(self, stage, mb, probe);
    }

    /// Reports to `probe` what `stage` would read and write of macroblock `mb`, which does not need it, in a decoder that processes every
    /// macroblock: its syntax, the residual of zeros, and the samples that stay unchanged. Changes nothing.
    ///
    /// Used for recordings of such decoders. The residual of zeros has the address that it would have if every macroblock had a residual.
    ///
    /// # Panics
    /// If `mb` is not in the picture.
    pub fn pass_with<P: Probe>(&self, stage: Stage, mb: u32, probe: &mut P) {
        recon::pass(self, stage, mb, probe);
    }

    /// Runs every stage of every macroblock on this thread, in raster order, with deblocking one row behind.
    #[inline(never)]
    pub fn reconstruct(&self) {
        self.reconstruct_with(&mut NoProbe);
    }

    /// [`reconstruct`](Self::reconstruct) with a probe.
    pub fn reconstruct_with<P: Probe>(&self, probe: &mut P) {
        let row = 0..self.mb_width;
        for y in 0..=self.mb_height {
            if y < self.mb_height {
                recon::run_front(self, y, row.clone(), probe);
            }
            if y > 0 {
                recon::run_rear(self, y - 1, row.clone(), probe);
            }
        }
    }

    /// Runs the stages before deblocking of the macroblocks `mbs` of one row, one macroblock after the other. Faster than
    /// [`run_stage`](Self::run_stage) for each, with the same dependencies.
    ///
    /// # Panics
    /// If `mbs` are not macroblocks of one row of the picture; in debug builds also if the order is not kept.
    #[inline(never)]
    pub fn run_front(&self, mbs: Range<u32>) {
        self.run_front_with(mbs, &mut NoProbe);
    }

    /// Runs [`run_front`](Self::run_front) with a probe.
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(always)]
    pub fn run_front_with<P: Probe>(&self, mbs: Range<u32>, probe: &mut P) {
        let (y, xs) = self.in_row(mbs);
        recon::run_front(self, y, xs, probe);
    }

    /// Runs the deblocking stages of the macroblocks `mbs` of one row; otherwise as [`run_front`](Self::run_front).
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(never)]
    pub fn run_rear(&self, mbs: Range<u32>) {
        self.run_rear_with(mbs, &mut NoProbe);
    }

    /// Runs [`run_rear`](Self::run_rear) with a probe.
    ///
    /// # Panics
    /// As [`run_front`](Self::run_front).
    #[inline(always)]
    pub fn run_rear_with<P: Probe>(&self, mbs: Range<u32>, probe: &mut P) {
        let (y, xs) = self.in_row(mbs);
        recon::run_rear(self, y, xs, probe);
    }

    /// Returns the row and the columns of the macroblocks `mbs`.
    fn in_row(&self, mbs: Range<u32>) -> (u32, Range<u32>) {
        let (y, x) = (mbs.start / self.mb_width, mbs.start % self.mb_width);
        let end = x + (mbs.end - mbs.start);
        assert!(
            mbs.start <= mbs.end && y < self.mb_height && end <= self.mb_width,
            "{mbs:?} are not macroblocks of one row"
        );
        (y, x..end)
    }

    /// Reports which rows of which reference pictures the prediction of the macroblock rows `mb_rows` reads. Calls `f` once for each of the
    /// [`references`](Self::references) that is read, with the last row of macroblocks that is needed: each stage of that row and of all
    /// rows above it must have ended before stages 1 and 4 of `mb_rows` may start.
    ///
    /// The reported row includes the margin of the interpolation filters and the pixels that deblocking of the row below changes. Costs a
    /// walk over the motion vectors of the rows.
    pub fn reference_reach(&self, mb_rows: Range<u32>, f: &mut dyn FnMut(&Arc<Frame>, u32)) {
        recon::reference_reach(self, mb_rows, f);
    }

    /// Returns the address of macroblock `mb`'s syntax in the virtual layout that a [`Probe`] sees.
    pub(crate) fn mb_address(&self, mb: usize) -> u64 {
        job_base(self.buffer) + (mb * size_of::<Mb>()) as u64
    }

    /// Returns the virtual address of macroblock `mb`'s motion vectors.
    pub(crate) fn mv_address(&self, mb: usize) -> u64 {
        job_base(self.buffer) + (self.mbs.len() * size_of::<Mb>() + mb * 64) as u64
    }

    /// Returns the virtual address of slice `slice`, which takes 64 bytes in the virtual layout.
    pub(crate) fn slice_address(&self, slice: u16) -> u64 {
        let before = self.mbs.len() * (size_of::<Mb>() + 64);
        job_base(self.buffer) + (before + 64 * usize::from(slice)) as u64
    }

    /// Returns the virtual address of coefficient `index`.
    pub(crate) fn coefficient_address(&self, index: usize) -> u64 {
        let before = self.mbs.len() * (size_of::<Mb>() + 64) + 64 * self.slices.len();
        job_base(self.buffer) + (before + index * 2) as u64
    }

    /// Returns the virtual address that the first of macroblock `mb`'s 384 coefficients would have if every macroblock had all of them.
    pub(crate) fn whole_residual_address(&self, mb: usize) -> u64 {
        self.coefficient_address(384 * mb)
    }

    /// Returns the buffer of this picture's syntax in the virtual layout that a [`Probe`] sees, and its bytes for a picture of this size.
    pub fn buffer(&self) -> (Region, u64) {
        const SLICE: u64 = 64;
        const COEFFICIENTS: u64 = 2 * 384;
        let macroblock = size_of::<Mb>() as u64 + 64 + SLICE + COEFFICIENTS;
        let bytes = u64::from(self.mb_count()) * macroblock;
        (Region::Job(self.buffer), bytes)
    }
}
