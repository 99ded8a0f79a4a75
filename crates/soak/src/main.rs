//! Runs random task graphs on random pools for as long as wanted, and checks every task of them.
//!
//! A case (its pools, workers, policies, graphs, panics, cancellations) is a function of its seed. The interleaving of its threads is not,
//! so it may take several runs of the same seed until a finding comes again (`--repeat`).

#![deny(unsafe_code)]

mod case;
mod decoding;
mod graphs;
#[allow(unsafe_code)]
mod ledger;
mod plan;
mod post;
mod watch;

use case::{Bounds, Case, Kind};
use clap::{Parser, ValueEnum};
use graphs::Done;
use ledger::Ledger;
use serde::Serialize;
use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tanada_runtime::Pool;
use watch::{Memory, Watchdog};

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p tanada-soak -- --minutes 30
  cargo run --release -p tanada-soak -- --duration 20s --json
  cargo run --release -p tanada-soak -- --seed 17 --repeat 1000    again what was found with seed 17

Exit codes: 0 nothing found, 1 something found, 2 wrong usage, 130 stopped by Ctrl-C.";

/// Runs random task graphs and checks that every task ran once, in order, and was dropped once.
#[derive(Parser)]
#[command(name = "tanada-soak", version, after_help = EXAMPLES)]
struct Arguments {
    /// Minutes to run, at most 30 days [default: 1 minute]
    #[arg(long, conflicts_with = "duration", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Time to run, such as 20s or 5m
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Runs the case of this seed, and no other
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: how many times to run the case
    #[arg(long, default_value_t = 1, requires = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// The seed of the first case, from which the others follow [default: the time]
    #[arg(long, conflicts_with = "seed")]
    first_seed: Option<u64>,
    /// The most workers of a pool
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// The most tasks of a graph
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    /// Only this, instead of a random mixture
    #[arg(long)]
    only: Option<Kind>,
    /// Seconds without any progress after which the process ends with a report
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    /// Names the seed of every case
    #[arg(long, short)]
    verbose: bool,
    /// The summary as JSON
    #[arg(long)]
    json: bool,
    /// Does something wrong on purpose, to show that a sanitizer finds it
    #[arg(long)]
    fault: Option<Fault>,
}

/// A fault that a sanitizer must find.
#[derive(Clone, Copy, ValueEnum)]
enum Fault {
    /// Two tasks write one place, and neither waits for the other
    Race,
    /// Memory is read after it was given back
    UseAfterFree,
    /// Memory is read behind its end
    InvalidRead,
}

fn duration(text: &str) -> Result<Duration, String> {
    let (seconds, minutes) = (text.strip_suffix('s'), text.strip_suffix('m'));
    let units = seconds.map(|number| (number, 1.0));
    let units = units.or(minutes.map(|number| (number, 60.0)));
    let seconds = units.and_then(|(number, unit)| Some(number.parse::<f64>().ok()? * unit));
    bounded(seconds.ok_or_else(|| format!("\"{text}\" is no duration such as 20s or 5m"))?)
}

fn minutes(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("\"{text}\" is no number of minutes such as 0.5 or 30");
    bounded(text.parse::<f64>().map_err(wrong)? * 60.0)
}

/// Returns this time, unless it is absurdly short or long.
fn bounded(seconds: f64) -> Result<Duration, String> {
    const MOST: f64 = 30.0 * 24.0 * 3600.0;
    match (0.001..=MOST).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("a soak lasts from a millisecond to 30 days".to_owned()),
    }
}

/// The result of a run.
#[derive(Serialize)]
struct Summary {
    first_seed: u64,
    /// Whether Ctrl-C ended it.
    interrupted: bool,
    seconds: f64,
    cases: u64,
    #[serde(flatten)]
    done: Done,
    /// Resident memory in KiB: the maximum in the first third of the cases, and the minimum in the last third.
    memory_kib: Option<(u64, u64)>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    seed: u64,
    replay: String,
    text: String,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("tanada-soak: {error}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(fault) = arguments.fault {
        commit(fault)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    if let Err(error) = ctrlc::set_handler(move || flag.store(true, Relaxed)) {
        eprintln!("tanada-soak: Ctrl-C will end it without a summary: {error}");
    }
    let watchdog = Watchdog::start(Duration::from_secs(arguments.patience));
    let watchdog = watchdog.map_err(|error| format!("no thread for the watchdog: {error}"))?;
    let summary = soak(arguments, &watchdog, &stop);
    report(&summary, arguments.json);
    Ok(match &summary {
        Summary { findings, .. } if !findings.is_empty() => ExitCode::FAILURE,
        Summary { interrupted, .. } if *interrupted => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    })
}

/// Runs cases until the time is over, something is found or Ctrl-C stops it, and returns a summary.
fn soak(arguments: &Arguments, watchdog: &Watchdog, stop: &AtomicBool) -> Summary {
    let start = Instant::now();
    let limit = arguments.minutes.or(arguments.duration);
    let limit = limit.unwrap_or(Duration::from_secs(60));
    let bounds = Bounds {
        workers: arguments.workers,
        jobs: arguments.tasks as usize,
        only: arguments.only,
    };
    let first_seed = arguments.seed.or(arguments.first_seed);
    let first_seed = first_seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("tanada-soak: first seed {first_seed}");
    // The seed of the case after the first is drawn from the first, and so on: `--first-seed` repeats a whole run.
    let mut seeds = fastrand::Rng::with_seed(first_seed);
    let (mut seed, mut cases) = (first_seed, 0);
    let (done, mut memory, mut findings) = (Done::default(), Memory::default(), Vec::new());
    let base = watch::base_threads();
    let (mut said, terminal) = (Instant::now(), std::io::stderr().is_terminal());
    let enough = |cases| match arguments.seed {
        Some(_) => cases >= arguments.repeat,
        None => start.elapsed() >= limit,
    };
    while !enough(cases) && !stop.load(Relaxed) && findings.is_empty() {
        let case = Case::of(seed, bounds);
        let replay = replay(arguments, seed);
        watchdog.case(&replay);
        if arguments.verbose {
            eprintln!("seed {seed}: {}", case.about());
        } else if said.elapsed() > Duration::from_secs(if terminal { 1 } else { 30 }) {
            said = Instant::now();
            let (seconds, tasks) = (start.elapsed().as_secs(), done.tasks.load(Relaxed));
            let (cases, tasks) = (counted(cases, "case"), counted(tasks, "task"));
            eprintln!("{seconds:6} s: {cases}, {tasks}, now seed {seed}");
        }
        let mut texts = case.run(&done, None);
        texts.extend(watch::threads_left(base));
        cases += 1;
        memory.look();
        findings.extend(texts.into_iter().map(|text| Finding {
            seed,
            replay: replay.clone(),
            text,
        }));
        if arguments.seed.is_none() {
            seed = seeds.u64(..);
        }
    }
    if let Some(text) = memory.finding(start.elapsed()) {
        findings.push(Finding {
            seed: first_seed,
            replay: format!("tanada-soak --first-seed {first_seed}"),
            text,
        });
    }
    Summary {
        first_seed,
        interrupted: stop.load(Relaxed),
        seconds: start.elapsed().as_secs_f64(),
        cases,
        done,
        memory_kib: memory.growth(),
        findings,
    }
}

/// Returns the command that runs a case again.
fn replay(arguments: &Arguments, seed: u64) -> String {
    let (workers, tasks) = (arguments.workers, arguments.tasks);
    let only = arguments.only.and_then(|kind| kind.to_possible_value());
    let only = only.map_or_else(String::new, |kind| format!(" --only {}", kind.get_name()));
    format!("tanada-soak --seed {seed} --repeat 100 --workers {workers} --tasks {tasks}{only}")
}

fn report(summary: &Summary, json: bool) {
    for finding in &summary.findings {
        let Finding { seed, replay, text } = finding;
        eprintln!("FOUND with seed {seed}: {text}\n  again: {replay}");
    }
    if json {
        match serde_json::to_string(summary) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("tanada-soak: the summary cannot be written: {error}"),
        }
        return;
    }
    let memory = |(first, last)| format!("; memory {first} KiB, at the end {last}");
    let memory = summary.memory_kib.map_or_else(String::new, memory);
    let done = &summary.done;
    let things = |counter: &AtomicU64, thing| counted(counter.load(Relaxed), thing);
    println!(
        "{} in {:.1} s: {}, {} in {} ({:?} of them nested) and {} of templates, {}; {}, {:?} cancelled, {}, all on purpose{memory}",
        counted(summary.findings.len() as u64, "finding"),
        summary.seconds,
        counted(summary.cases, "case"),
        things(&done.tasks, "task"),
        things(&done.graphs, "graph"),
        done.nested_graphs,
        things(&done.template_runs, "run"),
        things(&done.decoded_frames, "decoded frame"),
        things(&done.panics, "panic"),
        done.cancelled,
        things(&done.errors, "error"),
    );
}

/// Returns a number of things as text.
fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Makes a fault that a sanitizer must find. Without a sanitizer it returns.
fn commit(fault: Fault) -> Result<(), Box<dyn Error>> {
    match fault {
        Fault::Race => race()?,
        Fault::UseAfterFree => println!("read {}", ledger::use_after_free()),
        Fault::InvalidRead => println!("read {}", ledger::invalid_read()),
    }
    println!("the fault was made, and the process goes on");
    Ok(())
}

/// Runs two tasks that write the same place at the same time.
fn race() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().workers(2).build()?;
    for _ in 0..20 {
        let ledger = Ledger::new(1, 0);
        let here = [const { AtomicBool::new(false) }; 2];
        pool.scope(|s| {
            for me in 0..2 {
                let (here, ledger) = (&here, &ledger);
                s.task("races").register(move |_| {
                    here[me].store(true, Relaxed);
                    // Waits up to 100 ms for the other task, so that both write at the same time.
                    let start = Instant::now();
                    let limit = Duration::from_millis(100);
                    while !here[1 - me].load(Relaxed) && start.elapsed() < limit {
                        std::hint::spin_loop();
                    }
                    ledger.race(0);
                });
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound_and_absurd_numbers_are_refused() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
        let refused = [
            ["--patience", "0"],
            ["--duration", "0s"],
            ["--duration", "nans"],
            ["--duration", "5"],
            ["--minutes", "0"],
            ["--minutes", "inf"],
            ["--minutes", "1e30"],
            ["--tasks", "0"],
        ];
        for words in refused {
            let parsed = Arguments::try_parse_from(["soak"].into_iter().chain(words));
            assert!(parsed.is_err(), "{words:?}");
        }
        let parsed = Arguments::try_parse_from(["soak", "--minutes", "0.5"]).expect("it is right");
        assert_eq!(parsed.minutes, Some(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
    }

    #[test]
    fn one_is_not_plural() {
        assert_eq!(
            (counted(0, "case"), counted(1, "case"), counted(2, "case")),
            (
                "0 cases".to_owned(),
                "1 case".to_owned(),
                "2 cases".to_owned()
            )
        );
    }
}
