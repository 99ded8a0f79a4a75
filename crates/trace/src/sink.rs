//! The interface through which traces are written.

use crate::{Record, TraceError};

/// A further grouping of a task: `T:NAME=t S:NAME=s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping<'a> {
    /// One word.
    pub name: &'a str,
    /// T group; 0 is the exception group.
    pub t: u32,
    /// S group; 0 is the exception group.
    pub s: u32,
}

/// A task that is being written; its records follow.
///
/// Names are words: not empty, without spaces, ASCII control characters and `#`. Names of groupings and hints have no `=` either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewTask<'a> {
    /// Unique in the trace.
    pub id: u32,
    /// Plain T group.
    pub t: u32,
    /// Plain S group.
    pub s: u32,
    /// Depth in the tree of forks.
    pub depth: u32,
    /// The name of this kind of task: a stage, a kernel.
    pub name: Option<&'a str>,
    /// Further groupings of the task, each name once.
    pub groupings: &'a [Grouping<'a>],
    /// Further hints as (name, value), each name once.
    pub hints: &'a [(&'a str, &'a str)],
}

/// Receives a trace item by item from recorders, importers and the text parser.
///
/// Records belong to the task that was added last. Edges may be added at any time, also between tasks that come later.
pub trait Sink {
    /// Starts a task.
    ///
    /// # Errors
    /// Returns an error if the ID exists already, a name is no word, or the file cannot be written.
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError>;

    /// Adds a record to the last task.
    ///
    /// # Errors
    /// Returns an error if there is no task yet, the record is not valid ([`Record::is_valid`]), or the file cannot be written.
    fn record(&mut self, record: Record) -> Result<(), TraceError>;

    /// Adds an edge: task `to` waits for task `from`, both by ID. If `fork`, `to` is a child that is forked when `from` ends.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. Unknown IDs and cycles are reported at the end.
    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError>;

    /// Sets the line of a text from which the next items come, for error messages.
    #[expect(unused_variables, reason = "the name of the parameter documents it")]
    fn at_line(&mut self, line: u64) {}
}

/// Returns whether `word` can stand in a line of text: as a value, or as a name (`equals` false: without `=`).
pub(crate) fn is_word(word: &str, equals: bool) -> bool {
    let good = |b: u8| b > b' ' && b != 0x7f && b != b'#' && (equals || b != b'=');
    !word.is_empty() && word.bytes().all(good)
}

/// Returns an error if the task's names could not be written as text.
pub(crate) fn check_task(task: &NewTask<'_>, line: u64) -> Result<(), TraceError> {
    let bad = |what: &str, word: &str| {
        let text = format!(
            "{what} `{}` of task {} is not a word: a word is not empty and has no spaces, control characters or `#`",
            word.escape_debug(),
            task.id
        );
        Err(TraceError::at(line, text))
    };
    let twice = |what: &str, name: &str| {
        let text = format!("task {} has the {what} `{name}` twice", task.id);
        Err(TraceError::at(line, text))
    };
    if let Some(name) = task.name.filter(|name| !is_word(name, true)) {
        return bad("the name", name);
    }
    for (i, grouping) in task.groupings.iter().enumerate() {
        if !is_word(grouping.name, false) {
            return bad("the grouping", grouping.name);
        }
        if task.groupings[..i].iter().any(|g| g.name == grouping.name) {
            return twice("grouping", grouping.name);
        }
    }
    for (i, (name, value)) in task.hints.iter().enumerate() {
        if !is_word(name, false) {
            return bad("the hint", name);
        }
        if !is_word(value, true) {
            return bad("the hint's value", value);
        }
        if task.hints[..i].iter().any(|hint| hint.0 == *name) {
            return twice("hint", name);
        }
    }
    Ok(())
}
