//! The simulator of thread traces: instructions a second of CPU time on one host core. The trace is made up, so that it is the same
//! everywhere: threads that update blocks of a matrix, in the binary form of recordings, on paper 2's core.
//!
//! Peers called `published/` are not measured. Their rates are what publications state, on the hosts of their time, and for models of other
//! detail: most execute the program, too, and simulate an out-of-order core. They are given for one host core.

use super::{Case, Job};
use crate::Fallible;
use crate::peers::Peer;
use crate::programs::threads;
use crate::samples::Sample;

pub(crate) const CASE: Case = Case {
    name: "smt",
    about: "the simulator of thread traces, one core with 1 and 8 hardware threads: instructions a second of a host core (published/: not \
            measured)",
    workload: None,
    workers: &[1],
    params: threads::params,
    rounds: 10,
    quick_rounds: 2,
    measure,
    derive: |_| Vec::new(),
};

/// Measured simulations of a process, after one to warm up.
const REPETITIONS: u32 = 5;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    let ours = !peer.name.starts_with("published/");
    let (repetitions, first) = (if ours { REPETITIONS } else { 1 }, &threads::params()[0]);
    let mut samples = Vec::new();
    for params in job.params.iter().filter(|&params| ours || params == first) {
        if ours {
            program.simulate(params)?;
        }
        for _ in 0..repetitions {
            let rate = program.simulate(params)?.per_second();
            samples.push(Sample::new(params, &[("instructions_per_second", rate)]));
        }
    }
    Ok(samples)
}
