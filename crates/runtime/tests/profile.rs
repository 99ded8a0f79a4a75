//! Work and span of what a recorder saw, compared with the longest path that the test finds in the same times by its own knowledge of the
//! graph.

#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeMap;
use tanada_runtime::{Pool, Recorded, Recorder, TemplateBuilder};

/// Start and end of each task, by name and index, and in the order of the runs.
fn times(recorded: &Recorded) -> BTreeMap<(&'static str, u64), Vec<[u64; 2]>> {
    let mut tasks = recorded.tasks.clone();
    tasks.sort_by_key(|task| task.start_ns);
    let mut times: BTreeMap<_, Vec<[u64; 2]>> = BTreeMap::new();
    for task in tasks {
        let time = [task.start_ns, task.end_ns];
        times.entry((task.name, task.index)).or_default().push(time);
    }
    times
}

/// The time of a task that started behind all of `before`: some starts were not read, and may be too early.
fn time([start, end]: [u64; 2], before: impl Iterator<Item = u64>) -> u64 {
    end - before.fold(start, u64::max).min(end)
}

fn work(i: u64) {
    (0..1000 * (1 + i * 7 % 5)).for_each(|_| std::hint::spin_loop());
}

/// Recorders of all tasks share what they keep of dependencies, so this is one test.
#[test]
fn the_span_is_the_longest_path_of_tasks_that_must_follow_each_other() {
    for workers in [1, 2, 3] {
        let recorder = Recorder::all();
        let pool = Pool::builder().workers(workers).observer(recorder.clone());
        let pool = pool.build().expect("a pool");
        recorder.take();
        dynamic(&pool, &recorder);
        templates(&pool, &recorder);
        nested(&pool, &recorder);
        overlapping(&pool, &recorder);
    }
    let sums = Recorder::sums();
    let pool = Pool::builder()
        .workers(1)
        .observer(sums.clone())
        .build()
        .expect("a pool");
    pool.scope(|s| _ = s.task("one").register(|_| ()))
        .expect("a graph");
    assert_eq!(sums.take().profile(), None);
}

fn dynamic<O>(pool: &Pool, recorder: &O)
where
    O: std::borrow::Borrow<Recorder>,
{
    /// Task i waits for i - 2 and i - 3, and registers its child if it is even.
    const TASKS: u64 = 40;
    let mut lines = (0, 0);
    // Two graphs, one after the other: the nodes are used again.
    for _ in 0..2 {
        pool.scope(|s| {
            let mut tokens = Vec::new();
            for i in 0..TASKS {
                let before = [2, 3]
                    .into_iter()
                    .filter_map(|back| tokens.get((i as usize).checked_sub(back)?).copied());
                let task = s.task("task").index(i).after(before.collect::<Vec<_>>());
                lines.0 = line!() + 1;
                let token = task.register(move |s| {
                    work(i);
                    if i % 2 == 0 {
                        s.task("child").index(i).register(move |_| work(3 * i));
                    }
                });
                tokens.push(token);
            }
        })
        .expect("a graph");
    }
    lines.1 = lines.0 + 3;
    let recorded = recorder.borrow().take();
    let (times, profile) = (
        times(&recorded),
        recorded.profile().expect("all was recorded"),
    );
    let at = |name, i: usize, graph: usize| times[&(name, i as u64)][graph];
    let (mut base, mut work_ns) = (0, 0);
    for graph in 0..2 {
        let (mut ends, mut last): (Vec<u64>, _) = (Vec::new(), base);
        for i in 0..TASKS as usize {
            let before = [2, 3].into_iter().filter_map(|back| i.checked_sub(back));
            let begin = before.clone().map(|before| ends[before]);
            let begin = begin.fold(base, u64::max);
            let before = before.map(|before| at("task", before, graph)[1]);
            let ran = at("task", i, graph);
            let task = time(ran, before);
            ends.push(begin + task);
            last = last.max(ends[i]);
            work_ns += task;
            if i % 2 == 0 {
                let child = time(at("child", i, graph), [ran[1] - task].into_iter());
                last = last.max(begin + child);
                work_ns += child;
            }
        }
        base = last;
    }
    assert_eq!(profile.span_ns, base);
    assert_eq!(profile.tasks, 2 * (TASKS + TASKS / 2));
    assert_eq!(profile.work_ns, work_ns);
    // Ticks of the clock become nanoseconds by task here, and in one sum there.
    let all = recorded.tasks.iter();
    let all: u64 = all.map(|task| task.end_ns - task.start_ns).sum();
    assert!(all.abs_diff(recorded.totals.busy_ns) <= profile.tasks);
    assert_eq!(profile.path.iter().map(|part| part.ns).sum::<u64>(), base);
    for part in &profile.path {
        let line = part.line.expect("it is known");
        assert!(line.file().ends_with("profile.rs"));
        let wanted = if part.name == "task" {
            lines.0
        } else {
            lines.1
        };
        assert_eq!(line.line(), wanted, "{}", part.name);
    }
    assert_eq!(profile.bound_ns(1), profile.work_ns);
    assert!(profile.bound_ns(1000) >= profile.span_ns);
}

fn templates(pool: &Pool, recorder: &Recorder) {
    const RUNS: usize = 3;
    let mut builder = TemplateBuilder::<()>::new();
    let line = line!() + 2;
    let ids: Vec<_> = (0..30)
        .map(|i| builder.task("node", i, move |(), _| work(i)))
        .collect();
    for i in 0..30 {
        for later in [2 * i + 1, 2 * i + 2] {
            if later < 30 {
                builder.edge(ids[i], ids[later]);
            }
        }
    }
    let template = builder.build().expect("no cycle");
    // The second instance may get the memory of the first one.
    for _ in 0..2 {
        template
            .instance()
            .run_each(pool, &[(); RUNS])
            .expect("runs");
        let recorded = recorder.take();
        let (times, profile) = (
            times(&recorded),
            recorded.profile().expect("all was recorded"),
        );
        let at = |i: usize, run: usize| times[&("node", i as u64)][run];
        let (mut base, mut ended) = (0, 0);
        for run in 0..RUNS {
            let mut ends: Vec<u64> = Vec::new();
            for i in 0..30_usize {
                let before = i.checked_sub(1).map(|before| before / 2);
                let begin = before.map_or(base, |before| ends[before]);
                let before = before.map(|before| at(before, run)[1]).into_iter();
                ends.push(begin + time(at(i, run), before.chain([ended])));
            }
            base = ends.into_iter().max().expect("tasks");
            let all_ends = (0..30).map(|i| at(i, run)[1]);
            ended = all_ends.max().expect("tasks");
        }
        assert_eq!(profile.span_ns, base);
        assert_eq!(profile.tasks, 30 * RUNS as u64);
        assert_eq!(profile.path.len(), 1);
        assert_eq!(profile.path[0].tasks, 5 * RUNS as u64);
        assert_eq!(profile.path[0].line.map(|line| line.line()), Some(line));
    }
}

fn nested(pool: &Pool, recorder: &Recorder) {
    pool.scope(|s| {
        s.task("waits").register(|_| {
            pool.scope(|s| {
                (0..5).for_each(|i| _ = s.task("inner").index(i).register(move |_| work(i)))
            })
            .expect("a graph");
        });
    })
    .expect("a graph");
    let recorded = recorder.take();
    let profile = recorded.profile().expect("all was recorded");
    let [start, end] = times(&recorded)[&("waits", 0)][0];
    let whole = end - start;
    assert_eq!(
        (profile.tasks, profile.work_ns, profile.span_ns),
        (1, whole, whole)
    );
}

/// A thread outside that waits for a second graph while a first one of its own runs.
fn overlapping(pool: &Pool, recorder: &Recorder) {
    pool.scope(|s| {
        s.task("long").register(|_| (0..20).for_each(work));
        pool.scope(|s| _ = s.task("short").register(|_| work(1)))
            .expect("a graph");
    })
    .expect("a graph");
    let recorded = recorder.take();
    let profile = recorded.profile().expect("all was recorded");
    let all = recorded.tasks.iter();
    let all: u64 = all.map(|task| task.end_ns - task.start_ns).sum();
    assert_eq!((profile.tasks, profile.work_ns), (2, all));
}
