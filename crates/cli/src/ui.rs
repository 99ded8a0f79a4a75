//! What all verbs share: how they fail, write, show progress and stop.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tanada_runtime::Cancel;

/// Why a verb did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input (or an output, or what was found) is at fault.
    Input(String),
    /// The command line is at fault in a way that its parser cannot see.
    Usage(String),
    /// Ctrl-C.
    Interrupted,
    /// Nobody reads standard output any more.
    Closed,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The exit code of an outcome, after saying on standard error what there is to say.
pub(crate) fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        // Who closes the pipe, as `head` does, has what it wanted.
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Input(message)) => {
            note(&format!("tanada: {message}"));
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            note(&format!("tanada: {message}"));
            ExitCode::from(2)
        }
        Err(Failure::Interrupted) => {
            note("tanada: stopped; unfinished files were removed");
            ExitCode::from(130)
        }
    }
}

/// A failure whose cause is the input, with what it happened to.
pub(crate) fn at_fault(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{what}: {why}"))
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(output_failed)
}

/// Writes a line to standard error; where nobody reads it, nothing is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// What an error on standard output means.
pub(crate) fn output_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::Closed
    } else {
        at_fault("standard output", error)
    }
}

/// A value as JSON on one line.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain data has a JSON form");
    format!("{text}\n")
}

/// Columns of the terminal, or 100 where there is none.
pub(crate) fn columns() -> usize {
    let stdout = rustix::stdio::stdout();
    match rustix::termios::tcgetwinsize(stdout) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 100,
    }
}

/// A handle that Ctrl-C cancels. A second Ctrl-C ends the program at once.
pub(crate) fn interruptible() -> Cancel {
    let cancel = Cancel::new();
    let handle = cancel.clone();
    let installed = ctrlc::set_handler(move || {
        if handle.is_cancelled() {
            std::process::exit(130);
        }
        handle.cancel();
    });
    // Without the handler Ctrl-C ends the program as it would any other, which is no reason to refuse the work.
    drop(installed);
    cancel
}

/// How far a verb has come: shown on a terminal only, and only by what takes longer than a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
}

/// Work that ends sooner shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

impl Progress {
    /// `of` steps are to be done; `None`: nobody knows how many.
    pub(crate) fn new(of: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(of, ProgressDrawTarget::hidden());
        let template = match of {
            Some(_) => "{bar:30} {pos}/{len} {msg}",
            None => "{spinner} {pos} {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a template of known words"));
        Progress {
            bar,
            since: Instant::now(),
            shown: false,
        }
    }

    /// `done` steps are done.
    pub(crate) fn at(&mut self, done: u64) {
        if !self.shown && self.since.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(done);
    }

    /// What is being done.
    pub(crate) fn says(&mut self, message: impl Into<std::borrow::Cow<'static, str>>) {
        self.bar.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A file that is written as a whole or not at all.
///
/// Opening it at the start finds out whether it can be written before hours of work, and leaves what it holds. Unless
/// [`OutputFile::keep`] is called, a file that was begun (or that was not there before) is removed in the end.
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
    remove: bool,
    begun: bool,
}

impl OutputFile {
    pub(crate) fn open(path: &Path) -> Outcome<OutputFile> {
        let existed = path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| at_fault(path.display(), error))?;
        Ok(OutputFile {
            path: path.to_owned(),
            file,
            remove: !existed,
            begun: false,
        })
    }

    /// The whole content at once.
    pub(crate) fn finish(mut self, content: &[u8]) -> Outcome {
        let path = self.path.clone();
        self.write_all(content)
            .and_then(|()| self.keep())
            .map_err(|error| at_fault(path.display(), error))
    }

    /// The content is complete.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.begin()?;
        self.remove = false;
        Ok(())
    }

    /// Removes what was there before, if it is a file.
    fn begin(&mut self) -> io::Result<()> {
        if !self.begun && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.remove = true;
        }
        self.begun = true;
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Never a device or a pipe.
        if self.remove && self.file.metadata().is_ok_and(|data| data.is_file()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The command line, so that a reader of a report can repeat it.
pub(crate) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("tanada".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("a/b-c.264"), "a/b-c.264");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn an_unfinished_file_is_removed_and_an_untouched_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        drop(OutputFile::open(&path).expect("it can be made"));
        assert!(!path.exists(), "nothing was written");

        std::fs::write(&path, "old and long").expect("it can be written");
        drop(OutputFile::open(&path).expect("it can be opened"));
        assert_eq!(
            std::fs::read_to_string(&path).expect("it is there"),
            "old and long"
        );

        OutputFile::open(&path)
            .expect("it can be opened")
            .finish(b"new")
            .expect("it can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "new");

        let mut file = OutputFile::open(&path).expect("it can be opened");
        file.write_all(b"half").expect("it can be written");
        drop(file);
        assert!(!path.exists(), "half of a file is none");
    }
}
