//! The interface through which a recorder observes reconstruction.

use crate::job::Stage;

/// Observes what the reconstruction stages compute, and which memory they read and write.
///
/// Each stage function is generic over its probe, so that [`NoProbe`] costs nothing. Addresses are those of a fixed virtual layout (see
/// [`locate`]), not of this process: a stream has the same addresses in every run.
#[expect(unused_variables, reason = "the names of the parameters document them")]
pub trait Probe {
    /// Called when the code of `stage` starts for macroblock `mb`.
    fn code(&mut self, stage: Stage, mb: u32) {}
    /// Called when `stage` has nothing to do for macroblock `mb` (see [`Job::needs`](crate::Job::needs)).
    fn skipped(&mut self, stage: Stage, mb: u32) {}
    /// Called when the running stage executes an operation on `units` units ([`Operation`] defines the unit). Each call is one entry into
    /// the operation's code.
    fn operation(&mut self, operation: Operation, units: u32) {}
    /// Called when `size` bytes are read at `address`.
    fn read(&mut self, address: u64, size: u32) {}
    /// Called when `size` bytes are written at `address`.
    fn write(&mut self, address: u64, size: u32) {}
}

/// The probe that observes nothing and costs nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoProbe;

impl Probe for NoProbe {}

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// What a stage computes, distinguished as far as the costs differ. The names are those of cost tables.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Operation {
            /// All operations in the order of their numbers.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant,)+];

            /// Returns the name that cost tables use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Operation::$variant => $name,)+
                }
            }
        }
    };
}

operations! {
    /// Hadamard transform and scaling of DC levels (8.5.10, 8.5.11). Unit: a level.
    DcTransform = "dc-transform",
    /// Scaling and inverse transform of a 4x4 block (8.5.12). Unit: a block.
    Transform = "transform",
    /// Scaling and inverse transform of a 4x4 block without coefficients other than DC. Unit: a block.
    TransformDc = "transform-dc",
    /// Adding a residual to the prediction (8.5.14). Unit: a 4x4 block.
    Add = "add",
    /// Intra 4x4 prediction, vertical, horizontal or DC (8.3.1.2.1 to 8.3.1.2.3). Unit: a block.
    Intra4x4 = "intra-4x4",
    /// Intra 4x4 prediction along a diagonal (8.3.1.2.4 to 8.3.1.2.9). Unit: a block.
    Intra4x4Diagonal = "intra-4x4-diagonal",
    /// Intra 16x16 or chroma prediction, vertical, horizontal or DC (8.3.3, 8.3.4). Unit: a sample.
    IntraFlat = "intra-flat",
    /// Intra 16x16 or chroma plane prediction (8.3.3.4, 8.3.4.4). Unit: a sample.
    IntraPlane = "intra-plane",
    /// Copying I_PCM samples. Unit: a sample.
    Pcm = "pcm",
    /// Finding the source of a partition in one plane (8.4.2.1, 8.4.2.2). Unit: a partition.
    Partition = "partition",
    /// Clamping the coordinates of a source that is partly outside of the picture. Unit: a sample of the source.
    Border = "border",
    /// Luma at a whole position: a copy. Unit: a sample.
    LumaWhole = "luma-whole",
    /// Luma by one six-tap filter (8.4.2.2.1: b, h). Unit: a sample.
    LumaHalf = "luma-half",
    /// Luma by one six-tap filter and a mean (a, c, d, n). Unit: a sample.
    LumaQuarter = "luma-quarter",
    /// Luma by two six-tap filters, one after the other (j). Unit: a sample.
    LumaMiddle = "luma-middle",
    /// Luma by two six-tap filters one after the other, another six-tap filter, and a mean (f, i, k, q). Unit: a sample.
    LumaMiddleQuarter = "luma-middle-quarter",
    /// Luma by a horizontal and a vertical six-tap filter, and their mean (e, g, p, r). Unit: a sample.
    LumaDiagonal = "luma-diagonal",
    /// Chroma at a whole position: a copy. Unit: a sample.
    ChromaWhole = "chroma-whole",
    /// Chroma between two samples (8.4.2.2.2). Unit: a sample.
    ChromaLinear = "chroma-linear",
    /// Chroma between four samples. Unit: a sample.
    ChromaBilinear = "chroma-bilinear",
    /// Explicit weighted prediction (8.4.2.3.2). Unit: a sample.
    Weight = "weight",
    /// Thresholds of an edge of the deblocking filter (8.7.2.2). Unit: an edge whose thresholds are looked up.
    Thresholds = "thresholds",
    /// Deblocking across a luma edge with a strength below 4 (8.7.2.3). Unit: a line of samples across the edge.
    LumaEdge = "luma-edge",
    /// Deblocking across a luma edge with strength 4 (8.7.2.4). Unit: a line of samples across the edge.
    LumaEdgeStrong = "luma-edge-strong",
    /// Deblocking across a chroma edge with a strength below 4. Unit: a line of samples across the edge.
    ChromaEdge = "chroma-edge",
    /// Deblocking across a chroma edge with strength 4. Unit: a line of samples across the edge.
    ChromaEdgeStrong = "chroma-edge-strong",
}

/// Virtual address of frame buffer 0; see `frame_base`.
const FRAMES: u64 = 1 << 36;
/// Virtual address of the tables.
const TABLES: u64 = 1 << 32;
/// Virtual address of the syntax of job 0.
const JOBS: u64 = 1 << 44;
/// Distance between frames and between jobs: more than the largest picture of level 6.2 needs.
const ROOM: u64 = 1 << 28;

/// A buffer of the virtual layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The constant tables of reconstruction.
    Tables,
    /// The samples of the frame buffer with this number: Y, Cb and Cr one behind the other, without gaps.
    Frame(u32),
    /// The syntax of the picture that uses the job buffer with this number: 64 bytes a macroblock, then 64 bytes of motion vectors a
    /// macroblock, 64 bytes a slice, and 32 bytes a coded 4x4 block.
    Job(u32),
}

/// Returns the buffer that contains `address`, and the offset in it. Addresses that no probe ever sees also have a result.
pub fn locate(address: u64) -> (Region, u64) {
    let buffer = |base: u64| ((address - base) / ROOM) as u32;
    match address {
        JOBS.. => (Region::Job(buffer(JOBS)), (address - JOBS) % ROOM),
        FRAMES.. => (Region::Frame(buffer(FRAMES)), (address - FRAMES) % ROOM),
        _ => (Region::Tables, address.saturating_sub(TABLES)),
    }
}

/// Returns the virtual address of the first byte of the frame buffer with this number.
pub(crate) fn frame_base(buffer: u32) -> u64 {
    FRAMES + u64::from(buffer) * ROOM
}

/// Returns the virtual address of the first byte of the macroblock syntax of the job with this number.
pub(crate) fn job_base(buffer: u32) -> u64 {
    JOBS + u64::from(buffer) * ROOM
}

/// The constant tables of reconstruction, as their offsets in the virtual layout.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    /// Scaling factors by quantiser: 52 x 32 bytes.
    Scale = 0,
    /// Scaling factors of blocks whose DC coefficient is coded separately, by quantiser: 52 x 32 bytes.
    ScaleApart = 0x680,
    /// Raster positions of luma blocks: 16 bytes.
    Raster = 0xd00,
    /// Alpha by index: 52 bytes.
    Alpha = 0xd40,
    /// Beta by index: 52 bytes.
    Beta = 0xd80,
    /// tC0 by index: 35 x 3 bytes.
    Tc0 = 0xdc0,
}

impl Table {
    /// Returns the virtual address of byte `offset` of the table. Each table begins a line of 64 bytes.
    pub(crate) fn address(self, offset: usize) -> u64 {
        TABLES + self as u64 + offset as u64
    }
}
