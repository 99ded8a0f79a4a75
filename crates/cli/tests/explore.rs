//! `tanada explore`: what it finds, and what it says.

mod support;

use serde_json::Value;
use std::time::{Duration, Instant};
use support::{Said, said, started, tanada};

/// A program that makes a pool, and then does `fault` under seed 3.
fn explore(options: &[&str], fault: &str) -> Said {
    let folder = tempfile::tempdir().expect("a folder");
    let run = format!(
        "{} run stencil --size 512 --sweeps 8 --workers 2 --policy fcfs > /dev/null || exit 99; \
         case $TANADA_SEED in 3) echo \"what went wrong\" >&2; {fault};; esac",
        env!("CARGO_BIN_EXE_tanada")
    );
    let mut arguments = vec!["explore"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", &run]);
    said(tanada(folder.path(), &arguments).output().expect("it runs"))
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err))
}

#[test]
fn the_first_seed_that_fails_is_named_with_the_command_that_repeats_it() {
    let said = explore(&["--seeds", "10"], "exit 7");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.starts_with("4 seed(s) in "), "{}", said.out);
    assert!(
        said.out.contains(
            "seed 3 failed: the program ended with exit code 7\n    what went wrong\n\
             a second run under this seed ended in the same way; again:\n    TANADA_SEED=3 sh -c '"
        ),
        "{}",
        said.out
    );
    assert!(
        said.err.contains("sh ended with exit code 7 under seed 3"),
        "{}",
        said.err
    );
}

#[test]
fn signals_and_hangs_are_failures_too() {
    let killed = explore(&["--first", "2", "--json"], "kill -9 $$");
    let found = json(&killed);
    assert_eq!((killed.code, found["seeds"].as_u64()), (Some(1), Some(2)));
    assert_eq!(found["failure"]["signal"], 9, "{found}");
    let hangs = explore(
        &["--first", "3", "--time-limit", "5", "--json"],
        "sleep 1000",
    );
    let found = json(&hangs);
    assert_eq!(found["failure"]["how"], "hang", "{found}");
    assert_eq!(found["failure"]["repeated"], true, "{found}");
}

#[test]
fn what_it_printed_is_shown_and_each_process_is_counted() {
    let run = format!(
        "for i in 1 2; do {} run stencil --size 512 --sweeps 8 --workers 2 --policy fcfs > /dev/null & done; \
         wait; seq 1000; exit 7",
        env!("CARGO_BIN_EXE_tanada")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["explore", "--json", "--", "sh", "-c", &run];
    let both = said(tanada(folder.path(), &arguments).output().expect("it runs"));
    let found = json(&both);
    let output = found["failure"]["output"].as_array().expect("a list");
    assert_eq!(
        (output.len(), &output[19]),
        (20, &Value::from("1000")),
        "{found}"
    );
    assert_eq!(found["failure"]["repeated"], true, "{found}");
    let one = json(&explore(&["--first", "3", "--json"], "exit 7"));
    let tasks = |found: &Value| found["failure"]["tasks"].as_u64().expect("a number");
    assert_eq!(tasks(&found), 2 * tasks(&one), "{found} {one}");
}

#[test]
fn a_program_without_a_fault_has_several_orders() {
    let said = explore(&["--first", "10", "--seeds", "6", "--json"], "exit 7");
    let found = json(&said);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(
        (found["seeds"].as_u64(), found["departed"].as_u64()),
        (Some(6), Some(0)),
        "{found}"
    );
    assert!(
        found["failure"].is_null() && found["orders"].as_u64() > Some(1),
        "{found}"
    );
    assert!(found["tasks"].as_u64() > Some(10), "{found}");
}

#[test]
fn what_cannot_be_explored_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |arguments: &[&str]| said(tanada(folder.path(), arguments).output().expect("it runs"));
    let none = of(&["explore", "--", "./nothing"]);
    assert_eq!(none.code, Some(1));
    assert!(
        none.err.contains("there is no such program"),
        "{}",
        none.err
    );
    let other = of(&["explore", "--", "true"]);
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("made no pool"), "{}", other.err);
    for wrong in [
        &["explore"][..],
        &["explore", "--seeds", "0", "--", "true"],
        &["explore", "--time-limit", "-1", "--", "true"],
    ] {
        assert_eq!(of(wrong).code, Some(2), "{wrong:?}");
    }
}

/// Runs a script, which writes its process' number to the file `pid` and sleeps; sends Ctrl-C then. The script has ended afterwards.
fn interrupted(options: &[&str], script: &str) -> Said {
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = vec!["explore", "--time-limit", "1000"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    let mut command = tanada(folder.path(), &arguments);
    command.stdout(std::process::Stdio::piped());
    let mut child = started(command);
    let start = Instant::now();
    let pid = loop {
        let text = std::fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
        if let Ok(pid) = text.trim().parse::<u32>() {
            break pid;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60)
                && child.try_wait().expect("it is ours").is_none()
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    let this = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(this, rustix::process::Signal::INT).expect("it runs");
    let said = said(child.wait_with_output().expect("it ends"));
    assert!(
        !std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "it has gone on"
    );
    said
}

#[test]
fn ctrl_c_ends_the_program_and_says_what_was_seen() {
    let said = interrupted(&["--json"], "echo $$ > pid; sleep 1000");
    assert_eq!(said.code, Some(130), "{}", said.err);
}

#[test]
fn ctrl_c_in_the_second_run_keeps_the_seed_that_failed() {
    let script = "if mkdir ran; then exit 7; fi; echo $$ > pid; sleep 1000";
    let said = interrupted(&["--json", "--first", "5"], script);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let found = json(&said);
    assert_eq!(
        (&found["interrupted"], &found["failure"]["seed"]),
        (&Value::Bool(true), &Value::from(5)),
        "{found}"
    );
    assert!(found["failure"]["repeated"].is_null(), "{found}");
    assert_eq!(found["failure"]["code"], 7, "{found}");
}

#[test]
fn a_failure_before_the_first_task_is_no_matter_of_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["explore", "--", "false"];
    let said = said(tanada(folder.path(), &arguments).output().expect("it runs"));
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(
        said.out.contains("it had started no task by then"),
        "{}",
        said.out
    );
}
