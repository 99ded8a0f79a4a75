//! The simulator: touches a second; a touch is one cache line looked up. The trace holds eight pictures of the demo stream, and every peer
//! that takes traces simulates the same one. `workers` are host threads, of which each runs a simulation of its own.
//!
//! Cachegrind and lackey look at a loop of this program while it runs: references a second, each an instruction or a data access, one
//! look-up in cachegrind and one line of text in lackey. Their start is left out. They and Dinero IV count misses and know neither cores
//! nor time, so they stand beside the uniform model only.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::simulated;
use crate::samples::Sample;

pub(crate) const CASE: Case = Case {
    name: "sim",
    about: "the simulator on eight recorded pictures, Toshiba chip of 4 cores: touches a second",
    workload: Some(("h264", &[("first", "8"), ("count", "8")])),
    workers: &[1, 2],
    params: simulated::params,
    rounds: 10,
    quick_rounds: 2,
    measure,
    derive: |_| Vec::new(),
};

/// Measured simulations of a process, after one to warm up.
const REPETITIONS: u32 = 3;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    let ours = peer.name.starts_with("tanada/");
    let (repetitions, first) = (if ours { REPETITIONS } else { 1 }, &simulated::params()[0]);
    let mut samples = Vec::new();
    for params in job.params.iter().filter(|&params| ours || params == first) {
        if ours {
            // Other peers start a process of their own for each, so they cannot warm up.
            program.simulate(params)?;
        }
        for _ in 0..repetitions {
            let rate = program.simulate(params)?.per_second();
            samples.push(Sample::new(params, &[("touches_per_second", rate)]));
        }
    }
    Ok(samples)
}
