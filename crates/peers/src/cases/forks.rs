//! Recursions that fork without a cutoff: see [`Kernel`].
//!
//! `ns_per_task` is the time of the whole recursion for each of its units: forks of `fib`, bodies of `comb` (1 us each), nodes of `tree`
//! and `uts`, leaves of `skynet`, solutions of `nqueens`, numbers of `quicksort` and `mergesort`, multiplications of `matmul`, calls of
//! `latency`. It is the least of the runs of a process. A run is timed on a thread that is no worker, and its result is compared with that
//! of the same recursion without forks.

use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::programs::forks::{CALLS, Inputs, KERNELS, Kernel, Plain, run};
use crate::samples::Sample;
use std::time::Instant;

pub(crate) const CASE: Case = Case {
    name: "forks",
    about: "recursions that fork without a cutoff: fib, comb, tree, uts, skynet, nqueens, quicksort, mergesort, matmul, latency",
    workload: None,
    workers: &[1, 2],
    params: || KERNELS.map(|kernel| kernel.params().to_owned()).into(),
    rounds: 3,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

/// The length of a body of `comb`.
const BODY_NS: f64 = 1_000.0;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    native::set_body(BODY_NS, job.rate)?;
    let mut samples = Vec::new();
    for &kernel in peer.kernels() {
        if !job.wants(kernel.params()) {
            continue;
        }
        let mut inputs = Inputs::new(kernel);
        let expected = run::<Plain>(&mut (), kernel, &mut inputs);
        let calls = if kernel == Kernel::Latency { CALLS } else { 1 };
        let mut best = f64::INFINITY;
        for _ in 0..if job.quick { 3 } else { 10 } {
            inputs.reset();
            let start = Instant::now();
            for _ in 0..calls {
                let result = program.fork(kernel, &mut inputs)?;
                if result != expected {
                    let name = kernel.params();
                    return Err(format!("{name}: {result} instead of {expected}").into());
                }
            }
            best = best.min(start.elapsed().as_nanos() as f64);
        }
        let each = best / kernel.units();
        samples.push(Sample::new(kernel.params(), &[("ns_per_task", each)]));
    }
    Ok(samples)
}
