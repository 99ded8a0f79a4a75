//! `cargo xtask test`: every check of the project as a row of named steps.

mod aarch64;
mod changed;
mod checks;
mod fuzz;
mod miri;
mod runner;
pub(crate) mod sanitize;
mod steps;
mod tools;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use changed::Selection;
use runner::{Runner, cpu_seconds};
use steps::{STEPS, Step};

/// How `cargo xtask test` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Runs the long products as well: TANADA_FULL=1 for every test, all sanitizers, 64 seeds of Miri, ten minutes of fuzzing a target,
    /// 64-bit Arm
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Runs only the steps that need one build
    #[arg(long)]
    quick: bool,
    /// Runs format, clippy, tidy and the quick tests of the packages that changed and of those that depend on them
    #[arg(long, conflicts_with_all = ["full", "quick", "only"])]
    changed: bool,
    /// With --changed: the revision to compare with [default: where the branch left its upstream or `main`]
    #[arg(long, value_name = "REVISION", requires = "changed")]
    since: Option<String>,
    /// Runs only these steps
    #[arg(long, value_name = "STEP", value_delimiter = ',', value_parser = steps::names())]
    only: Vec<String>,
    /// Fails if all steps together take longer; not held with --full
    #[arg(long, value_name = "MINUTES")]
    limit: Option<f64>,
    /// Names the steps and what each does
    #[arg(long)]
    list: bool,
    /// Shows the output of every step, not only of those that fail
    #[arg(long, short)]
    verbose: bool,
}

/// How a step ended.
type Outcome<T = ()> = Result<T, Trouble>;

/// Why a step did not pass.
#[derive(Debug)]
enum Trouble {
    /// What is at fault, and the output that shows it.
    Failed(String),
    /// Why it could not be run.
    Skipped(String),
}

use Trouble::{Failed, Skipped};

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Failed(error.to_string())
    }
}

/// A step that has been run.
struct Done {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
    /// Processor seconds of the commands that ended during the step, if the system reports them.
    cpu: Option<f64>,
}

/// Runs the steps that the options choose; returns whether none failed.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    if options.list {
        for step in STEPS {
            println!("{:<12} {}", step.name, step.about);
        }
        return true;
    }
    let runner = Runner::new(root, options.full, options.verbose);
    let start = Instant::now();
    let done = match options.changed {
        true => run_changed(&runner, options.since.as_deref()),
        false => run_steps(&runner, options),
    };
    let Some(done) = done else {
        return false;
    };
    let limit = options.limit.filter(|_| !options.full);
    summary(&runner, &done, start.elapsed(), limit)
}

fn run_steps(runner: &Runner, options: &Options) -> Option<Vec<Done>> {
    runner.clear_skips();
    let chosen = STEPS.iter().filter(|step| match options.only.is_empty() {
        true => step.when.is_in(options.quick, options.full),
        false => options.only.iter().any(|name| name == step.name),
    });
    let chosen = Vec::from_iter(chosen);
    std::thread::scope(|scope| {
        let run = |step: &&Step| {
            // Tests often wait, and leave a core idle for a third of their time.
            if step.name == "test" {
                let (runner, chosen) = (runner.behind(), &chosen);
                scope.spawn(move || build_ahead(&runner, chosen));
            }
            one(runner, step.name, &|| step.action.run(runner))
        };
        chosen.iter().map(run).collect()
    })
}

/// Builds what the steps `chosen` need, in their order.
fn build_ahead(runner: &Runner, chosen: &[&Step]) {
    for ahead in chosen.iter().filter_map(|step| step.ahead.as_ref()) {
        if runner.interrupted() {
            return;
        }
        let _ = ahead.run(runner); // the step itself fails, and says why
    }
}

fn run_changed(runner: &Runner, since: Option<&str>) -> Option<Vec<Done>> {
    let selection = Selection::of(runner, since)
        .inspect_err(|why| eprintln!("error: {why}"))
        .ok()?;
    runner.clear_skips();
    println!("{}", selection.describe());
    let format = || steps::run_named("format", runner);
    let parts: [(&'static str, &dyn Fn() -> Outcome); 4] = [
        ("format", &format),
        ("clippy", &|| selection.clippy(runner)),
        ("tidy", &|| checks::tidy(runner)),
        ("test", &|| selection.test(runner)),
    ];
    let parts = parts.into_iter();
    parts.map(|(name, part)| one(runner, name, part)).collect()
}

/// Runs a step, prints its line and returns what came of it; `None` if it was interrupted.
fn one(runner: &Runner, name: &'static str, step: &dyn Fn() -> Outcome) -> Option<Done> {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    runner.begin(name);
    let outcome = match step() {
        Err(Skipped(why)) if is_strict() => Err(Failed(format!("cannot run: {why}"))),
        outcome => outcome,
    };
    if runner.interrupted() {
        println!("interrupted in step {name}");
        return None;
    }
    let done = Done {
        name,
        outcome,
        took: begun.elapsed(),
        cpu: cpu_seconds().zip(cpu).map(|(after, before)| after - before),
    };
    if let Err(Failed(why)) = &done.outcome {
        println!("{why}");
    }
    println!("{}", done.line());
    Some(done)
}

/// Returns whether `TANADA_STRICT` makes every skip a failure. With `installable` it does so for tests only, which read it themselves.
fn is_strict() -> bool {
    let value = std::env::var("TANADA_STRICT").unwrap_or_default();
    !matches!(value.as_str(), "" | "0" | "installable")
}

impl Done {
    fn line(&self) -> String {
        let (word, why) = match &self.outcome {
            Ok(()) => ("passed ", String::new()),
            Err(Failed(_)) => (
                "FAILED ",
                format!("  again: cargo xtask test --verbose --only {}", self.name),
            ),
            Err(Skipped(why)) => ("SKIPPED", format!("  {why}")),
        };
        let cpu = self
            .cpu
            .map_or_else(String::new, |cpu| format!("{cpu:8.1} s of CPU"));
        let seconds = self.took.as_secs_f64();
        format!("{word}  {:<12}{seconds:8.1} s{cpu}{why}", self.name)
    }
}

/// Prints every step with its time and the tests that could not run, and ends with the line of counts that programs read. Returns whether
/// no step failed and the limit was held.
fn summary(runner: &Runner, done: &[Done], took: Duration, limit: Option<f64>) -> bool {
    println!();
    for done in done {
        println!("{}", done.line());
    }
    let minutes = took.as_secs_f64() / 60.0;
    println!("{minutes:.1} minutes in all");
    let skipped_tests = runner.skipped_tests();
    if !skipped_tests.is_empty() {
        println!("tests that did not run:");
        for line in &skipped_tests {
            println!("SKIPPED  {}", line.replace('\t', "  "));
        }
    }
    let count = |wanted: fn(&Outcome) -> bool| done.iter().filter(|d| wanted(&d.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Err(Failed(_))));
    let late = limit.filter(|limit| minutes > *limit);
    if let Some(limit) = late {
        println!("FAILED   the limit of {limit} minutes");
    }
    println!(
        "{} passed, {failed} failed, {} skipped",
        count(Result::is_ok),
        count(|outcome| matches!(outcome, Err(Skipped(_)))),
    );
    failed == 0 && late.is_none()
}
