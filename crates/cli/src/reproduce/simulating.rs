//! Simulations, as many at once as there are threads.

use super::published::{CLOCK, Scheduler};
use super::recording::{Picture, Recording};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tanada_sim::machine::Kind;
use tanada_sim::outcome::Count;
use tanada_sim::{Machine, Observer, Options, Outcome, SimError, simulate};
use tanada_trace::Trace;

/// What is to be simulated.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) scheduler: Scheduler,
    pub(crate) machine: Machine,
}

/// What came of it, as paper 1 counts it: misses are those of tasks, without the scheduler's and other cores'.
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
    /// Frames a second at the chip's clock.
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

/// Percent of the accesses that miss.
pub(crate) fn miss_rate(count: Count) -> f64 {
    count.misses as f64 / count.accesses.max(1) as f64 * 100.0
}

impl Job<'_> {
    /// Simulates each picture on its own: from empty caches and the S groups' first owners.
    fn run(&self, watch: &dyn Fn(u64) -> bool) -> Result<Ran, SimError> {
        let pictures = self.recording.pictures.iter();
        let outcomes = pictures.map(|picture| self.observed(picture, watch, &mut ()));
        Ok(Ran::of(&outcomes.collect::<Result<Vec<_>, _>>()?))
    }

    /// Simulates one picture under an observer's eyes.
    ///
    /// # Errors
    /// `watch` stopped it, or it cannot be simulated.
    pub(crate) fn observed(
        &self,
        picture: &Picture,
        watch: &dyn Fn(u64) -> bool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, SimError> {
        let options = Options {
            watch: Some(watch),
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
    /// The trace with the groups that it reads. FCFS reads none; those of pattern A colour its Gantt chart, as in fig. 13.
    pub(crate) fn trace(self, picture: &Picture) -> &Trace {
        match self {
            Scheduler::Fcfs | Scheduler::A => &picture.a,
            Scheduler::B => &picture.b,
        }
    }
}

/// Runs all jobs on `threads` threads; what came of each, in the order of the jobs. `go_on` is asked often, `done` told after each job.
///
/// # Errors
/// The first one, by the order of the jobs; [`SimError::Cancelled`] where `go_on` said so.
pub(crate) fn all(
    jobs: &[Job<'_>],
    threads: usize,
    go_on: &(dyn Fn() -> bool + Sync),
    done: &mut dyn FnMut(usize),
) -> Result<Vec<Ran>, SimError> {
    const LOOK: Duration = Duration::from_millis(100);
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Result<Ran, SimError>>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((number, job)) = take(next, jobs) {
                    let result = job.run(&|_| go_on());
                    let failed = result.is_err();
                    if send.send((number, result)).is_err() || failed {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut ended = 0;
        loop {
            match receive.recv_timeout(LOOK) {
                Ok((number, result)) => {
                    results[number] = Some(result);
                    ended += 1;
                    done(ended);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => done(ended),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    // Where one failed, those behind it may not have been begun.
    results
        .into_iter()
        .map(|result| result.unwrap_or(Err(SimError::Cancelled)))
        .collect()
}

fn take<'a, 'b>(next: &AtomicUsize, jobs: &'b [Job<'a>]) -> Option<(usize, &'b Job<'a>)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, job))
}
