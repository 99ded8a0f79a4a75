//! Decodes a stream as tasks: `decode_tasks IN.264 [POLICY [WORKERS [TASKS [GROUPS]]]]` prints frames a second and the frames' MD5.

use md5::{Digest, Md5};
use std::time::Instant;
use tanada_runtime::{Cancel, Pool};
use tanada_workloads::h264::{Options, decode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let stream = std::fs::read(args.next().ok_or("name a stream")?)?;
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let (policy, workers, cut, groups) =
        (next("random-steal"), next("2"), next("own"), next("own"));
    let pool = Pool::builder()
        .policy(&policy)
        .workers(workers.parse()?)
        .build()?;
    let options = Options {
        cut: cut.parse()?,
        groups: groups.parse()?,
        ..Options::default()
    };
    let mut md5 = Md5::new();
    decode(&pool, &stream, &options, &Cancel::new(), |frame| {
        frame.visit_rows(|row| md5.update(row))
    })?;
    let mut best = f64::INFINITY;
    let mut pictures = 0;
    for _ in 0..5 {
        let start = Instant::now();
        pictures = decode(&pool, &stream, &options, &Cancel::new(), |_| ())?.pictures;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let hex: String = md5
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("{hex} {:.0} fps", pictures as f64 / best);
    Ok(())
}
