//! Dinero's input formats.

use super::emit::{Emitter, access};
use super::lines::{self, take_hex};
use super::{Imported, Options};
use crate::text::show;
use crate::{NewTask, Sink, TraceError};
use std::io::Read;

/// Reads a trace in Dinero's formats into `sink`, as one task, and returns what was imported; error messages call the trace `name`.
///
/// A line has the traditional form `LABEL ADDRESS` or the extended form of Dinero IV, `WORD ADDRESS SIZE`. Labels are 0 (read), 1 (write),
/// 2 (instruction fetch) and 3 (anything else, which counts as a read), and mean the aligned 4 bytes around the address. Words are `r`,
/// `w`, `i` and `m` (as label 3). Numbers are hexadecimal, with or without `0x`. The rest of a line is a comment.
///
/// # Errors
/// `from` cannot be read; a line has none of these forms (an empty line, too), or is a copy-back or an invalidation, which a trace cannot
/// express; or `sink` refuses an item.
pub fn dinero(
    from: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    let mut emitter = Emitter::new(sink, options);
    let read = || {
        emitter.task(&NewTask::default())?;
        lines::for_each(from, |number, line| {
            let fault = |what: &str| TraceError::at(number, format!("{what}: {}", show(line)));
            let (what, address, size) = parse(line).map_err(fault)?;
            let access = access(address, size).map_err(fault)?;
            match what {
                What::Read => emitter.read(access),
                What::Write => emitter.write(access),
                What::Instruction => emitter.instruction(access),
            }
        })?;
        emitter.end()?;
        Ok(emitter.imported)
    };
    read().map_err(|error: TraceError| error.of_file(name))
}

#[derive(Clone, Copy)]
enum What {
    Read,
    Write,
    Instruction,
}

/// Returns the kind of access, the address and the size of a line.
#[inline]
fn parse(line: &[u8]) -> Result<(What, u64, u64), &'static str> {
    const FORMS: &str = "not a line of Dinero's formats, `0 ADDRESS` (0 read, 1 write, 2 fetch) or `r ADDRESS SIZE`";
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let skip = |text: &mut &[u8]| {
        let rest = text.iter().position(|byte| !blank(byte));
        *text = &text[rest.unwrap_or(text.len())..];
    };
    let mut rest = line;
    skip(&mut rest);
    let (&label, mut rest) = rest.split_first().ok_or(FORMS)?;
    if !rest.first().is_some_and(blank) {
        return Err(FORMS);
    }
    let mut number = |what| {
        skip(&mut rest);
        if let Some(digits) = rest.strip_prefix(b"0x").or(rest.strip_prefix(b"0X")) {
            rest = digits;
        }
        let value = take_hex(&mut rest).ok_or(what)?;
        match rest.first().is_none_or(blank) {
            true => Ok(value),
            false => Err(what),
        }
    };
    let address = number("the address is not a hexadecimal number of at most 64 bits")?;
    let what = match label {
        b'0' | b'3' | b'r' | b'm' => What::Read,
        b'1' | b'w' => What::Write,
        b'2' | b'i' => What::Instruction,
        b'4' | b'5' | b'c' | b'v' => {
            return Err("a trace cannot express a copy-back or an invalidation");
        }
        _ => return Err(FORMS),
    };
    if label.is_ascii_digit() {
        return Ok((what, address & !3, 4));
    }
    let size = number("the size is not a hexadecimal number")?;
    Ok((what, address, size))
}
