//! Simulations of recorded pictures, and what they come to.

use super::published::{CLOCK, PICTURES, Row, Scheduler};
use super::recording::{Picture, Recording};
use crate::statistics::{Pair, Sampled};
use std::ops::ControlFlow;
use tanada_harness::batch;
use tanada_runtime::Cancel;
use tanada_sim::machine::Kind;
use tanada_sim::outcome::Count;
use tanada_sim::{Machine, Observer, Options, Outcome, SimError, simulate};
use tanada_trace::Trace;

/// A simulation: a recording on a machine under a scheduler.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) scheduler: Scheduler,
    pub(crate) machine: Machine,
}

/// The results of a [`Job`], counted as paper 1 does: misses are those of tasks, without those of the scheduler and of other cores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    /// Cycles of each picture.
    pub(crate) pictures: Vec<f64>,
    /// Cycles of all.
    pub(crate) cycles: f64,
    /// Mean cycles of a task.
    pub(crate) task_cycles: f64,
    /// Mean cycles of scheduling, a task.
    pub(crate) scheduling_cycles: f64,
    /// Percent of the cores' time.
    pub(crate) utilisation: f64,
    /// Of the instruction caches.
    pub(crate) l1i: Count,
    /// Of the data caches.
    pub(crate) l1d: Count,
    /// Of the shared cache.
    pub(crate) l2: Count,
}

impl Ran {
    /// Returns the frames a second at the chip's clock.
    pub(crate) fn fps(&self) -> f64 {
        CLOCK * self.pictures.len() as f64 / self.cycles
    }

    fn of(outcomes: &[Outcome]) -> Ran {
        let sum = |level: u8, kind: Kind| {
            let mut sum = Count::default();
            for outcome in outcomes {
                let mut caches = outcome.caches.iter();
                let at = caches.position(|one| (one.level, one.kind) == (level, kind));
                let at = at.expect("paper 1's chip has these caches");
                outcome.by_name.iter().for_each(|one| sum += one.caches[at]);
            }
            sum
        };
        let total = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>();
        let tasks = total(|one| one.tasks as f64).max(1.0);
        let cycles = total(|one| one.makespan as f64);
        let executing = total(|one| one.executing as f64);
        let scheduling = |one: &Outcome| one.stalls.iter().map(|core| core.scheduling as f64).sum();
        let core_cycles = total(|one| one.makespan as f64 * f64::from(one.cores));
        Ran {
            pictures: outcomes.iter().map(|one| one.makespan as f64).collect(),
            cycles,
            task_cycles: executing / tasks,
            scheduling_cycles: total(scheduling) / tasks,
            utilisation: executing / core_cycles.max(1.0) * 100.0,
            l1i: sum(1, Kind::Instruction),
            l1d: sum(1, Kind::Data),
            l2: sum(2, Kind::Unified),
        }
    }
}

/// Returns our gain of `scheduler` over FCFS, with its sampling error.
pub(crate) fn sampled(ran: &[Ran; 3], scheduler: Scheduler) -> Sampled {
    let of = |scheduler: Scheduler| &ran[scheduler as usize].pictures;
    Sampled::of(of(Scheduler::Fcfs), of(scheduler), PICTURES)
}

/// Returns the published gain of `scheduler` in `row`, and ours.
pub(crate) fn gains(row: &Row, ran: &[Ran; 3], scheduler: Scheduler) -> Pair {
    Pair {
        published: row.gain(scheduler),
        ours: sampled(ran, scheduler).gain,
    }
}

/// Returns the percentage of the accesses that miss.
pub(crate) fn miss_rate(count: Count) -> f64 {
    count.misses as f64 / count.accesses.max(1) as f64 * 100.0
}

impl Job<'_> {
    /// Simulates each picture on its own, from empty caches and the S groups' first owners, and returns the results.
    fn run(&self, cancel: &Cancel) -> Result<Ran, SimError> {
        let pictures = self.recording.pictures.iter();
        let outcomes = pictures.map(|picture| self.observed(picture, cancel, &mut ()));
        Ok(Ran::of(&outcomes.collect::<Result<Vec<_>, _>>()?))
    }

    /// Simulates one picture and returns its outcome; `observer` sees the simulation run.
    ///
    /// # Errors
    /// If `cancel` stopped the simulation, or the picture cannot be simulated.
    pub(crate) fn observed(
        &self,
        picture: &Picture,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, SimError> {
        let options = Options {
            watch: Some(&|_| !cancel.is_cancelled()),
            ..Options::default()
        };
        let trace = self.scheduler.trace(picture);
        simulate(
            trace,
            &self.machine,
            self.scheduler.policy(),
            &options,
            observer,
        )
    }
}

impl Scheduler {
    /// Returns the trace with the groups that the scheduler reads. FCFS reads no groups; the groups of pattern A colour its Gantt chart, as
    /// in fig. 13.
    pub(crate) fn trace(self, picture: &Picture) -> &Trace {
        match self {
            Scheduler::Fcfs | Scheduler::A => &picture.a,
            Scheduler::B => &picture.b,
        }
    }
}

/// Runs all `jobs` on `threads` threads and returns their results in the same order. `ended` is called often, with the number of jobs
/// that have ended.
///
/// # Errors
/// The error of the first job that has one; [`SimError::Cancelled`] if `cancel` stopped the work.
pub(crate) fn all(
    jobs: &[Job<'_>],
    threads: usize,
    cancel: &Cancel,
    ended: &mut dyn FnMut(usize),
) -> Result<Vec<Ran>, SimError> {
    let mut count = 0;
    let piece = |number: usize| jobs[number].run(cancel);
    let results = batch::collect(jobs.len(), threads, piece, |result| {
        count += usize::from(result.is_some());
        ended(count);
        match result {
            Some((_, Err(_))) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    // Behind a job that failed, jobs may not have begun.
    let results = results.into_iter();
    results
        .map(|result| result.unwrap_or(Err(SimError::Cancelled)))
        .collect()
}
