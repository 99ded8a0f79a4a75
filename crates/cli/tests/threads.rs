//! `record -- PROGRAM` of programs that are not built on the runtime: thread traces.
//!
//! The oracles are counters in the emulator's own code, Valgrind's counts, and what small programs are known to do.

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

/// What is unusual or cannot be recorded, by the first letter of `argv[1]`; and marks.
const ODD: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static volatile int sink, array[4096];
static volatile sig_atomic_t ticks;
static void tick(int unused) { ticks++; }
static void tock(union sigval unused) { ticks++; }
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static void *turns(void *unused) {
    for (int i = 0; i < 20000 || ticks < 5; i++) {
        pthread_mutex_lock(&turn);
        sink++;
        pthread_mutex_unlock(&turn);
    }
    return unused;
}
static void *later(void *unused) { usleep(100000); return unused; }
static mtx_t mutex;
static cnd_t condition;
static int work(void *given) {
    mtx_lock(&mutex);
    while (!sink) cnd_wait(&condition, &mutex);
    mtx_unlock(&mutex);
    return 7;
}
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
    case 'v': if (!vfork()) _exit(0); break;
    case 'y': return system("true");
    case 'd':
        for (int i = 0; i < 1024; i++) close(i);
        pthread_create(&other, 0, later, 0);
        return pthread_join(other, 0);
    case 'p': pthread_create(&other, 0, later, 0); pthread_exit(0);
    case 's': {
        struct itimerval often = {{0, 1000}, {0, 1000}};
        pthread_t more[3];
        signal(SIGALRM, tick);
        setitimer(ITIMER_REAL, &often, 0);
        for (int i = 0; i < 3; i++) pthread_create(&more[i], 0, turns, 0);
        for (int i = 0; i < 3; i++) pthread_join(more[i], 0);
        break;
    }
    case 't': {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tock};
        struct itimerspec soon = {{0, 1000000}, {0, 1000000}};
        timer_t timer;
        timer_create(CLOCK_REALTIME, &event, &timer);
        timer_settime(timer, 0, &soon, 0);
        while (ticks < 3) usleep(1000);
        break;
    }
    case '1': {
        thrd_t thread;
        int result = 0;
        mtx_init(&mutex, mtx_plain);
        cnd_init(&condition);
        thrd_create(&thread, work, 0);
        mtx_lock(&mutex);
        sink = 1;
        cnd_broadcast(&condition);
        mtx_unlock(&mutex);
        thrd_join(thread, &result);
        return result != 7;
    }
    case '2': {
        pthread_mutexattr_t twice;
        pthread_mutexattr_init(&twice);
        pthread_mutexattr_settype(&twice, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&turn, &twice);
        for (int i = 0; i < 3; i++) pthread_mutex_lock(&turn);
        for (int i = 0; i < 3; i++) pthread_mutex_unlock(&turn);
        break;
    }
    case 'n':
    case 'm':
        for (int i = 0; i < 1000; i++) array[i] = i;
        mark(3);
        for (int i = 0; i < 4096; i++) array[i] = i;
        mark(4);
        for (; words[1][0] == 'm';) sink++;
    }
    return 0;
}
"#;

/// A thread that waits three times for a condition that is signalled once in each, then two that are woken together; and a robust mutex.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER, robust;
static pthread_cond_t again = PTHREAD_COND_INITIALIZER;
static int waiting, served, asleep, awake;
static void *waits(void *unused) {
    pthread_mutex_lock(&turn);
    for (int i = 0; i < 3; i++) {
        waiting++;
        while (served <= i) pthread_cond_wait(&again, &turn);
    }
    pthread_mutex_unlock(&turn);
    return unused;
}
static void *sleeps(void *unused) {
    pthread_mutex_lock(&turn);
    asleep++;
    while (!awake) pthread_cond_wait(&again, &turn);
    pthread_mutex_unlock(&turn);
    return unused;
}
static void *takes(void *unused) { pthread_mutex_lock(&robust); pthread_mutex_unlock(&robust); return unused; }
int main(void) {
    pthread_t other[3];
    pthread_create(&other[0], 0, waits, 0);
    while (served < 3) {
        pthread_mutex_lock(&turn);
        if (waiting > served) {
            served++;
            pthread_cond_signal(&again);
        }
        pthread_mutex_unlock(&turn);
        sched_yield();
    }
    pthread_join(other[0], 0);
    for (int i = 1; i < 3; i++) pthread_create(&other[i], 0, sleeps, 0);
    while (!awake) {
        pthread_mutex_lock(&turn);
        if (asleep == 2) {
            awake = 1;
            pthread_cond_broadcast(&again);
        }
        pthread_mutex_unlock(&turn);
        sched_yield();
    }
    for (int i = 1; i < 3; i++) pthread_join(other[i], 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    pthread_create(&other[0], 0, takes, 0);
    return pthread_join(other[0], 0);
}
"#;

/// Calls that few programs make, by the first letter of `argv[1]`.
const RARE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define MANY 3000
static pthread_barrier_t meet[MANY];
static void *meets(void *unused) {
    for (int i = 0; i < MANY; i++) pthread_barrier_wait(&meet[i]);
    return unused;
}
static sem_t *turn;
static void *takes(void *unused) {
    sem_wait(turn);
    return unused;
}
static sem_t go;
static void *waits(void *unused) { sem_wait(&go); return unused; }
static volatile int table[1 << 20];
int main(int count, char **words) {
    pthread_t other;
    struct timespec soon = {0, 1000000}, late;
    switch (words[1][0]) {
    case 'b':
        for (int i = 0; i < MANY; i++) pthread_barrier_init(&meet[i], 0, 1);
        for (int i = 0; i < MANY; i++) pthread_barrier_init(&meet[i], 0, 2);
        pthread_create(&other, 0, meets, 0);
        meets(0);
        return pthread_join(other, 0);
    case 'r':
        for (unsigned x = 1;; x = x * 1664525 + 1013904223) table[x >> 12]++;
    case 's': {
        char name[64];
        snprintf(name, sizeof name, "/tanada-test-%d-%s", (int)getpid(), words[2]);
        turn = sem_open(name, O_CREAT | O_EXCL, 0600, 3);
        if (turn == SEM_FAILED) return 1;
        sem_t *again = sem_open(name, 0);
        sem_unlink(name);
        if (again != turn) return 2;
        pthread_create(&other, 0, takes, 0);
        pthread_join(other, 0);
        takes(0);
        sem_close(again);
        takes(0);
        return sem_close(turn) || sem_open("/tanada-test-none", 0) != SEM_FAILED;
    }
    case 'j':
        sem_init(&go, 0, 0);
        pthread_create(&other, 0, waits, 0);
        if (pthread_tryjoin_np(other, 0) != EBUSY) return 1;
        clock_gettime(CLOCK_REALTIME, &late);
        late.tv_nsec = (late.tv_nsec + soon.tv_nsec) % 1000000000;
        if (pthread_timedjoin_np(other, 0, &late) != ETIMEDOUT) return 2;
        sem_post(&go);
        switch (words[2][0]) {
        case '0':
            while (pthread_tryjoin_np(other, 0)) nanosleep(&soon, 0);
            return 0;
        case '1':
            late.tv_sec += 1000;
            return pthread_timedjoin_np(other, 0, &late);
        default:
            clock_gettime(CLOCK_MONOTONIC, &late);
            late.tv_sec += 1000;
            return pthread_clockjoin_np(other, 0, CLOCK_MONOTONIC, &late);
        }
    }
    return 9;
}
"#;

/// OpenMP's locks that their owner may take again, and a variable that one member reads for all.
const NESTED: &str = r#"
#include <omp.h>
#include <stdio.h>
static omp_nest_lock_t lock;
static int sum;
static void adds(int depth) {
    omp_set_nest_lock(&lock);
    sum++;
    if (depth > 1) adds(depth - 1);
    omp_unset_nest_lock(&lock);
}
int main(void) {
    int passed = 0;
    omp_init_nest_lock(&lock);
    #pragma omp parallel num_threads(3)
    {
        int value, next;
        adds(3);
        while (!omp_test_nest_lock(&lock));
        int twice = omp_test_nest_lock(&lock);
        omp_unset_nest_lock(&lock);
        omp_unset_nest_lock(&lock);
        #pragma omp single copyprivate(value)
        value = 42;
        #pragma omp single copyprivate(next)
        next = value + twice;
        #pragma omp critical
        passed += value + next;
    }
    printf("%d %d\n", sum, passed);
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

/// Simulates `a.tnb` and returns how many waits the simulator had to end itself: 0 if the recording has all synchronisation.
fn forced(here: &Path, governor: &str) -> u64 {
    let machine = ["--machine", "tuat", "--json", "--governor", governor];
    number(
        &good(here, &[&["sim", "a.tnb"][..], &machine].concat()).out,
        "forced",
    )
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

/// More bytes than the recorder has to say before it has recorded anything.
const STATUS: u64 = 200;

/// Returns the bytes of the largest file without a name that a process has open, such as the spool; nothing if it has none.
fn spooled(process: u32) -> Option<u64> {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let unnamed = open.flatten().filter(|entry| {
        let name = std::fs::read_link(entry.path()).unwrap_or_default();
        let name = name.to_string_lossy();
        name.ends_with(" (deleted)") && !name.starts_with("/memfd:")
    });
    let bytes = unnamed.flat_map(|entry| std::fs::metadata(entry.path()));
    bytes.map(|file| file.len()).max()
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
        // The program's standard output is its own.
        let output = good(here, &["record", "-o", "c.tnb", "--", "./team", &count]);
        assert_eq!(output.out, format!("{threads} 852\n"));
        assert!(output.err.starts_with("c.tnb: "), "{}", output.err);
        assert!(bytes("a.tnb") == bytes("c.tnb"), "{threads} threads");
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
        ("v", "it starts another process"),
        ("y", "it starts another process"),
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
    for wrong in [
        ["--from", "192"],
        ["--to", "x"],
        ["--take", "0"],
        ["--env", "=x"],
        ["--env", "LD_PRELOAD=./x.so"],
        ["--env", "x"],
        ["--fetch", "each"],
    ] {
        let words = [
            "record", wrong[0], wrong[1], "-o", "a.tnb", "--", "./odd", "n",
        ];
        bad(here, &words, 2, &[wrong[0]]);
    }
    bad(
        here,
        &["record", "-o", "no/a.tnb", "--", "./odd", "n"],
        1,
        &["no/a.tnb"],
    );
    assert!(!here.join("a.tnb").exists());
    nothing_is_left(here);
}

/// Records an unusual program of [`ODD`] and reads all of its threads.
fn odd(here: &Path, how: &str) -> (ThreadTrace, Said) {
    let output = run(here, &["record", "-o", "a.tnb", "--", "./odd", how]);
    assert_eq!(output.code, Some(0), "{how}: {}", output.err);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    for thread in 0..trace.threads().len() as u32 {
        for_each(&trace, thread, |_| {});
    }
    (trace, output)
}

#[test]
fn unusual_programs_are_recorded() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "odd", ODD, "cc", &[]);
    let without = "without pthread_create";
    // Signals come within calls, between them, and while marks are made.
    let (trace, output) = odd(here, "s");
    assert_eq!(trace.threads().len(), 4);
    assert!(!output.err.contains(without), "{}", output.err);
    for thread in 1..4 {
        let syncs = syncs(&trace, thread);
        assert!(syncs.len() > 40_000 && syncs.last() == Some(&Sync::Exit));
        assert!(
            syncs
                .chunks_exact(2)
                .all(|pair| pair == [Sync::Lock(0), Sync::Unlock(0)])
        );
    }
    // All descriptors are closed; the first thread ends before the last one.
    for how in ["d", "p"] {
        let (trace, _) = odd(here, how);
        assert_eq!(trace.threads().len(), 2, "{how}");
        assert_eq!(syncs(&trace, 1), [Sync::Exit], "{how}");
    }
    let (trace, output) = odd(here, "t");
    assert_eq!(trace.threads().len(), 1);
    assert!(output.err.contains(without), "{}", output.err);
    let (trace, _) = odd(here, "1");
    let first = syncs(&trace, 0);
    assert!(
        matches!(
            first[..],
            [
                Sync::Create(1),
                Sync::Lock(_),
                Sync::Broadcast(_),
                Sync::Unlock(_),
                Sync::Join(1),
                Sync::Exit
            ]
        ),
        "{first:?}"
    );
    let (trace, _) = odd(here, "2");
    assert_eq!(
        syncs(&trace, 0),
        [Sync::Lock(0), Sync::Unlock(0), Sync::Exit]
    );
    good(
        here,
        &["sim", "a.tnb", "--machine", "toshiba", "--governor", "fifo"],
    );
    nothing_is_left(here);
}

#[test]
fn waits_hold_how_many_signals_came() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "waits", WAITS, "cc", &[]);
    good(here, &["record", "-o", "a.tnb", "--", "./waits"]);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    assert_eq!(trace.threads().len(), 5);
    // Waits that end by themselves do not count one more.
    let counts = |thread| {
        let mut counts: Vec<u32> = syncs(&trace, thread)
            .iter()
            .filter_map(|sync| match sync {
                Sync::Wait { signals, .. } => Some(signals.expect("each is counted")),
                _ => None,
            })
            .collect();
        counts.dedup();
        counts
    };
    assert_eq!(counts(1), [1, 2, 3]);
    // The broadcast is the fourth signal.
    assert_eq!((counts(2), counts(3)), (vec![4], vec![4]));
    let Some(&Sync::Lock(robust)) = syncs(&trace, 4).first() else {
        panic!("{:?}", syncs(&trace, 4));
    };
    assert_eq!(
        syncs(&trace, 4),
        [Sync::Lock(robust), Sync::Unlock(robust), Sync::Exit]
    );
    for governor in ["fifo", "rs-ss"] {
        assert_eq!(forced(here, governor), 0, "{governor}");
    }
}

#[test]
fn any_number_of_barriers_may_be_made() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "rare", RARE, "cc", &[]);
    good(here, &["record", "-o", "a.tnb", "--", "./rare", "b"]);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    for thread in 0..2 {
        let of_barrier = |sync| match sync {
            Sync::Barrier { object, parties } => Some((object, parties)),
            _ => None,
        };
        let met: Vec<_> = syncs(&trace, thread)
            .into_iter()
            .filter_map(of_barrier)
            .collect();
        let expected: Vec<_> = (0..3000).map(|object| (object, 2)).collect();
        assert!(
            met == expected,
            "{:?}",
            met.iter().zip(expected).find(|(a, b)| *a != b)
        );
    }
}

#[test]
fn named_semaphores_begin_with_their_value() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "rare", RARE, "cc", &[]);
    let id = std::process::id().to_string();
    good(here, &["record", "-o", "a.tnb", "--", "./rare", "s", &id]);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    let (post, take) = (Sync::Post(0), Sync::Take(0));
    let expected = [
        post,
        post,
        post,
        Sync::Create(1),
        Sync::Join(1),
        take,
        take,
        Sync::Exit,
    ];
    assert_eq!(syncs(&trace, 0), expected);
    assert_eq!(syncs(&trace, 1), [take, Sync::Exit]);
    assert_eq!(forced(here, "fifo"), 0);
}

#[test]
fn every_way_to_join_is_recorded_once() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "rare", RARE, "cc", &[]);
    for way in ["0", "1", "2"] {
        good(here, &["record", "-o", "a.tnb", "--", "./rare", "j", way]);
        let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
        let expected = [Sync::Create(1), Sync::Post(0), Sync::Join(1), Sync::Exit];
        assert_eq!(syncs(&trace, 0), expected, "{way}");
        assert_eq!(syncs(&trace, 1), [Sync::Take(0), Sync::Exit], "{way}");
    }
}

#[test]
fn nested_locks_and_copied_variables_of_openmp_are_recorded() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let mut compilers = vec!["cc"];
    if tanada_testing::program(&["clang"], "clang libomp-dev", "OpenMP of clang").is_some() {
        compilers.push("clang");
    }
    for compiler in compilers {
        compile(here, "nested", NESTED, compiler, &["-fopenmp"]);
        let output = good(here, &["record", "-o", "a.tnb", "--", "./nested"]);
        assert_eq!(output.out, "9 258\n", "{compiler}");
        let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
        for thread in 0..3 {
            let all = syncs(&trace, thread);
            let is_begin = |sync: &Sync| matches!(sync, Sync::RegionBegin { .. });
            let begin = all.iter().position(is_begin).expect("it is in the region");
            let Sync::RegionBegin { id, threads } = all[begin] else {
                unreachable!()
            };
            let Sync::Lock(lock) = all[begin + 1] else {
                panic!("{compiler}, {thread}: {all:?}")
            };
            let Sync::Lock(critical) = all[begin + 9] else {
                panic!("{compiler}, {thread}: {all:?}")
            };
            let (taken, released) = (Sync::Lock(lock), Sync::Unlock(lock));
            let barrier = Sync::Barrier {
                object: id,
                parties: threads,
            };
            // Each `single` has two: until the value is there, and until all have it.
            let expected = [
                taken, released, taken, released, barrier, barrier, barrier, barrier,
            ];
            assert_eq!(threads, 3);
            assert_eq!(all[begin + 1..begin + 9], expected, "{compiler}, {thread}");
            let rest = [
                Sync::Lock(critical),
                Sync::Unlock(critical),
                Sync::RegionEnd,
            ];
            assert_eq!(all[begin + 9..begin + 12], rest, "{compiler}, {thread}");
            assert_ne!(lock, critical);
        }
        assert_eq!(forced(here, "fifo"), 0);
    }
}

#[test]
fn a_small_limit_of_files_is_named() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "rare", RARE, "cc", &[]);
    // In 512 bytes: less than the recorder has, and less than the recording.
    for (limit, why) in [(100, "a part of the recorder"), (8000, "its recording")] {
        let mut command = Command::new("sh");
        let line = format!("ulimit -f {limit}; exec \"$@\"");
        command.current_dir(here).args(["-c", &line, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_tanada"));
        command.args(["record", "-o", "a.tnb", "--", "./rare", "r"]);
        let said = said(command.output().expect("it starts"));
        assert_eq!(said.code, Some(1), "{}", said.err);
        for word in ["`ulimit -f`", why] {
            assert!(said.err.contains(word), "{word}: {}", said.err);
        }
        assert!(!said.err.contains("probe.so"), "{}", said.err);
        assert!(!here.join("a.tnb").exists());
    }
    nothing_is_left(here);
}

#[test]
fn a_trace_has_a_name() {
    let folder = folder();
    let here = folder.path();
    for line in ["-o - -- true", "stencil --output=-", "stencil -o-"] {
        let words: Vec<&str> = ["record"].into_iter().chain(line.split(' ')).collect();
        bad(here, &words, 2, &["standard output", "./-"]);
    }
    assert_eq!(here.read_dir().expect("a folder").count(), 0);
}

#[test]
fn the_emulator_ends_with_a_killed_recorder() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    compile(here, "odd", ODD, "cc", &[]);
    let mut child = started(tanada(here, &["record", "-o", "a.tnb", "--", "./odd", "l"]));
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let wait = |done: &dyn Fn() -> bool| {
        while !done() {
            assert!(std::time::Instant::now() < deadline, "it never comes");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let of = || std::fs::read_to_string(&children).unwrap_or_default();
    let process = child.id();
    let spooled = || spooled(process).is_some();
    wait(&|| spooled() && !of().trim().is_empty());
    let emulator = format!(
        "/proc/{}/stat",
        of().split_whitespace().next().expect("a child")
    );
    child.kill().expect("it runs");
    child.wait().expect("our child");
    // It may stay as a zombie if no process looks after orphans.
    wait(&|| std::fs::read_to_string(&emulator).map_or(true, |stat| stat.contains(") Z ")));
    // Nothing is left but the output without a name of its own, which has no byte yet.
    for entry in here.read_dir().expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = entry.metadata().expect("it is there").len();
        assert!(!name.contains("tanada-") || bytes == 0, "{name}: {bytes}");
    }
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
    // From a mark to the next one of the same kind: there is none, so the piece ends with the program, which is said.
    let words = [
        "record", "--from", "3", "--to", "3", "-o", "a.tnb", "--json", "--", "./odd", "n",
    ];
    let output = good(here, &words);
    assert!(
        output.err.contains("it ended before the piece did"),
        "{}",
        output.err
    );
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    let mark = |kind| Sync::Mark {
        kind,
        a: kind.into(),
        b: 5,
    };
    assert_eq!(syncs(&trace, 0), [mark(3), mark(4), Sync::Exit]);
    let take = |instructions: &str| {
        let words = [
            "record",
            "--skip",
            "200000",
            "--take",
            instructions,
            "-o",
            "b.tnb",
            "--json",
            "--",
            "./odd",
            "l",
        ];
        number(&good(here, &words).out, "instructions")
    };
    let taken = take("100000");
    assert!((100_000..101_000).contains(&taken), "{taken}");
    // A piece ends with the block of code that its last instruction belongs to.
    assert_eq!(take(&taken.to_string()), taken);
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
        let process = child.id();
        let spooled = || spooled(process).is_some_and(|bytes| bytes > STATUS || !kept);
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
fn two_recordings_of_openmp_programs_have_the_same_bytes() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <omp.h>
        static double a[4096], b[4096];
        int main(int count, char **words) {
            int once = 0;
            long sum = 0;
            omp_set_num_threads(atoi(words[1]));
            #pragma omp parallel
            {
                #pragma omp for schedule(static, 16)
                for (int i = 0; i < 4096; i++) a[i] = i;
                #pragma omp single
                once++;
                #pragma omp single nowait
                once++;
                #pragma omp for
                for (int i = 0; i < 4096; i++) b[i] = a[4095 - i];
            }
            for (int i = 0; i < 4096; i++) sum += b[i];
            printf("%ld %d\n", sum, once);
            return 0;
        }
    "#;
    compile(here, "team-cc", source, "cc", &["-fopenmp"]);
    let mut programs = vec!["./team-cc"];
    if tanada_testing::program(&["clang"], "clang libomp-dev", "OpenMP of clang").is_some() {
        compile(here, "team-clang", source, "clang", &["-fopenmp"]);
        programs.push("./team-clang");
    }
    for program in programs {
        for threads in ["2", "8"] {
            let bytes = ["a.tnb", "b.tnb"].map(|name| {
                let words = ["record", "-o", name, "--", program, threads];
                let output = good(here, &words);
                assert!(output.out.contains("8386560 2"), "{}", output.out);
                std::fs::read(here.join(name)).expect("it is there")
            });
            assert!(bytes[0] == bytes[1], "{program} {threads}");
        }
        if program == "./team-clang" {
            let left = left_by_killed_processes();
            let words = ["record", "-o", "b.tnb", "--", program, "8"];
            good(here, &words);
            let found = left.iter().any(|path| !path.exists());
            left.iter()
                .for_each(|path| drop(std::fs::remove_file(path)));
            assert!(found, "the emulator's process had one of {}", left.len());
            let [one, other] =
                ["a.tnb", "b.tnb"].map(|name| std::fs::read(here.join(name)).expect("a trace"));
            assert!(one == other, "{program} after a process that was killed");
        }
    }
}

/// Makes the files that LLVM's runtime leaves if its process is killed, for the next process IDs, and returns them. The address in them is
/// mapped in no process, by which the runtime tells that theirs is dead.
fn left_by_killed_processes() -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let user = std::fs::metadata("/proc/self").expect("Linux has it").uid();
    let load = std::fs::read_to_string("/proc/loadavg").expect("Linux has it");
    let last: u32 = (load.split_whitespace().next_back())
        .and_then(|word| word.parse().ok())
        .expect("the last process ID");
    let mut content = b"0x1000-cafe0000-libomp.so.5".to_vec();
    content.resize(1024, 0);
    (last + 1..last + 2000)
        .filter_map(|process| {
            let name = format!("/dev/shm/__KMP_REGISTERED_LIB_{process}_{user}");
            let mut file = std::fs::File::create_new(&name).ok()?;
            std::io::Write::write_all(&mut file, &content).ok()?;
            Some(name.into())
        })
        .collect()
}

/// Threads of Rust's library look for the guard of their stack. Its locks are its own.
#[test]
fn threads_of_rust_are_recorded() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let source = "
        use std::sync::Mutex;
        fn main() {
            let sum = Mutex::new(0);
            std::thread::scope(|s| {
                for i in 0..3 {
                    s.spawn({ let sum = &sum; move || *sum.lock().unwrap() += i });
                }
            });
            println!(\"{}\", sum.into_inner().unwrap());
        }";
    std::fs::write(here.join("sum.rs"), source).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition=2024", "sum.rs"]).current_dir(here);
    let output = said(command.output().expect("the compiler of these tests"));
    assert_eq!(output.code, Some(0), "{}", output.err);
    let output = good(here, &["record", "-o", "a.tnb", "--", "./sum"]);
    assert_eq!(output.out, "3\n", "{}", output.err);
    let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
    assert_eq!(trace.threads().len(), 4);
    let creates = (1..4).map(Sync::Create);
    assert!(
        syncs(&trace, 0)
            .into_iter()
            .filter(|one| matches!(one, Sync::Create(_)))
            .eq(creates)
    );
}

/// clang passes a region each variable that its members share as an argument.
#[test]
fn regions_of_clang_may_share_many_variables() {
    if !emulator()
        || tanada_testing::program(&["clang"], "clang libomp-dev", "OpenMP of clang").is_none()
    {
        return;
    }
    let folder = folder();
    let here = folder.path();
    for many in [14, 15, 40, 94] {
        let of = |each: &dyn Fn(usize) -> String, between| {
            (0..many).map(each).collect::<Vec<_>>().join(between)
        };
        let source = format!(
            r#"
            #include <omp.h>
            #include <stdio.h>
            int main(void) {{
                long sums[2], {};
                #pragma omp parallel num_threads(2)
                {{
                    sums[omp_get_thread_num()] = {};
                    #pragma omp barrier
                    #pragma omp master
                    {{ {}; }}
                }}
                printf("%ld %ld %ld\n", sums[0], sums[1], {});
                return 0;
            }}
            "#,
            of(&|i| format!("v{i} = {i}"), ", "),
            of(&|i| format!("v{i}"), " + "),
            of(&|i| format!("v{i}++"), ", "),
            of(&|i| format!("v{i}"), " + "),
        );
        compile(here, "shared", &source, "clang", &["-fopenmp"]);
        let sum = many * (many - 1) / 2;
        let output = good(here, &["record", "-o", "a.tnb", "--", "./shared"]);
        assert_eq!(output.out, format!("{sum} {sum} {}\n", sum + many));
    }
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
    // Who creates whom is known, so a simulation runs them side by side.
    assert_eq!(trace.threads().len(), 3);
    assert_eq!(syncs(&trace, 0)[..2], [Sync::Create(1), Sync::Create(2)]);
    assert_eq!(trace.threads()[2].parent, Some(0));
    let sim = ["sim", "a.tnb", "--machine", "tuat", "--governor", "fifo"];
    let said = good(here, &sim).out;
    assert!(
        said.contains("recorded without locks") && !said.contains("no thread could run"),
        "{said}"
    );
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
            "arm-linux-gnueabi-gcc",
            "gcc-arm-linux-gnueabi",
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
        // Cross compilers are not among what the tests install, and come without the headers of a C library.
        let try_out = [
            "-fsyntax-only",
            "-include",
            "pthread.h",
            "-x",
            "c",
            "/dev/null",
        ];
        let tried = Command::new(compiler).args(try_out).output();
        if !tried.is_ok_and(|output| output.status.success()) {
            tanada_testing::skip(format_args!("no {compiler} with a C library for {what}"));
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
const LONG_SUM: &str = "print(sum(i * i for i in range(100000)))";
const QUERY: &str = "create table t(a); insert into t values (1), (2), (3); select sum(a) from t;";
const LONG_QUERY: &str = "create table t(a integer, b text);
    with recursive c(a) as (select 1 union all select a + 1 from c where a < 8000)
        insert into t select a * 7919 % 20011, hex(a * 104729) from c;
    create index i on t(b);
    select sum(a), max(b) from t;
    select count(*) from t x join t y on x.a = y.a + 1;";

/// Programs that nobody here wrote, single-threaded; `long`: so that their work takes far longer than their start.
fn programs(here: &Path, long: bool) -> Vec<(PathBuf, Vec<&'static str>)> {
    let text: String = (0..if long { 15_000 } else { 400 })
        .map(|i| format!("{} a line of text {i}\n", i * 7919 % 1000))
        .collect();
    std::fs::write(here.join("text"), text).expect("a file");
    let all: [(&str, &str, &[&str]); 4] = [
        ("gzip", "gzip", &["-9", "-c", "text"]),
        ("sort", "coreutils", &["--parallel=1", "-S", "1M", "text"]),
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

/// Instructions by which the recorder's library looks up functions before `main`, at most.
const BEGIN: u64 = 150_000;

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
        // make a few, and how the recorder's library begins.
        let [instructions, accesses] =
            ["instructions", "accesses"].map(|key| number(last(&counted), key));
        let ours = [
            number(last(&json), "instructions"),
            ["loads", "stores", "parts"]
                .map(|key| number(last(&json), key))
                .iter()
                .sum(),
        ];
        let left_out = 400 * marks.saturating_sub(1) + BEGIN;
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

/// Runs a program under a tool of Valgrind's and returns what the tool says.
fn valgrind(here: &Path, tool: &[&str], program: &Path, words: &[&str]) -> String {
    let mut command = Command::new("valgrind");
    command.args(["--command-line-only=yes", "--log-file=said"]);
    command.args(tool).arg(program).args(words);
    command.env_clear().current_dir(here);
    for (name, value) in [
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("LD_BIND_NOW", "1"),
        ("PYTHONHASHSEED", "0"),
    ] {
        command.env(name, value);
    }
    assert!(command.output().expect("it starts").status.success());
    std::fs::read_to_string(here.join("said")).expect("it is there")
}

fn number_of(word: &str) -> u64 {
    let digits = word.chars().filter(char::is_ascii_digit);
    digits.collect::<String>().parse().expect("a number")
}

/// Callgrind's instructions. Lackey and cachegrind count up to 3% more, which access no memory.
fn of_callgrind(said: &str) -> u64 {
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    number_of(collected.expect("callgrind's sum").1)
}

/// Lackey's loads and stores.
fn of_lackey(said: &str) -> [u64; 2] {
    let mut sums = [0; 2];
    for line in said.lines().filter_map(|line| line.rsplit_once("== ")) {
        // A table of types: `I32  LOADS  STORES  OPERATIONS`.
        let words: Vec<&str> = line.1.split_whitespace().collect();
        match words[..] {
            [kind, loads, stores, _]
                if ["I", "F", "D", "V"]
                    .iter()
                    .any(|begin| kind.starts_with(begin))
                    && kind[1..].parse::<u32>().is_ok() =>
            {
                sums[0] += number_of(loads);
                sums[1] += number_of(stores);
            }
            _ => {}
        }
    }
    sums
}

/// Bytes and ways of a level-1 data cache with lines of 64 bytes, as [`ONE_CACHE`] has it.
const SHAPE: (usize, usize) = (32 << 10, 8);

/// Misses of an LRU cache: by the rule of cachegrind, for which an access of two lines misses once at most, and by that of the simulator.
fn misses(trace: &ThreadTrace) -> [u64; 2] {
    let (bytes, ways) = SHAPE;
    let mut sets = vec![Vec::new(); bytes / 64 / ways];
    let mut sums = [0; 2];
    for_each(trace, 0, |event| {
        let Event::Access { address, bytes, .. } = event else {
            return;
        };
        let mut missed = 0;
        for line in address / 64..=(address + u64::from(bytes) - 1) / 64 {
            let which = line as usize % sets.len();
            let set: &mut Vec<u64> = &mut sets[which];
            match set.iter().position(|&held| held == line) {
                Some(at) => {
                    set[..=at].rotate_right(1);
                }
                None => {
                    missed += 1;
                    set.truncate(ways - 1);
                    set.insert(0, line);
                }
            }
        }
        sums[0] += u64::from(missed > 0);
        sums[1] += missed;
    });
    sums
}

const ONE_CACHE: &str = r#"
name = "cachegrind"
model = "uniform"
cores = 1
hit_cycles = 1
dispatch_cycles = 0
coherence = "none"

[[cache]]
level = 1
kind = "data"
per = "core"
size = "32K"
ways = 8
line = 64
replacement = "lru"
miss_cycles = 10
"#;

/// The oracles are Valgrind's: callgrind counts instructions, lackey loads and stores, cachegrind the misses of a cache.
#[test]
fn counts_and_misses_are_near_valgrinds() {
    if !emulator() || tanada_testing::program(&["valgrind"], "valgrind", "judging counts").is_none()
    {
        return;
    }
    let folder = folder();
    let here = folder.path();
    std::fs::write(here.join("machine.toml"), ONE_CACHE).expect("a file");
    let within = |ours: u64, theirs: u64, percent: f64| {
        (ours as f64 / theirs as f64 - 1.0).abs() * 100.0 < percent
    };
    for (program, words) in programs(here, true) {
        let name = program.display();
        let json = recorded(here, &["--env", "LC_ALL=C"], &program, &words).out;
        let counts = ["instructions", "loads", "stores"].map(|key| number(last(&json), key));
        let said = valgrind(
            here,
            &["--tool=lackey", "--detailed-counts=yes"],
            &program,
            &words,
        );
        let [loads, stores] = of_lackey(&said);
        let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let expected = [
            of_callgrind(&valgrind(here, &tool, &program, &words)),
            loads,
            stores,
        ];
        for i in 0..3 {
            assert!(
                within(counts[i], expected[i], 1.0),
                "{name}: {counts:?} {expected:?}"
            );
        }
        let trace = ThreadTrace::open(&here.join("a.tnb")).expect("a thread trace");
        let [ours, by_lines] = misses(&trace);
        let cache = format!("--D1={},{},64", SHAPE.0, SHAPE.1);
        let tool = [
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--cachegrind-out-file=counts",
            &cache,
        ];
        valgrind(here, &tool, &program, &words);
        let text = std::fs::read_to_string(here.join("counts")).expect("cachegrind's counts");
        let of = |begin: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(begin));
            line.expect("cachegrind's counts")
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (names, sums) = (of("events:"), of("summary:"));
        let sum = |name: &str| -> u64 {
            let at = names
                .iter()
                .position(|known| known == name)
                .expect("it counts them");
            sums[at].parse().expect("a number")
        };
        let theirs = sum("D1mr") + sum("D1mw");
        assert!(within(ours, theirs, 1.0), "{name}: {ours} {theirs}");
        let words = [
            "sim",
            "a.tnb",
            "--machine",
            "machine.toml",
            "--governor",
            "fifo",
            "--json",
        ];
        let simulated: serde_json::Value =
            serde_json::from_str(&good(here, &words).out).expect("one JSON object");
        assert_eq!(
            simulated["levels"][0]["misses"], by_lines,
            "{name}: {simulated}"
        );
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
    // One that knows no plugins.
    let emulator = folder
        .path()
        .join(format!("qemu-{}", std::env::consts::ARCH));
    std::fs::write(
        &emulator,
        "#!/bin/sh\necho unknown option -plugin >&2\nexit 1\n",
    )
    .expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&emulator, mode).expect("our file");
    let mut command = tanada(folder.path(), &["record", "-o", "a.tnb", "--"]);
    command.arg(program).env("PATH", folder.path());
    let output = said(command.output().expect("the program starts"));
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(
        output.err.contains("does not load the recorder"),
        "{}",
        output.err
    );
    assert!(!folder.path().join("a.tnb").exists());
}
