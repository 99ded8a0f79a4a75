//! An observer that counts tasks and records when they ran.

use super::profile::{self, Profile};
use super::{Observer, TaskView, WorkerObserver};
use crate::process::Process;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
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

    fn count(&mut self, origin: Origin) {
        self.tasks += 1;
        *match origin {
            Origin::Handed => &mut self.handed,
            Origin::Own => &mut self.own,
            Origin::Pool => &mut self.pool,
            Origin::Mailbox => &mut self.mailbox,
            Origin::Stolen(_) => &mut self.stolen,
        } += 1;
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
    /// When its body started.
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
    fn add(&mut self, other: Recorded) {
        self.totals.add(&other.totals);
        self.tasks.extend(other.tasks);
    }

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

type Keep = dyn Fn(&TaskView) -> bool + Send + Sync;

struct Shared {
    zero: Instant,
    /// The process that made the recorder.
    home: Process,
    keep: Box<Keep>,
    /// Whether it keeps all, and dependencies, too.
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
    fn settle(&mut self) {
        let ended = &mut self.ended;
        self.of_workers.retain_mut(|lane| {
            let Some(lane) = Arc::get_mut(lane) else {
                return true;
            };
            if lane.home.is_this() {
                ended.add(std::mem::take(lane.recorded.get_mut()));
            }
            false
        });
    }
}

/// What one worker has recorded.
#[derive(Debug)]
struct Lane {
    /// The process that made the worker's pool: in a child of it the lock may be held for ever.
    home: Process,
    recorded: Mutex<Recorded>,
}

/// Counts all tasks and records some of them. Costs two readings of the clock for each task.
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
    /// Records the tasks for which `keep` returns true. It is called once for each task, after the task's end.
    pub fn keep(keep: impl Fn(&TaskView) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Box::new(keep), false)
    }

    fn new(keep: Box<Keep>, all: bool) -> Self {
        Recorder(Arc::new(Shared {
            zero: Instant::now(),
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
        Self::new(Box::new(|_| true), true)
    }

    /// Returns a recorder of no task, which keeps sums only.
    pub fn sums() -> Self {
        Self::keep(|_| false)
    }

    /// Takes and returns what was recorded since the last call. Call it while no graph runs: otherwise tasks that run now may be missing.
    /// In a child of `fork(2)` the tasks of pools of its parent are missing.
    pub fn take(&self) -> Recorded {
        let Some(mut lanes) = self.lanes() else {
            return Recorded::default();
        };
        lanes.settle();
        let mut all = std::mem::take(&mut lanes.ended);
        all.dependencies = self.0.all.then(profile::take);
        let own = |lane: &&Arc<Lane>| lane.home.is_this();
        for lane in lanes.of_workers.iter().filter(own) {
            all.add(std::mem::take(&mut *lane.recorded.lock()));
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
            recorded: Mutex::default(),
        });
        if let Some(mut lanes) = self.lanes() {
            lanes.settle();
            lanes.of_workers.push(Arc::clone(&lane));
        }
        RecorderWorker {
            recorder: self.clone(),
            lane,
            worker,
            started: Vec::new(),
            ended: None,
            number: u64::from(NUMBERS.fetch_add(1, Ordering::Relaxed)) << 40,
        }
    }
}

/// The part of a [`Recorder`] that one worker owns.
#[derive(Debug)]
pub struct RecorderWorker {
    recorder: Recorder,
    lane: Arc<Lane>,
    worker: WorkerId,
    /// Start and origin of the tasks that run on this worker, the innermost last: a task that waits for a nested graph runs others
    /// meanwhile.
    started: Vec<Started>,
    /// When the last outermost task ended, unless the worker has searched since.
    ended: Option<u64>,
    /// The number of the last execution: that of the worker among all that were recorded, in the upper bits.
    number: u64,
}

/// Numbers of recorded workers, from 1.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// A task that has started.
#[derive(Debug)]
struct Started {
    start: u64,
    origin: Origin,
    number: u64,
    /// The execution in which it started, or 0.
    outer: u64,
}

impl RecorderWorker {
    fn now(&self) -> u64 {
        // 64 bits are enough for 584 years.
        self.recorder.0.zero.elapsed().as_nanos() as u64
    }
}

impl WorkerObserver for RecorderWorker {
    fn start(&mut self, _task: &TaskView, origin: Origin) {
        let now = self.now();
        if let Some(ended) = self.ended.take() {
            let mut lane = self.lane.recorded.lock();
            lane.totals.scheduling_ns += now - ended;
            lane.totals.turns += 1;
        }
        self.number += 1;
        self.started.push(Started {
            start: now,
            origin,
            number: self.number,
            outer: profile::set_running(self.number),
        });
    }

    fn end(&mut self, task: &TaskView) {
        let now = self.now();
        let started = self.started.pop().expect("a task that ends has started");
        let Started { start, origin, .. } = started;
        profile::set_running(started.outer);
        // Before the lock: it is code of the user's, which may call `Recorder::take`.
        let keep = (self.recorder.0.keep)(task);
        let mut lane = self.lane.recorded.lock();
        lane.totals.count(origin);
        // The time of a nested task is part of the time of the task that waits for it.
        if self.started.is_empty() {
            lane.totals.busy_ns += now - start;
            self.ended = Some(now);
        }
        if keep {
            lane.tasks.push(RecordedTask {
                name: task.name,
                index: task.index,
                t: task.hints.t,
                s: task.hints.s,
                worker: self.worker,
                origin,
                start_ns: start,
                end_ns: now,
                address: task.address,
                number: started.number,
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
