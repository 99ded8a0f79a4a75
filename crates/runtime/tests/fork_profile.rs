//! What a `ForkRecorder` says of forks, beside what follows from the strands that it keeps.

#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeMap;
use std::hint::black_box;
use tanada_runtime::Pool;
use tanada_runtime::fork::{self, ForkProfile, ForkRecorder};

fn pool(workers: u32, recorder: &ForkRecorder) -> Pool {
    let builder = Pool::builder().workers(workers).record_forks(recorder);
    builder.build().expect("a pool")
}

/// A task of a trace and what waits for it.
#[derive(Default)]
struct Task {
    ns: u64,
    depth: u32,
    name: String,
    next: Vec<u64>,
    waits_for: usize,
}

/// Reads a trace as `docs/traces.md` describes it.
fn read(text: &str) -> BTreeMap<u64, Task> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("tanada-trace 1"));
    let mut tasks: BTreeMap<u64, Task> = BTreeMap::new();
    let mut last = 0;
    let number = |word: &str| word.parse::<u64>().expect("a number");
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["task", id, depth, name] => {
                last = number(id);
                let depth = depth.strip_prefix("depth=").expect("a depth");
                let task = Task {
                    depth: number(depth) as u32,
                    name: name.strip_prefix("name=").expect("a name").to_owned(),
                    ..Task::default()
                };
                assert!(tasks.insert(last, task).is_none(), "{last} is there twice");
            }
            ["x", ns] => tasks.get_mut(&last).expect("a task").ns += number(ns),
            ["fork" | "dep", from, to] => {
                let to = number(to);
                tasks.get_mut(&to).expect("declared").waits_for += 1;
                tasks
                    .get_mut(&number(from))
                    .expect("declared")
                    .next
                    .push(to);
            }
            _ => panic!("no line of a trace: {line}"),
        }
    }
    tasks
}

/// Returns work and span of a trace, by Kahn's algorithm. Panics if it has a cycle.
fn work_and_span(tasks: &BTreeMap<u64, Task>) -> (u64, u64) {
    let mut left: BTreeMap<u64, usize> = tasks.iter().map(|(id, t)| (*id, t.waits_for)).collect();
    let mut begins: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ready: Vec<u64> = left
        .iter()
        .filter(|(_, n)| **n == 0)
        .map(|(id, _)| *id)
        .collect();
    let (mut work, mut span, mut seen) = (0, 0, 0);
    while let Some(id) = ready.pop() {
        let task = &tasks[&id];
        let ends = begins.get(&id).copied().unwrap_or(0) + task.ns;
        (work, span, seen) = (work + task.ns, span.max(ends), seen + 1);
        for next in &task.next {
            let begin = begins.entry(*next).or_default();
            *begin = ends.max(*begin);
            let left = left.get_mut(next).expect("declared");
            *left -= 1;
            if *left == 0 {
                ready.push(*next);
            }
        }
    }
    assert_eq!(seen, tasks.len(), "a cycle");
    (work, span)
}

/// Runs `program` on pools of several sizes; the profile must be what follows from the trace. Returns the last profile and trace.
fn check(joins: u64, program: impl Fn() + Sync) -> (ForkProfile, BTreeMap<u64, Task>) {
    let mut last = None;
    for workers in [1, 2, 5] {
        let recorder = ForkRecorder::tracing();
        let pool = pool(workers, &recorder);
        for _ in 0..2 {
            fork::install(&pool, &program);
        }
        drop(pool);
        let profile = recorder.profile();
        let tasks = read(&recorder.trace().expect("it traces"));
        assert_eq!(work_and_span(&tasks), (profile.work_ns, profile.span_ns));
        assert_eq!(profile.joins, 2 * joins, "{workers} workers");
        let sums = |of: fn(&fork::OfPlace) -> u64| profile.places.iter().map(of).sum::<u64>();
        assert_eq!(sums(|of| of.work_ns), profile.work_ns);
        assert_eq!(sums(|of| of.span_ns), profile.span_ns);
        assert_eq!(sums(|of| of.joins), profile.joins);
        assert_eq!(sums(|of| of.stolen), profile.steals.values().sum::<u64>());
        last = Some((profile, tasks));
    }
    last.expect("several runs")
}

fn spin(rounds: u64) {
    for round in 0..rounds {
        black_box(round);
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = fork::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn joins() {
    let (_, tasks) = check(986, || assert_eq!(fib(15), 610));
    // Of both runs: the region, and of each join both closures and what follows.
    assert_eq!(tasks.len(), 2 * (1 + 3 * 986));
    assert_eq!(tasks.values().map(|task| task.depth).max(), Some(14));
    let forks = tasks
        .values()
        .filter(|task| task.name.rsplit("::").next() == Some("fib"));
    assert!(forks.count() >= 2 * 2 * 985, "{}", tasks[&1].name);
}

#[test]
fn an_uneven_shape_has_the_span_of_its_long_side() {
    // Independent of how fast the machine is: counts of rounds in place of times, as shares with a wide margin.
    const ROUNDS: u64 = 3_000_000;
    let (profile, _) = check(2, || {
        fork::join(
            || spin(6 * ROUNDS),
            || fork::join(|| spin(2 * ROUNDS), || spin(ROUNDS)),
        );
    });
    // 9 in all, 6 on the longest path; a worker that the system stops makes a strand longer, on either side.
    assert!(profile.span_ns < profile.work_ns);
    assert!(profile.bound_ns(1) == profile.work_ns && profile.bound_ns(1000) < profile.work_ns);
}

#[test]
fn scopes_and_spawned_closures() {
    check(7, || {
        fork::scope(|scope| {
            for task in 0..5 {
                scope.spawn(move |scope| {
                    spin(1000);
                    if task % 2 == 0 {
                        scope.spawn(|_| spin(500));
                    }
                    fork::join(|| spin(10), || spin(20));
                });
            }
            spin(100);
            fork::join(|| spin(10), || spin(20));
        });
        fork::scope_fifo(|scope| {
            scope.spawn_fifo(|_| {
                fork::join(|| spin(10), || spin(20));
            });
        });
    });
}

#[test]
fn a_panic_leaves_the_measuring_whole() {
    // Without a message.
    let panic_if = |wanted: bool| {
        if wanted {
            std::panic::resume_unwind(Box::new("a stranger's"));
        }
    };
    check(3, || {
        for side in 0..3 {
            let caught = std::panic::catch_unwind(|| {
                fork::join(|| panic_if(side != 1), || panic_if(side != 0))
            });
            assert!(caught.is_err());
        }
    });
}

#[test]
fn regions_of_one_thread_follow_each_other_and_those_of_several_do_not() {
    let recorder = ForkRecorder::tracing();
    let (one, other) = (pool(2, &recorder), pool(2, &recorder));
    std::thread::scope(|threads| {
        for pool in [&one, &other] {
            threads.spawn(move || {
                for _ in 0..3 {
                    fork::install(pool, || spin(10_000));
                }
            });
        }
    });
    // From one pool into the other.
    fork::install(&one, || {
        spin(1000);
        fork::install(&other, || fib(5));
        spin(1000);
    });
    drop((one, other));
    let profile = recorder.profile();
    let tasks = read(&recorder.trace().expect("it traces"));
    assert_eq!(work_and_span(&tasks), (profile.work_ns, profile.span_ns));
    let first = tasks.values().filter(|task| task.waits_for == 0);
    assert_eq!(first.count(), 3, "one a thread");
}

#[test]
fn what_nothing_waits_for_is_counted() {
    let recorder = ForkRecorder::new();
    let pool = pool(2, &recorder);
    for _ in 0..10 {
        fork::spawn_in(&pool, || _ = fib(5));
    }
    fork::broadcast_in(&pool, |_| spin(100));
    drop(pool);
    let profile = recorder.profile();
    assert_eq!(profile.joins, 10 * 7);
    assert!(profile.jobs >= 12 && profile.work_ns > 0 && profile.span_ns <= profile.work_ns);
    // Lines of spawned closures are known without debug information.
    let here = |line: &str| line.starts_with("crates/runtime/tests/fork_profile.rs:");
    let lines = profile.places.iter().map(|of| of.place.line.as_str());
    assert!(
        lines.filter(|line| here(line)).count() >= 2,
        "{:?}",
        profile.places
    );
    assert_eq!(recorder.trace(), None);
}

#[test]
fn plain_joins_are_part_of_what_is_around_them_if_asked_for() {
    let recorder = ForkRecorder::kept();
    let pool = pool(1, &recorder);
    fork::install(&pool, || assert_eq!(fib(20), 6765));
    drop(pool);
    let profile = recorder.profile();
    // On one worker, whom nobody asks for forks.
    assert!(
        profile.joins > 0 && profile.joins < 10_945,
        "{}",
        profile.joins
    );
}

#[test]
fn tasks_of_graphs_may_fork() {
    let recorder = ForkRecorder::tracing();
    let pool = pool(2, &recorder);
    pool.scope(|s| {
        for _ in 0..4 {
            s.task("forks").register(|_| _ = fib(6));
        }
    })
    .expect("a graph that ends");
    drop(pool);
    let profile = recorder.profile();
    let tasks = read(&recorder.trace().expect("it traces"));
    assert_eq!(profile.joins, 4 * 12);
    assert_eq!(work_and_span(&tasks), (profile.work_ns, profile.span_ns));
}
