//! How a worker finds the next thread to run.
//!
//! A worker looks at its ring and at its run queue by turns, at its mail and the injected ones once in a while, and then also at those in
//! its run queue that others come before, unless there is a scheduler. It steals only if it has nothing of its own, with two
//! exceptions: from workers that do not come to their threads, and if its own threads do nothing but wait. So none of them waits
//! for ever while the worker runs threads.

use super::deadlock;
use super::handle::why_ready;
use super::scheduler::{Queues, Runnable};
use crate::worker::{EndOnPanic, WorkerCore};
use tanada_policy::WorkerId;
use tanada_queues::{Head, Ready};

/// One of `RING` threads that a worker takes comes from its run queue, if that holds any, and the others from its ring. A power of two.
pub(super) const RING: u32 = 16;

/// Once in `ONCE_IN` threads, a multiple of [`RING`], a worker looks at its mail, at the injected threads, at those that wait behind others
/// in its run queue and at those of workers that do not come to them, although it has others.
const ONCE_IN: u32 = 32;

/// How often a thief looks whether a thread that lies alone in its queue is still there, before it takes the thread.
const GLANCES: u32 = 2;

/// The pauses (`spin_loop`) before each of those looks: one to three microseconds.
const BETWEEN_GLANCES: u32 = 64;

impl WorkerCore {
    /// Takes and returns a thread for this worker, which is free to run any.
    #[inline]
    pub(crate) fn find_thread(&self) -> Option<Ready> {
        if !deadlock::are_used() || !self.may_run_threads() {
            return None;
        }
        self.own_thread()
            .or_else(|| self.take_injected().or_else(|| self.steal_thread()))
    }

    /// Takes and returns a thread that was handed to the pool and not to a worker. A scheduler is told of one that has arrived, and decides
    /// which thread this worker takes.
    fn take_injected(&self) -> Option<Ready> {
        let pool = self.pool();
        let threads = &pool.threads;
        threads.injected.pop().or_else(|| {
            threads.scheduler.as_ref()?;
            let right = threads.arrivals.pop()?;
            let why = why_ready(&right);
            pool.make_ready(Some(self), right, why);
            self.pop_thread()
        })
    }

    pub(super) fn steal_thread(&self) -> Option<Ready> {
        let stolen = match self.pool().threads.scheduler() {
            Some(scheduler) => self.ask_for_a_thread(|queues| scheduler.steal(queues)),
            None => {
                // It waits for one of them only: there may be something else to do.
                let mut waits = true;
                Queues::of(self).steal_nearest_of(|queues, victim| match queues.len(victim) {
                    1 => std::mem::replace(&mut waits, false) && self.stays(queues, victim),
                    number => number > 0,
                })
            }
        };
        // A scheduler may return a thread of another pool.
        stolen.and_then(|thread| Queues::of(self).ours(thread))
    }

    /// Steals if a thread lies at a worker that does not come to it: this worker may always have others of its own.
    fn steal_from_absent(&self) -> Option<Ready> {
        let pool = self.pool();
        if !pool.has_absent() || !pool.sleep.is_active(self.id.index()) {
            return None;
        }
        let mut workers = 0..usize::from(pool.placement.workers());
        let is_left = |whom| pool.is_absent(whom) && !pool.threads.tail(whom).is_empty();
        workers.any(is_left).then(|| self.steal_thread()).flatten()
    }

    /// Returns whether the only thread of `victim` stays in its queue for a moment. Most do not that a thread has created and joins, or has
    /// woken before it waits itself: their worker runs them next, and to take one from there costs more than to run it.
    fn stays(&self, queues: &Queues<'_>, victim: WorkerId) -> bool {
        let pool = self.pool();
        // In a schedule, time decides nothing.
        if pool.takes_turns() || pool.is_oversubscribed() {
            return true;
        }
        (0..GLANCES).all(|_| {
            (0..BETWEEN_GLANCES).for_each(|_| std::hint::spin_loop());
            !queues.is_empty(victim)
        })
    }

    /// Returns whether threads are queued that a scheduler of the program's own may take, and has not taken when it was asked.
    pub(crate) fn leaves_threads_to_others(&self) -> bool {
        let pool = self.pool();
        // In a schedule, time decides nothing.
        pool.threads.scheduler.is_some() && pool.schedule.is_none() && self.may_have_threads()
    }

    /// Calls the user's scheduler, or a closure of [`with_queues`](super::with_queues). A panic ends the process: threads in its hands
    /// would be lost to those that wait for them.
    pub(super) fn ask_scheduler<R>(&self, call: impl FnOnce(&mut Queues<'_>) -> R) -> R {
        let asking = &self.threads.asking;
        // With turns left, a thread could leave without a look at the mark.
        let turns = self.threads.replace_turns((0, 0));
        let answer = EndOnPanic::around(|| {
            assert!(
                !asking.replace(true),
                "a scheduler of threads, or a closure of `with_queues`, must not call `with_queues`"
            );
            call(&mut Queues::of(self))
        });
        asking.set(false);
        self.threads.replace_turns(turns);
        answer
    }

    /// Asks the user's scheduler for a thread.
    fn ask_for_a_thread(
        &self,
        call: impl FnOnce(&mut Queues<'_>) -> Option<Runnable>,
    ) -> Option<Runnable> {
        let answer = self.ask_scheduler(call);
        self.note_answer(answer.is_some());
        answer
    }

    /// Takes and returns a thread that lies at this worker.
    #[inline]
    pub(crate) fn own_thread(&self) -> Option<Ready> {
        self.own_thread_after(1)
    }

    /// As [`WorkerCore::own_thread`], after so many turns since the last call.
    #[inline]
    pub(super) fn own_thread_after(&self, turns: u32) -> Option<Ready> {
        let local = &self.threads;
        let before = local.picks.get();
        let picks = before.wrapping_add(turns);
        local.picks.set(picks);
        if before / RING == picks / RING
            && let Some(right) = local.ring.pop_front()
        {
            return Some(right);
        }
        self.next_own_thread(before / ONCE_IN != picks / ONCE_IN)
    }

    /// Looks in the run queue first, and if `all` before that at what comes from elsewhere.
    #[inline]
    fn next_own_thread(&self, all: bool) -> Option<Ready> {
        let (pool, local) = (self.pool(), &self.threads);
        if all {
            if pool.threads.has_mail(self.id.index()) {
                self.open_mail();
            }
            // What a scheduler of the program's own leaves in a queue for long is its affair.
            let waiting = || match pool.threads.scheduler {
                None => local.with_head(Head::pop_waiting),
                Some(_) => None,
            };
            // By turns, so that none of them keeps another waiting for ever.
            let first = local.looks.get();
            local.looks.set((first + 1) % 3);
            let found = (first..first + 3).find_map(|source| match source % 3 {
                0 => waiting(),
                1 => self.take_injected(),
                _ => self.steal_from_absent(),
            });
            if found.is_some() {
                return found;
            }
        }
        let from_ring = || local.ring.pop_front();
        self.pop_thread().or_else(from_ring).or_else(|| {
            pool.threads
                .has_mail(self.id.index())
                .then(|| self.open_mail());
            from_ring()
        })
    }

    /// Takes and returns what the scheduler has for this worker without stealing.
    #[inline]
    fn pop_thread(&self) -> Option<Ready> {
        match self.pool().threads.scheduler() {
            None => self.threads.with_head(Head::pop),
            Some(scheduler) => {
                let next = self.ask_for_a_thread(|queues| scheduler.next(queues));
                next.and_then(|thread| Queues::of(self).ours(thread))
            }
        }
    }

    #[cold]
    fn open_mail(&self) {
        let mail = &self.pool().threads.seats[self.id.index()].mail;
        for _ in 0..mail.len() {
            let Some(right) = mail.pop() else { break };
            self.threads.ring.push_back(right);
        }
    }

    /// Returns whether this worker runs threads. One without a loop does not: its OS thread may end at any time, and what a suspended
    /// thread has lent to others of that OS thread's own variables would be gone before the thread has.
    #[inline]
    pub(super) fn may_run_threads(&self) -> bool {
        !self.loopless.get()
    }

    /// Returns whether this worker might find a thread.
    pub(crate) fn may_have_threads(&self) -> bool {
        if !self.may_run_threads() {
            return false;
        }
        let threads = &self.pool().threads;
        let scheduler = threads.scheduler().filter(|_| deadlock::are_used());
        // The scheduler is asked first: it may make threads ready, which lie in a queue then.
        let keeps = scheduler
            .is_some_and(|scheduler| self.ask_scheduler(|queues| scheduler.may_have(queues.me())));
        keeps || threads.may_have(self.id.index())
    }
}
