//! Decodes an H.264 file: `decode [IN [OUT.yuv]]`. Prints frames a second, the MD5 of all frames as I420, and errors. Without a name,
//! decodes the small stream of the tests.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use md5::{Digest, Md5};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let input = arguments
        .next()
        .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pattern.264").into());
    let mut output = arguments
        .next()
        .map(File::create)
        .transpose()?
        .map(BufWriter::new);
    let stream = std::fs::read(input)?;
    let mut md5 = Md5::new();
    let mut size = (0, 0);
    let mut outside = Duration::ZERO;
    let mut failure = None;
    let start = Instant::now();
    let summary = tanada_h264::decode(&stream, tanada_h264::Limits::default(), |frame| {
        let paused = Instant::now();
        size = (frame.width(), frame.height());
        frame.visit_rows(|row| md5.update(row));
        if let Some(output) = &mut output {
            failure = frame.write_i420(output).err().or(failure.take());
        }
        outside += paused.elapsed();
    })?;
    let seconds = (start.elapsed() - outside).as_secs_f64();
    if let Some(error) = failure {
        return Err(error.into());
    }
    output.map(|mut output| output.flush()).transpose()?;
    let digest: String = md5
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!(
        "{} frames of {}x{}, {:.1} frames/s without output, md5 {digest}, {} macroblocks concealed, {} errors",
        summary.frames,
        size.0,
        size.1,
        summary.frames as f64 / seconds,
        summary.concealed,
        summary.error_count
    );
    for error in &summary.errors {
        println!("{error}");
    }
    Ok(())
}
