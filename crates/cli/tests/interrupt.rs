//! Ctrl-C and the other signals that end a program.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{folder, heed_signals, mask, said, started, started_with_stderr, tanada};

fn interrupted(command: Command, begun: impl Fn() -> bool) -> support::Said {
    signalled(command, Signal::INT, begun)
}

/// Sends the signal once `begun` says yes, and waits for the end, which must come within a few seconds.
fn signalled(command: Command, signal: Signal, begun: impl Fn() -> bool) -> support::Said {
    let mut child = started(command);
    // Waiting would close it, and an end of the input is no signal.
    let _input = child.stdin.take();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !begun() {
        assert!(Instant::now() < deadline, "the work never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).expect("it still runs");
    let sent = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(
        sent.elapsed() < Duration::from_secs(20),
        "it took {:?} to stop",
        sent.elapsed()
    );
    said(output)
}

/// Bytes of the output that is being written and does not have its name yet; `None` if there is none.
fn unfinished(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut hidden =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tanada-"));
    Some(hidden.next()?.metadata().ok()?.len())
}

#[test]
fn what_was_there_stays_nothing_else_is_left_and_the_code_is_130() {
    let folder = folder();
    let stream = folder.path().join("demo.264");
    std::fs::write(&stream, tanada_harness::DEMO.repeat(40)).expect("the folder can be written to");
    let frames = folder.path().join("out.yuv");
    std::fs::write(&frames, "old").expect("the folder can be written to");
    for more in [&["--policy", "random-steal"][..], &["--sequential"]] {
        let arguments = [&["run", "h264", "demo.264", "-o", "out.yuv"], more].concat();
        let grows = || unfinished(folder.path()).is_some_and(|bytes| bytes > 0);
        let said = interrupted(tanada(folder.path(), &arguments), grows);
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert!(said.err.contains("stopped"), "{}", said.err);
        assert_eq!(std::fs::read(&frames).expect("it is there"), b"old");
        assert_eq!(unfinished(folder.path()), None, "{}", said.err);
    }
    let page = folder.path().join("page.html");
    for more in [&["--repeat", "1000"][..], &[]] {
        let arguments = [&["compare", "-o", "page.html"], more].concat();
        let begun = || unfinished(folder.path()).is_some();
        let said = interrupted(tanada(folder.path(), &arguments), begun);
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert!(
            !page.exists() && unfinished(folder.path()).is_none(),
            "{}",
            said.err
        );
    }
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one_request() {
    let folder = folder();
    let words = ["run", "stencil", "--size", "3000", "--repeat", "1000"];
    let child = started(tanada(folder.path(), &words));
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).expect("it still runs");
        std::thread::sleep(Duration::from_millis(1));
    }
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("tanada: stopped;"), "{}", said.err);
}

#[test]
fn a_field_is_left_in_the_middle() {
    let folder = folder();
    for more in [&["--policy", "ts"][..], &["--sequential"]] {
        let long = [
            "run", "stencil", "--size", "3000", "--sweeps", "200", "--repeat", "1000",
        ];
        let said = interrupted(tanada(folder.path(), &[&long[..], more].concat()), || true);
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert!(
            said.out.is_empty() && said.err.contains("stopped"),
            "{}",
            said.err
        );
    }
}

/// The command lines of processes that work in the folder.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().expect("a folder");
    let all = std::fs::read_dir("/proc").expect("a folder").flatten();
    let here = all.filter(|entry| {
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at.starts_with(&folder))
    });
    let line = here.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    line.map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // What a sweep goes on from is meant to stay.
    let mut names: Vec<String> = names
        .filter(|name| !name.ends_with(".unfinished"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_long_verb_leaves_no_process_and_no_file_under_each_signal() {
    let name = format!("qemu-{}", std::env::consts::ARCH);
    let emulator =
        tanada_testing::program(&[&name], "qemu-user", "signals to its parent").is_some();
    std::thread::scope(|scope| {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            scope.spawn(move || every_long_verb(signal, emulator));
        }
    });
}

/// Writes a shell with the mark of the runtime, so that `record` takes it for a program whose tasks are recorded.
fn write_shell(folder: &Path) {
    let mut shell = std::fs::read("/bin/sh").expect("there is a shell");
    shell.extend(tanada_runtime::RECORDABLE);
    let path = folder.join("shell");
    std::fs::write(&path, &shell).expect("the folder can be written to");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("our file");
}

fn every_long_verb(signal: Signal, emulator: bool) {
    let folder = folder();
    let write = |name: &str, content: &[u8]| {
        std::fs::write(folder.path().join(name), content).expect("the folder can be written to");
    };
    write("long.264", &tanada_harness::DEMO.repeat(40));
    let mut trace = "tanada-trace 1\n".to_owned();
    for task in 1..=4000 {
        trace += &format!("task {task}\nr {:#x} 1048576\n", task << 20);
    }
    write("long.tnt", trace.as_bytes());
    write(
        "sweep.toml",
        b"traces = \"long.tnt\"\nmachines = \"toshiba\"\n",
    );
    write("endless.sh", b"while :; do :; done\n");
    write_shell(folder.path());
    make_pipe(folder.path());
    let before = names(folder.path());
    let lines = [
        "run h264 long.264 -o out.yuv --trace-events events.json",
        "run stencil --size 3000 --repeat 1000 -o out.bin",
        "compare stencil --size 3000 --repeat 1000 -o page.html",
        "record h264 long.264 -o out.tnb",
        "record pipeline --size 4096 -o out.tnt",
        "import - -o out.tnb",
        "sim long.tnt --machine toshiba --policy ts --events out.csv --report page.html",
        "sweep sweep.toml",
        "reproduce toshiba -o page.html",
        "report pipe -o page.html",
        "record -o out.tnb -- ./shell endless.sh",
    ];
    for line in &lines[..lines.len() - usize::from(!emulator)] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = tanada(folder.path(), &words);
        command.stdin(Stdio::piped());
        let said = signalled(command, signal, || {
            !line.contains("endless") || processes(folder.path()).len() >= 2
        });
        assert_eq!(
            said.code,
            Some(128 + signal.as_raw()),
            "{line}: {}",
            said.err
        );
        assert!(said.err.contains("stopped"), "{line}: {}", said.err);
        assert_eq!(names(folder.path()), before, "{line}: {}", said.err);
        // A process that was killed is there until its parent, which may be the first process of all, has seen it.
        let deadline = Instant::now() + Duration::from_secs(5);
        while let left @ [_, ..] = &processes(folder.path())[..] {
            assert!(Instant::now() < deadline, "{line}: {left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Makes a pipe called `pipe`.
fn make_pipe(folder: &Path) {
    let made = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "no pipe can be made"
    );
}

#[test]
fn a_second_signal_leaves_no_file_either() {
    let folder = folder();
    make_pipe(folder.path());
    let child = started(tanada(
        folder.path(),
        &["run", "h264", "pipe", "-o", "out.yuv"],
    ));
    while unfinished(folder.path()).is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let begin = Instant::now();
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it still runs");
        std::thread::sleep(Duration::from_millis(500));
    }
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(143), "{}", said.err);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(names(folder.path()), ["pipe"]);
}

#[test]
fn a_full_pipe_as_standard_error_does_not_keep_a_second_signal_from_ending_it() {
    let folder = folder();
    let (_reader, full) = std::io::pipe().expect("a pipe");
    let flags = rustix::fs::fcntl_getfl(&full).expect("its flags");
    let set = |flags| rustix::fs::fcntl_setfl(&full, flags).expect("its flags can be set");
    set(flags | rustix::fs::OFlags::NONBLOCK);
    while (&full).write(&[b'\n'; 4096]).is_ok() {}
    set(flags);
    let words = ["run", "stencil", "--size", "3000", "--repeat", "1000"];
    let mut command = tanada(folder.path(), &words);
    command.stderr(full);
    let mut child = started_with_stderr(command);
    // The first signal lets the main thread report the stop, for which it waits with the lock held.
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it still runs");
        std::thread::sleep(Duration::from_secs(2));
    }
    let ended = child.try_wait().expect("it can be asked");
    child.kill().expect("it ends");
    child.wait().expect("it ends");
    assert_eq!(ended.and_then(|status| status.code()), Some(143));
}

#[test]
fn signals_that_would_dump_core_leave_no_file() {
    for signal in [Signal::QUIT, Signal::XCPU] {
        let folder = folder();
        let words = ["compare", "--repeat", "1000", "-o", "page.html"];
        let begun = || unfinished(folder.path()).is_some();
        let said = signalled(tanada(folder.path(), &words), signal, begun);
        assert_eq!(said.code, Some(128 + signal.as_raw()), "{}", said.err);
        assert_eq!(names(folder.path()), [""; 0], "{}", said.err);
    }
}

#[test]
fn a_file_beyond_the_limit_of_its_size_is_reported_and_not_left() {
    let folder = folder();
    let stream = folder.path().join("demo.264");
    std::fs::write(&stream, tanada_harness::DEMO).expect("the folder can be written to");
    for (line, output) in [
        ("run h264 demo.264 -o out.yuv", "out.yuv: "),
        ("record stencil --size 512 -o out.tnt", "out.tnt: "),
        ("record stencil --size 512 -o out.tnb", "out.tnb: "),
    ] {
        let mut command = Command::new("sh");
        command
            .current_dir(folder.path())
            .args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]);
        command.arg(env!("CARGO_BIN_EXE_tanada"));
        command.args(line.split(' '));
        let said = said(command.output().expect("it starts"));
        assert_eq!(said.code, Some(1), "{line}: {}", said.err);
        assert!(said.err.contains(output), "{line}: {}", said.err);
        assert_eq!(names(folder.path()), ["demo.264"]);
    }
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let folder = folder();
    heed_signals();
    let mut command = Command::new("sh");
    command.current_dir(folder.path());
    command.args(["-c", "trap '' INT QUIT TERM; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tanada"));
    command.args(["run", "stencil", "--size", "3000", "--repeat", "1000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let caught =
        |signal: Signal| mask(&child.id().to_string(), "SigCgt:") >> (signal.as_raw() - 1) & 1 == 1;
    while !caught(Signal::XCPU) {
        std::thread::sleep(Duration::from_millis(2));
    }
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM] {
        assert!(!caught(signal));
        kill_process(Pid::from_child(&child), signal).expect("it runs");
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("it can be asked").is_none());
    kill_process(Pid::from_child(&child), Signal::HUP).expect("it runs");
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(129), "{}", said.err);
}

/// The program on so few threads of its user, itself among them. A test has a number of its own as `test`, and so, if root runs it, a user
/// without other processes. `None`: this user has other processes, or another user cannot start the program.
fn on_threads(folder: &Path, test: u32, threads: u32, arguments: &[&str]) -> Option<Command> {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    tanada_testing::program(&["prlimit"], "prlimit", "a limit of threads")?;
    let mut command = Command::new("prlimit");
    command
        .current_dir(folder)
        .arg(format!("--nproc={threads}"));
    command.arg(env!("CARGO_BIN_EXE_tanada")).args(arguments);
    if rustix::process::geteuid().is_root() {
        // Root is held to no limit.
        let user = 1_000_000 + std::process::id() * 8 + test;
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder, mode).expect("our folder");
        command.uid(user);
        let mut version = Command::new(env!("CARGO_BIN_EXE_tanada"));
        version.arg("--version").uid(user);
        if !version.output().is_ok_and(|output| output.status.success()) {
            tanada_testing::skip("another user cannot start the program");
            return None;
        }
    } else if threads > 1 {
        tanada_testing::skip("this user may have other processes");
        return None;
    }
    Some(command)
}

#[test]
fn work_is_done_by_the_threads_that_there_are() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    write("a.tnt", "tanada-trace 1\ntask 1\nr 0x1000 64\n");
    write("a.din", "0 1000\n1 2000\n");
    write("s.toml", "traces = 'a.tnt'\nmachines = 'toshiba'\n");
    for threads in [1, 2, 3] {
        for line in [
            "sim a.tnt --machine toshiba --policy fcfs,ts,lcfs --threads 3 --report a.json",
            "report a.json -o page.html",
            "import a.din -o out.tnt",
            "record stencil --size 64 --sweeps 1 -o out.tnb",
            "sweep s.toml --threads 3",
            "run stencil --size 64 --sequential",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(mut command) = on_threads(folder.path(), 0, threads, &words) else {
                return;
            };
            let said = said(command.output().expect("it starts"));
            assert_eq!(
                said.code,
                Some(0),
                "{threads} threads: {line}: {}",
                said.err
            );
        }
    }
    // Workers of a pool are threads.
    let words = ["run", "stencil", "--size", "64", "--workers", "2"];
    let mut command = on_threads(folder.path(), 0, 1, &words).expect("as before");
    let said = said(command.output().expect("it starts"));
    assert_eq!(said.code, Some(1), "{}", said.err);
}

#[test]
fn a_signal_ends_work_that_may_have_no_third_thread() {
    let folder = folder();
    make_pipe(folder.path());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(folder.path().join("pipe"), mode).expect("our pipe");
    let words = ["import", "pipe", "-o", "out.tnb"];
    let Some(mut command) = on_threads(folder.path(), 1, 2, &words) else {
        return;
    };
    // Both ends: so it opens at once, and nothing comes.
    let mut pipe = std::fs::OpenOptions::new();
    let pipe = pipe.read(true).write(true);
    let _pipe = pipe.open(folder.path().join("pipe")).expect("our pipe");
    command.stderr(Stdio::piped());
    let child = started(command);
    while unfinished(folder.path()).is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it still runs");
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(143), "{}", said.err);
    assert_eq!(names(folder.path()), ["pipe"]);
}

#[test]
fn work_under_nohup_outlives_its_terminal() {
    let folder = folder();
    // Not `sh`, which catches an interrupt itself: `started` would take it for the program.
    let mut command = Command::new("nohup");
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.arg(env!("CARGO_BIN_EXE_tanada"));
    command.args(["run", "stencil", "--size", "3000", "--repeat", "1000"]);
    let mut child = started(command);
    kill_process(Pid::from_child(&child), Signal::HUP).expect("it runs");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("it can be asked").is_none());
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(143), "{}", said.err);
}
