//! The words of a mark.

use crate::TraceError;
use crate::text::show;

type Result<T = ()> = std::result::Result<T, TraceError>;

/// The words of a mark that are left to read.
pub(super) struct Words<'a> {
    rest: &'a str,
    line: u64,
    mark: &'a str,
}

/// Returns `text` as one word of a trace.
pub(super) fn one_word(text: &str) -> String {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '#';
    match text.trim() {
        "" => "task".to_owned(),
        name => name.replace(bad, "_"),
    }
}

impl<'a> Words<'a> {
    /// Returns the words of `rest`, which follow the first one of `mark` in this line of the list.
    pub(super) fn new(rest: &'a str, line: u64, mark: &'a str) -> Self {
        Words { rest, line, mark }
    }

    pub(super) fn fault(&self, what: &str) -> TraceError {
        let mark = show(self.mark.as_bytes());
        TraceError::at(self.line, format!("{what}: mark {mark}"))
    }

    pub(super) fn word(&mut self) -> Result<&'a str> {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        if word.is_empty() {
            return Err(self.fault("a mark that lacks a word"));
        }
        self.rest = rest;
        Ok(word)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let number = self.word()?.parse();
        number.map_err(|_| self.fault("a mark with a word that is not a number"))
    }

    /// Reads and returns a number of 64 bits, or a negative one of 32.
    pub(super) fn signed(&mut self) -> Result<i128> {
        let range = i128::from(i32::MIN)..=i128::from(u64::MAX);
        let value = self
            .word()?
            .parse()
            .ok()
            .filter(|value| range.contains(value));
        value.ok_or_else(|| self.fault("a mark with a word that is not a number"))
    }

    pub(super) fn short(&mut self) -> Result<u32> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.fault("a mark with a number above 2^32-1"))
    }

    pub(super) fn hex(&mut self) -> Result<u64> {
        let word = self.word()?;
        u64::from_str_radix(word, 16).map_err(|_| self.fault("a mark with a bad address"))
    }

    /// Returns the rest of the mark, which may be of several words.
    pub(super) fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Checks that the mark has no more words.
    pub(super) fn are_used_up(&self) -> Result {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.fault("a mark with surplus words")),
        }
    }
}
