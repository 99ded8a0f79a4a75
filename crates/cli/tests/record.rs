//! `record` of workloads, with good and bad input.

mod support;

use std::path::Path;
use support::{bad, folder, good, limited, run, said, short_stream, tanada};
use tanada_trace::{Groups, Trace};
use tanada_workloads::options::Purpose;

/// The trace in a file, with groups by name.
fn trace(path: &Path, groups: &str) -> Trace {
    Trace::open(path, &Groups::Named(groups.to_owned())).expect("what was recorded can be read")
}

fn number(json: &str, key: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(json).expect("one JSON object");
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {json}"))
}

#[test]
fn both_forms_hold_the_same_tasks_and_the_summary_counts_them() {
    let folder = folder();
    short_stream(folder.path());
    for (cut, dependencies) in [("paper", "fixed"), ("own", "needed")] {
        let mut told = Vec::new();
        for name in ["a.tnt", "a.tnb"] {
            let arguments = [
                "record",
                "h264",
                "short.264",
                "-o",
                name,
                "--count",
                "2",
                "--tasks",
                cut,
                "--dependencies",
                dependencies,
                "--json",
            ];
            let said = good(folder.path(), &arguments);
            let trace = trace(&folder.path().join(name), "toshiba-a");
            assert_eq!(number(&said.out, "tasks"), trace.len() as u64);
            assert_eq!(number(&said.out, "pictures"), 2);
            assert_eq!(trace.groupings(), ["toshiba-a", "toshiba-b", "default"]);
            let bytes = std::fs::metadata(folder.path().join(name))
                .expect("it is there")
                .len();
            assert_eq!(number(&said.out, "bytes"), bytes);
            told.push(
                ["tasks", "dependencies", "records", "cycles", "touches"]
                    .map(|key| number(&said.out, key)),
            );
        }
        assert_eq!(told[0], told[1]);
    }
    let said = good(
        folder.path(),
        &[
            "record",
            "h264",
            "short.264",
            "-o",
            "b.tnb",
            "--first",
            "1",
            "--sample",
            "2",
        ],
    );
    assert!(
        said.out.contains("luma-prediction") && said.out.contains("dependencies"),
        "{}",
        said.out
    );
}

#[test]
fn the_same_command_writes_the_same_bytes_in_any_environment() {
    let folder = folder();
    short_stream(folder.path());
    for workload in tanada_workloads::all() {
        if workload.recorder().is_none() {
            continue;
        }
        let values = tanada_workloads::values_of(*workload, Purpose::Record);
        let options = workload.description().test_options.iter();
        let words = options
            .filter(|(flag, _)| values.has(flag))
            .flat_map(|(flag, value)| [format!("--{flag}"), (*value).to_owned()]);
        let words: Vec<String> = words.collect();
        let more: Vec<&str> = words.iter().map(String::as_str).collect();
        let workload = workload.name();
        for (name, variable) in [("a.tnb", "A"), ("b.tnb", "LONGER_THAN_THE_OTHER")] {
            let arguments = [&["record", workload, "-o", name], &more[..]].concat();
            let mut command = tanada(folder.path(), &arguments);
            let output = command
                .env(variable, "x".repeat(1000))
                .env("TANADA_H264_KERNELS", "portable");
            assert!(
                output.output().expect("it starts").status.success(),
                "{workload}"
            );
        }
        let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("it is there");
        assert!(bytes("a.tnb") == bytes("b.tnb"), "{workload}");
    }
}

#[test]
fn what_is_recorded_can_be_simulated() {
    let folder = folder();
    good(
        folder.path(),
        &[
            "record", "stencil", "-o", "s.tnb", "--size", "128", "--sweeps", "3", "--json",
        ],
    );
    let said = good(
        folder.path(),
        &[
            "sim",
            "s.tnb",
            "--machine",
            "toshiba",
            "--policy",
            "ts",
            "--groups",
            "own",
            "--json",
        ],
    );
    assert_eq!(
        number(&said.out, "tasks"),
        trace(&folder.path().join("s.tnb"), "default").len() as u64
    );
}

#[test]
fn groups_have_either_name_in_old_and_new_recordings() {
    let folder = folder();
    let words = "record stencil -o new.tnt --size 128 --sweeps 3";
    good(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let text = std::fs::read_to_string(folder.path().join("new.tnt")).expect("it was recorded");
    let old = text
        .replace("T:default=", "T:own=")
        .replace("S:default=", "S:own=");
    assert_ne!(old, text);
    std::fs::write(folder.path().join("old.tnt"), old).expect("the folder can be written to");
    let cycles = |file: &str, groups: &str| {
        let words = format!("sim {file} --machine toshiba --policy ts --json --groups {groups}");
        number(
            &good(folder.path(), &words.split(' ').collect::<Vec<_>>()).out,
            "makespan",
        )
    };
    let wanted = cycles("new.tnt", "default");
    for (file, groups) in [
        ("new.tnt", "own"),
        ("old.tnt", "own"),
        ("old.tnt", "default"),
    ] {
        assert_eq!(cycles(file, groups), wanted, "{groups} in {file}");
    }
    let sweep = "traces = [\"old.tnt\", \"new.tnt\"]\ngroups = [\"own\", \"default\"]\nmachines = [\"toshiba\"]\npolicies = [\"ts\"]\n";
    std::fs::write(folder.path().join("s.toml"), sweep).expect("the folder can be written to");
    let rows = good(folder.path(), &["sweep", "s.toml", "--json"]).out;
    let mut cycles: Vec<u64> = rows.lines().map(|row| number(row, "makespan")).collect();
    assert_eq!(cycles.len(), 4, "{rows}");
    cycles.dedup();
    assert_eq!(cycles.len(), 1, "{rows}");
    let wrong = "sim new.tnt --machine toshiba --policy ts --groups toshiba-a";
    bad(
        folder.path(),
        &wrong.split(' ').collect::<Vec<_>>(),
        2,
        &["toshiba-a", "default"],
    );
}

#[test]
fn wrong_usage_and_bad_input_are_reported_and_leave_no_file() {
    let folder = folder();
    short_stream(folder.path());
    std::fs::write(folder.path().join("junk.264"), "no video")
        .expect("the folder can be written to");
    std::fs::write(folder.path().join("bad.toml"), "name = 1\n")
        .expect("the folder can be written to");
    let record = |more: &[&str], code: i32, words: &[&str]| {
        let arguments = [&["record", "h264", "-o", "out.tnb"], more].concat();
        bad(folder.path(), &arguments, code, words);
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 3, "{more:?} left something");
    };
    record(&["no.264"], 1, &["no.264"]);
    record(&["junk.264"], 1, &["junk.264"]);
    record(
        &["short.264", "--first", "99"],
        1,
        &["short.264", "pictures", "--first"],
    );
    record(
        &["short.264", "--costs", "bad.toml"],
        1,
        &["bad.toml", "line 1"],
    );
    record(&["short.264", "--costs", "no.toml"], 1, &["no.toml"]);
    record(
        &["short.264", "--set", "scale.speed=1"],
        2,
        &["scale.speed=1", "KEY=NUMBER"],
    );
    record(
        &["short.264", "--tasks", "two"],
        2,
        &["default, row, macroblock, paper"],
    );
    record(
        &["short.264", "--dependencies", "some"],
        2,
        &["needed", "fixed"],
    );
    record(&["short.264", "--count", "0"], 2, &["--count"]);
    record(&["short.264", "--sample", "0"], 2, &["--sample"]);
    bad(
        folder.path(),
        &["record", "h264", "short.264"],
        2,
        &["--output"],
    );
    bad(
        folder.path(),
        &["record", "stencil", "-o", "no/where.tnb"],
        1,
        &["no"],
    );
    bad(
        folder.path(),
        &["record", "stencil", "-o", "x.tnb", "--size", "0"],
        2,
        &["--size"],
    );
    bad(folder.path(), &["record", "lu"], 2, &[]);
}

#[test]
fn of_a_damaged_stream_the_rest_is_recorded_and_the_code_is_1() {
    let folder = folder();
    let mut stream = support::first_units(tanada_harness::DEMO, 8).to_vec();
    let middle = stream.len() / 2;
    stream.drain(middle..middle + 50);
    std::fs::write(folder.path().join("hit.264"), &stream).expect("the folder can be written to");
    let said = run(
        folder.path(),
        &["record", "h264", "hit.264", "-o", "hit.tnb", "--json"],
    );
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(
        said.err.contains("damaged") && number(&said.out, "pictures") > 1,
        "{}{}",
        said.out,
        said.err
    );
    assert!(!trace(&folder.path().join("hit.tnb"), "toshiba-b").is_empty());
}

#[test]
fn a_recording_that_takes_too_much_memory_is_refused_as_the_run_is() {
    let folder = folder();
    for workload in ["stencil", "pipeline"] {
        let size = ["--size", "1048576"];
        let words = ["are free; choose a smaller --size"];
        bad(
            folder.path(),
            &[&["run", workload][..], &size].concat(),
            1,
            &words,
        );
        let record = ["record", workload, "-o", "out.tnb"];
        bad(folder.path(), &[&record[..], &size].concat(), 1, &words);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0
    );
}

/// A limit of the process counts as the system's memory does: the failed allocation would end the program, and leave an unfinished file.
#[test]
fn memory_that_a_limit_of_the_process_forbids_is_not_free() {
    let folder = folder();
    let folder = folder.path();
    let (size, kilobytes) = (["--workers", "2", "--size", "20000"], 2_000_000);
    for arguments in [
        &["record", "stencil", "-o", "trace.tnb"][..],
        &["record", "pipeline", "-o", "trace.tnb"],
        &["run", "stencil"],
        &["run", "pipeline"],
    ] {
        let mut command = limited(folder, &[arguments, &size[..]].concat(), kilobytes);
        let refused = said(command.output().expect("a shell"));
        assert_eq!(refused.code, Some(1), "{arguments:?}: {}", refused.err);
        let word = "are free; choose a smaller --size";
        assert!(refused.err.contains(word), "{arguments:?}: {}", refused.err);
        let left = std::fs::read_dir(folder).expect("a folder").count();
        assert_eq!(left, 0, "{arguments:?} left a file");
    }
    // What fits is done.
    let small = ["record", "stencil", "-o", "trace.tnb", "--size", "200"];
    let done = said(
        limited(folder, &small, kilobytes)
            .output()
            .expect("a shell"),
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
}
