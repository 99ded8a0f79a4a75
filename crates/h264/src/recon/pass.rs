//! The memory accesses of stages that have nothing to do, for recordings of decoders that process every macroblock.

use super::Place;
use crate::job::{Job, Mb, Stage};
use crate::probe::Probe;

/// Coefficients of luma in a macroblock.
const LUMA: u32 = 256;
/// Coefficients of both chroma planes.
const CHROMA: u32 = 128;

/// Reports to `probe` what `stage` would access of macroblock `mb` in such a decoder (see [`Job::pass_with`]).
pub(crate) fn pass<P: Probe>(job: &Job, stage: Stage, mb: u32, probe: &mut P) {
    let place = &Place::new(job, mb as usize);
    probe.read(job.mb_address(place.index), size_of::<Mb>() as u32);
    let residual = |first: u32| job.whole_residual_address(place.index) + 2 * u64::from(first);
    match stage {
        Stage::LumaResidual => {
            probe.read(residual(0), 2 * LUMA);
            probe.write(residual(0), 2 * LUMA);
        }
        Stage::LumaReconstruction => {
            probe.read(residual(0), 2 * LUMA);
            samples(place, 0, 0, probe);
        }
        Stage::ChromaReconstruction => {
            probe.read(residual(LUMA), 2 * CHROMA);
            samples(place, 1, 0, probe);
            samples(place, 2, 0, probe);
        }
        // The filters change up to three samples (chroma: one) of the left and upper neighbours and read one further.
        Stage::LumaDeblocking => samples(place, 0, 4, probe),
        Stage::CbDeblocking => samples(place, 1, 2, probe),
        Stage::CrDeblocking => samples(place, 2, 2, probe),
        // These stages always have something to do.
        Stage::LumaPrediction | Stage::ChromaPrediction => {}
    }
}

/// Reports a read and a write of the macroblock's samples in a plane, with `margin` more to the left and above.
fn samples<P: Probe>(place: &Place<'_>, plane: usize, margin: usize, probe: &mut P) {
    let (x, y, size) = place.area(plane);
    let (left, above) = (margin.min(x), margin.min(y));
    let area = [x - left, y - above, size + left, size + above];
    place.probe_read(probe, &place.job.frame, plane, area);
    place.probe_write(probe, plane, area);
}
