//! The peers bench: every case runs on Tanada and on every installed program that does the same, in turns; the best of all turns counts.
//! `docs/benchmarks.md` says how to use it.
#![deny(unsafe_code)]

mod cases;
mod child;
mod cli;
#[allow(unsafe_code)]
mod native;
mod output;
mod peers;
mod programs;
mod samples;

use programs::simulated::{TOIL, toil};

/// A result whose error is shown and not matched.
type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((word, [job])) if word == child::WORD => child::main(job),
        Some((word, [rounds])) if word == TOIL => {
            toil(rounds.parse().unwrap_or(0));
            std::process::ExitCode::SUCCESS
        }
        _ => cli::main(),
    }
}
