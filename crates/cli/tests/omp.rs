//! `omp`: programs run as they would, their ends pass through, and the results are where they are asked for.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Said, bad, folder, said, tanada};

const PROGRAM: &str = r#"
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile int size;
static double data[10000];
static void region(void) {
    int members = 0;
#pragma omp parallel reduction(+ : members)
    {
        members = 1;
#pragma omp for
        for (int j = 0; j < 10000; j++) data[j] += j;
    }
    size = members;
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char line[100] = "";
    for (int i = 0; i < 100; i++) region();
    if (!strcmp(what, "read") && !fgets(line, 100, stdin)) return 3;
    if (!strcmp(what, "crash")) *(volatile int *)0 = 1;
    if (!strcmp(what, "leave")) exit(42);
    if (!strcmp(what, "wait")) { puts("waits"); fflush(stdout); sleep(60); }
    printf("%d threads %s\n", size, line);
    return 0;
}
"#;

/// Compiles the program in `folder`. Returns whether there is a compiler.
fn compile(folder: &Path, compiler: &str, more: &[&str]) -> bool {
    if tanada_testing::program(&[compiler], compiler, "omp of a program").is_none() {
        return false;
    }
    fs::write(folder.join("program.c"), PROGRAM).expect("a source");
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-w", "-fopenmp", "program.c", "-o", "program"])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    true
}

/// The verb with its options, and the program with its arguments.
fn omp(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = tanada(folder, &[&["omp"], arguments].concat());
    command.env("OMP_NUM_THREADS", "2");
    command.env("OMP_WAIT_POLICY", "passive");
    command
}

fn run(mut command: Command) -> Said {
    said(command.output().expect("it starts"))
}

#[test]
fn a_program_runs_as_without_us_and_its_regions_are_named() {
    let folder = folder();
    for compiler in ["gcc", "clang"] {
        if !compile(folder.path(), compiler, &[]) {
            continue;
        }
        let arguments = [
            "--governor",
            "fixed",
            "--threads",
            "1",
            "--json",
            "regions.json",
            "-o",
            "page.html",
            "--",
            "./program",
        ];
        let said = run(omp(folder.path(), &arguments));
        assert_eq!(
            (said.code, &*said.out),
            (Some(0), "1 threads \n"),
            "{}",
            said.err
        );
        assert!(said.err.contains("program.c:12"), "{}", said.err);
        assert!(said.err.contains("1 of 2"), "{}", said.err);
        let json = fs::read_to_string(folder.path().join("regions.json")).expect("it is there");
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        let region = &json["regions"][0];
        assert_eq!(region["invocations"], 100);
        // The program's code says that the region asks for nothing but shares of loops: it need not be observed first.
        assert_eq!(region["sizes"][0]["threads"], 1);
        assert_eq!(region["sizes"][0]["invocations"], 100);
        let runtime = if compiler == "gcc" {
            "libgomp"
        } else {
            "libomp"
        };
        assert_eq!(json["runtime"], runtime);
        let events = json["events"].as_array().expect("there are events");
        assert_eq!(events.len(), 1);
        assert_eq!(
            (&events[0]["threads"], &events[0]["invocations"]),
            (&1.into(), &100.into())
        );
        let page = fs::read_to_string(folder.path().join("page.html")).expect("it is there");
        assert!(page.contains("program.c:12") && page.contains("<svg"));
        let observed = run(omp(
            folder.path(),
            &["--dry-run", "--quiet", "--", "./program"],
        ));
        assert_eq!(
            (observed.code, &*observed.out, &*observed.err),
            (Some(0), "2 threads \n", "")
        );
    }
}

#[test]
fn ends_pass_through_and_nothing_is_left() {
    let folder = folder();
    if !compile(folder.path(), "gcc", &[]) {
        return;
    }
    let files = || fs::read_dir(folder.path()).expect("a folder").count();
    let before = files();
    let left = run(omp(folder.path(), &["--", "./program", "leave"]));
    assert_eq!(left.code, Some(42));
    assert!(left.err.contains("program.c:12"), "{}", left.err);
    let output = omp(folder.path(), &["--", "./program", "crash"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.signal(), Some(11));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("program.c:12"), "{err}");
    assert_eq!(files(), before);
    // Standard input is the program's.
    let mut command = omp(
        folder.path(),
        &["--quiet", "--governor", "all", "--", "./program", "read"],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    use std::io::Write as _;
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"a line").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "2 threads a line\n"
    );
}

#[test]
fn signals_reach_the_program() {
    let folder = folder();
    if !compile(folder.path(), "gcc", &[]) {
        return;
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut command = omp(folder.path(), &["--quiet", "--", "./program", "wait"]);
        // Without a terminal: there the program gets the signals of the keyboard by itself.
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut begun = [0; 6];
        std::io::Read::read_exact(&mut out, &mut begun).expect("it says so");
        let sent = Instant::now();
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert!(sent.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_profile_comes_back() {
    let folder = folder();
    if !compile(folder.path(), "gcc", &[]) {
        return;
    }
    let first = [
        "--governor",
        "fixed",
        "--threads",
        "1",
        "--profile",
        "p, q",
        "--",
        "./program",
    ];
    assert_eq!(run(omp(folder.path(), &first)).out, "1 threads \n");
    let oracle = [
        "--governor",
        "oracle",
        "--profile",
        "p, q",
        "--json",
        "r.json",
        "--",
        "./program",
    ];
    assert_eq!(run(omp(folder.path(), &oracle)).code, Some(0));
    let json = fs::read_to_string(folder.path().join("r.json")).expect("it is there");
    assert!(json.contains("the best in the profile"), "{json}");
    fs::write(folder.path().join("p, q"), "nonsense").expect("it is ours");
    let damaged = run(omp(folder.path(), &oracle));
    assert_eq!((damaged.code, &*damaged.out), (Some(0), "2 threads \n"));
    assert!(
        damaged.err.contains("it does not begin with"),
        "{}",
        damaged.err
    );
}

#[test]
fn the_runtime_of_llvm_serves_a_program_of_gcc() {
    let folder = folder();
    if !compile(folder.path(), "gcc", &[])
        || tanada_testing::program(&["clang"], "clang", "LLVM's runtime").is_none()
    {
        return;
    }
    let arguments = [
        "--runtime",
        "llvm",
        "--governor",
        "fixed",
        "--threads",
        "1",
        "--json",
        "r.json",
        "--",
        "./program",
    ];
    let said = run(omp(folder.path(), &arguments));
    if said.err.contains("is not installed") {
        return tanada_testing::skip("LLVM's OpenMP runtime is not installed");
    }
    assert_eq!(
        (said.code, &*said.out),
        (Some(0), "1 threads \n"),
        "{}",
        said.err
    );
    let json = fs::read_to_string(folder.path().join("r.json")).expect("it is there");
    assert!(json.contains("\"runtime\":\"libomp\""), "{json}");
}

#[test]
fn a_team_that_is_larger_than_the_machine_gets_the_runtime_of_llvm() {
    let folder = folder();
    if !compile(folder.path(), "gcc", &[])
        || tanada_testing::program(&["clang"], "clang", "LLVM's runtime").is_none()
    {
        return;
    }
    let served_by = |settings: &[(&str, &str)], words: &[&str]| {
        let mut command = omp(folder.path(), &[&["--json", "r.json"], words].concat());
        command
            .args(["--", "./program"])
            .envs(settings.iter().copied());
        let said = run(command);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let json = fs::read_to_string(folder.path().join("r.json")).expect("it is there");
        match json.contains("\"runtime\":\"libomp\"") {
            true => "libomp",
            false => "libgomp",
        }
    };
    let explicit = run(omp(
        folder.path(),
        &["--runtime", "llvm", "--", "./program"],
    ));
    if explicit.err.contains("is not installed") {
        return tanada_testing::skip("LLVM's OpenMP runtime is not installed");
    }
    let many = ("OMP_NUM_THREADS", "64");
    assert_eq!(served_by(&[("OMP_NUM_THREADS", "64,2")], &[]), "libomp");
    assert_eq!(served_by(&[("OMP_NUM_THREADS", "1")], &[]), "libgomp");
    assert_eq!(
        served_by(&[many, ("GOMP_SPINCOUNT", "100")], &[]),
        "libgomp"
    );
    assert_eq!(served_by(&[many], &["--runtime", "own"]), "libgomp");
    assert_eq!(served_by(&[many], &["--governor", "all"]), "libgomp");
}

#[test]
fn programs_that_cannot_be_served_run_and_it_is_said() {
    let folder = folder();
    let none = run(omp(folder.path(), &["--", "sh", "-c", "echo text; exit 7"]));
    assert_eq!((none.code, &*none.out), (Some(7), "text\n"));
    assert!(
        none.err.contains("no parallel region was seen"),
        "{}",
        none.err
    );
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\nexit 6\n").expect("it is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).expect("it is ours");
    let script = run(omp(folder.path(), &["--", "./script"]));
    assert_eq!(script.code, Some(6));
    assert!(script.err.contains("it is a script"), "{}", script.err);
    if compile(folder.path(), "gcc", &["-static"]) {
        let fixed = run(omp(folder.path(), &["--", "./program"]));
        assert_eq!((fixed.code, &*fixed.out), (Some(0), "2 threads \n"));
        assert!(fixed.err.contains("linked statically"), "{}", fixed.err);
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_runs() {
    let folder = folder();
    for (arguments, code, part) in [
        (&["omp"][..], 2, "PROGRAM ARGS"),
        (&["omp", "--", "./nothing"], 1, "no such program"),
        (
            &["omp", "--governor", "best", "--", "true"],
            2,
            "unknown governor of regions \"best\"",
        ),
        (
            &["omp", "--governor", "fixed", "--", "true"],
            2,
            "needs --threads or --waiting",
        ),
        (
            &["omp", "--threads", "2", "--", "true"],
            2,
            "are for --governor fixed",
        ),
        (
            &["omp", "--governor", "oracle", "--", "true"],
            2,
            "needs --profile",
        ),
        (
            &[
                "omp",
                "--governor",
                "fixed",
                "--waiting",
                "sleep:x",
                "--",
                "true",
            ],
            2,
            "--waiting sleep:x",
        ),
        (&["omp", "--json", "a", "-o", "a", "--", "true"], 2, "a"),
    ] {
        bad(folder.path(), arguments, code, &[part]);
    }
}
