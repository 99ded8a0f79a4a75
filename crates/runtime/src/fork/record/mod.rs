//! What a program's forks cost and how parallel they are: work and span, by source line.
//!
//! A pool with a [`ForkRecorder`] keeps every fork (no `join` is plain), and measures the *strands*: what a worker runs from
//! one fork, end or wait to the next. While a closure runs, its [`Frame`] holds the longest path of strands to this point, from the
//! beginning of what a thread outside of the pool waits for. At a fork both closures go on from the path of the fork; where a
//! `join` ends, the longer of both paths goes on. So work and span are known at any time, and no strand has to be kept (He, Leiserson and
//! Leiserson, "The Cilkview scalability analyzer", SPAA 2010, have the idea; Schardl and others, "The Cilkprof scalability profiler",
//! SPAA 2015, attribute span to places in a program).
//!
//! Everything here is reached through one test of an `Option` where a fork is kept, a job runs or a worker waits. A plain `join` does not
//! come here: a pool that records has none.

#[allow(unsafe_code)]
mod exit;
mod lane;
mod path;
mod site;
mod write;

pub(super) use lane::{Forked, Running};
pub(crate) use lane::{Lane, PoolRecord, ScopeRecord, SpawnRecord};
pub use site::Place;

use crate::process::Process;
use lane::LaneData;
use parking_lot::Mutex;
use path::Path;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tanada_policy::WorkerId;

/// A lock is held for a shorter time, unless its holder is gone.
const LOCKED: Duration = Duration::from_millis(100);

/// Strands that a trace has at most: they take a gigabyte.
const MAX_STRANDS: u64 = 20_000_000;

/// Returns nanoseconds since the first call.
fn now() -> u64 {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    // 64 bits are enough for 584 years.
    ZERO.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// What a recorder keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Sums. Every fork is measured.
    All,
    /// Sums. A `join` may be plain, and is part of what is around it.
    Kept,
    /// Every strand, for a trace.
    Trace,
}

struct Shared {
    mode: Mode,
    /// What a strand of no length seems to take, in nanoseconds.
    cost: u64,
    home: Process,
    /// Pools that use or used this recorder.
    pools: Mutex<Vec<OfPool>>,
    /// The longest path that has ended, in the whole program.
    longest: Mutex<Path>,
    active: Mutex<Active>,
    /// The number of the last strand.
    strands: AtomicU64,
    began: u64,
}

struct OfPool {
    lanes: Vec<Arc<Lane>>,
    policy: String,
    user: Weak<()>,
}

/// When something ran in the pools.
#[derive(Default)]
struct Active {
    /// Regions and spawned closures that have begun or wait, and not ended.
    now: u64,
    since: u64,
    total: u64,
}

/// Measures the forks of the pools that [have](crate::PoolBuilder::record_forks) it: work and span by source line, steals, and which
/// worker ran what and when. Every `join` is measured, so none is a plain call: a fork costs some 650 ns more. It does not observe tasks of
/// graphs; a closure that runs a graph counts with its whole time.
///
/// ```
/// use tanada_runtime::{Pool, fork, fork::ForkRecorder};
///
/// let recorder = ForkRecorder::new();
/// let pool = Pool::builder().workers(2).record_forks(&recorder).build()?;
/// let sum = fork::install(&pool, || fork::join(|| (0..1000).sum::<u64>(), || (0..1000).product::<u64>()).0);
/// assert_eq!(sum, 499_500);
/// let profile = recorder.profile();
/// assert_eq!(profile.joins, 1);
/// assert!(profile.span_ns <= profile.work_ns);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ForkRecorder(Arc<Shared>);

// What it holds is changed under locks, in steps that do not panic.
impl UnwindSafe for ForkRecorder {}
impl RefUnwindSafe for ForkRecorder {}

impl std::fmt::Debug for ForkRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ForkRecorder").field(&self.0.mode).finish()
    }
}

impl Default for ForkRecorder {
    fn default() -> Self {
        Self::new()
    }
}

/// Work and span of the forks of a program, as far as it has run.
///
/// A strand is measured without the cost of reading the clock; one of less than some 30 ns is not measured well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkProfile {
    /// Nanoseconds in all strands.
    pub work_ns: u64,
    /// Nanoseconds in the longest path of strands that follow each other: regions that one thread waits for, one after the other, are one
    /// path.
    pub span_ns: u64,
    /// Nanoseconds in which something ran, or waited to run, in the pools.
    pub active_ns: u64,
    /// Nanoseconds since the recorder was made.
    pub wall_ns: u64,
    /// Workers that have run something.
    pub workers: u16,
    /// Joins that were measured.
    pub joins: u64,
    /// Jobs that workers ran: stolen forks, regions from outside, spawned closures, parts of broadcasts.
    pub jobs: u64,
    /// Jobs that came from outside of the pool.
    pub from_outside: u64,
    /// Jobs that a worker had queued itself.
    pub own: u64,
    /// Jobs that another worker had dealt out to the one that ran them, or parts of a broadcast.
    pub mail: u64,
    /// Jobs that were stolen, by victim and thief.
    pub steals: BTreeMap<(u16, u16), u64>,
    /// Nanoseconds in which workers ran jobs.
    pub busy_ns: u64,
    /// By name and line, those with most work first.
    pub places: Vec<OfPlace>,
}

/// What was measured at one place of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPlace {
    /// Where the closures were forked, spawned or installed.
    pub place: Place,
    /// Nanoseconds in strands of these closures.
    pub work_ns: u64,
    /// Nanoseconds of that on the longest path.
    pub span_ns: u64,
    /// Strands of these closures on the longest path.
    pub span_strands: u64,
    /// Joins there.
    pub joins: u64,
    /// Jobs from there that were stolen.
    pub stolen: u64,
}

impl ForkProfile {
    /// Returns the most nanoseconds that a greedy run on `workers` workers takes, if scheduling costs nothing: Brent's bound.
    pub fn bound_ns(&self, workers: u32) -> u64 {
        self.work_ns.saturating_sub(self.span_ns) / u64::from(workers.max(1)) + self.span_ns
    }
}

impl ForkRecorder {
    /// Returns a recorder of every `join`.
    pub fn new() -> Self {
        Self::with(Mode::All)
    }

    /// Returns a recorder of the forks that lie where thieves can take them, and of nothing else: a plain `join` stays as cheap as it is.
    /// What is in plain joins counts as one strand, so the span is an upper bound, which a busy pool overstates.
    pub fn kept() -> Self {
        Self::with(Mode::Kept)
    }

    /// Returns a recorder that keeps every strand, in 64 bytes each, for [`ForkRecorder::trace`].
    pub fn tracing() -> Self {
        Self::with(Mode::Trace)
    }

    fn with(mode: Mode) -> Self {
        static COST: OnceLock<u64> = OnceLock::new();
        Self::with_cost(mode, *COST.get_or_init(lane::cost))
    }

    fn with_cost(mode: Mode, cost: u64) -> Self {
        ForkRecorder(Arc::new(Shared {
            mode,
            cost,
            home: Process::this(),
            pools: Mutex::default(),
            longest: Mutex::default(),
            active: Mutex::default(),
            strands: AtomicU64::new(0),
            began: now(),
        }))
    }

    /// Returns what a pool of `workers` workers records into.
    pub(crate) fn pool(&self, policy: &str, workers: u16) -> PoolRecord {
        let user = Arc::new(());
        let mut pools = self.0.pools.lock();
        // Pools that come and go in turn are one in the report.
        let gone = pools.iter_mut().find(|pool| {
            pool.lanes.len() == usize::from(workers)
                && pool.policy == policy
                && pool.user.strong_count() == 0
        });
        if let Some(pool) = gone {
            pool.user = Arc::downgrade(&user);
            return PoolRecord::new(self.clone(), pool.lanes.clone(), user);
        }
        let base = pools.iter().map(|pool| pool.lanes.len()).sum::<usize>() as u16;
        let lane = |worker| Arc::new(Lane::new(self.clone(), base, WorkerId(worker)));
        let lanes: Vec<_> = (0..workers).map(lane).collect();
        pools.push(OfPool {
            lanes: lanes.clone(),
            policy: policy.to_owned(),
            user: Arc::downgrade(&user),
        });
        PoolRecord::new(self.clone(), lanes, user)
    }

    /// Returns whether a `join` may be plain.
    pub(crate) fn allows_plain(&self) -> bool {
        self.0.mode == Mode::Kept
    }

    /// Returns whether both are one.
    fn is(&self, other: &ForkRecorder) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn traces(&self) -> bool {
        self.0.mode == Mode::Trace
    }

    /// Returns `count` numbers of new strands, the first of them; 0 if no strand is kept.
    fn strands(&self, count: u64) -> u64 {
        match self.traces() {
            true => self.0.strands.fetch_add(count, Relaxed) + 1,
            false => 0,
        }
    }

    fn ended(&self, path: Path) {
        self.0.longest.lock().join(path);
    }

    fn begins(&self, jobs: u64) {
        let mut active = self.0.active.lock();
        if active.now == 0 {
            active.since = now();
        }
        active.now += jobs;
    }

    fn ends(&self) {
        let mut active = self.0.active.lock();
        active.now = active.now.saturating_sub(1);
        if active.now == 0 {
            active.total += now() - active.since;
        }
    }

    /// Calls `see` with what each lane has, and its number. In a child of `fork(2)` there is none.
    fn each_lane(&self, mut see: impl FnMut(u16, &LaneData)) {
        if !self.0.home.is_this() {
            return;
        }
        let Some(pools) = self.0.pools.try_lock_for(LOCKED) else {
            return;
        };
        for lane in pools.iter().flat_map(|pool| &pool.lanes) {
            if let Some(data) = lane.data.try_lock_for(LOCKED) {
                see(lane.number(), &data);
            }
        }
    }

    /// Returns what has been measured so far. What a closure that still runs has done since its last fork is missing.
    pub fn profile(&self) -> ForkProfile {
        let mut profile = ForkProfile {
            wall_ns: now() - self.0.began,
            ..ForkProfile::default()
        };
        if let Some(active) = self.0.active.try_lock_for(LOCKED) {
            let open = if active.now > 0 {
                now() - active.since
            } else {
                0
            };
            profile.active_ns = active.total + open;
        }
        let mut sums: BTreeMap<u32, lane::SiteSum> = BTreeMap::new();
        self.each_lane(|number, data| {
            profile.workers += u16::from(data.jobs > 0);
            profile.jobs += data.jobs;
            profile.busy_ns += data.busy_ns;
            profile.from_outside += data.from_outside;
            profile.own += data.own;
            profile.mail += data.mail;
            for (victim, count) in &data.steals {
                *profile.steals.entry((*victim, number)).or_default() += count;
            }
            for (site, sum) in data.sites.iter().enumerate() {
                sums.entry(site as u32).or_default().add(sum);
            }
        });
        let longest = self.0.longest.try_lock_for(LOCKED);
        let longest = longest.map(|longest| longest.clone()).unwrap_or_default();
        let places = site::places();
        let mut by_place: BTreeMap<Place, OfPlace> = BTreeMap::new();
        let mut at = |site: u32, change: &mut dyn FnMut(&mut OfPlace)| {
            let place = places.get(site as usize).unwrap_or(&places[0]);
            let entry = by_place.entry(place.clone()).or_insert_with(|| OfPlace {
                place: place.clone(),
                work_ns: 0,
                span_ns: 0,
                span_strands: 0,
                joins: 0,
                stolen: 0,
            });
            change(entry);
        };
        for (site, sum) in &sums {
            profile.joins += sum.joins;
            profile.work_ns += sum.work_ns;
            if *sum != lane::SiteSum::default() {
                at(*site, &mut |of| {
                    of.work_ns += sum.work_ns;
                    of.joins += sum.joins;
                    of.stolen += sum.stolen;
                });
            }
        }
        profile.span_ns = longest.ns;
        for part in &longest.parts {
            at(part.site, &mut |of| {
                of.span_ns += part.ns;
                of.span_strands += u64::from(part.strands);
            });
        }
        profile.places = by_place.into_values().collect();
        profile
            .places
            .sort_by_key(|of| std::cmp::Reverse(of.work_ns));
        profile
    }

    /// Returns the strands so far as a [trace](https://docs.rs/tanada-trace) in its text form: a task a strand, with its nanoseconds as
    /// cycles, and `fork` and `dep` edges as the program forked and joined. `None` unless the recorder is [tracing](Self::tracing), or if
    /// there were more than 20 million strands.
    ///
    /// Call it while nothing runs in the pools: strands that have not ended are missing, and so are the edges to them.
    pub fn trace(&self) -> Option<String> {
        if !self.traces() || self.0.strands.load(Relaxed) > MAX_STRANDS {
            return None;
        }
        let mut strands = Vec::new();
        self.each_lane(|_, data| strands.extend_from_slice(&data.strands));
        strands.sort_unstable_by_key(|strand| strand.number);
        let known: std::collections::HashSet<u64> = strands.iter().map(|one| one.number).collect();
        let places = site::places();
        let words: Vec<String> = places.iter().map(|place| word(&place.name)).collect();
        let mut text = String::with_capacity(strands.len() * 64);
        text.push_str("tanada-trace 1\n");
        for strand in &strands {
            let name = words.get(strand.site as usize).unwrap_or(&words[0]);
            let (number, depth) = (strand.number, strand.depth);
            let _ = writeln!(
                text,
                "task {number} depth={depth} name={name}\nx {}",
                strand.ns
            );
        }
        for strand in &strands {
            let edge = |kind, to: u64| (kind, to);
            let edges = match strand.next {
                lane::Next::Forks(first, second) => [edge("fork", first), edge("fork", second)],
                lane::Next::Joins(to) => [edge("dep", to), edge("dep", 0)],
            };
            for (kind, to) in edges.into_iter().filter(|(_, to)| known.contains(to)) {
                let _ = writeln!(text, "{kind} {} {to}", strand.number);
            }
        }
        Some(text)
    }
}

/// Returns a name as a word of a trace.
fn word(name: &str) -> String {
    let word = |c: char| match c {
        '#' | '=' => '_',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    name.chars().map(word).collect()
}
