//! What a workload is: everything that commands, benches and tests know of one.

use crate::h264::StreamError;
use crate::options::{OptionSpec, Purpose, Values};
use crate::record::Recorded;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_runtime::{Cancel, GraphError, Pool};
use tanada_trace::{Sink, TraceError};

/// A program that can be run as tasks, without tasks, and as it would be written today.
///
/// A workload is one module that implements this trait, and one line in [`all`](crate::all); `docs/workloads.md` of the repository goes
/// through both. All commands, benches and tests then have it: none of them names a workload.
pub trait Workload: Sync {
    /// Returns what the workload is called and what it takes.
    fn description(&self) -> &'static Description;

    /// Returns [`Description::name`].
    fn name(&self) -> &'static str {
        self.description().name
    }

    /// Returns [`Description::options`].
    fn options(&self) -> &'static [OptionSpec] {
        self.description().options
    }

    /// Returns whether the workload's default groups make a run without a named policy take a policy that reads groups.
    fn prefers_groups(&self) -> bool {
        false
    }

    /// Returns whether its tasks are closures of nested forks: the runtime calls most of them without a task, and a recording has the
    /// pieces between their forks.
    fn forks(&self) -> bool {
        false
    }

    /// Reads the input, and builds and returns what all runs share: memory, graphs, templates. Untimed.
    ///
    /// # Errors
    /// See [`RunError`].
    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError>;

    /// Returns the recorder of the workload; `None`: it can be run, but not recorded, and comparisons have no simulated half.
    fn recorder(&self) -> Option<&dyn Recorder> {
        None
    }
}

/// What a workload is called, and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The name that every command knows: one word in lower case.
    pub name: &'static str,
    /// What the workload computes, in one line without a full stop.
    pub about: &'static str,
    /// A paragraph for `--help`; may be empty.
    pub details: &'static str,
    /// The workload's own options. Options that every workload has (policies, workers, repeats, outputs) come from the commands.
    pub options: &'static [OptionSpec],
    /// Options for tests, as pairs of flag and value: a run takes milliseconds, and still has a few dozen tasks.
    pub test_options: &'static [(&'static str, &'static str)],
}

impl fmt::Debug for dyn Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workload").field(&self.name()).finish()
    }
}

/// A workload with its input in memory, ready to be run any number of times. After an error of the kind
/// [`PolicyLost`](tanada_runtime::GraphError::PolicyLost), which only a faulty policy causes, it must be prepared anew.
pub trait Prepared: Send {
    /// Returns the name of the runs in a heading: `H.264 decoding`.
    fn title(&self) -> String;

    /// Returns what the runs work on: a file, or its sizes.
    fn input(&self) -> String;

    /// Brings the memory into the state that a run begins with. Called before every run, untimed.
    ///
    /// # Errors
    /// Returns a [`RunError`].
    fn set_up(&mut self, _way: Way<'_>, _cancel: &Cancel) -> Result<(), RunError> {
        Ok(())
    }

    /// Does the whole work once, in one of three ways that compute the same bits. Timed.
    ///
    /// `output` is for workloads that cannot keep their result: these write it there while they run. All others leave it alone and write
    /// in [`result`](Self::result). `None`: the bytes are not wanted.
    ///
    /// # Errors
    /// Returns a [`RunError`]; once `cancel` is cancelled, [`GraphError::Cancelled`] within some milliseconds.
    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        output: Option<&mut dyn Output>,
    ) -> Result<(), RunError>;

    /// Writes the result of the last run to `output`, for `-o FILE`, checksums and comparisons. Untimed. Empty for a workload that has
    /// written it in [`run`](Self::run).
    fn result(&mut self, output: &mut dyn Output) {
        let _ = output;
    }

    /// Returns the name of a part of the result, in the singular; see [`Output::begin`].
    fn part(&self) -> &'static str {
        "part"
    }

    /// Returns what the last run found besides its result, as text: compared with what the run without tasks found.
    fn found(&self) -> String {
        String::new()
    }

    /// Returns what a report says of the last run.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns what is wrong with the input although a result came out; `None`: nothing.
    fn flaws(&self) -> Option<Flaws> {
        None
    }

    /// Returns a counter of steps that another thread may read while a run goes on.
    fn done(&self) -> Done;

    /// Returns the number of steps of one run, if it is known before.
    fn steps(&self) -> Option<u64> {
        None
    }

    /// Returns the name of a step, in the plural.
    fn step(&self) -> &'static str {
        "steps"
    }

    /// Returns the phase (a picture, a sweep) that a chart of a run shows, once a run without tasks has ended; `None`: its middle.
    fn phase(&self) -> Option<Phase> {
        None
    }

    /// Returns the options of the recording that a comparison simulates, as pairs of flag and value, besides [`Values::small_recording`].
    fn recorded_part(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// How a run does its work.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// On this thread, without tasks: the reference for results and speed.
    Sequential,
    /// As programs are written today: parallel loops over blocks, with a barrier behind each loop ([`Loops`](crate::loops::Loops)).
    Today(&'a Pool),
    /// As tasks with dependencies and groups.
    Tasks(&'a Pool),
}

/// Where the bytes of a result go: a file, a checksum, a comparison.
pub trait Output: Send {
    /// Begins the next part of the result, for instance a frame or a row: a difference is reported by part. Bytes that are written before
    /// any part was begun are one part.
    fn begin(&mut self) {}

    /// Takes further bytes of the part.
    fn write(&mut self, bytes: &[u8]);

    /// Returns whether an earlier write failed, so that further bytes are of no use.
    fn is_broken(&self) -> bool {
        false
    }
}

/// The machine that a workload is cut for: this one, or one to be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// Workers, or cores; at least 1.
    pub workers: u16,
    /// Bytes of cache that each worker can count on for itself, if known.
    pub own_cache: Option<u64>,
    /// Bytes of its level-1 data cache, if known.
    pub l1d: Option<u64>,
    /// Bytes of memory that can be allocated without swapping, if known.
    pub free_memory: Option<u64>,
}

impl Site {
    /// Returns a machine of `workers` workers, of which nothing else is known.
    pub fn new(workers: u16) -> Site {
        Site {
            workers: workers.max(1),
            own_cache: None,
            l1d: None,
            free_memory: None,
        }
    }

    /// Returns an error if the work takes more than the free memory: the system would end this process, or another.
    ///
    /// # Errors
    /// Returns [`RunError::Input`] with both figures and `advice`.
    pub fn require_memory(&self, bytes: u64, advice: &str) -> Result<(), RunError> {
        let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match self.free_memory {
            Some(free) if bytes > free => Err(RunError::Input(format!(
                "this takes {:.1} GB of memory and {:.1} are free; {advice}",
                gigabytes(bytes),
                gigabytes(free)
            ))),
            _ => Ok(()),
        }
    }
}

/// Why a workload cannot be prepared, or a run came to no result.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The tasks did not run to their end, or [`Cancel`] stopped them.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The input is at fault.
    #[error("{0}")]
    Input(String),
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RunError {
    /// Returns the error of memory that the system does not give in one piece, although so much was free: it is limited in another way, or
    /// was taken meanwhile. `bytes` is `None` if it would be larger than an address space.
    pub(crate) fn no_memory(bytes: Option<usize>) -> RunError {
        let size = bytes.map_or_else(
            || "more memory than there are addresses".to_owned(),
            |bytes| {
                format!(
                    "{:.1} GB of memory in one piece",
                    bytes as f64 / f64::from(1 << 30)
                )
            },
        );
        RunError::Input(format!(
            "this takes {size}, which the system does not give; choose a smaller --size"
        ))
    }

    /// Returns whether [`Cancel`] stopped the run.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RunError::Graph(GraphError::Cancelled))
    }
}

/// What a report says of a run; see the fields of the same names in `docs/report-schema.md`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Facts {
    /// Frames that came out.
    pub frames: Option<u64>,
    /// The pattern of the tasks' groups; empty: the workload has no groups.
    pub groups: &'static str,
    /// How the work is cut into tasks; empty: there is one way.
    pub cut: &'static str,
    /// Data of the tasks beside the caches.
    pub memory: Option<Memory>,
    /// Further counts, by name.
    pub extra: Vec<(&'static str, u64)>,
}

/// Bytes of data that tasks come back to, beside the cache that they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Data of all tasks.
    pub data: u64,
    /// Data of a T group that one worker comes back to.
    pub group: u64,
    /// The cache that a worker can count on for itself.
    pub own_cache: u64,
}

/// What is wrong with an input that gave a result all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaws {
    /// One line each.
    pub details: Vec<String>,
    /// All of them in one line.
    pub summary: String,
}

/// A phase of a run that a chart shows. The phase of a task is its [index](tanada_runtime::TaskBuilder::index) shifted right by 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The phase that is shown.
    pub number: u64,
    /// Phases before and after it that may run at the same time.
    pub around: u64,
    /// Names of its tasks that may run long before or after all others, and so do not stretch the chart.
    pub loose: &'static [&'static str],
    /// What tasks of other phases are called.
    pub others: &'static str,
    /// What a phase is called.
    pub noun: &'static str,
}

/// Returns the phase of a task with this index.
pub fn phase_of(index: u64) -> u64 {
    index >> 32
}

/// A counter of steps that other threads read while a run goes on.
#[derive(Clone, Debug, Default)]
pub struct Done(Arc<AtomicU64>);

impl Done {
    /// Counts a step.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of steps of all runs so far.
    pub fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Records a workload as a trace, which every policy can then be simulated with.
pub trait Recorder: Sync {
    /// Writes the tasks that a run with the same options has, with what each computes, reads and writes, to `sink`, and returns what was
    /// recorded.
    ///
    /// `values` are those of [`Purpose::Record`]; the tasks are cut for `site`. `seen` is called with the number of steps so far, and
    /// stops the recording by `Break`. The same values and site produce the same trace on every machine. The result of what is computed
    /// meanwhile goes nowhere.
    ///
    /// # Errors
    /// See [`RecordError`]; what `sink` has by then is no whole trace.
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError>;

    /// Returns the name of a step, in the plural.
    fn step(&self) -> &'static str {
        "tasks"
    }

    /// Returns the number of steps of a recording with these values, if it is known before.
    fn steps(&self, _values: &Values) -> Option<u64> {
        None
    }
}

/// Calls `seen` with the number of `tasks` that were recorded.
///
/// # Errors
/// Returns [`RecordError::Stopped`] if `seen` stops the recording.
pub(crate) fn go_on(
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    tasks: u32,
) -> Result<(), RecordError> {
    match seen(tasks.into()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(RecordError::Stopped),
    }
}

/// What a recording holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recording {
    /// The file that was read, or another name for where the input comes from; `None`: the options say all.
    pub source: Option<String>,
    /// Which part or size was recorded: `pictures 4 to 11`, `size=1024,sweeps=16`.
    pub extent: String,
    /// The pattern of the plain groups; empty: the tasks have none.
    pub groups: &'static str,
    /// How the work is cut; empty: there is one way.
    pub cut: &'static str,
    /// Frames that were recorded.
    pub frames: Option<u64>,
    /// Further counts for people, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// What the table of costs calls itself.
    pub costs: String,
    /// Tasks, dependencies and addresses.
    pub recorded: Recorded,
    /// The first phase, and the number of the first task of each; empty: phases are not known.
    pub phases: (u64, Vec<u32>),
    /// What is wrong with the input.
    pub flaws: Option<Flaws>,
}

/// Why nothing was recorded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The workload has no [`Recorder`].
    #[error("{name} can be run, but not recorded; what can be recorded: {}", there.join(", "))]
    NotRecordable {
        /// The workload.
        name: &'static str,
        /// The workloads that have one.
        there: Vec<&'static str>,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No picture of a stream could be decoded.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A stream ends before the first picture that was to be recorded.
    #[error(
        "the stream has {there} pictures, of which the first to be recorded is number {first} (they count from 0)"
    )]
    TooShort {
        /// Pictures of the stream.
        there: u64,
        /// The first that was asked for.
        first: u64,
    },
    /// The input is at fault in another way.
    #[error("{0}")]
    Input(String),
    /// The options are at fault.
    #[error("{0}")]
    Usage(String),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

impl fmt::Debug for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<RunError> for RecordError {
    fn from(error: RunError) -> RecordError {
        RecordError::Input(error.to_string())
    }
}

/// Returns what records `workload`.
///
/// # Errors
/// [`RecordError::NotRecordable`], which lists the workloads that can be recorded.
pub fn recorder_of(workload: &dyn Workload) -> Result<&dyn Recorder, RecordError> {
    workload
        .recorder()
        .ok_or_else(|| RecordError::NotRecordable {
            name: workload.name(),
            there: crate::recordable(),
        })
}

/// Returns the defaults of a workload's options for `purpose`.
pub fn values_of(workload: &dyn Workload, purpose: Purpose) -> Values {
    Values::new(workload.options(), purpose)
}
