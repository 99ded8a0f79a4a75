//! The steps as data.

use std::time::Duration;

use super::runner::Runner;
use super::{Outcome, aarch64, checks, fuzz, miri, sanitize, tools};

/// One named part of the check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Which runs have it, unless it is named by `--only`.
    pub(super) when: When,
    pub(super) action: Action,
    /// Builds what the action needs. It runs beside earlier steps, on cores that these leave idle; the action builds what is still missing.
    pub(super) ahead: Option<Action>,
}

/// Which runs have a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// All.
    Quick,
    /// All but those with `--quick`.
    Ordinary,
    /// Those with `--full`.
    Full,
}

impl When {
    /// Returns whether a run with these options has the step.
    pub(super) fn is_in(self, quick: bool, full: bool) -> bool {
        match self {
            When::Quick => true,
            When::Ordinary => !quick,
            When::Full => full,
        }
    }
}

/// What a step does.
pub(super) enum Action {
    /// Runs a program: its words, separated by spaces, a variable of its environment, and the most minutes that it may take (twelve times
    /// that with `--full`). `TARGET` stands for the target of this machine.
    Command(&'static str, Option<(&'static str, &'static str)>, u64),
    /// Anything else.
    Function(fn(&Runner) -> Outcome),
}

use Action::{Command, Function};

const fn step(name: &'static str, about: &'static str, action: Action) -> Step {
    Step {
        name,
        about,
        when: When::Ordinary,
        action,
        ahead: None,
    }
}

const fn quick(name: &'static str, about: &'static str, action: Action) -> Step {
    Step {
        when: When::Quick,
        ..step(name, about, action)
    }
}

const fn full(name: &'static str, about: &'static str, action: Action) -> Step {
    Step {
        when: When::Full,
        ..step(name, about, action)
    }
}

impl Step {
    /// Returns the step with something to build ahead.
    const fn built_by(self, ahead: Action) -> Step {
        Step {
            ahead: Some(ahead),
            ..self
        }
    }
}

/// The command of the step `release`, a literal so that it can be extended.
macro_rules! release {
    () => {
        concat!(
            "cargo test --release --no-fail-fast -p tanada-h264 -p tanada-workloads -p tanada-soak ",
            "--test conformance --test no_allocation --test soak"
        )
    };
}

/// In the order in which they run: what is quick and fails often comes first.
///
/// All tests run in one build, that of the profile `dev`: a little optimised, with debug assertions, which check every access to a picture
/// or a field. A build for `release` repeats only what differs there: decoding (every stream in every way, and the counts of allocations,
/// which debug assertions change) and the soak. The command line has no unsafe code and relies on no memory order of its own, so the
/// default run does not repeat its tests in `release`; `--full` does.
///
/// loom and shuttle name a target: `RUSTFLAGS` then hold for neither procedural macros nor build scripts, so that those of the ordinary
/// build are used again.
pub(super) const STEPS: &[Step] = &[
    quick(
        "tools",
        "installs what is missing, or names it with the command to type",
        Function(tools::ensure),
    ),
    quick(
        "format",
        "rustfmt changes nothing",
        Command("cargo fmt --all --check", None, 5),
    ),
    quick(
        "clippy",
        "no lint of compiler or clippy, no use of what a crate's clippy.toml disallows",
        Command(
            "cargo clippy --workspace --all-targets -- -D warnings",
            None,
            20,
        ),
    ),
    quick(
        "rustdoc",
        "documentation of every crate, without a warning",
        Command(
            "cargo doc --no-deps --workspace",
            Some(("RUSTDOCFLAGS", "-D warnings")),
            10,
        ),
    ),
    step(
        "deny",
        "licences, banned crates, sources",
        Function(checks::deny),
    ),
    step(
        "advisories",
        "no dependency has a known weakness (needs a network)",
        Function(checks::advisories),
    ),
    quick(
        "tidy",
        "the invariants of the design",
        Function(checks::tidy),
    ),
    quick(
        "package",
        "every library can be packaged, with licences and README; --full: and built from its package",
        Function(checks::package),
    ),
    quick(
        "test",
        "unit, property, integration and doc tests of every crate, with every optional feature",
        Command(
            "cargo test --workspace --features tanada/parquet --no-fail-fast",
            None,
            50,
        ),
    ),
    step(
        "examples",
        "every example runs to its end",
        Function(checks::examples),
    ),
    step(
        "rayon",
        "rayon-core's tests on ours, also under adws, 2 threads (needs a registry); --full: rayon's, too, 1, 2, 8, 64 threads, doc tests",
        Function(checks::rayon),
    ),
    step(
        "loom",
        "the queues, and what threads with OpenMP tasks share, under every interleaving of a few operations",
        Command(
            "cargo test --target TARGET -p tanada-queues -p tanada-openmp --test loom*",
            Some(("RUSTFLAGS", "--cfg loom")),
            30,
        ),
    ),
    step(
        "shuttle",
        "the sleep protocol and the policies under chosen and random schedules",
        Command(
            "cargo test --target TARGET -p tanada-laws -p tanada-runtime --test model*",
            Some(("RUSTFLAGS", "--cfg shuttle")),
            30,
        ),
    ),
    step(
        "release",
        "decoding in every way, its allocations, and random graphs, in a release build; --full: every test",
        Function(release),
    )
    .built_by(Command(concat!(release!(), " --no-run"), None, 30)),
    step(
        "miri",
        "the runtime and its queues under Miri with several seeds (needs a nightly toolchain)",
        Function(miri::step),
    ),
    full(
        "aarch64",
        "--full only: threads and forks on 64-bit Arm, under emulation (needs a nightly toolchain, a cross compiler, qemu-user)",
        Function(aarch64::step),
    ),
    step(
        "sanitize",
        "tests and soak under ThreadSanitizer; --full: AddressSanitizer and Valgrind, too (needs a nightly toolchain)",
        Function(sanitize::step),
    )
    .built_by(Function(sanitize::build)),
    step(
        "fuzz",
        "a few seconds of fuzzing a target (needs a nightly toolchain)",
        Function(fuzz::step),
    )
    .built_by(Function(fuzz::build)),
];

const RELEASE_FULL: Action = Command("cargo test --release --no-fail-fast --workspace", None, 30);

fn release(runner: &Runner) -> Outcome {
    const RELEASE: Action = Command(release!(), None, 30);
    let action = if runner.full { RELEASE_FULL } else { RELEASE };
    action.run(runner)
}

/// Runs the step of this name.
pub(super) fn run_named(name: &str, runner: &Runner) -> Outcome {
    let step = STEPS.iter().find(|step| step.name == name);
    step.expect("a step of the table").action.run(runner)
}

/// Returns the names of the steps, with which the command line answers a wrong name.
pub(super) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

impl Action {
    pub(super) fn run(&self, runner: &Runner) -> Outcome {
        let (words, variable, minutes) = match self {
            Function(function) => return function(runner),
            Command(words, variable, minutes) => (words, variable, minutes),
        };
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let words = words.split(' ');
        let words: Vec<&str> = words
            .map(|word| if word == "TARGET" { &target } else { word })
            .collect();
        let limit = Duration::from_secs(60 * minutes);
        runner.run_words(&words, variable.as_slice(), limit)?;
        Ok(())
    }
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
    fn a_step_fails_with_its_output() {
        let runner = Runner::new(&crate::root(), false, false);
        let fails = Command("ls no-such-file", Some(("LC_ALL", "C")), 1);
        let Err(super::super::Failed(why)) = fails.run(&runner) else {
            panic!("it passed")
        };
        assert!(
            why.contains("LC_ALL='C' ls") && why.contains("No such file") && why.contains("exit 2"),
            "{why}"
        );
        let passes = Command("test -d crates", None, 1);
        assert!(passes.run(&runner).is_ok());
    }
}
