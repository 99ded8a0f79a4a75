//! Tasks that are registered while others run: a million at a time, with empty bodies.
//!
//! `shape=chain`: each task registers the next. `shape=tree`: task n registers the tasks 2n + 1 and 2n + 2. `shape=loop`: one loop
//! registers all of them, in a task (`from=worker`) or on a thread that is no worker (`from=outside`).
//!
//! `ns_per_task` is the time from the call to its return / tasks: the lower quartile of the runs of a process. `peak_mib` is how much more
//! memory the process had at most during one run, in the first of the shapes that are measured; for a shape alone, name it by `--params`.

use super::flat::a_task;
use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::programs::GROWTHS;
use crate::samples::Sample;

pub(crate) const CASE: Case = Case {
    name: "dynamic",
    about: "a million empty tasks that are registered while they run: by each other (chain, tree) and by one loop",
    workload: None,
    workers: &[1, 2],
    params: || GROWTHS.map(|shape| shape.params().to_owned()).into(),
    rounds: 3,
    quick_rounds: 1,
    measure,
    derive: |_| Vec::new(),
};

const TASKS: u32 = 1_000_000;

/// Returns the most memory that the process has had in RAM, in MiB.
fn peak_mib() -> f64 {
    let usage = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = usage.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let mut program = peer.open(&CASE, job.workers)?;
    native::set_body(0.0, job.rate)?;
    let mut samples = Vec::new();
    for &shape in peer.growths() {
        if !job.wants(shape.params()) {
            continue;
        }
        let before = peak_mib();
        let ran = native::counted(|| program.grow(shape, TASKS));
        if ran != u64::from(TASKS) {
            return Err(format!("{ran} of {TASKS} tasks ran").into());
        }
        let peak = peak_mib() - before;
        let cost = a_task(job, TASKS, || program.grow(shape, TASKS));
        let mut values = vec![("ns_per_task", cost)];
        if samples.is_empty() && peak.is_finite() {
            values.push(("peak_mib", peak));
        }
        samples.push(Sample::new(shape.params(), &values));
    }
    Ok(samples)
}
