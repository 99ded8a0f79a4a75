//! Reconstruction: clauses 8.3 (intra), 8.4.2 (inter), 8.5 (transform) and 8.7 (deblocking), cut into the eight stages
//! of paper 1.
//!
//! # Which (stage, macroblock) must have ended before which may start
//!
//! Pixels are reconstructed in the frame itself and residuals in the job itself: there are no further buffers, and so the
//! order below is all that makes concurrent stages right. (x, y) is a macroblock by column and row; neighbours outside
//! the picture count as ended; so do stages for which [`Job::needs`] is false, *once what they would wait for has ended*
//! (a task graph may leave such a task out when it gives its dependencies on to its successors; where the table names
//! several stages of one macroblock, these are always the macroblock's own chain). "Front" is {0, 1, 2} for luma and
//! {4, 5} for chroma.
//!
//! | stage of (x, y) | waits for |
//! |---|---|
//! | 0 luma residual | nothing |
//! | 1 luma prediction, intra | 0 of (x, y) (4x4 only); 1 and 2 of (x-1, y), (x-1, y-1), (x, y-1), (x+1, y-1) |
//! | 1 luma prediction, inter | the rows of reference pictures that [`Job::reference_reach`] names, stages 1, 2, 3 |
//! | 2 luma reconstruction | 0 and 1 of (x, y) |
//! | 3 luma deblocking | 1, 2 of (x, y), (x+1, y), (x-1, y+1), (x, y+1), (x+1, y+1); 3 of (x-1, y), (x, y-1), (x+1, y-1) |
//! | 4 chroma residual and prediction, intra | 4 and 5 of (x-1, y), (x-1, y-1), (x, y-1) |
//! | 4 chroma residual and prediction, inter | the rows of reference pictures, stages 4, 5, 6, 7 |
//! | 5 chroma reconstruction | 4 of (x, y) |
//! | 6, 7 chroma deblocking | 4, 5 of (x, y), (x+1, y), (x, y+1), (x+1, y+1); 6 (7) of (x-1, y), (x, y-1) and (x+1, y-1) |
//!
//! Why: intra prediction reads its neighbours before they are deblocked, in place, so deblocking of (x, y), which changes
//! (x, y) itself, the right three columns of (x-1, y) and the lower three rows of (x, y-1), waits for all who predict from
//! these pixels: (x+1, y), (x-1, y+1) (upper right neighbour of its 4x4 blocks), (x, y+1) and (x+1, y+1) (upper left
//! pixel). Left and upper neighbours come first because the standard filters macroblocks in raster order and each reads
//! what the one before has changed; (x+1, y-1) because its left edge changes pixels of (x, y-1) that the upper edge of
//! (x, y) reads. Waiting for the front of (x+1, y+1) and, by way of (x-1, y), of all to its left makes the front of the row
//! below complete up to that column.

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

/// QPC of a luma quantiser plus chroma_qp_index_offset (8.5.8).
pub(crate) fn chroma_qp(index: i32) -> u8 {
    let index = index.clamp(0, 51) as u8;
    if index < 30 {
        index
    } else {
        CHROMA_QP[usize::from(index) - 30]
    }
}

/// Where a stage works: a macroblock of a job.
struct Place<'a> {
    job: &'a Job,
    index: usize,
    mb: &'a Mb,
    /// In luma samples.
    x: usize,
    y: usize,
}

impl<'a> Place<'a> {
    fn new(job: &'a Job, index: usize) -> Self {
        let (index, width) = (index as u32, job.mb_width);
        Place::at(job, index % width, index / width)
    }

    /// The macroblock in column `x` of row `y`.
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

    /// Position and width of the macroblock in plane `plane`, in samples.
    fn area(&self, plane: usize) -> (usize, usize, usize) {
        if plane == 0 {
            (self.x, self.y, 16)
        } else {
            (self.x / 2, self.y / 2, 8)
        }
    }

    /// The macroblock's samples in plane `plane`, for writing.
    fn write(&self, plane: usize) -> Write<'a, u8> {
        let (x, y, size) = self.area(plane);
        self.job.frame.planes[plane].write(x, y, size, size)
    }

    /// Tells the probe of `h` rows of `w` samples that are read from `frame`.
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

    /// Tells the probe of `h` rows of `w` samples that are written.
    fn probe_write<P: Probe>(&self, probe: &mut P, plane: usize, [x, y, w, h]: [usize; 4]) {
        for row in y..y + h {
            probe.write(self.job.frame.address(plane, x, row), w as u32);
        }
    }
}

/// Runs a stage that [`Job::needs`] says is needed.
pub(crate) fn run<P: Probe>(job: &Job, stage: Stage, mb: u32, probe: &mut P) {
    run_at(&Place::new(job, mb as usize), stage, probe);
}

/// Runs the stages before deblocking that are needed, of the macroblocks `xs` of row `y`.
pub(crate) fn run_front<P: Probe>(job: &Job, y: u32, xs: Range<u32>, probe: &mut P) {
    for x in xs {
        let place = &Place::at(job, x, y);
        // Stage by stage, not in a loop: what a constant stage is not needs no code, and branches can be predicted.
        run_needed(place, Stage::LumaResidual, probe);
        run_needed(place, Stage::LumaPrediction, probe);
        run_needed(place, Stage::LumaReconstruction, probe);
        run_needed(place, Stage::ChromaPrediction, probe);
        run_needed(place, Stage::ChromaReconstruction, probe);
    }
}

/// Runs the deblocking stages that are needed, of the macroblocks `xs` of row `y`.
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

/// Copies the samples of an I_PCM macroblock, those of `plane` beginning at `first`.
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
    probe.read(
        place.job.coefficient_address(start),
        (size * size * 2) as u32,
    );
    probe.operation(Operation::Pcm, (size * size) as u32);
    place.probe_write(probe, plane, [x, y, size, size]);
}

/// See [`Job::reference_reach`].
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
