//! Carriers: lightweight threads in which a worker runs jobs that must not lie on top of what it runs.
//!
//! A job that waits holds up all that lies below it on its stack, and takes part of that stack. So a worker runs a job in a carrier
//! - if it waits inside of a job or task for a thread, a lock, a message or a time: such a wait ends when another thread likes, and jobs
//!   that wait so would pile up without a bound;
//! - if it waits for a fork, or yields, in a program that has lightweight threads, or locks or channels of [`sync`](super::sync): the job
//!   may wait for what lies below it; or
//! - if its stack is used up.
//!
//! A carrier's stack has the size of a worker's, and a carrier stays on its worker. An adopted worker, which
//! [runs no threads](WorkerCore::may_run_threads), runs all jobs on top of what it runs.
//!
//! # Bound
//! With [`MOST`] carriers, or if its stack is used up, a worker takes its own jobs only, whose number is that of closures which its other
//! jobs have forked and spawned, and runs each in a carrier that is *deep*: one that takes no jobs of others either. The memory of the
//! stacks is the bound for these. If the system has none left, the process ends.

use super::handle::Builder;
use crate::fork::Jobs;
use crate::worker::{self, WorkerCore};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tanada_queues::Ready;

/// Carriers of one worker with which it runs jobs of others in new ones, at most.
const MOST: usize = 4096;

/// Carriers of one worker with which it runs a job in a new one to wait for a fork, at most: such waits nest in a recursion, which may have
/// no end.
const MOST_DEEP: usize = 4 * MOST;

/// Whether the program has made lightweight threads, or locks or channels of [`sync`](super::sync): what a worker runs may wait for what
/// it lies on top of.
static PROGRAM_WAITS: AtomicBool = AtomicBool::new(false);

/// The program makes a lightweight thread, a channel or a barrier, or takes a lock.
#[inline]
pub(super) fn program_waits() {
    if !PROGRAM_WAITS.load(Relaxed) {
        PROGRAM_WAITS.store(true, Relaxed);
    }
}

impl WorkerCore {
    /// Returns whether jobs of this worker lie in carriers.
    pub(crate) fn has_carriers(&self) -> bool {
        self.threads.carriers.get() > 0
    }

    /// Returns whether this worker, which waits and lets others run `jobs` meanwhile, may take any job; else its own jobs only.
    pub(crate) fn may_take_any(&self, jobs: Jobs) -> bool {
        let has_room = jobs == Jobs::OnTop || self.threads.carriers.get() < MOST;
        has_room && !self.is_stack_low()
    }

    /// Returns whether this worker, whose stack is used up, may run one of its jobs in a carrier.
    pub(crate) fn may_carry_deep(&self, jobs: Jobs) -> bool {
        let has_room = jobs == Jobs::Apart || self.threads.carriers.get() < MOST_DEEP;
        has_room && self.may_run_threads()
    }

    /// Returns where this worker runs the jobs that it finds while it waits for a fork.
    #[inline]
    pub(crate) fn place_of_jobs(&self) -> Jobs {
        match PROGRAM_WAITS.load(Relaxed) && self.threads.carriers.get() < MOST {
            false => Jobs::OnTop,
            true => self.apart(),
        }
    }

    /// Returns where this worker runs jobs that are to have threads of their own.
    #[inline]
    pub(crate) fn apart(&self) -> Jobs {
        match self.may_run_threads() {
            true => Jobs::Apart,
            false => Jobs::OnTop,
        }
    }

    /// Runs `job` on top of what this worker runs. If that holds a lock, or the stack is used up, runs the job in a carrier until it ends
    /// or waits.
    pub(crate) fn run_or_carry(&self, job: Ready) {
        match (self.is_stack_low(), self.place_of_jobs()) {
            (true, _) if self.may_run_threads() => self.run_on_top(self.carry(job, true)),
            (_, Jobs::Apart) => self.run_on_top(self.carry(job, false)),
            (_, Jobs::OnTop) => self.run_job(job),
        }
    }

    /// Runs what was posted to this worker alone, where it runs `jobs`.
    pub(crate) fn run_posted(&self, jobs: Jobs, run: impl FnOnce(&Self) + Send + 'static) {
        match jobs {
            Jobs::OnTop => run(self),
            Jobs::Apart => self.run_on_top(self.carry_out(!self.may_take_any(jobs), run)),
        }
    }

    /// Takes a job by `find`, or one of this worker's own if it may take no other, and returns the right to run a carrier of it.
    pub(super) fn find_carrier(&self, find: impl FnOnce(&Self) -> Option<Ready>) -> Option<Ready> {
        let is_deep = !self.may_take_any(Jobs::Apart);
        let job = if is_deep { self.pop_job() } else { find(self) };
        job.map(|job| self.carry(job, is_deep))
    }

    /// Returns the right to run a new carrier, in which this worker runs `job`.
    #[cold]
    #[inline(never)]
    pub(crate) fn carry(&self, job: Ready, is_deep: bool) -> Ready {
        self.carry_out(is_deep, |worker| worker.run_job(job))
    }

    /// Returns the right to run a new carrier, in which this worker calls `run`, which does not panic.
    fn carry_out(&self, is_deep: bool, run: impl FnOnce(&Self) + Send + 'static) -> Ready {
        let body = move || {
            worker::with_any(|worker| {
                let worker = worker.expect("a carrier runs on its worker");
                let thread = worker.current_thread().expect("a carrier is a thread");
                let carriers = &worker.threads.carriers;
                thread.is_deep.set(is_deep);
                carriers.set(carriers.get() + 1);
                run(worker);
                carriers.set(carriers.get() - 1);
                // The next thread in this slot may be any.
                thread.is_deep.set(false);
            });
        };
        match Builder::carrier(self, self.stack.size, body) {
            Ok(right) => right,
            Err(error) => no_stack(&error),
        }
    }
}

#[cold]
fn no_stack(error: &std::io::Error) -> ! {
    crate::process::report(format_args!(
        "the system has no stack left for one more closure of those that wait at the same time: {error}"
    ));
    std::process::abort();
}
