//! An open thread trace.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use super::{Head, InstructionSet, Thread, ThreadReader, ThreadWriter, head, read_thread_text};
use crate::TraceError;
use crate::blocks::{Block, Store};
use crate::files::{self, BUFFER, Input};
use crate::output::OutputFile;

/// An open thread trace: its head in memory, and its streams on disk.
#[derive(Clone, Debug)]
pub struct ThreadTrace {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) head: Head,
    pub(super) blocks: Vec<Block>,
    pub(super) store: Store,
    pub(super) name: String,
}

impl ThreadTrace {
    /// Opens a file of either form. A text becomes the binary form in a temporary file.
    ///
    /// # Errors
    /// The file cannot be read or is no valid thread trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match Input::open(path)? {
            Input::Binary(store, length) => Self::of(store, length, &name),
            Input::Text(text) => {
                let file = tempfile::tempfile().map_err(|error| TraceError::io(path, error))?;
                let out = BufWriter::with_capacity(BUFFER, file);
                let out = read_thread_text(text, &name, out)?.into_inner();
                let file =
                    out.map_err(|error| TraceError::from(error.into_error()).of_file(&name))?;
                let length = file
                    .metadata()
                    .map_err(|error| TraceError::io(path, error))?
                    .len();
                Self::of(Store::File(file), length, &name)
            }
        }
    }

    /// Returns whether the file is a thread trace of either form; `false` if it cannot be read.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        files::begins(path).is_ok_and(|begin| {
            let binary = begin.starts_with(&crate::container::MAGIC)
                && begin.get(8..12) == Some(&head::VERSION.to_le_bytes());
            binary || super::text::is_one(&begin)
        })
    }

    /// Opens the bytes of a binary trace; error messages call it `name`.
    ///
    /// # Errors
    /// The bytes are no valid thread trace.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, TraceError> {
        let length = bytes.len() as u64;
        Self::of(Store::Memory(bytes), length, name)
    }

    /// Parses a text; error messages call it `name`.
    ///
    /// # Errors
    /// The text is no valid thread trace.
    pub fn parse(text: &[u8], name: &str) -> Result<Self, TraceError> {
        Self::from_bytes(read_thread_text(text, name, Vec::new())?, name)
    }

    fn of(store: Store, length: u64, name: &str) -> Result<Self, TraceError> {
        let (head, blocks) = head::read(&store, length).map_err(|error| error.of_file(name))?;
        let shared = Shared {
            head,
            blocks,
            store,
            name: name.to_owned(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Starts a binary trace at `path`, which appears there when [`ThreadWriter::keep`] completes it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(
        path: &Path,
        program: &str,
        instructions: InstructionSet,
    ) -> Result<ThreadWriter<BufWriter<OutputFile>>, TraceError> {
        let out = BufWriter::with_capacity(BUFFER, OutputFile::open(path)?);
        ThreadWriter::new(out, program, instructions)
    }

    #[cfg(test)]
    pub(super) fn shared_blocks(&self) -> usize {
        self.shared.blocks.len()
    }

    /// Returns what the trace says of itself.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.shared.head
    }

    /// Returns the recorded program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.shared.head.program
    }

    /// Returns the recorded program's instruction set.
    #[must_use]
    pub fn instruction_set(&self) -> InstructionSet {
        self.shared
            .head
            .instructions
            .unwrap_or(InstructionSet::X86_64)
    }

    /// Returns the logical threads in the order of creation.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.shared.head.threads
    }

    /// Returns a reader of one thread's stream from its begin. It holds the trace open.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn reader(&self, thread: u32) -> Result<ThreadReader, TraceError> {
        if thread as usize >= self.threads().len() {
            let what = format!(
                "there is no thread {thread}; there are {}",
                self.threads().len()
            );
            return Err(TraceError::at(0, what).of_file(&self.shared.name));
        }
        Ok(ThreadReader::new(self.shared.clone(), thread as usize))
    }

    /// Writes the trace to `out` as text.
    ///
    /// # Errors
    /// The trace is damaged, or `out` cannot be written.
    pub fn write_text(&self, out: impl Write) -> Result<(), TraceError> {
        super::write_thread_text(self, out)
    }
}
