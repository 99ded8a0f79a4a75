//! Errors of a simulation.

use crate::machine::MachineError;
use crate::parts::dispatching::Dispatching;
use std::fs::File;
use std::path::Path;
use tanada_policy::Dispatcher;
use tanada_policy::governors::UnknownGovernor;
use tanada_policy::registry::UnknownPolicy;
use tanada_trace::{NewTask, Record, Sink, Trace, TraceError, read_text};

/// The error of a simulation without a result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// There is no such dispatcher.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// There is no such governor.
    #[error(transparent)]
    Governor(#[from] UnknownGovernor),
    /// All logical threads of a thread trace that have not ended join each other.
    #[error("no thread can run: {waits}")]
    Deadlock {
        /// The first few, and what they wait for.
        waits: String,
    },
    /// A machine's `miss_cycles` or `hit_cycles` are too long for a thread trace.
    #[error("a cache takes {cycles} cycles; with thread traces it must be at most {most}")]
    TooSlow {
        /// The longest time.
        cycles: u64,
        /// The longest that is allowed.
        most: u64,
    },
    /// A program on a real-time kernel breaks one of its rules, or does not fit the machine.
    #[error("core {core}{}: {what}", of(*id))]
    Rtos {
        /// The core.
        core: usize,
        /// The number of the task or handler; `None`: the core as a whole.
        id: Option<u32>,
        /// The rule.
        what: String,
    },
    /// A run of a thread trace is longer than its clock can count.
    #[error("the clock would pass 2^62 ticks")]
    TooLong,
    /// A clock would pass 2^64-1.
    #[error("{place}the clock would pass 2^64-1 {}", within(*id, *record))]
    Overflow {
        /// File, line and a colon if they are known ([`SimError::locate`]), else empty.
        place: String,
        /// The task's ID.
        id: u32,
        /// The number of the record that overflows; `None` for the dispatch.
        record: Option<u64>,
    },
    /// No core is busy and tasks are left, because the policy never handed them out.
    #[error("policy {policy} left {left} tasks that no core was given: {first}")]
    Stuck {
        /// The policy, which is at fault.
        policy: String,
        /// The number of these tasks.
        left: usize,
        /// The IDs of the first few.
        first: String,
    },
    /// [`Options::watch`](crate::Options::watch) stopped the run.
    #[error("stopped")]
    Cancelled,
}

/// Returns the words that name a task or handler.
fn of(id: Option<u32>) -> String {
    id.map_or(String::new(), |id| format!(", {id}"))
}

impl std::fmt::Debug for SimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The most tasks that a message names.
const NAMED: usize = 5;

impl SimError {
    pub(crate) fn overflow(trace: &Trace, task: u32, record: impl Into<Option<u64>>) -> SimError {
        SimError::Overflow {
            place: String::new(),
            id: trace.tasks()[task as usize].id,
            record: record.into(),
        }
    }

    /// Returns this error with file and line if the error is about a record and `path` is a text trace, which is read again for this.
    #[must_use]
    pub fn locate(mut self, path: &Path) -> SimError {
        if let SimError::Overflow { place, id, record } = &mut self
            && let Some(line) = line_of(path, *id, record.unwrap_or(0))
        {
            *place = format!("{}:{line}: ", path.display());
        }
        self
    }

    /// Returns whether the message begins with file and line.
    #[must_use]
    pub fn is_located(&self) -> bool {
        matches!(self, SimError::Overflow { place, .. } if !place.is_empty())
    }

    pub(crate) fn stuck<D: Dispatcher>(
        policy: &str,
        trace: &Trace,
        dispatching: &Dispatching<'_, D>,
    ) -> SimError {
        let named = dispatching.not_given().take(NAMED).map(|task| {
            let id = trace.tasks()[task as usize].id;
            match trace.name(task) {
                "" => format!("task {id}"),
                name => format!("task {id} ({name})"),
            }
        });
        let mut first = named.collect::<Vec<_>>().join(", ");
        if dispatching.left() > NAMED {
            first += ", ...";
        }
        SimError::Stuck {
            policy: policy.to_owned(),
            left: dispatching.left(),
            first,
        }
    }
}

/// Returns the place of an error in a task.
fn within(id: u32, record: Option<u64>) -> String {
    match record {
        Some(record) => format!("at record {record} of task {id} (counted from 0)"),
        None => format!("at the dispatch of task {id}"),
    }
}

/// Returns the line of a record, or of its task if the task has fewer records. `None` if the file is no text trace.
fn line_of(path: &Path, id: u32, record: u64) -> Option<u64> {
    let mut finder = Finder {
        id,
        record,
        line: 0,
        inside: false,
        found: None,
    };
    // An error ends the search early.
    let _ = read_text(File::open(path).ok()?, "", &mut finder);
    finder.found
}

/// A sink that looks for the line of a record.
struct Finder {
    id: u32,
    /// Number of records of the task before it.
    record: u64,
    line: u64,
    inside: bool,
    found: Option<u64>,
}

impl Sink for Finder {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        self.inside = task.id == self.id;
        if self.inside {
            self.found = Some(self.line);
        }
        Ok(())
    }

    fn record(&mut self, _record: Record) -> Result<(), TraceError> {
        if self.inside {
            if self.record == 0 {
                self.found = Some(self.line);
                self.inside = false;
            }
            self.record = self.record.saturating_sub(1);
        }
        Ok(())
    }

    fn edge(&mut self, _from: u32, _to: u32, _fork: bool) -> Result<(), TraceError> {
        Ok(())
    }

    fn at_line(&mut self, line: u64) {
        self.line = line;
    }
}
