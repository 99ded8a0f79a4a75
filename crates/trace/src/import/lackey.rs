//! Valgrind's lackey: `valgrind --tool=lackey --trace-mem=yes`.

use super::emit::{Access, Emitter, access};
use super::lines::{self, take_decimal, take_hex};
use super::{Imported, Options};
use crate::text::show;
use crate::{NewTask, Sink, TraceError};
use std::io::Read;

/// Reads the log of `valgrind --tool=lackey --trace-mem=yes` into `sink`, as one task, and returns what was imported; error messages call
/// the log `name`.
///
/// `I` is an instruction (fetch and computation, see [`Options`]), `L` a read, `S` a write, `M` a read and then a write of the same bytes.
/// Valgrind's own lines (`==1==`, `--1--`, `**1**`) are skipped.
///
/// # Errors
/// `from` cannot be read; a line has another form; or `sink` refuses an item.
pub fn lackey(
    from: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    let mut emitter = Emitter::new(sink, options);
    let read = || {
        emitter.task(&NewTask::default())?;
        lines::for_each(from, |number, line| {
            self::line(&mut emitter, line)?.map_err(|what| fault(number, what, line))
        })?;
        emitter.end()?;
        Ok(emitter.imported)
    };
    read().map_err(|error: TraceError| error.of_file(name))
}

/// Reads a line. The inner error is what is wrong with the line.
#[inline]
fn line(
    emitter: &mut Emitter<'_, impl Sink>,
    line: &[u8],
) -> Result<Result<(), &'static str>, TraceError> {
    let (kind, operands) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return Ok(other(line)),
    };
    let access = match parse(operands) {
        Ok(access) => access,
        Err(what) => return Ok(Err(what)),
    };
    match kind {
        b'I' => emitter.instruction(access)?,
        b'L' => emitter.read(access)?,
        b'S' => emitter.write(access)?,
        _ => {
            emitter.read(access)?;
            emitter.write(access)?;
        }
    }
    Ok(Ok(()))
}

/// Skips a line of Valgrind's own.
#[cold]
fn other(line: &[u8]) -> Result<(), &'static str> {
    const FORM: &str = "not a line of lackey's memory trace (its log must not be mixed with the program's output: \
        valgrind --tool=lackey --trace-mem=yes --log-file=FILE)";
    match line {
        [] => Ok(()),
        [a @ (b'=' | b'-' | b'*'), b, rest @ ..] if a == b => {
            let mut rest = rest;
            let pid = take_decimal(&mut rest);
            match rest {
                [c, d, ..] if pid.is_some() && c == a && d == a => Ok(()),
                _ => Err(FORM),
            }
        }
        _ => Err(FORM),
    }
}

#[cold]
fn fault(number: u64, what: &str, line: &[u8]) -> TraceError {
    TraceError::at(number, format!("{what}: {}", show(line)))
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
