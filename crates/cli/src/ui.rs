//! What all verbs share: how they fail, write, show progress and stop.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, exit};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tanada_runtime::Cancel;
pub(crate) use tanada_trace::output::OutputFile;
use tanada_trace::output::{self, OutputError, remove_unfinished};
use tanada_trace::read_whole;

/// Why a verb did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input (or an output, or what was found) is at fault.
    Input(String),
    /// The command line is at fault in a way that its parser cannot see.
    Usage(String),
    /// A signal, such as that of Ctrl-C.
    Interrupted,
    /// A signal in work that goes on, when it is asked for again, from what is in this file.
    Paused(PathBuf),
    /// A signal in work of which this file holds what was complete.
    Kept(PathBuf),
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Returns the exit code of an outcome, after reporting what went wrong on standard error.
pub(crate) fn exit_code(outcome: Outcome) -> ExitCode {
    let (code, message) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::Interrupted) => (
            stopped(),
            "stopped; nothing unfinished was left behind".into(),
        ),
        Err(Failure::Kept(file)) => {
            let file = file.display();
            (
                stopped(),
                format!("stopped; {file} holds what was recorded until then"),
            )
        }
        Err(Failure::Paused(file)) => {
            let file = file.display();
            (
                stopped(),
                format!("stopped; the same command goes on from {file}"),
            )
        }
    };
    // Wherever it came from, it ends with this number.
    let help = match message.contains("(os error 24)") {
        true => "; raise the limit of open files (ulimit -n)",
        false => "",
    };
    note(&format!("tanada: {message}{help}"));
    ExitCode::from(code as u8)
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        match error {
            OutputError::Taken { .. } => Failure::Usage(error.to_string()),
            OutputError::Unwritable { .. } => Failure::Input(error.to_string()),
        }
    }
}

/// Returns the failure of an input, with what it happened to.
pub(crate) fn at_fault(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{what}: {why}"))
}

/// Reads and returns a text that has an end.
pub(crate) fn read_text(path: &Path) -> Outcome<String> {
    not_closed([path])?;
    let bytes = read_whole(path).map_err(|error| at_fault(path.display(), error))?;
    String::from_utf8(bytes).map_err(|error| at_fault(path.display(), error))
}

/// Returns `text` with the control characters that a terminal would obey escaped as JSON escapes them; so JSON keeps its meaning.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return text.into();
    }
    let mut shown = String::new();
    for c in text.chars() {
        match obeyed(c) {
            true => shown += &format!("\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Refuses work whose results would be lost, because the program was started without a standard output (`>&-`).
pub(crate) fn has_output() -> Outcome {
    not_closed([Path::new("/dev/stdout")])
}

/// Refuses an input or output such as `/dev/stdin` or `/dev/stderr` that was closed when the program started (`<&-`): it would seem empty,
/// or what is written there would be lost.
pub(crate) fn not_closed<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Outcome {
    for number in paths.into_iter().filter_map(output::descriptor) {
        if crate::closed::at_start(number) {
            let name = ["input", "output", "error"][number as usize];
            return Err(at_fault(
                format_args!("standard {name}"),
                "it is closed; name a file, or /dev/null",
            ));
        }
    }
    Ok(())
}

/// Refuses inputs and outputs that are closed, as [`not_closed`], and outputs that would destroy another content, as [`output::distinct`].
pub(crate) fn distinct<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Outcome {
    let inputs: Vec<&Path> = inputs.into_iter().collect();
    let outputs: Vec<&Path> = outputs.into_iter().collect();
    not_closed(inputs.iter().chain(&outputs).copied())?;
    Ok(output::distinct(inputs, outputs)?)
}

/// Writes to standard output. If its reader has closed it, as `head` does, the reader has what it wanted: that is no failure, and hides
/// none of what follows.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(visible(text).as_bytes())
        .and_then(|()| out.flush())
        .or_else(output_failed)
}

/// Writes a line to standard error; if it is closed, nothing is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(line));
}

/// Returns what an error on standard output means, as [`print`] says.
pub(crate) fn output_failed(error: io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(at_fault("standard output", error)),
    }
}

/// Returns a value as JSON on one line.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain data has a JSON form");
    format!("{text}\n")
}

/// Returns the number of columns of the terminal, or 100 if there is none.
pub(crate) fn columns() -> usize {
    tanada_report::terminal_width().unwrap_or(100)
}

/// The signal that asked for the end.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The child process that ends with this one; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// What was complete at the signal is being kept, however long that takes.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Lets the work go on after the signal; a second signal ends it.
pub(crate) fn keep_going() {
    KEEPS.store(true, Ordering::SeqCst);
}

/// Returns the exit code after a signal, as shells define it.
fn stopped() -> i32 {
    128 + SIGNAL.load(Ordering::SeqCst)
}

/// Lets signals and [`end_child`] end `child`, and no earlier one.
pub(crate) fn ends_with_us(child: Option<&Child>) {
    let child = child.map_or(0, |child| child.id().cast_signed());
    CHILD.store(child, Ordering::SeqCst);
}

/// Kills the child process. Does nothing if there is none.
pub(crate) fn end_child() {
    if let Some(child) = Pid::from_raw(CHILD.swap(0, Ordering::SeqCst)) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(child, Signal::KILL);
    }
}

/// Ends the program at once; never returns.
fn end_at_once() -> ! {
    /// A message that is not written within this time is dropped.
    const PATIENCE: Duration = Duration::from_millis(200);
    remove_unfinished();
    // Standard error may be a full pipe, and another thread that waits for its reader holds the lock.
    let (written, ended) = mpsc::channel();
    let message = move || {
        note("tanada: stopped at once");
        let _ = written.send(());
    };
    if thread::Builder::new().spawn(message).is_ok() {
        let _ = ended.recv_timeout(PATIENCE);
    }
    exit(stopped())
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error, as on a full disk; otherwise SIGXFSZ ends the program.
///
/// SIGXFSZ gets a handler: a signal that is ignored would also be ignored by the programs that this one starts.
pub(crate) fn survive_file_limit() {
    // Without the handler the limit ends the program as it would any other.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Returns a handle that Ctrl-C, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU cancel. A second signal ends the program at once, as does work
/// that does not end. A signal that was ignored when the program started stays ignored: SIGHUP under nohup(1), SIGINT and SIGQUIT in the
/// background of a script.
pub(crate) fn interruptible() -> Cancel {
    let cancel = Cancel::new();
    let handle = cancel.clone();
    let (ready, registered) = mpsc::channel::<()>();
    let watch = move || {
        let signals = not_ignored(&[SIGINT, SIGTERM, SIGQUIT, SIGXCPU, SIGHUP]);
        drop(ready);
        if let Ok(signals) = signals {
            obey(signals, &handle);
        }
    };
    // Without the thread, or without the handlers, a signal ends the program as it would any other, which is no reason to refuse the work.
    // The thread registers the handlers: a handler without the thread would let the program ignore signals.
    if thread::Builder::new().spawn(watch).is_ok() {
        // Ends with an error, once the handlers are there.
        let _ = registered.recv();
    }
    cancel
}

/// Returns those of `signals` that come from now on, without those that were ignored when the program started.
pub(crate) fn not_ignored(signals: &[i32]) -> io::Result<Signals> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let ignored = |signal: i32| ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1);
    Signals::new(signals.iter().filter(|&&signal| !ignored(signal)))
}

/// Cancels `handle` at the first signal; ends the program at the second one, or if the work does not end soon.
fn obey(mut signals: Signals, handle: &Cancel) {
    /// Two signals within this time are one request: timeout(1) signals a process and its group.
    const ONE_REQUEST: Duration = Duration::from_millis(300);
    /// Reading from a pipe that no process writes does not end.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Time between two looks for a second signal.
    const LOOK: Duration = Duration::from_millis(20);
    let mut first: Option<Instant> = None;
    loop {
        let came = match first {
            None => signals.wait(),
            Some(_) => {
                thread::sleep(LOOK);
                signals.pending()
            }
        };
        let since = first.map_or(Duration::ZERO, |first| first.elapsed());
        let mut again = false;
        for signal in came {
            SIGNAL.store(signal, Ordering::SeqCst);
            handle.cancel();
            end_child();
            first.get_or_insert_with(Instant::now);
            again = true;
        }
        let too_long = since > PATIENCE && !KEEPS.load(Ordering::SeqCst);
        if again && since > ONE_REQUEST || too_long {
            end_at_once();
        }
    }
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
    /// Returns the progress of `of` steps; `None`: their number is not known.
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

/// An input that is read to its end or until Ctrl-C, and whose progress is shown.
pub(crate) struct Watched<'a, R> {
    input: R,
    cancel: &'a Cancel,
    progress: Progress,
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// Whether the end was reached.
    pub(crate) ended: bool,
}

impl<'a, R> Watched<'a, R> {
    /// Returns a reader of `input` that shows its progress: of `megabytes`, if that is known; `what` names them.
    pub(crate) fn new(
        input: R,
        cancel: &'a Cancel,
        megabytes: Option<u64>,
        what: &'static str,
    ) -> Self {
        let mut progress = Progress::new(megabytes);
        progress.says(what);
        Watched {
            input,
            cancel,
            progress,
            bytes: 0,
            ended: false,
        }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.input.read(buffer)?;
        self.bytes += count as u64;
        self.ended |= count == 0;
        self.progress.at(self.bytes >> 20);
        Ok(count)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the command line, so that a reader of a report can repeat it. Bytes of a name that are no UTF-8 become U+FFFD.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("tanada".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a word quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
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
    fn words_that_a_shell_would_split_are_quoted() {
        assert_eq!(quoted("a/b-c.264"), "a/b-c.264");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
