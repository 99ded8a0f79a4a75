//! `TANADA_PROFILE` of a program on rayon's interface, read by the crate that checks reports.

use rayon_core::{ThreadPoolBuilder, join, scope};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tanada_report::{Profile, Report, from_json};

/// What a leaf of the program takes at least.
const UNIT: Duration = Duration::from_millis(3);

/// Works for so many units, by the clock.
fn work(units: u32) {
    let start = Instant::now();
    while start.elapsed() < UNIT * units {
        std::hint::spin_loop();
    }
}

/// Runs one of the ignored tests below as a program, with a profile in `file`.
fn run(test: &str, file: &Path, more: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env("TANADA_PROFILE", file)
        .env("RAYON_NUM_THREADS", "2")
        .envs(more.iter().copied());
    command.output().expect("the program starts")
}

fn read(file: &Path) -> Report {
    let text = std::fs::read_to_string(file).expect("the report is there");
    from_json(&text).expect("a report that does not contradict itself")
}

fn extra(report: &Report, key: &str) -> u64 {
    report.runs[0].extra[key].as_u64().expect("a number")
}

#[test]
fn a_known_shape_has_its_work_and_span() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.json");
    for threads in ["1", "2", "7"] {
        let output = run("program", &file, &[("RAYON_NUM_THREADS", threads)]);
        assert!(output.status.success(), "{output:?}");
        let report = read(&file);
        let run = &report.runs[0];
        let Profile {
            work_ns,
            span_ns,
            wall_ns,
            ..
        } = *run.profile.as_ref().expect("a profile");
        let unit = UNIT.as_nanos() as u64;
        // Two regions: 6 beside 2 beside 1, then a scope of 2 and three times 1 beside it. A strand may take longer than it should, so the
        // bounds are on one side, but for this: what is not on the longest path is at least 3, and then at least 3, units.
        assert!(work_ns >= (9 + 5) * unit, "{work_ns}");
        assert!(span_ns >= (6 + 2) * unit, "{span_ns}");
        assert!(
            span_ns <= work_ns - (3 + 3) * unit,
            "{span_ns} of {work_ns}"
        );
        assert!(wall_ns >= span_ns && extra(&report, "whole_ns") >= wall_ns);
        assert_eq!(extra(&report, "joins"), 2);
        assert_eq!(run.workers.to_string(), threads);
        // Both regions and what was spawned ran as jobs.
        assert!(run.tasks.expect("jobs") >= 5);
        assert!(!report.timelines[0].events.is_empty());
        std::fs::remove_file(&file).expect("it was written");
    }
}

#[test]
#[ignore = "run by the test above"]
fn program() {
    join(|| work(6), || join(|| work(2), || work(1)));
    scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|_| work(1));
        }
        work(2);
    });
}

#[test]
fn the_page_is_written_although_the_program_exits_in_a_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.html");
    let output = run("exits", &file, &[]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let page = std::fs::read_to_string(&file).expect("the page is there");
    assert!(page.contains("workers are of use") && page.ends_with("</html>\n"));
    // Nothing is left beside it.
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1
    );
}

#[test]
#[ignore = "run by the test above"]
fn exits() {
    join(|| work(1), || work(1));
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .expect("a pool");
    pool.install(|| std::process::exit(7));
}

#[test]
fn a_trace_has_the_strands() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.tnt");
    let output = run("program", &file, &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::read_to_string(&file).expect("the trace is there");
    let lines = |word: &str| trace.lines().filter(|line| line.starts_with(word)).count();
    // The first region: itself and 3 strands a join. The second: 3 times spawned, so 4 strands of the body, and what follows the scope.
    assert_eq!((lines("task "), lines("fork ")), (7 + 8, 4 + 6));
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let says = |output: &Output, what: &str| {
        assert!(!output.status.success());
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(what), "{text}");
    };
    let text = folder.path().join("out.txt");
    says(&run("program", &text, &[]), "ends in .html, .json or .tnt");
    let json = folder.path().join("out.json");
    let bad = [("TANADA_PROFILE_JOINS", "some")];
    says(&run("program", &json, &bad), "TANADA_PROFILE_JOINS=some");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0
    );
}

#[test]
fn a_folder_that_is_not_there_is_said_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run("program", &folder.path().join("none/out.json"), &[]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("none/out.json"), "{text}");
}
