//! The runtime and its queues under Miri, with several seeds: each is another order of threads and other weak-memory effects.

use std::time::Duration;

use super::runner::Runner;
use super::{Outcome, Skipped, tools};

/// Packages, their test programs that are small enough for an interpreter, and the file without which there is none.
const PROGRAMS: &[(&str, &[&str], &str)] = &[
    (
        "tanada-queues",
        &["deque", "fifo", "lane", "slot"],
        "crates/queues/tests/slot.rs",
    ),
    ("tanada-runtime", &["miri"], "crates/runtime/tests/miri.rs"),
];

/// Seeds of the default run, and of `--full`.
const SEEDS: [u32; 2] = [2, 64];

/// Miri's own: the host's clock and affinity mask can be read, and integers may become pointers again (`rustix` and `parking_lot` do that).
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";

/// Without it `rustix` makes system calls by inline assembly, which cannot be interpreted.
const RUSTFLAGS: &str = "--cfg rustix_use_libc";

/// Cases of each property test: an interpreter is a thousand times slower.
const CASES: &str = "8";

pub(super) fn step(runner: &Runner) -> Outcome {
    tools::nightly(runner)?;
    let cargo = ["rustup", "run", "nightly", "cargo", "miri"];
    if !runner.works(&[&cargo[..], &["--version"]].concat()) {
        tools::components(runner, &["miri", tools::STD_SOURCES])?;
    }
    let seeds = SEEDS[usize::from(runner.full)];
    let seeds = format!("{FLAGS} -Zmiri-many-seeds=0..{seeds}");
    let environment = [
        ("MIRIFLAGS", seeds.as_str()),
        ("RUSTFLAGS", RUSTFLAGS),
        ("PROPTEST_CASES", CASES),
    ];
    for (package, tests, file) in PROGRAMS {
        if !runner.has_file(file) {
            return Err(Skipped(format!("there is no {file}")));
        }
        let mut words = [&cargo[..], &["test", "--package", package]].concat();
        words.extend(tests.iter().flat_map(|test| ["--test", test]));
        runner.run_words(&words, &environment, Duration::from_secs(1200))?;
    }
    Ok(())
}
