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
    // Rules that could not be checked are shown although all others hold.
    for line in ending
        .output
        .lines()
        .filter(|line| line.starts_with("SKIPPED"))
    {
        println!("{line}");
    }
    Outcome::Passed
}

/// Errors of cargo-deny that mean that the list of advisories cannot be fetched.
const UNREACHABLE: &[&str] = &[
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire advisory database",
];

const NO_DENY: &str = "cargo-deny is missing: cargo install --locked cargo-deny";

fn has_deny(runner: &Runner) -> bool {
    runner.works(&["cargo", "deny", "--version"])
}

pub(super) fn deny(runner: &Runner) -> Outcome {
    if !has_deny(runner) {
        return Outcome::Skipped(NO_DENY.into());
    }
    let check = ["cargo", "deny", "--log-level", "error", "check"];
    let words = [&check[..], &["bans", "licenses", "sources"]].concat();
    match runner.run_words(&words, &[], Duration::from_secs(300)) {
        ending if ending.success => Outcome::Passed,
        ending => Outcome::Failed(ending.output),
    }
}

pub(super) fn advisories(runner: &Runner) -> Outcome {
    if !has_deny(runner) {
        return Outcome::Skipped(NO_DENY.into());
    }
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

/// Builds all examples at once, then runs each: the examples of every crate, and the crates below `examples/`. The build is that of the
/// tests: an example shows that it runs to its end, which needs no optimisation.
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
        return Outcome::Skipped("there are no examples".into());
    }
    let build = runner.run_words(
        &["cargo", "build", "--workspace", "--examples"],
        &[],
        Duration::from_secs(1800),
    );
    if !build.success {
        return Outcome::Failed(build.output);
    }
    let mut wrong = String::new();
    for run in &runs {
        let words: Vec<&str> = run.iter().map(String::as_str).collect();
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
