//! Every fuzz target: a few seconds each, ten minutes with `--full`.

use std::time::Duration;

use super::Outcome;
use super::runner::{Ending, Runner};
use super::tools;

/// Streams that fuzzing starts from.
const SEEDS: &str = "crates/h264/tests/data";

/// Seconds a target, in the default run and with `--full`.
const SECONDS: [u64; 2] = [4, 600];

pub(super) fn step(runner: &Runner) -> Outcome {
    match parts(runner) {
        Ok(()) => Outcome::Passed,
        Err(outcome) => outcome,
    }
}

fn parts(runner: &Runner) -> Result<(), Outcome> {
    tools::nightly(runner)?;
    if !runner.works(&["cargo", "fuzz", "--version"]) {
        let how = "cargo install --locked cargo-fuzz";
        return Err(Outcome::Skipped(format!("cargo-fuzz is missing: {how}")));
    }
    let cargo = ["rustup", "run", "nightly", "cargo", "fuzz"];
    let list = runner.list(&[&cargo[..], &["list"]].concat());
    let Some(targets) = list.filter(|targets| !targets.is_empty()) else {
        let why = "`cargo fuzz list` names no target";
        return Err(Outcome::Failed(why.into()));
    };
    // Optimised like tests if the fuzzing is short: building takes longer than running then.
    let profile: &[&str] = if runner.full { &[] } else { &["--dev"] };
    let run = |words: &[&str]| match runner.run_words(words, &[], Duration::from_secs(1200)) {
        Ending { success: true, .. } => Ok(()),
        ending => Err(Outcome::Failed(ending.output)),
    };
    run(&[&cargo[..], &["build"], profile].concat())?;
    let time = format!("-max_total_time={}", SECONDS[usize::from(runner.full)]);
    let mut wrong = String::new();
    for target in &targets {
        // The fuzzer writes inputs that reach new code into the first folder; the second holds real streams.
        let corpus = format!("fuzz/corpus/{target}");
        if let Err(error) = std::fs::create_dir_all(runner.root.join(&corpus)) {
            let why = format!("cannot make {corpus}: {error}");
            return Err(Outcome::Failed(why));
        }
        let options = ["--", &time, "-rss_limit_mb=2048", "-timeout=10"];
        let input = [target.as_str(), &corpus, SEEDS];
        let words = [&cargo[..], &["run"], profile, &input, &options].concat();
        if let Err(Outcome::Failed(output)) = run(&words) {
            wrong += &output;
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Outcome::Failed(wrong)),
    }
}
