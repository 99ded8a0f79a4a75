//! The runtime and its queues under Miri, with several seeds: each is another order of threads and other weak-memory effects.

use std::time::Duration;

use super::Outcome;
use super::runner::{Ending, Runner};
use super::tools;

/// Test programs that are small enough for an interpreter, and the file without which there is none.
const PROGRAMS: &[(&[&str], &str)] = &[
    (
        &[
            "--package",
            "tanada-queues",
            "--test",
            "deque",
            "--test",
            "fifo",
            "--test",
            "slot",
        ],
        "crates/queues/tests/slot.rs",
    ),
    (
        &["--package", "tanada-runtime", "--test", "miri"],
        "crates/runtime/tests/miri.rs",
    ),
];

/// Seeds of the default run, and of `--full`.
const SEEDS: [u32; 2] = [4, 64];

/// Miri's own: the host's clock and affinity mask can be read, and integers may become pointers again (`rustix` and `parking_lot` do that).
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";

/// Without it `rustix` makes system calls by inline assembly, which cannot be interpreted.
const RUSTFLAGS: &str = "--cfg rustix_use_libc";

/// Cases of each property test: an interpreter is a thousand times slower.
const CASES: &str = "8";

pub(super) fn step(runner: &Runner) -> Outcome {
    match parts(runner) {
        Ok(()) => Outcome::Passed,
        Err(outcome) => outcome,
    }
}

fn parts(runner: &Runner) -> Result<(), Outcome> {
    tools::nightly(runner)?;
    let cargo = ["rustup", "run", "nightly", "cargo", "miri"];
    if !runner.works(&[&cargo[..], &["--version"]].concat()) {
        let add = [
            "rustup",
            "component",
            "add",
            "--toolchain",
            "nightly",
            "miri",
            "rust-src",
        ];
        let ending = runner.run_words(&add, &[], Duration::from_secs(300));
        if !ending.success {
            return Err(Outcome::Skipped(format!(
                "the nightly toolchain has no Miri: {}",
                add.join(" ")
            )));
        }
    }
    let seeds = format!(
        "{FLAGS} -Zmiri-many-seeds=0..{}",
        SEEDS[usize::from(runner.full)]
    );
    let environment = [
        ("MIRIFLAGS", seeds.as_str()),
        ("RUSTFLAGS", RUSTFLAGS),
        ("PROPTEST_CASES", CASES),
    ];
    for (program, file) in PROGRAMS {
        if !runner.has_file(file) {
            return Err(Outcome::Skipped(format!("there is no {file}")));
        }
        let words = [&cargo[..], &["test"], program].concat();
        match runner.run_words(&words, &environment, Duration::from_secs(1200)) {
            Ending { success: true, .. } => {}
            ending => return Err(Outcome::Failed(ending.output)),
        }
    }
    Ok(())
}
