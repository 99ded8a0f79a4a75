//! Lines of a foreign text.

use crate::TraceError;
use crate::text::without_return;
use memchr::memchr;
use std::io::{ErrorKind, Read};

/// Bytes read at once, and the longest line.
const CHUNK: usize = 256 << 10;

/// Calls `each` with the number and the text of each line, without its line feed or carriage return and line feed.
pub(super) fn for_each(
    mut from: impl Read,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut buffer = vec![0; CHUNK];
    let (mut have, mut number) = (0, 0);
    loop {
        let count = match from.read(&mut buffer[have..]) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let end = have + count;
        // The bytes before `have` were searched already and have no line end.
        let (mut begin, mut search) = (0, have);
        while let Some(length) = memchr(b'\n', &buffer[search..end]) {
            number += 1;
            each(number, without_return(&buffer[begin..search + length]))?;
            begin = search + length + 1;
            search = begin;
        }
        if count == 0 {
            return match end > begin {
                true => each(number + 1, without_return(&buffer[begin..end])),
                false => Ok(()),
            };
        }
        buffer.copy_within(begin..end, 0);
        have = end - begin;
        if have == buffer.len() {
            let what = format!("a line of more than {CHUNK} bytes; is this a memory trace?");
            return Err(TraceError::at(number + 1, what));
        }
    }
}

/// Parses a hexadecimal number at the start of `text` and removes it; `None` if there is none or it passes 2^64-1.
#[inline]
pub(super) fn take_hex(text: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    let mut digits = 0;
    for &byte in *text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        digits += 1;
    }
    *text = &text[digits..];
    (digits > 0).then_some(value)
}

/// Parses a decimal number at the start of `text` and removes it; `None` if there is none or it passes 2^64-1.
#[inline]
pub(super) fn take_decimal(text: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    let mut digits = 0;
    for &byte in *text {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        digits += 1;
    }
    *text = &text[digits..];
    (digits > 0).then_some(value)
}
