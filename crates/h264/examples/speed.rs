//! Measures how fast files (default: the demo video) are decoded, in memory and on one thread: `speed [--parse-only] [--times N]
//! [FILE...]`.
//!
//! Prints the fastest of N decodings (default 5) of each file, in frames a second and in nanoseconds a macroblock. With `--parse-only`,
//! pictures are parsed and not reconstructed. The environment variable `TANADA_H264_KERNELS` chooses the kernels.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tanada_h264::{Error, Job, Limits, Step, Summary, decode_steps};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/terraces_wvga.264");

/// Decodes a stream once. Returns the summary and the number of macroblocks.
fn decode(stream: &[u8], parse_only: bool) -> (Result<Summary, Error>, u64) {
    let mut macroblocks = 0;
    let reconstruct = |job: &Job| {
        if !parse_only {
            // SAFETY: `decode_steps` passes each job here once, in decoding order; no other thread has it.
            unsafe { job.reconstruct() };
        }
    };
    let ControlFlow::Continue(result) =
        decode_steps(stream, Limits::default(), reconstruct, |step| {
            match step {
                Step::Picture(job) => macroblocks += u64::from(job.mb_count()),
                Step::Frame(frame) => {
                    black_box(frame);
                }
                _ => {}
            }
            ControlFlow::<std::convert::Infallible>::Continue(())
        });
    (result, macroblocks)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut times, mut parse_only, mut files) = (5u32, false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--parse-only" => parse_only = true,
            "--times" => times = arguments.next().ok_or("--times needs a number")?.parse()?,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        files.push(DEMO.to_owned());
    }
    for file in &files {
        let stream = std::fs::read(file)?;
        let mut fastest = Duration::MAX;
        let mut counts = (0, 0);
        for _ in 0..times {
            let start = Instant::now();
            let (summary, macroblocks) = decode(&stream, parse_only);
            fastest = fastest.min(start.elapsed());
            counts = (summary?.pictures, macroblocks);
        }
        println!(
            "{file}: {} pictures, {:.2} ms, {:.1} frames/s, {:.1} ns a macroblock",
            counts.0,
            fastest.as_secs_f64() * 1e3,
            counts.0 as f64 / fastest.as_secs_f64(),
            fastest.as_nanos() as f64 / counts.1 as f64,
        );
    }
    Ok(())
}
