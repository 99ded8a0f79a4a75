//! Parsing one line of text.

use memchr::memchr;

use super::{LONGEST_LINE, show, without_return};
use crate::{Grouping, Kind, NewTask, Record, Sink, TraceError};

/// Iterates over the words of a line.
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = |&b: &u8| b == b' ' || b == b'\t';
        let begin = self.0.iter().position(|b| !blank(b))?;
        let rest = &self.0[begin..];
        let end = rest.iter().position(blank).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

/// Parses lines and passes their items to a sink.
pub(super) struct Parser<'a, S> {
    sink: &'a mut S,
    line: u64,
    header: bool,
    task: bool,
}

/// The fault of a line, without file and line number.
type Fault = String;

impl<'a, S: Sink> Parser<'a, S> {
    pub(super) const fn new(sink: &'a mut S) -> Self {
        Self {
            sink,
            line: 0,
            header: false,
            task: false,
        }
    }

    /// Parses the next line, which is passed without its line feed.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), TraceError> {
        self.line += 1;
        let line = memchr(b'#', line).map_or_else(|| without_return(line), |at| &line[..at]);
        if line.len() > LONGEST_LINE {
            let what = format!("a line of more than {LONGEST_LINE} bytes; is this a text trace?");
            return Err(self.fault(what));
        }
        let mut words = Words(line);
        let Some(first) = words.next() else {
            return Ok(());
        };
        if !self.header {
            return self.header(first, words);
        }
        let item = match first {
            b"x" => compute(words),
            b"i" => access(Kind::Fetch, words),
            b"r" => access(Kind::Read, words),
            b"w" => access(Kind::Write, words),
            b"task" => return self.begin(words),
            b"dep" => return self.edge(words, false),
            b"fork" => return self.edge(words, true),
            _ => Err(format!(
                "unknown word {}; a line begins with task, x, i, r, w, dep or fork",
                show(first)
            )),
        };
        let record = item.map_err(|what| self.fault(what))?;
        if !self.task {
            let what = "a record before the first task; put a line `task ID` before it";
            return Err(self.fault(what.to_owned()));
        }
        self.sink.at_line(self.line);
        self.sink.record(record)
    }

    /// Returns an error at the end of the text if there was no header.
    pub(super) fn end(&self) -> Result<(), TraceError> {
        if self.header {
            return Ok(());
        }
        let what = "the text ends before the header; a trace begins with the line `tanada-trace 1`";
        Err(TraceError::at(self.line.max(1), what))
    }

    fn fault(&self, what: Fault) -> TraceError {
        TraceError::at(self.line, what)
    }

    fn header(&mut self, first: &[u8], mut words: Words<'_>) -> Result<(), TraceError> {
        let what = match (first, words.next(), words.next()) {
            (b"tanada-trace", Some(b"1"), None) => {
                self.header = true;
                return Ok(());
            }
            (b"tanada-trace", Some(b"1"), Some(word)) => surplus(word),
            (b"tanada-trace", Some(version), _) => {
                let version = show(version);
                format!("version {version} of the text form is not supported, only 1 is")
            }
            (b"tanada-trace", None, _) => {
                "the header lacks its version; write `tanada-trace 1`".to_owned()
            }
            _ => format!(
                "not a trace: found {} where the header `tanada-trace 1` must stand",
                show(first)
            ),
        };
        Err(self.fault(what))
    }

    fn begin(&mut self, words: Words<'_>) -> Result<(), TraceError> {
        let mut parts = Parts::default();
        let task = parts
            .parse(words)
            .map_err(|what| TraceError::at(self.line, what))?;
        self.sink.at_line(self.line);
        self.task = true;
        self.sink.task(&NewTask {
            groupings: &parts.groupings,
            hints: &parts.hints,
            ..task
        })
    }

    fn edge(&mut self, mut words: Words<'_>, fork: bool) -> Result<(), TraceError> {
        let word = if fork { "fork" } else { "dep" };
        let mut id = |which| match words.next() {
            Some(word) => narrow(word, "ID"),
            None => Err(format!(
                "`{word}` lacks the ID of {which}; write `{word} A B`"
            )),
        };
        let pair = id("the task that ends").and_then(|from| Ok((from, id("the task that waits")?)));
        let pair = pair.and_then(|pair| words.next().map_or(Ok(pair), |word| Err(surplus(word))));
        let (from, to) = pair.map_err(|what| self.fault(what))?;
        self.sink.at_line(self.line);
        self.sink.edge(from, to, fork)
    }
}

fn compute(mut words: Words<'_>) -> Result<Record, Fault> {
    let word = words.next().ok_or("`x` lacks its cycles; write `x N`")?;
    let record = Record::compute(number(word, "number of cycles")?);
    words.next().map_or(Ok(record), |word| Err(surplus(word)))
}

fn access(kind: Kind, mut words: Words<'_>) -> Result<Record, Fault> {
    let lacks = |what: &str| format!("`{0}` lacks its {what}; write `{0} ADDR SIZE`", kind.word());
    let value = number(words.next().ok_or_else(|| lacks("address"))?, "address")?;
    let word = words.next().ok_or_else(|| lacks("size"))?;
    let size = narrow(word, "size")?;
    if size == 0 {
        return Err("size 0; a record touches 1 to 4294967295 bytes".to_owned());
    }
    let record = Record { value, size, kind };
    if !record.is_valid() {
        return Err(format!(
            "{value:#x} and {size} bytes pass the last address, 2^64-1"
        ));
    }
    words.next().map_or(Ok(record), |word| Err(surplus(word)))
}

/// The groupings and hints of a `task` line.
#[derive(Default)]
struct Parts<'a> {
    groupings: Vec<Grouping<'a>>,
    hints: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn parse(&mut self, mut words: Words<'a>) -> Result<NewTask<'a>, Fault> {
        let id = words.next().ok_or("`task` lacks its ID; write `task ID`")?;
        let mut task = NewTask {
            id: narrow(id, "ID")?,
            ..NewTask::default()
        };
        // Which of T, S and depth the line has had so far; then T and S by index of the grouping.
        let mut given = [false; 3];
        let mut named: Vec<[bool; 2]> = Vec::new();
        for word in words {
            let text =
                std::str::from_utf8(word).map_err(|_| format!("{} is not UTF-8", show(word)))?;
            let twice = || format!("{} is given twice", show(word));
            let mut once = |which: usize| match std::mem::replace(&mut given[which], true) {
                true => Err(twice()),
                false => Ok(()),
            };
            let Some((key, value)) = text.split_once('=') else {
                return Err(surplus(word));
            };
            match key {
                "T" => (task.t, ()) = (narrow(value.as_bytes(), "T group")?, once(0)?),
                "S" => (task.s, ()) = (narrow(value.as_bytes(), "S group")?, once(1)?),
                "depth" => (task.depth, ()) = (narrow(value.as_bytes(), "depth")?, once(2)?),
                "name" if value.is_empty() => {
                    return Err("an empty name; leave `name=` out".to_owned());
                }
                "name" if task.name.is_some() => return Err(twice()),
                "name" => task.name = Some(value),
                _ => match key.split_once(':') {
                    Some((_, "")) => {
                        return Err(format!("{} lacks a name between `:` and `=`", show(word)));
                    }
                    Some((letter @ ("T" | "S"), name)) => {
                        let which = self.grouping(name);
                        named.resize(self.groupings.len(), [false; 2]);
                        let grouping = &mut self.groupings[which];
                        let (side, group) = match letter {
                            "T" => (0, &mut grouping.t),
                            _ => (1, &mut grouping.s),
                        };
                        if std::mem::replace(&mut named[which][side], true) {
                            return Err(twice());
                        }
                        *group = narrow(value.as_bytes(), "group")?;
                    }
                    Some(("h", _)) if value.is_empty() => {
                        return Err(format!("{} lacks a value", show(word)));
                    }
                    Some(("h", name)) => self.hints.push((name, value)),
                    _ => return Err(surplus(word)),
                },
            }
        }
        Ok(task)
    }

    fn grouping(&mut self, name: &'a str) -> usize {
        let mut known = self.groupings.iter();
        known
            .position(|grouping| grouping.name == name)
            .unwrap_or_else(|| {
                self.groupings.push(Grouping { name, t: 0, s: 0 });
                self.groupings.len() - 1
            })
    }
}

/// Parses and returns an unsigned number of 64 bits, decimal or hexadecimal with `0x`, without a sign.
fn number(word: &[u8], what: &str) -> Result<u64, Fault> {
    let (digits, radix) = match word.strip_prefix(b"0x") {
        Some(digits) => (digits, 16),
        None => (word, 10),
    };
    let digit = |b: u8| char::from(b).to_digit(radix);
    if digits.is_empty() || digits.iter().any(|&b| digit(b).is_none()) {
        let word = show(word);
        return Err(format!(
            "{word} is not a valid {what}; write decimal or 0x-hex digits without a sign"
        ));
    }
    let append = |value: u64, &b: &u8| {
        let value = value.checked_mul(u64::from(radix))?;
        value.checked_add(u64::from(digit(b)?))
    };
    let value = digits.iter().try_fold(0, append);
    value.ok_or_else(|| format!("the {what} {} passes 2^64-1", show(word)))
}

fn narrow(word: &[u8], what: &str) -> Result<u32, Fault> {
    u32::try_from(number(word, what)?)
        .map_err(|_| format!("the {what} {} passes 2^32-1", show(word)))
}

#[cold]
fn surplus(word: &[u8]) -> Fault {
    format!("unknown or surplus word {}", show(word))
}
