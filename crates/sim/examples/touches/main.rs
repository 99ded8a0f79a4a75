//! Line touches a second of the engine, from a binary trace.
//!
//! ```text
//! cargo run --release -p tanada-sim --example touches -- [TRACE [MACHINE [CORES [POLICY [ROUNDS]]]]]
//! ```
//!
//! A trace is a file, or `made-up:NAME`, of which `made-up:` alone lists the names and `made-up:all` takes all.

mod made_up;

use made_up::{PATTERNS, make_up};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tanada_sim::{Machine, Options, machines, simulate};
use tanada_trace::{Groups, Trace};

/// Before the name of a trace that is made up.
const MADE_UP: &str = "made-up:";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |number: usize, other: &str| words.get(number).cloned().unwrap_or(other.to_owned());
    let cores = word(2, "4").parse()?;
    let machine = machines::find(word(1, "toshiba"))?.with_cores(cores)?;
    let (policy, rounds) = (word(3, "fcfs"), word(4, "5").parse()?);
    let trace = word(0, "made-up:decoder");
    let Some(wanted) = trace.strip_prefix(MADE_UP) else {
        return measure(&PathBuf::from(&trace), &trace, &machine, &policy, rounds);
    };
    let of_name = |(name, _): &&(&str, _)| wanted == "all" || wanted == *name;
    if PATTERNS.iter().filter(of_name).count() == 0 {
        let names = PATTERNS.map(|(name, _)| name).join(", ");
        return Err(format!("made-up traces are {names}").into());
    }
    let path = std::env::temp_dir().join(format!("tanada-touches-{}.tnb", std::process::id()));
    for &(name, pattern) in PATTERNS.iter().filter(of_name) {
        make_up(&path, pattern)?;
        let measured = measure(&path, name, &machine, &policy, rounds);
        std::fs::remove_file(&path)?;
        measured?;
    }
    Ok(())
}

fn measure(
    path: &Path,
    name: &str,
    machine: &Machine,
    policy: &str,
    rounds: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    let trace = Trace::open(path, &Groups::Plain)?;
    let mut best = f64::INFINITY;
    let (mut touches, mut missed, mut makespan) = (0, 0, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        let outcome = simulate(&trace, machine, policy, &Options::default(), &mut ())?;
        best = best.min(start.elapsed().as_secs_f64());
        let first = outcome.caches.iter().filter(|cache| cache.level == 1);
        (touches, missed) = first.fold((0, 0), |(touches, missed), cache| {
            let count = &cache.count;
            (touches + count.accesses, missed + count.misses)
        });
        makespan = outcome.makespan;
    }
    let part = missed as f64 / touches as f64 * 100.0;
    let speed = touches as f64 / best / 1e6;
    println!(
        "{name:20} {touches:>10} touches, {part:4.1}% miss, {makespan:>10} cycles: {speed:5.1} million touches a second"
    );
    Ok(())
}
