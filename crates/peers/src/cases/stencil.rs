//! Jacobi's method in two dimensions: 8192 x 8192 points of 4 bytes, 32 sweeps. `seconds` is the time of the sweeps alone.
//!
//! All peers begin with the same field and compute the same formula in the same order of operations; before the first measured run of a
//! process its result on a small field is compared with the plain loop's, bit by bit.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::{Program as _, Serial};
use crate::samples::Sample;

pub(crate) const CASE: Case = Case {
    name: "stencil",
    about: "32 Jacobi sweeps over 8192 x 8192 points: time of all sweeps",
    workload: Some(("stencil", &[])),
    workers: &[2],
    params: || vec![PARAMS.to_owned()],
    rounds: 5,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

const PARAMS: &str = "size=8192,sweeps=32";
const SIZE: usize = 8192;
const SWEEPS: u32 = 32;

/// Odd, so that no cut of the rows is even.
const SMALL: (usize, u32) = (203, 11);

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    if job.params.is_empty() {
        return Ok(Vec::new());
    }
    let mut program = peer.open(&CASE, job.workers)?;
    let right = Serial.stencil(SMALL.0, SMALL.1)?.checksum;
    if program.stencil(SMALL.0, SMALL.1)?.checksum != right {
        return Err("the field differs from that of the plain loop".into());
    }
    let swept = program.stencil(SIZE, SWEEPS)?;
    Ok(vec![Sample::new(PARAMS, &[("seconds", swept.seconds)])])
}
