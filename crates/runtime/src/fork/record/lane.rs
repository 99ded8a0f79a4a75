//! What each worker records, and what is known of the closure that a thread runs.

use super::path::{Path, SiteId};
use super::{ForkRecorder, MAX_STRANDS, now, site};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use tanada_policy::{Origin, WorkerId};

/// Pieces of jobs that are kept of each worker, for a picture.
const MAX_EVENTS: usize = 20_000;

/// What follows a strand in a trace; 0: nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// Two strands: the closure that runs first, and what is left for others.
    Forks(u64, u64),
    /// The strand behind a join.
    Joins(u64),
}

/// A strand of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strand {
    pub(super) number: u64,
    pub(super) next: Next,
    pub(super) ns: u64,
    pub(super) site: SiteId,
    pub(super) depth: u32,
}

/// Sums over one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteSum {
    pub(super) work_ns: u64,
    pub(super) joins: u64,
    pub(super) stolen: u64,
}

impl SiteSum {
    pub(super) fn add(&mut self, other: &SiteSum) {
        self.work_ns += other.work_ns;
        self.joins += other.joins;
        self.stolen += other.stolen;
    }
}

/// A piece of a job: from its begin, or the end of a wait, to its end, or to a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) site: SiteId,
    /// The number of the job among those of the worker.
    pub(super) job: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) origin: Origin,
}

/// What a worker has recorded.
#[derive(Debug, Default)]
pub(super) struct LaneData {
    /// By the number of the site.
    pub(super) sites: Vec<SiteSum>,
    pub(super) jobs: u64,
    pub(super) busy_ns: u64,
    /// Stolen jobs by the number of the victim's lane.
    pub(super) steals: BTreeMap<u16, u64>,
    pub(super) from_outside: u64,
    pub(super) own: u64,
    pub(super) mail: u64,
    pub(super) pieces: Vec<Piece>,
    pub(super) pieces_left_out: u64,
    pub(super) strands: Vec<Strand>,
}

impl LaneData {
    fn site(&mut self, site: SiteId) -> &mut SiteSum {
        let at = site as usize;
        if at >= self.sites.len() {
            self.sites.resize(at + 1, SiteSum::default());
        }
        &mut self.sites[at]
    }
}

/// What one worker records into.
#[derive(Debug)]
pub(crate) struct Lane {
    recorder: ForkRecorder,
    /// The number of the first lane of the pool.
    base: u16,
    worker: WorkerId,
    pub(super) data: Mutex<LaneData>,
}

/// What a pool records into.
#[derive(Debug)]
pub(crate) struct PoolRecord {
    pub(crate) recorder: ForkRecorder,
    lanes: Vec<Arc<Lane>>,
    /// The pool uses the lanes as long as it lives.
    _user: Arc<()>,
}

impl PoolRecord {
    pub(super) fn new(recorder: ForkRecorder, lanes: Vec<Arc<Lane>>, user: Arc<()>) -> Self {
        PoolRecord {
            recorder,
            lanes,
            _user: user,
        }
    }

    /// Returns what worker `me` records into.
    pub(crate) fn lane(&self, me: WorkerId) -> Arc<Lane> {
        Arc::clone(&self.lanes[me.index()])
    }
}

/// A closure that a thread runs.
#[derive(Clone, Debug)]
struct Frame {
    /// Where the closure was forked.
    site: SiteId,
    /// Where the region or spawned closure around it began.
    root: SiteId,
    /// The longest path to the beginning of the strand that runs.
    path: Path,
    /// When that strand began.
    since: u64,
    /// Its number in a trace.
    strand: u64,
    depth: u32,
}

/// The job that a worker runs.
struct Burst {
    site: SiteId,
    job: u64,
    origin: Origin,
    /// When the piece began that runs now; `None` while the worker waits.
    since: Option<u64>,
}

/// The regions that a thread outside of the pools has waited for.
struct Chain {
    recorder: ForkRecorder,
    path: Path,
    /// The strand that follows the last region.
    next: u64,
}

thread_local! {
    static FRAME: RefCell<Option<Frame>> = const { RefCell::new(None) };
    static BURSTS: RefCell<Vec<Burst>> = const { RefCell::new(Vec::new()) };
    static CHAIN: RefCell<Option<Chain>> = const { RefCell::new(None) };
}

impl Chain {
    /// Returns that of this thread, among the regions that `recorder` measures.
    fn with<R>(recorder: &ForkRecorder, call: impl FnOnce(&mut Chain) -> R) -> R {
        CHAIN.with_borrow_mut(|chain| {
            let same = chain.take().filter(|chain| chain.recorder.is(recorder));
            call(chain.insert(same.unwrap_or_else(|| Chain {
                recorder: recorder.clone(),
                path: Path::default(),
                next: 0,
            })))
        })
    }
}

/// Returns when a measured thing begins. What was done before it is not part of it.
fn open() -> u64 {
    now()
}

impl Lane {
    pub(super) fn new(recorder: ForkRecorder, base: u16, worker: WorkerId) -> Self {
        Lane {
            recorder,
            base,
            worker,
            data: Mutex::default(),
        }
    }

    /// Returns the number of the lane among those of the recorder.
    pub(super) fn number(&self) -> u16 {
        self.base + self.worker.0
    }

    /// Ends the strand of `frame` at `at`, which `next` follows.
    fn close(&self, frame: &mut Frame, at: u64, next: Next) {
        let ns = at.saturating_sub(frame.since + self.recorder.0.cost);
        frame.path.add(frame.site, ns);
        let mut data = self.data.lock();
        data.site(frame.site).work_ns += ns;
        if frame.strand != 0 && frame.strand <= MAX_STRANDS {
            data.strands.push(Strand {
                number: frame.strand,
                next,
                ns,
                site: frame.site,
                depth: frame.depth,
            });
        }
    }

    /// A job begins on this worker, which got it from `origin`. The strand that runs, if one does, is interrupted.
    #[cold]
    pub(crate) fn job_begins(&self, origin: Origin) -> Interrupted {
        let at = now();
        let frame = FRAME.take().map(|mut frame| {
            // Its later part is a strand of its own.
            let next = self.recorder.strands(1);
            self.close(&mut frame, at, Next::Joins(next));
            frame.strand = next;
            frame
        });
        let running = self.pause();
        let mut data = self.data.lock();
        data.jobs += 1;
        let mut origin = origin;
        match &mut origin {
            Origin::Stolen(victim) => {
                // From here on, the number of its lane.
                victim.0 += self.base;
                *data.steals.entry(victim.0).or_default() += 1;
            }
            Origin::Own | Origin::Handed => data.own += 1,
            Origin::Pool => data.from_outside += 1,
            Origin::Mailbox => data.mail += 1,
        }
        let burst = Burst {
            site: 0,
            job: data.jobs,
            origin,
            since: Some(open()),
        };
        drop(data);
        BURSTS.with_borrow_mut(|bursts| bursts.push(burst));
        Interrupted { frame, running }
    }

    /// The job has ended that began last.
    #[cold]
    pub(crate) fn job_ends(&self, interrupted: Interrupted) {
        self.pause();
        BURSTS.with_borrow_mut(Vec::pop);
        if interrupted.running {
            self.resume();
        }
        FRAME.set(interrupted.frame.map(|frame| Frame {
            since: open(),
            ..frame
        }));
    }

    /// The worker begins to wait inside of its job, if it runs one. Returns whether it did not wait before.
    #[cold]
    pub(crate) fn pause(&self) -> bool {
        BURSTS.with_borrow_mut(|bursts| {
            let Some(burst) = bursts.last_mut() else {
                return false;
            };
            let Some(start) = burst.since.take() else {
                return false;
            };
            let end = now();
            let mut data = self.data.lock();
            data.busy_ns += end - start;
            if data.pieces.len() < MAX_EVENTS {
                data.pieces.push(Piece {
                    site: burst.site,
                    job: burst.job,
                    start,
                    end,
                    origin: burst.origin,
                });
            } else {
                data.pieces_left_out += 1;
            }
            true
        })
    }

    /// The worker goes on with its job.
    #[cold]
    pub(crate) fn resume(&self) {
        BURSTS.with_borrow_mut(|bursts| {
            if let Some(burst) = bursts.last_mut() {
                burst.since = Some(now());
            }
        });
    }

    /// A `join` on this worker forks a closure of the type `name`, by the code at `code`. Its first closure begins.
    #[cold]
    pub(crate) fn forks(self: &Arc<Self>, code: usize, name: &'static str) -> Box<Forked> {
        let at = now();
        let outer = FRAME.take();
        let root = outer.as_ref().map_or(0, |frame| frame.root);
        let site = site::of_code(code, name, root);
        let forked = Box::new(Forked::new(&self.recorder, Some(self), outer, at, site, 2));
        self.data.lock().site(site).joins += 1;
        forked.begin(forked.first);
        forked
    }

    /// The first closure of `forked` has ended.
    #[cold]
    pub(crate) fn first_ended(&self, forked: &Forked) {
        if let Some(path) = self.end(now(), forked.join) {
            *forked.first_path.borrow_mut() = path;
        }
    }

    /// Ends at `at` the closure that runs; `next` follows. Returns the path to its end.
    fn end(&self, at: u64, next: u64) -> Option<Path> {
        let mut frame = FRAME.take()?;
        self.close(&mut frame, at, Next::Joins(next));
        Some(frame.path)
    }
}

/// What a job has interrupted.
pub(crate) struct Interrupted {
    frame: Option<Frame>,
    /// Whether another job ran, and did not wait.
    running: bool,
}

/// A fork whose closures have not both ended, or a region that a thread waits for: that has a second closure only. When it is dropped, the
/// closure around it goes on.
pub(crate) struct Forked {
    /// Of a fork that no recorded closure has made, which is a path of its own. (Otherwise nothing is touched that workers share.)
    root_of: Option<ForkRecorder>,
    outer: Option<Frame>,
    site: SiteId,
    root: SiteId,
    depth: u32,
    /// Whether a thread outside of the pools waits for it.
    outside: bool,
    /// The path to the fork.
    path: Path,
    /// Numbers of strands: of both closures and of what follows.
    first: u64,
    second: u64,
    join: u64,
    first_path: RefCell<Path>,
    second_path: Mutex<Path>,
}

impl Forked {
    /// Returns a fork at `at` by the thread whose frame is `outer`, into `closures` closures.
    fn new(
        recorder: &ForkRecorder,
        lane: Option<&Arc<Lane>>,
        outer: Option<Frame>,
        at: u64,
        site: SiteId,
        closures: u64,
    ) -> Self {
        let first = recorder.strands(closures + 1);
        let (second, join) = match first {
            0 => (0, 0),
            _ => (first + closures - 1, first + closures),
        };
        let mut forked = Forked {
            root_of: None,
            outer,
            site,
            root: site,
            depth: 0,
            outside: false,
            path: Path::default(),
            first,
            second,
            join,
            first_path: RefCell::default(),
            second_path: Mutex::default(),
        };
        match (&mut forked.outer, lane) {
            (Some(frame), Some(lane)) => {
                lane.close(
                    frame,
                    at,
                    Next::Forks(first, if closures > 1 { second } else { 0 }),
                );
                forked.path = frame.path.clone();
                forked.depth = frame.depth + 1;
                forked.root = frame.root;
            }
            // A fork in a task of a graph, say.
            _ => {
                recorder.begins(1);
                forked.root_of = Some(recorder.clone());
            }
        }
        *forked.second_path.lock() = forked.path.clone();
        forked
    }

    /// Returns a region that this thread is about to wait for: a closure of the type `name`, by the code at `code`. `lane` is that of this
    /// thread, if it is a worker that records.
    #[cold]
    pub(crate) fn region(
        recorder: &ForkRecorder,
        lane: Option<&Arc<Lane>>,
        is_worker: bool,
        code: usize,
        name: &'static str,
    ) -> Box<Self> {
        let at = now();
        // What another recorder measures goes on meanwhile.
        let lane = lane.filter(|lane| lane.recorder.is(recorder));
        let outer = lane.and_then(|_| FRAME.take());
        let root = outer.as_ref().map_or(0, |frame| frame.root);
        let site = site::of_code(code, name, root);
        let mut forked = Forked::new(recorder, lane, outer, at, site, 1);
        if !is_worker {
            forked.outside = true;
            let (path, next) = Chain::with(recorder, |chain| (chain.path.clone(), chain.next));
            forked.path = path;
            *forked.second_path.lock() = forked.path.clone();
            if next != 0 {
                forked.second = next;
            }
        }
        Box::new(forked)
    }

    /// The calling thread begins a closure whose first strand is `strand`.
    fn begin(&self, strand: u64) {
        FRAME.set(Some(Frame {
            site: self.site,
            root: self.root,
            path: self.path.clone(),
            since: open(),
            strand,
            depth: self.depth,
        }));
    }

    /// The second closure begins on the worker of `lane`. It ends when the result is dropped.
    #[cold]
    pub(crate) fn second<'a>(&'a self, lane: Option<&'a Arc<Lane>>) -> Option<Running<'a>> {
        let lane = lane?;
        let outer = FRAME.take();
        name_job(self.site, lane);
        self.begin(self.second);
        Some(Running {
            lane,
            outer,
            next: self.join,
            ended: Ended::Fork(&self.second_path),
        })
    }
}

/// Says what the job is that this thread runs, if that is not known yet.
fn name_job(site: SiteId, lane: &Lane) {
    let stolen = BURSTS.with_borrow_mut(|bursts| {
        let burst = bursts.last_mut().filter(|burst| burst.site == 0)?;
        burst.site = site;
        Some(matches!(burst.origin, Origin::Stolen(_)))
    });
    if stolen == Some(true) {
        lane.data.lock().site(site).stolen += 1;
    }
}

impl Drop for Forked {
    /// Both closures have ended, on whatever way.
    fn drop(&mut self) {
        let mut path = std::mem::take(&mut *self.first_path.borrow_mut());
        path.join(std::mem::take(&mut *self.second_path.lock()));
        match self.outer.take() {
            Some(frame) => FRAME.set(Some(Frame {
                path,
                since: open(),
                strand: self.join,
                ..frame
            })),
            None => {
                let Some(recorder) = &self.root_of else {
                    return;
                };
                recorder.ends();
                if self.outside {
                    Chain::with(recorder, |chain| {
                        (chain.path, chain.next) = (path.clone(), self.join);
                    });
                }
                recorder.ended(path);
            }
        }
    }
}

/// Where the path to the end of a closure goes.
enum Ended<'a> {
    Fork(&'a Mutex<Path>),
    Scope(&'a ScopeRecord),
    Nowhere,
}

/// A closure that this thread runs. It ends when this is dropped.
pub(crate) struct Running<'a> {
    lane: &'a Arc<Lane>,
    outer: Option<Frame>,
    next: u64,
    ended: Ended<'a>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.lane.end(now(), self.next) {
            match self.ended {
                Ended::Fork(of) => of.lock().join(path),
                Ended::Scope(scope) => scope.path.lock().join(path),
                Ended::Nowhere => {
                    self.lane.recorder.ended(path);
                    self.lane.recorder.ends();
                }
            }
        }
        FRAME.set(self.outer.take());
    }
}

/// What is recorded of a scope.
#[derive(Debug)]
pub(crate) struct ScopeRecord {
    recorder: ForkRecorder,
    /// The longest path to the end of a closure.
    path: Mutex<Path>,
    /// The strand behind the scope.
    join: u64,
}

impl ScopeRecord {
    pub(crate) fn new(recorder: &ForkRecorder) -> Arc<Self> {
        recorder.begins(1);
        Arc::new(ScopeRecord {
            recorder: recorder.clone(),
            path: Mutex::default(),
            join: recorder.strands(1),
        })
    }

    /// This thread, that of `lane` if it is a worker, waits for the scope from now on.
    #[cold]
    pub(crate) fn waits(self: &Arc<Self>, lane: Option<&Lane>) -> Waits {
        let at = now();
        let lane = lane.filter(|lane| lane.recorder.is(&self.recorder));
        let frame = lane.and_then(|lane| Some((FRAME.take()?, lane)));
        let frame = frame.map(|(mut frame, lane)| {
            lane.close(&mut frame, at, Next::Joins(self.join));
            frame
        });
        Waits {
            scope: Arc::clone(self),
            frame,
            outside: lane.is_none(),
        }
    }
}

/// A thread waits for a scope until this is dropped.
pub(crate) struct Waits {
    scope: Arc<ScopeRecord>,
    frame: Option<Frame>,
    outside: bool,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let path = std::mem::take(&mut *self.scope.path.lock());
        match self.frame.take() {
            Some(mut frame) => {
                frame.path.join(path);
                frame.strand = self.scope.join;
                frame.since = open();
                FRAME.set(Some(frame));
            }
            None if self.outside => Chain::with(&self.scope.recorder, |chain| {
                chain.path.join(path);
                chain.next = self.scope.join;
            }),
            // In a task of a graph, say.
            None => self.scope.recorder.ended(path),
        }
        self.scope.recorder.ends();
    }
}

/// A closure that was spawned and has not begun, or a part of a broadcast.
#[derive(Debug)]
pub(crate) struct SpawnRecord {
    site: SiteId,
    path: Path,
    strand: u64,
    depth: u32,
    scope: Option<Arc<ScopeRecord>>,
}

impl SpawnRecord {
    /// This thread, that of `lane` if it is a worker, spawns a closure `times` times at `line`. Broadcasts are not traced.
    #[cold]
    pub(crate) fn new(
        recorder: &ForkRecorder,
        lane: Option<&Lane>,
        scope: Option<&Arc<ScopeRecord>>,
        line: &'static Location<'static>,
        name: &'static str,
        times: usize,
    ) -> Box<Self> {
        let at = now();
        let strand = if times == 1 { recorder.strands(2) } else { 0 };
        let site = site::of_line(line, name);
        if scope.is_none() {
            recorder.begins(times as u64);
        }
        let lane = lane.filter(|lane| lane.recorder.is(recorder));
        let (path, depth) = match lane.and_then(|lane| Some((FRAME.take()?, lane))) {
            Some((mut frame, lane)) => {
                let (next, then) = match strand {
                    0 => {
                        let then = recorder.strands(1);
                        (Next::Joins(then), then)
                    }
                    _ => (Next::Forks(strand, strand + 1), strand + 1),
                };
                lane.close(&mut frame, at, next);
                frame.strand = then;
                let spawned = (frame.path.clone(), frame.depth + 1);
                frame.since = open();
                FRAME.set(Some(frame));
                spawned
            }
            None => (Chain::with(recorder, |chain| chain.path.clone()), 0),
        };
        Box::new(SpawnRecord {
            site,
            path,
            strand,
            depth,
            scope: scope.cloned(),
        })
    }

    /// The closure begins on the worker of `lane`.
    #[cold]
    pub(crate) fn begins<'a>(&'a self, lane: Option<&'a Arc<Lane>>) -> Option<Running<'a>> {
        let lane = lane?;
        let outer = FRAME.take();
        name_job(self.site, lane);
        FRAME.set(Some(Frame {
            site: self.site,
            root: self.site,
            path: self.path.clone(),
            since: open(),
            strand: self.strand,
            depth: self.depth,
        }));
        let (next, ended) = match &self.scope {
            Some(scope) => (scope.join, Ended::Scope(scope)),
            None => (0, Ended::Nowhere),
        };
        Some(Running {
            lane,
            outer,
            next,
            ended,
        })
    }
}

/// Returns what a strand of no length seems to take, in nanoseconds: reading the clock, and the way to where it is read.
pub(super) fn cost() -> u64 {
    /// Forks of a batch.
    const BATCH: u64 = 100;
    let before = FRAME.take();
    let recorder = ForkRecorder::with_cost(super::Mode::All, 0);
    let lane = Arc::new(Lane::new(recorder, 0, WorkerId(0)));
    let around = lane.forks(cost as *const () as usize, "calibration");
    let batch = |_| {
        *lane.data.lock() = LaneData::default();
        for _ in 0..BATCH {
            let forked = lane.forks(cost as *const () as usize, "calibration");
            lane.first_ended(&forked);
            drop(forked.second(Some(&lane)));
        }
        let work: u64 = lane.data.lock().sites.iter().map(|sum| sum.work_ns).sum();
        work / (3 * BATCH)
    };
    let least = (0..20).map(batch).min();
    drop(around);
    FRAME.set(before);
    least.unwrap_or(0)
}
