//! Steps that are more than a row of commands.

use std::time::Duration;

use cargo_metadata::{MetadataCommand, Package, TargetKind};

use super::Outcome;
use super::runner::Runner;

/// The rules that read the workspace, as a process of their own so that their output can be kept.
pub(super) fn tidy(runner: &Runner) -> Outcome {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            return Outcome::Failed(format!("this program does not know its own file: {error}"));
        }
    };
    let ending = runner.run_words(
        &[&program.to_string_lossy(), "tidy"],
        &[],
        Duration::from_secs(300),
    );
    if !ending.success {
        return Outcome::Failed(ending.output);
    }
    // A rule that could not be checked is worth a line even where all others hold.
    for line in ending
        .output
        .lines()
        .filter(|line| line.starts_with("SKIPPED"))
    {
        println!("{line}");
    }
    Outcome::Passed
}

/// What cargo-deny says when it cannot get the list of advisories.
const UNREACHABLE: &[&str] = &[
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire advisory database",
];

pub(super) fn advisories(runner: &Runner) -> Outcome {
    let ending = runner.run_words(
        &["cargo", "deny", "check", "advisories"],
        &[],
        Duration::from_secs(600),
    );
    let reason = |text: &str| UNREACHABLE.iter().any(|reason| text.contains(reason));
    match ending.success {
        true => Outcome::Passed,
        false if reason(&ending.output) => {
            Outcome::Skipped("the database of advisories cannot be reached: no network?".into())
        }
        false => Outcome::Failed(ending.output),
    }
}

/// Builds all examples at once, then runs each: the examples of every crate, and the crates below `examples/`.
pub(super) fn examples(runner: &Runner) -> Outcome {
    let metadata = match MetadataCommand::new()
        .current_dir(&runner.root)
        .no_deps()
        .exec()
    {
        Ok(metadata) => metadata,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let folder = metadata.workspace_root.join("examples");
    let mut runs: Vec<Vec<String>> = Vec::new();
    for package in metadata.workspace_packages() {
        let targets = package.targets.iter().filter(|target| target.is_example());
        runs.extend(targets.map(|target| words(package, &["--example", &target.name])));
        if package.manifest_path.starts_with(&folder) {
            let programs = package
                .targets
                .iter()
                .filter(|target| target.kind.contains(&TargetKind::Bin));
            runs.extend(programs.map(|target| words(package, &["--bin", &target.name])));
        }
    }
    if runs.is_empty() {
        return Outcome::Skipped("there are no examples yet".into());
    }
    let build = runner.run_words(
        &["cargo", "build", "--release", "--workspace", "--examples"],
        &[],
        Duration::from_secs(1800),
    );
    if !build.success {
        return Outcome::Failed(build.output);
    }
    let mut wrong = String::new();
    for run in &runs {
        let words: Vec<&str> = run.iter().map(String::as_str).collect();
        // The first of them builds the whole workspace.
        let ending = runner.run_words(&words, &[], Duration::from_secs(1200));
        if !ending.success {
            wrong += &ending.output;
        }
    }
    if wrong.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(wrong)
    }
}

fn words(package: &Package, target: &[&str]) -> Vec<String> {
    let start = [
        "cargo",
        "run",
        "--release",
        "--quiet",
        "--package",
        package.name.as_str(),
    ];
    start
        .iter()
        .chain(target)
        .map(|word| word.to_string())
        .collect()
}

/// Streams that fuzzing starts from.
const FUZZ_SEEDS: &str = "crates/h264/tests/data";

/// Builds and runs every fuzz target: 20 seconds each, ten minutes with `--full`.
pub(super) fn fuzz(runner: &Runner) -> Outcome {
    if !runner.has_file("fuzz/Cargo.toml") {
        return Outcome::Skipped("there is no fuzz/Cargo.toml yet".into());
    }
    if !runner.works(&["rustup", "run", "nightly", "rustc", "--version"]) {
        return Outcome::Skipped(
            "no nightly toolchain: rustup toolchain install nightly --profile minimal".into(),
        );
    }
    if !runner.works(&["cargo", "fuzz", "--version"]) {
        let install = ["cargo", "install", "--locked", "--debug", "cargo-fuzz"];
        let ending = runner.run_words(&install, &[], Duration::from_secs(600));
        if !ending.success {
            let last = ending
                .output
                .trim_end()
                .lines()
                .next_back()
                .unwrap_or("")
                .to_owned();
            return Outcome::Skipped(format!(
                "cargo-fuzz cannot be installed ({last}): {}",
                install.join(" ")
            ));
        }
    }
    let list = runner.list(&["rustup", "run", "nightly", "cargo", "fuzz", "list"]);
    let Some(targets) = list.filter(|targets| !targets.is_empty()) else {
        return Outcome::Failed("`cargo fuzz list` names no target".into());
    };
    let seconds = if runner.full { 600 } else { 20 };
    let mut wrong = String::new();
    for target in &targets {
        // What the fuzzer finds goes into the first folder; from the second it learns what a real stream looks like.
        let corpus = format!("fuzz/corpus/{target}");
        if let Err(error) = std::fs::create_dir_all(runner.root.join(&corpus)) {
            return Outcome::Failed(format!("cannot make {corpus}: {error}"));
        }
        let time = format!("-max_total_time={seconds}");
        let words = [
            "rustup",
            "run",
            "nightly",
            "cargo",
            "fuzz",
            "run",
            target,
            &corpus,
            FUZZ_SEEDS,
            "--",
            &time,
            "-rss_limit_mb=2048",
            "-timeout=10",
        ];
        let ending = runner.run_words(&words, &[], Duration::from_secs(1200 + seconds));
        if !ending.success {
            wrong += &ending.output;
        }
    }
    if wrong.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(wrong)
    }
}
