//! Stages that one thread runs, one after the other: without tasks, or as a recorder does.
//!
//! What [`Job::run_stage`] asks of its callers holds by the order in which the thread calls: it parses the pictures itself, in decoding
//! order, completes each before the next, and no other thread has their jobs. A recorder runs tasks in the order of their declaration, in
//! which a task stands behind all that it waits for.

use super::graph::Work;
use tanada_h264::{Job, Probe, Stage};

/// Runs every stage of a picture.
pub(super) fn reconstruct(job: &Job) {
    // SAFETY: see the module.
    unsafe { job.reconstruct() }
}

/// Runs one stage of one macroblock, as `probe` sees it.
pub(super) fn run_stage<P: Probe>(job: &Job, stage: Stage, mb: u32, probe: &mut P) {
    // SAFETY: see the module.
    unsafe { job.run_stage_with(stage, mb, probe) }
}

/// Does the work of a task, as `probe` sees it.
pub(super) fn run<P: Probe>(job: &Job, work: &Work, probe: &mut P) {
    let row = |row: u32, width: u32| row * width..(row + 1) * width;
    match work {
        Work::Nothing => {}
        Work::Stage(stage, mbs) => mbs.clone().for_each(|mb| run_stage(job, *stage, mb, probe)),
        Work::Stages(stages, mbs) => {
            for (mb, &stage) in mbs
                .clone()
                .flat_map(|mb| stages.iter().map(move |stage| (mb, stage)))
            {
                run_stage(job, stage, mb, probe);
            }
        }
        // SAFETY: see the module.
        Work::Front(mbs) => unsafe { job.run_front_with(mbs.clone(), probe) },
        // SAFETY: see the module.
        Work::Rear(mbs) => unsafe { job.run_rear_with(mbs.clone(), probe) },
        Work::Row { width, front, rear } => {
            // SAFETY: see the module.
            unsafe { job.run_front_with(row(*front, *width), probe) };
            for number in rear.clone() {
                // SAFETY: see the module.
                unsafe { job.run_rear_with(row(number, *width), probe) };
            }
        }
    }
}
