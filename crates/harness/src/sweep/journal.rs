//! The journal of a sweep: a file that grows by a line a run, from which a sweep that was killed resumes.
//!
//! The first line is always the same, and the second one names the build of this program. A row is the CRC-32 of all that follows it, what
//! identifies the run, and its result, with tabs between them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::plan::checksum;
use super::{Error, at_fault};

/// The first line of a journal.
const HEAD: &str = "tanada-sweep journal 2\n";

/// How journals of earlier versions begin, whose rows have no checksum.
const EARLIER: &str = "tanada-sweep 1 ";

/// An open journal, which no other process has open.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    pub(super) path: PathBuf,
    /// Whether the journal was of another build of this program, so that its results were dropped.
    pub(super) restarted: bool,
    /// Rows that are not as they were written, and do not count.
    pub(super) damaged: usize,
}

impl Journal {
    /// Opens or makes the journal. Returns the journal and its results by identity.
    ///
    /// Results of another build of this program are dropped, since its results may differ.
    ///
    /// # Errors
    /// If the file cannot be written, another process has it open, or it is no journal: its content belongs to another program.
    pub(super) fn open(path: &Path) -> Result<(Journal, HashMap<String, String>), Error> {
        let failed = |error: std::io::Error| at_fault(path.display(), error);
        let refused = |what| {
            let what = format!("{what}; remove it, or name other results with --output");
            at_fault(path.display(), what)
        };
        let foreign = || refused("it is not the journal of a sweep");
        // Before it is opened: opening some devices has effects.
        if path.metadata().is_ok_and(|data| !data.is_file()) {
            return Err(foreign());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::Input(format!(
                "{}: another sweep is writing it; wait for its end",
                path.display()
            )));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        if text.starts_with(EARLIER.as_bytes()) {
            return Err(refused(
                "it is of an earlier version of tanada, or no journal of a sweep",
            ));
        }
        // A process that was killed may have left a part of the line.
        if !text.starts_with(HEAD.as_bytes()) && !HEAD.as_bytes().starts_with(&text) {
            return Err(foreign());
        }
        let head = format!("{HEAD}{}\n", own_identity());
        let mut journal = Journal {
            file,
            path: path.to_owned(),
            restarted: false,
            damaged: 0,
        };
        let Some(lines) = text.strip_prefix(head.as_bytes()) else {
            journal.restarted = !head.as_bytes().starts_with(&text);
            journal.file.set_len(0).map_err(failed)?;
            journal.file.rewind().map_err(failed)?;
            journal.write(&head)?;
            return Ok((journal, HashMap::new()));
        };
        // A process that was killed may have left half a line.
        let whole = lines
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let end = (head.len() + whole) as u64;
        journal.file.set_len(end).map_err(failed)?;
        journal.file.seek(SeekFrom::Start(end)).map_err(failed)?;
        let mut known = HashMap::new();
        for line in lines[..whole].split_inclusive(|&byte| byte == b'\n') {
            // The run of a damaged row is done again, and the later row of a run counts.
            match sound(line) {
                Some((identity, row)) => {
                    known.insert(identity.to_owned(), row.to_owned());
                }
                None => journal.damaged += 1,
            }
        }
        Ok((journal, known))
    }

    /// Adds a result, which survives the end of the process.
    pub(super) fn add(&mut self, identity: &str, row: &str) -> Result<(), Error> {
        self.write(&line_of(identity, row))
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| at_fault(self.path.display(), error))
    }

    /// Removes the file: the sweep is complete.
    pub(super) fn remove(self) -> Result<(), Error> {
        std::fs::remove_file(&self.path).map_err(|error| at_fault(self.path.display(), error))
    }
}

/// Returns the line of a row.
fn line_of(identity: &str, row: &str) -> String {
    let content = format!("{identity}\t{row}\n");
    format!("{:08x}\t{content}", crc32fast::hash(content.as_bytes()))
}

/// Returns identity and result of a row; `None` if the line is not one that [`line_of`] returned.
fn sound(line: &[u8]) -> Option<(&str, &str)> {
    let line = str::from_utf8(line).ok()?;
    let (_, content) = line.split_once('\t')?;
    let (identity, row) = content.strip_suffix('\n')?.split_once('\t')?;
    (line == line_of(identity, row)).then_some((identity, row))
}

/// Returns what identifies this build of the program: length and checksum of its file, or its version if the file cannot be read.
fn own_identity() -> String {
    let own = std::env::current_exe().and_then(|path| checksum(&path));
    own.map_or_else(
        |_| env!("CARGO_PKG_VERSION").to_owned(),
        |(length, crc)| format!("{length}-{crc:08x}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_as_it_was_written_only() {
        let line = line_of("\"a\" 1", "{\"makespan\":12}");
        assert_eq!(
            sound(line.as_bytes()),
            Some(("\"a\" 1", "{\"makespan\":12}"))
        );
        for at in 0..line.len() {
            let mut damaged = line.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(sound(&damaged), None, "byte {at}");
            damaged.remove(at);
            assert_eq!(sound(&damaged), None, "without byte {at}");
        }
        for edited in [
            line.replace("12", "13"),
            line.replace("12", "012"),
            line.to_uppercase(),
            line.replacen('\t', " ", 1),
        ] {
            assert_eq!(sound(edited.as_bytes()), None, "{edited}");
        }
    }
}
