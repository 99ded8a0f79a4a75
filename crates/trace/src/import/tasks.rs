//! Tasks of a program: of its thread trace, and of the marks by which the runtime, or the adapter for OpenMP programs, reported tasks.

use super::emit::{Emitter, access};
use super::lines;
use super::marks::TaskBuilder;
use super::openmp::{NameOf, OpenMpBuilder};
use super::{Imported, Options};
use crate::text::show;
use crate::threads::{Event, Sync, ThreadReader, ThreadTrace, Totals};
use crate::{Sink, TraceError};
use hashbrown::HashMap;
use std::io::Read;

/// The kind of [`Sync::Mark`] at which a thread made the mark in line `a` of the list, counted from 1. Programs' own kinds are smaller.
pub const TASK_MARK: u32 = 1 << 16;

/// What makes tasks and dependencies of marks, read in order.
pub(super) trait Builder {
    /// Sets the line of the next mark, and the thread that makes it.
    fn at(&mut self, line: u64, thread: u32);
    /// Returns whether what the thread does next belongs to a task.
    fn in_task(&self) -> bool;
    /// Reads a mark.
    fn mark(&mut self, mark: &str, to: &mut Emitter<'_, impl Sink>) -> Result<(), TraceError>;
    /// Writes what is left at the end of the text; returns an error if a task runs.
    fn finish(&mut self, to: &mut Emitter<'_, impl Sink>) -> Result<(), TraceError>;
}

/// Makes a trace of the tasks of `trace`, a program on the runtime, in `sink`, and returns what was made of it; error messages call the
/// marks `name`.
///
/// `marks` is a text with a line `THREAD MARK` for each mark, in the order in which they were made; `trace` has a [`TASK_MARK`] for each.
/// Each instruction must be a block of its own in `trace`. What belongs to no task is dropped.
///
/// # Errors
/// `marks` or `trace` cannot be read; a mark contradicts those before it, or is not in the trace; or `sink` refuses an item. Without
/// marks the result is empty, and [`Imported::marked`] is false.
pub fn tasks(
    trace: &ThreadTrace,
    marks: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    build(trace, marks, name, options, sink, TaskBuilder::default())
}

/// As [`tasks`], of an OpenMP program whose tasks the adapter (`libtanada_omp.so`) reported.
///
/// `name_of` is handed the path of a module and an address in it, as its file has it, and returns the name of the tasks whose code is
/// there.
///
/// # Errors
/// As [`tasks`].
pub fn openmp_tasks(
    trace: &ThreadTrace,
    marks: impl Read,
    name: &str,
    options: Options,
    name_of: &mut NameOf<'_>,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    build(
        trace,
        marks,
        name,
        options,
        sink,
        OpenMpBuilder::new(name_of),
    )
}

fn build(
    trace: &ThreadTrace,
    marks: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
    mut builder: impl Builder,
) -> Result<Imported, TraceError> {
    let mut emitter = Emitter::new(sink, options);
    let mut threads = HashMap::new();
    let mut kept = Totals::default();
    let read = lines::for_each(marks, |number, line| {
        let fault = |what: &str| TraceError::at(number, format!("{what}: {}", show(line)));
        let text = String::from_utf8_lossy(line);
        let of_thread = text
            .split_once(' ')
            .and_then(|(thread, mark)| Some((thread.parse().ok()?, mark)));
        let (thread, mark) =
            of_thread.ok_or_else(|| fault("not a mark of a thread, `THREAD MARK`"))?;
        let at = match threads.entry(thread) {
            hashbrown::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_map::Entry::Vacant(entry) => {
                let mut at = Place::new(trace.reader(thread)?);
                // What a thread does before its first mark belongs to no task.
                at.pass()?;
                entry.insert(at)
            }
        };
        if at.mark != Some(number) {
            return Err(fault("a mark that the thread's stream lacks"));
        }
        emitter.at_line(number);
        builder.at(number, thread);
        builder.mark(mark, &mut emitter)?;
        match builder.in_task() {
            true => at.keep(&mut emitter, &mut kept).map_err(|what| match what {
                Ok(what) => fault(what),
                Err(error) => error,
            }),
            false => at.pass(),
        }
    });
    let end = || {
        read?;
        builder.finish(&mut emitter)?;
        emitter.end()?;
        let mut imported = emitter.imported;
        let mut all = Totals::default();
        trace
            .threads()
            .iter()
            .for_each(|thread| all += thread.totals);
        imported.dropped_instructions = all.instructions - kept.instructions;
        imported.dropped_accesses = all.loads + all.stores - kept.loads - kept.stores;
        Ok(imported)
    };
    end().map_err(|error: TraceError| error.of_file(name))
}

/// Where a thread's stream is read.
struct Place {
    reader: ThreadReader,
    events: Vec<Event>,
    next: usize,
    /// The mark that was read last.
    mark: Option<u64>,
}

impl Place {
    fn new(reader: ThreadReader) -> Self {
        Place {
            reader,
            events: Vec::new(),
            next: 0,
            mark: None,
        }
    }

    /// Returns the next event before the next mark or the end.
    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            let Some(&event) = self.events.get(self.next) else {
                self.reader.fill(&mut self.events)?;
                self.next = 0;
                if self.events.is_empty() {
                    self.mark = None;
                    return Ok(None);
                }
                continue;
            };
            self.next += 1;
            match event {
                Event::Sync(Sync::Mark {
                    kind: TASK_MARK, a, ..
                }) => {
                    self.mark = Some(a);
                    return Ok(None);
                }
                _ => return Ok(Some(event)),
            }
        }
    }

    /// Drops everything up to the next mark.
    fn pass(&mut self) -> Result<(), TraceError> {
        while self.event()?.is_some() {}
        Ok(())
    }

    /// Adds everything up to the next mark to the current task, and to `kept`. The inner result is what is wrong with the stream.
    fn keep(
        &mut self,
        emitter: &mut Emitter<'_, impl Sink>,
        kept: &mut Totals,
    ) -> Result<(), Result<&'static str, TraceError>> {
        while let Some(event) = self.event().map_err(Err)? {
            match event {
                Event::Block {
                    address,
                    bytes,
                    instructions: 1,
                } => {
                    kept.instructions += 1;
                    let code = access(address, bytes.into()).map_err(Ok)?;
                    emitter.instruction(code).map_err(Err)?;
                }
                Event::Block { .. } => {
                    return Err(Ok(
                        "a stream with several instructions a block behind the mark",
                    ));
                }
                Event::Access {
                    address,
                    bytes,
                    store,
                    ..
                } => {
                    let data = access(address, bytes.into()).map_err(Ok)?;
                    let written = if store {
                        kept.stores += 1;
                        emitter.write(data)
                    } else {
                        kept.loads += 1;
                        emitter.read(data)
                    };
                    written.map_err(Err)?;
                }
                Event::Instructions(_) | Event::Sync(_) => {}
            }
        }
        Ok(())
    }
}
