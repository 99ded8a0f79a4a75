//! How a mark is sent.

use super::call;
use std::fmt::{self, Write as _};

/// Bytes of the longest line.
const LENGTH: usize = 512;

/// Sends a mark. Allocates nothing, because that would move what the program allocates.
pub(super) fn say(mark: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LENGTH],
        used: 0,
    };
    // A name that is too long is cut off.
    let _ = line.write_fmt(mark);
    call::send(line.end());
}

/// A line as the recorder reads it.
struct Line {
    bytes: [u8; LENGTH],
    used: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let byte = match byte {
                0..b' ' | 0x7f => b'_',
                other => other,
            };
            // One byte is for the end of the line.
            let place = self.bytes[..LENGTH - 1]
                .get_mut(self.used)
                .ok_or(fmt::Error)?;
            *place = byte;
            self.used += 1;
        }
        Ok(())
    }
}

impl Line {
    /// Returns the line with its end.
    fn end(&mut self) -> &[u8] {
        self.bytes[self.used] = b'\n';
        &self.bytes[..=self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_end_and_no_controls() {
        let line = |text: &str| {
            let mut line = Line {
                bytes: [0; LENGTH],
                used: 0,
            };
            let _ = line.write_str(text);
            String::from_utf8(line.end().to_vec()).expect("ASCII")
        };
        assert_eq!(line("a 100% \n\0b"), "a 100% __b\n");
        assert_eq!(line(&"x".repeat(2 * LENGTH)), "x".repeat(LENGTH - 1) + "\n");
    }
}
