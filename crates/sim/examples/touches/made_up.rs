//! Traces that are made up.

use std::io::BufWriter;
use std::path::Path;
use tanada_policy::{WorkerId, draw};
use tanada_trace::{BinaryWriter, NewTask, Record, Sink, TraceError};

/// A trace that can be made up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// Resembles a decoder: tasks in rows that wait for their neighbours, each of which runs over a few kilobytes of code again and again,
    /// reads a block of one picture and writes one of the other.
    Decoder,
    /// Tasks of 500 accesses of 4 or 8 bytes to one array, in eight chains.
    Array {
        /// Of the array.
        bytes: u64,
        order: Order,
        code: Code,
    },
}

/// Where an access is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// This number of bytes behind the last one.
    Step(u64),
    /// Anywhere.
    Random,
}

/// What is fetched before each access.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code {
    Nothing,
    /// The next 32 bytes of 4 KiB.
    Line,
    /// 32 to 1,024 bytes anywhere in 16 KiB.
    Function,
}

/// Names and patterns.
pub(super) const PATTERNS: [(&str, Pattern); 12] = {
    const fn array(kibibytes: u64, order: Order, code: Code) -> Pattern {
        Pattern::Array {
            bytes: kibibytes << 10,
            order,
            code,
        }
    }
    use Code::{Function, Line, Nothing};
    use Order::{Random, Step};
    [
        ("decoder", Pattern::Decoder),
        ("sequential", array(1 << 20, Step(8), Nothing)),
        ("strided", array(1 << 20, Step(72), Nothing)),
        ("random-4k", array(4, Random, Nothing)),
        ("random-64k", array(64, Random, Nothing)),
        ("random-16m", array(16 << 10, Random, Nothing)),
        ("sequential-line", array(1 << 20, Step(8), Line)),
        ("random-4k-line", array(4, Random, Line)),
        ("random-64k-line", array(64, Random, Line)),
        ("sequential-function", array(1 << 20, Step(8), Function)),
        ("random-4k-function", array(4, Random, Function)),
        ("random-64k-function", array(64, Random, Function)),
    ]
};

/// Writes a trace.
pub(super) fn make_up(path: &Path, pattern: Pattern) -> Result<(), TraceError> {
    let file = BufWriter::new(std::fs::File::create(path)?);
    let mut out = BinaryWriter::new(file)?;
    match pattern {
        Pattern::Decoder => decoder(&mut out)?,
        Pattern::Array { bytes, order, code } => array(&mut out, bytes, order, code)?,
    }
    out.finish()?;
    Ok(())
}

fn array(out: &mut impl Sink, bytes: u64, order: Order, code: Code) -> Result<(), TraceError> {
    const TASKS: u32 = 4000;
    const ACCESSES: u64 = 500;
    const CHAINS: u32 = 8;
    let mut calls = 0..;
    let mut random = |below: u64| draw(5, WorkerId(0), calls.next().unwrap_or(0)) % below;
    let (mut at, mut of_code) = (0, 0);
    for id in 0..TASKS {
        let (t, s) = (1 + id / 64, 1 + id % CHAINS);
        out.task(&NewTask {
            id,
            t,
            s,
            ..NewTask::default()
        })?;
        for _ in 0..ACCESSES {
            let size = 4 << random(2);
            at = match order {
                Order::Step(step) => (at + step) % bytes,
                Order::Random => random(bytes / 8) * 8,
            };
            match code {
                Code::Nothing => {}
                Code::Line => {
                    of_code = (of_code + 32) % 4096;
                    out.record(Record::fetch(0x10_0000 + of_code, 32))?;
                }
                Code::Function => {
                    let size = 32 << random(6);
                    let begin = random((16384 - size) / 4) * 4;
                    out.record(Record::fetch(0x10_0000 + begin, size as u32))?;
                }
            }
            out.record(match random(3) {
                0 => Record::write(0x100_0000 + at, size),
                _ => Record::read(0x100_0000 + at, size),
            })?;
        }
        if id >= CHAINS {
            out.edge(id - CHAINS, id, false)?;
        }
    }
    Ok(())
}

/// Rows and columns of tasks.
const ROWS: u32 = 30;
const COLUMNS: u32 = 50;
const STAGES: u32 = 8;

fn decoder(out: &mut impl Sink) -> Result<(), TraceError> {
    let id = |stage: u32, row: u32, column: u32| (stage * ROWS + row) * COLUMNS + column;
    for stage in 0..STAGES {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let (t, s) = (1 + row / 2, 1 + stage);
                out.task(&NewTask {
                    id: id(stage, row, column),
                    t,
                    s,
                    name: Some("stage"),
                    ..NewTask::default()
                })?;
                block(out, stage, row, column)?;
            }
        }
    }
    for stage in 0..STAGES {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let to = id(stage, row, column);
                if stage > 0 {
                    out.edge(id(stage - 1, row, column), to, false)?;
                }
                if column > 0 {
                    out.edge(id(stage, row, column - 1), to, false)?;
                }
                if row > 0 && column + 1 < COLUMNS {
                    out.edge(id(stage, row - 1, column + 1), to, false)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes five macroblocks of one stage.
fn block(out: &mut impl Sink, stage: u32, row: u32, column: u32) -> Result<(), TraceError> {
    let code = 0x10_0000 + u64::from(stage) * 0x3000;
    let line = 800_u64;
    for block in 0..5_u64 {
        let x = (u64::from(column) * 5 + block) * 16 % line;
        for y in 0..16 {
            let at = (u64::from(row) * 16 + y) * line + x;
            for step in 0..8 {
                out.record(Record::fetch(code + (y % 4) * 0x200 + step * 64, 64))?;
                out.record(Record::read(0x100_0040 + at + step * 2, 8))?;
                out.record(Record::read(0x200_0480 + at + step * 2, 4))?;
                out.record(Record::compute(12))?;
            }
            out.record(Record::write(0x300_0a00 + at, 16))?;
        }
    }
    Ok(())
}
