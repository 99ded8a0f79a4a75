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
    let both = |edges: &str| bodies.map(|body| format!("{body},edges={edges}"));
    let bodies = [both("2"), both("3")].concat();
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
        assert!(
            metg.is_none_or(|row| row["params"] == "edges=2" || row["params"] == "edges=3"),
            "{name}"
        );
    }
    let shares = rows
        .iter()
        .filter(|row| row["metric"] == "least_worker_share");
    assert!(
        shares.clone().count() == 24 && shares.into_iter().all(|row| row["value"] == 1.0),
        "one worker runs all"
    );
}

/// Returns those of `names` that are here. Each is listed, and one that is absent with a reason.
fn here(names: &[&'static str]) -> Vec<&'static str> {
    let list = text(&peers(&["--list"]).stdout);
    let lines = Vec::from_iter(list.lines());
    let mut here = names.to_vec();
    here.retain(|name| {
        let named = |line: &&str| line.split_whitespace().next() == Some(name);
        let at = lines.iter().rposition(named);
        let at = at.unwrap_or_else(|| panic!("{name} is not listed:\n{list}"));
        let next = lines.get(at + 1).map_or("", |line| line.trim_start());
        let absent = next.strip_prefix("absent: ");
        if let Some(why) = absent {
            assert!(!why.is_empty(), "{name} is absent without a reason");
            tanada_testing::skip(format_args!("{name} is absent: {why}"));
        }
        absent.is_none()
    });
    here
}

/// Measures one case quickly on those of `names` that are here; each must have a row of `metric` for each of `params`.
fn measured(case: &str, names: &[&'static str], params: &[&str], metric: &str) {
    let here = here(names);
    if here.is_empty() {
        return;
    }
    let list = here.join(",");
    let mut arguments = vec![case, "--json", "--quick", "--rounds", "1", "--workers", "2"];
    arguments.extend(["--peer", &list]);
    arguments.extend(params.iter().flat_map(|params| ["--params", params]));
    let rows = rows(&arguments);
    for name in here {
        for params in params {
            let mut rows = rows.iter().filter(|row| row["peer"] == name);
            let found = rows.any(|row| row["metric"] == metric && row["params"] == *params);
            assert!(found, "{name}, {params}");
        }
    }
}

#[test]
fn every_native_peer_that_is_here_runs_both_graphs_in_order() {
    // The checks are part of each run: a wrong order would end it with an error.
    let names = [
        "onetbb",
        "taskflow",
        "taskflow/run-n",
        "floor/tbb-counters",
        "floor/row-progress",
        "gcc-openmp",
        "gcc-openmp/doacross",
        "llvm-openmp",
        "llvm-openmp/doacross",
    ];
    let params = ["body=0ns,edges=2", "body=0ns,edges=3"];
    measured("wavefront", &names, &params, "core_ns_per_task");
}

#[test]
fn tile_graphs_and_skewed_sweeps_compute_the_field_of_the_plain_loop() {
    // The comparison is part of each run: another field would end it with an error.
    let names = ["onetbb/tiles", "taskflow/tiles", "floor/skewed"];
    measured("stencil", &names, &["size=8192,sweeps=32"], "seconds");
}

#[test]
fn idle_has_the_sum_of_both_costs() {
    let names = ["tanada/random-steal", "gcc-openmp/passive"];
    measured("idle", &names, &["sections=10ms"], "lost_core_seconds");
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
        ("graph=template,edges=2", "ns_per_build"),
        ("graph=template,edges=2", "ns_per_rerun"),
        ("graph=dynamic,edges=2", "ns_per_build"),
        ("graph=template,edges=3", "ns_per_build"),
        ("graph=template,edges=3", "ns_per_rerun"),
        ("graph=dynamic,edges=3", "ns_per_build"),
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
fn the_simulator_of_threads_is_measured_and_others_are_quoted() {
    let rows = rows(&["smt", "--json", "--quick", "--rounds", "1"]);
    let of = |ours: bool| {
        let rows = rows.iter();
        rows.filter(move |row| (row["peer"] == "tanada/threads") == ours)
    };
    let measured = Vec::from_iter(of(true).map(|row| row["params"].as_str()));
    assert_eq!(measured, [Some("threads=1"), Some("threads=8")]);
    assert!(of(true).all(|row| row["value"].as_f64() > Some(100_000.0)));
    let quoted = |row: &Value| {
        let peer = row["peer"].as_str().expect("a text");
        peer.starts_with("published/") && row["params"] == "threads=1"
    };
    assert!(of(false).count() >= 4 && of(false).all(quoted), "{rows:?}");
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    let cases = [
        (vec!["wavefrnt"], "wavefrnt", "wavefront"),
        (vec!["wavefront", "--peer", "tbb"], "tbb", "onetbb"),
        (
            vec!["wavefront", "--params", "body=3ns"],
            "body=3ns",
            "body=50ns,edges=3",
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
