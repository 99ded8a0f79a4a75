//! Steps that are more than a row of commands.

use cargo_metadata::{MetadataCommand, Package, TargetKind};

use super::runner::Runner;
use super::{Failed, Outcome, Skipped};

/// The rules that read the workspace, as a process of their own so that their output can be kept.
pub(super) fn tidy(runner: &Runner) -> Outcome {
    let program = std::env::current_exe()
        .map_err(|error| Failed(format!("this program does not know its own file: {error}")))?;
    let output = runner.run(&[&program.to_string_lossy(), "tidy"], 300)?;
    // Rules that could not be checked are shown although all others hold.
    let lines = output.lines().filter(|line| line.starts_with("SKIPPED"));
    lines.for_each(|line| println!("{line}"));
    Ok(())
}

/// Errors of cargo-deny that mean that the list of advisories cannot be fetched.
const UNREACHABLE: &[&str] = &[
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire advisory database",
];

fn needs_deny(runner: &Runner) -> Outcome {
    const WHY: &str = "cargo-deny is missing: cargo install --locked cargo-deny";
    match runner.works(&["cargo", "deny", "--version"]) {
        true => Ok(()),
        false => Err(Skipped(WHY.into())),
    }
}

pub(super) fn deny(runner: &Runner) -> Outcome {
    needs_deny(runner)?;
    let check = ["cargo", "deny", "--log-level", "error", "check"];
    let words = [&check[..], &["bans", "licenses", "sources"]].concat();
    runner.run(&words, 300)?;
    Ok(())
}

pub(super) fn advisories(runner: &Runner) -> Outcome {
    needs_deny(runner)?;
    const NO_NETWORK: &str = "the database of advisories cannot be reached: no network?";
    let unreachable = |text: &str| UNREACHABLE.iter().any(|reason| text.contains(reason));
    match runner.run(&["cargo", "deny", "check", "advisories"], 600) {
        Err(Failed(output)) if unreachable(&output) => Err(Skipped(NO_NETWORK.into())),
        ending => ending.map(drop),
    }
}

/// Builds all examples at once, then runs each: the examples of every crate, and the crates below `examples/`. The build is that of the
/// tests: an example shows that it runs to its end, which needs no optimisation.
pub(super) fn examples(runner: &Runner) -> Outcome {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(&runner.root).no_deps().exec()?;
    let folder = metadata.workspace_root.join("examples");
    let mut runs: Vec<Vec<String>> = Vec::new();
    for package in metadata.workspace_packages() {
        let targets = package.targets.iter().filter(|target| target.is_example());
        runs.extend(targets.map(|target| words(package, &["--example", &target.name])));
        if package.manifest_path.starts_with(&folder) {
            let programs = package.targets.iter();
            let programs = programs.filter(|target| target.kind.contains(&TargetKind::Bin));
            runs.extend(programs.map(|target| words(package, &["--bin", &target.name])));
        }
    }
    if runs.is_empty() {
        return Err(Skipped("there are no examples".into()));
    }
    runner.run(&["cargo", "build", "--workspace", "--examples"], 1800)?;
    let mut wrong = String::new();
    for run in &runs {
        let words: Vec<&str> = run.iter().map(String::as_str).collect();
        if let Err(Failed(output)) = runner.run(&words, 1200) {
            wrong += &output;
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failed(wrong)),
    }
}

fn words(package: &Package, target: &[&str]) -> Vec<String> {
    let start = ["cargo", "run", "--quiet", "--package", &package.name];
    let words = start.iter().chain(target);
    words.map(|word| word.to_string()).collect()
}
