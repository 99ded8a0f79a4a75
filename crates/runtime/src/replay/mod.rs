//! Replays: runs of several workers in an order that a seed determines, or that decisions of an earlier run say.
//!
//! A schedule (`turns.rs`) lets one worker at a time take a step. The engine knows it as little as it can: waiting goes through
//! `parking.rs`, what graphs do is reported by an observer (`Steps`), and what a worker does between two tasks is behind
//! the comparison that it makes there anyway (`PoolShared::is_disturbed`). So a pool without a schedule runs the same instructions as if
//! there were none.

mod bell;
pub(crate) mod blocked;
mod decisions;
mod follow;
mod turns;

pub use decisions::{Decisions, Start};
pub(crate) use follow::{Follow, FollowNested};
pub(crate) use turns::{Actor, Entered, Turns, actor};

use crate::error::BuildError;
use crate::graph::GraphObserver;
use crate::worker;
use decisions::Log;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use turns::Mode;

/// How the workers of pools take turns, so that a run can be repeated: see [`PoolBuilder::replay`](crate::PoolBuilder::replay).
///
/// A clone is another handle to the same schedule. Pools that have it take turns together, and so does each thread outside while it is in
/// a call of one of them ([`Pool::scope`](crate::Pool::scope), a run of a template, a broadcast, a region).
///
/// ```
/// use std::sync::Mutex;
/// use tanada_runtime::{Pool, Replay};
///
/// let run = |seed| {
///     let pool = Pool::builder().workers(4).replay(&Replay::seed(seed)).build()?;
///     let order = Mutex::new(Vec::new());
///     pool.scope(|s| {
///         for i in 0..8 {
///             let order = &order;
///             s.task("task").index(i).register(move |_| order.lock().unwrap().push(i));
///         }
///     })?;
///     Ok::<_, Box<dyn std::error::Error>>(order.into_inner()?)
/// };
/// assert_eq!(run(7)?, run(7)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What a seed determines
/// The order in which workers start tasks, and in which bodies go on after they have registered or resolved tasks or waited for a graph, a
/// broadcast, a region or a channel, if the program does the same in that order. One body runs at a time, so two bodies are never mixed
/// between two such points ([`Replay::point`] adds one). *Not* covered are threads of the program's own that are not in a call of a pool,
/// what they do to graphs (a [`Resolver`](crate::Resolver), a [`Cancel`](crate::Cancel)), messages of other processes, and time. Two
/// tasks that race by atomics or unsafe code within their bodies do not meet in the middle.
///
/// A body that waits for something which is no part of the schedule (a lock that another thread holds, a sleep) is named after a second,
/// on standard error and in [`Replay::departures`], and the others go on without it.
///
/// Governors decide by time, so pools with a schedule have none: all workers are active, and each region runs on all of them.
#[derive(Clone, Debug)]
pub struct Replay(Arc<Turns>);

impl Replay {
    /// Returns a schedule in which the random numbers of `seed` say who has the turn. Keeps its decisions: 40 bytes a task.
    pub fn seed(seed: u64) -> Replay {
        Replay(Turns::new(
            Mode::Seed(seed),
            Log::Memory(Decisions::default()),
        ))
    }

    /// Returns a schedule that follows the decisions of an earlier run as far as the program allows: each of its tasks starts on the same
    /// worker, in the same order. Tasks are known by pool, name and index; of several that are equal therein, the oldest is taken. The
    /// policy is not asked. If the program has no such task to start, the schedule has *diverged*, which [`Replay::departures`] says.
    pub fn follow(decisions: Decisions) -> Replay {
        Replay(Turns::new(
            Mode::Follow(Arc::new(decisions)),
            Log::Memory(Decisions::default()),
        ))
    }

    /// Returns no schedule: all workers run as they like, but what they decide is kept, in 40 bytes a task and under a lock.
    pub fn free() -> Replay {
        Replay(Turns::new(Mode::Free, Log::Memory(Decisions::default())))
    }

    /// Returns what the workers have decided so far. Empty if the environment has made the schedule.
    pub fn decisions(&self) -> Decisions {
        match &self.0.state.lock().log {
            Log::Memory(decisions) => decisions.clone(),
            Log::Nowhere | Log::File(_) => Decisions::default(),
        }
    }

    /// Returns what was not as the seed or the decisions say, in sentences: which task blocked on something outside of the schedule, where
    /// the run diverged.
    pub fn departures(&self) -> Vec<String> {
        self.0.state.lock().departures.clone()
    }

    /// Lets another worker have the turn, if this thread is part of a schedule; does nothing otherwise. For bodies whose parts may be mixed
    /// with those of other tasks, because they go by atomics or locks.
    pub fn point() {
        if let Some(actor) = actor() {
            actor.point();
        }
    }

    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.0
    }
}

/// The seed of a schedule.
const SEED: &str = "TANADA_SEED";

/// The file to which decisions are written.
const DECISIONS: &str = "TANADA_DECISIONS";

/// The file whose decisions are followed.
const FOLLOW: &str = "TANADA_FOLLOW";

/// Returns the schedule that the environment asks for, one for each thread that makes pools: tests run side by side.
pub(crate) fn of_environment() -> Result<Option<Replay>, BuildError> {
    thread_local! {
        static MADE: RefCell<Option<Replay>> = const { RefCell::new(None) };
    }
    let [seed, decisions, follow] = [SEED, DECISIONS, FOLLOW].map(std::env::var_os);
    if seed.is_none() && decisions.is_none() && follow.is_none() {
        return Ok(None);
    }
    // A pool that a task makes is part of the task's schedule.
    let of_task = worker::with_any(|worker| {
        let schedule = worker.and_then(|worker| worker.pool().schedule.as_ref());
        schedule.map(|schedule| Arc::clone(schedule.turns()))
    });
    if let Some(turns) = of_task.or_else(|| actor().map(|actor| actor.turns())) {
        return Ok(Some(Replay(turns)));
    }
    MADE.with_borrow_mut(|made| {
        if !made.as_ref().is_some_and(|replay| replay.0.is_ours()) {
            *made = Some(make(seed, decisions, follow)?);
        }
        Ok(made.clone())
    })
}

fn make(
    seed: Option<OsString>,
    decisions: Option<OsString>,
    follow: Option<OsString>,
) -> Result<Replay, BuildError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let wrong = |variable, value: &OsString, wanted: String| BuildError::Environment {
        variable,
        value: value.to_string_lossy().into_owned(),
        wanted: wanted.into(),
    };
    let mode = match (&seed, &follow) {
        (Some(seed), Some(_)) => {
            let wanted = format!("unset while {FOLLOW} is set");
            return Err(wrong(SEED, seed, wanted));
        }
        (Some(text), None) => {
            let seed = text.to_str().and_then(|text| text.trim().parse().ok());
            Mode::Seed(seed.ok_or_else(|| wrong(SEED, text, "a number".to_owned()))?)
        }
        (None, Some(file)) => {
            let read = Decisions::read(&numbered(file, number));
            let read = read
                .map_err(|error| wrong(FOLLOW, file, format!("a file of decisions ({error})")))?;
            Mode::Follow(Arc::new(read))
        }
        (None, None) => Mode::Free,
    };
    let log = match &decisions {
        Some(file) => Log::create(&numbered(file, number)).map_err(|error| {
            wrong(
                DECISIONS,
                file,
                format!("a file that can be written ({error})"),
            )
        })?,
        None => Log::Nowhere,
    };
    Ok(Replay(Turns::new(mode, log)))
}

/// Returns the file of the process' schedule `number`, counted from 0: of the first one the file itself. `%p` in the name is the number of
/// the process.
fn numbered(file: &OsString, number: u32) -> PathBuf {
    let mut name = match file.to_str() {
        Some(text) => text.replace("%p", &std::process::id().to_string()).into(),
        None => file.clone(),
    };
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// The observer of the graphs of pools whose workers take turns: what a body does to a graph is a point.
pub(crate) struct Steps;

/// The one [`Steps`].
pub(crate) static STEPS: Steps = Steps;

impl GraphObserver for Steps {
    fn acted(&self) {
        Replay::point();
    }
}
