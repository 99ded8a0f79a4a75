//! `record -- PROGRAM` of programs that are built on the runtime: their tasks. The programs are this test's own: `#[ignore]`d tests, which
//! run in the emulator when they are recorded. If that is not installed, what needs it is skipped, and says so.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::{Said, bad, folder, good, run, said, started, tanada};
use tanada_runtime::{Pool, SGroup, TGroup, TemplateBuilder};
use tanada_trace::{Groups, Kind, Record, Trace};

/// Whether the emulator is installed. If not, the skip is recorded.
fn emulator() -> bool {
    let name = format!("qemu-{}", std::env::consts::ARCH);
    tanada_testing::program(&[&name], "qemu-user", "recording a program").is_some()
}

/// The arguments that record one of the programs below.
fn recording<'a>(output: &'a str, this: &'a str, program: &'a str) -> Vec<&'a str> {
    let options = ["record", "--fetch", "none", "-o", output, "--", this];
    let harness = ["--ignored", "--exact", program, "--test-threads=1"];
    [&options[..], &harness].concat()
}

fn record(folder: &Path, output: &str, program: &str) -> Said {
    let this = std::env::current_exe().expect("this program");
    let this = this.to_str().expect("test paths are text");
    run(folder, &recording(output, this, program))
}

/// A recording, with the questions that the tests ask.
struct Recorded(Trace);

impl Recorded {
    fn of(folder: &Path, program: &str) -> Recorded {
        let said = record(folder, "a.tnt", program);
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        Recorded(Trace::open(&folder.join("a.tnt"), &Groups::Plain).expect("a good trace"))
    }

    /// How many tasks of each name there are.
    fn names(&self) -> BTreeMap<&str, usize> {
        let mut names = BTreeMap::new();
        for task in 0..self.0.len() as u32 {
            *names.entry(self.0.name(task)).or_default() += 1;
        }
        names
    }

    /// The tasks of a name, in the order of their starts.
    fn named(&self, name: &str) -> Vec<u32> {
        let all = 0..self.0.len() as u32;
        all.filter(|task| self.0.name(*task) == name).collect()
    }

    /// Whether `later` cannot start before `earlier` has ended.
    fn ordered(&self, earlier: u32, later: u32) -> bool {
        let successors = self.0.successors(earlier);
        successors
            .iter()
            .any(|edge| edge.to() == later || self.ordered(edge.to(), later))
    }

    fn records(&self, task: u32) -> Vec<Record> {
        let mut reader = self.0.reader().expect("a reader");
        let mut cursor = reader.start(task);
        let (mut all, mut window) = (Vec::new(), Vec::new());
        loop {
            reader.fill(&mut cursor, &mut window).expect("good records");
            if window.is_empty() {
                return all;
            }
            all.append(&mut window);
        }
    }

    /// Cycles that a task computes: one an instruction.
    fn instructions(&self, task: u32) -> u64 {
        let records = self.records(task);
        let compute = records.iter().filter(|record| record.kind == Kind::Compute);
        compute.map(|record| record.value).sum()
    }
}

/// Work that no compiler can leave out: one read and one write of each word, `times` times.
fn toil(words: &[AtomicU64], times: u64) {
    for _ in 0..times {
        for word in words {
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

fn words(number: usize) -> Vec<AtomicU64> {
    (0..number).map(|_| AtomicU64::new(0)).collect()
}

/// A graph with edges of every kind: declared, to a task that has ended, by `depend`, by a resolve and by registration in a task.
#[test]
#[ignore = "a program that another test records"]
fn program_dynamic() {
    // Both are overridden: a recording has one worker and the policy `serial`.
    let pool = Pool::builder()
        .workers(3)
        .policy("random-steal")
        .build()
        .expect("a pool");
    assert_eq!((pool.workers(), pool.policy()), (1, "serial"));
    let data = words(64);
    let data = &data;
    pool.scope(|s| {
        let late = s
            .task("late")
            .count(1)
            .register(move |_| toil(&data[..8], 1));
        let first = s
            .task("first")
            .index(5)
            .groups(TGroup(2), SGroup(3))
            .register(move |s| {
                toil(data, 10);
                s.resolve(late).expect("it has a count");
                s.task("child").register(move |_| toil(data, 1));
            });
        let held = s.task("held").count(1).register(|_| ());
        let second = s.task("second").after([first]).register(move |s| {
            let third = s.task("third").after([first, late]);
            third.register(move |_| toil(data, 1));
            s.depend(held, late).expect("it has a count");
            s.resolve(held).expect("it has a count");
        });
        s.task("free").register(move |_| toil(data, 2));
        s.task("last").after([second, held]).register(|_| ());
    })
    .expect("a graph that ends");
    pool.scope(|s| {
        s.task("next").register(move |_| toil(data, 3));
    })
    .expect("a graph that ends");
}

#[test]
fn every_kind_of_dependency_is_recorded() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let recorded = Recorded::of(folder.path(), "program_dynamic");
    let expected = [
        "child", "first", "free", "held", "last", "late", "next", "second", "third",
    ];
    let mut names = recorded.names();
    assert_eq!(
        names.remove("wait"),
        Some(1),
        "one task joins the first graph"
    );
    assert_eq!(names, expected.map(|name| (name, 1)).into());
    let task = |name| recorded.named(name)[0];
    for (earlier, later) in [
        ("first", "late"),
        ("first", "child"),
        ("first", "second"),
        ("first", "third"),
        ("late", "third"),
        ("second", "third"),
        ("second", "held"),
        ("late", "held"),
        ("held", "last"),
        ("free", "next"),
        ("third", "next"),
        ("last", "next"),
    ] {
        assert!(
            recorded.ordered(task(earlier), task(later)),
            "{earlier} before {later}"
        );
    }
    for (one, other) in [("free", "first"), ("child", "late"), ("child", "second")] {
        let (a, b) = (task(one), task(other));
        assert!(
            !recorded.ordered(a, b) && !recorded.ordered(b, a),
            "{one} and {other}"
        );
    }
    let first = recorded.0.tasks()[task("first") as usize];
    assert_eq!((first.t, first.s), (2, 3));
    assert_eq!(recorded.0.hint(task("first"), "index"), Some("5"));
    // 64 words, 10 times, and little else.
    let records = recorded.records(task("first"));
    let writes = records
        .iter()
        .filter(|record| record.kind == Kind::Write && record.size == 8);
    let writes = writes.count();
    assert!((640..1200).contains(&writes), "{writes}");
    let instructions = recorded.instructions(task("first"));
    assert!((640..20_000).contains(&instructions), "{instructions}");
}

/// A template of two tasks that runs several times, once with room for two at a time.
#[test]
#[ignore = "a program that another test records"]
fn program_template() {
    let pool = Pool::builder().build().expect("a pool");
    let mut builder = TemplateBuilder::<Vec<AtomicU64>>::new();
    let one = builder.task("one", 0, |data, _| toil(data, 2));
    let two = builder.task("two", 0, |data, _| toil(data, 1));
    builder.edge(one, two).groups(two, TGroup(1), SGroup(4));
    let template = builder.build().expect("no cycle");
    let frames: Vec<_> = (0..3).map(|_| words(16)).collect();
    template
        .instance()
        .run_each(&pool, &frames)
        .expect("it runs");
    template
        .instances(2)
        .run_each(&pool, &frames)
        .expect("it runs");
}

#[test]
fn templates_are_recorded_run_by_run() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let recorded = Recorded::of(folder.path(), "program_template");
    assert_eq!(recorded.names(), [("one", 6), ("two", 6)].into());
    let (one, two) = (recorded.named("one"), recorded.named("two"));
    // In one room one run follows the other.
    for run in 0..2 {
        assert!(recorded.ordered(one[run], two[run]) && recorded.ordered(two[run], one[run + 1]));
    }
    // In two rooms the first two go on at once, and the third follows one of them; all follow the first call.
    assert!(recorded.ordered(two[2], one[3]) && recorded.ordered(two[2], one[4]));
    assert!(!recorded.ordered(one[3], two[4]) && !recorded.ordered(one[4], two[3]));
    assert!(recorded.ordered(two[3], one[5]) != recorded.ordered(two[4], one[5]));
    assert_eq!(
        recorded.0.tasks()[two[0] as usize].s,
        1,
        "groups of a template are dense"
    );
}

/// Tasks that run graphs of their own: on their own pool and on another.
#[test]
#[ignore = "a program that another test records"]
fn program_nested() {
    let pool = Pool::builder().build().expect("a pool");
    let other = Pool::builder().build().expect("a pool");
    // Enough words to make the engine's own accesses in the tasks few in comparison, in a release build, too.
    let data = words(8192);
    let (data, pool_again, other) = (&data, &pool, &other);
    pool.scope(|s| {
        s.task("outer").register(move |_| {
            toil(data, 4);
            pool_again
                .scope(|s| {
                    s.task("inner").register(move |_| toil(data, 2));
                    s.task("inner").register(move |_| toil(data, 2));
                })
                .expect("a graph that ends");
            toil(data, 8);
            let elsewhere = other.scope(|s| {
                s.task("foreign").register(move |_| toil(data, 1));
            });
            elsewhere.expect("a graph that ends");
            toil(data, 16);
        });
        s.task("beside").register(move |_| toil(data, 1));
    })
    .expect("a graph that ends");
}

#[test]
fn a_task_that_waits_for_a_graph_is_cut() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let recorded = Recorded::of(folder.path(), "program_nested");
    let names = [("beside", 1), ("foreign", 1), ("inner", 2), ("outer", 3)];
    assert_eq!(recorded.names(), names.into());
    let [outer, inner, foreign] = ["outer", "inner", "foreign"].map(|name| recorded.named(name));
    for inner in inner {
        assert!(recorded.ordered(outer[0], inner) && recorded.ordered(inner, outer[1]));
    }
    assert!(recorded.ordered(outer[1], foreign[0]) && recorded.ordered(foreign[0], outer[2]));
    let part = |at: usize| recorded.0.hint(outer[at], "part");
    assert_eq!([part(0), part(1), part(2)], [None, Some("2"), Some("3")]);
    // Each part has its own work: twice as much as the one before.
    let work = outer
        .iter()
        .map(|part| recorded.instructions(*part))
        .collect::<Vec<_>>();
    let one = recorded.instructions(recorded.named("beside")[0]);
    for (work, times) in work.iter().zip([4, 8, 16]) {
        let expected = one * times;
        assert!(
            (expected / 2..expected * 2).contains(work),
            "{work} is not about {expected}"
        );
    }
}

#[test]
fn the_same_program_produces_the_same_bytes() {
    if !emulator() {
        return;
    }
    let folder = folder();
    for program in ["program_dynamic", "program_nested"] {
        let bytes = ["a.tnb", "b.tnb"].map(|name| {
            let said = record(folder.path(), name, program);
            assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
            std::fs::read(folder.path().join(name)).expect("it was written")
        });
        assert!(bytes[0] == bytes[1], "{program}");
    }
}

/// A body that waits for a task of its own graph.
#[test]
#[ignore = "a program that another test records"]
fn program_waiting_body() {
    let pool = Pool::builder().build().expect("a pool");
    let (send, receive) = mpsc::channel();
    let got = pool.scope(|s| {
        s.task("sender")
            .register(move |_| send.send(7).expect("the receiver waits"));
        let got = receive.recv().expect("the task sends");
        s.task("after").register(|_| ());
        got
    });
    assert_eq!(got, Ok(7));
}

#[test]
fn a_body_may_wait_for_its_tasks() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let recorded = Recorded::of(folder.path(), "program_waiting_body");
    assert_eq!(recorded.names(), [("after", 1), ("sender", 1)].into());
}

#[test]
#[ignore = "a program that another test records"]
fn program_that_fails() {
    let pool = Pool::builder().build().expect("a pool");
    let ran = pool.scope(|s| {
        s.task("exits").register(|_| std::process::exit(3));
    });
    unreachable!("{ran:?}");
}

#[test]
#[ignore = "a program that another test records"]
fn program_without_end() {
    let pool = Pool::builder().build().expect("a pool");
    let data = words(64);
    let data = &data;
    let ran = pool.scope(|s| {
        s.task("endless").register(move |_| toil(data, u64::MAX));
    });
    unreachable!("{ran:?}");
}

#[test]
fn ctrl_c_ends_the_program_and_leaves_nothing() {
    if !emulator() {
        return;
    }
    let folder = folder();
    let this = std::env::current_exe().expect("this program");
    let this = this.to_str().expect("test paths are text");
    let child = started(tanada(
        folder.path(),
        &recording("a.tnb", this, "program_without_end"),
    ));
    // Some of it is recorded by then, or else nothing: both must end.
    std::thread::sleep(Duration::from_secs(3));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    // The pipes end when the emulator has ended, too.
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(130), "{}", said.err);
    let left: Vec<_> = folder.path().read_dir().expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "a program that another test records"]
fn program_without_pool() {
    let log = Mutex::new(String::new());
    writeln!(log.lock().expect("no panic"), "no pool here").expect("memory");
}

#[test]
fn what_cannot_be_recorded_is_reported() {
    let folder = folder();
    let here = folder.path();
    bad(here, &["record"], 2, &["h264", "-- PROGRAM"]);
    bad(
        here,
        &["record", "--", "./nowhere"],
        1,
        &["./nowhere", "no such program"],
    );
    let fetch = ["record", "--fetch", "48", "--", "true"];
    bad(here, &fetch, 2, &["power of two"]);
    std::fs::write(here.join("script"), "#!/bin/sh\nsleep 1000\n").expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(here.join("script"), mode).expect("our file");
    bad(
        here,
        &["record", "--", "./script"],
        1,
        &["./script: it is a script"],
    );
    std::fs::remove_file(here.join("script")).expect("our file");
    if !emulator() {
        return;
    }
    let this = std::env::current_exe().expect("this program");
    let words = recording("no/a.tnb", this.to_str().expect("text"), "program_template");
    bad(here, &words, 1, &["no/a.tnb"]);
    let said = record(here, "a.tnb", "program_without_pool");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("it made no pool"), "{}", said.err);
    let said = record(here, "a.tnb", "program_that_fails");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(
        said.err
            .contains("ended the process while other threads ran; no trace was written"),
        "{}",
        said.err
    );
    for option in ["--skip=1", "--take=1", "--from=1", "--to=1"] {
        let mut words = recording("a.tnb", this.to_str().expect("text"), "program_template");
        words.insert(1, option);
        bad(
            here,
            &words,
            2,
            &["recorded as a whole", &option[..option.len() - 2]],
        );
    }
    let left: Vec<_> = here.read_dir().expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
    // JSON alone on standard output.
    let mut words = recording("a.tnb", this.to_str().expect("text"), "program_template");
    words.insert(1, "--json");
    let told = good(here, &words);
    let told: serde_json::Value = serde_json::from_str(&told.out).expect("one JSON object");
    assert_eq!(told["tasks"], 12);
    assert!(told["dropped_accesses"].as_u64() > Some(0), "{told}");
}
