//! Measures the bytes of a record and the speed of decoding: of trace files, or of synthetic tasks of a few kinds.
//!
//! `cargo run --release -p tanada-trace --example coding -- [FILE...]`

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tanada_trace::{BinaryWriter, Groups, NewTask, Record, Sink, Trace};

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:>24} {:>12} {:>12} {:>12}",
        "", "records", "bytes/record", "ns/record"
    );
    let files: Vec<_> = std::env::args().skip(1).collect();
    for file in &files {
        let path = Path::new(file);
        let trace = Trace::open(path, &Groups::Plain)?;
        measure(file, &trace, std::fs::metadata(path)?.len())?;
    }
    if files.is_empty() {
        for (name, make) in [
            ("rows", rows as fn(u64, &mut Vec<Record>)),
            ("stencil", stencil),
            ("branchy code", branchy),
            ("noise", noise),
        ] {
            let mut writer = BinaryWriter::new(Vec::new())?;
            let mut records = Vec::new();
            for id in 0..20_000 {
                records.clear();
                make(id, &mut records);
                writer.task(&NewTask {
                    id: id as u32,
                    ..NewTask::default()
                })?;
                for &record in &records {
                    writer.record(record)?;
                }
            }
            let bytes = writer.finish()?;
            measure(
                name,
                &Trace::parse(&bytes, name, &Groups::Plain)?,
                bytes.len() as u64,
            )?;
        }
    }
    Ok(())
}

fn measure(name: &str, trace: &Trace, bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let mut reader = trace.reader()?;
        let mut window = Vec::new();
        let mut sum = 0_u64;
        let begin = Instant::now();
        for task in 0..trace.len() as u32 {
            let mut cursor = reader.start(task);
            loop {
                reader.fill(&mut cursor, &mut window)?;
                let Some(last) = window.last() else { break };
                sum = sum.wrapping_add(last.value);
            }
        }
        std::hint::black_box(sum);
        best = best.min(begin.elapsed().as_secs_f64());
    }
    let records = trace.records() as f64;
    println!(
        "{name:>24} {records:>12} {:>12.3} {:>12.3}",
        bytes as f64 / records,
        best * 1e9 / records
    );
    Ok(())
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 27
}

/// Motion compensation: rows of two pictures at unpredictable places, between fetches of code.
fn rows(task: u64, out: &mut Vec<Record>) {
    let mut state = task;
    for block in 0..16 {
        let from = 0x1000_0000 + random(&mut state) % 400 * 832 + random(&mut state) % 832;
        out.push(Record::fetch(0x40_0000, 256));
        out.extend((0..9).map(|row| Record::read(from + row * 832, 9)));
        out.push(Record::fetch(0x40_0100, 512));
        out.push(Record::compute(random(&mut state) % 200));
        let to = 0x2000_0000
            + task / 50 * 16 * 832
            + task % 50 * 16
            + block / 4 * 4 * 832
            + block % 4 * 4;
        out.extend((0..4).map(|row| Record::write(to + row * 832, 4)));
    }
}

/// Five reads and a write for each cell.
fn stencil(task: u64, out: &mut Vec<Record>) {
    let (from, to) = (0x1000_0000 + task * 0x2000, 0x5000_0000 + task * 0x2000);
    for x in 0..64 {
        let at = from + x * 8;
        out.extend([at - 8, at, at + 8, at - 0x2000, at + 0x2000].map(|at| Record::read(at, 8)));
        out.push(Record::compute(5));
        out.push(Record::write(to + x * 8, 8));
    }
}

/// Single instructions, as lackey logs them, with occasional branches and scattered data.
fn branchy(task: u64, out: &mut Vec<Record>) {
    let mut state = task;
    let mut at = 0x40_0000;
    for _ in 0..400 {
        let word = random(&mut state);
        // An instruction's kind depends on its address.
        let instruction = random(&mut (at * 7));
        let size = 1 + (instruction % 8) as u32;
        out.push(Record::fetch(at, size));
        at += u64::from(size);
        match instruction >> 8 & 7 {
            0 => at = 0x40_0000 + (word % 64) * 96,
            1 => out.push(Record::read(0x7ff0_0000 + word % 128 * 8, 8)),
            2 => out.push(Record::write(0x7ff0_0000 + word % 128 * 8, 8)),
            3 => out.push(Record::read(0x1000_0000 + word % 100_000 * 4, 4)),
            _ => {}
        }
    }
}

/// Nothing is predictable.
fn noise(task: u64, out: &mut Vec<Record>) {
    let mut state = task;
    out.extend((0..400).map(|_| match random(&mut state) % 4 {
        0 => Record::compute(random(&mut state) % 1000),
        1 => Record::fetch(
            random(&mut state) >> 30,
            1 + random(&mut state) as u32 % 200,
        ),
        2 => Record::read(
            random(&mut state) >> 30,
            1 + random(&mut state) as u32 % 200,
        ),
        _ => Record::write(
            random(&mut state) >> 30,
            1 + random(&mut state) as u32 % 200,
        ),
    }));
}
