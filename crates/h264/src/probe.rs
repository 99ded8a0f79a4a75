//! The recorder's view of reconstruction.

use crate::job::Stage;

/// Sees what the reconstruction stages compute, and which memory they read and write.
///
/// Every stage function is generic over its probe, so that [`NoProbe`] costs nothing. Addresses are those of a fixed
/// virtual layout (see [`Frame::address`](crate::Frame::address)), not of this process: the same stream gives the same
/// addresses in every run.
pub trait Probe {
    /// `operations` arithmetic operations on single samples, without a memory access.
    fn computation(&mut self, operations: u64) {
        let _ = operations;
    }
    /// The code of `stage` begins to run.
    fn code(&mut self, stage: Stage) {
        let _ = stage;
    }
    /// `size` bytes are read at `address`.
    fn read(&mut self, address: u64, size: u32) {
        let _ = (address, size);
    }
    /// `size` bytes are written at `address`.
    fn write(&mut self, address: u64, size: u32) {
        let _ = (address, size);
    }
}

/// The probe that sees nothing and costs nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoProbe;

impl Probe for NoProbe {}

/// Where the virtual layout puts the buffers of frame number 0; see `frame_base`.
const FRAMES: u64 = 1 << 36;
/// Where the virtual layout puts the syntax of job number 0.
const JOBS: u64 = 1 << 44;
/// Each frame and each job has this much room, more than the largest picture of level 6.2 needs.
const ROOM: u64 = 1 << 28;

/// Virtual address of the first byte of the frame buffer with this number.
pub(crate) fn frame_base(buffer: u32) -> u64 {
    FRAMES + u64::from(buffer) * ROOM
}

/// Virtual address of the first byte of the macroblock syntax of the job with this number.
pub(crate) fn job_base(buffer: u32) -> u64 {
    JOBS + u64::from(buffer) * ROOM
}
