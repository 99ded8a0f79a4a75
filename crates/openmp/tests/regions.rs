//! The teams of regions, from outside: small programs that print what they see, under governors and under fault.

// Of the helpers for whole programs only the adapter's path is needed.
#[allow(dead_code)]
mod common;

use common::adapter;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[allow(dead_code, unreachable_pub)]
#[path = "../src/board.rs"]
mod board;

/// Prints the sizes of the teams of some kinds of regions; each region runs four times, and the size of the last one counts.
const SIZES: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>
#include <pthread.h>
static int size;
static void count(void) {
#pragma omp atomic
    size++;
}
#ifdef PRIVATE
volatile int mine;
#pragma omp threadprivate(mine)
#endif
#define FOUR(name, region) for (int i = 0; i < 4; i++) { size = 0; region } printf("%s %d\n", name, size);
static double data[1000];
int main(void) {
#ifdef PRIVATE
    mine = 1;
#endif
    FOUR("plain", _Pragma("omp parallel") count(); )
    FOUR("clause", _Pragma("omp parallel num_threads(3)") count(); )
    FOUR("loop", _Pragma("omp parallel") { count();
        _Pragma("omp for") for (int j = 0; j < 1000; j++) data[j] += j; } )
#ifdef NUMBER
    FOUR("number", _Pragma("omp parallel") { if (omp_get_thread_num() >= 0) count(); } )
#endif
    FOUR("size", _Pragma("omp parallel") { if (omp_get_num_threads() >= 0) count(); } )
    FOUR("sections", _Pragma("omp parallel") { count(); _Pragma("omp sections") {
        _Pragma("omp section") data[0] = 1;
        _Pragma("omp section") data[1] = 1; } } )
    FOUR("nested", _Pragma("omp parallel") { count(); _Pragma("omp parallel") data[2] = 1; } )
    FOUR("serial", _Pragma("omp parallel if(0)") count(); )
    printf("most %d\n", omp_get_max_threads());
    return 0;
}
"#;

/// A region runs a hundred times, then something happens in it.
const FAULTS: &str = r#"
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile double x;
static jmp_buf out;
static void work(const char *what, int i) {
#pragma omp parallel
    {
#pragma omp for
        for (int j = 0; j < 100; j++) x = j;
#pragma omp master
        if (i == 100) {
            if (!strcmp(what, "exit")) exit(7);
            if (!strcmp(what, "_exit")) _exit(8);
            if (!strcmp(what, "crash")) *(volatile int *)0 = 1;
            if (!strcmp(what, "kill")) kill(getpid(), SIGKILL);
            if (!strcmp(what, "stop")) raise(SIGSTOP);
            if (!strcmp(what, "sleep")) { puts("sleeps"); fflush(stdout); sleep(60); }
        }
    }
}
static void jump(int i) {
#pragma omp parallel num_threads(2)
    {
#pragma omp master
        if (i == 50) x = 1;
    }
}
static void *thread(void *what) {
    for (int i = 0; i < 2000; i++) work("", 0);
    return what;
}
int main(int argc, char **argv) {
    const char *what = argv[1];
    for (int i = 0; i <= 100; i++) work(what, i);
    jump(50);
    if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }
    if (!strcmp(what, "fork")) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            /* libgomp cannot make a team in a child of a process that has one; one thread always works. */
            omp_set_num_threads(1);
            for (int i = 0; i < 10; i++) work("", 0);
            _exit(5);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5) return 9;
        for (int i = 0; i < 10; i++) work("", 0);
    }
    if (!strcmp(what, "child")) return system("env | grep -c -e TANADA_OMP= -e LD_PRELOAD=") == -1;
    puts("end");
    return 0;
}
"#;

/// Sections of a combined construct that wait for each other; then a region that keeps the size of its team for another one, which asks
/// only for its number.
const DEPENDENT: &str = r#"
#include <omp.h>
#include <stdio.h>
static volatile int here[2];
static int size, seen[4096];
static void wait_for_each_other(void) {
    here[0] = here[1] = 0;
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        {
            here[0] = 1;
            while (!here[1]) {
#pragma omp flush
            }
        }
#pragma omp section
        {
            here[1] = 1;
            while (!here[0]) {
#pragma omp flush
            }
        }
    }
}
int main(void) {
    for (int round = 0; round < 50; round++) wait_for_each_other();
    for (int round = 0; round < 50; round++) {
        /* Often, before anybody uses what it keeps. */
        for (int again = 0; again < 20; again++) {
#pragma omp parallel
            {
                int all = omp_get_num_threads(), me = omp_get_thread_num();
                if (me == 0) size = all;
                for (int i = me; i < 1000; i += all) seen[i] = 0;
            }
        }
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            for (int i = 1000 * me / size; i < 1000 * (me + 1) / size; i++) {
#pragma omp atomic
                seen[i]++;
            }
        }
        for (int i = 0; i < 4096; i++) {
            if (seen[i] != (i < 1000)) return printf("round %d, item %d\n", round, i);
        }
    }
    puts("good");
    return 0;
}
"#;

/// Prints the sizes of the first teams of a region that shares out a loop, and of one that does not.
const FIRST: &str = r#"
#include <omp.h>
#include <stdio.h>
static int size;
static double data[1000];
int main(void) {
#ifdef NUMBER
    int all = 0;
#pragma omp parallel
    {
#pragma omp single
        all = omp_get_num_threads();
    }
    data[0] = all;
#endif
    for (int i = 0; i < 4; i++) {
        size = 0;
#pragma omp parallel
        {
#pragma omp atomic
            size++;
#pragma omp for
            for (int j = 0; j < 1000; j++) data[j] += j;
        }
        printf("loop %d\n", size);
    }
    for (int i = 0; i < 4; i++) {
        size = 0;
#pragma omp parallel
        {
#pragma omp atomic
            size++;
        }
        printf("other %d\n", size);
    }
    return 0;
}
"#;

/// Prints its name, its process, its arguments, and libgomp's variable for how long members of a team spin, also as a program sees it that
/// it starts.
const SAME: &str = r#"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int size = 0;
#pragma omp parallel
    {
#pragma omp atomic
        size++;
    }
    char name[32] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    if (file == NULL || fscanf(file, "%31s", name) != 1) return 1;
    fclose(file);
    printf("%s %d threads %d:", name, getpid(), size);
    for (int i = 0; i < argc; i++) printf(" \"%s\"", argv[i]);
    printf(" %s\n", getenv("GOMP_SPINCOUNT") ? getenv("GOMP_SPINCOUNT") : "unset");
    fflush(stdout);
    return system("echo ${GOMP_SPINCOUNT-unset} ${TANADA_OMP_AGAIN-unset}");
}
"#;

struct Compiled {
    compiler: &'static str,
    sizes: PathBuf,
    numbers: PathBuf,
    dependent: PathBuf,
    private: PathBuf,
    /// `FIRST`, and with a region that asks for the size of its team.
    first: [PathBuf; 2],
    faults: PathBuf,
    same: PathBuf,
}

/// Returns the programs of each compiler that is here.
fn compiled() -> &'static [Compiled] {
    static COMPILED: OnceLock<Vec<Compiled>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp-regions");
        fs::create_dir_all(&folder).expect("a folder");
        let here = ["gcc", "clang"].into_iter().filter(|compiler| {
            tanada_testing::program(&[compiler], compiler, "programs with OpenMP").is_some()
        });
        here.map(|compiler| {
            let program = |name: &str, source: &str, flag: &str| {
                let path = folder.join(format!("{name}-{compiler}"));
                let file = path.with_extension("c");
                fs::write(&file, source).expect("a source");
                let output = Command::new(compiler)
                    .args(["-O2", "-w", "-fopenmp", flag, "-o"])
                    .args([&path, &file])
                    .output()
                    .expect("the compiler starts");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{compiler}: {said}");
                path
            };
            Compiled {
                compiler,
                sizes: program("sizes", SIZES, "-UPRIVATE"),
                numbers: program("numbers", SIZES, "-DNUMBER"),
                dependent: program("dependent", DEPENDENT, "-UPRIVATE"),
                private: program("private", SIZES, "-DPRIVATE"),
                first: [
                    program("first", FIRST, "-UNUMBER"),
                    program("first-asks", FIRST, "-DNUMBER"),
                ],
                faults: program("faults", FAULTS, "-UPRIVATE"),
                same: program("same", SAME, "-UPRIVATE"),
            }
        })
        .collect()
    })
}

/// Returns a program that runs with these settings.
fn command(program: &Path, settings: &str) -> Command {
    let mut command = Command::new(program);
    command.env("OMP_NUM_THREADS", "2");
    command.env("OMP_WAIT_POLICY", "passive");
    command.env("LD_PRELOAD", adapter());
    command.env("TANADA_OMP", settings);
    command.stdin(Stdio::null());
    command
}

/// Runs a program, which must end within a time that is far beyond what it needs.
fn run(mut command: Command) -> Output {
    const LIMIT: Duration = Duration::from_secs(60);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("the program starts");
    let start = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("its output")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn teams_shrink_if_the_code_does_not_depend_on_them() {
    for one in compiled() {
        let output = text(&run(command(&one.sizes, "governor=fixed,threads=1")));
        let expected =
            "plain 1\nclause 1\nloop 1\nsize 2\nsections 2\nnested 2\nserial 1\nmost 2\n";
        assert_eq!(output, expected, "{}", one.compiler);
        // gcc's loops ask for a size that the program might keep, and there is code that might use it.
        let numbers = text(&run(command(&one.numbers, "governor=fixed,threads=1")));
        let kept = if one.compiler == "gcc" { "2" } else { "1" };
        let loops = format!("loop {kept}\nnumber 2\n");
        assert_eq!(
            numbers,
            expected.replace("loop 1\n", &loops),
            "{}",
            one.compiler
        );
        // Data of threads would be lost with the threads.
        let output = text(&run(command(&one.private, "governor=fixed,threads=1")));
        let expected = expected.replace("plain 1\nclause 1\nloop 1", "plain 2\nclause 3\nloop 2");
        assert_eq!(output, expected, "{}", one.compiler);
    }
}

#[test]
fn a_program_that_is_started_again_has_its_arguments_environment_and_number() {
    for one in compiled() {
        // Its own number of rounds stays as the user set it, and then nothing is started again.
        for (rounds, seen) in [(None, "unset"), (Some("7"), "7")] {
            let mut command = command(&one.same, "governor=predict");
            command
                .arg0("another name")
                .args(["", "two words", "--flag=\u{e4}"]);
            rounds.map(|rounds| command.env("GOMP_SPINCOUNT", rounds));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().expect("it starts");
            let id = child.id();
            let output = child.wait_with_output().expect("its output");
            // The kernel keeps 15 bytes of it.
            let name = one.same.file_name().expect("a file").to_string_lossy();
            let name: String = name.chars().take(15).collect();
            let expected = format!(
                "{name} {id} threads 2: \"another name\" \"\" \"two words\" \"--flag=\u{e4}\" {seen}\n{seen} unset\n"
            );
            assert_eq!(text(&output), expected, "{}", one.compiler);
            assert!(output.status.success());
        }
    }
}

#[test]
fn regions_of_plain_programs_have_their_team_from_the_first_invocation_on() {
    let later = "other 2\nother 2\nother 1\nother 1\n";
    let learnt = "loop 2\nloop 2\nloop 1\nloop 1\n";
    let at_once = match cfg!(target_arch = "x86_64") {
        true => "loop 1\nloop 1\nloop 1\nloop 1\n",
        // Only there the code is read.
        false => learnt,
    };
    for one in compiled() {
        for (program, loops) in one.first.iter().zip([at_once, learnt]) {
            let output = text(&run(command(program, "governor=fixed,threads=1")));
            assert_eq!(output, loops.to_owned() + later, "{}", one.compiler);
        }
    }
}

#[test]
fn sections_that_wait_and_sizes_that_are_handed_on_keep_their_meaning() {
    for one in compiled() {
        for settings in ["governor=fixed,threads=1", "governor=predict"] {
            let output = text(&run(command(&one.dependent, settings)));
            assert_eq!(output, "good\n", "{} {settings}", one.compiler);
        }
    }
}

#[test]
fn no_team_is_larger_than_asked_and_observing_changes_nothing() {
    let usual = "plain 2\nclause 3\nloop 2\nsize 2\nsections 2\nnested 2\nserial 1\nmost 2\n";
    for one in compiled() {
        for settings in [
            "governor=all",
            "governor=fixed,threads=8",
            "governor=fixed,threads=1,dry-run",
        ] {
            let output = text(&run(command(&one.sizes, settings)));
            assert_eq!(output, usual, "{} {settings}", one.compiler);
        }
    }
}

#[test]
fn wrong_settings_are_named_and_the_program_runs() {
    for one in compiled() {
        for (settings, part) in [
            ("governor=none", "unknown governor of regions \"none\""),
            ("governer=all", "\"governer\" is none of"),
            (
                "board=/nowhere/board",
                "/nowhere/board: it cannot be mapped",
            ),
            ("board=/dev/null", "/dev/null: it cannot be mapped"),
        ] {
            let output = run(command(&one.sizes, settings));
            assert!(output.status.success());
            let text = text(&output);
            assert!(text.contains(part) && text.contains("plain 2"), "{text}");
        }
    }
}

#[test]
fn the_program_ends_as_it_ends() {
    for one in compiled() {
        for (what, code, signal) in [
            ("exit", Some(7), None),
            ("_exit", Some(8), None),
            ("crash", None, Some(11)),
            ("kill", None, Some(9)),
            ("threads", Some(0), None),
            ("fork", Some(0), None),
            ("nothing", Some(0), None),
        ] {
            for settings in ["governor=predict", "governor=fixed,threads=1,waiting=sleep"] {
                let mut command = command(&one.faults, settings);
                let output = run(std::mem::replace(command.arg(what), Command::new("")));
                let ended = (output.status.code(), output.status.signal());
                let said = text(&output);
                assert_eq!(
                    ended,
                    (code, signal),
                    "{} {what} {settings}: {said}",
                    one.compiler
                );
            }
        }
    }
}

#[test]
fn a_stopped_program_goes_on() {
    for one in compiled() {
        let mut command = command(&one.faults, "governor=predict");
        let mut child = command
            .arg("stop")
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let id = rustix::process::Pid::from_child(&child);
        let stat = format!("/proc/{}/stat", child.id());
        let stopped = || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T "));
        let start = Instant::now();
        while !stopped() && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        rustix::process::kill_process(id, rustix::process::Signal::CONT).expect("it is ours");
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn the_board_survives_a_killed_program_and_has_its_regions() {
    for one in compiled() {
        let path = one.faults.with_extension("board");
        let _ = fs::remove_file(&path);
        let settings = format!("governor=all,board={}", path.display());
        let mut command = command(&one.faults, &settings);
        let output = run(std::mem::replace(command.arg("kill"), Command::new("")));
        assert_eq!(output.status.signal(), Some(9));
        let bytes = fs::read(&path).expect("it is there");
        fs::remove_file(&path).expect("it is ours");
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("8 bytes")))
            .collect();
        assert_eq!(words.len(), board::WORDS);
        assert_eq!(words[board::head::MAGIC], board::MAGIC);
        assert_eq!(words[board::head::REGIONS], 1);
        assert_eq!(words[board::head::END], 0);
        let region = &words[board::AT_REGIONS..][..board::REGION];
        assert_eq!(region[board::region::INVOCATIONS], 101);
        assert_eq!(region[board::region::ASKED], 2);
        // Of the last one the end was not seen.
        let size = &region[board::region::SIZES..][..board::size::WORDS];
        assert_eq!(size[board::size::COUNT], 100);
        // clang's loops report their iterations.
        let iterations = if one.compiler == "clang" { 101 } else { 0 };
        assert_eq!(region[board::region::ITERATIONS], iterations);
    }
}

#[test]
fn a_profile_is_written_and_a_later_run_starts_with_it() {
    for one in compiled() {
        let folder = one.sizes.with_extension("profiles");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("a, b");
        let settings = format!("governor=fixed,threads=1,profile={}", path.display());
        run(command(&one.sizes, &settings));
        let profile = fs::read_to_string(&path).expect("it is there");
        assert!(
            profile.starts_with("tanada omp profile 1\ncode 0 0 "),
            "{profile}"
        );
        assert!(profile.contains(" shape 1x1 threads 1 "), "{profile}");
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1);
        // The regions are known: none is learnt again, so the first invocation has one thread, too.
        let output = text(&run(command(
            &one.sizes,
            &settings.replace("fixed,threads=1", "oracle"),
        )));
        assert!(
            output.contains("plain 1\n") && output.contains("size 2\n"),
            "{output}"
        );
        fs::write(&path, "nonsense").expect("it is ours");
        let output = text(&run(command(&one.sizes, &settings)));
        assert!(output.contains("it does not begin with"), "{output}");
        assert!(output.contains("plain 2\n"), "{output}");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}

#[test]
fn programs_that_the_program_starts_are_left_alone_if_that_is_asked_for() {
    for one in compiled() {
        for (settings, lines) in [("governor=all,own=1", "0"), ("governor=all", "2")] {
            let mut command = command(&one.faults, settings);
            let output = run(std::mem::replace(command.arg("child"), Command::new("")));
            let text = text(&output);
            assert_eq!(text.lines().next(), Some(lines), "{settings}: {text}");
        }
    }
}
