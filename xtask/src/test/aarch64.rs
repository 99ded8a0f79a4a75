//! The tests of what is written for each architecture apart, such as the switch of stacks, on 64-bit Arm: compiled by a nightly toolchain,
//! which builds the standard library for it, linked by Debian's cross compiler, and run by an emulator.
//!
//! An emulator on x86-64 keeps the order of memory accesses of x86-64: it finds no orders that are too weak.

use std::time::Duration;

use super::runner::Runner;
use super::{Outcome, Skipped, tools};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Programs that it takes, and the Debian packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "aarch64-linux-gnu-gcc",
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    ),
    ("qemu-aarch64", "qemu-user"),
];

/// Tests of the runtime. None of them starts its own program again, which the system could not run without the emulator.
const TESTS: &[&str] = &["threads", "thread_schedulers", "waiting_jobs", "fork_adws"];

pub(super) fn step(runner: &Runner) -> Outcome {
    for (program, packages) in PROGRAMS {
        if !runner.works(&[program, "--version"]) {
            return Err(Skipped(format!(
                "{program} is missing: apt-get install {packages}"
            )));
        }
    }
    tools::components(runner, &[tools::STD_SOURCES])?;
    let cargo = ["rustup", "run", "nightly", "cargo", "test", "-Zbuild-std"];
    let package = ["--target", TARGET, "--package", "tanada-runtime"];
    let mut words = [&cargo[..], &package].concat();
    words.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    let environment = [
        ("CARGO_TARGET_DIR", "target/aarch64"),
        (
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        ),
        (
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        ),
    ];
    runner.run_words(&words, &environment, Duration::from_secs(2400))?;
    Ok(())
}
