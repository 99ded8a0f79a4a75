//! Dinero's input formats.

use super::emit::{Emitter, access};
use super::lines::{self, take_hex};
use super::{Imported, Options};
use crate::text::show;
use crate::{NewTask, Sink, TraceError};
use std::io::Read;

/// Reads a trace in Dinero's formats, as one task, into `sink`; `name` stands in messages.
///
/// A line is of the traditional form, `LABEL ADDRESS`, where the label is 0 (read), 1 (write), 2 (instruction fetch) or 3 (anything
/// else, which counts as a read), and means the aligned 4 bytes around the address; or of the extended one of Dinero IV,
/// `WORD ADDRESS SIZE`, where the word is `r`, `w`, `i` or `m` (as 3). Numbers are hexadecimal, with or without `0x`. The rest of a
/// line is a comment.
///
/// Of `options` the marks mean nothing here.
///
/// # Errors
/// `from` cannot be read; a line is none of these (an empty one, too), or asks for a copy-back or an invalidation, which no trace can
/// say; or `sink` refuses.
pub fn dinero(
    from: impl Read,
    name: &str,
    options: Options,
    sink: &mut impl Sink,
) -> Result<Imported, TraceError> {
    let mut emitter = Emitter::new(sink, options);
    let read = || {
        emitter.task(&NewTask {
            id: 0,
            ..NewTask::default()
        })?;
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

/// What a line does, the address and the size.
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
    let address = number("the address is no hexadecimal number of at most 64 bits")?;
    let what = match label {
        b'0' | b'3' | b'r' | b'm' => What::Read,
        b'1' | b'w' => What::Write,
        b'2' | b'i' => What::Instruction,
        b'4' | b'5' | b'c' | b'v' => {
            return Err("a trace has no word for a copy-back or an invalidation");
        }
        _ => return Err(FORMS),
    };
    if label.is_ascii_digit() {
        return Ok((what, address & !3, 4));
    }
    Ok((what, address, number("the size is no hexadecimal number")?))
}
