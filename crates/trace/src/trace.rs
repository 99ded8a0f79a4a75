//! A trace in memory.

use std::path::Path;

use crate::blocks::{Block, Store};
use crate::container::MAGIC;
use crate::files::Input;
use crate::graph::Graph;
use crate::{Reader, TraceError, load};

/// One task of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The ID in the trace file: unique, and not the index.
    pub id: u32,
    /// T group of the selected grouping; 0 is the exception group.
    pub t: u32,
    /// S group of the selected grouping; 0 is the exception group.
    pub s: u32,
    /// Depth in the tree of forks.
    pub depth: u32,
    /// Index into [`Trace::names`]; `u32::MAX` if it has none.
    pub name: u32,
    /// Its dependency count before the run.
    pub waits: u32,
    /// The block in which its records begin.
    pub(crate) block: u32,
    /// The position in that block (see `codec`).
    pub(crate) offset: u32,
}

/// A dependency, seen from the task that is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edge(u32);

impl Edge {
    pub(crate) const fn new(to: u32, fork: bool) -> Self {
        Self(to << 1 | fork as u32)
    }

    /// Returns the index of the task that waits.
    #[must_use]
    pub const fn to(self) -> u32 {
        self.0 >> 1
    }

    /// Returns whether the waiting task is a child that is forked when the other task ends.
    #[must_use]
    pub const fn is_fork(self) -> bool {
        self.0 & 1 != 0
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.is_fork() { "fork" } else { "dep" };
        write!(f, "{word} {}", self.to())
    }
}

/// The grouping of a trace's tasks that a command uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// The groups of `T=` and `S=`.
    #[default]
    Plain,
    /// The groups of `T:NAME=` and `S:NAME=`; a task without them is in group 0.
    Named(String),
    /// All tasks are in group 0.
    None,
}

/// A task graph in memory, whose records stay compressed.
///
/// Takes at most 40 bytes for a task and a dependency together, and 12 for a hint. The compressed records stay in the file, or in memory if
/// they are few.
#[derive(Debug, Default)]
pub struct Trace {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    pub(crate) names: Vec<String>,
    pub(crate) groupings: Vec<String>,
    /// (task, name, value), by task; name and value are indices into `hint_words`.
    pub(crate) hints: Vec<(u32, u32, u32)>,
    pub(crate) hint_words: Vec<String>,
    pub(crate) records: u64,
    pub(crate) blocks: Vec<Block>,
    pub(crate) store: Store,
}

impl Trace {
    /// Reads and returns a trace of either form, recognised by its first bytes.
    ///
    /// A text is converted while it is read, at some ten million records a second. Of a binary trace only the graph is read, at some ten
    /// million tasks a second.
    ///
    /// # Errors
    /// The file cannot be read or is no valid trace, or no task has the grouping that `groups` names.
    pub fn open(path: &Path, groups: &Groups) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match Input::open(path)? {
            Input::Binary(store, length) => load::binary(store, length, &name, groups),
            Input::Text(text) => load::text(text, &name, groups),
        }
    }

    /// Reads and returns a trace of either form from memory; error messages call it `name`.
    ///
    /// # Errors
    /// The bytes are no valid trace, or no task has the grouping that `groups` names.
    pub fn parse(bytes: &[u8], name: &str, groups: &Groups) -> Result<Self, TraceError> {
        if !bytes.starts_with(&MAGIC) {
            return load::text(bytes, name, groups);
        }
        let store = Store::Memory(bytes.to_vec());
        load::binary(store, bytes.len() as u64, name, groups)
    }

    /// Returns the tasks in declaration order.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.graph.tasks
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.tasks.len()
    }

    /// Returns whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.tasks.is_empty()
    }

    /// Returns the distinct names of tasks.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the name of the task with index `task`; empty if it has none.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn name(&self, task: u32) -> &str {
        let name = self.graph.tasks[task as usize].name as usize;
        self.names.get(name).map_or("", |name| name)
    }

    /// Returns the tasks that wait for the task with index `task`: in declaration order of the dependencies, each pair once, at the place
    /// of its first dependency.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn successors(&self, task: u32) -> &[Edge] {
        let first = &self.graph.first_edge[task as usize..];
        &self.graph.edges[first[0] as usize..first[1] as usize]
    }

    /// Returns the names of the further groupings that occur.
    #[must_use]
    pub fn groupings(&self) -> &[String] {
        &self.groupings
    }

    /// Returns the value of the hint `h:NAME=VALUE` of the task with index `task`. Logarithmic in the number of hints.
    #[must_use]
    pub fn hint(&self, task: u32, name: &str) -> Option<&str> {
        let begin = self.hints.partition_point(|hint| hint.0 < task);
        let of_task = self.hints[begin..].iter().take_while(|hint| hint.0 == task);
        let word = |index: u32| &*self.hint_words[index as usize];
        let found = of_task.copied().find(|hint| word(hint.1) == name);
        found.map(|hint| word(hint.2))
    }

    /// Returns the number of records. For a binary file it is the footer's number, which a [`Reader`] has verified once it reached the end
    /// of all tasks.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns a reader of the records; each simulation has its own.
    ///
    /// # Errors
    /// None today.
    pub fn reader(&self) -> Result<Reader<'_>, TraceError> {
        Ok(Reader::new(self))
    }
}
