//! Results of both engines on one page: `sim --report`, `report` of what `sim` wrote, `compare` with and without its simulated half.

mod support;

use std::path::Path;
use support::{bad, folder, good, short_stream};
use tanada_report::{Engine, Report, from_json};

/// Six tasks in two stages on lines of their own.
const TRACE: &str = "tanada-trace 1
task 1 T=1 S=1 name=load\nr 0x1000 256\ntask 2 T=1 S=1 name=load\nr 0x2000 256\ntask 3 T=2 S=2 name=sum\nr 0x1000 256\nx 100
task 4 T=2 S=2 name=sum\nr 0x2000 256\nx 100\ntask 5 name=end\nw 0x3000 8\ntask 6\nx 5
dep 1 3\ndep 2 4\ndep 3 5\ndep 4 5\n";

fn trace(folder: &Path) {
    std::fs::write(folder.join("t.tnt"), TRACE).expect("the folder can be written to");
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("it was written")
}

fn report(folder: &Path, name: &str) -> Report {
    from_json(&read(folder, name)).expect("a report")
}

const SIM: [&str; 8] = [
    "sim",
    "t.tnt",
    "--machine",
    "toshiba",
    "--policy",
    "fcfs,ts",
    "--cores",
    "2",
];

#[test]
fn sim_writes_a_page_and_the_same_as_data() {
    let folder = folder();
    let folder = folder.path();
    trace(folder);
    let said = good(folder, &[&SIM[..], &["--report", "page.html"]].concat());
    assert!(said.out.contains("x bound"), "{}", said.out);
    let page = read(folder, "page.html");
    for part in [
        "Time beside the bound",
        "Where the time went",
        "Misses by cache and stage",
        "Reuse distance",
        "data-gantt=\"1\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    good(folder, &[&SIM[..], &["--report", "data.json"]].concat());
    let data = report(folder, "data.json");
    let policies: Vec<&str> = data.runs.iter().map(|run| run.policy.as_str()).collect();
    assert_eq!(policies, ["fcfs", "ts"]);
    for (run, timeline) in data.runs.iter().zip(&data.timelines) {
        assert_eq!(
            (run.engine, run.workers, run.tasks),
            (Engine::Simulated, 2, Some(6))
        );
        assert!(run.ratio_to_fcfs.is_some() && run.limits.is_some() && run.stalls.len() == 2);
        let names: Vec<&str> = run.caches[1]
            .by_name
            .iter()
            .map(|part| part.name.as_str())
            .collect();
        assert_eq!(names, ["load", "sum", "end", "-"]);
        assert_eq!(timeline.events.len(), 6);
        assert_eq!(timeline.span().map(|(_, end)| end), run.cycles);
    }
    assert!(
        data.command.starts_with("tanada sim t.tnt"),
        "{}",
        data.command
    );
}

#[test]
fn report_puts_simulated_results_beside_native_ones() {
    let folder = folder();
    let folder = folder.path();
    trace(folder);
    let lines = good(folder, &[&SIM[..], &["--json"]].concat()).out;
    std::fs::write(folder.join("lines.json"), &lines).expect("the folder can be written to");
    good(folder, &[&SIM[..], &["--report", "data.json"]].concat());
    let native = good(folder, &["run", "pipeline", "--json", "--workers", "2"]).out;
    std::fs::write(folder.join("native.json"), native).expect("the folder can be written to");
    let all = [
        "report",
        "native.json",
        "lines.json",
        "data.json",
        "-o",
        "all.html",
        "--json",
    ];
    let merged = from_json(&good(folder, &all).out).expect("a report");
    let engines: Vec<Engine> = merged.runs.iter().map(|run| run.engine).collect();
    assert_eq!(engines[0], Engine::Native);
    assert!(engines.len() >= 5 && engines[engines.len() - 4..] == [Engine::Simulated; 4]);
    // The report has all that `sim --json` prints, with the same values.
    let (line, data) = (
        &merged.runs[engines.len() - 4],
        &merged.runs[engines.len() - 2],
    );
    assert_eq!(
        (line.input.as_str(), data.input.as_str()),
        ("lines.json", "t.tnt")
    );
    assert_eq!(
        (line.cycles, line.bound, line.writebacks),
        (data.cycles, data.bound, data.writebacks)
    );
    assert!(line.stalls.is_empty() && !data.stalls.is_empty());
    assert!(read(folder, "all.html").contains("simulated"));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = folder();
    let folder = folder.path();
    trace(folder);
    let nowhere = "no/such/page.html";
    bad(
        folder,
        &[&SIM[..], &["--report", nowhere]].concat(),
        1,
        &[nowhere],
    );
    let line = good(folder, &[&SIM[..], &["--json"]].concat()).out;
    let broken = format!("{line}{{\"policy\": \"ts\"}}\n");
    std::fs::write(folder.join("broken.json"), broken).expect("the folder can be written to");
    bad(
        folder,
        &["report", "broken.json"],
        1,
        &["broken.json", "line 3", "tanada sim --json"],
    );
    bad(folder, &["report", "t.tnt"], 1, &["t.tnt", "not a report"]);
    bad(folder, &["compare", "--no-sim=yes"], 2, &["--no-sim"]);
}

#[test]
fn the_simulated_half_has_the_dependencies_that_were_asked_for() {
    let folder = folder();
    let folder = folder.path();
    let stream = short_stream(folder);
    let stream = stream.to_str().expect("test paths are text");
    let simulated = |kind: &str| {
        let mut arguments = vec!["compare", stream, "--policy", "fcfs", "--repeat", "1"];
        arguments.extend(["--json", "--tasks", "row", "--dependencies", kind]);
        let runs = from_json(&good(folder, &arguments).out)
            .expect("a report")
            .runs;
        let simulated = runs
            .into_iter()
            .filter(|run| run.engine == Engine::Simulated);
        let limits = simulated.map(|run| (run.tasks, run.limits.expect("it is simulated")));
        limits.collect::<Vec<_>>()
    };
    let (needed, fixed) = (simulated("needed"), simulated("fixed"));
    assert_eq!((needed.len(), fixed.len()), (2, 2), "two machines");
    for ((tasks, needed), (as_many, fixed)) in needed.into_iter().zip(fixed) {
        assert_eq!(tasks, as_many);
        // Every row waits for the one above: a longer chain of the same work.
        assert_eq!(needed.work, fixed.work);
        assert!(
            fixed.critical_path > needed.critical_path,
            "{fixed:?} {needed:?}"
        );
    }
}

#[test]
fn compare_can_leave_out_the_simulated_half() {
    let folder = folder();
    let folder = folder.path();
    let stream = short_stream(folder);
    let stream = stream.to_str().expect("test paths are text");
    let arguments = [
        "compare", stream, "--policy", "fcfs", "--repeat", "1", "--json", "--no-sim",
    ];
    let report = from_json(&good(folder, &arguments).out).expect("a report");
    let rows: Vec<&str> = report.runs.iter().map(|run| &*run.policy).collect();
    assert_eq!(rows, ["sequential", "today", "fcfs"]);
    assert!(report.runs.iter().all(|run| run.engine == Engine::Native));
}

#[test]
fn a_report_becomes_a_document() {
    let folder = folder();
    let words = "compare stencil --size 64 --sweeps 2 --repeat 1 --no-sim --policy fcfs --json";
    let json = good(folder.path(), &words.split(' ').collect::<Vec<_>>()).out;
    std::fs::write(folder.path().join("a.json"), json).expect("the folder can be written to");
    good(folder.path(), &["report", "a.json", "--markdown", "a.md"]);
    let text = std::fs::read_to_string(folder.path().join("a.md")).expect("the document");
    assert!(text.starts_with("# stencil as tasks"), "{text}");
    for part in ["tanada compare stencil", "| fcfs", "| sequential"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    bad(
        folder.path(),
        &["report", "a.json", "--markdown", "a.json"],
        2,
        &["a.json"],
    );
}
