//! What can go wrong with a graph or a pool.

use std::fmt;

/// How many tasks a message names before it says "and N more".
const NAMED: usize = 8;

/// Names of a few tasks, for people.
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

    /// How many tasks there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The names of the first few of them.
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Nothing runs, nobody who could resolve a dependency is left, and these tasks still wait.
    #[error(
        "{} task(s) were never resolved: {tasks}; resolve what each was registered to wait for, or register it with a lower count",
        tasks.total()
    )]
    Unresolved {
        /// The tasks that wait.
        tasks: TaskNames,
    },
    /// These tasks wait for each other.
    #[error("these tasks wait for each other in a circle: {tasks}")]
    Cycle {
        /// The tasks of one cycle, in order.
        tasks: TaskNames,
    },
    /// A dependency was resolved that the task did not have.
    #[error(
        "a resolve too many of task {task}: it has no unresolved count left (count the resolves, or register it with a higher count)"
    )]
    SurplusResolve {
        /// The task, as far as it is still known.
        task: String,
    },
    /// The graph was cancelled.
    #[error("the graph was cancelled before all of its tasks had run")]
    Cancelled,
    /// All workers sleep although ready tasks are left: the policy lost them.
    #[error(
        "policy {policy} lost {lost} ready task(s): all workers sleep and the graph has not ended"
    )]
    PolicyLost {
        /// The policy's name.
        policy: String,
        /// How many ready tasks it swallowed, at least.
        lost: usize,
    },
    /// The pool belongs to the parent of this process.
    #[error(
        "this pool was made before fork(2) and has no workers in the child process; make a new pool in the child"
    )]
    Forked,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No registered policy has this name.
    #[error(transparent)]
    UnknownPolicy(#[from] tanada_policy::registry::UnknownPolicy),
    /// The policy cannot run natively.
    #[error(transparent)]
    NotNative(#[from] tanada_policy::registry::NotNative),
    /// The number of workers makes no sense.
    #[error("a pool has 1 to {max} workers, not {asked}")]
    Workers {
        /// What was asked for.
        asked: u32,
        /// The largest number that can be had.
        max: u16,
    },
    /// An environment variable holds something else than it should.
    #[error("{variable}={value} is not {wanted}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The machine could not be explored.
    #[error("cannot read this machine's topology: {0}")]
    Topology(String),
    /// The system gave no thread.
    #[error("cannot start worker {worker}: {source}; ask for fewer workers")]
    Thread {
        /// The worker that could not be started.
        worker: u16,
        /// What the system said.
        source: std::io::Error,
    },
}
