//! The bench from outside: what it prints, and how it refuses.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn peers(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.args(arguments).output().expect("the bench starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The rows that a run printed, each with these keys and no other.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = peers(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    let rows = text(&output.stdout);
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a JSON object a line"));
    let rows: Vec<Value> = rows.collect();
    for row in &rows {
        let keys: Vec<&str> = row
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let mut wanted = [
            "case", "params", "peer", "workers", "metric", "value", "unit",
        ];
        wanted.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, wanted, "{row}");
        assert!(row["workers"].is_u64() && row["value"].is_number(), "{row}");
        for key in ["case", "params", "peer", "metric", "unit"] {
            assert!(row[key].is_string(), "{row}");
        }
    }
    rows
}

#[test]
fn a_short_wavefront_gives_its_rows_for_every_peer() {
    let names = [
        "tanada/fcfs",
        "tanada/random-steal",
        "rayon",
        "floor/rayon-counters",
    ];
    let bodies = ["body=0ns", "body=50ns", "body=200ns"];
    let mut arguments = vec![
        "wavefront",
        "--json",
        "--quick",
        "--rounds",
        "1",
        "--workers",
        "1",
    ];
    arguments.extend(bodies.iter().flat_map(|body| ["--params", body]));
    let names_list = names.join(",");
    arguments.extend(["--peer", &names_list]);
    let rows = rows(&arguments);
    for name in names {
        let of_peer = |metric: &str| {
            let rows = rows
                .iter()
                .filter(|row| row["peer"] == name && row["metric"] == metric);
            rows.map(|row| row["params"].as_str().expect("a text").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of_peer("core_ns_per_task"), bodies, "{name}");
        assert_eq!(of_peer("least_worker_share"), bodies, "{name}");
        let metg = rows
            .iter()
            .find(|row| row["peer"] == name && row["metric"] == "metg_ns");
        assert!(metg.is_none_or(|row| row["params"] == ""), "{name}");
    }
    let shares = rows
        .iter()
        .filter(|row| row["metric"] == "least_worker_share");
    assert!(
        shares.clone().count() == 12 && shares.into_iter().all(|row| row["value"] == 1.0),
        "one worker runs all"
    );
}

#[test]
fn every_native_peer_that_is_here_runs_its_graph_in_order() {
    // The checks are part of each run: a wrong order would end it with an error.
    let list = text(&peers(&["--list"]).stdout);
    let mut lines = list.lines().peekable();
    let mut native = Vec::new();
    while let Some(line) = lines.next() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let absent = lines
            .peek()
            .is_some_and(|next| next.trim_start().starts_with("absent:"));
        let graph = [
            "onetbb",
            "taskflow",
            "floor/tbb-counters",
            "gcc-openmp",
            "llvm-openmp",
        ]
        .contains(&name);
        if graph && absent {
            tanada_testing::skip(format_args!("{name} is not installed"));
        } else if graph {
            native.push(name.to_owned());
        }
    }
    if native.is_empty() {
        return;
    }
    let rows = rows(&[
        "wavefront",
        "--json",
        "--quick",
        "--rounds",
        "1",
        "--workers",
        "2",
        "--params",
        "body=0ns",
        "--peer",
        &native.join(","),
    ]);
    for name in native {
        assert!(
            rows.iter()
                .any(|row| row["peer"] == name.as_str() && row["metric"] == "core_ns_per_task"),
            "{name}"
        );
    }
}

#[test]
fn a_build_gives_both_costs() {
    let rows = rows(&[
        "build",
        "--json",
        "--quick",
        "--rounds",
        "1",
        "--workers",
        "1",
        "--peer",
        "tanada/random-steal",
    ]);
    let found: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| {
            (
                row["params"].as_str().unwrap(),
                row["metric"].as_str().unwrap(),
            )
        })
        .collect();
    let wanted = [
        ("graph=template", "ns_per_build"),
        ("graph=template", "ns_per_rerun"),
        ("graph=dynamic", "ns_per_build"),
    ];
    assert!(
        wanted.iter().all(|row| found.contains(row)) && found.len() == wanted.len(),
        "{found:?}"
    );
    assert!(
        rows.iter()
            .all(|row| row["value"].as_f64().is_some_and(|ns| ns > 0.0))
    );
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    let cases = [
        (vec!["wavefrnt"], "wavefrnt", "wavefront"),
        (vec!["wavefront", "--peer", "tbb"], "tbb", "onetbb"),
        (
            vec!["wavefront", "--params", "body=3ns"],
            "body=3ns",
            "body=50ns",
        ),
    ];
    for (arguments, wrong, right) in cases {
        let output = peers(&arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(wrong) && errors.contains(right), "{errors}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(peers(&["--workers", "0"]).status.code(), Some(2));
}

#[test]
fn a_peer_that_is_not_installed_is_named() {
    // No program is on this path, so FFmpeg is not.
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    let empty = tempfile::tempdir().expect("a folder");
    command
        .env("PATH", empty.path())
        .env("TANADA_SHARED", empty.path());
    let output = command
        .args(["h264", "--quick", "--rounds", "1", "--peer", "ffmpeg"])
        .output()
        .expect("the bench starts");
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(2),
        "nothing was measured: {errors}"
    );
    assert!(
        errors.contains("ffmpeg is absent") && out.is_empty(),
        "{out}{errors}"
    );
}

#[test]
fn a_case_that_no_named_peer_has_is_an_error() {
    let output = peers(&["--peer", "onetbb", "h264"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("onetbb has no h264") && output.stdout.is_empty(),
        "{errors}"
    );
}

#[test]
fn ctrl_c_ends_the_bench_and_the_peer_that_is_measured() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.args([
        "wavefront",
        "--rounds",
        "1000",
        "--workers",
        "1",
        "--peer",
        "tanada/fcfs",
    ]);
    let mut bench = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the bench starts");
    let id = bench.id();
    let began = Instant::now();
    let child = loop {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "no peer is measured"
        );
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))
            .expect("the bench runs");
        if let Some(child) = children.split_whitespace().next() {
            break child.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let pid = Pid::from_raw(i32::try_from(id).expect("a small number")).expect("not zero");
    kill_process(pid, Signal::INT).expect("it runs");
    let interrupted = Instant::now();
    let status = bench.wait().expect("it ends");
    assert!(interrupted.elapsed() < Duration::from_secs(10));
    assert_eq!(status.code(), Some(130));
    assert!(
        !Path::new("/proc").join(child).exists(),
        "the child has ended, too"
    );
}
