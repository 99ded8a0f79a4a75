//! Runs the binary and looks at what it says.

#![allow(dead_code, reason = "each test file uses its part")]

use md5::{Digest as _, Md5};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The binary with its arguments, in a folder of its own.
pub(crate) fn tanada(folder: &Path, arguments: &[&str]) -> Command {
    heed_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tanada"));
    in_folder(&mut command, folder).args(arguments);
    command
}

/// As [`tanada`], with at most so many kilobytes of address space.
pub(crate) fn limited(folder: &Path, arguments: &[&str], kilobytes: u64) -> Command {
    heed_signals();
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\"");
    in_folder(&mut command, folder)
        .args(["-c", &script, env!("CARGO_BIN_EXE_tanada")])
        .args(arguments);
    command
}

fn in_folder<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command
        .current_dir(folder)
        .env_remove("TANADA_WORKERS")
        // Streams that are no part of the project change what some verbs do.
        .env("TANADA_SHARED", folder)
}

/// What a run said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn said(output: Output) -> Said {
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!err.contains("panicked"), "{err}");
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        bytes: output.stdout,
        err,
    }
}

/// Lets programs that this process starts obey signals that this process ignores, as it does in the background of a script: a signal with a
/// handler has its default action in a new program, an ignored one stays ignored.
pub(crate) fn heed_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        if mask("self", "SigIgn:") >> (signal - 1) & 1 == 1 {
            let unused = Arc::<AtomicBool>::default();
            signal_hook::flag::register(signal, unused).expect("it can be caught");
        }
    }
}

/// A mask of signals of a process, the first in the lowest bit (proc(5)).
pub(crate) fn mask(process: &str, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.expect("the program runs");
    let mask = status.lines().find_map(|line| line.strip_prefix(key));
    u64::from_str_radix(mask.expect("it is there").trim(), 16).expect("a number")
}

/// Starts what is to be interrupted. It catches Ctrl-C when this returns: before, the signal would end it as it ends any program.
pub(crate) fn started(mut command: Command) -> Child {
    command.stderr(Stdio::piped());
    started_with_stderr(command)
}

/// As [`started`], with the standard error that `command` has.
pub(crate) fn started_with_stderr(mut command: Command) -> Child {
    heed_signals();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let process = child.id().to_string();
    // An interrupt is number 2.
    let catches = || mask(&process, "SigCgt:") & 0b10 != 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !catches() {
        assert!(
            Instant::now() < deadline && child.try_wait().expect("it can be asked").is_none(),
            "it never catches Ctrl-C"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// Runs it to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Said {
    said(
        tanada(folder, arguments)
            .output()
            .expect("the program starts"),
    )
}

/// As [`run`], of a command line that must succeed.
pub(crate) fn good(folder: &Path, arguments: &[&str]) -> Said {
    let said = run(folder, arguments);
    assert_eq!(
        said.code,
        Some(0),
        "{arguments:?}: {}{}",
        said.out,
        said.err
    );
    said
}

/// As [`run`], of a command line that must fail with `code`; the message must hold all of `words`.
pub(crate) fn bad(folder: &Path, arguments: &[&str], code: i32, words: &[&str]) -> Said {
    let said = run(folder, arguments);
    assert_eq!(
        said.code,
        Some(code),
        "{arguments:?}: {}{}",
        said.out,
        said.err
    );
    for word in words {
        assert!(
            said.err.contains(word),
            "{arguments:?}: no \"{word}\" in: {}",
            said.err
        );
    }
    said
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test's files")
}

pub(crate) fn md5(bytes: &[u8]) -> String {
    Md5::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The first pictures of the demo stream as a file: short enough for tests that decode it often.
pub(crate) fn short_stream(folder: &Path) -> PathBuf {
    let path = folder.join("short.264");
    std::fs::write(&path, first_units(tanada_harness::DEMO, 8))
        .expect("the folder can be written to");
    path
}

/// An Annex B stream up to and including its unit number `units`.
pub(crate) fn first_units(stream: &[u8], units: usize) -> &[u8] {
    let starts = stream
        .windows(3)
        .enumerate()
        .filter(|(_, three)| *three == [0, 0, 1]);
    let end = starts.map(|(at, _)| at).nth(units).unwrap_or(stream.len());
    &stream[..end]
}

/// MD5 of the demo stream's frames, as an independent decoder gave them.
pub(crate) fn demo_md5() -> &'static str {
    let line = include_str!("../../../../demo/terraces_wvga.md5");
    line.split_whitespace().next().expect("a sum and a name")
}
