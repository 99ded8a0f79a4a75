//! How a mark is written into Valgrind's log.

use super::valgrind;
use std::ffi::CStr;
use std::fmt::{self, Write as _};

/// Bytes of the longest line.
const LENGTH: usize = 512;

/// Writes a mark. Allocates nothing, because that would move what the program allocates.
pub(super) fn say(mark: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LENGTH],
        used: 0,
    };
    // A name that is too long is cut off.
    let _ = write!(line, "tanada {mark}");
    valgrind::print(line.end());
}

/// A line as Valgrind's `printf` wants it.
struct Line {
    bytes: [u8; LENGTH],
    used: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // The line is a format: a percent sign would ask for an argument.
            let byte = match byte {
                b'%' | 0..b' ' | 0x7f => b'_',
                other => other,
            };
            // Two bytes are for the end of the line and the terminating zero.
            let place = self.bytes[..LENGTH - 2]
                .get_mut(self.used)
                .ok_or(fmt::Error)?;
            *place = byte;
            self.used += 1;
        }
        Ok(())
    }
}

impl Line {
    fn end(&mut self) -> &CStr {
        self.bytes[self.used] = b'\n';
        self.bytes[self.used + 1] = 0;
        CStr::from_bytes_until_nul(&self.bytes).expect("a zero was just written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_a_format_may_be() {
        let line = |text: &str| {
            let mut line = Line {
                bytes: [0; LENGTH],
                used: 0,
            };
            let _ = line.write_str(text);
            line.end().to_str().expect("ASCII").to_owned()
        };
        assert_eq!(line("a 100% \n\0b"), "a 100_ __b\n");
        assert_eq!(line(&"x".repeat(2 * LENGTH)), "x".repeat(LENGTH - 2) + "\n");
    }
}
