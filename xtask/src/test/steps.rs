//! The steps as data.

use super::Outcome;
use super::checks;
use super::runner::{Command, Ending, Runner};
use super::sanitize;
use super::tools;

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

/// In the order in which they run: what is quick and fails often comes first.
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
        "no lint of compiler or clippy",
        Action::Commands(&[CARGO.args(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])]),
    )),
    quick(step(
        "rustdoc",
        "documentation of every crate, without a warning",
        Action::Commands(&[CARGO
            .args(&["doc", "--no-deps", "--workspace"])
            .env("RUSTDOCFLAGS", "-D warnings")]),
    )),
    step(
        "deny",
        "licences, banned crates, sources",
        Action::Commands(&[CARGO.args(&[
            "deny",
            "--log-level",
            "error",
            "check",
            "bans",
            "licenses",
            "sources",
        ])]),
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
    // Each is its own build of everything, in its own folder.
    step(
        "loom",
        "the queues under every interleaving of a few operations",
        Action::Commands(&[CARGO
            .args(&[
                "test",
                "-p",
                "tanada-queues",
                "--release",
                "--test",
                "loom*",
            ])
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", "target/loom")
            .minutes(30)
            .when("crates/queues/tests/loom")]),
    ),
    step(
        "shuttle",
        "the sleep protocol and the policies under chosen and random schedules",
        Action::Commands(&[
            CARGO
                .args(&["test", "-p", "tanada-laws", "--release", "--test", "model*"])
                .env("RUSTFLAGS", "--cfg shuttle")
                .env("CARGO_TARGET_DIR", "target/shuttle")
                .minutes(30)
                .when("crates/laws/tests/model"),
            CARGO
                .args(&[
                    "test",
                    "-p",
                    "tanada-runtime",
                    "--release",
                    "--test",
                    "model*",
                ])
                .env("RUSTFLAGS", "--cfg shuttle")
                .env("CARGO_TARGET_DIR", "target/shuttle")
                .minutes(30)
                .when("crates/runtime/tests/model"),
        ]),
    ),
    step(
        "end-to-end",
        "conformance and command line, in release",
        Action::Commands(&[
            CARGO
                .args(&["test", "--release", "-p", "tanada-workloads", "--test", "*"])
                .minutes(30)
                .when("crates/workloads/tests/"),
            CARGO
                .args(&["test", "--release", "-p", "tanada", "--test", "*"])
                .minutes(30)
                .when("crates/cli/tests/"),
        ]),
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
        "sanitize",
        "tests and soak under ThreadSanitizer; --full: AddressSanitizer and Valgrind, too (needs a nightly toolchain)",
        Action::Function(sanitize::step),
    ),
    step(
        "examples",
        "every example runs to its end",
        Action::Function(checks::examples),
    ),
    step(
        "fuzz",
        "20 s of fuzzing a target (needs a nightly toolchain)",
        Action::Function(checks::fuzz),
    ),
];

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
        return Outcome::Skipped(format!("there is no file {}* yet", missing.join("*, ")));
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
