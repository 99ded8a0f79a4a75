//! Carriers: lightweight threads in which a worker runs jobs that must not lie on top of what it runs.
//!
//! A job that waits holds up all that lies below it on its stack, and takes part of that stack. So a worker runs a job in a carrier
//! - if it waits inside of a job or task for a thread, a lock, a message or a time: such a wait ends when another thread likes, and jobs
//!   that wait so would pile up without a bound; or
//! - if the program yields to it when the worker's stack is used up.
//!
//! A carrier's stack has the size of a worker's, and a carrier stays on its worker.
//!
//! # Bound
//! A carrier that waits for a fork runs jobs on top of itself, as a worker does. With [`MOST`] carriers that may do so, or if its stack is
//! used up, a worker takes its own jobs only, whose number is that of closures which its other jobs have forked and spawned, and runs each
//! in a carrier that is *deep*: one that takes no jobs of others either. The memory of the stacks is the bound for these. If the system has
//! none left, the process ends.

use super::handle::Builder;
use crate::fork::Jobs;
use crate::worker::{self, WorkerCore};
use tanada_queues::Ready;

/// Carriers of one worker that are not deep, at most.
const MOST: usize = 4096;

impl WorkerCore {
    /// Returns whether this worker, which waits and lets others run `jobs` meanwhile, may take any job; else its own jobs only.
    pub(crate) fn may_take_any(&self, jobs: Jobs) -> bool {
        let has_room = jobs == Jobs::OnTop || self.threads.carriers.get() < MOST;
        has_room && !self.is_stack_low()
    }

    /// Runs `job` on top of what this worker runs. If the stack is used up, runs it in a carrier until it ends or waits.
    pub(crate) fn run_or_carry(&self, job: Ready) {
        match self.is_stack_low() {
            false => self.run_job(job),
            true => self.run_on_top(self.carry(job, true)),
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
        let body = move || {
            worker::with_any(|worker| {
                let worker = worker.expect("a carrier runs on its worker");
                let thread = worker.current_thread().expect("a carrier is a thread");
                let carriers = &worker.threads.carriers;
                thread.is_deep.set(is_deep);
                carriers.set(carriers.get() + usize::from(!is_deep));
                worker.run_job(job);
                carriers.set(carriers.get() - usize::from(!is_deep));
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
