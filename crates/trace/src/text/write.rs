//! Writing the text form.

use std::io::Write;

use crate::sink::check_task;
use crate::{Grouping, Kind, NewTask, Record, Sink, TraceError};

/// Writes a text trace item by item; `W` should be buffered.
///
/// The writer keeps no state of the trace. Duplicate IDs, unknown IDs and cycles are therefore only found by readers of the text.
#[derive(Debug)]
pub struct TextWriter<W: Write> {
    out: W,
    any: bool,
}

impl<W: Write> TextWriter<W> {
    /// Writes the header and returns the writer.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(mut out: W) -> Result<Self, TraceError> {
        writeln!(out, "tanada-trace 1")?;
        Ok(Self { out, any: false })
    }

    /// Flushes the writer and returns it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Sink for TextWriter<W> {
    fn task(&mut self, task: &NewTask<'_>) -> Result<(), TraceError> {
        check_task(task, 0)?;
        self.any = true;
        let out = &mut self.out;
        write!(out, "task {}", task.id)?;
        for (key, value) in [("T", task.t), ("S", task.s), ("depth", task.depth)] {
            if value != 0 {
                write!(out, " {key}={value}")?;
            }
        }
        if let Some(name) = task.name {
            write!(out, " name={name}")?;
        }
        for Grouping { name, t, s } in task.groupings {
            write!(out, " T:{name}={t} S:{name}={s}")?;
        }
        for (name, value) in task.hints {
            write!(out, " h:{name}={value}")?;
        }
        writeln!(out)?;
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        check_record(record, self.any, 0)?;
        let Record { value, size, kind } = record;
        match kind {
            Kind::Compute => writeln!(self.out, "x {value}")?,
            kind => writeln!(self.out, "{} {value:#x} {size}", kind.word())?,
        }
        Ok(())
    }

    fn edge(&mut self, from: u32, to: u32, fork: bool) -> Result<(), TraceError> {
        let word = if fork { "fork" } else { "dep" };
        writeln!(self.out, "{word} {from} {to}")?;
        Ok(())
    }
}

/// Returns an error if no trace may hold `record`.
pub(crate) fn check_record(record: Record, any_task: bool, line: u64) -> Result<(), TraceError> {
    if any_task && record.is_valid() {
        return Ok(());
    }
    let what = match any_task {
        true => "is not valid: size 0, or beyond the last address",
        false => "comes before the first task",
    };
    let Record { value, size, kind } = record;
    let text = format!("the record `{} {value:#x} {size}` {what}", kind.word());
    Err(TraceError::at(line, text))
}
