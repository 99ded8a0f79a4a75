//! The types of the schema: what a report contains, in which units, and how events are stored in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::parts::{CacheUse, Limits, Reuse, Stalls};
use crate::profile::Profile;
use crate::threads::ThreadRun;

/// Name and version of the schema; the value of the key `schema` of every report.
pub const SCHEMA: &str = "tanada-report 1";

/// The policy of the plain program without tasks, on one thread, with which the others are compared.
pub const SEQUENTIAL: &str = "sequential";

/// The policy of the program as it is written today: parallel loops with a barrier after each.
pub const TODAY: &str = "today";

/// The policy that ratios refer to: one queue for all workers, the simplest dispatcher, and paper 1's baseline.
pub const BASELINE: &str = "fcfs";

/// What drives the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Threads of this machine.
    #[default]
    Native,
    /// The simulator.
    Simulated,
}

impl Engine {
    /// Returns the word for what runs its tasks: a native engine has workers, a simulated machine has cores.
    pub fn worker_word(self) -> &'static str {
        match self {
            Engine::Native => "worker",
            Engine::Simulated => "core",
        }
    }
}

/// Unit of every time in a [`Timeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds of wall-clock time (native engine).
    #[default]
    Ns,
    /// Cycles of the simulated machine.
    Cycles,
}

impl Unit {
    /// Returns the unit as in JSON and behind a number: `ns` or `cycles`.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Cycles => "cycles",
        }
    }
}

/// The place from which a worker got a task (`From` of the seam between policies and engines).
///
/// In JSON an origin is one number: 0 handed, 1 own, 2 pool, 3 mailbox, 4 + victim for a stolen task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub enum Origin {
    /// Passed directly by the task that released it, without a queue.
    Handed,
    /// The worker's own queue.
    Own,
    /// A pool that all workers share.
    Pool,
    /// The worker's mailbox.
    Mailbox,
    /// The queue of another worker, the victim.
    Stolen(u16),
}

impl Origin {
    /// Returns the number of this origin in JSON.
    pub fn code(self) -> u32 {
        match self {
            Origin::Handed => 0,
            Origin::Own => 1,
            Origin::Pool => 2,
            Origin::Mailbox => 3,
            Origin::Stolen(victim) => 4 + u32::from(victim),
        }
    }

    /// Returns the kind as a word: `handed`, `own`, `pool`, `mailbox` or `stolen`.
    pub fn kind(self) -> &'static str {
        ["handed", "own", "pool", "mailbox", "stolen"][self.code().min(4) as usize]
    }
}

impl From<Origin> for u32 {
    fn from(origin: Origin) -> u32 {
        origin.code()
    }
}

impl TryFrom<u32> for Origin {
    type Error = String;

    fn try_from(code: u32) -> Result<Origin, String> {
        Ok(match code {
            0 => Origin::Handed,
            1 => Origin::Own,
            2 => Origin::Pool,
            3 => Origin::Mailbox,
            _ => Origin::Stolen(
                u16::try_from(code - 4)
                    .map_err(|_| format!("origin {code} is not 0 to 3 or 4 + a worker"))?,
            ),
        })
    }
}

/// Defines [`Event`] by its members, and [`Events`] with a column for each of them.
macro_rules! events {
    ($($(#[$doc:meta])* $column:ident: $type:ty,)*) => {
        /// One executed task: the worker, the time, and the place from which the worker got the task.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct Event {
            $($(#[$doc])* pub $column: $type,)*
        }

        /// The events of a timeline, stored by column: each field is one array, so that a hundred thousand events are a few megabytes of
        /// JSON and no key is repeated. All columns have the same length.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Events {
            $(pub(crate) $column: Vec<$type>,)*
        }

        impl Events {
            /// Appends one event. Events may come in any order.
            pub fn push(&mut self, event: Event) {
                $(self.$column.push(event.$column);)*
            }

            /// Returns the event at `index`, in order of [`Events::push`]; `None` behind the last one.
            pub fn get(&self, index: usize) -> Option<Event> {
                Some(Event { $($column: *self.$column.get(index)?,)* })
            }

            /// Returns the names and lengths of the columns, which the check compares.
            pub(crate) fn column_lengths(&self) -> [(&'static str, usize); 8] {
                [$((stringify!($column), self.$column.len()),)*]
            }
        }
    };
}

events! {
    /// Worker that ran the task, counted from 0.
    worker: u16,
    /// Number of the task in its graph.
    task: u64,
    /// The task's name (for instance its stage) as an index into [`Timeline::names`].
    name: u32,
    /// T group; 0 is the exception group.
    t: u32,
    /// S group; 0 is the exception group.
    s: u32,
    /// The start in the timeline's unit, from the timeline's beginning.
    start: u64,
    /// The end; not before `start`.
    end: u64,
    /// The place from which the worker got the task.
    origin: Origin,
}

impl Events {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.worker.len()
    }

    /// Returns whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.worker.is_empty()
    }

    /// Returns all events in order of [`Events::push`].
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Extend<Event> for Events {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Events {
        let mut all = Events::default();
        all.extend(events);
        all
    }
}

/// Which worker ran which task and when, in one part of a run (for video: one picture).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Heading above the chart.
    pub label: String,
    /// Name of the dispatcher.
    pub policy: String,
    /// The engine that ran it.
    #[serde(default)]
    pub engine: Engine,
    /// Unit of `start` and `end`.
    pub unit: Unit,
    /// Number of workers, including those that ran nothing.
    pub workers: u16,
    /// Number of the picture in decoding order, from 0, if the workload has pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<u64>,
    /// Names that events refer to by index.
    pub names: Vec<String>,
    /// The events, by column.
    pub events: Events,
}

impl Timeline {
    /// Returns an empty timeline of the native engine.
    pub fn new(label: &str, policy: &str, unit: Unit, workers: u16) -> Timeline {
        Timeline {
            label: label.to_owned(),
            policy: policy.to_owned(),
            unit,
            workers,
            ..Timeline::default()
        }
    }

    /// Returns the index of `name` in [`Timeline::names`], to which it is added if it is new. Costs a search through all names: call it
    /// once a stage, not once a task.
    ///
    /// # Panics
    /// If there are 2^32 names already.
    pub fn intern(&mut self, name: &str) -> u32 {
        let index = self
            .names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
        u32::try_from(index).expect("fewer than 2^32 names")
    }

    /// Returns the earliest start and the latest end; `None` without events. Costs a pass over all events.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((
            *self.events.start.iter().min()?,
            *self.events.end.iter().max()?,
        ))
    }
}

/// Wall-clock times of the repeats of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// Shortest repeat, in seconds.
    pub min: f64,
    /// Median of the repeats, in seconds.
    pub median: f64,
    /// Number of repeats.
    pub repeats: u32,
}

impl Seconds {
    /// Returns minimum and median of `repeats`, in seconds; `None` if there are none. The median of an even number is the mean of the
    /// middle two.
    pub fn of(repeats: &[f64]) -> Option<Seconds> {
        let mut sorted = repeats.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Seconds {
            min: sorted[0],
            median,
            repeats: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        })
    }
}

/// The number of tasks by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginCounts {
    /// Tasks that were passed on without a queue.
    pub handed: u64,
    /// Tasks from the worker's own queue.
    pub own: u64,
    /// Tasks from a pool that all workers share.
    pub pool: u64,
    /// Tasks from the worker's mailbox.
    pub mailbox: u64,
    /// Tasks from another worker's queue.
    pub stolen: u64,
}

impl OriginCounts {
    /// Counts one task.
    pub fn add(&mut self, origin: Origin) {
        match origin {
            Origin::Handed => self.handed += 1,
            Origin::Own => self.own += 1,
            Origin::Pool => self.pool += 1,
            Origin::Mailbox => self.mailbox += 1,
            Origin::Stolen(_) => self.stolen += 1,
        }
    }

    /// Returns the number of all tasks.
    pub fn total(&self) -> u64 {
        self.handed + self.own + self.pool + self.mailbox + self.stolen
    }
}

/// The result of one workload under one policy. Values that a run did not measure are absent, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Name of the workload, for instance `h264`.
    pub workload: String,
    /// The input: a file name or the workload's parameters.
    pub input: String,
    /// The engine that ran it.
    pub engine: Engine,
    /// Name of the machine: the host's CPU model, or the simulated machine.
    pub machine: String,
    /// Name of the dispatcher.
    pub policy: String,
    /// Workers, or simulated cores.
    pub workers: u16,
    /// Groups that the tasks carried: `default`, `none`, or another pattern of the workload; empty: there are none.
    pub groups: String,
    /// Whether the dispatcher looks at groups.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub honours_groups: bool,
    /// The workload's data in relation to the caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How the work was cut into tasks: `default`, `row`, `macroblock`, `paper`; empty: there is one way.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tasks_mode: String,
    /// Times of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Seconds>,
    /// Makespan in cycles of the simulated machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Number of frames delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Frames a second of the shortest repeat, which the rest of the machine disturbed least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Speed relative to [`BASELINE`] with the same settings: 1.5 is 50% faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_fcfs: Option<f64>,
    /// Tasks of one repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Mean length of a task, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_task_ns: Option<f64>,
    /// Scheduling cost of a task (time of busy workers outside of tasks), in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_ns_per_task: Option<f64>,
    /// Mean length of a task, in cycles of the simulated machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_task_cycles: Option<f64>,
    /// Scheduling cost of a task, in cycles of the simulated machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_cycles_per_task: Option<f64>,
    /// Time in tasks divided by workers x makespan, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Tasks that workers took from other workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steals: Option<u64>,
    /// The number of tasks by origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origins: Option<OriginCounts>,
    /// Work and span of the recorded tasks, and what lies on the longest path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Whether the output equals the sequential reference bit by bit; absent if it was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identical: Option<bool>,
    /// The time that no schedule can beat, in the unit of the run (seconds or cycles).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// The run's time divided by `bound`: 1 is perfect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ratio: Option<f64>,
    /// The limits; `bound` is the greatest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Where the time of each worker went, one entry a worker; empty if it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stalls>,
    /// Accesses and misses of each level and kind of cache, from the first level on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheUse>,
    /// Lines written back, summed over all caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writebacks: Option<u64>,
    /// Reuse distances of the cache lines on each worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reuse: Vec<Reuse>,
    /// What a run of logical threads under a governor measured; absent of runs of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadRun>,
    /// Further measurements of an engine, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, serde_json::Value>,
}

/// A workload's data and the caches that hold it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Data that the tasks reuse.
    pub data: u64,
    /// Data of a T group that one worker reuses.
    pub group: u64,
    /// The cache that a worker has for itself.
    pub own_cache: u64,
}

impl RunResult {
    /// Returns a native run without measurements.
    pub fn new(workload: &str, input: &str, policy: &str, workers: u16) -> RunResult {
        RunResult {
            workload: workload.to_owned(),
            input: input.to_owned(),
            policy: policy.to_owned(),
            workers,
            ..RunResult::default()
        }
    }

    /// Returns the word for one of its `workers`.
    pub fn worker_word(&self) -> &'static str {
        match self.threads {
            Some(_) => "hardware thread",
            None => self.engine.worker_word(),
        }
    }
}

/// What the runs of a report show about one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The claim in a word or two, for instance `right`.
    pub claim: String,
    /// One sentence.
    pub text: String,
    /// How the sentence follows from the runs, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Whether results differ that must not, which the reader must not overlook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alarm: bool,
}

/// The whole result of one command, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Always [`SCHEMA`] in a report that this version writes.
    pub schema: String,
    /// Heading.
    pub title: String,
    /// The command line that made the report, with which a reader can repeat it.
    pub command: String,
    /// Summary of the machine and its topology; for native runs the host.
    pub machine: String,
    /// What the runs show, a sentence for each claim; empty: readers conclude from the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// One result for each policy (and engine).
    pub runs: Vec<RunResult>,
    /// The pictures with Gantt charts.
    pub timelines: Vec<Timeline>,
}

impl Report {
    /// Returns an empty report of this version.
    pub fn new(title: &str) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            title: title.to_owned(),
            command: String::new(),
            machine: String::new(),
            verdicts: Vec::new(),
            runs: Vec::new(),
            timelines: Vec::new(),
        }
    }
}
