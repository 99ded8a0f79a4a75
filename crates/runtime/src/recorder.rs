//! An observer that counts and records what the workers do.

use crate::observer::{Observer, TaskView, WorkerObserver};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use tanada_policy::{Origin, WorkerId};
use tanada_report::{Event, Timeline, Unit};

/// Sums over all tasks that a recorder saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tasks that ran.
    pub tasks: u64,
    /// Nanoseconds inside task bodies, over all workers.
    pub busy_ns: u64,
    /// Nanoseconds from a task's end to the next task's start on the same worker, where it had not to search: what scheduling costs.
    pub scheduling_ns: u64,
    /// How many times that was.
    pub turns: u64,
    /// Tasks that ran without going through a queue.
    pub handed: u64,
    /// Tasks from the worker's own queue.
    pub own: u64,
    /// Tasks from a pool that all share.
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

/// One recorded task.
struct Record {
    view: TaskView,
    worker: WorkerId,
    origin: Origin,
    start: u64,
    end: u64,
}

#[derive(Default)]
struct Lane {
    totals: Totals,
    records: Vec<Record>,
}

type Keep = dyn Fn(&TaskView) -> bool + Send + Sync;

struct Inner {
    zero: Instant,
    keep: Box<Keep>,
    lanes: Mutex<Vec<Arc<Mutex<Lane>>>>,
}

/// Counts all tasks and records those that are to be kept. Costs two readings of the clock a task.
///
/// Hand a clone to [`crate::PoolBuilder::observer`] and keep one to [`Recorder::take`] what was recorded.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

/// What a [`Recorder`] has gathered.
#[derive(Debug)]
pub struct Recorded {
    /// Sums over all tasks.
    pub totals: Totals,
    /// The tasks that were kept, in nanoseconds since the recorder was made.
    pub timeline: Timeline,
}

impl Recorder {
    /// Keeps the tasks that `keep` says yes to. It is asked once a task, after its end.
    pub fn keep(keep: impl Fn(&TaskView) -> bool + Send + Sync + 'static) -> Self {
        Recorder(Arc::new(Inner {
            zero: Instant::now(),
            keep: Box::new(keep),
            lanes: Mutex::default(),
        }))
    }

    /// Keeps every task: 80 bytes each.
    pub fn all() -> Self {
        Self::keep(|_| true)
    }

    /// Keeps sums only.
    pub fn sums() -> Self {
        Self::keep(|_| false)
    }

    /// Takes what was recorded since the last call. Call it while no graph runs; a task that runs meanwhile may be missed.
    pub fn take(&self, label: &str, policy: &str, workers: u16) -> Recorded {
        let mut totals = Totals::default();
        let mut timeline = Timeline::new(label, policy, Unit::Ns, workers);
        for lane in &*self.0.lanes.lock() {
            let Lane {
                totals: sums,
                records,
            } = std::mem::take(&mut *lane.lock());
            totals.add(&sums);
            for Record {
                view,
                worker,
                origin,
                start,
                end,
            } in records
            {
                let name = timeline.intern(view.name);
                let (t, s) = (view.hints.t, view.hints.s);
                let origin = report_origin(origin);
                timeline.events.push(Event {
                    worker: worker.0,
                    task: view.index,
                    name,
                    t,
                    s,
                    start,
                    end,
                    origin,
                });
            }
        }
        Recorded { totals, timeline }
    }
}

/// The same origin in the words of a report.
fn report_origin(origin: Origin) -> tanada_report::Origin {
    match origin {
        Origin::Handed => tanada_report::Origin::Handed,
        Origin::Own => tanada_report::Origin::Own,
        Origin::Pool => tanada_report::Origin::Pool,
        Origin::Mailbox => tanada_report::Origin::Mailbox,
        Origin::Stolen(victim) => tanada_report::Origin::Stolen(victim.0),
    }
}

impl Observer for Recorder {
    type Worker = RecorderWorker;

    fn worker(&self, worker: WorkerId) -> RecorderWorker {
        let lane = Arc::new(Mutex::new(Lane::default()));
        self.0.lanes.lock().push(Arc::clone(&lane));
        RecorderWorker {
            recorder: self.clone(),
            lane,
            worker,
            started: Vec::new(),
            ended: None,
        }
    }
}

/// The part of a [`Recorder`] that one worker has.
#[derive(Debug)]
pub struct RecorderWorker {
    recorder: Recorder,
    lane: Arc<Mutex<Lane>>,
    worker: WorkerId,
    /// Tasks that run on this worker, the innermost last: a task that waits for a nested graph runs others meanwhile.
    started: Vec<(u64, Origin)>,
    ended: Option<u64>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lane")
    }
}

impl RecorderWorker {
    fn now(&self) -> u64 {
        // 584 years fit.
        self.recorder.0.zero.elapsed().as_nanos() as u64
    }
}

impl WorkerObserver for RecorderWorker {
    fn start(&mut self, _task: &TaskView, origin: Origin) {
        let now = self.now();
        if let Some(ended) = self.ended.take() {
            let mut lane = self.lane.lock();
            lane.totals.scheduling_ns += now - ended;
            lane.totals.turns += 1;
        }
        self.started.push((now, origin));
    }

    fn end(&mut self, task: &TaskView) {
        let now = self.now();
        let (start, origin) = self.started.pop().expect("a task that ends has started");
        let mut lane = self.lane.lock();
        lane.totals.count(origin);
        // A nested task's time is inside its waiting task's already.
        if self.started.is_empty() {
            lane.totals.busy_ns += now - start;
            self.ended = Some(now);
        }
        if (self.recorder.0.keep)(task) {
            lane.records.push(Record {
                view: *task,
                worker: self.worker,
                origin,
                start,
                end: now,
            });
        }
    }

    fn idle(&mut self) {
        self.ended = None;
    }
}
