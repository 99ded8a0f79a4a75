//! Reconstruction: clauses 8.3 (intra), 8.4.2 (inter), 8.5 (transform) and 8.7 (deblocking), divided into the eight stages of paper 1.
//!
//! # Dependencies between stages
//!
//! Pixels are reconstructed in the frame itself and residuals in the job itself. There are no further buffers, so concurrent stages are
//! correct if and only if they keep the order below. (x, y) is a macroblock by column and row. Neighbours outside of the picture count as
//! ended. A stage for which [`Job::needs`] is false counts as ended once everything that it would wait for has ended: a task graph may omit
//! the stage if it passes its dependencies on to its successors. If the table names several stages of one macroblock, they always form a
//! chain. The *front* is {0, 1, 2} for luma and {4, 5} for chroma.
//!
//! | stage of (x, y) | waits for |
//! |---|---|
//! | 0 luma residual | nothing |
//! | 1 luma prediction, intra | 0 of (x, y) (4x4 only); 1 and 2 of (x-1, y), (x-1, y-1), (x, y-1), (x+1, y-1) |
//! | 1 luma prediction, inter | stages 1, 2, 3 of the rows of reference pictures that [`Job::reference_reach`] reports |
//! | 2 luma reconstruction | 0 and 1 of (x, y) |
//! | 3 luma deblocking | 1, 2 of (x, y), (x+1, y), (x-1, y+1), (x, y+1), (x+1, y+1); 3 of (x-1, y), (x, y-1), (x+1, y-1) |
//! | 4 chroma residual and prediction, intra | 4 and 5 of (x-1, y), (x-1, y-1), (x, y-1) |
//! | 4 chroma residual and prediction, inter | stages 4, 5, 6, 7 of the rows of reference pictures |
//! | 5 chroma reconstruction | 4 of (x, y) |
//! | 6, 7 chroma deblocking | 4, 5 of (x, y), (x+1, y), (x, y+1), (x+1, y+1); 6 (7) of (x-1, y), (x, y-1) and (x+1, y-1) |
//!
//! The reasons:
//!
//! - Intra prediction reads its neighbours in place, before they are deblocked. Deblocking of (x, y) changes (x, y), the right three
//!   columns of (x-1, y) and the lower three rows of (x, y-1). It therefore waits for all macroblocks that predict from these pixels:
//!   (x+1, y), (x-1, y+1) (by the upper right neighbour of its 4x4 blocks), (x, y+1), and (x+1, y+1) (by its upper left pixel).
//! - Left and upper neighbours are deblocked first, because the standard filters macroblocks in raster order and each one reads what the
//!   one before has changed.
//! - (x+1, y-1) is deblocked first, because its left edge changes pixels of (x, y-1) that the upper edge of (x, y) reads.
//! - Deblocking of (x, y) waits for the front of (x+1, y+1) and, through (x-1, y), for the front of all macroblocks to the left of it. So
//!   the front of the row below is complete up to that column.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod deblock;
mod inter;
mod intra;
#[allow(unsafe_code)]
mod kernels;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod lanes;
mod pass;
mod transform;

pub(crate) use pass::pass;

use std::ops::Range;
use std::sync::Arc;

use crate::frame::Frame;
use crate::job::{Job, Kind, Mb, Stage};
use crate::plane::Write;
use crate::probe::{Operation, Probe};

/// Table 8-15 for qPI of 30 and more.
const CHROMA_QP: [u8; 22] = [
    29, 30, 31, 32, 32, 33, 34, 34, 35, 35, 36, 36, 37, 37, 37, 38, 38, 38, 39, 39, 39, 39,
];

/// Returns QPC for `index`, a luma quantiser plus chroma_qp_index_offset (8.5.8).
pub(crate) fn chroma_qp(index: i32) -> u8 {
    let index = index.clamp(0, 51) as u8;
    if index < 30 {
        index
    } else {
        CHROMA_QP[usize::from(index) - 30]
    }
}

/// The macroblock on which a stage works.
struct Place<'a> {
    job: &'a Job,
    index: usize,
    mb: &'a Mb,
    /// Position of its upper left corner, in luma samples.
    x: usize,
    y: usize,
}

impl<'a> Place<'a> {
    fn new(job: &'a Job, index: usize) -> Self {
        let (index, width) = (index as u32, job.mb_width);
        Place::at(job, index % width, index / width)
    }

    /// Returns the macroblock in column `x` of row `y`.
    #[inline(always)]
    fn at(job: &'a Job, x: u32, y: u32) -> Self {
        let index = (y * job.mb_width + x) as usize;
        Place {
            job,
            index,
            mb: &job.mbs[index],
            x: x as usize * 16,
            y: y as usize * 16,
        }
    }

    /// Returns the position and the width of the macroblock in plane `plane`, in samples.
    fn area(&self, plane: usize) -> (usize, usize, usize) {
        if plane == 0 {
            (self.x, self.y, 16)
        } else {
            (self.x / 2, self.y / 2, 8)
        }
    }

    /// Returns a guard that holds the macroblock's samples in plane `plane` for writing.
    fn write(&self, plane: usize) -> Write<'a, u8> {
        let (x, y, size) = self.area(plane);
        self.job.frame.planes[plane].write(x, y, size, size)
    }

    /// Reports a read of `h` rows of `w` samples of `frame` to the probe.
    fn probe_read<P: Probe>(
        &self,
        probe: &mut P,
        frame: &Frame,
        plane: usize,
        [x, y, w, h]: [usize; 4],
    ) {
        for row in y..y + h {
            probe.read(frame.address(plane, x, row), w as u32);
        }
    }

    /// Reports a write of `h` rows of `w` samples to the probe.
    fn probe_write<P: Probe>(&self, probe: &mut P, plane: usize, [x, y, w, h]: [usize; 4]) {
        for row in y..y + h {
            probe.write(self.job.frame.address(plane, x, row), w as u32);
        }
    }
}

/// Runs a stage if [`Job::needs`] is true.
pub(crate) fn run<P: Probe>(job: &Job, stage: Stage, mb: u32, probe: &mut P) {
    run_needed(&Place::new(job, mb as usize), stage, probe);
}

/// Runs the needed stages before deblocking of the macroblocks `xs` of row `y`.
pub(crate) fn run_front<P: Probe>(job: &Job, y: u32, xs: Range<u32>, probe: &mut P) {
    for x in xs {
        let place = &Place::at(job, x, y);
        // One call a stage instead of a loop: with a constant stage, the compiler removes the code of all others, and branches are
        // predicted separately.
        run_needed(place, Stage::LumaResidual, probe);
        run_needed(place, Stage::LumaPrediction, probe);
        run_needed(place, Stage::LumaReconstruction, probe);
        run_needed(place, Stage::ChromaPrediction, probe);
        run_needed(place, Stage::ChromaReconstruction, probe);
    }
}

/// Runs the needed deblocking stages of the macroblocks `xs` of row `y`.
pub(crate) fn run_rear<P: Probe>(job: &Job, y: u32, xs: Range<u32>, probe: &mut P) {
    for x in xs {
        let place = &Place::at(job, x, y);
        if place.mb.stages & Stage::DEBLOCKING != 0 {
            run_needed(place, Stage::LumaDeblocking, probe);
            run_needed(place, Stage::CbDeblocking, probe);
            run_needed(place, Stage::CrDeblocking, probe);
        } else {
            Stage::REAR
                .into_iter()
                .for_each(|stage| probe.skipped(stage, place.index as u32));
        }
    }
}

#[inline(always)]
fn run_needed<P: Probe>(place: &Place<'_>, stage: Stage, probe: &mut P) {
    probe.read(place.job.mb_address(place.index), size_of::<Mb>() as u32);
    if place.mb.stages & 1 << stage as u8 != 0 {
        run_at(place, stage, probe);
    } else {
        probe.skipped(stage, place.index as u32);
    }
}

#[inline(always)]
fn run_at<P: Probe>(place: &Place<'_>, stage: Stage, probe: &mut P) {
    probe.code(stage, place.index as u32);
    match (stage, place.mb.kind) {
        (Stage::LumaResidual, _) => transform::luma_residual(place, probe),
        (Stage::LumaPrediction, Kind::Inter) => inter::predict_luma(place, probe),
        (Stage::LumaPrediction, Kind::Intra4x4) => intra::reconstruct_4x4(place, probe),
        (Stage::LumaPrediction, Kind::Intra16x16) => intra::predict_16x16(place, probe),
        (Stage::LumaPrediction, Kind::Pcm) => copy_samples(place, 0, 0, probe),
        (Stage::LumaReconstruction, _) => transform::add_residual(place, 0, probe),
        (Stage::LumaDeblocking, _) => deblock::luma(place, probe),
        (Stage::ChromaPrediction, Kind::Pcm) => {
            copy_samples(place, 1, 256, probe);
            copy_samples(place, 2, 320, probe);
        }
        (Stage::ChromaPrediction, kind) => {
            if place.mb.coded >> 16 != 0 {
                (1..3).for_each(|plane| transform::chroma_residual(place, plane, probe));
            }
            match kind {
                Kind::Inter => inter::predict_chroma(place, probe),
                _ => (1..3).for_each(|plane| intra::predict_chroma(place, plane, probe)),
            }
        }
        (Stage::ChromaReconstruction, _) => {
            transform::add_residual(place, 1, probe);
            transform::add_residual(place, 2, probe);
        }
        (Stage::CbDeblocking, _) => deblock::chroma(place, 1, probe),
        (Stage::CrDeblocking, _) => deblock::chroma(place, 2, probe),
    }
}

/// Copies the samples of an I_PCM macroblock to `plane`; `first` is the index of the plane's first sample.
fn copy_samples<P: Probe>(place: &Place<'_>, plane: usize, first: usize, probe: &mut P) {
    let (x, y, size) = place.area(plane);
    let start = place.mb.coefficients as usize + first;
    let samples = place.job.coefficients.read(0, start, 1, size * size);
    let mut to = place.write(plane);
    for (row, from) in samples.contiguous().chunks_exact(size).enumerate() {
        for (to, &from) in to.row(row).iter_mut().zip(from) {
            *to = from as u8;
        }
    }
    let address = place.job.coefficient_address(start);
    probe.read(address, (size * size * 2) as u32);
    probe.operation(Operation::Pcm, (size * size) as u32);
    place.probe_write(probe, plane, [x, y, size, size]);
}

/// Implements [`Job::reference_reach`].
pub(crate) fn reference_reach(job: &Job, mb_rows: Range<u32>, f: &mut dyn FnMut(&Arc<Frame>, u32)) {
    let width = job.mb_width;
    let mut reach = [None::<u32>; 256];
    for mb in mb_rows.start * width..mb_rows.end.min(job.mb_height) * width {
        inter::reach(&Place::new(job, mb as usize), &mut reach);
    }
    for (frame, row) in job.references.iter().zip(reach) {
        if let Some(row) = row {
            f(frame, row);
        }
    }
}
