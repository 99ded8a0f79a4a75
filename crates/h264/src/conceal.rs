//! Concealment of lost macroblocks: a copy of the previous picture.

use crate::job::{Job, Kind, Mb, NO_SLOT, Slice};
use crate::neighbours::MacroblockSet;

/// Quantiser of concealed macroblocks, which the deblocking of their neighbours uses.
const QP: [u8; 3] = [0; 3];

/// Turns each macroblock that is not in `parsed` into a copy of the same macroblock of reference `slot`, or into grey if there is no
/// previous picture. Counts these macroblocks in `job.concealed`.
pub(crate) fn conceal(job: &mut Job, parsed: &MacroblockSet, slot: Option<u8>) {
    let slice = job.slices.len() as u16;
    // Not deblocked themselves, because the copied pixels are deblocked already.
    job.slices.push(Slice {
        deblocking: 1,
        ..Slice::default()
    });
    let mut mb = Mb {
        slice,
        qp: QP,
        ..Mb::default()
    };
    match slot {
        Some(slot) => {
            mb.kind = Kind::Inter;
            mb.ref_slot = [slot; 4];
        }
        None => {
            // DC prediction without neighbours predicts grey (128).
            mb.kind = Kind::Intra16x16;
            mb.luma_mode = 2;
            mb.ref_slot = [NO_SLOT; 4];
        }
    }
    mb.stages = mb.needed_stages();
    for (at, target) in job.mbs.iter_mut().enumerate() {
        if !parsed.contains(at) {
            job.concealed += 1;
            *target = mb;
        }
    }
}
