//! The text form (`.tnt`): one item a line.

mod line;
mod write;

use std::io::Read;

use memchr::memchr;

use crate::{Sink, TraceError};
use line::Parser;
pub use write::TextWriter;
pub(crate) use write::check_record;

/// Bytes read at once.
pub(crate) const CHUNK: usize = 256 << 10;

/// The longest line in bytes without its comment.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

/// Reads a text trace into `sink`; error messages call it `name`.
///
/// Linear time, constant memory; some 8 million lines a second.
///
/// # Errors
/// Returns an error if `from` cannot be read, a line is invalid, or `sink` refuses an item. The error names the line.
pub fn read_text(from: impl Read, name: &str, sink: &mut impl Sink) -> Result<(), TraceError> {
    let mut parser = Parser::new(sink);
    // Of a line longer than the buffer, only a comment is skipped: the parser refuses all else.
    for_each_line(from, |line| parser.line(line))
        .and_then(|()| parser.end())
        .map_err(|error| error.of_file(name))
}

/// Returns `line` without the carriage return that precedes the line feed in files of some systems.
#[inline]
pub(crate) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns a line or word as a message can show it: escaped and shortened.
#[cold]
pub(crate) fn show(text: &[u8]) -> String {
    const MOST: usize = 60;
    let begin = text[..text.len().min(MOST)].escape_ascii();
    if text.len() > MOST {
        format!("`{begin}...`")
    } else {
        format!("`{begin}`")
    }
}

/// Calls `each` with each line, without its line feed. Of a line of [`CHUNK`] bytes or more, `each` gets the first [`CHUNK`] bytes, and the
/// rest is skipped.
pub(crate) fn for_each_line(
    mut from: impl Read,
    mut each: impl FnMut(&[u8]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut buffer = vec![0; CHUNK];
    // The length of an incomplete line at the start of the buffer, and whether that is the rest of a line that is skipped.
    let (mut have, mut skipping) = (0, false);
    loop {
        let count = match from.read(&mut buffer[have..]) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let end = have + count;
        // The bytes before `have` were searched already and have no line end.
        let (mut begin, mut search) = (0, have);
        while let Some(length) = memchr(b'\n', &buffer[search..end]) {
            if !std::mem::take(&mut skipping) {
                each(&buffer[begin..search + length])?;
            }
            begin = search + length + 1;
            search = begin;
        }
        if count == 0 {
            return match !skipping && end > begin {
                true => each(&buffer[begin..end]),
                false => Ok(()),
            };
        }
        buffer.copy_within(begin..end, 0);
        have = if skipping { 0 } else { end - begin };
        if have == buffer.len() {
            each(&buffer)?;
            (have, skipping) = (0, true);
        }
    }
}
