//! The errors of reading and writing traces.

use std::io;
use std::path::Path;

use crate::output::OutputError;

/// Why a trace cannot be read or written. The text is ready to be shown to a user and names the file and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line of a text trace is at fault.
    #[error("{file}:{line}: {what}")]
    Text {
        /// The file's name as the caller passed it.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The content is at fault, and there is no line to name: the trace is binary, or a program is writing it.
    #[error("{}{what}", prefix(file))]
    Content {
        /// The file's name as the caller passed it; empty if there is none yet.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The file cannot be opened, read or written.
    #[error("{}{source}", prefix(file))]
    Io {
        /// The file's name as the caller passed it.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// No task has the requested grouping: wrong usage, while all other errors are faults of the input.
    #[error("{file}: no task has groups named `{name}`{}", offer(there))]
    NoGrouping {
        /// The file's name as the caller passed it.
        file: String,
        /// The requested name.
        name: String,
        /// The groupings that exist.
        there: Vec<String>,
    },
}

impl std::fmt::Debug for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn prefix(file: &str) -> String {
    match file {
        "" => String::new(),
        file => format!("{file}: "),
    }
}

fn offer(there: &[String]) -> String {
    if there.is_empty() {
        "; this trace has only the plain ones (leave `--groups` out) and `none`".to_owned()
    } else {
        format!("; there are: {}, none", there.join(", "))
    }
}

impl TraceError {
    /// Returns whether the caller asked for something that does not exist (exit code 2) instead of the input being at fault (exit code 1).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoGrouping { .. })
    }

    /// Returns an error of the content at `line` of a text; 0 if no line is known.
    pub(crate) fn at(line: u64, what: impl Into<String>) -> Self {
        let (file, what) = (String::new(), what.into());
        if line == 0 {
            Self::Content { file, what }
        } else {
            Self::Text { file, line, what }
        }
    }

    /// Returns a system error with `path`.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            file: path.display().to_string(),
            source,
        }
    }

    /// Returns this error with the file name `name`, unless the error has one already.
    #[must_use]
    pub fn of_file(mut self, name: &str) -> Self {
        let (Self::Text { file, .. }
        | Self::Content { file, .. }
        | Self::Io { file, .. }
        | Self::NoGrouping { file, .. }) = &mut self;
        if file.is_empty() {
            name.clone_into(file);
        }
        self
    }
}

impl From<OutputError> for TraceError {
    fn from(error: OutputError) -> Self {
        let (file, what) = match error {
            OutputError::Unwritable { path, why } => (path, why),
            OutputError::Taken { .. } => (String::new(), error.to_string()),
        };
        Self::Content { file, what }
    }
}

/// A system error of a file whose name is not known here; [`TraceError::of_file`] adds it.
impl From<io::Error> for TraceError {
    fn from(source: io::Error) -> Self {
        Self::Io {
            file: String::new(),
            source,
        }
    }
}
