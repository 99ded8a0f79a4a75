//! Work and span of what a recorder saw, compared with the longest path that the test finds in the same times by its own knowledge of the
//! graph.

#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeMap;
use tanada_runtime::{Pool, Recorded, Recorder, TemplateBuilder};

/// The time of each task, by name and index, and in the order of the runs.
fn times(recorded: &Recorded) -> BTreeMap<(&'static str, u64), Vec<u64>> {
    let mut tasks = recorded.tasks.clone();
    tasks.sort_by_key(|task| task.start_ns);
    let mut times: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for task in tasks {
        let time = task.end_ns - task.start_ns;
        times.entry((task.name, task.index)).or_default().push(time);
    }
    times
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
    let time = |name, i: usize, graph: usize| times[&(name, i as u64)][graph];
    let mut base = 0;
    for graph in 0..2 {
        let (mut begins, mut ends, mut last) = (Vec::new(), Vec::new(), base);
        for i in 0..TASKS as usize {
            let before = [2, 3]
                .into_iter()
                .filter_map(|back| ends.get(i.checked_sub(back)?));
            let begin = before.copied().fold(base, u64::max);
            begins.push(begin);
            ends.push(begin + time("task", i, graph));
            last = last.max(ends[i]);
            if i % 2 == 0 {
                last = last.max(begin + time("child", i, graph));
            }
        }
        base = last;
    }
    assert_eq!(profile.span_ns, base);
    assert_eq!(profile.tasks, 2 * (TASKS + TASKS / 2));
    // Ticks of the clock become nanoseconds by task here, and in one sum there.
    assert!(profile.work_ns.abs_diff(recorded.totals.busy_ns) <= profile.tasks);
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
        let time = |i: usize, run: usize| times[&("node", i as u64)][run];
        let mut base = 0;
        for run in 0..RUNS {
            let mut ends = Vec::new();
            for i in 0..30_usize {
                let begin = i.checked_sub(1).map_or(base, |before| ends[before / 2]);
                ends.push(begin + time(i, run));
            }
            base = ends.into_iter().max().expect("tasks");
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
    let whole = times(&recorded)[&("waits", 0)][0];
    assert_eq!(
        (profile.tasks, profile.work_ns, profile.span_ns),
        (1, whole, whole)
    );
}
