//! `tanada sim` and `tanada machines` with good and bad input.

mod support;

use support::{bad, folder, good, run, said};
use tanada_policy::registry;
use tanada_sim::machines;

const TRACE: &str = "tanada-trace 1\ntask 7 T=1 S=1 T:a=2 S:a=3 name=load\nr 0x1000 64\nx 20\n\
    task 9 T=1 S=2 name=sum\nw 0x2000 8\nx 5\ndep 7 9\ntask 11\nx 40\n";

fn with_trace() -> tempfile::TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("t.tnt"), TRACE).expect("it can be written");
    folder
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).expect("a JSON object")
}

#[test]
fn every_policy_runs_on_every_machine() {
    let folder = with_trace();
    for shipped in machines::all() {
        let said = good(
            folder.path(),
            &["sim", "t.tnt", "--machine", shipped.name, "--json"],
        );
        let lines: Vec<serde_json::Value> = said.out.lines().map(json).collect();
        let policies: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["policy"].as_str())
            .collect();
        let registered: Vec<&str> = registry::all().iter().map(|entry| entry.name).collect();
        assert_eq!(policies, registered);
        for line in &lines {
            assert_eq!(
                (line["tasks"].as_u64(), line["machine"].as_str()),
                (Some(3), Some(shipped.name))
            );
        }
        let table = good(folder.path(), &["sim", "t.tnt", "--machine", shipped.name]);
        assert!(
            registered.iter().all(|name| table.out.contains(name)),
            "{}",
            table.out
        );
    }
}

#[test]
fn one_object_a_policy_with_the_keys_in_order() {
    let folder = with_trace();
    let said = good(
        folder.path(),
        &[
            "sim",
            "t.tnt",
            "--machine",
            "toshiba",
            "--policy",
            "ts,fcfs",
            "--cores",
            "2",
            "--json",
        ],
    );
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 2);
    // Task 7: a touch that misses L1D and L2, and 20 cycles: 231. Task 9 on the same core: the same with 5 cycles: 216. Task 11: 40 on the
    // other.
    let begin = "\"cores\":2,\"makespan\":447,\"tasks\":3,\"busy\":[447,40],\"utilisation\":0.5447427293064877,\"bound\":";
    assert!(
        lines[0].starts_with(&format!("{{\"policy\":\"ts\",{begin}")),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with(&format!("{{\"policy\":\"fcfs\",{begin}")),
        "{}",
        lines[1]
    );
    let counts = "\"l1i_accesses\":0,\"l1i_misses\":0,\"l1d_accesses\":2,\"l1d_misses\":2,\
        \"l2_accesses\":2,\"l2_misses\":2,\"writebacks\":0";
    assert!(lines[0].contains(counts), "{}", lines[0]);
    assert!(said.err.is_empty(), "{}", said.err);
}

#[test]
fn events_are_rows_in_order_of_finish() {
    let folder = with_trace();
    let line = [
        "sim",
        "t.tnt",
        "--machine",
        "toshiba",
        "--policy",
        "fcfs",
        "--cores",
        "2",
        "--events",
        "e.csv",
        "--set",
        "dispatch_cycles=5",
    ];
    good(folder.path(), &line);
    let events = std::fs::read_to_string(folder.path().join("e.csv")).expect("it is there");
    assert_eq!(
        events,
        "core,task,start,end\n1,11,5,45\n0,7,5,236\n0,9,241,457\n"
    );
}

#[test]
fn the_same_command_says_the_same() {
    let folder = with_trace();
    let line = [
        "sim",
        "t.tnt",
        "--machine",
        "desktop",
        "--seed",
        "3",
        "--json",
    ];
    let first = good(folder.path(), &line);
    for threads in ["1", "2"] {
        let again = good(
            folder.path(),
            &[&line[..], &["--threads", threads]].concat(),
        );
        assert_eq!(again.out, first.out, "{threads} threads");
    }
}

/// Four threads that meet at a barrier again and again between accesses to their stacks and to lines that collide, and take turns.
fn thread_trace() -> String {
    let mut text = String::from("tanada-threads 1\nthread 0 stack=0x7f0000\n");
    (1..4).for_each(|thread| text += &format!("create {thread}\n"));
    let work = |thread: usize| {
        let mut text = String::new();
        for round in 0..40 {
            for line in 0..30 {
                let shared = 0x10000 + (line * 4 + thread) * 4096;
                let own = 0x7f0000 + thread * 0x10000 - line * 8;
                text += &format!("b 0x401000 16 4\nr 1 {shared:#x} 8\nw 1 {own:#x} 8\nx 2\n");
            }
            text += &format!(
                "lock 1\nb 0x402000 1200 {0}\nx {0}\nunlock 1\nbarrier 2 4\n",
                300 + round
            );
        }
        text
    };
    text += &work(0);
    (1..4).for_each(|thread| text += &format!("join {thread}\n"));
    text += "exit\n";
    for thread in 1..4 {
        let stack = 0x7f0000 + thread * 0x10000;
        text += &format!(
            "thread {thread} parent=0 stack={stack:#x}\n{}exit\n",
            work(thread)
        );
    }
    text
}

#[test]
fn threads_have_a_page_and_the_same_bytes_on_any_number_of_host_threads() {
    let folder = with_trace();
    std::fs::write(folder.path().join("threads.tnt"), thread_trace()).expect("a file");
    let run = |threads: &str, page: &str| {
        let line = [
            "sim",
            "threads.tnt",
            "--machine",
            "tuat",
            "--set",
            "smt.threads_per_core=2",
            "--set",
            "smt.period_cycles=2000",
            "--json",
            "--threads",
            threads,
            "--report",
            page,
        ];
        let said = good(folder.path(), &line);
        let file = std::fs::read_to_string(folder.path().join(page)).expect("it is there");
        (said.out, file)
    };
    let (lines, data) = run("1", "one.json");
    let report = tanada_report::from_json(&data).expect("a sound report");
    for (line, run) in lines.lines().zip(&report.runs) {
        let line: serde_json::Value = serde_json::from_str(line).expect("an object a line");
        let threads = run.threads.as_ref().expect("it is a run of threads");
        assert_eq!(line["governor"], run.policy);
        assert_eq!(line["instructions"], threads.instructions);
        let series = threads.series.as_ref().expect("it was observed");
        assert_eq!(line["series"]["interval"], series.interval);
        assert_eq!(series.stacks.len(), 4, "{}", run.policy);
        // What a line says of an object is what the report says.
        assert_eq!(
            line["objects"][0],
            serde_json::to_value(&threads.waits[0]).expect("plain data"),
        );
        let kinds: Vec<&str> = threads.waits.iter().map(|one| &*one.kind).collect();
        assert!(
            kinds.contains(&"barrier") && kinds.contains(&"lock"),
            "{kinds:?}"
        );
    }
    let reduced = report.runs.iter().find(|run| run.policy == "rs");
    let reduced = reduced.and_then(|run| run.threads.as_ref());
    let reduced = reduced.expect("it is registered");
    assert!(reduced.decisions.iter().any(|one| one.width == 1));
    let series = reduced.series.as_ref().expect("it was observed");
    assert!(series.width.iter().any(|&width| width < 2.0));
    // The command line is part of the page, and has the number.
    let body = |page: &str| {
        let lines = page.lines().filter(|line| !line.contains("Made by"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (same, page) = run("1", "page.html");
    assert!(same == lines);
    assert!(page.contains("Who waits for what") && page.contains("Stack accesses over time"));
    for threads in ["2", "5"] {
        let (again, other) = run(threads, "page.html");
        assert!(again == lines, "{threads} threads");
        assert!(body(&other) == body(&page), "{threads} threads");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let folder = with_trace();
    let names: Vec<&str> = registry::all().iter().map(|entry| entry.name).collect();
    let sim = |more: &[&'static str]| [&["sim", "t.tnt"], more].concat();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--policy", "fcfs"], &["--machine"]),
        (&["--machine", "toshiba", "--policy", "fifo"], &names),
        (
            &["--machine", "nowhere"],
            &["no machine \"nowhere\"", "toshiba", "laptop"],
        ),
        (&["--machine", "toshiba", "--cores", "0"], &["--cores"]),
        (&["--machine", "toshiba", "--cores", "65536"], &["--cores"]),
        (&["--machine", "toshiba", "--seed", "many"], &["--seed"]),
        (&["--machine", "toshiba", "--colour", "red"], &["--colour"]),
        (
            &["--machine", "toshiba", "--events", "e.csv"],
            &["--events", "one policy"],
        ),
        (
            &[
                "--machine",
                "toshiba",
                "--policy",
                "fcfs,ts",
                "--events",
                "e.csv",
            ],
            &["--events", "one policy"],
        ),
        (
            &["--machine", "toshiba", "--groups", "z"],
            &["groups named `z`", "a, none"],
        ),
        (
            &["--machine", "toshiba", "--set", "l2.size=100"],
            &["--set l2.size=100", "multiple of ways x line"],
        ),
        (
            &["--machine", "toshiba", "--set", "l4.size=1M"],
            &["no `l4`"],
        ),
        (
            &["--machine", "toshiba", "--set", "colour=red"],
            &["unknown key `colour`"],
        ),
        (&["--machine", "toshiba", "--set", "l2"], &["KEY=VALUE"]),
    ];
    for (more, words) in cases {
        bad(folder.path(), &sim(more), 2, words);
    }
    assert!(!folder.path().join("e.csv").exists());
    bad(folder.path(), &["sim"], 2, &["TRACE"]);
    bad(
        folder.path(),
        &["machines", "nowhere"],
        2,
        &["no machine \"nowhere\"", "toshiba"],
    );
}

#[test]
fn faulty_input_ends_with_1_and_its_place() {
    let folder = with_trace();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("it can be written")
    };
    write("m.toml", "name = \"m\"\ncores = \n");
    write(
        "over.tnt",
        "tanada-trace 1\ntask 1\nx 0xffffffffffffffff\n# one more\nx 1\n",
    );
    write(
        "cycle.tnt",
        "tanada-trace 1\ntask 1\ntask 2\ndep 1 2\ndep 2 1\n",
    );
    let sim = |trace: &'static str, machine: &'static str| {
        ["sim", trace, "--machine", machine, "--policy", "fcfs"]
    };
    bad(folder.path(), &sim("t.tnt", "m.toml"), 1, &["m.toml:2: "]);
    bad(folder.path(), &sim("t.tnt", "no.toml"), 1, &["no.toml"]);
    bad(folder.path(), &sim("t.tnt", "."), 1, &["."]);
    bad(folder.path(), &sim("no.tnt", "toshiba"), 1, &["no.tnt"]);
    bad(
        folder.path(),
        &sim("over.tnt", "toshiba"),
        1,
        &["over.tnt:5: ", "2^64-1"],
    );
    bad(
        folder.path(),
        &sim("cycle.tnt", "toshiba"),
        1,
        &["cycle.tnt:"],
    );
    // A governor is for thread traces, but what is no trace at all is not called a task trace.
    write("none.tnt", "");
    for (trace, code, what) in [
        ("none.tnt", 1, "none.tnt:1: the text ends before the header"),
        ("t.tnt", 2, "t.tnt is no thread trace"),
    ] {
        let line = ["sim", trace, "--machine", "tuat", "--governor", "fifo"];
        bad(folder.path(), &line, code, &[what]);
    }
    let line = [&sim("t.tnt", "toshiba")[..], &["--events", "no/e.csv"]].concat();
    bad(folder.path(), &line, 1, &["no/e.csv", "there is no folder"]);
}

#[test]
fn machines_are_listed_and_shown_and_what_is_shown_is_a_machine() {
    let folder = with_trace();
    let list = good(folder.path(), &["machines"]);
    let objects = json(&good(folder.path(), &["machines", "--json"]).out);
    for (number, shipped) in machines::all().enumerate() {
        assert!(list.out.contains(shipped.name), "{}", list.out);
        assert_eq!(objects[number]["name"], shipped.name);
        let shown = good(folder.path(), &["machines", shipped.name]).out;
        assert!(
            shown.starts_with(shipped.text) && shown.contains("# ┌"),
            "{shown}"
        );
        std::fs::write(folder.path().join("copy.toml"), shown).expect("it can be written");
        let line = |machine| {
            [
                "sim",
                "t.tnt",
                "--machine",
                machine,
                "--policy",
                "ts",
                "--json",
            ]
        };
        let (copy, original) = (
            run(folder.path(), &line("copy.toml")),
            run(folder.path(), &line(shipped.name)),
        );
        assert_eq!((copy.code, copy.out), (Some(0), original.out));
        let one = json(&good(folder.path(), &["machines", shipped.name, "--json"]).out);
        assert_eq!(one, objects[number]);
    }
}

#[test]
fn a_trace_without_tasks_is_no_error() {
    let folder = folder();
    std::fs::write(folder.path().join("e.tnt"), "tanada-trace 1\n").expect("it can be written");
    let said = good(
        folder.path(),
        &[
            "sim",
            "e.tnt",
            "--machine",
            "toshiba",
            "--policy",
            "fcfs",
            "--json",
        ],
    );
    let line = json(&said.out);
    assert_eq!(
        (
            line["makespan"].as_u64(),
            line["utilisation"].as_f64(),
            line["bound_ratio"].as_f64()
        ),
        (Some(0), Some(0.0), Some(1.0))
    );
}

#[test]
fn a_trace_may_come_from_standard_input_in_either_form() {
    let folder = folder();
    let paths = ["a.tnt", "a.tnb"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], TRACE).expect("the folder can be written to");
    tanada_trace::convert(&paths[0], &paths[1]).expect("a good trace");
    let options = ["--machine", "toshiba", "--policy", "fcfs", "--json"];
    let wanted = good(folder.path(), &[&["sim", "a.tnt"], &options[..]].concat()).out;
    assert!(wanted.contains("\"tasks\":3"), "{wanted}");
    let piped = |command: &str, more: &[&str]| {
        let line = format!("{command} \"$@\"");
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(folder.path()).args(["-c", &line, "sh"]);
        shell
            .arg(env!("CARGO_BIN_EXE_tanada"))
            .args(["sim", "-"])
            .args(options)
            .args(more);
        said(shell.output().expect("a shell"))
    };
    for command in ["cat a.tnt |", "cat a.tnb |", "<a.tnt", "<a.tnb"] {
        let said = piped(command, &[]);
        assert_eq!(
            (said.code, &*said.out),
            (Some(0), &*wanted),
            "{command}: {}",
            said.err
        );
    }
    let said = piped("echo nonsense |", &[]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("/dev/stdin:1: "), "{}", said.err);
    let said = piped("<a.tnb", &["--events", "a.tnb"]);
    assert_eq!(said.code, Some(2), "the input is kept: {}", said.err);
    assert!(tanada_trace::Trace::open(&paths[1], &tanada_trace::Groups::Plain).is_ok());
}
