//! Independent tasks: 10,000 at once, from a thread that is no worker.
//!
//! `graph=template`: their number is known before; a template that is built once, a parallel loop, rayon's `par_iter`. `graph=scope`: they
//! are registered one by one while others run; by a worker, if a peer knows no other way (OpenMP, oneTBB).
//!
//! `ns_per_task` is the time from the call to its return / tasks, body included: the lower quartile of the runs of a process.

use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::programs::FLATS;
use crate::samples::Sample;
use std::time::{Duration, Instant};

pub(crate) const CASE: Case = Case {
    name: "flat",
    about: "10,000 tasks that wait for nothing, as a template or loop and as a scope; bodies of 0 ns and 1 us",
    workload: None,
    workers: &[1, 2],
    params: || {
        let of = |&(body, _): &(&str, f64)| FLATS.map(|flat| format!("{body},{}", flat.params()));
        BODIES.iter().flat_map(of).collect()
    },
    rounds: 7,
    quick_rounds: 3,
    measure,
    derive: |_| Vec::new(),
};

const TASKS: u32 = 10_000;

const BODIES: &[(&str, f64)] = &[("body=0ns", 0.0), ("body=1us", 1000.0)];

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    let mut samples = Vec::new();
    for &(body, ns) in BODIES {
        for &flat in peer.flats() {
            let params = format!("{body},{}", flat.params());
            if !job.wants(&params) {
                continue;
            }
            native::set_body(ns, job.rate)?;
            let ran = native::counted(|| program.flat(flat, TASKS));
            if ran != u64::from(TASKS) {
                return Err(format!("{ran} of {TASKS} tasks ran").into());
            }
            let cost = a_task(job, TASKS, || program.flat(flat, TASKS));
            samples.push(Sample::new(&params, &[("ns_per_task", cost)]));
        }
    }
    Ok(samples)
}

/// Returns the nanoseconds a task of `run`, which runs `tasks` tasks: the lower quartile of many runs.
pub(super) fn a_task(job: &Job, tasks: u32, mut run: impl FnMut()) -> f64 {
    let most = Duration::from_millis(if job.quick { 100 } else { 400 });
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || start.elapsed() < most {
        let start = Instant::now();
        run();
        times.push(start.elapsed().as_nanos() as f64 / f64::from(tasks));
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}
