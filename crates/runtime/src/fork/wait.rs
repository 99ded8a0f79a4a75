//! How a worker waits inside of a job, and what it does meanwhile.

use super::job::Job;
use super::latch::Flag;
use crate::parking;
use crate::thread::deadlock;
use crate::worker::{self, WorkerCore};
use std::time::{Duration, Instant};

/// The rounds that a waiting worker searches before it sleeps, as those of an idle one.
const ROUNDS: u32 = 32;

/// The pauses at the end of each round.
const PAUSES: u32 = 8;

/// The pauses for which a worker waits before it searches: a microsecond. It would find what its thief has just forked, for which the thief
/// would wait in turn.
const SOON: u32 = 64;

/// The time for which a thread outside looks again and again before it sleeps.
const SPIN: Duration = Duration::from_micros(10);

/// Where a worker that waits runs the jobs that it finds meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jobs {
    /// On top of the job that waits.
    OnTop,
    /// In threads of their own ([`carry`](WorkerCore::carry)), because the job that waits may have to go on before one of them ends.
    Apart,
}

impl WorkerCore {
    /// Waits until `flag` is open. Runs jobs and lightweight threads meanwhile, and parts of calls; of the tasks of graphs none, because
    /// the waiting job may hold up what such a task waits for. A worker whose stack is used up runs its own jobs, parts and threads only:
    /// whatever it waits for was begun by another worker, lies in the deque of one that took it and runs it before it sleeps, lies in its
    /// own deque, or is a thread's to do.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for(&self, flag: &Flag, jobs: Jobs) {
        self.end_if_forked();
        self.check_may_wait();
        if self.is_open_soon(flag) {
            return;
        }
        // A job may want a lock that the one which waits holds.
        let jobs = match jobs {
            Jobs::OnTop => self.place_of_jobs(),
            Jobs::Apart => self.apart(),
        };
        let _pin = self.pin();
        if self.graph.held.is_some() {
            self.settle();
        }
        let _waits = self.waits_in_share();
        let paused = (self.forks.lane.as_ref()).is_some_and(|lane| lane.pause());
        while !flag.is_open() {
            match self.may_take_any(jobs) {
                true => self.help_until(flag, jobs),
                false => self.wait_low(flag, jobs),
            }
        }
        self.found_something();
        // A worker that has no loop of its own would hold them back for ever.
        self.settle_threads();
        if let Some(lane) = self.forks.lane.as_ref().filter(|_| paused) {
            lane.resume();
        }
    }

    /// Returns whether `flag` is open, or opens in a moment. A worker that searches has all others keep their forks for a while, which
    /// costs more than what a thief still has to do of a small fork.
    fn is_open_soon(&self, flag: &Flag) -> bool {
        if self.pool().takes_turns() || self.pool().is_oversubscribed() {
            return flag.is_open();
        }
        (0..SOON).any(|_| {
            let is_open = flag.is_open();
            if !is_open {
                std::hint::spin_loop();
            }
            is_open
        })
    }

    /// Waits with a stack that is used up, or until it is not.
    fn wait_low(&self, flag: &Flag, jobs: Jobs) {
        let is_open = || flag.is_open();
        if self.is_called() {
            self.answer_by(jobs);
            return;
        }
        // Each gets its turn: a thread may wait for a job, and may never end.
        let has_helped = self.help_threads(|| (), is_open).is_some();
        if is_open() {
            return;
        }
        if let Some(job) = self.pop_job() {
            return match self.may_carry_deep(jobs) {
                true => self.run_meanwhile(self.carry(job, true), is_open),
                // A recursion without an end is to overflow the stack, as elsewhere.
                false => {
                    let _runs = deadlock::runs_on_top(self);
                    self.run_job(job);
                }
            };
        }
        if !has_helped && !self.gives_way(is_open) {
            self.pool().wait_in_a_task(|| {
                let _still = deadlock::waits_low(self);
                flag.park_until(|| self.is_called() || self.may_have_threads());
            });
        }
    }

    /// Runs jobs until `flag` is open, or until this worker may not take any.
    fn help_until(&self, flag: &Flag, jobs: Jobs) {
        let (pool, me) = (self.pool(), self.id.index());
        let demand = &pool.forks.demand;
        let leave = || {
            let left = || pool.forks.has_jobs() || self.may_have_threads();
            demand.leave(&demand.waits, me, &pool.sleep, left);
        };
        demand.waits.begin_search(me);
        let mut round = 0;
        while !flag.is_open() {
            if self.is_called() {
                leave();
                self.answer_by(jobs);
                demand.waits.begin_search(me);
                continue;
            }
            if let Some(job) = self.search_job() {
                leave();
                self.found_something();
                match jobs {
                    Jobs::OnTop => {
                        let _runs = deadlock::runs_on_top(self);
                        self.run_found(job, || {
                            !flag.is_open() && !self.is_called() && self.may_take_any(jobs)
                        });
                    }
                    Jobs::Apart => self.run_meanwhile(self.carry(job, false), || flag.is_open()),
                }
                if flag.is_open() || !self.may_take_any(jobs) {
                    return;
                }
                demand.waits.begin_search(me);
                round = 0;
                continue;
            }
            if let Some(is_open) = self.help_threads(leave, || flag.is_open()) {
                if is_open {
                    return;
                }
                demand.waits.begin_search(me);
                round = 0;
                continue;
            }
            if round == 0 {
                demand.request(me);
            }
            round += 1;
            if round < ROUNDS {
                if round % 8 == 7 || pool.is_oversubscribed() {
                    parking::yield_now();
                }
                self.pause(PAUSES, || flag.is_open());
                continue;
            }
            if self.is_on_top() {
                leave();
                self.gives_way(|| flag.is_open());
                if flag.is_open() || !self.may_take_any(jobs) {
                    return;
                }
                demand.waits.begin_search(me);
                round = 0;
                continue;
            }
            deadlock::suspect();
            pool.wait_in_a_task(|| {
                demand.waits.doze(me, || {
                    // The announcement comes first, so that no limit stays above 0 while this worker sleeps.
                    demand.request(me);
                    flag.is_open()
                        || self.is_called()
                        || pool.forks.has_jobs()
                        || self.may_have_threads()
                })
            });
            round = 0;
        }
        leave();
    }

    /// Runs a job on this worker. A panic of its closure does not leave this function.
    #[inline]
    pub(crate) fn run_job(&self, job: tanada_queues::Ready) {
        let _pin = self.pin();
        if self.graph.held.is_some() {
            self.settle();
        }
        Job::run(job, self);
    }
}

/// Returns once `done` returns true, or after a time of about two wake-ups. `done` is asked without a look at the pool: a thread outside of
/// it gives up its processor if a worker may need it.
pub(super) fn spin(done: impl Fn() -> bool) {
    if parking::is_scheduled() {
        // Time must not decide, and this thread has its turn alone.
        return;
    }
    let start = Instant::now();
    for look in 1_u64.. {
        if done() || start.elapsed() >= SPIN {
            return;
        }
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        if look % 8 == 0 {
            parking::yield_now();
        }
    }
}

/// What a call of [`yield_now`](super::yield_now) or [`yield_local`](super::yield_local) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// It ran a job.
    Executed,
    /// There was nothing to run.
    Idle,
}

/// Runs one job that this worker, or any other of its pool, has not begun, and returns when that has ended; if the stack is used up, also
/// when it waits. If there is no job, a lightweight thread lets others of its worker run. Returns `None` if this thread is no worker. The
/// second closure of a plain join is no job.
pub fn yield_now() -> Option<Yield> {
    yield_to(|worker| {
        worker
            .pool()
            .forks
            .has_mail(worker.id.index())
            .then(|| worker.run_mail(worker.place_of_jobs()))
            .or_else(|| worker.find_job().map(|job| worker.run_or_carry(job)))
    })
}

/// As [`yield_now`], of the jobs of this worker only.
pub fn yield_local() -> Option<Yield> {
    yield_to(|worker| {
        worker
            .pop_job()
            .map(|job| worker.run_or_carry(job))
            .or_else(|| {
                worker
                    .pool()
                    .forks
                    .has_mail(worker.id.index())
                    .then(|| worker.run_mail(worker.place_of_jobs()))
            })
    })
}

fn yield_to(run: impl FnOnce(&WorkerCore) -> Option<()>) -> Option<Yield> {
    let (done, is_thread) = worker::with_any(|worker| {
        let is_thread = worker.is_some_and(|worker| worker.current_thread().is_some());
        let done = worker.map(|worker| {
            worker.check_may_wait();
            match run(worker) {
                Some(()) => Yield::Executed,
                None => Yield::Idle,
            }
        });
        (done, is_thread)
    });
    if is_thread && done == Some(Yield::Idle) {
        // What it waits for may be another thread's to do.
        crate::thread::yield_now();
    }
    done
}
