//! Every fuzz target: a few seconds each, ten minutes with `--full`.

use super::checks::all;
use super::runner::Runner;
use super::{Failed, Outcome, Skipped, tools};

/// Streams that fuzzing starts from.
const SEEDS: &str = "crates/h264/tests/data";

/// Seconds a target, in the default run and with `--full`.
const SECONDS: [u64; 2] = [2, 600];

const CARGO: [&str; 5] = ["rustup", "run", "nightly", "cargo", "fuzz"];

pub(super) fn step(runner: &Runner) -> Outcome {
    build(runner)?;
    let list = runner.list(&[&CARGO[..], &["list"]].concat());
    let Some(targets) = list.filter(|targets| !targets.is_empty()) else {
        return Err(Failed("`cargo fuzz list` names no target".into()));
    };
    let time = format!("-max_total_time={}", SECONDS[usize::from(runner.full)]);
    let run = |target: &String| {
        // The fuzzer writes inputs that reach new code into the first folder; the second holds real streams.
        let corpus = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(runner.root.join(&corpus))
            .map_err(|error| Failed(format!("cannot make {corpus}: {error}")))?;
        let options = ["--", &time, "-rss_limit_mb=2048", "-timeout=10"];
        let input = [target.as_str(), &corpus, SEEDS];
        runner.run(
            &[&CARGO[..], &["run"], profile(runner), &input, &options].concat(),
            1200,
        )
    };
    all(targets.iter().map(run))
}

/// Builds every target.
pub(super) fn build(runner: &Runner) -> Outcome {
    tools::nightly(runner)?;
    if !runner.works(&["cargo", "fuzz", "--version"]) {
        let how = "cargo install --locked cargo-fuzz";
        return Err(Skipped(format!("cargo-fuzz is missing: {how}")));
    }
    runner.run(&[&CARGO[..], &["build"], profile(runner)].concat(), 1200)?;
    Ok(())
}

/// Returns the option for optimisation: that of tests if the fuzzing is short, because building takes longer than running then.
fn profile(runner: &Runner) -> &'static [&'static str] {
    if runner.full { &[] } else { &["--dev"] }
}
