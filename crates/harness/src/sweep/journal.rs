//! The journal of a sweep: a file that grows by a line a run, from which a sweep that was killed resumes.
//!
//! The first line is always the same, and the second one names the build of this program. A row is the CRC-32 of all that follows it, what
//! identifies the run, and its result, with tabs between them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::plan::checksum;
use super::{Error, at_fault, in_the_way};

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
        let mut file = locked(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        if text.starts_with(EARLIER.as_bytes()) {
            let what = "it is of an earlier version of tanada, or no journal of a sweep";
            return Err(in_the_way(path, what));
        }
        // A process that was killed may have left a part of the line.
        if !text.starts_with(HEAD.as_bytes()) && !HEAD.as_bytes().starts_with(&text) {
            return Err(in_the_way(path, FOREIGN));
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

    /// Removes the file: the sweep is complete. Another file that has the name by now stays.
    pub(super) fn remove(self) -> Result<(), Error> {
        let failed = |error| at_fault(self.path.display(), error);
        // The lock is held until the name is gone.
        match is_at(&self.file, &self.path).map_err(failed)? {
            true => std::fs::remove_file(&self.path).map_err(failed),
            false => Ok(()),
        }
    }
}

/// What a file is that belongs to another program.
const FOREIGN: &str = "it is not the journal of a sweep";

/// Opens or makes the file and locks it. Returns the file, which has the name `path` and keeps it as long as other sweeps respect the lock.
///
/// # Errors
/// If the file cannot be written, another process has it open, or it is no regular file.
fn locked(path: &Path) -> Result<File, Error> {
    /// Other sweeps that may end, each between two steps of an attempt.
    const ATTEMPTS: usize = 100;
    let failed = |error: std::io::Error| at_fault(path.display(), error);
    for _ in 0..ATTEMPTS {
        // Before it is opened: opening some devices has effects.
        match path.symlink_metadata() {
            // At the end the link would go, and not the file that was written.
            Ok(data) if data.is_symlink() => return Err(in_the_way(path, "it is a symbolic link")),
            Ok(data) if !data.is_file() => return Err(in_the_way(path, FOREIGN)),
            _ => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            break;
        }
        // A sweep that ended before the lock was taken has removed the file that was opened.
        if is_at(&file, path).map_err(failed)? {
            return Ok(file);
        }
    }
    let what = "another sweep is writing it; wait for its end";
    Err(at_fault(path.display(), what))
}

/// Returns whether `path` names the open file.
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let open = file.metadata()?;
    match path.symlink_metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
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
    fn a_lock_is_of_the_file_that_has_the_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.unfinished");
        // Each makes and removes the file while others open it.
        let work = || {
            let sweeps = (0..5_000).filter_map(|_| locked(&path).ok());
            for file in sweeps {
                assert!(is_at(&file, &path).expect("it can be asked"));
                std::fs::remove_file(&path).expect("it is there");
            }
        };
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(work));
            for thread in threads {
                thread.join().expect("the name is that of the file");
            }
        });
    }

    #[test]
    fn another_file_of_the_same_name_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.unfinished");
        let open = || Journal::open(&path).expect("it can be written").0;
        let journal = open();
        std::fs::rename(&path, folder.path().join("old")).expect("our file");
        std::fs::write(&path, "of another sweep").expect("it can be written");
        journal.remove().expect("nothing is wrong");
        let left = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(left, "of another sweep");
        std::fs::remove_file(&path).expect("our file");
        let journal = open();
        std::fs::remove_file(&path).expect("our file");
        journal.remove().expect("nothing is wrong");
        open().remove().expect("nothing is wrong");
        assert!(!path.exists());
    }

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
