//! What the workers of a governed pool share, and the calls of the governor.

use super::{Decision, Read};
use crate::process::{self, Process};
use crate::worker::EndOnPanic;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tanada_policy::{Activity, CacheUse, Governor, GovernorSite, Period, Why};
use tanada_queues::Padded;

/// The decisions that are kept: the last ones.
const LOG: usize = 1024;

/// A worker that is not idle, in [`Slot::idle_since`].
const NOT_IDLE: u64 = u64::MAX;

/// Checks in a row, ten a second, after which active workers that end no task while others are parked count as blocked.
const BLOCKED_CHECKS: u32 = 10;

/// What one worker lets the others read.
#[derive(Default)]
struct Slot {
    work: AtomicU64,
    idle: AtomicU64,
    idle_since: AtomicU64,
}

/// When no worker has a task.
struct Quiet {
    /// Number of workers that have a task.
    busy: AtomicUsize,
    /// When the last worker ran out of tasks. Every worker stores it before it leaves `busy`.
    since: AtomicU64,
    /// The sum of quiet times that are over.
    sum: AtomicU64,
}

/// The governor of a pool, and what it reads. Times are nanoseconds since the pool was made.
pub struct Governed {
    start: Instant,
    period: u64,
    slots: Box<[Padded<Slot>]>,
    quiet: Padded<Quiet>,
    next_call: Padded<AtomicU64>,
    state: Mutex<State>,
    /// Not under the lock of `state`, so that the rule of a governor that does not return can end.
    rule: Mutex<Rule>,
    home: Process,
    /// Not under the lock of `state`, so that a thread that reads it never waits for the governor.
    log: Mutex<VecDeque<Decision>>,
}

/// What the governor has decided last. Whoever changes the number of active workers holds its lock.
struct Rule {
    width: usize,
    /// Whether the governor decides no more.
    over: bool,
}

/// What only the caller of the governor touches.
struct State {
    governor: Box<dyn Governor>,
    counters: Option<Read>,
    /// The time, the quiet time, and each worker's work and idle time at the last call.
    last: u64,
    quiet: u64,
    seen: Box<[(u64, u64)]>,
    activity: Vec<Activity>,
}

impl Governed {
    /// Returns the governed state of a pool that has just been made. `counters`: those that `governor` reads, if it does, or why there are
    /// none, which the log then says.
    pub(super) fn new(
        governor: Box<dyn Governor>,
        site: &GovernorSite,
        counters: Option<io::Result<Read>>,
    ) -> Self {
        let without = matches!(counters, Some(Err(_)));
        let governed = Governed::with(governor, site, counters.and_then(Result::ok));
        if without {
            let why = Why {
                what: "no cache counters here, so work per time alone decides",
                figures: Vec::new(),
            };
            governed.write_down(0, site.threads, site.threads, why);
        }
        governed
    }

    fn with(governor: Box<dyn Governor>, site: &GovernorSite, counters: Option<Read>) -> Self {
        let slots = (0..site.threads).map(|_| Padded(Slot::default()));
        Governed {
            start: Instant::now(),
            period: site.period,
            slots: slots.collect(),
            quiet: Padded(Quiet {
                busy: AtomicUsize::new(0),
                since: AtomicU64::new(0),
                sum: AtomicU64::new(0),
            }),
            next_call: Padded(AtomicU64::new(site.period)),
            state: Mutex::new(State {
                governor,
                counters,
                last: 0,
                quiet: 0,
                seen: vec![(0, 0); site.threads].into_boxed_slice(),
                activity: Vec::with_capacity(site.threads),
            }),
            rule: Mutex::new(Rule {
                width: site.threads,
                over: false,
            }),
            home: Process::this(),
            log: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 // of 584 years
    }

    pub(super) fn period(&self) -> u64 {
        self.period
    }

    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.next_call.0.load(Relaxed)
    }

    #[inline]
    pub(super) fn publish_work(&self, worker: usize, work: u64) {
        self.slots[worker].0.work.store(work, Relaxed);
    }

    pub(super) fn begin_idle(&self, worker: usize, now: u64) {
        self.slots[worker].0.idle_since.store(now, Relaxed);
        self.quiet.0.since.store(now, SeqCst);
        self.quiet.0.busy.fetch_sub(1, SeqCst);
    }

    pub(super) fn end_idle(&self, worker: usize, now: u64, idle: u64) {
        let slot = &self.slots[worker].0;
        slot.idle.store(idle, Relaxed);
        slot.idle_since.store(NOT_IDLE, Relaxed);
        if self.quiet.0.busy.fetch_add(1, SeqCst) == 0 {
            let quiet = now.saturating_sub(self.quiet.0.since.load(SeqCst));
            self.quiet.0.sum.fetch_add(quiet, SeqCst);
        }
    }

    /// Calls the governor on behalf of a worker that has just ended a task, unless another one does or has just done so. Calls `resize`
    /// with the new number of active workers if that changes, one such call at a time.
    ///
    /// A period has no time in which no worker had a task: what the program does between its graphs is no concern of the governor.
    #[inline(never)]
    pub(crate) fn call(
        &self,
        now: u64,
        tasks_wait: impl FnOnce() -> bool,
        resize: impl FnOnce(usize),
    ) {
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        let state = &mut *state;
        if !self.is_due(now) || now <= state.last || self.rule.lock().over {
            return;
        }
        let passed = now - std::mem::replace(&mut state.last, now);
        let sum = self.quiet.0.sum.load(SeqCst);
        let quiet = (sum - std::mem::replace(&mut state.quiet, sum)).min(passed);
        state.activity.clear();
        for (slot, seen) in self.slots.iter().zip(&mut state.seen) {
            let (slot, work) = (&slot.0, slot.0.work.load(Relaxed));
            // A worker that begins or ends to be idle just now may be counted wrongly by that moment.
            let since = slot.idle_since.load(Relaxed);
            let idle = slot.idle.load(Relaxed) + now.saturating_sub(since);
            let (work_before, idle_before) = std::mem::replace(seen, (work, idle));
            let idle = idle.saturating_sub(idle_before).saturating_sub(quiet);
            state.activity.push(Activity {
                work: work.saturating_sub(work_before),
                idle: idle.min(passed - quiet),
                cache: None,
            });
        }
        // All workers' counts are one sum, which stands at the first.
        if let Some(sum) = state.counters.as_mut().and_then(|read| read()) {
            for (worker, one) in state.activity.iter_mut().enumerate() {
                one.cache = Some(if worker == 0 {
                    sum
                } else {
                    CacheUse::default()
                });
            }
        }
        let waiting = match tasks_wait() {
            true => 2 * self.slots.len(),
            false => self.quiet.0.busy.load(Relaxed),
        };
        let period = Period {
            time: (passed - quiet).max(1),
            threads: &state.activity,
            waiting,
        };
        let governor = &mut state.governor;
        let (plan, why) = EndOnPanic::around(|| (governor.plan(&period), governor.why()));
        if !self.home.is_this() {
            process::end_child();
        }
        self.next_call
            .0
            .store(now.saturating_add(plan.next_call.max(1)), Relaxed);
        let width = plan.width.clamp(1, self.slots.len());
        let mut rule = self.rule.lock();
        if rule.over {
            return;
        }
        self.write_down(now, rule.width, width, why);
        if std::mem::replace(&mut rule.width, width) != width {
            resize(width);
        }
    }

    /// Makes all workers active for good, because those that are active end no task. Does not wait for the governor: one that does not
    /// return, because it waits for tasks of its own pool, may be why.
    fn give_up(&self, resize: impl FnOnce(usize)) {
        let mut rule = self.rule.lock();
        if std::mem::replace(&mut rule.over, true) {
            return;
        }
        let why = Why {
            what: "active workers end no task while tasks wait; no governor from now on",
            figures: Vec::new(),
        };
        let all = self.slots.len();
        self.write_down(self.now(), rule.width, all, why);
        rule.width = all;
        resize(all);
    }

    /// Returns the decisions so far, the oldest first.
    pub(crate) fn decisions(&self) -> Vec<Decision> {
        self.log.lock().iter().cloned().collect()
    }

    /// Adds a decision to the log, unless neither the width nor the reason changes.
    fn write_down(&self, now: u64, from: usize, to: usize, why: Why) {
        let mut log = self.log.lock();
        let same = |last: &Decision| last.why.what == why.what;
        if from == to && log.back().is_some_and(same) {
            return;
        }
        if log.len() == LOG {
            log.pop_front();
        }
        log.push_back(Decision {
            at: Duration::from_nanos(now),
            from: from as u16,
            to: to as u16,
            why,
        });
    }

    fn work(&self) -> u64 {
        let slots = self.slots.iter();
        slots.map(|slot| slot.0.work.load(Relaxed)).sum()
    }
}

/// What a waiting thread has seen of a governed pool whose active workers may wait for tasks that only parked workers would run.
#[derive(Default)]
pub(crate) struct Blocked {
    work: u64,
    checks: u32,
}

impl Blocked {
    /// Checks once more, ten times a second, and ends the governor's rule if no task has ended for [`BLOCKED_CHECKS`] checks although
    /// `tasks_wait`.
    pub(crate) fn check(
        &mut self,
        governed: &Governed,
        tasks_wait: impl FnOnce() -> bool,
        resize: impl FnOnce(usize),
    ) {
        let work = governed.work();
        let moves = std::mem::replace(&mut self.work, work) != work;
        if moves || !tasks_wait() {
            self.checks = 0;
            return;
        }
        self.checks += 1;
        if self.checks >= BLOCKED_CHECKS {
            governed.give_up(resize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tanada_policy::{Order, Plan};

    /// The time of a period, and each worker's activity.
    type Note = (u64, Vec<Activity>);

    /// Writes periods down.
    struct Notes(Arc<Mutex<Vec<Note>>>);

    impl Governor for Notes {
        fn plan(&mut self, period: &Period<'_>) -> Plan {
            self.0.lock().push((period.time, period.threads.to_vec()));
            Plan {
                width: 7,
                order: Order::Fifo,
                next_call: 1000,
            }
        }
        fn why(&self) -> Why {
            Why {
                what: "a note",
                figures: vec![("periods", self.0.lock().len() as f64)],
            }
        }
    }

    #[test]
    fn quiet_time_belongs_to_no_period() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let site = GovernorSite {
            threads: 2,
            at_once: 2,
            period: 1000,
        };
        let governed = Governed::new(Box::new(Notes(Arc::clone(&notes))), &site, None);
        let mut widths = Vec::new();
        governed.call(999, || false, |width| widths.push(width));
        assert!(notes.lock().is_empty(), "not due");
        // Nothing until 400, worker 0 from then on, worker 1 from 600 to 900.
        governed.end_idle(0, 400, 400);
        governed.end_idle(1, 600, 600);
        governed.publish_work(1, 3);
        governed.begin_idle(1, 900);
        governed.publish_work(0, 5);
        governed.call(1400, || false, |width| widths.push(width));
        let (time, threads) = notes.lock()[0].clone();
        assert_eq!(time, 1000);
        let seen: Vec<_> = threads.iter().map(|one| (one.work, one.idle)).collect();
        assert_eq!(seen, [(5, 0), (3, 700)]);
        // Both idle from 1500 to 2500.
        governed.begin_idle(0, 1500);
        governed.end_idle(0, 2500, 400 + 1000);
        governed.call(2399, || false, |width| widths.push(width));
        governed.call(2600, || false, |width| widths.push(width));
        let (time, threads) = notes.lock()[1].clone();
        let seen: Vec<_> = threads.iter().map(|one| (one.work, one.idle)).collect();
        assert_eq!((time, seen), (200, vec![(0, 0), (0, 200)]));
        assert_eq!(notes.lock().len(), 2);
        assert!(widths.is_empty(), "2 of 7 are all there are");
        let log = governed.decisions();
        assert_eq!(log.len(), 1, "the same again is not logged");
        assert_eq!(
            log[0].to_string(),
            "0.000001 s  2 workers: a note: periods 1"
        );
    }

    #[test]
    fn counters_are_read_once_a_call_and_stand_at_the_first_worker() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let site = GovernorSite {
            threads: 3,
            at_once: 3,
            period: 1000,
        };
        let mut counts = vec![None, Some((7, 2))].into_iter();
        let read: Read = Box::new(move || {
            let (accesses, misses) = counts.next().expect("two calls")?;
            Some(CacheUse { accesses, misses })
        });
        let governor = Box::new(Notes(Arc::clone(&notes)));
        let governed = Governed::new(governor, &site, Some(Ok(read)));
        for now in [1000, 3000] {
            governed.call(now, || true, |_| ());
        }
        let notes = notes.lock();
        let caches = |call: usize| notes[call].1.iter().map(|one| one.cache);
        assert!(
            caches(0).all(|cache| cache.is_none()),
            "nothing was counted"
        );
        let misses: Vec<_> = caches(1).map(|cache| cache.map(|one| one.misses)).collect();
        assert_eq!(misses, [Some(2), Some(0), Some(0)]);
        let first = &governed.decisions()[0];
        assert_eq!(first.why.what, "a note", "the log does not miss counters");
    }

    #[test]
    fn the_log_says_that_there_are_no_counters() {
        let site = GovernorSite {
            threads: 2,
            at_once: 2,
            period: 1000,
        };
        let none = Err(io::Error::from(io::ErrorKind::NotFound));
        let governed = Governed::new(Box::new(Notes(Arc::default())), &site, Some(none));
        governed.call(2000, || false, |_| ());
        let log: Vec<String> = governed
            .decisions()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            log,
            [
                "0.000000 s  2 workers: no cache counters here, so work per time alone decides",
                "0.000002 s  2 workers: a note: periods 1",
            ]
        );
    }

    #[test]
    fn workers_that_are_blocked_end_the_governors_rule() {
        let site = GovernorSite {
            threads: 4,
            at_once: 4,
            period: 1,
        };
        let governed = Governed::new(Box::new(Notes(Arc::default())), &site, None);
        let mut blocked = Blocked::default();
        let mut resized = 0;
        let mut check =
            |blocked: &mut Blocked, tasks| blocked.check(&governed, || tasks, |_| resized += 1);
        for _ in 0..100 {
            check(&mut blocked, false);
        }
        for round in 1..100 {
            governed.publish_work(2, round);
            (1..BLOCKED_CHECKS).for_each(|_| check(&mut blocked, true));
        }
        assert!(governed.decisions().is_empty());
        (0..BLOCKED_CHECKS).for_each(|_| check(&mut blocked, true));
        (0..100).for_each(|_| check(&mut blocked, true));
        assert_eq!(resized, 1);
        assert_eq!(governed.decisions().len(), 1);
        governed.call(1_000_000, || false, |_| panic!("not called any more"));
    }
}
