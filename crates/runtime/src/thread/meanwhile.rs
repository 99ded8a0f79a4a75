//! What a worker does while a thread, a job or a task on it waits.

use super::deadlock;
use super::record::Header;
use crate::worker::WorkerCore;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use tanada_queues::Ready;

impl WorkerCore {
    /// Runs threads for a worker that waits until `flag` is open, after a call of `leave`: on top of the task that waits, or by suspending
    /// the thread that waits. Returns `None`, without the call, if there are none, else whether the flag is open.
    pub(crate) fn help_threads(
        &self,
        leave: impl FnOnce(),
        is_done: impl Fn() -> bool,
    ) -> Option<bool> {
        let other = self.find_thread()?;
        leave();
        self.run_meanwhile(other, &is_done);
        Some(is_done())
    }

    /// Runs `other`, and perhaps more threads, for a worker that waits until `is_done`: on top of the task that waits, or by suspending the
    /// thread that waits.
    pub(crate) fn run_meanwhile(&self, other: Ready, is_done: impl Fn() -> bool) {
        match self.current_thread() {
            None => {
                if !self.all_only_wait(&other) {
                    self.found_something();
                }
                self.on_top(|| self.run_threads_until(other, Some(&is_done)));
            }
            Some(thread) => {
                let is_vain = self.is_vain(&other);
                // What they wait for may wait for another worker that does not come to it.
                let stolen = is_vain.then(|| self.steal_thread()).flatten();
                if is_vain && stolen.is_none() {
                    self.rest(&is_done);
                }
                self.runs_next(other);
                stolen.into_iter().for_each(|stolen| self.runs_next(stolen));
                self.stands_back(thread);
            }
        }
        self.settle_threads();
    }

    /// Runs `thread` on top of what this worker runs, until it ends or waits.
    pub(super) fn run_on_top(&self, thread: Ready) {
        let _pin = self.pin();
        let polls = &self.threads.polls;
        polls.set(polls.get() + 1);
        self.on_top(|| self.run_thread(thread, false));
        polls.set(polls.get() - 1);
        // What the worker is in may never wait.
        self.settle_threads();
    }

    /// Calls `run`, which runs threads on top of a job or task that waits.
    fn on_top<R>(&self, run: impl FnOnce() -> R) -> R {
        let below = &self.threads.below;
        below.set(below.get() + 1);
        let ran = run();
        below.set(below.get() - 1);
        ran
    }

    /// Returns whether this worker runs a thread on top of a job or task that waits.
    pub(crate) fn is_on_top(&self) -> bool {
        self.threads.below.get() > 0 && self.current_thread().is_some()
    }

    /// What this worker runs waits for a job, a graph or a call, and there is nothing that it could do meanwhile. If that is a thread on
    /// top of a job or task that waits, what it waits for may be that one, or lie below it: then the thread lets that go on after a
    /// moment, and this returns true when the thread has its next turn. The thread is pinned.
    pub(crate) fn gives_way(&self, is_done: impl Fn() -> bool) -> bool {
        let Some(thread) = self.current_thread().filter(|_| self.is_on_top()) else {
            return false;
        };
        self.rest(is_done);
        self.stands_back(thread);
        self.settle_threads();
        true
    }

    /// This worker, which waits in a task, has woken up by itself, and there was nothing to do.
    pub(crate) fn looked_in_vain(&self) {
        /// One of `SEARCH` looks is followed by a search for threads that wait for each other.
        const SEARCH: u64 = 64;
        const LOOKS: u32 = deadlock::LOOKS;
        if self.threads.polls.get() > 0 {
            // What polls may be what others wait for.
            return;
        }
        let looks = &self.pool().threads.seats[self.id.index()].looks;
        let next = looks.load(Relaxed).wrapping_add(1);
        looks.store(next, Relaxed);
        if next as u32 == LOOKS || next.is_multiple_of(SEARCH) {
            deadlock::suspect();
        }
    }

    /// This worker begins or ends to wait for something of another pool, or with a stack that is used up.
    pub(super) fn changes_elsewhere(&self) {
        let threads = &self.pool().threads;
        let before = threads.seats[self.id.index()]
            .elsewhere
            .fetch_add(1, SeqCst);
        match before % 2 {
            0 => threads.absent.fetch_add(1, Relaxed),
            _ => threads.absent.fetch_sub(1, Relaxed),
        };
    }

    /// This worker, which waits in a task, has found something to do.
    #[inline]
    pub(crate) fn found_something(&self) {
        let looks = &self.pool().threads.seats[self.id.index()].looks;
        let now = looks.load(Relaxed);
        if now as u32 != 0 {
            looks.store(((now >> 32) + 1) << 32, Relaxed);
        }
    }

    /// Sleeps for a moment, unless there is something to do, or `is_done`.
    fn rest(&self, is_done: impl Fn() -> bool) {
        const REST: Duration = Duration::from_micros(500);
        let pool = self.pool();
        let has_nothing = || {
            let other = || self.is_called() || pool.forks.has_jobs() || self.may_have_threads();
            !is_done() && !other()
        };
        if pool.schedule.is_some() {
            // Time decides nothing in a schedule: the other workers get their turns.
            if has_nothing() {
                self.looked_in_vain();
            }
            return crate::parking::yield_now();
        }
        pool.wait_in_a_task(|| {
            if has_nothing() {
                crate::parking::park_timeout(REST);
            }
            if has_nothing() {
                self.looked_in_vain();
            }
        });
    }

    /// Puts `thread` first into the ring. Threads there are this worker's.
    fn runs_next(&self, thread: Ready) {
        Header::of(&thread).goes_to(self);
        self.threads.ring.push_front(thread);
    }

    /// A thread of this worker waits for a job, a graph or a call, and is about to let `other` run. Returns whether that does nothing but
    /// wait for such a thing, too, as all others here, and none of them has come to its end for some time. Then this worker sleeps for a
    /// moment if it finds nothing else: the thread that opens what one of them waits for need not know that the worker sleeps.
    fn is_vain(&self, other: &Ready) -> bool {
        /// They look as often before the worker sleeps.
        const LOOKS: usize = 64;
        let local = &self.threads;
        let helps = self.all_only_wait(other);
        let vain = if helps { local.vain.get() + 1 } else { 0 };
        if !helps {
            self.found_something();
        }
        let most = LOOKS.max(local.helpers.get() + 1);
        local.vain.set(vain % most);
        vain == most
    }

    /// Returns whether `other`, which was taken out of the ring, and all threads that are still there do nothing but wait for a job, a
    /// graph or a call and let others run meanwhile.
    fn all_only_wait(&self, other: &Ready) -> bool {
        let (ring, helpers) = (&self.threads.ring, &self.threads.helpers);
        Header::of(other).is_pinned() && ring.len.get() + 1 == helpers.get()
    }

    /// Runs parts of broadcasts, a job or a thread until it ends or waits, if there is one for this worker, which is in a task. Returns
    /// whether there was.
    pub(super) fn run_something(&self) -> bool {
        self.check_may_wait();
        if self.pool().forks.has_mail(self.id.index()) {
            self.run_mail(self.apart());
            return true;
        }
        if !self.may_run_threads() {
            let job = (!self.is_stack_low()).then(|| self.find_job()).flatten();
            let found = job.is_some();
            job.into_iter().for_each(|job| self.run_job(job));
            return found;
        }
        let next = self.find_carrier(WorkerCore::find_job);
        let next = next.or_else(|| self.find_thread());
        let found = next.is_some();
        next.into_iter().for_each(|next| self.run_on_top(next));
        found
    }

    /// Keeps the current lightweight thread on this worker until the result is dropped, although it may not be tied: what runs on its
    /// stack meanwhile relies on the worker.
    pub(crate) fn pin(&self) -> Pin {
        Pin(self.current_thread().filter(|thread| thread.tie()))
    }
}

/// See [`WorkerCore::pin`].
pub(crate) struct Pin(Option<&'static Header>);

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            thread.untie();
        }
    }
}
