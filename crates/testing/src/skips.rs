//! Tests that cannot run say so here. A test that returned silently would count as passed.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the file to which [`skip`] and [`program`] append a line; `cargo xtask test` sets it.
pub const RECORD: &str = "TANADA_SKIPS";

/// Environment variable that turns skips into failures: `1` all of them, `installable` those of [`program`] only.
pub const STRICT: &str = "TANADA_STRICT";

/// Reports that the calling test, or a part of it, cannot run because of something that cannot be installed everywhere: test data, a
/// property of the processor, a program without a package. The caller returns afterwards.
///
/// Appends `PROGRAM::TEST<tab>REASON` to the file that [`RECORD`] names. Without that variable the line goes to standard error, past the
/// capture of the test harness.
///
/// # Panics
/// If [`STRICT`] is `1`, or if the file of [`RECORD`] cannot be written.
pub fn skip(reason: impl Display) {
    report(&reason.to_string(), is_strict(strict().as_deref(), false));
}

/// Returns the first of `names` that lies in a folder of `PATH`. If there is none, reports like [`skip`] that the calling test cannot run,
/// and returns `None`. For programs that the step `tools` of `cargo xtask test` installs, from the Debian package `package`; `purpose` says
/// what the test does with the program.
///
/// # Panics
/// If there is none and [`STRICT`] is `1` or `installable`, or if the file of [`RECORD`] cannot be written.
pub fn program(names: &[&str], package: &str, purpose: impl Display) -> Option<PathBuf> {
    let found = find_program(names);
    if found.is_none() {
        let reason = format!(
            "no {} for {purpose}: apt-get install {package}",
            names.join(", ")
        );
        report(&reason, is_strict(strict().as_deref(), true));
    }
    found
}

fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

fn strict() -> Option<String> {
    std::env::var(STRICT).ok()
}

fn is_strict(value: Option<&str>, installable: bool) -> bool {
    match value {
        Some("" | "0") | None => false,
        Some("installable") => installable,
        Some(_) => true,
    }
}

fn report(reason: &str, strict: bool) {
    let name = format!("{}::{}", test_program(), test());
    assert!(!strict, "{name} cannot run: {reason} ({STRICT} is set)");
    let line = line(&name, reason);
    match std::env::var_os(RECORD).map(PathBuf::from) {
        Some(file) => append(&file, &line)
            .unwrap_or_else(|error| panic!("cannot record in {}: {error}", file.display())),
        // Written without `eprintln!`, whose output the harness keeps to itself if a test passes.
        None => _ = write!(std::io::stderr().lock(), "SKIPPED {line}"),
    }
}

/// Appends `line` in one write, so that lines of test programs that run at the same time do not mix.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file)?;
    file.write_all(line.as_bytes())
}

fn line(name: &str, reason: &str) -> String {
    format!("{name}\t{}\n", reason.replace(['\n', '\t'], " "))
}

/// Returns the test program's name, without the hash that cargo appends.
fn test_program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match stem.rsplit_once('-') {
        Some((name, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name.to_owned()
        }
        _ => stem.into_owned(),
    }
}

/// Returns the test's name, after which the harness names the thread.
fn test() -> String {
    let thread = std::thread::current();
    thread
        .name()
        .unwrap_or("a thread without a name")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_installed_fails_sooner() {
        let table = [
            (None, [false, false]),
            (Some(""), [false, false]),
            (Some("0"), [false, false]),
            (Some("installable"), [true, false]),
            (Some("1"), [true, true]),
            (Some("all"), [true, true]),
        ];
        for (value, expected) in table {
            let found = [is_strict(value, true), is_strict(value, false)];
            assert_eq!(found, expected, "{value:?}");
        }
    }

    #[test]
    fn a_line_names_program_and_test() {
        let name = format!("{}::{}", test_program(), test());
        assert_eq!(
            name,
            "tanada_testing::skips::tests::a_line_names_program_and_test"
        );
        assert_eq!(line("a::b", "no\nfile\tx"), "a::b\tno file x\n");
    }

    #[test]
    fn lines_are_appended() {
        let file = std::env::temp_dir().join(format!("tanada-skips-{}", std::process::id()));
        append(&file, "a\n").expect("a writable folder");
        append(&file, "b\n").expect("a writable folder");
        let text = std::fs::read_to_string(&file).expect("the file");
        std::fs::remove_file(&file).expect("the file");
        assert_eq!(text, "a\nb\n");
    }

    #[test]
    #[should_panic(expected = "cannot run: no data")]
    fn a_strict_skip_panics() {
        report("no data", true);
    }

    #[test]
    fn programs_are_looked_up_in_the_path() {
        let shell = find_program(&["no-such-program-at-all", "sh"]).expect("a shell");
        assert!(shell.ends_with("sh"));
        assert_eq!(find_program(&["no-such-program-at-all"]), None);
    }
}
