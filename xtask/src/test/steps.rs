//! The steps as data.

use std::time::Duration;

use super::runner::{Command, Ending, Runner};
use super::{Outcome, checks, fuzz, miri, sanitize, tools};

/// One named part of the check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether `--quick` runs it.
    pub(super) quick: bool,
    pub(super) action: Action,
}

/// What a step does.
pub(super) enum Action {
    /// Runs every command whose condition holds, to the first that fails.
    Commands(&'static [Command]),
    /// Anything else.
    Function(fn(&Runner) -> Outcome),
}

const CARGO: Command = Command::new(&["cargo"]);

const fn step(name: &'static str, about: &'static str, action: Action) -> Step {
    Step {
        name,
        about,
        quick: false,
        action,
    }
}

const fn quick(step: Step) -> Step {
    Step {
        quick: true,
        ..step
    }
}

/// The target of this machine. If a build names its target, `RUSTFLAGS` hold for neither procedural macros nor build scripts, so that those
/// of the ordinary build are used again.
const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-gnu"
} else {
    "x86_64-unknown-linux-gnu"
};

/// In the order in which they run: what is quick and fails often comes first.
///
/// All tests run in one build, that of the profile `dev`: a little optimised, with debug assertions, which check every access to a picture
/// or a field. A build for `release` repeats only what differs there: decoding (every stream in every way, and the counts of allocations,
/// which debug assertions change) and the soak. The command line has no unsafe code and relies on no memory order of its own, so the
/// default run does not repeat its tests in `release`; `--full` does.
pub(super) const STEPS: &[Step] = &[
    quick(step(
        "tools",
        "installs what is missing, or names it with the command to type",
        Action::Function(tools::ensure),
    )),
    quick(step(
        "format",
        "rustfmt changes nothing",
        Action::Commands(&[CARGO.args(&["fmt", "--all", "--check"])]),
    )),
    quick(step(
        "clippy",
        "no lint of compiler or clippy, no use of what a crate's clippy.toml disallows",
        Action::Commands(&[CARGO
            .args(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])
            .minutes(20)]),
    )),
    quick(step(
        "rustdoc",
        "documentation of every crate, without a warning",
        Action::Commands(&[CARGO
            .args(&["doc", "--no-deps", "--workspace"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .minutes(10)]),
    )),
    step(
        "deny",
        "licences, banned crates, sources",
        Action::Function(checks::deny),
    ),
    step(
        "advisories",
        "no dependency has a known weakness (needs a network)",
        Action::Function(checks::advisories),
    ),
    quick(step(
        "tidy",
        "the invariants of the design",
        Action::Function(checks::tidy),
    )),
    quick(step(
        "test",
        "unit, property, integration and doc tests of every crate",
        Action::Commands(&[CARGO
            .args(&["test", "--workspace", "--no-fail-fast"])
            .minutes(30)]),
    )),
    step(
        "examples",
        "every example runs to its end",
        Action::Function(checks::examples),
    ),
    step(
        "loom",
        "the queues under every interleaving of a few operations",
        Action::Commands(&[CARGO
            .args(&[
                "test",
                "--target",
                TARGET,
                "-p",
                "tanada-queues",
                "--test",
                "loom*",
            ])
            .env("RUSTFLAGS", "--cfg loom")
            .minutes(30)
            .when("crates/queues/tests/loom")]),
    ),
    step(
        "shuttle",
        "the sleep protocol and the policies under chosen and random schedules",
        Action::Commands(&[CARGO
            .args(&[
                "test",
                "--target",
                TARGET,
                "-p",
                "tanada-laws",
                "-p",
                "tanada-runtime",
                "--test",
                "model*",
            ])
            .env("RUSTFLAGS", "--cfg shuttle")
            .minutes(30)
            .when("crates/laws/tests/model")]),
    ),
    step(
        "release",
        "decoding in every way, and its allocations, in a release build; --full: every test",
        Action::Function(release),
    ),
    step(
        "soak",
        "20 s of random graphs, every task of them checked",
        Action::Commands(&[CARGO
            .args(&[
                "run",
                "--release",
                "--quiet",
                "--package",
                "tanada-soak",
                "--",
                "--duration",
                "20s",
            ])
            .minutes(20)]),
    ),
    step(
        "miri",
        "the runtime and its queues under Miri with several seeds (needs a nightly toolchain)",
        Action::Function(miri::step),
    ),
    step(
        "sanitize",
        "tests and soak under ThreadSanitizer; --full: AddressSanitizer and Valgrind, too (needs a nightly toolchain)",
        Action::Function(sanitize::step),
    ),
    step(
        "fuzz",
        "a few seconds of fuzzing a target (needs a nightly toolchain)",
        Action::Function(fuzz::step),
    ),
];

/// The packages are built together, with the soak that the next step runs: features that differ would be built twice.
fn release(runner: &Runner) -> Outcome {
    let decoding = [
        "-p",
        "tanada-h264",
        "-p",
        "tanada-workloads",
        "-p",
        "tanada-soak",
        "--test",
        "conformance",
        "--test",
        "no_allocation",
    ];
    let what: &[&str] = if runner.full {
        &["--workspace"]
    } else {
        &decoding
    };
    let words = [&["cargo", "test", "--release", "--no-fail-fast"], what].concat();
    match runner.run_words(&words, &[], Duration::from_secs(1800)) {
        Ending { success: true, .. } => Outcome::Passed,
        ending => Outcome::Failed(ending.output),
    }
}

/// Runs the step of this name.
pub(super) fn run_named(name: &str, runner: &Runner) -> Outcome {
    let step = STEPS.iter().find(|step| step.name == name);
    step.expect("a step of the table").action.run(runner)
}

/// For the command line: wrong names are answered with these.
pub(super) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

impl Action {
    pub(super) fn run(&self, runner: &Runner) -> Outcome {
        match self {
            Action::Function(function) => function(runner),
            Action::Commands(commands) => run_all(commands, runner),
        }
    }
}

fn run_all(commands: &[Command], runner: &Runner) -> Outcome {
    let mut missing = Vec::new();
    for command in commands {
        match command.condition {
            Some(prefix) if !runner.has_file(prefix) => missing.push(prefix),
            _ => match runner.run(command) {
                Ending { success: true, .. } => {}
                ending => return Outcome::Failed(ending.output),
            },
        }
    }
    if missing.len() == commands.len() {
        return Outcome::Skipped(format!("there is no file {}*", missing.join("*, ")));
    }
    Outcome::Passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names = names();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
    }

    #[test]
    fn a_step_fails_with_its_output_and_skips_without_its_files() {
        const FAILS: &[Command] = &[Command::new(&[
            "sh",
            "-c",
            "echo before; echo wrong >&2; exit 3",
        ])];
        const ABSENT: &[Command] = &[Command::new(&["false"]).when("no/such/file")];
        const MIXED: &[Command] = &[
            Command::new(&["false"]).when("no/such/file"),
            Command::new(&["true"]).when("src/main.rs"),
        ];
        let runner = Runner::new(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")),
            false,
            false,
        );
        assert!(
            matches!(run_all(FAILS, &runner), Outcome::Failed(why) if why.contains("before\nwrong\n") && why.contains("exit 3"))
        );
        assert!(
            matches!(run_all(ABSENT, &runner), Outcome::Skipped(why) if why.contains("no/such/file"))
        );
        assert!(matches!(run_all(MIXED, &runner), Outcome::Passed));
    }
}
