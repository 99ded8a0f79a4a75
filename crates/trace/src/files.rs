//! Reading and writing trace files of either form.

use std::fs::File;
use std::io::{self, BufWriter, Chain, Cursor, ErrorKind, IntoInnerError, Read};
use std::path::{Path, PathBuf};

use crate::binary::{Entry, GraphReader, Layout};
use crate::blocks::Store;
use crate::container::MAGIC;
use crate::graph::NONE;
use crate::output::OutputFile;
use crate::{
    BinaryWriter, Grouping, Groups, NewTask, Record, Sink, TextWriter, Trace, TraceError, load,
    read_text,
};

/// Bytes written at once.
pub(crate) const BUFFER: usize = 256 << 10;

/// The most bytes that [`read_whole`] reads from what is no file.
const MOST_OF_DEVICE: u64 = 1 << 30;

/// Reads and returns a file, pipe or device as a whole, such as a stream or a table. Of what is no file, and may have no end, at most 1 GiB
/// is read.
///
/// # Errors
/// It cannot be read, or is no file and has more bytes.
pub fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let most = match file.metadata()?.is_file() {
        true => u64::MAX,
        false => MOST_OF_DEVICE,
    };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = "more than 1 GiB comes from it and it is no file, so it may have no end; copy what you want into a file";
        return Err(io::Error::other(why));
    }
    Ok(bytes)
}

/// Returns the first bytes of a file, at most 4096; none of what is no file, because they could not be read again.
pub(crate) fn begins(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    let file = File::open(path)?;
    if file.metadata()?.is_file() {
        file.take(4096).read_to_end(&mut begin)?;
    }
    Ok(begin)
}

/// The most bytes of a binary trace that come through a pipe.
const MOST_PIPED: u64 = 1 << 36;

/// An open trace file.
pub(crate) enum Input {
    /// The file and its length in bytes.
    Binary(Store, u64),
    /// The bytes that were read to recognise the form, then the rest of the file.
    Text(Chain<Cursor<Vec<u8>>, File>),
}

impl Input {
    /// Opens and returns `path`, in the form that its first bytes show.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let with_path = |error| TraceError::io(path, error);
        let mut file = File::open(path).map_err(with_path)?;
        let mut begin = Vec::new();
        let mut head = (&mut file).take(MAGIC.len() as u64);
        head.read_to_end(&mut begin).map_err(with_path)?;
        if begin != MAGIC {
            return Ok(Self::Text(Cursor::new(begin).chain(file)));
        }
        let about = file.metadata().map_err(with_path)?;
        if about.is_file() {
            return Ok(Self::Binary(Store::File(file), about.len()));
        }
        // A binary trace is read from its end, so what comes through a pipe is copied first.
        let of_copy = |error| TraceError::io(&std::env::temp_dir(), error);
        let mut copy = tempfile::tempfile().map_err(of_copy)?;
        let mut whole = begin.as_slice().chain(file.take(MOST_PIPED));
        let length = io::copy(&mut whole, &mut copy);
        let length = length.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                of_copy(error)
            }
            _ => with_path(error),
        })?;
        if length > MOST_PIPED {
            let text = "more than 64 GiB come through a pipe, which may have no end; name a file";
            return Err(TraceError::at(0, text).of_file(&path.display().to_string()));
        }
        Ok(Self::Binary(Store::File(copy), length))
    }
}

/// Reads a trace file of either form, recognised by its first bytes, into `sink`.
///
/// Linear time. Of a text nothing is kept in memory, of a binary trace what [`Trace::open`] keeps.
///
/// # Errors
/// Returns an error if the file cannot be read or is no valid trace, or `sink` refuses an item. Unknown IDs and cycles in a text are left
/// to `sink` to find.
pub fn read(path: &Path, sink: &mut impl Sink) -> Result<(), TraceError> {
    let name = path.display().to_string();
    match Input::open(path)? {
        Input::Text(text) => read_text(text, &name, sink),
        Input::Binary(store, length) => {
            let trace = load::binary(store, length, &name, &Groups::Plain)?;
            let layout = Layout::read(&trace.store, length);
            let copied = layout.and_then(|layout| copy_to(&trace, &layout, sink));
            copied.map_err(|error| error.of_file(&name))
        }
    }
}

/// Writes the content of a binary trace into `sink`.
fn copy_to(trace: &Trace, layout: &Layout, sink: &mut impl Sink) -> Result<(), TraceError> {
    let mut graph = GraphReader::new(&trace.store, layout)?;
    let mut reader = trace.reader()?;
    let mut entry = Entry::default();
    let mut window: Vec<Record> = Vec::new();
    let mut index = 0;
    while graph.next(&mut entry)? {
        let word = |index: u32| &*graph.words.list[index as usize];
        let task = &entry.task;
        let grouping = |&(name, t, s): &(u32, u32, u32)| {
            let name = word(name);
            Grouping { name, t, s }
        };
        let groupings: Vec<_> = entry.groupings.iter().map(grouping).collect();
        let hint = |&(name, value): &(u32, u32)| (word(name), word(value));
        let hints: Vec<_> = entry.hints.iter().map(hint).collect();
        let name = (task.name != NONE).then(|| word(task.name));
        sink.task(&NewTask {
            id: task.id,
            t: task.t,
            s: task.s,
            depth: task.depth,
            name,
            groupings: &groupings,
            hints: &hints,
        })?;
        reader.for_each(index, &mut window, |&record| sink.record(record))?;
        for edge in trace.successors(index) {
            let to = trace.tasks()[edge.to() as usize].id;
            sink.edge(task.id, to, edge.is_fork())?;
        }
        index += 1;
    }
    Ok(())
}

/// Reads a trace file of either form and writes its content to `to`: as text if the name ends in `.tnt`, else in the binary form.
///
/// # Errors
/// Returns those of [`read`] and [`FileSink::finish`].
pub fn convert(from: &Path, to: &Path) -> Result<(), TraceError> {
    let name = from.display().to_string();
    let mut sink = FileSink::create(to)?;
    read(from, &mut sink)?;
    sink.finish().map_err(|error| error.of_file(&name))
}

/// A trace file that is being written.
///
/// The file has a temporary name until [`finish`](Self::finish), so a program that stops early leaves no incomplete trace under the final
/// name.
#[derive(Debug)]
pub struct FileSink {
    form: Form,
    path: PathBuf,
}

#[derive(Debug)]
enum Form {
    Text(TextWriter<BufWriter<OutputFile>>),
    Binary(Box<BinaryWriter<BufWriter<OutputFile>>>),
}

impl FileSink {
    /// Starts and returns a text if the name ends in `.tnt`, else the binary form.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let out = BufWriter::with_capacity(BUFFER, OutputFile::open(path)?);
        let form = if path.extension().is_some_and(|end| end == "tnt") {
            Form::Text(TextWriter::new(out).map_err(of_output(path))?)
        } else {
            Form::Binary(Box::new(BinaryWriter::new(out).map_err(of_output(path))?))
        };
        Ok(Self {
            form,
            path: path.to_owned(),
        })
    }

    /// Completes the file under its name.
    ///
    /// # Errors
    /// Returns those of [`BinaryWriter::finish`], and an error if the file cannot be written or renamed.
    pub fn finish(self) -> Result<(), TraceError> {
        let own = of_output(&self.path);
        let out = match self.form {
            Form::Text(writer) => writer.finish(),
            Form::Binary(writer) => writer.finish(),
        };
        let flushed = out.map_err(&own)?.into_inner();
        let kept = flushed
            .map_err(IntoInnerError::into_error)
            .and_then(OutputFile::keep);
        kept.map_err(|error| own(error.into()))
    }
}

/// Returns what adds the name of the output `path` to an error of the system. An error of the content belongs to the file that is read, if
/// there is one; only the caller knows that file's name.
fn of_output(path: &Path) -> impl Fn(TraceError) -> TraceError {
    |error| match error {
        TraceError::Io { .. } => error.of_file(&path.display().to_string()),
        _ => error,
    }
}

impl Sink for FileSink {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        let done = match &mut self.form {
            Form::Text(writer) => writer.task(task),
            Form::Binary(writer) => writer.task(task),
        };
        done.map_err(of_output(&self.path))
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        let done = match &mut self.form {
            Form::Text(writer) => writer.record(record),
            Form::Binary(writer) => writer.record(record),
        };
        done.map_err(of_output(&self.path))
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        let done = match &mut self.form {
            Form::Text(writer) => writer.edge(from, to, fork),
            Form::Binary(writer) => writer.edge(from, to, fork),
        };
        done.map_err(of_output(&self.path))
    }

    fn at_line(&mut self, line: u64) {
        if let Form::Binary(writer) = &mut self.form {
            writer.at_line(line);
        }
    }
}
