//! Valgrind's lackey: `valgrind --tool=lackey --trace-mem=yes`.

use super::emit::{Access, Emitter, access};
use super::lines::{self, take_decimal, take_hex};
use super::marks::TaskBuilder;
use super::{Imported, Options};
use crate::text::show;
use crate::{NewTask, Sink, TraceError};
use std::io::Read;

/// Reads the log of `valgrind --tool=lackey --trace-mem=yes` into `sink` and returns what was imported; error messages call the log `name`.
///
/// `I` is an instruction (fetch and computation, see [`Options`]), `L` a read, `S` a write, `M` a read and then a write of the same bytes.
/// Valgrind's own lines (`==1==`, `--1--`, `**1**`) are skipped. With [`Options::marks`], those of them that name the running thread
/// (`--trace-sched=yes`) and the marks of tasks are read.
///
/// # Errors
/// `from` cannot be read; a line has another form; a mark contradicts those before it; there are marks although [`Options::marks`] is not
/// set; or `sink` refuses an item. With [`Options::marks`] and no marks, the trace is empty and [`Imported::marked`] is false.
pub fn lackey(
    from: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    let mut import = Import {
        emitter: Emitter::new(sink, options),
        builder: TaskBuilder::default(),
        keep: !options.marks,
        marks: options.marks,
        line: 0,
    };
    let read = || {
        if !options.marks {
            import.emitter.task(&NewTask::default())?;
        }
        lines::for_each(from, |number, line| import.line(number, line))?;
        import.builder.finish(&mut import.emitter)?;
        import.emitter.end()?;
        Ok(import.emitter.imported)
    };
    read().map_err(|error: TraceError| error.of_file(name))
}

struct Import<'a, S> {
    emitter: Emitter<'a, S>,
    builder: TaskBuilder,
    /// Whether the next accesses belong to a task.
    keep: bool,
    marks: bool,
    line: u64,
}

impl<S: Sink> Import<'_, S> {
    #[inline]
    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), TraceError> {
        self.line = number;
        let (kind, operands) = match line {
            [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
            _ => return self.other(line),
        };
        let access = parse(operands).map_err(|what| self.fault(what, line))?;
        let (instruction, accesses) = match kind {
            b'I' => (1, 0),
            b'M' => (0, 2),
            _ => (0, 1),
        };
        if !self.keep {
            self.emitter.imported.dropped_instructions += instruction;
            self.emitter.imported.dropped_accesses += accesses;
            return Ok(());
        }
        match kind {
            b'I' => self.emitter.instruction(access),
            b'L' => self.emitter.read(access),
            b'S' => self.emitter.write(access),
            _ => {
                self.emitter.read(access)?;
                self.emitter.write(access)
            }
        }
    }

    /// Handles a line that is no access.
    #[cold]
    fn other(&mut self, line: &[u8]) -> Result<(), TraceError> {
        let text = match line {
            // Lines of the scheduler about a stopped thread lack the process ID.
            [] | [b'S', b'C', b'H', b'E', b'D', ..] => return Ok(()),
            [a @ (b'=' | b'-' | b'*'), b, rest @ ..] if a == b => {
                let mut rest = rest;
                let pid = take_decimal(&mut rest);
                match rest {
                    [c, d, text @ ..] if pid.is_some() && c == a && d == a => text,
                    _ => return Err(self.no_line(line)),
                }
            }
            _ => return Err(self.no_line(line)),
        };
        let text = text.strip_prefix(b" ").unwrap_or(text);
        match line[0] {
            b'*' => {
                let Some(mark) = text.strip_prefix(b"tanada ") else {
                    return Ok(());
                };
                if !self.marks {
                    let what = "a mark of a task, but everything is to be one task (`--marks` takes tasks from marks)";
                    return Err(self.fault(what, line));
                }
                let mark = String::from_utf8_lossy(mark);
                self.builder.line = self.line;
                self.emitter.at_line(self.line);
                self.builder.mark(&mark, &mut self.emitter)?;
            }
            b'-' if self.marks => self.builder.schedule(&String::from_utf8_lossy(text)),
            _ => return Ok(()),
        }
        self.keep = !self.marks || self.builder.in_task();
        Ok(())
    }

    #[cold]
    fn no_line(&self, line: &[u8]) -> TraceError {
        self.fault(
            "not a line of lackey's memory trace (its log must not be mixed with the program's output: \
            valgrind --tool=lackey --trace-mem=yes --log-file=FILE)",
            line,
        )
    }

    #[cold]
    fn fault(&self, what: &str, line: &[u8]) -> TraceError {
        TraceError::at(self.line, format!("{what}: {}", show(line)))
    }
}

/// Parses and returns `ADDRESS,SIZE`.
#[inline]
fn parse(mut operands: &[u8]) -> Result<Access, &'static str> {
    const FORM: &str = "the access is not `ADDRESS,SIZE`, hexadecimal and decimal";
    let address = take_hex(&mut operands).ok_or(FORM)?;
    operands = operands.strip_prefix(b",").ok_or(FORM)?;
    let size = take_decimal(&mut operands).ok_or(FORM)?;
    if !operands.is_empty() {
        return Err(FORM);
    }
    access(address, size)
}
