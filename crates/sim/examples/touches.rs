//! Line touches a second of the engine, from a binary trace.
//!
//! ```text
//! cargo run --release -p tanada-sim --example touches -- [TRACE [MACHINE [CORES [POLICY [ROUNDS]]]]]
//! ```
//!
//! Without a trace one is made up that resembles a decoder: tasks in rows that wait for their neighbours, each of which runs over a few
//! kilobytes of code again and again, reads a block of one picture and writes one of the other.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tanada_sim::{Options, machines, simulate};
use tanada_trace::{BinaryWriter, Groups, NewTask, Record, Sink, Trace, TraceError};

/// Rows and columns of tasks.
const ROWS: u32 = 30;
const COLUMNS: u32 = 50;
const STAGES: u32 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |number: usize, other: &str| words.get(number).cloned().unwrap_or(other.to_owned());
    let made_up = std::env::temp_dir().join(format!("tanada-touches-{}.tnb", std::process::id()));
    let path = match words.first() {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => {
            make_up(&made_up)?;
            made_up.clone()
        }
    };
    let cores = word(2, "4").parse()?;
    let machine = machines::find(&word(1, "toshiba"))?.with_cores(cores)?;
    let trace = Trace::open(&path, &Groups::Plain)?;
    let policy = word(3, "fcfs");
    let rounds: u32 = word(4, "5").parse()?;
    let mut best = f64::INFINITY;
    let mut touches = 0;
    for _ in 0..rounds {
        let start = Instant::now();
        let outcome = simulate(&trace, &machine, &policy, &Options::default(), &mut ())?;
        best = best.min(start.elapsed().as_secs_f64());
        touches = outcome
            .caches
            .iter()
            .filter(|cache| cache.level == 1)
            .map(|cache| cache.count.accesses)
            .sum();
        println!("{}", outcome.to_json_line());
    }
    println!(
        "{touches} touches, {:.1} million a second",
        touches as f64 / best / 1e6
    );
    if words.first().is_none_or(String::is_empty) {
        std::fs::remove_file(&made_up)?;
    }
    Ok(())
}

fn make_up(path: &Path) -> Result<(), TraceError> {
    let file = BufWriter::new(std::fs::File::create(path)?);
    let mut out = BinaryWriter::new(file)?;
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
                block(&mut out, stage, row, column)?;
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
    out.finish()?;
    Ok(())
}

/// Five macroblocks of one stage.
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
