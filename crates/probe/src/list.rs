//! The list of the runtime's marks of tasks, in the order of all threads.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes that are kept in memory.
const BUFFER: usize = 64 << 10;

/// A text file that is written by several threads. It is open only while it is written, see [`Spool`](tanada_trace::threads::spool::Spool).
pub(crate) struct List {
    path: PathBuf,
    /// Lines so far, and those of them that were not written yet.
    lines: Mutex<(u64, Vec<u8>)>,
}

impl List {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        std::fs::write(path, [])?;
        Ok(Self {
            path: path.to_owned(),
            lines: Mutex::default(),
        })
    }

    /// Appends a line, which has its end, of a thread. Returns the line's number, counted from 1.
    pub(crate) fn append(&self, thread: u32, line: &[u8]) -> io::Result<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, bytes) = &mut *lines;
        *number += 1;
        write!(bytes, "{thread} ")?;
        bytes.extend_from_slice(line);
        if bytes.len() >= BUFFER {
            self.write(bytes)?;
        }
        Ok(*number)
    }

    /// Writes what was not written yet.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut lines.1)
    }

    fn write(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(bytes)?;
        bytes.clear();
        Ok(())
    }
}
