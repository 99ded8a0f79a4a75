//! `cargo xtask test`: every check of the project as a row of named steps.

mod checks;
mod runner;
pub(crate) mod sanitize;
mod steps;
mod tools;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use runner::Runner;
use steps::STEPS;

/// How `cargo xtask test` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Runs the long products as well: TANADA_FULL=1 for every test, ten minutes of fuzzing a target
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Runs only the steps that need no release build
    #[arg(long)]
    quick: bool,
    /// Runs only these steps
    #[arg(long, value_name = "STEP", value_delimiter = ',', value_parser = steps::names())]
    only: Vec<String>,
    /// Names the steps and what each does
    #[arg(long)]
    list: bool,
    /// Shows the output of every step, not only of those that fail
    #[arg(long, short)]
    verbose: bool,
}

/// How a step ended.
enum Outcome {
    Passed,
    /// What is at fault, and the output that shows it.
    Failed(String),
    /// Why it could not be run.
    Skipped(String),
}

/// Runs the steps that the options choose; whether none failed.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    if options.list {
        for step in STEPS {
            println!("{:<12} {}", step.name, step.about);
        }
        return true;
    }
    let chosen = STEPS.iter().filter(|step| match options.only.is_empty() {
        true => step.quick || !options.quick,
        false => options.only.iter().any(|name| name == step.name),
    });
    let runner = Runner::new(root, options.full, options.verbose);
    let start = Instant::now();
    let mut results = Vec::new();
    for step in chosen {
        let begun = Instant::now();
        runner.begin(step.name);
        let outcome = step.action.run(&runner);
        if runner.interrupted() {
            println!("interrupted in step {}", step.name);
            return false;
        }
        say(step.name, &outcome, begun.elapsed());
        results.push((step.name, outcome));
    }
    summary(&results, start.elapsed())
}

fn say(name: &str, outcome: &Outcome, took: Duration) {
    let seconds = took.as_secs_f64();
    match outcome {
        Outcome::Passed => println!("passed   {name:<12} {seconds:7.1} s"),
        Outcome::Failed(why) => println!("{why}\nFAILED   {name:<12} {seconds:7.1} s"),
        Outcome::Skipped(why) => println!("SKIPPED  {name:<12} {seconds:7.1} s  {why}"),
    }
}

/// Names again what did not pass, and ends with the line of counts that programs read.
fn summary(results: &[(&str, Outcome)], took: Duration) -> bool {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\nafter {:.0} s:", took.as_secs_f64());
    for (name, outcome) in results {
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Failed(_) => {
                failed += 1;
                println!("FAILED   {name}    (again: cargo xtask test --verbose --only {name})");
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                println!("SKIPPED  {name}    {why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}
