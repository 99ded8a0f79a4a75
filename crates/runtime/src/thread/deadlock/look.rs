//! One look at everything, and what two of them say of the time between them.

use super::circle::{Blocked, Label, circle_of};
use super::known;
use super::os_threads::os_threads;
use super::report::report;
use super::waits::Heavy;
use crate::pool::PoolShared;
use crate::replay::blocked;
use crate::thread::record::{Wait, pool_number};
use crate::thread::{stack, timer};
use crate::worker::sleep::Idle;
use std::sync::Weak;
use std::sync::atomic::Ordering::SeqCst;

/// Everything that changes when a thread goes on.
pub(super) struct Seen {
    /// The threads that wait for each other, or all that wait, by their numbers.
    pub(super) blocked: Vec<(u64, Wait)>,
    /// The workers, all of which sleep or wait; none if these do not matter.
    pub(super) workers: Vec<Worker>,
    pub(super) outside: usize,
}

/// A worker that does nothing.
pub(in crate::thread) struct Worker {
    /// Its pool's number in waits, and its own.
    pub(super) place: (u64, u16),
    /// The number of its pool in reports.
    pub(super) pool: u64,
    still: Still,
    /// Whether what it runs waits for a fork, a graph or a call, or it may be so.
    pub(super) is_in_a_task: bool,
}

/// What a worker that does nothing has done so far.
#[derive(Clone, Copy)]
enum Still {
    /// It sleeps, after so many turns.
    Asleep(u64),
    /// It waits in a task, and wakes up from time to time: how often it has found something to do, and has looked in vain since then.
    Looks(u32, u32),
}

/// So often at least a worker that wakes up from time to time has looked in vain between two looks at it, and before the first.
pub(in crate::thread) const LOOKS: u32 = 2;

/// What two looks at everything say of the time between them. The greatest of several holds.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    Nothing,
    /// A worker may not have looked yet.
    Unknown,
    Something,
}

impl Seen {
    /// Returns what has happened since `before` was seen.
    fn since(&self, before: &Seen) -> Between {
        let same = self.blocked == before.blocked
            && self.outside == before.outside
            && self.workers.len() == before.workers.len();
        let each = self.workers.iter().zip(&before.workers);
        let each = each.map(|(now, before)| match (now.still, before.still) {
            (Still::Asleep(now), Still::Asleep(before)) if now == before => Between::Nothing,
            (Still::Looks(now, in_vain), Still::Looks(before, before_in_vain)) if now == before => {
                match in_vain.wrapping_sub(before_in_vain) >= LOOKS {
                    true => Between::Nothing,
                    false => Between::Unknown,
                }
            }
            _ => Between::Something,
        });
        match same {
            true => each.max().unwrap_or(Between::Nothing),
            false => Between::Something,
        }
    }

    /// Returns how often nothing must have happened between two looks. A worker that sleeps is woken by what it waits for; one that looks
    /// by itself may have run something between two looks.
    fn needed(&self) -> u32 {
        let looks = |worker: &Worker| matches!(worker.still, Still::Looks(..));
        1 + u32::from(self.workers.iter().any(looks))
    }
}

/// When to look for threads that wait for each other again, although none begins to wait.
#[derive(Clone, Copy)]
pub(in crate::thread) enum Again {
    No,
    Soon,
    /// After some time: an OS thread that this crate does not know may end.
    Later,
}

/// Looks for threads that wait for each other, and returns when to look again. If it finds the same ones again and again, reports them and
/// ends the process.
pub(in crate::thread) fn look() -> Again {
    let mut before = known().seen.lock();
    let (seen, blocked, circle) = match find() {
        Look::Dead(seen, blocked, circle) => (seen, blocked, circle),
        Look::Alive => {
            *before = None;
            return Again::No;
        }
        Look::Strangers => {
            *before = None;
            return Again::Later;
        }
        Look::Unknown => return Again::Soon,
    };
    let (times, seen) = match before.take() {
        Some((first, times)) => match seen.since(&first) {
            Between::Nothing => (times + 1, seen),
            Between::Unknown => (times, first),
            Between::Something => (0, seen),
        },
        None => (0, seen),
    };
    if times >= seen.needed() {
        report(&blocked, &circle, &seen.workers);
        std::process::abort();
    }
    *before = Some((seen, times));
    // A thread that has been woken, and did not run yet, will have run by then.
    Again::Soon
}

/// What one look at everything has found.
enum Look {
    /// Threads that seem to wait for each other, and the places of those of them that do in a circle.
    Dead(Seen, Vec<Blocked>, Vec<usize>),
    Alive,
    /// No worker does anything, but the process has other OS threads than those that are known to wait.
    Strangers,
    /// An OS thread that waits does not sleep at the moment.
    Unknown,
}

/// Looks at everything.
fn find() -> Look {
    let known = known();
    let mut blocked = lightweight(known.first);
    let light = blocked.len();
    {
        let heavy = known.heavy.lock();
        let outside = heavy.iter().filter(|heavy| heavy.worker.is_none());
        // One that does not sleep may have been woken.
        blocked.extend(
            outside
                .filter(|heavy| heavy.is_asleep())
                .map(Heavy::blocked),
        );
    }
    let state = |thread: &Blocked| (thread.number, thread.wait);
    let circle = circle_of(&blocked);
    if !circle.is_empty() {
        let seen = Seen {
            blocked: circle.iter().map(|place| state(&blocked[*place])).collect(),
            workers: Vec::new(),
            outside: 0,
        };
        return Look::Dead(seen, blocked, circle);
    }
    let Some(workers) = still_workers() else {
        return Look::Alive;
    };
    let heavy = known.heavy.lock();
    if !heavy.iter().all(Heavy::is_asleep) {
        return Look::Unknown;
    }
    blocked.truncate(light);
    blocked.extend(heavy.iter().map(Heavy::blocked));
    drop(heavy);
    if blocked.is_empty() {
        return Look::Alive;
    }
    let circle = circle_of(&blocked);
    let outside = known.outside.load(SeqCst);
    // The timer's thread calls this. The one that watches schedules wakes nothing that waits.
    let waiting = workers.len() + outside + 1 + usize::from(blocked::is_watched());
    if circle.is_empty() {
        if timer::has_alarms() {
            return Look::Alive;
        }
        match os_threads() {
            Some((all, true)) if all == waiting => {}
            Some((all, false)) if all == waiting => return Look::Unknown,
            Some(_) => return Look::Strangers,
            None => return Look::Alive,
        }
    }
    let seen = Seen {
        blocked: blocked.iter().map(state).collect(),
        workers,
        outside,
    };
    Look::Dead(seen, blocked, circle)
}

/// Returns the lightweight threads that wait, of those with numbers from `first` on.
fn lightweight(first: u64) -> Vec<Blocked> {
    let mut blocked = Vec::new();
    stack::for_each(|header| {
        if let (Some(wait), Some((number, name))) = (header.blocked_on(), header.label())
            && number >= first
        {
            blocked.push(Blocked {
                who: number,
                number,
                label: Label::Light(number, name),
                wait,
                scope: header.scope(),
                pool: header.pool_of(number).unwrap_or(0),
                worker: header.home(),
                is_pinned: header.is_pinned(),
            });
        }
    });
    blocked
}

/// Returns all workers of all pools, if all of them sleep or wait.
fn still_workers() -> Option<Vec<Worker>> {
    let pools: Vec<_> = (known().pools.lock().iter())
        .filter_map(Weak::upgrade)
        .collect();
    // In a child of `fork(2)` the workers of its parent are none.
    let here = pools.iter().filter(|pool| !pool.is_forked());
    let workers = here.flat_map(|pool| workers_of(pool).map(|(_, still)| still));
    let workers = workers.collect();
    // Each may be the last reference by now.
    pools.into_iter().for_each(PoolShared::drop_aside);
    workers
}

/// Returns the workers of `pool`, each as one that does nothing; with `None` if it runs something.
pub(in crate::thread) fn workers_of(
    pool: &PoolShared,
) -> impl Iterator<Item = (usize, Option<Worker>)> {
    let idle = pool.sleep.idle().zip(pool.forks.demand.waits.idle());
    idle.enumerate().filter_map(|(me, (idle, waiting))| {
        // It has no thread yet, and gets one from the program or when it is needed.
        if !pool.threads.has_begun(me) {
            return None;
        }
        let is_loopless = pool.threads.is_loopless(me);
        let (found, in_vain) = pool.threads.looks_of(me);
        let elsewhere = pool.threads.waits_elsewhere(me);
        let asleep =
            |idle: Option<Idle>| Some(Still::Asleep(idle.filter(|idle| idle.asleep)?.turns));
        let (still, is_in_a_task) = if let Some(still) = asleep(idle) {
            (still, false)
        } else if let Some(still) = asleep(waiting) {
            (still, true)
        } else if elsewhere % 2 == 1 {
            (Still::Asleep(elsewhere), false)
        } else if in_vain >= LOOKS {
            (Still::Looks(found, in_vain), true)
        } else if is_loopless {
            // Its OS thread is the program's, or has ended, or both.
            return None;
        } else {
            return Some((me, None));
        };
        let worker = Worker {
            place: (pool_number(pool), me as u16),
            pool: pool.number,
            still,
            // What waits on a worker without a loop is the program's, and named as that.
            is_in_a_task: is_in_a_task && !is_loopless,
        };
        Some((me, Some(worker)))
    })
}
