//! rayon's own tests against our `rayon-core`.
//!
//! The published packages `rayon` and `rayon-core` come through cargo. A copy in `target/rayon-tests` is built with our package in the
//! place of the published `rayon-core`; nothing of theirs lies in this project. rayon's tests run as they are. Those of `rayon-core` that
//! lie in its modules are put into a package whose root re-exports ours, because they name their own crate. The tests of our package run
//! with them: it is a workspace of its own, which `cargo test --workspace` does not reach.
//!
//! Under ThreadSanitizer the standard library is built with it (`-Zbuild-std`), so that what its channels, locks and `Arc` order is seen,
//! and no report has to be suppressed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

/// A test that is taken out of the copy.
struct LeftOut {
    /// Below the folder of rayon-core's tests.
    file: &'static str,
    test: &'static str,
    why: &'static str,
}

/// What is not run, and why.
const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        file: "src/thread_pool/test.rs",
        test: "workers_stop",
        why: "reads the private field `registry`; `threads_end_with_their_pool` in rayon-core/tests is the same without it",
    },
    LeftOut {
        file: "src/thread_pool/test.rs",
        test: "sleeper_stop",
        why: "reads the private field `registry`; `sleeping_threads_end_with_their_pool` in rayon-core/tests is the same without it",
    },
];

/// Options of `cargo xtask rayon`.
#[derive(Args)]
pub(crate) struct Options {
    /// The numbers of threads of the global pool with which all tests run.
    #[arg(long, value_delimiter = ',', default_value = "1,2,8,64")]
    threads: Vec<usize>,
    /// Only the tests of rayon-core, which build in a minute; those of rayon's iterators take several.
    #[arg(long)]
    core: bool,
    /// Leaves out the documentation tests, of which some must not compile.
    #[arg(long)]
    no_doc: bool,
    /// Only these tests: a part of their names.
    #[arg(long)]
    only: Option<String>,
    /// The policy of forks of the pools that name none.
    #[arg(long)]
    policy: Option<String>,
    /// Builds with the nightly compiler and a sanitizer: `thread` (with the standard library, whose source it needs) or `address`. Fails if
    /// there is a report. Without documentation tests.
    #[arg(long, value_parser = ["thread", "address"])]
    sanitize: Option<String>,
}

/// Tests that say nothing under a sanitizer: those that end a process of their own, and those that use up a stack.
const NOT_SANITIZED: &[&str] = &["overflow", "exits", "sigpipe"];

/// A race on purpose, beside rayon-core's tests: what ThreadSanitizer must find before what it does not find means anything.
const RACE: &str = "\
use std::cell::UnsafeCell;
use std::sync::Barrier;

struct Count(UnsafeCell<u64>);
// What follows from this is the point.
unsafe impl Sync for Count {}
impl Count {
    fn add(&self) {
        unsafe { *self.0.get() += 1 };
    }
}

#[test]
#[ignore]
fn two_threads_write() {
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (count, both) = (Count(UnsafeCell::new(0)), Barrier::new(2));
    pool.broadcast(|_| {
        both.wait();
        count.add();
    });
}
";

/// The root of the package that holds rayon-core's tests.
const ROOT: &str = "\
#![allow(dead_code)]
pub use rayon_core::*;
mod unwind;
mod registry {
    pub(crate) fn in_worker<R: Send>(op: impl FnOnce(&(), bool) -> R + Send) -> R {
        rayon_core::scope(|_| op(&(), false))
    }
}
mod broadcast { #[cfg(test)] mod test; }
mod join {
    #[allow(unused_imports)]
    use crate::{FnContext, join, join_context, unwind};
    #[cfg(test)]
    mod test;
}
mod scope { #[cfg(test)] mod test; }
mod spawn {
    #[allow(unused_imports)]
    pub(crate) use crate::{spawn, spawn_fifo};
    #[cfg(test)]
    mod test;
}
mod thread_pool { #[cfg(test)] mod test; }
mod compile_fail;
mod test;
";

/// Runs the tests. Returns whether all passed, or none could run.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let folder = root.join("target").join("rayon-tests");
    let packages = match prepare(root, &folder) {
        Ok([ours, core, _]) if options.core => vec![ours, core],
        Ok(all) => all.into(),
        Err(why) => {
            eprintln!("SKIPPED: rayon's tests cannot run here: {why}");
            return true;
        }
    };
    for LeftOut { file, test, why } in LEFT_OUT {
        println!("left out: {test} in {file}: {why}");
    }
    let ours = root.join("rayon-core");
    for package in &packages {
        // This also fetches what the tests depend on. A patch that cargo does not use is only a warning of cargo's.
        match fetched(package, "rayon-core") {
            Ok(found) if found == ours => {}
            Ok(found) => {
                let (package, found) = (package.display(), found.display());
                eprintln!("{package} would be tested with {found}, not with ours");
                return false;
            }
            Err(why) => {
                eprintln!("SKIPPED: rayon's tests cannot run here: {why}");
                return true;
            }
        }
    }
    let mut passed = true;
    if options.sanitize.as_deref() == Some("thread") {
        match finds_a_race(&packages[1], &folder, options) {
            Ok(found) => passed &= found,
            Err(why) => {
                eprintln!("SKIPPED: {why}");
                return true;
            }
        }
    }
    for package in &packages {
        for threads in &options.threads {
            passed &= test(package, &folder, options, "--tests", Some(*threads));
        }
        if !options.no_doc && options.sanitize.is_none() {
            passed &= test(package, &folder, options, "--doc", None);
        }
    }
    if !options.core && options.sanitize.is_none() && options.only.is_none() {
        passed &= profiled(root, &folder);
    }
    passed
}

/// A program on rayon's iterators: eight pieces of at least 2 ms each, at a line that the report must name.
const PROFILED: &str = "\
use rayon::prelude::*;
use std::time::{Duration, Instant};

fn work(piece: u32) -> u32 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    piece
}

fn main() {
    let pieces: Vec<u32> = (0..8).collect();
    let sum: u32 = pieces.par_iter().map(|piece| work(*piece)).sum();
    println!(\"{sum}\");
}
";

/// Profiles a program on rayon's own iterators. Returns whether the report has its work, its span and its line.
fn profiled(root: &Path, folder: &Path) -> bool {
    println!("== a profile of rayon's iterators");
    let check = || -> Result<(), String> {
        let error = |error: std::io::Error| error.to_string();
        let package = folder.join("profiled");
        fs::create_dir_all(package.join("src")).map_err(error)?;
        put(&package.join("src/main.rs"), PROFILED.as_bytes()).map_err(error)?;
        let manifest = format!(
            "[package]\nname = \"profiled\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nrayon = \"=1.12.0\"\n\n\
             [profile.release]\ndebug = \"line-tables-only\"\n\n[workspace]\n\n\
             [patch.crates-io]\nrayon-core = {{ path = {:?} }}\n",
            root.join("rayon-core").display().to_string()
        );
        put(&package.join("Cargo.toml"), manifest.as_bytes()).map_err(error)?;
        let report = package.join("out.json");
        let _ = fs::remove_file(&report);
        let status = Command::new("cargo")
            .args(["run", "--release", "--quiet"])
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("RAYON_NUM_THREADS", "2")
            .env("TANADA_PROFILE", &report)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("the program failed".to_owned());
        }
        let text = fs::read_to_string(&report).map_err(error)?;
        let number = |key: &str| -> Result<u64, String> {
            let missing = || format!("no {key} in {text}");
            let rest = &text[text.find(key).ok_or_else(missing)? + key.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())]
                .parse()
                .map_err(|_| missing())
        };
        let (work, span) = (
            number("\"profile\":{\"work_ns\":")?,
            number("\"span_ns\":")?,
        );
        // On two threads rayon splits at least once, so half of the pieces lie beside the longest path.
        if work < 16_000_000 || span < 2_000_000 || span > work - 8_000_000 {
            return Err(format!("work {work}, span {span}"));
        }
        let line = 1 + PROFILED
            .lines()
            .take_while(|line| !line.contains("par_iter"))
            .count();
        let line = format!("src/main.rs:{line}\"");
        if !text.contains(&line) {
            return Err(format!("{line} is not in {text}"));
        }
        Ok(())
    };
    let result = check();
    if let Err(why) = &result {
        eprintln!("{why}");
    }
    result.is_ok()
}

/// Runs the tests of one package.
fn test(
    package: &Path,
    folder: &Path,
    options: &Options,
    which: &str,
    threads: Option<usize>,
) -> bool {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let global = threads.map_or_else(String::new, |threads| format!(", {threads} threads"));
    println!("== {name} {which}{global}");
    let mut command = cargo_test(package, folder, options, which);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    if let Some(policy) = &options.policy {
        command.env("TANADA_POLICY", policy);
    }
    command.arg("--").arg("--quiet");
    if options.sanitize.is_some() {
        // One after the other: a report then names what runs.
        command.args(["--test-threads", "1"]);
        command.args(NOT_SANITIZED.iter().flat_map(|test| ["--skip", test]));
    }
    command.args(&options.only);
    command.status().is_ok_and(|status| status.success())
}

/// Returns whether ThreadSanitizer finds a race that is made on purpose.
///
/// # Errors
/// If the standard library cannot be built here.
fn finds_a_race(package: &Path, folder: &Path, options: &Options) -> Result<bool, String> {
    println!("== a race on purpose");
    let sysroot = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .output();
    let sysroot = sysroot.map_err(|error| error.to_string())?.stdout;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    if !sysroot.join("lib/rustlib/src/rust/library/std").exists() {
        return Err(
            "no source of the standard library: rustup component add rust-src --toolchain nightly"
                .to_owned(),
        );
    }
    let test = package.join("tests/race_on_purpose.rs");
    put(&test, RACE.as_bytes()).map_err(|error| error.to_string())?;
    let mut command = cargo_test(package, folder, options, "--test=race_on_purpose");
    let output = command
        .args(["--", "--ignored"])
        .output()
        .map_err(|error| error.to_string())?;
    // It is no test of the runs that follow.
    fs::remove_file(&test).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let found = !output.status.success() && text.contains("WARNING: ThreadSanitizer: data race");
    if !found {
        eprintln!("{text}\nthe race was not found");
    }
    Ok(found)
}

/// Returns the command that builds and runs tests of a package; arguments of the tests follow.
fn cargo_test(package: &Path, folder: &Path, options: &Options, which: &str) -> Command {
    let mut command = match &options.sanitize {
        None => Command::new("cargo"),
        Some(_) => {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "cargo"]);
            command
        }
    };
    command
        .args(["test", "--no-fail-fast", which])
        .current_dir(package)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Some of rayon's tests walk through a part of 10^27 numbers: minutes, if that is not optimised.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "2")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
    if let Some(sanitizer) = &options.sanitize {
        // A target is named so that build scripts are not instrumented.
        command
            .args([
                "--target",
                &format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            ])
            .env("CARGO_TARGET_DIR", folder.join(format!("{sanitizer}-sanitized")))
            .env("TSAN_OPTIONS", "history_size=7")
            .env("ASAN_OPTIONS", "detect_leaks=0")
            // Reports name files.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env(
                "RUSTFLAGS",
                format!(
                    "-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitized --cfg sanitized=\"{sanitizer}\""
                ),
            );
        if sanitizer == "thread" {
            // Without its own the standard library's channels, locks and `Arc` order nothing that the sanitizer sees: some 50 reports.
            command.arg("-Zbuild-std");
        }
    }
    command
}

/// Puts the packages that hold the tests into `folder`. Returns the folders of our package, of rayon-core's tests and of rayon.
fn prepare(root: &Path, folder: &Path) -> Result<[PathBuf; 3], String> {
    let error = |error: std::io::Error| error.to_string();
    let ours = root.join("rayon-core");
    let patch = format!(
        "\n[workspace]\n\n[patch.crates-io]\nrayon-core = {{ path = {:?} }}\n",
        ours.display().to_string()
    );
    let asks = folder.join("asks");
    fs::create_dir_all(asks.join("src")).map_err(error)?;
    put(&asks.join("src/lib.rs"), b"").map_err(error)?;
    let manifest = "[package]\nname = \"asks\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
        [dependencies]\nrayon = \"=1.12.0\"\nrayon-core = \"=1.13.0\"\n\n[workspace]\n";
    put(&asks.join("Cargo.toml"), manifest.as_bytes()).map_err(error)?;
    let rayon = fetched(&asks, "rayon")?;
    let core = fetched(&asks, "rayon-core")?;

    let tests = folder.join("rayon");
    copy(&rayon, &tests).map_err(error)?;
    let manifest = fs::read_to_string(rayon.join("Cargo.toml")).map_err(error)?;
    put(&tests.join("Cargo.toml"), (manifest + &patch).as_bytes()).map_err(error)?;

    let core_tests = folder.join("rayon-core-tests");
    copy(&core.join("tests"), &core_tests.join("tests")).map_err(error)?;
    let src = core_tests.join("src");
    copy(&core.join("src/compile_fail"), &src.join("compile_fail")).map_err(error)?;
    let modules = ["broadcast", "join", "scope", "spawn", "thread_pool"];
    let modules = modules.map(|module| format!("src/{module}/test.rs"));
    for file in modules
        .iter()
        .map(String::as_str)
        .chain(["src/test.rs", "src/unwind.rs"])
    {
        let mut text = fs::read_to_string(core.join(file)).map_err(error)?;
        for LeftOut { test, .. } in LEFT_OUT.iter().filter(|left| left.file == file) {
            text = without(&text, test).ok_or_else(|| format!("no test {test}"))?;
        }
        let to = core_tests.join(file);
        fs::create_dir_all(to.parent().expect("a folder")).map_err(error)?;
        put(&to, text.as_bytes()).map_err(error)?;
    }
    put(&src.join("lib.rs"), ROOT.as_bytes()).map_err(error)?;
    let manifest = format!(
        "[package]\nname = \"rayon-core-tests\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
        [dependencies]\nrayon-core = {{ path = {:?} }}\n\n\
        [dev-dependencies]\nrand = \"0.9\"\nrand_xorshift = \"0.4\"\nscoped-tls = \"1.0\"\nlibc = \"0.2\"\n\
        crossbeam-utils = \"0.8\"\n\n[workspace]\n",
        ours.display().to_string()
    );
    put(&core_tests.join("Cargo.toml"), manifest.as_bytes()).map_err(error)?;
    Ok([ours, core_tests, tests])
}

/// Returns `text` without the test function called `test`; `None` if there is none.
fn without(text: &str, test: &str) -> Option<String> {
    let function = text.find(&format!("\nfn {test}("))?;
    let start = text[..function].rfind("\n#[test]\n")?;
    let end = function + text[function..].find("\n}\n")? + "\n}".len();
    Some(text[..start].to_owned() + &text[end..])
}

/// Returns the folder in which cargo keeps the sources of `package`, a dependency of the package in `of`.
pub(crate) fn fetched(of: &Path, package: &str) -> Result<PathBuf, String> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(of)
        .exec()
        .map_err(|error| error.to_string())?;
    let mut all = metadata.packages.iter();
    let found = all
        .find(|found| found.name.as_str() == package)
        .and_then(|found| found.manifest_path.parent());
    found
        .map(|folder| folder.as_std_path().to_owned())
        .ok_or_else(|| format!("cargo does not have {package}"))
}

/// Writes a file, unless it has this content already: cargo builds again what is newer than its last build.
fn put(file: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(file).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::write(file, content)
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => put(&target, &fs::read(entry.path())?)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn one_test_is_taken_out() {
        let text = "use a;\n\n#[test]\nfn one() {\n    {\n    }\n}\n\n#[test]\n#[ignore]\nfn two() {\n    b();\n}\n\nfn three() {\n}\n";
        let left = "use a;\n\n#[test]\nfn one() {\n    {\n    }\n}\n\n\nfn three() {\n}\n";
        assert_eq!(without(text, "two").as_deref(), Some(left));
        assert_eq!(without(text, "four"), None);
    }
}
