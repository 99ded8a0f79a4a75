//! Tests, soak and decoding under ThreadSanitizer, AddressSanitizer and Valgrind's memcheck.
//!
//! Each of the three must first find a fault that the soak makes on purpose: a check that cannot fail would prove nothing.
//!
//! The standard library is used as it is shipped, not instrumented: its sources need not be installed. That is why tests that run here take
//! their locks from `parking_lot` and join their threads one by one, and why there is a list of suppressions; see ARCHITECTURE.md.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::runner::Runner;
use super::{Failed, Outcome, Skipped, one, tools};

/// How `cargo xtask sanitize` is called.
#[derive(Args)]
pub(crate) struct Options {
    /// Which one
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    /// Fewer tests and a soak of 15 seconds
    #[arg(long)]
    quick: bool,
    /// How long the soak of each lasts, in minutes [default: 1, with --quick a quarter]
    #[arg(long)]
    minutes: Option<f64>,
    /// Shows the output of every command, not only of those that fail
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Thread,
    Address,
    Valgrind,
    All,
}

/// A sanitizer that is compiled in.
struct Sanitizer {
    name: &'static str,
    /// Variable of the environment that holds its options, and these.
    options: (&'static str, &'static str),
    /// More options, for tests.
    for_tests: &'static str,
    /// The fault that the soak makes on request, and the text that the report of it must have.
    fault: (&'static str, &'static str),
}

const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    options: ("TSAN_OPTIONS", "suppressions="),
    for_tests: " exitcode=0",
    fault: ("race", "WARNING: ThreadSanitizer: data race"),
};

const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    options: ("ASAN_OPTIONS", "detect_leaks=1 quarantine_size_mb=8"),
    for_tests: "",
    fault: (
        "use-after-free",
        "ERROR: AddressSanitizer: heap-use-after-free",
    ),
};

/// What ThreadSanitizer does not report.
const SUPPRESSIONS: &str = "xtask/sanitize/thread.supp";

/// Returns the target to name: build scripts and procedural macros are then not instrumented.
fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Crates and tests with threads; those of the library itself if no others are named.
const TESTS: &[(&str, &[&str])] = &[
    (
        "tanada-queues",
        &["deque", "fifo", "lane", "run_queue", "slot"],
    ),
    ("tanada-runtime", &["scope", "template", "pools"]),
    ("tanada-laws", &["many_threads"]),
    (
        "tanada-runtime",
        &[
            "errors",
            "fork_adws",
            "laws",
            "messages",
            "messages_shared",
            "messages_typed",
            "stale",
            // They switch stacks, of which the sanitizer is told.
            "threads",
            "thread_schedulers",
            "waiting_jobs",
        ],
    ),
    ("tanada-openmp", &[]),
];

/// Number of rows of [`TESTS`] that are run with `--quick`.
const QUICK: usize = 2;

/// Tests among them that say nothing under a sanitizer: those that measure time, those that fork or end the process, and those that are
/// about the compiler.
const SKIPPED_TESTS: &[&str] = &[
    "a_killed",
    "idle",
    "child_process",
    "ends_the_process",
    "the_environment",
];

/// Runs the sanitizers that `options` choose; returns whether nothing was found.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let runner = Runner::new(root, false, options.verbose);
    let minutes = options.minutes;
    let minutes = minutes.unwrap_or(if options.quick { 0.25 } else { 1.0 });
    let soak = Duration::from_secs_f64(60.0 * minutes.clamp(0.0, 1e6));
    let wanted = |which| options.which == which || options.which == Which::All;
    let mut good = true;
    let mut check = |which, name, check: &dyn Fn() -> Outcome| {
        if wanted(which) && !runner.interrupted() {
            let done = one(&runner, name, check);
            good &= done.is_some_and(|done| !matches!(done.outcome, Err(Failed(_))));
        }
    };
    check(Which::Thread, "thread", &|| {
        compiled(&runner, &THREAD, options.quick, (soak, true))
    });
    check(Which::Address, "address", &|| {
        compiled(&runner, &ADDRESS, options.quick, (soak, true))
    });
    check(Which::Valgrind, "valgrind", &|| {
        memcheck(&runner, (soak, true))
    });
    good && !runner.interrupted()
}

/// Runs the step of `cargo xtask test`: what is quick, or with `--full` everything.
pub(super) fn step(runner: &Runner) -> Outcome {
    if !runner.full {
        return compiled(runner, &THREAD, true, (Duration::from_secs(8), false));
    }
    let soak = Duration::from_secs(15);
    let mut skipped = Vec::new();
    let all: [&dyn Fn() -> Outcome; 3] = [
        &|| compiled(runner, &THREAD, false, (soak * 4, false)),
        &|| compiled(runner, &ADDRESS, false, (soak * 4, false)),
        &|| memcheck(runner, (soak * 2, false)),
    ];
    for check in all {
        match check() {
            Err(Skipped(why)) => skipped.push(why),
            ended => ended?,
        }
    }
    match skipped.is_empty() {
        true => Ok(()),
        false => Err(Skipped(skipped.join("; "))),
    }
}

/// One command after the other, until one does not do what it should.
#[derive(Clone, Copy)]
struct Parts<'a> {
    runner: &'a Runner,
    environment: &'a [(&'a str, &'a str)],
    limit: Duration,
    /// Whether to print how long each took.
    tell: bool,
}

impl Parts<'_> {
    /// Runs a program that must end well, and returns its output.
    fn good(&self, words: &[&str]) -> Outcome<String> {
        let begun = Instant::now();
        let ending = self.runner.run_words(words, self.environment, self.limit);
        if self.tell {
            let (seconds, start) = (begun.elapsed().as_secs_f64(), words.len().min(8));
            println!("         {seconds:7.1} s  {}", words[start..].join(" "));
        }
        ending
    }

    /// Runs tests that must pass without a report, but for one that is about the test harness.
    fn tests(&self, words: &[&str]) -> Outcome {
        let output = self.good(words)?;
        let passed = reports(&output).all(is_of_harness);
        if passed { Ok(()) } else { Err(Failed(output)) }
    }

    /// Runs a program that must end badly, and say `what`.
    fn fault(&self, words: &[&str], what: &str) -> Outcome {
        let ending = self.runner.run_words(words, self.environment, self.limit);
        let (Ok(output) | Err(Failed(output) | Skipped(output))) = &ending;
        if ending.is_err() && output.contains(what) {
            return Ok(());
        }
        Err(Failed(format!(
            "{output}\nthe fault that was made on purpose was not found: there is no \"{what}\" above"
        )))
    }
}

/// Returns what ThreadSanitizer wrote of each race.
fn reports(output: &str) -> impl Iterator<Item = &str> {
    let parts = output.split("WARNING: ThreadSanitizer: ").skip(1);
    parts.map(|part| part.split("\n====").next().unwrap_or(part))
}

/// Returns whether a race is that of the test harness: a test's thread hands its result on through a channel inside of the standard
/// library, and the sanitizer does not see what orders the two there. No code of this workspace is on the way. (It is sorted out here, and
/// not suppressed, so that this can be asked.)
fn is_of_harness(report: &str) -> bool {
    report.contains("<test::event::CompletedTest>") && !report.contains("/crates/")
}

/// How cargo builds with a sanitizer.
struct Builds {
    flags: String,
    /// Build folder.
    folder: String,
    target: String,
}

impl Builds {
    fn with(sanitizer: &Sanitizer) -> Builds {
        let name = sanitizer.name;
        Builds {
            // The second cfg says so to what switches stacks, and has to tell the sanitizer.
            flags: format!(
                "-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitized --cfg sanitized=\"{name}\""
            ),
            folder: format!("target/sanitize/{name}"),
            target: target(),
        }
    }

    fn environment(&self) -> [(&str, &str); 2] {
        [
            ("RUSTFLAGS", &self.flags),
            ("CARGO_TARGET_DIR", &self.folder),
        ]
    }

    /// Returns a command of cargo, to which its package is added.
    fn cargo<'a>(&'a self, verb: &'a str) -> Vec<&'a str> {
        let words = ["rustup", "run", "nightly", "cargo", verb];
        let rest = ["--target", &self.target, "--profile", "sanitize"];
        words.into_iter().chain(rest).collect()
    }

    /// Returns the command that builds the soak.
    fn soak(&self) -> Vec<&str> {
        [self.cargo("build"), vec!["--package", "tanada-soak"]].concat()
    }
}

/// Builds the soak for the step of `cargo xtask test`.
pub(super) fn build(runner: &Runner) -> Outcome {
    tools::nightly(runner)?;
    let builds = Builds::with(&THREAD);
    let limit = Duration::from_secs(1200);
    runner.run_words(&builds.soak(), &builds.environment(), limit)?;
    Ok(())
}

/// Runs everything under a sanitizer that is compiled in.
fn compiled(
    runner: &Runner,
    sanitizer: &Sanitizer,
    quick: bool,
    (soak, tell): (Duration, bool),
) -> Outcome {
    tools::nightly(runner)?;
    let builds = Builds::with(sanitizer);
    let (variable, mut options) = (sanitizer.options.0, sanitizer.options.1.to_owned());
    if options.ends_with('=') {
        options += &runner.root.join(SUPPRESSIONS).to_string_lossy();
    }
    // Tests go on after a report, and what they wrote is read; programs end badly.
    let for_tests = format!("{options}{}", sanitizer.for_tests);
    let [flags, folder] = builds.environment();
    let environment = [flags, folder, (variable, &options)];
    let for_tests = [flags, folder, (variable, &for_tests)];
    let parts = Parts {
        runner,
        environment: &environment,
        limit: Duration::from_secs(1200) + soak,
        tell,
    };
    let Builds { folder, target, .. } = &builds;
    let program = format!("{folder}/{target}/sanitize/tanada-soak");
    parts.good(&builds.soak())?;
    let (fault, report) = sanitizer.fault;
    parts.fault(&[&program, "--fault", fault], report)?;
    let common = TESTS[..if quick { QUICK } else { TESTS.len() }].iter();
    let commands: Vec<Vec<&str>> = common
        .map(|(package, tests)| {
            let mut words = builds.cargo("test");
            words.extend(["--package", package]);
            if tests.is_empty() {
                words.push("--lib");
            }
            words.extend(tests.iter().flat_map(|test| ["--test", test]));
            words
        })
        .collect();
    for mut words in commands {
        // On one thread the harness needs no channel, whose inside the sanitizer does not see.
        words.extend(["--", "--test-threads", "1"]);
        words.extend(SKIPPED_TESTS.iter().flat_map(|test| ["--skip", test]));
        let environment = &for_tests;
        let parts = Parts {
            environment,
            ..parts
        };
        parts.tests(&words)?;
    }
    soak_parts(&parts, &[&program], soak, &[])
}

/// Runs the soak, and the decoding of a stream.
fn soak_parts(parts: &Parts<'_>, program: &[&str], soak: Duration, bounds: &[&str]) -> Outcome {
    let duration = format!("{}s", soak.as_secs_f64());
    let decoding = format!("{}s", soak.as_secs_f64().min(60.0) / 5.0);
    let patience = ["--patience", "300"];
    let decode = ["--only", "decoding", "--duration", &decoding];
    parts.good(&[program, bounds, &patience, &decode].concat())?;
    parts.good(&[program, bounds, &patience, &["--duration", &duration]].concat())?;
    Ok(())
}

/// Runs a short soak and decoding under Valgrind.
fn memcheck(runner: &Runner, (soak, tell): (Duration, bool)) -> Outcome {
    if !runner.works(&["valgrind", "--version"]) {
        return Err(Skipped(
            "valgrind is missing: apt-get install valgrind".into(),
        ));
    }
    let parts = Parts {
        runner,
        environment: &[],
        limit: Duration::from_secs(1200) + soak,
        tell,
    };
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
        "--fair-sched=yes",
        "target/release/tanada-soak",
    ];
    parts.good(&["cargo", "build", "--release", "--package", "tanada-soak"])?;
    let fault = ["--fault", "invalid-read"];
    parts.fault(&[&valgrind[..], &fault].concat(), "Invalid read of size 1")?;
    // Valgrind runs one thread at a time, each some thirty times slower.
    let bounds = ["--workers", "6", "--tasks", "60"];
    soak_parts(&parts, &valgrind, soak, &bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(runner: &Runner) -> Parts<'_> {
        Parts {
            runner,
            environment: &[],
            limit: Duration::from_secs(10),
            tell: false,
        }
    }

    #[test]
    fn a_fault_that_is_not_found_or_another_one_fails_the_check() {
        let runner = Runner::new(Path::new(env!("CARGO_MANIFEST_DIR")), false, false);
        let parts = parts(&runner);
        let shell = |script| ["sh", "-c", script];
        assert!(
            parts
                .fault(&shell("echo data race >&2; exit 66"), "data race")
                .is_ok()
        );
        for silent in ["echo data race", "echo segmentation fault; exit 139"] {
            let Err(Failed(why)) = parts.fault(&shell(silent), "data race") else {
                panic!("{silent} passed")
            };
            assert!(why.contains("was not found"), "{why}");
        }
        assert!(parts.good(&shell("exit 1")).is_err());
    }

    #[test]
    fn a_race_of_the_harness_is_distinguished_from_one_of_ours() {
        let harness = "#4 <std::sync::mpmc::list::Channel<test::event::CompletedTest>>::read";
        let race = |frame: &str| {
            format!("==\nWARNING: ThreadSanitizer: data race (pid=1)\n  {frame}\n====\n")
        };
        let ours = race("#0 write crates/soak/src/ledger.rs:40");
        let mixed = race(&format!(
            "{harness}\n  #5 run /crates/runtime/src/pool.rs:1"
        ));
        let good = |output: &str| reports(output).all(is_of_harness);
        assert!(good("test result: ok") && good(&race(harness)));
        assert!(!good(&ours) && !good(&mixed) && !good(&(race(harness) + &ours)));
    }

    #[test]
    fn only_what_the_standard_library_hides_is_suppressed() {
        let text = std::fs::read_to_string(crate::root().join(SUPPRESSIONS)).expect("the list");
        let rules: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .collect();
        // The start of a thread could be named, too, but is at the bottom of every thread's stack: that would suppress everything.
        assert_eq!(
            rules,
            ["race:alloc/src/sync.rs", "race:alloc::sync::Arc<*>::drop"]
        );
    }
}
