//! Lines of a foreign text.

use crate::TraceError;
use crate::text::{CHUNK, for_each_line, without_return};
use std::io::Read;

/// Calls `each` with the number and the text of each line, without its line feed or carriage return and line feed.
pub(super) fn for_each(
    from: impl Read,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut number = 0;
    for_each_line(from, |line| {
        number += 1;
        if line.len() == CHUNK {
            let what = format!("a line of more than {CHUNK} bytes; is this a memory trace?");
            return Err(TraceError::at(number, what));
        }
        each(number, without_return(line))
    })
}

/// Removes and returns a hexadecimal number at the start of `text`; `None` if there is none or it passes 2^64-1.
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

/// Removes and returns a decimal number at the start of `text`; `None` if there is none or it passes 2^64-1.
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
