//! The journal of a sweep: a file that grows by a line a run, from which a sweep that was killed resumes.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::plan::checksum;
use super::rows::Row;
use super::{Error, at_fault};

/// The first word of a journal; a version and the build follow.
const HEAD: &str = "tanada-sweep ";

/// An open journal, which no other process has open.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    pub(super) path: PathBuf,
    /// Whether the journal held results of another build of this program, which were dropped.
    pub(super) restarted: bool,
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
        let foreign = || {
            let what =
                "it is not the journal of a sweep; remove it, or name other results with --output";
            at_fault(path.display(), what)
        };
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
        if !begins_as_journal(&text) {
            return Err(foreign());
        }
        let head = format!("{HEAD}1 {}\n", own_identity());
        let mut journal = Journal {
            file,
            path: path.to_owned(),
            restarted: false,
        };
        let Some(lines) = text.strip_prefix(head.as_bytes()) else {
            journal.restarted = !text.is_empty();
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
        let lines = String::from_utf8_lossy(&lines[..whole]);
        let pairs = lines.lines().filter_map(|line| line.split_once('\t'));
        // A damaged row is as good as none: its run is done again, and the later row of a run counts.
        let sound = pairs.filter(|(_, row)| serde_json::from_str::<Row>(row).is_ok());
        let known = sound.map(|(identity, row)| (identity.to_owned(), row.to_owned()));
        Ok((journal, known.collect()))
    }

    /// Adds a result, which survives the end of the process.
    pub(super) fn add(&mut self, identity: &str, row: &str) -> Result<(), Error> {
        self.write(&format!("{identity}\t{row}\n"))
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

/// Returns whether the text is empty or its first line is that of a journal of any build: [`HEAD`], a version and what [`own_identity`]
/// returns. A process that was killed may have left a part of the line.
fn begins_as_journal(text: &[u8]) -> bool {
    let mut lines = text.splitn(2, |&byte| byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let is_whole = lines.next().is_some();
    let Some(rest) = line.strip_prefix(HEAD.as_bytes()) else {
        return !is_whole && HEAD.as_bytes().starts_with(line);
    };
    let mut words = rest.split(|&byte| byte == b' ');
    let (version, build, more) = (words.next().unwrap_or_default(), words.next(), words.next());
    let of_build = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
    let is_build = |build: &[u8]| {
        build.len() <= 40
            && build.iter().all(of_build)
            && build.first().is_none_or(u8::is_ascii_digit)
    };
    let is_part =
        version.iter().all(u8::is_ascii_digit) && build.is_none_or(is_build) && more.is_none();
    is_part && (!is_whole || !version.is_empty() && build.is_some_and(|build| !build.is_empty()))
}

/// Returns what identifies this build of the program: length and checksum of its file, or its version if the file cannot be read.
fn own_identity() -> String {
    let own = std::env::current_exe().and_then(|path| checksum(&path));
    own.map_or_else(
        |_| env!("CARGO_PKG_VERSION").to_owned(),
        |(length, crc)| format!("{length}-{crc:08x}"),
    )
}
