//! What can be wrong with a trace.

use std::io;
use std::path::Path;

/// Why a trace cannot be read or written; its text is ready to be shown to a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line of a text trace is at fault.
    #[error("{file}:{line}: {what}")]
    Text {
        /// The file's name as it was given.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The content is at fault, and no line can be named: a binary trace, or one that a program is writing.
    #[error("{}{what}", prefix(file))]
    Content {
        /// The file's name as it was given; empty when there is none yet.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The file cannot be opened, read or written.
    #[error("{}{source}", prefix(file))]
    Io {
        /// The file's name as it was given.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// No task has the grouping that was asked for: wrong usage, where all others are faults of the input.
    #[error("{file}: no task has groups named `{name}`{}", offer(there))]
    NoGrouping {
        /// The file's name as it was given.
        file: String,
        /// The name that was asked for.
        name: String,
        /// Names that some task has.
        there: Vec<String>,
    },
}

fn prefix(file: &str) -> String {
    if file.is_empty() {
        String::new()
    } else {
        format!("{file}: ")
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
    /// Whether the caller asked for something that is not there, rather than the input being at fault (exit code 2, not 1).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoGrouping { .. })
    }

    /// A fault of the content at `line` of a text; line 0: no line is known.
    pub(crate) fn at(line: u64, what: impl Into<String>) -> Self {
        let (file, what) = (String::new(), what.into());
        if line == 0 {
            Self::Content { file, what }
        } else {
            Self::Text { file, line, what }
        }
    }

    /// A fault of the content of `file`.
    pub(crate) fn content(file: &str, what: impl Into<String>) -> Self {
        Self::Content {
            file: file.to_owned(),
            what: what.into(),
        }
    }

    /// An error of the system with `path`.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            file: path.display().to_string(),
            source,
        }
    }

    /// The same error of `name`, unless it has a file already.
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

/// An error of the system while something without a known name is read or written.
impl From<io::Error> for TraceError {
    fn from(source: io::Error) -> Self {
        Self::Io {
            file: String::new(),
            source,
        }
    }
}
