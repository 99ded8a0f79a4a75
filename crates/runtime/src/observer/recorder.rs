//! An observer that counts tasks and records when they ran.

use super::chunk::{Writer, Written, chunk};
use super::clock::{Clock, Scale};
use super::profile::{self, Profile};
use super::{Observer, TaskView, WorkerObserver};
use crate::process::Process;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;
use tanada_policy::{Origin, WorkerId};

/// Sums over all tasks that a recorder saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tasks that ran.
    pub tasks: u64,
    /// Nanoseconds inside of task bodies, summed over all workers.
    pub busy_ns: u64,
    /// Nanoseconds from the end of a task to the start of the next one on the same worker, if the worker did not have to search: the cost
    /// of scheduling.
    pub scheduling_ns: u64,
    /// Number of the intervals in `scheduling_ns`.
    pub turns: u64,
    /// Tasks that ran without going through a queue.
    pub handed: u64,
    /// Tasks from the worker's own queue.
    pub own: u64,
    /// Tasks from a queue that all workers share.
    pub pool: u64,
    /// Tasks from the worker's mailbox.
    pub mailbox: u64,
    /// Stolen tasks.
    pub stolen: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        let Totals {
            tasks,
            busy_ns,
            scheduling_ns,
            turns,
            handed,
            own,
            pool,
            mailbox,
            stolen,
        } = other;
        self.tasks += tasks;
        self.busy_ns += busy_ns;
        self.scheduling_ns += scheduling_ns;
        self.turns += turns;
        self.handed += handed;
        self.own += own;
        self.pool += pool;
        self.mailbox += mailbox;
        self.stolen += stolen;
    }
}

/// One task that a [`Recorder`] has kept. Times are in nanoseconds since the recorder was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTask {
    /// The task's name.
    pub name: &'static str,
    /// The task's number among the tasks of that name.
    pub index: u64,
    /// The task's temporal group.
    pub t: u32,
    /// The task's spatial group.
    pub s: u32,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// The queue that the worker got it from.
    pub origin: Origin,
    /// When its body started. [`Recorder::all`] takes it from the end of the task before for some tasks.
    pub start_ns: u64,
    /// When its body ended.
    pub end_ns: u64,
    /// Its address in memory.
    pub(super) address: usize,
    /// Its number among all executions that were recorded by this process.
    pub(super) number: u64,
}

/// What a [`Recorder`] has gathered.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Sums over all tasks.
    pub totals: Totals,
    /// The kept tasks: those of one worker in the order of their ends, worker by worker.
    pub tasks: Vec<RecordedTask>,
    /// The dependencies, if they were kept.
    dependencies: Option<profile::Kept>,
}

impl Recorded {
    /// Returns work and span of what was recorded; `None` unless every task was ([`Recorder::all`]). Costs some 200 ns a task.
    pub fn profile(&self) -> Option<Profile> {
        let kept = self.dependencies.as_ref()?;
        Some(profile::profile(&self.tasks, kept))
    }
}

#[cfg(feature = "report")]
impl Recorded {
    /// Returns [`Recorded::profile`] in the schema of reports, for a run that took `wall`.
    pub fn profile_of(&self, wall: Duration) -> Option<tanada_report::Profile> {
        let profile = self.profile()?;
        let part = |part: super::PathPart| tanada_report::PathPart {
            name: part.name.to_owned(),
            line: part.line.map_or_else(String::new, |line| {
                format!("{}:{}", line.file(), line.line())
            }),
            tasks: part.tasks,
            ns: part.ns,
        };
        Some(tanada_report::Profile {
            work_ns: profile.work_ns,
            span_ns: profile.span_ns,
            wall_ns: wall.as_nanos() as u64,
            path: profile.path.into_iter().map(part).collect(),
        })
    }

    /// Returns the kept tasks in the schema of reports: as the timeline called `label` of a run with this policy and number of workers.
    pub fn timeline(&self, label: &str, policy: &str, workers: u16) -> tanada_report::Timeline {
        use tanada_report::{Event, Origin as From, Timeline, Unit};
        let mut timeline = Timeline::new(label, policy, Unit::Ns, workers);
        for task in &self.tasks {
            let name = timeline.intern(task.name);
            timeline.events.push(Event {
                worker: task.worker.0,
                task: task.index,
                name,
                t: task.t,
                s: task.s,
                start: task.start_ns,
                end: task.end_ns,
                origin: match task.origin {
                    Origin::Handed => From::Handed,
                    Origin::Own => From::Own,
                    Origin::Pool => From::Pool,
                    Origin::Mailbox => From::Mailbox,
                    Origin::Stolen(victim) => From::Stolen(victim.0),
                },
            });
        }
        timeline
    }
}

/// A lock of the list of lanes is held for a shorter time, unless its holder is gone.
const LANES_LOCKED: Duration = Duration::from_millis(100);

/// Which tasks are kept.
enum Keep {
    All,
    None,
    Those(Box<dyn Fn(&TaskView) -> bool + Send + Sync>),
}

struct Shared {
    clock: Clock,
    /// The process that made the recorder.
    home: Process,
    keep: Keep,
    /// Whether it keeps dependencies, too.
    all: bool,
    lanes: Mutex<Lanes>,
}

#[derive(Default)]
struct Lanes {
    /// One for each worker of each pool that has this recorder.
    of_workers: Vec<Arc<Lane>>,
    /// What workers have recorded that are gone.
    ended: Recorded,
}

impl Lanes {
    /// Moves what was recorded by workers that are gone to `ended`.
    fn settle(&mut self, scale: Scale) {
        let ended = &mut self.ended;
        self.of_workers.retain(|lane| {
            // The worker's own handle is dropped behind its last task, whose record this thread then sees.
            let is_gone = Arc::strong_count(lane) == 1;
            fence(Ordering::Acquire);
            if is_gone && lane.home.is_this() {
                lane.take(scale, ended);
            }
            !is_gone
        });
    }
}

/// What one worker has recorded. The worker adds to it without a lock: it alone writes the sums, and a chunk of tasks at a time.
#[derive(Debug)]
struct Lane {
    /// The process that made the worker's pool: in a child of it the lock may be held for ever.
    home: Process,
    sums: Sums,
    taken: Mutex<Taken>,
}

/// What can be taken of a lane, and what was.
#[derive(Debug, Default)]
struct Taken {
    /// The sums at the last call of [`Lane::take`].
    sums: [u64; SUMS],
    chunks: VecDeque<Written<RecordedTask>>,
    /// How many tasks of the first chunk were taken.
    tasks: usize,
}

/// Places of [`Sums`]: tasks by [`place`], then cycles of the clock in tasks and between them, and the number of intervals between them.
const SUMS: usize = 8;
const BUSY: usize = 5;
const SCHEDULING: usize = 6;
const TURNS: usize = 7;

/// Sums since the worker began, on lines of their own. The worker alone writes.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Sums([AtomicU64; SUMS]);

impl Sums {
    /// Only the worker calls this.
    #[inline]
    fn add(&self, place: usize, more: u64) {
        let sum = &self.0[place];
        sum.store(sum.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// Returns the place in [`Sums`] of the tasks from this queue.
#[inline]
fn place(origin: Origin) -> usize {
    match origin {
        Origin::Handed => 0,
        Origin::Own => 1,
        Origin::Pool => 2,
        Origin::Mailbox => 3,
        Origin::Stolen(_) => 4,
    }
}

impl Lane {
    /// Moves what was recorded since the last call to `to`.
    fn take(&self, scale: Scale, to: &mut Recorded) {
        let taken = &mut *self.taken.lock();
        let mut more = [0; SUMS];
        for ((more, last), sum) in more.iter_mut().zip(&mut taken.sums).zip(&self.sums.0) {
            let now = sum.load(Ordering::Relaxed);
            *more = now - std::mem::replace(last, now);
        }
        let [handed, own, pool, mailbox, stolen, busy, scheduling, turns] = more;
        to.totals.add(&Totals {
            tasks: handed + own + pool + mailbox + stolen,
            busy_ns: scale.ns(busy),
            scheduling_ns: scale.ns(scheduling),
            turns,
            handed,
            own,
            pool,
            mailbox,
            stolen,
        });
        while let Some(first) = taken.chunks.front() {
            let is_full = first.is_full();
            let before = to.tasks.len();
            to.tasks
                .extend(first.since(taken.tasks).map(|task| RecordedTask {
                    start_ns: scale.ns(task.start_ns),
                    end_ns: scale.ns(task.end_ns),
                    ..task
                }));
            if !is_full {
                taken.tasks += to.tasks.len() - before;
                break;
            }
            taken.chunks.pop_front();
            taken.tasks = 0;
        }
    }
}

/// Counts all tasks and records some of them. Costs two readings of the clock for each task: of the processor's counter where the kernel
/// keeps time by that, some 15 ns each, else of [`Instant`](std::time::Instant).
///
/// [`Recorder::all`] and [`Recorder::sums`] leave the first of the two out if a worker takes a task from its own queue, or hands itself
/// one, directly after the end of another. In the gap between the two it has released that task's successors and called the policy. One
/// of 31 such gaps is measured, and the next 30 are taken to be as long, unless it is so long that another program ran meanwhile. So a
/// single start may be wrong by what gaps differ, and a task may have got a part of the gap before it. Ends are all read, and the sums of
/// gaps and of bodies are right on average. [`Recorded::profile`] lets no task start before what it waits for has ended.
///
/// Pass a clone to [`PoolBuilder::observer`](crate::PoolBuilder::observer), and [`Recorder::take`] what was recorded from the original.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl Recorder {
    /// Records the tasks for which `keep` returns true, with two readings of the clock each. It is called once for each task, after the
    /// task's end.
    pub fn keep(keep: impl Fn(&TaskView) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Keep::Those(Box::new(keep)), false)
    }

    fn new(keep: Keep, all: bool) -> Self {
        Recorder(Arc::new(Shared {
            clock: Clock::new(),
            home: Process::this(),
            keep,
            all,
            lanes: Mutex::default(),
        }))
    }

    /// Returns a recorder of every task, in 80 bytes each, and of their dependencies, for [`Recorded::profile`]: in 56 bytes for each task
    /// and dependency of a dynamic graph, and once for each room of a template. The dependencies are kept for all such recorders of the
    /// process together: of two that are in use at the same time, the first that is taken gets them.
    pub fn all() -> Self {
        Self::new(Keep::All, true)
    }

    /// Returns a recorder of no task, which keeps sums only.
    pub fn sums() -> Self {
        Self::new(Keep::None, false)
    }

    /// Takes and returns what was recorded since the last call. Call it while no graph runs: otherwise tasks that run now may be missing.
    /// In a child of `fork(2)` the tasks of pools of its parent are missing.
    pub fn take(&self) -> Recorded {
        let Some(mut lanes) = self.lanes() else {
            return Recorded::default();
        };
        let scale = self.0.clock.scale();
        lanes.settle(scale);
        let mut all = std::mem::take(&mut lanes.ended);
        all.dependencies = self.0.all.then(profile::take);
        let own = |lane: &&Arc<Lane>| lane.home.is_this();
        for lane in lanes.of_workers.iter().filter(own) {
            lane.take(scale, &mut all);
        }
        all
    }

    /// Returns the locked list of lanes; `None` in a child of `fork(2)` if a thread of its parent held the lock at the fork.
    fn lanes(&self) -> Option<MutexGuard<'_, Lanes>> {
        match self.0.home.is_this() {
            true => Some(self.0.lanes.lock()),
            false => self.0.lanes.try_lock_for(LANES_LOCKED),
        }
    }
}

impl Observer for Recorder {
    type Worker = RecorderWorker;

    fn keeps_dependencies(&self) -> bool {
        self.0.all
    }

    fn worker(&self, worker: WorkerId) -> RecorderWorker {
        let lane = Arc::new(Lane {
            home: Process::this(),
            sums: Sums::default(),
            taken: Mutex::default(),
        });
        if let Some(mut lanes) = self.lanes() {
            lanes.settle(self.0.clock.scale());
            lanes.of_workers.push(Arc::clone(&lane));
        }
        RecorderWorker {
            recorder: self.clone(),
            lane,
            tasks: None,
            worker,
            started: None,
            around: Vec::new(),
            ended: None,
            gap: 0,
            left: 0,
            number: u64::from(NUMBERS.fetch_add(1, Ordering::Relaxed)) << 40,
        }
    }
}

/// The part of a [`Recorder`] that one worker owns.
#[derive(Debug)]
pub struct RecorderWorker {
    recorder: Recorder,
    lane: Arc<Lane>,
    /// The chunk of the lane that is not full.
    tasks: Option<Writer<RecordedTask>>,
    worker: WorkerId,
    /// Start and origin of the task that runs on this worker.
    started: Option<Started>,
    /// The tasks around it, the innermost last: a task that waits for a nested graph runs others meanwhile.
    around: Vec<Started>,
    /// When the last outermost task ended, unless the worker has searched since.
    ended: Option<u64>,
    /// The last gap between two tasks that was measured, in ticks, and how many more are taken to be as long.
    gap: u64,
    left: u32,
    /// The number of the last execution: that of the worker among all that were recorded, in the upper bits.
    number: u64,
}

/// Numbers of recorded workers, from 1.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// Gaps that are taken to be as long as one that was measured. One more is a prime number: gaps of two kinds that come by turns are all
/// measured.
const LIKE: u32 = 30;

/// Ticks after which another program has run in a gap: 40 us and more. The next gap is measured, too.
const LONG: u64 = 100_000;

/// A task that has started.
#[derive(Debug)]
struct Started {
    start: u64,
    /// The end of the task directly before, if there was one.
    before: Option<u64>,
    origin: Origin,
    number: u64,
    /// The execution in which it started, or 0.
    outer: u64,
}

impl RecorderWorker {
    /// Adds a task to the lane. It is made where it stays.
    #[inline(always)]
    fn keep(&mut self, task: impl FnOnce() -> RecordedTask) {
        if self.tasks.as_ref().is_none_or(Writer::is_full) {
            self.begin_chunk();
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.push(task);
        }
    }

    #[cold]
    fn begin_chunk(&mut self) {
        let (writer, written) = chunk();
        self.tasks = Some(writer);
        self.lane.taken.lock().chunks.push_back(written);
    }
}

impl WorkerObserver for RecorderWorker {
    // Always inline: what is not read of the view need not be made.
    #[inline(always)]
    fn start(&mut self, _task: &TaskView, origin: Origin) {
        let shared = &*self.recorder.0;
        let before = self.ended.take();
        let near = matches!(origin, Origin::Own | Origin::Handed);
        let start = match before {
            Some(before) if near && self.left > 0 => {
                self.left -= 1;
                before + self.gap
            }
            _ => {
                // In order, so that starts respect dependencies.
                let now = shared.clock.now_in_order();
                if let Some(before) = before
                    && near
                    && !matches!(shared.keep, Keep::Those(_))
                {
                    let gap = now.saturating_sub(before);
                    if gap < LONG {
                        (self.gap, self.left) = (gap, LIKE);
                    }
                }
                now
            }
        };
        self.number += 1;
        let started = Started {
            start,
            before,
            origin,
            number: self.number,
            outer: match shared.all {
                true => profile::set_running(self.number),
                false => 0,
            },
        };
        if let Some(outer) = self.started.replace(started) {
            self.around.push(outer);
        }
    }

    #[inline(always)]
    fn end(&mut self, task: &TaskView) {
        let shared = &*self.recorder.0;
        let now = shared.clock.now();
        let started = self.started.take().expect("a task that ends has started");
        if !self.around.is_empty() {
            self.started = self.around.pop();
        }
        let Started { before, origin, .. } = started;
        // A start that was not read may be a little late, and a reading in order a little ahead of the next one out of order.
        let start = started.start.min(now);
        if shared.all {
            profile::set_running(started.outer);
        }
        // Before anything is written: it is code of the user's, which may call `Recorder::take`.
        let keep = match &shared.keep {
            Keep::All => true,
            Keep::None => false,
            Keep::Those(keep) => keep(task),
        };
        self.lane.sums.add(place(origin), 1);
        // The time of a nested task is part of the time of the task that waits for it.
        if self.started.is_none() {
            self.lane.sums.add(BUSY, now - start);
            if let Some(before) = before {
                let gap = start.saturating_sub(before);
                self.lane.sums.add(SCHEDULING, gap);
                self.lane.sums.add(TURNS, 1);
            }
            self.ended = Some(now);
        }
        if keep {
            let (worker, number) = (self.worker, started.number);
            self.keep(|| RecordedTask {
                name: task.name,
                index: task.index,
                t: task.hints.t,
                s: task.hints.s,
                worker,
                origin,
                start_ns: start,
                end_ns: now,
                address: task.address,
                number,
            });
        }
    }

    fn idle(&mut self) {
        self.ended = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn workers_that_are_gone_leave_what_they_recorded_and_nothing_else() {
        let recorder = Recorder::all();
        for round in 1..=5 {
            let pool = Pool::builder().workers(3).observer(recorder.clone());
            let pool = pool.build().expect("a pool");
            pool.scope(|s| {
                s.task("one").register(|_| ());
            })
            .expect("a graph that ends");
            drop(pool);
            assert!(recorder.0.lanes.lock().of_workers.len() <= 3, "{round}");
        }
        let recorded = recorder.take();
        assert_eq!((recorded.totals.tasks, recorded.tasks.len()), (5, 5));
        assert!(recorder.0.lanes.lock().of_workers.is_empty());
        assert_eq!(recorder.take().totals.tasks, 0, "taken once");
    }
}
