//! `record -- PROGRAM` of programs that are not built on the runtime: thread traces.
//!
//! The oracles are counters in the emulator's own code, Valgrind's counts (`TANADA_FULL=1`), and what small programs are known to do.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Said, bad, folder, good, run, said, started, tanada};
use tanada_trace::threads::{Event, InstructionSet, Sync, ThreadTrace};

/// Threads that meet at a barrier before and after their part of a product, and take turns to count. `argv[1]` is their number.
const TEAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define N 24
static double a[N][N], b[N][N], c[N][N];
static int threads, done;
static pthread_barrier_t meet;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static void *part(void *given) {
    long me = (long)given;
    double *own = malloc(N * sizeof *own);
    pthread_barrier_wait(&meet);
    for (int i = me; i < N; i += threads) {
        for (int j = 0; j < N; j++) {
            own[j] = 0;
            for (int k = 0; k < N; k++) own[j] += a[i][k] * b[k][j];
        }
        for (int j = 0; j < N; j++) c[i][j] = own[j];
    }
    free(own);
    pthread_barrier_wait(&meet);
    pthread_mutex_lock(&turn);
    done++;
    pthread_mutex_unlock(&turn);
    return 0;
}
int main(int count, char **words) {
    pthread_t all[64];
    threads = atoi(words[1]);
    pthread_barrier_init(&meet, 0, threads);
    for (int i = 0; i < N * N; i++) a[0][i] = i, b[0][i] = 1;
    for (long i = 0; i < threads; i++) pthread_create(&all[i], 0, part, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
    printf("%d %g\n", done, c[1][2]);
    return 0;
}
"#;

/// What cannot be recorded, by the first letter of `argv[1]`; and marks.
const ODD: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int sink, array[4096];
static void *leaves(void *unused) { exit(0); return unused; }
static void mark(long kind) { syscall(SYS_getppid, 0x7a010040 + kind, kind, 5, 0); }
int main(int count, char **words) {
    pthread_t other;
    switch (words[1][0]) {
    case 'c': *(volatile int *)8 = 1; break;
    case 'e': pthread_create(&other, 0, leaves, 0); pthread_join(other, 0); break;
    case 'f': if (!fork()) _exit(0); break;
    case 'x': execl("/bin/true", "true", (char *)0); break;
    case 'k': kill(getpid(), SIGKILL); break;
    case 'r': return 3;
    case 'l': for (;;) sink++;
    case 'w': sleep(1000); break;
    case 'm':
        for (int i = 0; i < 1000; i++) array[i] = i;
        mark(3);
        for (int i = 0; i < 4096; i++) array[i] = i;
        mark(4);
        for (;;) sink++;
    }
    return 0;
}
"#;

/// Returns whether the emulator is there.
fn emulator() -> bool {
    tanada_testing::program(&["qemu-x86_64"], "qemu-user", "recording a program").is_some()
        && cfg!(target_arch = "x86_64")
}

/// Compiles `source` as `name` and returns whether that could be done.
fn compile(folder: &Path, name: &str, source: &str, compiler: &str, options: &[&str]) -> bool {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).expect("a file");
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-pthread", "-o", name])
        .arg(&file)
        .args(options)
        .current_dir(folder);
    let output = command.output().expect("the compiler starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

fn number(json: &str, key: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(json).expect("one JSON object");
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {json}"))
}

/// All synchronisation of a thread.
fn syncs(trace: &ThreadTrace, thread: u32) -> Vec<Sync> {
    let mut found = Vec::new();
    for_each(trace, thread, |event| {
        if let Event::Sync(sync) = event {
            found.push(sync);
        }
    });
    found
}

fn for_each(trace: &ThreadTrace, thread: u32, mut each: impl FnMut(Event)) {
    let mut reader = trace.reader(thread).expect("it is there");
    let mut events = Vec::new();
    loop {
        reader
            .fill(&mut events)
            .expect("what was recorded can be read");
        if events.is_empty() {
            return;
        }
        events.iter().copied().for_each(&mut each);
    }
}

fn nothing_is_left(folder: &Path) {
    let names = folder
        .read_dir()
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name());
    let left: Vec<_> = names
        .filter(|name| name.to_string_lossy().contains("tanada-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn two_recordings_have_the_same_bytes_and_hold_what_threads_did() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "team", TEAM, "cc", &[]);
    for threads in [2u32, 8] {
        let count = threads.to_string();
        for name in ["a.tnb", "b.tnb"] {
            let mut command = tanada(
                here,
                &["record", "-o", name, "--json", "--", "./team", &count],
            );
            // Neither the environment nor the time counts.
            command.env(
                name,
                "x".repeat(name.len() * 100 * usize::from(name == "b.tnb")),
            );
            let output = said(command.output().expect("it starts"));
            assert_eq!(output.code, Some(0), "{}", output.err);
            assert!(
                output.err.contains(&format!("{threads} 852")),
                "{}",
                output.err
            );
        }
        let bytes = |name: &str| std::fs::read(here.join(name)).expect("it is there");
        assert!(bytes("a.tnb") == bytes("b.tnb"), "{threads} threads");
        let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
        assert_eq!(trace.threads().len() as u32, threads + 1);
        assert_eq!(
            (trace.program(), trace.instruction_set()),
            ("team", InstructionSet::X86_64)
        );
        assert!(!trace.head().partial && !trace.head().unsynchronised);
        let creates = (1..=threads).map(Sync::Create);
        let joins = (1..=threads).map(Sync::Join);
        assert_eq!(
            syncs(&trace, 0),
            creates.chain(joins).chain([Sync::Exit]).collect::<Vec<_>>()
        );
        let barrier = Sync::Barrier {
            object: 0,
            parties: threads,
        };
        let expected = [barrier, barrier, Sync::Lock(1), Sync::Unlock(1), Sync::Exit];
        let mut work = 0;
        for thread in 1..=threads {
            assert_eq!(syncs(&trace, thread), expected);
            assert_eq!(trace.threads()[thread as usize].parent, Some(0));
            assert!(trace.threads()[thread as usize].stack.is_some());
            let mut sums = tanada_trace::threads::Totals::default();
            for_each(&trace, thread, |event| match event {
                Event::Access { store, after, .. } => {
                    sums.instructions += u64::from(after);
                    *(if store {
                        &mut sums.stores
                    } else {
                        &mut sums.loads
                    }) += 1;
                }
                Event::Instructions(count) => sums.instructions += u64::from(count),
                _ => {}
            });
            assert_eq!(sums, trace.threads()[thread as usize].totals);
            work += sums.loads;
        }
        // Each of 24^3 steps loads at least one double of either matrix by itself (a compiler may load two at once).
        assert!(work > 24 * 24 * 24, "{work}");
    }
    nothing_is_left(here);
}

#[test]
fn text_and_binary_form_hold_the_same() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "team", TEAM, "cc", &[]);
    good(here, &["record", "-o", "a.tnb", "--", "./team", "2"]);
    good(here, &["record", "-o", "a.tnt", "--", "./team", "2"]);
    let [binary, text] =
        ["a.tnb", "a.tnt"].map(|name| ThreadTrace::open(&here.join(name)).expect("a thread trace"));
    assert_eq!(binary.head(), text.head());
    for thread in 0..3 {
        assert_eq!(syncs(&binary, thread), syncs(&text, thread));
    }
    let mut written = Vec::new();
    binary.write_text(&mut written).expect("memory");
    assert!(written == std::fs::read(here.join("a.tnt")).expect("it is there"));
    let [binary, text] = ["a.tnb", "a.tnt"].map(|name| {
        let arguments = [
            "sim",
            name,
            "--machine",
            "toshiba",
            "--governor",
            "rs",
            "--json",
        ];
        good(here, &arguments).out
    });
    assert_eq!(binary, text);
}

#[test]
fn what_a_program_does_that_cannot_be_recorded_is_reported_and_leaves_no_trace() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "odd", ODD, "cc", &[]);
    for (how, why) in [
        ("c", "signal: 11"),
        ("e", "its thread 1 ended the process"),
        ("f", "it starts another process"),
        ("x", "it runs another program in its place"),
        ("k", "signal: 9"),
        ("r", "exit status: 3"),
    ] {
        bad(
            here,
            &["record", "-o", "a.tnb", "--", "./odd", how],
            1,
            &["./odd", why, "no trace was written"],
        );
        assert!(!here.join("a.tnb").exists(), "{how}");
    }
    bad(
        here,
        &["record", "--from", "9", "-o", "a.tnb", "--", "./odd", "n"],
        1,
        &["before the piece"],
    );
    bad(
        here,
        &["record", "--from", "9", "--skip", "1", "--", "./odd"],
        2,
        &["--skip"],
    );
    bad(
        here,
        &["record", "-o", "no/a.tnb", "--", "./odd", "n"],
        1,
        &["no/a.tnb"],
    );
    assert!(!here.join("a.tnb").exists());
    nothing_is_left(here);
}

#[test]
fn pieces_are_recorded_between_marks_and_by_instructions() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "odd", ODD, "cc", &[]);
    // The program runs for ever behind the second mark.
    let json = good(
        here,
        &[
            "record", "--from", "3", "--to", "4", "-o", "a.tnb", "--json", "--", "./odd", "m",
        ],
    )
    .out;
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    assert!(trace.head().partial);
    let mut stores = 0;
    for_each(&trace, 0, |event| {
        stores += u64::from(matches!(
            event,
            Event::Access {
                store: true,
                bytes: 4,
                ..
            }
        ))
    });
    assert!((4096..4200).contains(&stores), "{stores}: {json}");
    let first = Sync::Mark {
        kind: 3,
        a: 3,
        b: 5,
    };
    assert_eq!(syncs(&trace, 0).first(), Some(&first));
    let words = [
        "record", "--skip", "200000", "--take", "100000", "-o", "b.tnb", "--json", "--", "./odd",
        "l",
    ];
    let json = good(here, &words).out;
    assert!(
        (100_000..101_000).contains(&number(&json, "instructions")),
        "{json}"
    );
    nothing_is_left(here);
}

#[test]
fn an_interrupt_keeps_what_was_complete() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "odd", ODD, "cc", &[]);
    for (how, kept) in [("l", true), ("w", false)] {
        let child = started(tanada(here, &["record", "-o", "a.tnb", "--", "./odd", how]));
        let spooled = || {
            let entries = here.read_dir().expect("a folder").flatten();
            let spools = entries.map(|entry| entry.path().join("spool"));
            spools
                .flat_map(std::fs::metadata)
                .any(|file| file.len() > 0 || !kept)
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !spooled() {
            assert!(std::time::Instant::now() < deadline, "nothing is recorded");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        )
        .expect("it runs");
        let output = said(child.wait_with_output().expect("it ends"));
        assert_eq!(output.code, Some(130), "{}", output.err);
        assert_eq!(here.join("a.tnb").exists(), kept, "{}", output.err);
        if kept {
            assert!(
                output.err.contains("a.tnb holds what was recorded"),
                "{}",
                output.err
            );
            let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
            assert!(trace.head().partial && trace.threads()[0].totals.instructions > 100_000);
            for_each(&trace, 0, |_| {});
            std::fs::remove_file(here.join("a.tnb")).expect("our file");
        }
        nothing_is_left(here);
    }
}

#[test]
fn programs_of_gcc_with_openmp_have_regions_and_loops() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let source = r#"
        #include <stdio.h>
        int main(void) {
            static double a[400];
            int n = 0;
            #pragma omp parallel num_threads(3)
            {
                #pragma omp for schedule(dynamic, 100)
                for (int i = 0; i < 400; i++) a[i] = i;
                #pragma omp critical
                n++;
                #pragma omp barrier
            }
            printf("%d %g\n", n, a[399]);
            return 0;
        }
    "#;
    compile(here, "team", source, "cc", &["-fopenmp"]);
    good(here, &["record", "-o", "a.tnb", "--", "./team"]);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    assert_eq!(trace.threads().len(), 3);
    let mut iterations = 0;
    for thread in 0..3 {
        let syncs = syncs(&trace, thread);
        let begin = syncs
            .iter()
            .position(|sync| matches!(sync, Sync::RegionBegin { threads: 3, .. }));
        let region = &syncs[begin.expect("each thread is in the region")..];
        let Some(&Sync::RegionBegin { id, .. }) = region.first() else {
            unreachable!()
        };
        assert!(matches!(region[1], Sync::LoopBegin(_)), "{region:?}");
        let chunks: Vec<_> = region[2..]
            .iter()
            .take_while(|sync| matches!(sync, Sync::Iteration { .. }))
            .collect();
        iterations += chunks.len();
        let barrier = Sync::Barrier {
            object: id,
            parties: 3,
        };
        let rest = &region[2 + chunks.len()..];
        assert_eq!(rest[..2], [Sync::LoopEnd, barrier], "{region:?}");
        assert!(
            matches!(rest[2..4], [Sync::Lock(taken), Sync::Unlock(released)] if taken == released),
            "{region:?}"
        );
        assert_eq!(rest[4..6], [barrier, Sync::RegionEnd], "{region:?}");
    }
    assert_eq!(iterations, 4);
}

#[test]
fn static_programs_are_recorded_without_synchronisation() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "team", TEAM, "cc", &["-static"]);
    let output = run(here, &["record", "-o", "a.tnb", "--", "./team", "2"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(
        output
            .err
            .contains("linked statically, so synchronisation was not recorded"),
        "{}",
        output.err
    );
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    assert!(trace.head().unsynchronised);
    assert_eq!(trace.threads().len(), 3);
}

#[test]
fn programs_of_other_instruction_sets_are_recorded() {
    let folder = folder();
    let here = folder.path();
    for (compiler, package, emulator, set) in [
        (
            "aarch64-linux-gnu-gcc",
            "gcc-aarch64-linux-gnu",
            "qemu-aarch64",
            InstructionSet::Aarch64,
        ),
        (
            "arm-linux-gnueabihf-gcc",
            "gcc-arm-linux-gnueabihf",
            "qemu-arm",
            InstructionSet::Arm,
        ),
        (
            "riscv64-linux-gnu-gcc",
            "gcc-riscv64-linux-gnu",
            "qemu-riscv64",
            InstructionSet::Riscv64,
        ),
        (
            "mipsel-linux-gnu-gcc",
            "gcc-mipsel-linux-gnu",
            "qemu-mipsel",
            InstructionSet::Mips,
        ),
    ] {
        let what = format!("recording {} programs ({package})", set.name());
        // Cross compilers are not among what the tests install.
        let there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(compiler).is_file());
        if !there {
            tanada_testing::skip(format_args!("no {compiler} for {what}"));
            continue;
        }
        if tanada_testing::program(&[emulator], "qemu-user", &what).is_none() {
            continue;
        }
        compile(here, "team", TEAM, compiler, &[]);
        for name in ["a.tnb", "b.tnb"] {
            let output = run(here, &["record", "-o", name, "--", "./team", "3"]);
            assert_eq!(output.code, Some(0), "{}: {}", set.name(), output.err);
            assert!(output.out.contains("3 852"), "{}", output.out);
        }
        let bytes = |name: &str| std::fs::read(here.join(name)).expect("it is there");
        assert!(bytes("a.tnb") == bytes("b.tnb"), "{}", set.name());
        let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
        assert_eq!((trace.instruction_set(), trace.threads().len()), (set, 4));
        let barrier = Sync::Barrier {
            object: 0,
            parties: 3,
        };
        assert_eq!(
            syncs(&trace, 2),
            [barrier, barrier, Sync::Lock(1), Sync::Unlock(1), Sync::Exit]
        );
    }
}

const SUM: &str = "print(sum(i * i for i in range(2000)))";
const LONG_SUM: &str = "print(sum(i * i for i in range(1000000)))";
const QUERY: &str = "create table t(a); insert into t values (1), (2), (3); select sum(a) from t;";
const LONG_QUERY: &str = "with recursive t(a) as (select 1 union all select a + 1 from t where a < 300000) select sum(a) from t;";

/// Programs that nobody here wrote, single-threaded; `long`: so that their work takes far longer than their start.
fn programs(here: &Path, long: bool) -> Vec<(PathBuf, Vec<&'static str>)> {
    let text: String = (0..if long { 60_000 } else { 400 })
        .map(|i| format!("{} a line of text {i}\n", i * 7919 % 1000))
        .collect();
    std::fs::write(here.join("text"), text).expect("a file");
    let all: [(&str, &str, &[&str]); 4] = [
        ("gzip", "gzip", &["-9", "-c", "text"]),
        ("sort", "coreutils", &["--parallel=1", "text"]),
        (
            "python3",
            "python3",
            &["-S", "-E", "-c", if long { LONG_SUM } else { SUM }],
        ),
        (
            "sqlite3",
            "sqlite3",
            &[":memory:", if long { LONG_QUERY } else { QUERY }],
        ),
    ];
    let mut found = Vec::new();
    for (name, package, words) in all {
        // Not a wrapper of a user's own, which may be a script.
        let path = Path::new("/usr/bin").join(name);
        if path.is_file() {
            found.push((path, words.to_vec()));
        } else {
            tanada_testing::skip(format_args!(
                "no {} to record: apt-get install {package}",
                path.display()
            ));
        }
    }
    found
}

fn recorded(here: &Path, options: &[&str], program: &Path, words: &[&str]) -> Said {
    let program = program.to_str().expect("text");
    let line = [
        &["record", "-o", "a.tnb", "--json"],
        options,
        &["--env", "PYTHONHASHSEED=0", "--", program],
        words,
    ]
    .concat();
    let output = run(here, &line);
    assert_eq!(output.code, Some(0), "{program}: {}", output.err);
    output
}

/// The last line of what was said is the JSON: a program that is counted writes to standard error as well.
fn last(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

#[test]
fn counts_are_those_of_the_emulators_own_counters() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    for (program, words) in programs(here, false) {
        let json = recorded(here, &[], &program, &words).out;
        let counted = recorded(here, &["--count"], &program, &words).out;
        let marks = {
            let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
            assert_eq!(trace.threads().len(), 1);
            syncs(&trace, 0).len() as u64
        };
        // The counters also see what the recorder leaves out: the insides of calls of the thread library, of which programs without threads
        // make a few.
        let [instructions, accesses] =
            ["instructions", "accesses"].map(|key| number(last(&counted), key));
        let ours = [
            number(last(&json), "instructions"),
            number(last(&json), "loads") + number(last(&json), "stores"),
        ];
        let left_out = 400 * marks.saturating_sub(1);
        for (ours, theirs) in [(ours[0], instructions), (ours[1], accesses)] {
            let difference = theirs
                .checked_sub(ours)
                .unwrap_or_else(|| panic!("{}: {ours}, {theirs}", program.display()));
            assert!(
                difference <= left_out,
                "{}: {ours}, {theirs}, {marks} marks",
                program.display()
            );
        }
    }
}

#[test]
fn counts_are_near_valgrinds() {
    if std::env::var_os("TANADA_FULL").is_none_or(|value| value == "0") || !emulator() {
        return;
    }
    if tanada_testing::program(&["valgrind"], "valgrind", "judging counts").is_none() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    for (program, words) in programs(here, true) {
        let json = recorded(here, &[], &program, &words).out;
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=lackey", "--basic-counts=yes", "--log-file=counts"])
            .arg(&program)
            .args(&words);
        command
            .env("LD_BIND_NOW", "1")
            .env("PYTHONHASHSEED", "0")
            .current_dir(here);
        assert!(command.output().expect("it starts").status.success());
        let counts = std::fs::read_to_string(here.join("counts")).expect("it is there");
        let line = counts
            .lines()
            .find(|line| line.contains("guest instrs:"))
            .expect("lackey counts them");
        let digits: String = line
            .rsplit(':')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        let theirs: f64 = digits.parse().expect("a number");
        let ratio = number(last(&json), "instructions") as f64 / theirs;
        assert!((ratio - 1.0).abs() < 0.01, "{}: {ratio}", program.display());
    }
}

#[test]
fn without_the_emulator_it_says_what_to_install() {
    let folder = folder();
    let program = Path::new("/bin/true");
    let mut command = tanada(folder.path(), &["record", "-o", "a.tnb", "--"]);
    command.arg(program).env("PATH", folder.path());
    let output = said(command.output().expect("the program starts"));
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(
        output.err.contains("is not installed") && output.err.contains("apt-get install qemu-user"),
        "{}",
        output.err
    );
    assert!(folder.path().read_dir().expect("a folder").next().is_none());
}
