//! Ctrl-C.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{folder, said, started, tanada};

/// Sends the signal once `begun` says yes, and waits for the end, which must come within a few seconds.
fn interrupted(command: std::process::Command, begun: impl Fn() -> bool) -> support::Said {
    let child = started(command);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !begun() {
        assert!(Instant::now() < deadline, "the work never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it still runs");
    let sent = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(
        sent.elapsed() < Duration::from_secs(20),
        "it took {:?} to stop",
        sent.elapsed()
    );
    said(output)
}

/// Bytes of the output that is being written and does not have its name yet; `None` where there is none.
fn unfinished(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut hidden =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tanada-"));
    Some(hidden.next()?.metadata().ok()?.len())
}

#[test]
fn what_was_there_stays_nothing_else_is_left_and_the_code_is_130() {
    let folder = folder();
    let stream = folder.path().join("demo.264");
    std::fs::write(&stream, tanada_harness::DEMO.repeat(40)).expect("the folder can be written to");
    let frames = folder.path().join("out.yuv");
    std::fs::write(&frames, "old").expect("the folder can be written to");
    for more in [&["--policy", "random-steal"][..], &["--sequential"]] {
        let arguments = [&["run", "h264", "demo.264", "-o", "out.yuv"], more].concat();
        let grows = || unfinished(folder.path()).is_some_and(|bytes| bytes > 0);
        let said = interrupted(tanada(folder.path(), &arguments), grows);
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert!(said.err.contains("stopped"), "{}", said.err);
        assert_eq!(std::fs::read(&frames).expect("it is there"), b"old");
        assert_eq!(unfinished(folder.path()), None, "{}", said.err);
    }
    let said = interrupted(
        tanada(
            folder.path(),
            &["compare", "-o", "page.html", "--repeat", "1000"],
        ),
        || unfinished(folder.path()).is_some(),
    );
    assert_eq!(said.code, Some(130), "{}", said.err);
    let page = folder.path().join("page.html");
    assert!(
        !page.exists() && unfinished(folder.path()).is_none(),
        "{}",
        said.err
    );
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one_request() {
    let folder = folder();
    let words = ["run", "stencil", "--size", "3000", "--repeat", "1000"];
    let child = started(tanada(folder.path(), &words));
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).expect("it still runs");
        std::thread::sleep(Duration::from_millis(1));
    }
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("tanada: stopped;"), "{}", said.err);
}

#[test]
fn a_field_is_left_in_the_middle() {
    let folder = folder();
    for more in [&["--policy", "ts"][..], &["--sequential"]] {
        let long = [
            "run", "stencil", "--size", "3000", "--sweeps", "200", "--repeat", "1000",
        ];
        let said = interrupted(tanada(folder.path(), &[&long[..], more].concat()), || true);
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert!(
            said.out.is_empty() && said.err.contains("stopped"),
            "{}",
            said.err
        );
    }
}
