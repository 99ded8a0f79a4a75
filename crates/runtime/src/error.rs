//! The errors of graphs and pools.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use tanada_policy::governors::UnknownGovernor;
use tanada_policy::governors::regions::UnknownRegionGovernor;
use tanada_policy::registry::{NotNative, UnknownPolicy};

/// The most tasks that a message names before it says "and N more".
const NAMED: usize = 8;

/// The number of tasks that an error is about, and the names of a few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskNames {
    pub(crate) first: Vec<String>,
    pub(crate) total: usize,
}

impl TaskNames {
    pub(crate) fn collect(names: impl Iterator<Item = String>) -> Self {
        let mut this = TaskNames::default();
        for name in names {
            if this.first.len() < NAMED {
                this.first.push(name);
            }
            this.total += 1;
        }
        this
    }

    /// Returns the number of tasks.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the names of the first few tasks.
    pub fn first(&self) -> &[String] {
        &self.first
    }
}

impl fmt::Display for TaskNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first.join(", "))?;
        if self.total > self.first.len() {
            write!(f, " and {} more", self.total - self.first.len())?;
        }
        Ok(())
    }
}

/// Why a graph did not run to its end.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// These tasks wait, no task runs, and nothing is left that could resolve a dependency.
    Unresolved {
        /// The tasks that wait.
        tasks: TaskNames,
    },
    /// These tasks wait for each other.
    Cycle {
        /// The tasks of one cycle, in order.
        tasks: TaskNames,
    },
    /// A task was resolved that had no unresolved count.
    SurplusResolve {
        /// The task, as far as it is still known.
        task: String,
    },
    /// The graph was cancelled.
    Cancelled,
    /// All workers sleep although ready tasks are left: the policy lost them. Found once no worker has run a task for some tenths of a
    /// second, so not while other graphs keep the pool at work.
    PolicyLost {
        /// The policy's name.
        policy: String,
        /// The number of lost tasks, at least.
        lost: usize,
    },
    /// The pool belongs to the parent of this process.
    Forked,
    /// Too little is left of the worker's stack for another graph inside of this one.
    TooDeep {
        /// The bytes of stack that each worker has.
        stack_size: usize,
    },
}

impl fmt::Debug for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Unresolved { tasks } => write!(
                f,
                "{} task(s) were never resolved: {tasks}; resolve what each was registered to wait for, or register it with a lower count",
                tasks.total()
            ),
            GraphError::Cycle { tasks } => {
                write!(f, "these tasks wait for each other in a circle: {tasks}")
            }
            GraphError::SurplusResolve { task } => write!(
                f,
                "a resolve too many of task {task}: it has no unresolved count left \
                 (count the resolves, or register it with a higher count)"
            ),
            GraphError::Cancelled => {
                f.write_str("the graph was cancelled before all of its tasks had run")
            }
            GraphError::PolicyLost { policy, lost } => write!(
                f,
                "policy {policy} lost {lost} ready task(s): all workers sleep and the graph has not ended"
            ),
            GraphError::TooDeep { stack_size } => write!(
                f,
                "graphs are nested too deep for the workers' stacks of {stack_size} bytes: nest fewer, or set PoolBuilder::stack_size"
            ),
            GraphError::Forked => f.write_str(
                "this pool was made before fork(2) and has no workers in the child process; make a new pool in the child",
            ),
        }
    }
}

impl Error for GraphError {}

/// Why a pool could not be made.
#[non_exhaustive]
pub enum BuildError {
    /// No registered policy has this name.
    UnknownPolicy(UnknownPolicy),
    /// The policy does not run on the native engine.
    NotNative(NotNative),
    /// No registered governor has this name.
    UnknownGovernor(UnknownGovernor),
    /// No registered governor of regions has this name.
    UnknownRegionGovernor(UnknownRegionGovernor),
    /// The governor decides by cache counters alone, and there are none.
    NeedsCounters {
        /// The governor's name.
        governor: &'static str,
        /// Why there are none.
        why: String,
    },
    /// The number of workers is out of range.
    Workers {
        /// The number that was asked for.
        asked: u32,
        /// The largest allowed number.
        max: u16,
    },
    /// An environment variable has a value that makes no sense.
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What its value should be.
        wanted: Cow<'static, str>,
    },
    /// The topology of this machine could not be read.
    Topology(String),
    /// The system could not start a thread.
    Thread {
        /// The worker whose thread could not be started.
        worker: u16,
        /// The system's error.
        source: std::io::Error,
    },
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::UnknownPolicy(error) => error.fmt(f),
            BuildError::NotNative(error) => error.fmt(f),
            BuildError::UnknownGovernor(error) => error.fmt(f),
            BuildError::UnknownRegionGovernor(error) => error.fmt(f),
            BuildError::NeedsCounters { governor, why } => write!(
                f,
                "governor \"{governor}\" decides by cache counters, and there are none: {why}"
            ),
            BuildError::Workers { asked, max } => {
                write!(f, "a pool has 1 to {max} workers, not {asked}")
            }
            BuildError::Environment {
                variable,
                value,
                wanted,
            } => write!(f, "{variable}={value} is not {wanted}"),
            BuildError::Topology(error) => {
                write!(f, "cannot read this machine's topology: {error}")
            }
            BuildError::Thread { worker, source } => write!(
                f,
                "cannot start worker {worker}: {source}; ask for fewer workers, or a smaller PoolBuilder::stack_size"
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Their messages are this error's message.
            BuildError::UnknownPolicy(error) => error.source(),
            BuildError::NotNative(error) => error.source(),
            BuildError::UnknownGovernor(error) => error.source(),
            BuildError::UnknownRegionGovernor(error) => error.source(),
            BuildError::Thread { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<UnknownPolicy> for BuildError {
    fn from(error: UnknownPolicy) -> Self {
        BuildError::UnknownPolicy(error)
    }
}

impl From<UnknownRegionGovernor> for BuildError {
    fn from(error: UnknownRegionGovernor) -> Self {
        BuildError::UnknownRegionGovernor(error)
    }
}

impl From<NotNative> for BuildError {
    fn from(error: NotNative) -> Self {
        BuildError::NotNative(error)
    }
}
