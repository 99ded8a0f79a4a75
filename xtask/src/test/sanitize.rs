//! Tests, soak and decoding under ThreadSanitizer, AddressSanitizer and Valgrind's memcheck.
//!
//! Each of the three must first find a fault that the soak makes on purpose: a check that cannot fail would prove nothing.
//!
//! For ThreadSanitizer the standard library is built, too: of one that is not, the sanitizer does not see what its channels, locks and
//! `Arc` order. So nothing is suppressed, and any report fails.

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
    /// Whether the standard library is built with it.
    builds_std: bool,
    /// The fault that the soak makes on request, and the text that the report of it must have.
    fault: (&'static str, &'static str),
    /// Tests that need other options, and these: they run in a command of their own.
    apart: &'static [&'static str],
    apart_options: &'static str,
}

const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    options: ("TSAN_OPTIONS", "history_size=7"),
    builds_std: true,
    fault: ("race", "WARNING: ThreadSanitizer: data race"),
    apart: &[],
    apart_options: "",
};

const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    options: ("ASAN_OPTIONS", "detect_leaks=1 quarantine_size_mb=8"),
    builds_std: false,
    fault: (
        "use-after-free",
        "ERROR: AddressSanitizer: heap-use-after-free",
    ),
    // A task that a policy has lost, its graph and its pool stay in memory, because it may turn up. A payload that panics when it is
    // dropped is forgotten.
    apart: &[
        "loses_tasks",
        "lost_tasks",
        "were_lost",
        "leaves_tasks",
        "keeps_its_workers_searching",
        "payload_panics",
        // It forgets the handle of a thread.
        "a_panic_of_one_is_seen",
        // What other threads of the process have is found on no stack when it ends.
        "a_thread_may_end",
        // The memory of tasks is the process's, as is what the loader maps, for which the second one has a leaked table.
        "blocks_come_back",
        "blocks_do_not_overlap",
        "functions_end_where",
        // They measure their stack: the sanitizer keeps variables elsewhere.
        "at_the_end_of_its_stack",
        "deep_and_narrow",
    ],
    apart_options: "detect_leaks=0 detect_stack_use_after_return=0 quarantine_size_mb=8",
};

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
            "fork_each",
            "laws",
            "late_starts",
            "messages",
            "messages_shared",
            "messages_typed",
            "stale",
            // They switch stacks, of which the sanitizer is told.
            "threads",
            "thread_deadlocks",
            "thread_ends",
            "thread_faults",
            "thread_schedulers",
            "waiting_jobs",
        ],
    ),
    ("tanada-openmp", &[]),
];

/// Number of rows of [`TESTS`] that are run with `--quick`.
const QUICK: usize = 2;

/// Tests among them that say nothing under a sanitizer: those that measure time, or how often a worker is in time, those that fork or end
/// the process, and those that are about the compiler or the standard library.
const SKIPPED_TESTS: &[&str] = &[
    "a_killed",
    "idle",
    "child_process",
    "most_shares_are_kept",
    "child_of_fork",
    "ends_the_process",
    "a_stack_overflow_elsewhere",
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

/// How cargo builds with a sanitizer.
struct Builds {
    flags: String,
    /// Build folder.
    folder: String,
    target: String,
    /// More options of cargo.
    more: &'static [&'static str],
}

impl Builds {
    fn new(runner: &Runner, sanitizer: &Sanitizer) -> Outcome<Builds> {
        match sanitizer.builds_std {
            true => tools::components(runner, &[tools::STD_SOURCES])?,
            false => tools::nightly(runner)?,
        }
        let name = sanitizer.name;
        Ok(Builds {
            // The second cfg says so to what switches stacks, and has to tell the sanitizer.
            flags: format!(
                "-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitized --cfg sanitized=\"{name}\""
            ),
            folder: format!("target/sanitize/{name}"),
            target: target(),
            more: if sanitizer.builds_std {
                &["-Zbuild-std"]
            } else {
                &[]
            },
        })
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
        let more = self.more.iter().copied();
        words.into_iter().chain(rest).chain(more).collect()
    }

    /// Returns the command that builds the soak.
    fn soak(&self) -> Vec<&str> {
        [self.cargo("build"), vec!["--package", "tanada-soak"]].concat()
    }
}

/// Builds the soak for the step of `cargo xtask test`.
pub(super) fn build(runner: &Runner) -> Outcome {
    let builds = Builds::new(runner, &THREAD)?;
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
    let builds = Builds::new(runner, sanitizer)?;
    let [flags, folder] = builds.environment();
    let parts = Parts {
        runner,
        environment: &[flags, folder, sanitizer.options],
        limit: Duration::from_secs(1200) + soak,
        tell,
    };
    let program = format!("{}/{}/sanitize/tanada-soak", builds.folder, builds.target);
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
    let skip = |tests: &'static [&str]| tests.iter().flat_map(|test| ["--skip", test]);
    let apart = Parts {
        environment: &[
            flags,
            folder,
            (sanitizer.options.0, sanitizer.apart_options),
        ],
        ..parts
    };
    for mut words in commands {
        // Each test has many threads of its own.
        words.extend(["--", "--test-threads", "1"]);
        words.extend(skip(SKIPPED_TESTS));
        let mut rest = words.clone();
        rest.extend(skip(sanitizer.apart));
        parts.good(&rest)?;
        if !sanitizer.apart.is_empty() {
            words.extend(sanitizer.apart);
            apart.good(&words)?;
        }
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

/// Runs the tests of lightweight threads, a short soak and decoding under Valgrind.
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
    ];
    // They switch stacks, which are announced to Valgrind.
    let target = target().to_uppercase().replace('-', "_");
    let runs = (format!("CARGO_TARGET_{target}_RUNNER"), valgrind.join(" "));
    let threads = Parts {
        environment: &[(&runs.0, &runs.1)],
        ..parts
    };
    let tests = ["cargo", "test", "--release", "--package", "tanada-runtime"];
    let words = ["--test", "threads", "--", "--test-threads", "1"];
    threads.good(&[&tests[..], &words].concat())?;
    parts.good(&["cargo", "build", "--release", "--package", "tanada-soak"])?;
    let valgrind = [&valgrind[..], &["target/release/tanada-soak"]].concat();
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
}
