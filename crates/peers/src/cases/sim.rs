//! The simulator: touches a second, a touch being one cache line looked up. Recorded are eight pictures of the demo stream; everybody who
//! takes traces gets the same. `workers` are host threads, of which each runs a simulation of its own.
//!
//! Cachegrind and lackey look at a loop of this program while it runs: references a second, each an instruction or a data access, one
//! look-up in cachegrind and one line of text in lackey. Their start is left out. They and Dinero IV count misses and know neither cores
//! nor time, so they stand beside the uniform model only.

use super::{Case, Job, nothing_more};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::simulated;
use crate::samples::Sample;

pub(crate) const CASE: Case = Case {
    name: "sim",
    about: "the simulator on eight recorded pictures, Toshiba chip of 4 cores: touches a second",
    workers: &[1, 2],
    params: simulated::params,
    rounds: 10,
    quick_rounds: 2,
    measure,
    derive: nothing_more,
};

/// How often a process simulates, after once to warm up.
const REPETITIONS: u32 = 3;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(job.workers)?;
    let others = !peer.name.starts_with("tanada/");
    let mut samples = Vec::new();
    for params in &job.params {
        if others && params != simulated::UNIFORM {
            continue;
        }
        let repetitions = if others { 1 } else { REPETITIONS };
        for repetition in 0..=repetitions {
            // A process of its own warms nothing up.
            if others && repetition == 0 {
                continue;
            }
            let simulated = program.simulate(params)?;
            if repetition > 0 {
                let rate = simulated.per_second();
                samples.push(Sample::new(params, &[("touches_per_second", rate)]));
            }
        }
    }
    Ok(samples)
}
