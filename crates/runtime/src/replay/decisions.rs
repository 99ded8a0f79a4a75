//! Decisions: which task each worker started, in the order of all workers; and the file that holds them.

use std::borrow::Cow;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use tanada_policy::WorkerId;

/// The first line of a file of decisions.
const HEADER: &str = "tanada-decisions 1";

/// One task that a worker started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// The pool's number among those of the schedule, in the order in which they were made.
    pub pool: u32,
    /// The worker.
    pub worker: WorkerId,
    /// The task's name.
    pub name: Cow<'static, str>,
    /// The task's number among the tasks of that name.
    pub index: u64,
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start {
            pool,
            worker,
            name,
            index,
        } = self;
        write!(f, "{name}[{index}] on worker {} of pool {pool}", worker.0)
    }
}

/// The tasks that the workers of a run started, in one order that respects all dependencies.
///
/// As a file it is text: the line `tanada-decisions 1`, then a line `POOL WORKER INDEX NAME` for each task. Control characters of a name
/// are escaped as in Rust (`\n`). Lines that begin with `#` say what was not as the schedule says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions(Vec<Start>);

impl Decisions {
    /// Returns the tasks in the order of their starts.
    pub fn starts(&self) -> &[Start] {
        &self.0
    }

    /// Reads and returns the decisions in a file. A last line without an end is left out: the program may have died while it was written.
    ///
    /// # Errors
    /// If the file cannot be read, or is no file of decisions; the error names the line.
    pub fn read(path: &Path) -> io::Result<Decisions> {
        let text = std::fs::read_to_string(path)?;
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..complete].lines().enumerate();
        let invalid = |line: usize, what: &str| {
            let text = format!("line {}: {what}", line + 1);
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        if lines.next().is_none_or(|(_, first)| first != HEADER) {
            return Err(invalid(0, &format!("`{HEADER}` is expected")));
        }
        let is_note = |line: &(usize, &str)| line.1.starts_with('#');
        let lines = lines.filter(|line| !is_note(line));
        let start = |(at, line): (usize, &str)| {
            parse(line).ok_or_else(|| invalid(at, "`POOL WORKER INDEX NAME` is expected"))
        };
        lines.map(start).collect::<io::Result<_>>().map(Decisions)
    }

    /// Writes the decisions to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        writeln!(file, "{HEADER}")?;
        for start in &self.0 {
            file.write_all(line(start).as_bytes())?;
        }
        file.flush()
    }
}

fn line(start: &Start) -> String {
    let Start {
        pool,
        worker,
        name,
        index,
    } = start;
    format!("{pool} {} {index} {}\n", worker.0, escaped(name))
}

fn parse(line: &str) -> Option<Start> {
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next();
    Some(Start {
        pool: word()?.parse().ok()?,
        worker: WorkerId(word()?.parse().ok()?),
        index: word()?.parse().ok()?,
        name: unescaped(word()?)?.into(),
    })
}

/// Returns `name` with its control characters and backslashes escaped, so that it is one line.
fn escaped(name: &str) -> Cow<'_, str> {
    let plain = |c: char| !c.is_control() && c != '\\';
    if name.chars().all(plain) {
        return name.into();
    }
    let escape = |c: char| match plain(c) {
        true => c.to_string(),
        false => c.escape_default().to_string(),
    };
    name.chars().map(escape).collect::<String>().into()
}

/// Returns what [`escaped`] was called with, unless it never returns `text`.
fn unescaped(text: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            name.push(c);
            continue;
        }
        name.push(match rest.next()? {
            '\\' => '\\',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let code: String = rest.by_ref().take_while(|&c| c != '}').collect();
                let code = u32::from_str_radix(code.strip_prefix('{')?, 16).ok()?;
                char::from_u32(code)?
            }
            _ => return None,
        });
    }
    Some(name)
}

/// Where a schedule keeps what it decides.
#[derive(Debug)]
pub(super) enum Log {
    Nowhere,
    Memory(Decisions),
    /// Each line is written at once: the program may end in any way.
    File(File),
}

impl Log {
    /// Returns a log in a new file, which replaces one that no process writes.
    ///
    /// # Errors
    /// If the file cannot be written, or if another process, or another schedule of this one, writes it: the two would overwrite each
    /// other.
    pub(super) fn create(path: &Path) -> io::Result<Log> {
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.is_file() {
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let text = "another process writes it; with %p in its name each has its own";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            file.set_len(0)?;
        }
        writeln!(file, "{HEADER}")?;
        Ok(Log::File(file))
    }

    pub(super) fn add(&mut self, start: Start) {
        match self {
            Log::Nowhere => {}
            Log::Memory(decisions) => decisions.0.push(start),
            Log::File(_) => self.write(&line(&start)),
        }
    }

    /// Adds a note, if this is a file.
    pub(super) fn note(&mut self, text: &str) {
        if let Log::File(_) = self {
            self.write(&format!("# {}\n", escaped(text)));
        }
    }

    fn write(&mut self, text: &str) {
        if let Log::File(file) = self
            && let Err(error) = file.write_all(text.as_bytes())
        {
            crate::process::report(format_args!(
                "the decisions are not written any more: {error}"
            ));
            *self = Log::Nowhere;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg_attr(miri, ignore = "it has no files")]
    fn a_file_that_is_written_is_not_overwritten() {
        let path = std::env::temp_dir().join(format!("tanada-decisions-{}", std::process::id()));
        std::fs::write(
            &path,
            "left by a process that is gone, and longer than the new one",
        )
        .expect("a file");
        let start = Start {
            pool: 0,
            worker: WorkerId(1),
            name: "a".into(),
            index: 2,
        };
        let mut log = Log::create(&path).expect("nobody writes it");
        log.add(start.clone());
        let error = Log::create(&path).expect_err("it is written");
        assert!(error.to_string().contains("%p"), "{error}");
        drop(log);
        let read = Decisions::read(&path).expect("a file of decisions");
        assert_eq!(read.starts(), [start]);
        Log::create(&path).expect("nobody writes it any more");
        std::fs::remove_file(&path).expect("it is there");
    }

    proptest! {
        #[test]
        fn a_line_is_what_it_was_made_of(pool: u32, worker: u16, index: u64, name: String) {
            let start = Start { pool, worker: WorkerId(worker), name: name.into(), index };
            let line = line(&start);
            prop_assert_eq!(line.lines().count(), 1);
            prop_assert_eq!(parse(line.strip_suffix('\n').expect("an end")), Some(start));
        }

        #[test]
        fn no_line_panics(line: String) {
            let _ = parse(&line);
        }
    }
}
