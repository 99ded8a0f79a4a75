//! Every verb with good and bad input.

mod support;

use std::ffi::{OsStr, OsString};
use std::io::{BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use support::{bad, demo_md5, folder, good, md5, run, said, short_stream, tanada};
use tanada_policy::registry;
use tanada_report::Engine;
use tanada_workloads::all;
use tanada_workloads::options::Purpose;

const VERBS: [&str; 7] = [
    "compare",
    "run",
    "record",
    "report",
    "topo",
    "policies",
    "workloads",
];

/// The verbs that take any workload.
const OF_WORKLOADS: [&str; 3] = ["compare", "run", "record"];

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn text(path: impl AsRef<std::path::Path>) -> String {
    path.as_ref()
        .to_str()
        .expect("test paths are text")
        .to_owned()
}

#[test]
fn every_verb_explains_itself() {
    let folder = folder();
    for verb in VERBS {
        let help = good(folder.path(), &[verb, "--help"]);
        assert!(help.out.contains("Example"), "{verb}: {}", help.out);
    }
    for (verb, workload) in OF_WORKLOADS
        .iter()
        .flat_map(|verb| all().iter().map(move |workload| (verb, workload)))
    {
        let name = workload.name();
        let help = good(folder.path(), &[verb, name, "--help"]).out;
        assert!(
            help.contains("Example") && help.contains(&format!("tanada {verb} {name}")),
            "{verb} {name}: {help}"
        );
        let purpose = match *verb {
            "record" => Purpose::Record,
            _ => Purpose::Run,
        };
        for spec in workload
            .options()
            .iter()
            .filter(|spec| spec.is_for(purpose))
        {
            let shown = match spec.positional {
                true => spec.placeholder.to_owned(),
                false => format!("--{}", spec.flag),
            };
            assert!(help.contains(&shown), "{verb} {name}: no {shown} in {help}");
        }
    }
    let version = good(folder.path(), &["--version"]).out;
    let git = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(words).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = git.output().ok().filter(|output| output.status.success());
        output.map(|output| text_of(&output.stdout).trim().to_owned())
    };
    let ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours);
    let commit = commit.map_or(String::new(), |commit| format!(" ({commit})"));
    assert_eq!(
        version,
        format!("tanada {}{commit}\n", env!("CARGO_PKG_VERSION"))
    );
    bad(folder.path(), &[], 2, &["compare", "topo"]);
}

#[test]
fn a_policy_that_must_know_the_graph_is_refused_natively_and_its_place_is_named() {
    let folder = folder();
    for entry in registry::all().iter().filter(|entry| entry.needs_prepared) {
        let place = format!("tanada sim TRACE --machine M --policy {}", entry.name);
        for verb in [
            ["compare", "--policy"].as_slice(),
            &["run", "stencil", "--policy"],
        ] {
            bad(folder.path(), &[verb, &[entry.name]].concat(), 2, &[&place]);
        }
        let help = good(folder.path(), &["compare", "--help"]).out;
        assert!(!help.contains(entry.name), "{help}");
    }
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    let folder = folder();
    let names: Vec<&str> = registry::native().iter().map(|entry| entry.name).collect();
    let workloads: Vec<&str> = all().iter().map(|workload| workload.name()).collect();
    bad(
        folder.path(),
        &["compare", "--policy", "fcfs,fifo"],
        2,
        &names,
    );
    bad(
        folder.path(),
        &["run", "h264", "x.264", "--policy", "fifo"],
        2,
        &names,
    );
    bad(
        folder.path(),
        &["run", "h265", "x.264"],
        2,
        &[
            "h265",
            &format!("The workloads are: {}", workloads.join(", ")),
        ],
    );
    bad(
        folder.path(),
        &["record", "stencl", "-o", "x.tnt"],
        2,
        &["stencl", "The workloads are: "],
    );
    // What can be recorded only; and the word may follow options.
    bad(
        folder.path(),
        &["record", "-o", "x.tnt", "./program"],
        2,
        &[
            &format!(
                "The workloads are: {};",
                tanada_workloads::recordable().join(", ")
            ),
            "a program stands behind `--`",
        ],
    );
    bad(folder.path(), &["run"], 2, &["h264"]);
    bad(
        folder.path(),
        &["compute"],
        2,
        &[
            "The verbs are: compare, run, ",
            "report, ",
            "sim, sweep, topo",
        ],
    );
    for (flag, names) in [
        ("--cut", &["default", "row", "macroblock", "paper"][..]),
        ("--tasks", &["default, row, macroblock, paper"]),
        ("--groups", &["default, toshiba-a, toshiba-b, none"]),
        ("--bind", &["auto", "cpu", "domain", "off"]),
    ] {
        bad(folder.path(), &["compare", flag, "nothing"], 2, names);
        bad(
            folder.path(),
            &["run", "h264", "x.264", flag, "nothing"],
            2,
            names,
        );
    }
}

#[test]
fn misspelt_names_are_asked_about() {
    let folder = folder();
    let trace = "tanada-trace 1\ntask 1\nr 0x1000 64\n";
    std::fs::write(folder.path().join("a.tnt"), trace).expect("the folder can be written to");
    let sweep = "traces = 'a.tnt'\nmachines = 'toshiba'\npolicies = 'ts-lokal'\n";
    std::fs::write(folder.path().join("s.toml"), sweep).expect("the folder can be written to");
    for (line, code, meant) in [
        ("workloads stencl", 2, "stencil"),
        ("machines toshba", 2, "toshiba"),
        ("record stencl -o a.tnb", 2, "stencil"),
        ("sim a.tnt --machine toshba", 2, "toshiba"),
        ("sim a.tnt --machine toshiba --policy fcf", 2, "fcfs"),
        (
            "sim a.tnt --machine toshiba --policy near-firt",
            2,
            "near-first",
        ),
        ("sweep s.toml", 1, "ts-local"),
        ("compare stencl", 1, "stencil"),
        ("man recrod", 2, "record"),
    ] {
        let question = format!("; did you mean `{meant}`?");
        let words: Vec<&str> = line.split(' ').collect();
        bad(folder.path(), &words, code, &[&question]);
    }
    let said = run(folder.path(), &["machines", "nothing-like-it"]);
    assert!(!said.err.contains("did you mean"), "{}", said.err);
}

#[test]
fn one_workload_is_shown_alone() {
    let folder = folder();
    for workload in all() {
        let name = workload.name();
        let said = good(folder.path(), &["workloads", name]);
        for other in all() {
            let row = format!("\n {} ", other.name());
            assert_eq!(
                said.out.contains(&row),
                other.name() == name,
                "{}",
                said.out
            );
        }
        let said = good(folder.path(), &["workloads", name, "--json"]);
        let parsed: serde_json::Value = serde_json::from_str(&said.out).expect("it is JSON");
        assert_eq!(parsed["name"], name);
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let folder = folder();
    for verb in [
        &["compare"][..],
        &["run", "h264", "x.264"],
        &["run", "stencil"],
        &["run", "pipeline"],
    ] {
        for flag in [
            ["--workers", "0"],
            ["--workers", "1025"],
            ["--workers", "two"],
            ["--repeat", "0"],
            ["--seed", "first"],
            ["--nothing", "1"],
        ] {
            bad(folder.path(), &[verb, &flag].concat(), 2, &[flag[0]]);
        }
    }
    bad(
        folder.path(),
        &["run", "h264", "x.264", "--sequential", "--policy", "ts"],
        2,
        &["--policy"],
    );
    bad(folder.path(), &["report"], 2, &["RESULT.json"]);
    assert!(!folder.path().join("tanada-report.html").exists());
}

#[test]
fn input_at_fault_ends_with_1_and_leaves_no_files() {
    let folder = folder();
    for (name, content) in [
        ("empty.264", &b""[..]),
        ("text.264", b"An honest text, but no video.\n"),
    ] {
        std::fs::write(folder.path().join(name), content).expect("the folder can be written to");
    }
    for input in ["missing.264", "empty.264", "text.264", "."] {
        bad(
            folder.path(),
            &[
                "compare",
                input,
                "-o",
                "page.html",
                "--trace-events",
                "events.json",
            ],
            1,
            &[input],
        );
        bad(
            folder.path(),
            &["run", "h264", input, "-o", "out.yuv"],
            1,
            &[input],
        );
        bad(
            folder.path(),
            &["run", "h264", input, "--sequential", "-o", "out.yuv"],
            1,
            &[input],
        );
        let said = bad(
            folder.path(),
            &["run", "h264", input, "-o", "-"],
            1,
            &[input],
        );
        assert!(said.bytes.is_empty());
        bad(folder.path(), &["report", input], 1, &[input]);
        bad(folder.path(), &["topo", "--from", input], 1, &[input]);
        bad(
            folder.path(),
            &["topo", "--from", input, "--json"],
            1,
            &[input],
        );
    }
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .expect("it is there")
        .collect();
    assert_eq!(left.len(), 2, "only the inputs are left: {left:?}");
}

#[test]
fn outputs_that_cannot_be_written_end_with_1_before_the_work() {
    let folder = folder();
    let nowhere = text(folder.path().join("no/such/folder/file"));
    for flag in ["-o", "--trace-events"] {
        bad(folder.path(), &["compare", flag, &nowhere], 1, &[&nowhere]);
        let stream = text(short_stream(folder.path()));
        bad(
            folder.path(),
            &["run", "h264", &stream, flag, &nowhere],
            1,
            &[&nowhere],
        );
    }
    let full = run(
        folder.path(),
        &[
            "run",
            "h264",
            &text(short_stream(folder.path())),
            "-o",
            "/dev/full",
        ],
    );
    assert_eq!(full.code, Some(1), "{}", full.err);
    assert!(full.err.contains("/dev/full"), "{}", full.err);
    assert!(
        std::path::Path::new("/dev/full").exists(),
        "a device is never removed"
    );
}

#[test]
fn names_that_no_file_can_have_are_refused_before_the_work() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "").expect("the folder can be written to");
    let long = "x".repeat(256);
    for (name, why) in [
        ("new/", "that is the name of a folder; name another output"),
        ("file/", "that is the name of a folder; name another output"),
        (
            &long,
            "File name too long (os error 36); name another output",
        ),
    ] {
        // The work would begin with a complaint about its input.
        for line in [
            "run h264 no.264 -o",
            "record h264 no.264 -o",
            "compare no.264 -o",
        ] {
            let words: Vec<&str> = line.split(' ').chain([name]).collect();
            bad(folder.path(), &words, 1, &[name, why]);
        }
    }
}

#[test]
fn run_writes_the_frames_that_it_decodes() {
    let folder = folder();
    std::fs::write(folder.path().join("demo.264"), tanada_harness::DEMO)
        .expect("the folder can be written to");
    let said = good(
        folder.path(),
        &["run", "h264", "demo.264", "-o", "out.yuv", "--md5"],
    );
    assert!(
        said.out.starts_with(&format!("{}  demo.264\n", demo_md5())),
        "{}",
        said.out
    );
    let frames = std::fs::read(folder.path().join("out.yuv")).expect("it was written");
    assert_eq!(frames.len(), 128 * 800 * 480 * 3 / 2);
    assert_eq!(md5(&frames), demo_md5());
    let plain = good(
        folder.path(),
        &["run", "h264", "demo.264", "--sequential", "--md5"],
    );
    assert!(
        plain.out.contains(demo_md5()) && plain.out.contains("sequential"),
        "{}",
        plain.out
    );
}

#[test]
fn who_asks_for_groups_gets_the_policy_for_groups() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    let of = |more: &[&str]| {
        let arguments = [&["run", "h264", &stream, "--json"], more].concat();
        let said = good(folder.path(), &arguments);
        let report = tanada_report::from_json(&said.out).expect("a report");
        report.runs[0].policy.clone()
    };
    assert_eq!(of(&["--groups", "a"]), "ts-local");
    assert_eq!(of(&["--groups", "a", "--policy", "fcfs"]), "fcfs");
    assert_eq!(of(&["--groups", "none"]), of(&[]));
    assert_ne!(of(&[]), "ts-local");
}

#[test]
fn standard_output_holds_frames_and_nothing_else() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    good(
        folder.path(),
        &["run", "h264", &stream, "-o", "out.yuv", "--repeat", "2"],
    );
    let wanted = std::fs::read(folder.path().join("out.yuv")).expect("it was written");
    assert!(!wanted.is_empty());
    for more in [
        &[][..],
        &["--md5"],
        &["--json", "--md5"],
        &["--repeat", "3", "--workers", "3"],
    ] {
        let said = good(
            folder.path(),
            &[&["run", "h264", &stream, "-o", "-"], more].concat(),
        );
        assert!(
            said.bytes == wanted,
            "{more:?}: {} bytes instead of {}",
            said.bytes.len(),
            wanted.len()
        );
        if more.contains(&"--md5") {
            assert!(said.err.contains(&md5(&wanted)), "{}", said.err);
        }
    }
}

#[test]
fn a_damaged_stream_yields_its_good_pictures_and_ends_with_1() {
    let folder = folder();
    let whole = support::first_units(tanada_harness::DEMO, 8);
    let cut = &whole[..whole.len() - 100];
    let mut broken = whole.to_vec();
    let at = broken.len() / 2;
    broken[at..at + 16].fill(0xff);
    for (name, stream) in [("cut.264", cut), ("broken.264", &broken)] {
        std::fs::write(folder.path().join(name), stream).expect("the folder can be written to");
        let said = bad(
            folder.path(),
            &["run", "h264", name, "-o", "out.yuv"],
            1,
            &["byte ", "damaged", name],
        );
        let frames = std::fs::read(folder.path().join("out.yuv")).expect("the frames were kept");
        assert!(
            !frames.is_empty() && frames.len().is_multiple_of(800 * 480 * 3 / 2),
            "{}",
            said.err
        );
        bad(
            folder.path(),
            &["run", "h264", name, "-o", "plain.yuv", "--sequential"],
            1,
            &["byte "],
        );
        assert!(frames == std::fs::read(folder.path().join("plain.yuv")).expect("they were kept"));
        bad(
            folder.path(),
            &["compare", name, "--repeat", "1", "--policy", "fcfs"],
            1,
            &["byte ", "damaged"],
        );
    }
}

#[test]
fn results_are_json_of_the_schema() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    let arguments = [
        "run",
        "h264",
        &stream,
        "--json",
        "--md5",
        "--workers",
        "3",
        "--policy",
        "ts",
        "--groups",
        "a",
        "--tasks",
        "row",
        "--repeat",
        "2",
    ];
    let report = tanada_report::from_json(&good(folder.path(), &arguments).out).expect("a report");
    let run = &report.runs[0];
    assert_eq!(
        (
            run.policy.as_str(),
            run.workers,
            run.groups.as_str(),
            run.tasks_mode.as_str()
        ),
        ("ts", 3, "toshiba-a", "row")
    );
    assert!(run.frames == Some(5) && run.fps > Some(0.0), "{run:?}");
    assert_eq!(run.seconds.expect("it was timed").repeats, 2);
    assert!(run.extra["md5"].is_string());

    let traced = [
        "run",
        "h264",
        &stream,
        "--json",
        "--trace-events",
        "events.json",
    ];
    let report = tanada_report::from_json(&good(folder.path(), &traced).out).expect("a report");
    let events =
        std::fs::read_to_string(folder.path().join("events.json")).expect("it was written");
    let events: serde_json::Value = serde_json::from_str(&events).expect("it is JSON");
    let tasks = events["traceEvents"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|event| event["ph"] == "X")
        .count();
    assert_eq!(
        Some(tasks as u64),
        report.runs[0].tasks,
        "every task is there"
    );
}

#[test]
fn fields_are_gone_over_with_the_same_result_everywhere() {
    let folder = folder();
    for workload in [
        &["run", "stencil", "--size", "1500", "--sweeps", "5"][..],
        &["run", "pipeline", "--size", "1100", "--rounds", "2"],
    ] {
        let sum = |more: &[&str]| {
            let out = good(folder.path(), &[workload, &["--md5"], more].concat()).out;
            out.split_whitespace().next().expect("a sum").to_owned()
        };
        let wanted = sum(&["--sequential"]);
        assert_eq!(wanted.len(), 32, "{wanted}");
        for groups in ["own", "none"] {
            assert_eq!(sum(&["--policy", "ts", "--groups", groups]), wanted);
            assert_eq!(
                sum(&[
                    "--policy",
                    "serial,fcfs",
                    "--repeat",
                    "2",
                    "--groups",
                    groups
                ]),
                wanted
            );
        }
        assert_eq!(sum(&["--workers", "3"]), wanted);
    }
}

#[test]
fn policies_take_turns_and_what_groups_did_is_said() {
    let folder = folder();
    let arguments = [
        "run",
        "stencil",
        "--size",
        "900",
        "--policy",
        "fcfs,ts,fcfs",
        "--repeat",
        "2",
    ];
    let said = good(folder.path(), &arguments).out;
    // On a host that is busy with other work nothing is said of speed, as the unit tests of the verdicts show.
    let judged = said.contains("Groups ") && said.contains(": ts was ");
    assert_eq!(judged, !said.contains("The host was busy: "), "{said}");
    let traced = [&arguments[..], &["--json", "--trace-events", "events.json"]].concat();
    let report = tanada_report::from_json(&good(folder.path(), &traced).out).expect("a report");
    let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.as_str()).collect();
    assert_eq!(policies, ["fcfs", "ts"], "each once");
    for run in &report.runs {
        assert_eq!(
            (run.input.as_str(), run.groups.as_str()),
            ("size=900,sweeps=32", "default")
        );
        assert_eq!(run.honours_groups, run.policy == "ts");
        assert_eq!(run.seconds.expect("it was timed").repeats, 2);
        assert!(
            run.tasks > Some(0) && run.ratio_to_fcfs > Some(0.0),
            "{run:?}"
        );
        let memory = run.memory.expect("it is known");
        assert_eq!(memory.data, 900 * 900 * 8);
        assert!(memory.group > 0 && memory.own_cache > 0, "{memory:?}");
    }
    let events =
        std::fs::read_to_string(folder.path().join("events.json")).expect("it was written");
    let events: serde_json::Value = serde_json::from_str(&events).expect("it is JSON");
    let events = events["traceEvents"].as_array().expect("a list");
    let tasks = events.iter().filter(|event| event["ph"] == "X").count() as u64;
    assert_eq!(
        tasks,
        report.runs.iter().filter_map(|run| run.tasks).sum::<u64>()
    );
}

#[test]
fn programs_of_forks_run_under_policies_of_forks() {
    let folder = folder();
    let words = |more: &[&'static str]| {
        let small = ["run", "matmul", "--size", "160", "--iterations", "2"];
        [&small, more].concat()
    };
    let said = good(
        folder.path(),
        &words(&["--policy", "adws,random,fcfs", "--json"]),
    );
    let report = tanada_report::from_json(&said.out).expect("a report");
    let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.as_str()).collect();
    assert_eq!(policies, ["adws", "random", "fcfs"]);
    for run in &report.runs {
        // Jobs are counted, and strands are measured.
        assert!(run.tasks.is_some_and(|tasks| tasks > 0), "{run:?}");
        let profile = run.profile.as_ref().expect("a profile");
        assert!(0 < profile.span_ns && profile.span_ns <= profile.work_ns);
    }
    bad(folder.path(), &words(&["--policy", "adw"]), 2, &["adws"]);
    bad(
        folder.path(),
        &["run", "stencil", "--policy", "adws"],
        2,
        &[],
    );
    let traced = words(&["--trace-events", "events.json"]);
    bad(folder.path(), &traced, 2, &["tanada sim matmul.tnb"]);
    assert!(!folder.path().join("events.json").exists());
}

#[test]
fn fields_that_are_no_fields_are_refused() {
    let folder = folder();
    for (workload, many) in [("stencil", "--sweeps"), ("pipeline", "--rounds")] {
        for (flag, value) in [
            ("--size", "0"),
            ("--size", "much"),
            (many, "0"),
            (many, "-1"),
        ] {
            let argument = format!("{flag}={value}");
            bad(folder.path(), &["run", workload, &argument], 2, &[flag]);
        }
        bad(
            folder.path(),
            &["run", workload, "--groups", "a"],
            2,
            &["default", "none"],
        );
        bad(
            folder.path(),
            &["run", workload, "--policy", "ts", "--sequential"],
            2,
            &["--policy"],
        );
        bad(
            folder.path(),
            &["run", workload, "--size", "1000000"],
            1,
            &["GB of memory", "--size"],
        );
        let nowhere = text(folder.path().join("no/such/file"));
        bad(
            folder.path(),
            &["run", workload, "--trace-events", &nowhere],
            1,
            &[&nowhere],
        );
    }
}

#[test]
fn compare_checks_every_policy_and_its_report_can_be_merged() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    let arguments = [
        "compare",
        &stream,
        "--repeat",
        "1",
        "--json",
        "--workers",
        "3",
        "-o",
        "page.html",
        "--trace-events",
        "events.json",
    ];
    let said = good(folder.path(), &arguments);
    let report = tanada_report::from_json(&said.out).expect("a report");
    let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.as_str()).collect();
    let listed = || registry::native().into_iter().map(|entry| entry.name);
    let mut wanted = vec![tanada_report::SEQUENTIAL, tanada_report::TODAY];
    wanted.extend(listed());
    let native = wanted.len();
    // Simulated on the chip of paper 1 without and with contention.
    wanted.extend(listed().chain(listed()));
    assert_eq!(policies, wanted);
    for run in &report.runs[native..] {
        assert_eq!((run.engine, run.workers), (Engine::Simulated, 4));
        assert!(
            run.frames.is_some_and(|frames| (1..=8).contains(&frames)),
            "{run:?}"
        );
        assert!(
            run.cycles > Some(0) && run.ratio_to_fcfs > Some(0.0),
            "{run:?}"
        );
        assert!(
            run.bound_ratio >= Some(1.0) && run.caches.len() == 3,
            "{run:?}"
        );
    }
    let simulated = &report.timelines[native - 2..];
    assert_eq!(simulated.len(), native - 2);
    let today = &report.runs[1];
    assert!(
        today.identical == Some(true) && today.fps > Some(0.0) && today.workers == 3,
        "{today:?}"
    );
    assert!(
        simulated
            .iter()
            .all(|one| one.engine == Engine::Simulated && one.workers == 4)
    );
    for (run, timeline) in report.runs[2..native].iter().zip(&report.timelines) {
        assert_eq!(run.identical, Some(true), "{run:?}");
        assert!(
            run.fps > Some(0.0) && run.tasks > Some(0) && run.ratio_to_fcfs > Some(0.0),
            "{run:?}"
        );
        assert!(
            run.utilisation > Some(0.0) && run.utilisation <= Some(1.0),
            "{run:?}"
        );
        let own: u64 = run.origins.expect("counted").total();
        assert_eq!(Some(own), run.tasks);
        assert_eq!(
            (timeline.policy.as_str(), timeline.workers),
            (run.policy.as_str(), 3)
        );
        assert!(
            timeline.events.len() > 10,
            "{} has {} events",
            timeline.label,
            timeline.events.len()
        );
    }
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("it was written");
    assert!(
        page.starts_with("<!doctype html>") && said.err.contains("page.html"),
        "{}",
        said.err
    );
    assert!(
        report.command.starts_with("tanada compare "),
        "{}",
        report.command
    );

    std::fs::write(folder.path().join("a.json"), &said.out).expect("the folder can be written to");
    let other = good(folder.path(), &["run", "h264", &stream, "--json"]);
    std::fs::write(folder.path().join("b.json"), &other.out).expect("the folder can be written to");
    let merged = good(
        folder.path(),
        &["report", "a.json", "b.json", "-o", "both.html", "--json"],
    );
    let merged = tanada_report::from_json(&merged.out).expect("a report");
    assert_eq!(merged.runs.len(), report.runs.len() + 1);
    assert_eq!(merged.timelines, report.timelines);
    assert!(folder.path().join("both.html").exists());
}

#[test]
fn compare_shows_a_table_of_the_policies_that_were_asked_for() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    let said = good(
        folder.path(),
        &[
            "compare",
            &stream,
            "--repeat",
            "1",
            "--policy",
            "ts,fcfs,ts",
        ],
    );
    let first: Vec<&str> = said
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        first
            .windows(5)
            .any(|rows| rows == ["policy", "sequential", "today", "ts", "fcfs"]),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("All frames are identical"),
        "{}",
        said.out
    );
    assert!(folder.path().join("tanada-report.html").exists());
}

#[test]
fn registries_list_everything() {
    let folder = folder();
    let policies: Vec<serde_json::Value> =
        serde_json::from_str(&good(folder.path(), &["policies", "--json"]).out).expect("a list");
    let table = good(folder.path(), &["policies"]).out;
    assert_eq!(policies.len(), registry::all().len());
    for (line, entry) in policies.iter().zip(registry::all()) {
        assert_eq!(
            [
                &line["name"],
                &line["exact"],
                &line["greedy"],
                &line["native"]
            ],
            [
                &serde_json::Value::from(entry.name),
                &entry.exact.into(),
                &entry.greedy.into(),
                &(!entry.needs_prepared).into()
            ]
        );
        assert!(table.contains(entry.summary), "{table}");
    }
    let words = ["policies", "--forks", "--json"];
    let forks: Vec<serde_json::Value> =
        serde_json::from_str(&good(folder.path(), &words).out).expect("a list");
    assert_eq!(forks.len(), tanada_policy::forks::all().len());
    for (line, entry) in forks.iter().zip(tanada_policy::forks::all()) {
        assert_eq!(
            [&line["name"], &line["greedy"]],
            [&serde_json::Value::from(entry.name), &entry.greedy.into()]
        );
        assert!(table.contains(line["summary"].as_str().expect("a summary")));
    }
    let workloads: Vec<serde_json::Value> =
        serde_json::from_str(&good(folder.path(), &["workloads", "--json"]).out).expect("a list");
    let names: Vec<&str> = all().iter().map(|workload| workload.name()).collect();
    assert_eq!(
        workloads
            .iter()
            .map(|line| line["name"].as_str().expect("a name"))
            .collect::<Vec<_>>(),
        names
    );
    let table = good(folder.path(), &["workloads"]).out;
    for word in names
        .iter()
        .chain(&["--cut default, row, macroblock, paper; "])
    {
        assert!(table.contains(word), "{table}");
    }
}

/// The command line of a verb for a workload with its test options.
fn small(verb: &str, workload: &dyn tanada_workloads::Workload) -> Vec<String> {
    let purpose = match verb {
        "record" => Purpose::Record,
        _ => Purpose::Run,
    };
    let values = tanada_workloads::values_of(workload, purpose);
    let options = workload.description().test_options.iter();
    let options = options.filter(|(flag, _)| values.has(flag));
    let words = options.flat_map(|(flag, value)| [format!("--{flag}"), (*value).to_owned()]);
    [verb.to_owned(), workload.name().to_owned()]
        .into_iter()
        .chain(words)
        .collect()
}

#[test]
fn every_workload_has_one_result_in_run_with_or_without_tasks() {
    let folder = folder();
    for workload in all() {
        let words = small("run", *workload);
        let sum = |more: &[&str]| {
            let words: Vec<&str> = words
                .iter()
                .map(String::as_str)
                .chain(more.iter().copied())
                .collect();
            let out = good(folder.path(), &words).out;
            out.split_whitespace().next().expect("a sum").to_owned()
        };
        let wanted = sum(&["--sequential", "--md5"]);
        assert_eq!(wanted.len(), 32, "{wanted}");
        assert_eq!(sum(&["--md5", "--workers", "3"]), wanted);
        assert_eq!(
            sum(&["--md5", "--policy", "serial,fcfs", "--repeat", "2"]),
            wanted
        );
        sum(&["-o", "result"]);
        let written = std::fs::read(folder.path().join("result")).expect("it was written");
        assert_eq!(md5(&written), wanted, "{words:?}");
    }
}

#[test]
fn compare_takes_every_workload_and_simulates_what_can_be_recorded() {
    let folder = folder();
    for workload in all() {
        let mut words = small("compare", *workload);
        words.extend(["--policy", "fcfs,ts", "--repeat", "1", "--json"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = good(folder.path(), &words);
        let report = tanada_report::from_json(&said.out).expect("a report");
        let rows: Vec<(&str, Engine)> = report
            .runs
            .iter()
            .map(|run| (run.policy.as_str(), run.engine))
            .collect();
        let native = ["sequential", "today", "fcfs", "ts"].map(|name| (name, Engine::Native));
        assert_eq!(rows[..4], native);
        let simulated = ["fcfs", "ts", "fcfs", "ts"].map(|name| (name, Engine::Simulated));
        match workload.recorder() {
            Some(_) => assert_eq!(rows[4..], simulated),
            None => assert_eq!(rows.len(), 4),
        }
        for run in &report.runs {
            assert_eq!(run.workload, workload.name());
            assert!(run.identical != Some(false), "{run:?}");
            assert!(run.seconds.is_some() || run.cycles.is_some(), "{run:?}");
        }
        assert!(
            report.runs[1..4]
                .iter()
                .all(|run| run.identical == Some(true)),
            "{words:?}"
        );
        assert!(
            report
                .timelines
                .iter()
                .all(|timeline| !timeline.events.is_empty())
        );
    }
}

/// What the program writes to a terminal of `columns` columns.
fn on_a_terminal(folder: &std::path::Path, columns: u16, line: &str) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("ours");
    unlockpt(&ours).expect("ours");
    let name = ptsname(&ours, Vec::new()).expect("it has a name");
    let name = name.to_str().expect("it is text");
    let theirs = std::fs::File::options()
        .read(true)
        .write(true)
        .open(name)
        .expect("it is there");
    let size = rustix::termios::Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&theirs, size).expect("it has a size");
    let mut command = tanada(folder, &line.split(' ').collect::<Vec<_>>());
    let mut child = command.stdout(theirs).spawn().expect("the program starts");
    drop(command);
    let mut bytes = Vec::new();
    // The terminal's end is an error, and no end of the file.
    let _ = std::fs::File::from(ours).read_to_end(&mut bytes);
    assert!(child.wait().expect("it ends").success(), "{line}");
    text_of(&bytes).replace('\r', "")
}

#[test]
fn tables_fit_the_terminal() {
    let folder = folder();
    let trace = "tanada-trace 1\ntask 1 T=1 S=1 name=load\nr 0x1000 64\n";
    std::fs::write(folder.path().join("a.tnt"), trace).expect("the folder can be written to");
    for (columns, line) in [80, 40].into_iter().flat_map(|columns| {
        [
            "policies",
            "workloads",
            "machines",
            "sim a.tnt --machine toshiba --policy fcfs,locality-steal",
            "record stencil -o b.tnt --size 64 --sweeps 2",
            "run stencil --size 64 --sweeps 2 --workers 2",
        ]
        .map(|line| (columns, line))
    }) {
        let shown = on_a_terminal(folder.path(), columns, line);
        let rows = shown
            .lines()
            .filter(|line| line.starts_with(['┌', '│', '╞', '└']));
        let widest = rows.map(|row| row.chars().count()).max();
        assert!(widest > Some(20), "no table: {shown}");
        assert!(widest <= Some(columns.into()), "{columns}: {line}\n{shown}");
    }
}

#[test]
fn shells_complete_every_verb_and_the_manual_has_a_page_each() {
    let folder = folder();
    let completions = |shell| good(folder.path(), &["completions", shell]).out;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = completions(shell);
        for word in VERBS.iter().chain(&["stencil", "machine"]) {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    bad(folder.path(), &["completions", "cmd"], 2, &["bash", "zsh"]);
    let script = folder.path().join("tanada.bash");
    std::fs::write(&script, completions("bash")).expect("the folder can be written to");
    let complete = format!(
        "source {}; COMP_WORDS=(tanada mach); COMP_CWORD=1; _tanada tanada mach tanada; echo \"${{COMPREPLY[*]}}\"",
        text(&script)
    );
    let bash = std::process::Command::new("bash")
        .args(["-c", &complete])
        .output();
    let bash = said(bash.expect("bash is installed"));
    assert_eq!((&*bash.out, &*bash.err), ("machines\n", ""));

    let page = good(folder.path(), &["man"]).out;
    assert!(page.contains(".TH tanada 1"), "{page}");
    for verb in VERBS {
        assert!(
            page.contains(&format!("tanada\\-{verb}(1)")),
            "{verb}: {page}"
        );
    }
    let page = good(folder.path(), &["man", "run", "h264"]).out;
    assert!(page.contains(".TH tanada-run-h264 1"), "{page}");
    assert!(
        page.contains("\\-\\-policy") && page.contains("tanada run h264"),
        "{page}"
    );
    bad(
        folder.path(),
        &["man", "walk"],
        2,
        &["walk", "compare", "sweep"],
    );
}

#[test]
fn a_machine_file_is_begun_and_checked() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    let begun = good(folder.path(), &["topo", "--as-machine"]).out;
    write("mine.toml", &begun);
    let checked = good(folder.path(), &["machines", "mine.toml"]).out;
    for word in [
        "mine ",
        "uniform",
        "Machine:",
        "mine.toml is a sound machine file",
    ] {
        assert!(checked.contains(word), "no {word}: {checked}");
    }
    let json = good(folder.path(), &["machines", "mine.toml", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let here = good(folder.path(), &["topo", "--json"]).out;
    assert_eq!(json["cores"], here.matches("\"kind\":\"core\"").count());
    write("a.tnt", "tanada-trace 1\ntask 1\nr 0x1000 64\n");
    good(folder.path(), &["sim", "a.tnt", "--machine", "mine.toml"]);
    write(
        "there.txt",
        "package:1 l3:2(size=16M) l2:4(size=512K) core:1(l1d=32K)",
    );
    let there = ["topo", "--from", "there.txt", "--as-machine"];
    let there = good(folder.path(), &there).out;
    assert!(
        there.contains("cores = 8\ncores_per_cluster = 4\n"),
        "{there}"
    );
    let words = [
        "mine.toml:",
        "unknown key `hit_cycle`, did you mean `hit_cycles`?",
    ];
    write("mine.toml", &begun.replace("hit_cycles", "hit_cycle"));
    bad(folder.path(), &["machines", "mine.toml"], 1, &words);
    bad(
        folder.path(),
        &["machines", "no/such.toml"],
        1,
        &["no/such.toml"],
    );
    bad(
        folder.path(),
        &["machines", "toshibo"],
        2,
        &["toshiba-board"],
    );
}

#[test]
fn what_is_no_usable_stream_is_answered_with_the_command_that_makes_one() {
    let folder = folder();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("the folder can be written to");
    };
    let short = std::fs::read(short_stream(folder.path())).expect("it was written");
    // `entropy_coding_mode_flag`, behind two codes of one bit.
    let mut cabac = short.clone();
    let starts = short.windows(4).enumerate();
    let sets = starts.filter(|(_, four)| *four == [0, 0, 1, 0x68]);
    sets.for_each(|(at, _)| cabac[at + 4] ^= 0x20);
    write("film.mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41");
    write("film.mkv", b"\x1a\x45\xdf\xa3\x01\0\0\0");
    write(
        "film.265",
        b"\0\0\0\x01\x40\x01\x0c\x01\xff\0\0\x01\x42\x01\x01\x01\x60",
    );
    write("film.txt", b"An honest text, but no video.\n");
    write("cabac.264", &cabac);
    for (file, what) in [
        ("film.mp4", "this is an MP4 or QuickTime file"),
        ("film.mkv", "this is a Matroska or WebM file"),
        ("film.265", "this is an HEVC (H.265) stream"),
        ("film.txt", "this is text"),
        ("cabac.264", "CABAC entropy coding is not supported"),
    ] {
        let stem = &file[..file.find('.').expect("it has an end")];
        let command = format!(
            "ffmpeg -i {file} -an -c:v libx264 -profile:v baseline -pix_fmt yuv420p {stem}.baseline.264"
        );
        for line in [
            &["compare", file][..],
            &["run", "h264", file],
            &["run", "h264", file, "--sequential"],
            &["record", "h264", file, "-o", "out.tnb"],
        ] {
            bad(folder.path(), line, 1, &[what, &command]);
        }
    }
}

#[test]
fn topo_draws_this_machine_and_others() {
    let folder = folder();
    let here = good(folder.path(), &["topo"]).out;
    for word in ["Machine", "affinity mask", "quota", "default workers"] {
        assert!(here.contains(word), "{here}");
    }
    let json = good(folder.path(), &["topo", "--json"]).out;
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let mask = value["mask"].as_array().map_or(0, Vec::len);
    assert!(mask > 0 && value.get("quota").is_some(), "{json}");
    std::fs::write(folder.path().join("here.json"), &json).expect("the folder can be written to");
    assert_eq!(
        good(folder.path(), &["topo", "--from", "here.json"]).out,
        here
    );

    std::fs::write(
        folder.path().join("m.txt"),
        "package:2 l3:1(size=32M) core:2 pu:2\n",
    )
    .expect("the folder can be written to");
    let there = good(folder.path(), &["topo", "--from", "m.txt"]).out;
    assert!(
        there.contains("Package 1") && there.contains("default workers   8"),
        "{there}"
    );
    let limited = r#"{"root":{"kind":"machine","children":[{"kind":"core","children":[{"kind":"pu","id":4},
        {"kind":"pu","id":5,"usable":false}]}]},"quota":0.5,"mask":[4]}"#;
    std::fs::write(folder.path().join("m.json"), limited).expect("the folder can be written to");
    let there = good(folder.path(), &["topo", "--from", "m.json", "--json"]).out;
    assert!(there.contains("\"quota\":0.5,\"mask\":[4]"), "{there}");
    let wrong = limited.replace("[4]", "[4,5]");
    std::fs::write(folder.path().join("m.json"), wrong).expect("the folder can be written to");
    bad(
        folder.path(),
        &["topo", "--from", "m.json"],
        1,
        &["m.json", "`mask`"],
    );
    std::fs::write(folder.path().join("m.txt"), "package:2 core:nine\n")
        .expect("the folder can be written to");
    bad(
        folder.path(),
        &["topo", "--from", "m.txt"],
        1,
        &["m.txt", "line 1, column 11"],
    );
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    for arguments in [
        &["policies"][..],
        &["topo", "--json"],
        &["--help"],
        &["run", "h264", &stream, "-o", "-"],
    ] {
        let mut child = tanada(folder.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let mut errors = String::new();
        BufReader::new(child.stderr.take().expect("piped"))
            .read_to_string(&mut errors)
            .expect("text");
        let status = child.wait().expect("it ends");
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        assert_eq!(status.code(), Some(0), "{arguments:?}: {errors}");
    }
}

/// Runs with a standard output that nothing reads.
fn unread(folder: &std::path::Path, line: &str) -> support::Said {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = tanada(folder, &line.split(' ').collect::<Vec<_>>());
    command.stdout(writer);
    said(command.output().expect("the program starts"))
}

#[test]
fn a_closed_pipe_hides_no_failure_and_stops_no_other_output() {
    let folder = folder();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("the folder can be written to");
    };
    let whole = support::first_units(tanada_harness::DEMO, 8);
    write("bad.264", &whole[..whole.len() - 100]);
    write("a.tnt", b"tanada-trace 1\ntask 1\nr 0x1000 64\n");
    write(
        "overflow.tnt",
        b"tanada-trace 1\ntask 1\nx 18446744073709551615\nx 1\n",
    );
    write(
        "s.toml",
        b"traces = ['a.tnt', 'overflow.tnt']\nmachines = 'toshiba'\npolicies = 'fcfs'\n",
    );
    for (line, code, output, message) in [
        ("run h264 bad.264", 1, None, "damaged"),
        ("run h264 bad.264 -o -", 1, None, "damaged"),
        (
            "run h264 bad.264 -o - --trace-events 1.json",
            1,
            Some("1.json"),
            "damaged",
        ),
        (
            "run stencil --size 64 -o - --trace-events 2.json",
            0,
            Some("2.json"),
            "stencil",
        ),
        (
            "run stencil --size 64 -o - --md5 --repeat 2",
            0,
            None,
            "size=64",
        ),
        (
            "compare bad.264 --repeat 1 --policy fcfs --no-sim -o 3.html",
            1,
            Some("3.html"),
            "damaged",
        ),
        ("record h264 bad.264 -o 4.tnb", 1, Some("4.tnb"), "damaged"),
        (
            "sim a.tnt --machine toshiba --policy fcfs --events 5.csv",
            0,
            Some("5.csv"),
            "",
        ),
        (
            "sweep s.toml",
            1,
            Some("s.csv"),
            "1 of 2 runs have no result",
        ),
        ("policies", 0, None, ""),
    ] {
        let said = unread(folder.path(), line);
        assert_eq!(said.code, Some(code), "{line}: {}", said.err);
        assert!(said.err.contains(message), "{line}: {}", said.err);
        let is_there = output.is_none_or(|file| folder.path().join(file).exists());
        assert!(is_there, "{line}: {}", said.err);
    }
}

#[test]
fn an_input_without_an_end_is_refused() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    write("sweep.toml", "traces = '/dev/zero'\nmachines = 'toshiba'");
    write("a.tnt", "tanada-trace 1\ntask 1\nr 0x1000 64\n");
    for (line, words) in [
        ("run h264 /dev/zero", "1 GiB"),
        ("record h264 /dev/zero -o out.tnb", "1 GiB"),
        ("record h264 --costs /dev/zero -o out.tnb", "1 GiB"),
        ("report /dev/zero -o page.html", "1 GiB"),
        ("topo --from /dev/zero", "1 GiB"),
        ("sweep /dev/zero -o out", "1 GiB"),
        ("sweep sweep.toml", "it must be a file"),
        ("sim /dev/zero --machine toshiba", "a line of more than"),
        ("import /dev/zero -o out.tnb", "a line of more than"),
        ("sim a.tnt --machine /dev/zero", "bytes"),
    ] {
        let words = ["/dev/zero", words];
        bad(
            folder.path(),
            &line.split(' ').collect::<Vec<_>>(),
            1,
            &words,
        );
    }
    // Tables of the square of 65,535 cores took minutes and many gigabytes.
    let cores = "sim a.tnt --machine toshiba-board --cores 65535";
    let words = ["`cores` is 65535; it must be 1 to 4096"];
    bad(
        folder.path(),
        &cores.split(' ').collect::<Vec<_>>(),
        2,
        &words,
    );
}

#[test]
fn an_output_that_cannot_be_written_at_the_end_loses_no_result() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    write("a.tnt", "tanada-trace 1\ntask 1\nr 0x1000 64\n");
    let field = "stencil --size 64 --sweeps 2 --workers 2";
    let compared = format!("compare {field} --repeat 1 --no-sim --policy fcfs --json -o page.html");
    let json = good(folder.path(), &compared.split(' ').collect::<Vec<_>>()).out;
    write("a.json", &json);
    for line in [
        &format!("compare {field} --repeat 1 --no-sim --policy fcfs -o /dev/full"),
        &format!("run {field} --policy fcfs --trace-events /dev/full"),
        "report a.json -o /dev/full",
        "sim a.tnt --machine toshiba --policy fcfs --events /dev/full",
        "sim a.tnt --machine toshiba --policy fcfs --report /dev/full",
    ] {
        let words = ["/dev/full: cannot be written", "name another output"];
        let said = bad(
            folder.path(),
            &line.split(' ').collect::<Vec<_>>(),
            1,
            &words,
        );
        assert!(said.out.contains("fcfs"), "{line}: {}", said.out);
    }
}

#[test]
fn control_characters_in_names_never_reach_the_terminal() {
    let folder = folder();
    let trace = "tanada-trace 1\ntask 1 name=load\nr 0x1000 64\n";
    let name = "a\u{1b}]0;evil\u{7}.tnt";
    std::fs::write(folder.path().join(name), trace).expect("the folder can be written to");
    let sim = ["sim", name, "--machine", "toshiba", "--policy", "fcfs"];
    let data = ["--report", "a.json"];
    let mut all = vec![good(folder.path(), &[&sim[..], &data].concat())];
    let report = std::fs::read_to_string(folder.path().join("a.json")).expect("it is there");
    let evil = report.replace("\"fcfs\"", "\"\\u001b[2Jevil\\u009b31m\"");
    assert_ne!(report, evil);
    std::fs::write(folder.path().join("a.json"), evil).expect("the folder can be written to");
    all.push(good(folder.path(), &["report", "a.json"]));
    let json = good(folder.path(), &["report", "a.json", "--json"]);
    let parsed: serde_json::Value = serde_json::from_str(&json.out).expect("it is JSON");
    assert!(parsed.to_string().contains("evil"), "{parsed}");
    all.push(json);
    all.push(bad(folder.path(), &["report", name], 1, &["evil"]));
    all.push(bad(
        folder.path(),
        &["sim", "a\u{1b}[2J", "--machine", "toshiba"],
        1,
        &[],
    ));
    for said in all {
        for text in [said.out, said.err] {
            let text = text.replace('\n', "");
            assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        }
    }
}

#[test]
fn control_characters_in_arguments_never_reach_the_terminal() {
    let folder = folder();
    for words in [
        &["a\x1b]0;title\x07b"][..],
        &["run", "stencil", "--size", "\x1b[31m7\r"],
        &["topo", "--no\x08such"],
    ] {
        let said = run(folder.path(), words);
        assert_eq!(said.code, Some(2), "{}", said.err);
        let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!said.err.contains(obeyed), "{:?}", said.err);
        assert!(said.err.contains("\\u00"), "{:?}", said.err);
    }
}

#[test]
fn help_that_cannot_be_written_ends_with_1() {
    let folder = folder();
    for words in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = tanada(folder.path(), words);
        command.stdout(full.expect("the system has it"));
        let said = said(command.output().expect("it starts"));
        assert_eq!(said.code, Some(1), "{words:?}: {}", said.err);
        assert!(said.err.contains("standard output"), "{}", said.err);
    }
}

#[test]
fn arguments_that_are_no_text_are_taken_as_names_and_else_refused() {
    let folder = folder();
    let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let stream = text(short_stream(folder.path()));
    std::fs::copy(stream, at(b"s\xff.264")).expect("the folder can be written to");
    let machine = good(folder.path(), &["machines", "toshiba"]).out;
    std::fs::write(at(b"m\xff.toml"), machine).expect("the folder can be written to");
    let trace = "tanada-trace 1\ntask 1\nr 0x1000 64\n";
    std::fs::write(at(b"t\xff.tnt"), trace).expect("the folder can be written to");
    let run = |line: &[u8]| {
        let words = line.split(|&byte| byte == b' ').map(OsStr::from_bytes);
        let mut command = tanada(folder.path(), &[]);
        said(command.args(words).output().expect("it starts"))
    };
    for line in [
        &b"compare s\xff.264 --policy fcfs --repeat 1 --no-sim --json -o c\xff.html"[..],
        b"run h264 s\xff.264 -o y\xff.yuv",
        b"run stencil --size 64 -o a\xff",
        b"sim t\xff.tnt --machine m\xff.toml --policy fcfs --report p\xff.html",
        b"record stencil --size 64 --sweeps 1 -o r\xff.tnb",
    ] {
        let said = run(line);
        let line = String::from_utf8_lossy(line);
        assert_eq!(said.code, Some(0), "{line}: {}", said.err);
    }
    let report = std::fs::read_to_string(at(b"p\xff.html")).expect("it is there");
    assert!(report.contains("t\u{fffd}.tnt"));
    let verbs: [&[u8]; 6] = [
        b"x\xff",
        b"run x\xff",
        b"record x\xff",
        b"reproduce x\xff",
        b"topo --x\xff",
        b"sim",
    ];
    for line in verbs {
        let said = run(line);
        let line = String::from_utf8_lossy(line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
    }
}

/// The program behind a shell that does `redirection`.
fn in_shell(folder: &std::path::Path, redirection: &str, line: &str) -> support::Said {
    let mut command = std::process::Command::new("sh");
    command.current_dir(folder);
    command.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tanada"));
    command.args(line.split(' ').map(OsString::from));
    said(command.output().expect("it starts"))
}

#[test]
fn results_for_which_there_is_no_output_are_no_success() {
    let folder = folder();
    for line in ["policies", "--help", "run stencil --size 64 -o a.bin"] {
        let said = in_shell(folder.path(), ">&-", line);
        assert_eq!(said.code, Some(1), "{line}: {}", said.err);
        assert!(
            said.err.contains("standard output: it is closed"),
            "{}",
            said.err
        );
        for named in [">/dev/null", "1<>/dev/null"] {
            assert_eq!(in_shell(folder.path(), named, line).code, Some(0));
        }
    }
    assert_eq!(in_shell(folder.path(), ">&-", "no-such-verb").code, Some(2));
}

#[test]
fn a_closed_descriptor_is_no_empty_input_and_no_output() {
    let folder = folder();
    std::fs::write(
        folder.path().join("a.tnt"),
        "tanada-trace 1\ntask 1\nr 0x1000 64\n",
    )
    .expect("the folder can be written to");
    for line in [
        "import - -o a.tnb",
        "import /dev/stdin -o a.tnb",
        "sim - --machine toshiba",
        "run h264 /dev/stdin",
        "topo --from /dev/fd/0",
        "report /dev/stdin",
        "sweep /dev/stdin -o out",
    ] {
        let said = in_shell(folder.path(), "<&-", line);
        assert_eq!(said.code, Some(1), "{line}: {}", said.err);
        let message = "standard input: it is closed";
        assert!(said.err.contains(message), "{line}: {}", said.err);
    }
    let sim = "sim a.tnt --machine toshiba --policy fcfs --report /dev/stderr";
    for (redirection, code) in [("2>&-", 1), ("2>/dev/null", 0), ("<&-", 0)] {
        let said = in_shell(folder.path(), redirection, sim);
        assert_eq!(said.code, Some(code), "{redirection}: {}", said.err);
    }
    let said = in_shell(folder.path(), "</dev/null", "import - -o a.tnb");
    assert_eq!(said.code, Some(1), "{}", said.err);
    let message = "standard input: it is empty";
    assert!(said.err.contains(message), "{}", said.err);
    assert!(!folder.path().join("a.tnb").exists());
}

#[test]
fn too_many_open_files_are_named_as_the_cause() {
    let folder = folder();
    let stream = text(short_stream(folder.path()));
    let mut outputs = 0;
    for most in 4..=8 {
        for line in [
            "run stencil --size 64 -o out.bin",
            &format!("run h264 {stream} -o out.yuv"),
            "record stencil --size 64 --sweeps 1 -o out.tnb",
        ] {
            let mut command = std::process::Command::new("sh");
            command.current_dir(folder.path());
            let limit = format!("ulimit -n {most}; exec \"$@\"");
            command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_tanada")]);
            let said = said(command.args(line.split(' ')).output().expect("it starts"));
            if said.code == Some(0) {
                continue;
            }
            for word in [
                "Too many open files",
                "raise the limit of open files (ulimit -n)",
            ] {
                assert!(said.err.contains(word), "{most}: {line}: {}", said.err);
            }
            outputs += usize::from(said.err.starts_with("tanada: out."));
        }
    }
    assert_ne!(outputs, 0, "an output is opened last");
}

#[test]
fn a_temporary_folder_that_is_missing_is_named() {
    let folder = folder();
    good(
        folder.path(),
        &[
            "record", "stencil", "--size", "64", "--sweeps", "1", "-o", "a.tnb",
        ],
    );
    let mut command = tanada(
        folder.path(),
        &["sim", "-", "--machine", "toshiba", "--policy", "fcfs"],
    );
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let bytes = std::fs::read(folder.path().join("a.tnb")).expect("it is there");
    let copying = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut { writer }, &bytes);
    });
    command.env("TMPDIR", "/no/such/folder").stdin(reader);
    let said = said(command.output().expect("it starts"));
    drop(command);
    copying.join().expect("it ends");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(
        said.err.contains("/no/such/folder") && !said.err.contains("/dev/stdin"),
        "{}",
        said.err
    );
}
