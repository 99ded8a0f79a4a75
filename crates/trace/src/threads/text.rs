//! The text form: one item a line.

use std::io::{Read, Write};

use super::{Event, InstructionSet, Sync, ThreadTrace, ThreadWriter};
use crate::TraceError;
use crate::text::{LONGEST_LINE, for_each_line, show, without_return};

const HEADER: &str = "tanada-threads";
const VERSION: u64 = 1;

/// Returns whether the first bytes of a file are those of a text thread trace, perhaps behind comments.
pub(super) fn is_one(begin: &[u8]) -> bool {
    let line = |line: &[u8]| {
        let words = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        words.trim_ascii().to_owned()
    };
    let mut lines = begin.split(|&byte| byte == b'\n').map(line);
    let first = lines.find(|line| !line.is_empty());
    first.is_some_and(|first| first.starts_with(HEADER.as_bytes()))
}

/// Reads a text into the binary form and returns `out`; error messages call the text `name`. Linear time, memory as [`ThreadWriter`].
///
/// # Errors
/// `from` cannot be read, a line is invalid (the error names it), or `out` cannot be written.
pub fn read_thread_text<W: Write>(from: impl Read, name: &str, out: W) -> Result<W, TraceError> {
    let mut parser = Parser {
        out: Some(out),
        program: String::new(),
        instructions: None,
        header: false,
        partial: false,
        unsynchronised: false,
        writer: None,
        line: 0,
    };
    for_each_line(from, |line| parser.line(line))
        .and_then(|()| parser.end())
        .map_err(|error| error.of_file(name))
}

struct Parser<W: Write> {
    out: Option<W>,
    program: String,
    instructions: Option<InstructionSet>,
    header: bool,
    partial: bool,
    unsynchronised: bool,
    writer: Option<ThreadWriter<W>>,
    line: u64,
}

/// The words of a line.
struct Words<'a> {
    words: std::str::SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.words
            .next()
            .ok_or_else(|| format!("{what} is missing"))
    }

    fn wide(&mut self, what: &str) -> Result<u64, String> {
        number(self.word(what)?, what)
    }

    fn narrow(&mut self, what: &str) -> Result<u32, String> {
        narrow(self.word(what)?, what)
    }

    /// Returns the number in the next word; `None` if the line has no more words.
    fn narrow_if_any(&mut self, what: &str) -> Result<Option<u32>, String> {
        let word = self.words.next();
        word.map(|word| narrow(word, what)).transpose()
    }
}

fn narrow(word: &str, what: &str) -> Result<u32, String> {
    let value = number(word, what)?;
    u32::try_from(value).map_err(|_| format!("{what} {} is above 2^32-1", show(word.as_bytes())))
}

fn number(word: &str, what: &str) -> Result<u64, String> {
    let (digits, radix) = match word.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (word, 10),
    };
    let shown = || show(word.as_bytes());
    if digits.is_empty() || !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return Err(format!(
            "{what} {} is no number (decimal, or hexadecimal with 0x)",
            shown()
        ));
    }
    u64::from_str_radix(digits, radix).map_err(|_| format!("{what} {} is above 2^64-1", shown()))
}

impl<W: Write> Parser<W> {
    fn fault(&self, what: String) -> TraceError {
        TraceError::at(self.line, what)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), TraceError> {
        self.line += 1;
        let line = without_return(line);
        let end = memchr::memchr(b'#', line).unwrap_or(line.len());
        if end > LONGEST_LINE {
            return Err(self.fault(format!("the line has more than {LONGEST_LINE} bytes")));
        }
        let text = std::str::from_utf8(&line[..end]).map_err(|_| {
            self.fault(match self.header {
                true => "the line is no UTF-8".to_owned(),
                false => format!("no thread trace: the first line must be `{HEADER} {VERSION}`"),
            })
        })?;
        let mut words = Words {
            words: text.split_ascii_whitespace(),
        };
        let Some(first) = words.words.next() else {
            return Ok(());
        };
        let done = match first {
            _ if !self.header => self.begin(first, &mut words).map_err(Fault::Line),
            "program" => {
                let rest = text.trim_ascii()[first.len()..].trim_ascii();
                words.words = "".split_ascii_whitespace();
                rest.clone_into(&mut self.program);
                self.only_before_threads(first).map_err(Fault::Line)
            }
            "isa" => self.isa(&mut words).map_err(Fault::Line),
            "partial" => {
                self.partial = true;
                self.only_before_threads(first).map_err(Fault::Line)
            }
            "unsynchronised" => {
                self.unsynchronised = true;
                self.only_before_threads(first).map_err(Fault::Line)
            }
            "thread" => self.thread(&mut words),
            _ => match event(first, &mut words) {
                Ok(event) => match &mut self.writer {
                    Some(writer) => writer.event(event).map_err(Fault::Trace),
                    None => Err(Fault::Line(format!("`{first}` before the first `thread`"))),
                },
                Err(what) => Err(Fault::Line(what)),
            },
        };
        let surplus = words.words.next();
        match (done, surplus) {
            (Err(Fault::Line(what)), _) => Err(self.fault(what)),
            (Err(Fault::Trace(error)), _) => Err(self.placed(error)),
            (Ok(()), Some(word)) => {
                Err(self.fault(format!("surplus word {}", show(word.as_bytes()))))
            }
            (Ok(()), None) => Ok(()),
        }
    }

    /// Returns an error of the content with this line's number.
    fn placed(&self, error: TraceError) -> TraceError {
        match error {
            TraceError::Content { what, .. } => self.fault(what),
            error => error,
        }
    }

    fn begin(&mut self, first: &str, words: &mut Words<'_>) -> Result<(), String> {
        if first != HEADER {
            return Err(format!(
                "the first line must be `{HEADER} {VERSION}`, not {}",
                show(first.as_bytes())
            ));
        }
        let version = words.wide("the version")?;
        if version != VERSION {
            return Err(format!(
                "version {version} of the text form is not supported, only {VERSION} is"
            ));
        }
        self.header = true;
        Ok(())
    }

    fn only_before_threads(&self, word: &str) -> Result<(), String> {
        match self.writer {
            None => Ok(()),
            Some(_) => Err(format!("`{word}` must stand before the first `thread`")),
        }
    }

    fn isa(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let name = words.word("the instruction set")?;
        self.only_before_threads("isa")?;
        self.instructions = InstructionSet::from_name(name);
        let names = InstructionSet::ALL.map(InstructionSet::name).join(", ");
        let unknown = || {
            format!(
                "unknown instruction set {}; there are {names}",
                show(name.as_bytes())
            )
        };
        self.instructions.map(|_| ()).ok_or_else(unknown)
    }

    /// Returns the writer, which is started at the first thread or at the end.
    fn writer(&mut self) -> Result<&mut ThreadWriter<W>, TraceError> {
        if let Some(out) = self.out.take() {
            let set = self.instructions.unwrap_or(InstructionSet::X86_64);
            let mut writer = ThreadWriter::new(out, &self.program, set)?;
            writer.declare(self.partial, self.unsynchronised);
            self.writer = Some(writer);
        }
        let failed = || TraceError::at(0, "the output failed before");
        self.writer.as_mut().ok_or_else(failed)
    }

    fn thread(&mut self, words: &mut Words<'_>) -> Result<(), Fault> {
        let number = words.narrow("the thread's number").map_err(Fault::Line)?;
        let (mut parent, mut stack) = (None, None);
        for word in words.words.by_ref() {
            let twice = match word.split_once('=') {
                Some(("parent", value)) => {
                    let value = self::number(value, "the parent").map_err(Fault::Line)?;
                    let value = u32::try_from(value)
                        .map_err(|_| Fault::Line("the parent is above 2^32-1".to_owned()))?;
                    parent.replace(value).is_some()
                }
                Some(("stack", value)) => {
                    let value = self::number(value, "the stack").map_err(Fault::Line)?;
                    stack.replace(value).is_some()
                }
                _ => {
                    let word = show(word.as_bytes());
                    return Err(Fault::Line(format!(
                        "unknown word {word}; a thread has `parent=` and `stack=`"
                    )));
                }
            };
            if twice {
                return Err(Fault::Line(format!(
                    "{} stands twice",
                    show(word.as_bytes())
                )));
            }
        }
        let next = self
            .writer()
            .and_then(|writer| writer.thread(parent, stack));
        let next = next.map_err(Fault::Trace)?;
        match next == number {
            true => Ok(()),
            false => Err(Fault::Line(format!(
                "threads stand in order: this must be thread {next}"
            ))),
        }
    }

    fn end(&mut self) -> Result<W, TraceError> {
        if !self.header {
            return Err(self.fault(format!("the header `{HEADER} {VERSION}` is missing")));
        }
        self.writer()?;
        let failed = || TraceError::at(0, "the output failed before");
        self.writer.take().ok_or_else(failed)?.finish()
    }
}

/// Why a line is refused.
enum Fault {
    Line(String),
    Trace(TraceError),
}

fn event(first: &str, words: &mut Words<'_>) -> Result<Event, String> {
    let object = |words: &mut Words<'_>| words.narrow("the object");
    let sync = match first {
        "b" => {
            return Ok(Event::Block {
                address: words.wide("the address")?,
                bytes: words.narrow("the size")?,
                instructions: words.narrow("the number of instructions")?,
            });
        }
        "r" | "w" => {
            let after = words.narrow("the number of instructions")?;
            let address = words.wide("the address")?;
            let size = words.narrow("the size")?;
            return Ok(Event::Access {
                after,
                address,
                bytes: u8::try_from(size)
                    .map_err(|_| format!("the size {size} is not within 1 to 255"))?,
                store: first == "w",
            });
        }
        "x" => {
            return Ok(Event::Instructions(
                words.narrow("the number of instructions")?,
            ));
        }
        "create" => Sync::Create(words.narrow("the thread")?),
        "join" => Sync::Join(words.narrow("the thread")?),
        "lock" => Sync::Lock(object(words)?),
        "share" => Sync::Share(object(words)?),
        "unlock" => Sync::Unlock(object(words)?),
        "barrier" => Sync::Barrier {
            object: object(words)?,
            parties: words.narrow("the number of threads")?,
        },
        "wait" => Sync::Wait {
            condition: object(words)?,
            lock: words.narrow("the lock")?,
            signals: words.narrow_if_any("the number of signals")?,
        },
        "signal" => Sync::Signal(object(words)?),
        "broadcast" => Sync::Broadcast(object(words)?),
        "post" => Sync::Post(object(words)?),
        "take" => Sync::Take(object(words)?),
        "region" => Sync::RegionBegin {
            id: object(words)?,
            threads: words.narrow("the number of threads")?,
        },
        "endregion" => Sync::RegionEnd,
        "loop" => Sync::LoopBegin(object(words)?),
        "iteration" => Sync::Iteration {
            first: words.wide("the first iteration")?,
            count: words.wide("the number of iterations")?,
        },
        "endloop" => Sync::LoopEnd,
        "mark" => Sync::Mark {
            kind: words.narrow("the kind")?,
            a: words.wide("the first argument")?,
            b: words.wide("the second argument")?,
        },
        "exit" => Sync::Exit,
        other => return Err(format!("unknown line {}", show(other.as_bytes()))),
    };
    Ok(Event::Sync(sync))
}

/// Writes `trace` as text. Some 20 million lines a second.
///
/// # Errors
/// The trace is damaged, or `out` cannot be written.
pub fn write_thread_text(trace: &ThreadTrace, mut out: impl Write) -> Result<(), TraceError> {
    let head = trace.head();
    writeln!(out, "{HEADER} {VERSION}")?;
    if !head.program.is_empty() {
        // What a comment would begin with cannot be written.
        writeln!(out, "program {}", head.program.replace('#', "?"))?;
    }
    writeln!(out, "isa {}", trace.instruction_set().name())?;
    for (word, set) in [
        ("partial", head.partial),
        ("unsynchronised", head.unsynchronised),
    ] {
        if set {
            writeln!(out, "{word}")?;
        }
    }
    let mut events = Vec::new();
    for (number, thread) in trace.threads().iter().enumerate() {
        write!(out, "thread {number}")?;
        if let Some(parent) = thread.parent {
            write!(out, " parent={parent}")?;
        }
        if let Some(stack) = thread.stack {
            write!(out, " stack={stack:#x}")?;
        }
        writeln!(out)?;
        let mut reader = trace.reader(number as u32)?;
        loop {
            reader.fill(&mut events)?;
            if events.is_empty() {
                break;
            }
            for &event in &events {
                write_event(&mut out, event)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn write_event(out: &mut impl Write, event: Event) -> std::io::Result<()> {
    let sync = match event {
        Event::Block {
            address,
            bytes,
            instructions,
        } => return writeln!(out, "b {address:#x} {bytes} {instructions}"),
        Event::Access {
            after,
            address,
            bytes,
            store,
        } => {
            return writeln!(
                out,
                "{} {after} {address:#x} {bytes}",
                if store { 'w' } else { 'r' }
            );
        }
        Event::Instructions(count) => return writeln!(out, "x {count}"),
        Event::Sync(sync) => sync,
    };
    match sync {
        Sync::Create(thread) => writeln!(out, "create {thread}"),
        Sync::Join(thread) => writeln!(out, "join {thread}"),
        Sync::Lock(object) => writeln!(out, "lock {object}"),
        Sync::Share(object) => writeln!(out, "share {object}"),
        Sync::Unlock(object) => writeln!(out, "unlock {object}"),
        Sync::Barrier { object, parties } => writeln!(out, "barrier {object} {parties}"),
        Sync::Wait {
            condition,
            lock,
            signals: None,
        } => writeln!(out, "wait {condition} {lock}"),
        Sync::Wait {
            condition,
            lock,
            signals: Some(signals),
        } => writeln!(out, "wait {condition} {lock} {signals}"),
        Sync::Signal(object) => writeln!(out, "signal {object}"),
        Sync::Broadcast(object) => writeln!(out, "broadcast {object}"),
        Sync::Post(object) => writeln!(out, "post {object}"),
        Sync::Take(object) => writeln!(out, "take {object}"),
        Sync::RegionBegin { id, threads } => writeln!(out, "region {id} {threads}"),
        Sync::RegionEnd => writeln!(out, "endregion"),
        Sync::LoopBegin(object) => writeln!(out, "loop {object}"),
        Sync::Iteration { first, count } => writeln!(out, "iteration {first} {count}"),
        Sync::LoopEnd => writeln!(out, "endloop"),
        Sync::Mark { kind, a, b } => writeln!(out, "mark {kind} {a:#x} {b:#x}"),
        Sync::Exit => writeln!(out, "exit"),
    }
}
