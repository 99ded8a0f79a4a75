//! Templates that begin with many tasks: under policies that treat tasks alike, workers share these out among themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tanada_runtime::{Cancel, GraphError, NodeId, Pool, Recorder, Template, TemplateBuilder};

const ROOTS: usize = if cfg!(miri) { 70 } else { 1000 };

/// How often each task has run.
type Counts = Vec<AtomicUsize>;

fn counts(tasks: usize) -> Counts {
    (0..tasks).map(|_| AtomicUsize::new(0)).collect()
}

fn each_ran(counts: &Counts, times: usize) -> bool {
    counts
        .iter()
        .all(|count| count.load(Ordering::Relaxed) == times)
}

fn pools() -> impl Iterator<Item = Pool> {
    let policies = ["random-steal", "near-steal", "fcfs"];
    let settings = policies
        .into_iter()
        .flat_map(|policy| [1, 2, 16].map(|workers| (policy, workers)));
    settings.map(|(policy, workers)| {
        let pool = Pool::builder().workers(workers).policy(policy);
        pool.build().expect("a pool")
    })
}

fn add_root(builder: &mut TemplateBuilder<'_, Counts>, at: usize) -> NodeId {
    builder.task("root", at as u64, move |counts: &Counts, _| {
        counts[at].fetch_add(1, Ordering::Relaxed);
    })
}

fn flat() -> Template<'static, Counts> {
    let mut builder = TemplateBuilder::new();
    for at in 0..ROOTS {
        add_root(&mut builder, at);
    }
    builder.build().expect("no cycle")
}

#[test]
fn each_root_runs_once_a_run() {
    for pool in pools() {
        let template = flat();
        let mut instance = template.instances(2);
        let args = [(); 5].map(|()| counts(ROOTS));
        for times in 1..=3 {
            instance.run_each(&pool, &args).expect("runs that end");
            assert!(args.iter().all(|counts| each_ran(counts, times)));
        }
        // The same instance on a pool with more workers.
        let more = Pool::builder().workers(20).build().expect("a pool");
        instance.run(&more, &args[0]).expect("a run that ends");
        assert!(each_ran(&args[0], 4));
    }
}

/// The first task of each share runs until all others have ended, as long as another worker is there for them.
#[test]
fn no_root_waits_behind_one_that_runs() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let mut builder = TemplateBuilder::<AtomicUsize>::new();
    for at in 0..ROOTS {
        builder.task("root", at as u64, move |ended, _| {
            let start = Instant::now();
            while at == 0 && ended.load(Ordering::Relaxed) < ROOTS - 1 {
                assert!(start.elapsed() < Duration::from_secs(60), "some wait");
                std::thread::yield_now();
            }
            ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    let mut instance = builder.build().expect("no cycle").instance();
    for _ in 0..if cfg!(miri) { 1 } else { 50 } {
        let ended = AtomicUsize::new(0);
        instance.run(&pool, &ended).expect("a run that ends");
        assert_eq!(ended.into_inner(), ROOTS);
    }
}

/// Each root makes two tasks ready, and the last of all waits for them. (Few sinks: none is held back.)
#[test]
fn what_roots_make_ready_runs_behind_them() {
    for pool in pools() {
        let mut builder = TemplateBuilder::<Counts>::new();
        let roots: Vec<_> = (0..ROOTS).map(|at| add_root(&mut builder, at)).collect();
        let last = builder.task("last", 0, |counts: &Counts, _| {
            assert!(each_ran(&counts[..].iter().map(copy).collect(), 1));
        });
        for (at, root) in roots.into_iter().enumerate() {
            for side in [1, 2] {
                let place = side * ROOTS + at;
                let next = builder.task("next", place as u64, move |counts: &Counts, _| {
                    assert_eq!(counts[at].load(Ordering::Relaxed), 1);
                    counts[place].fetch_add(1, Ordering::Relaxed);
                });
                builder.edge(root, next).edge(next, last);
            }
        }
        let mut instance = builder.build().expect("no cycle").instance();
        for _ in 0..3 {
            let counts = counts(3 * ROOTS);
            instance.run(&pool, &counts).expect("a run that ends");
            assert!(each_ran(&counts, 1));
        }
    }
}

fn copy(count: &AtomicUsize) -> AtomicUsize {
    AtomicUsize::new(count.load(Ordering::Relaxed))
}

#[test]
fn panics_and_cancelled_runs_leave_the_instance_good() {
    for pool in pools() {
        let cancel = Cancel::new();
        let (panics, cancels) = (AtomicBool::new(true), AtomicBool::new(false));
        let mut builder = TemplateBuilder::<Counts>::new();
        for at in 0..ROOTS {
            let (panics, cancels, cancel) = (&panics, &cancels, &cancel);
            builder.task("root", at as u64, move |counts: &Counts, _| {
                let here = at == ROOTS / 2;
                assert!(!here || !panics.load(Ordering::Relaxed), "on purpose");
                if here && cancels.load(Ordering::Relaxed) {
                    cancel.cancel();
                }
                counts[at].fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut instance = builder.build().expect("no cycle").instance();
        let run = || instance.run(&pool, &counts(ROOTS));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        panics.store(false, Ordering::Relaxed);
        cancels.store(true, Ordering::Relaxed);
        let some = counts(ROOTS);
        match instance.run_with_cancel(&pool, &some, &cancel) {
            Err(error) => assert_eq!(error, GraphError::Cancelled),
            // The task that cancelled was the last.
            Ok(()) => assert!(each_ran(&some, 1)),
        }
        let counts = counts(ROOTS);
        instance.run(&pool, &counts).expect("a run that ends");
        assert!(each_ran(&counts, 1));
    }
}

/// Workers answer broadcasts between two roots, and several graphs go on at the same time.
#[test]
fn shares_give_way() {
    let pool = Pool::builder().workers(3).build().expect("a pool");
    let template = flat();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let runs = [(); 3].map(|()| {
            threads.spawn(|| {
                let mut instance = template.instance();
                let args = [(); 10].map(|()| counts(ROOTS));
                for _ in 0..if cfg!(miri) { 1 } else { 20 } {
                    instance.run_each(&pool, &args).expect("runs that end");
                }
                args
            })
        });
        let calls = threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(pool.broadcast(|_| 1).expect("answers").len(), 3);
                std::thread::yield_now();
            }
        });
        let times = if cfg!(miri) { 1 } else { 20 };
        for run in runs {
            let args = run.join().expect("no panic");
            assert!(args.iter().all(|counts| each_ran(counts, times)));
        }
        over.store(true, Ordering::Relaxed);
        calls.join().expect("no panic");
    });
}

#[test]
fn an_observer_sees_each_root() {
    let recorder = Recorder::all();
    let pool = Pool::builder().workers(2).observer(recorder.clone());
    let pool = pool.build().expect("a pool");
    let mut instance = flat().instance();
    instance.run(&pool, &counts(ROOTS)).expect("a run");
    let mut seen: Vec<_> = (recorder.take().tasks.iter())
        .map(|task| (task.name, task.index))
        .collect();
    seen.sort_unstable();
    assert!(
        seen.into_iter()
            .eq((0..ROOTS as u64).map(|at| ("root", at)))
    );
}

/// A run whose last task is no root and ends behind its only share begins the next one: with a share, which is no task to chain.
#[test]
fn a_task_that_ends_a_run_of_one_share_begins_the_next() {
    const FEW: usize = 16;
    let pool = Pool::builder().workers(3).build().expect("a pool");
    let mut builder = TemplateBuilder::<Counts>::new();
    for at in 0..FEW {
        let root = add_root(&mut builder, at);
        if at > 0 {
            continue;
        }
        // The share gives way to both, and another worker goes on with it.
        for place in [FEW, FEW + 1] {
            let late = builder.task("late", place as u64, move |counts: &Counts, _| {
                let start = Instant::now();
                let roots_ran = || {
                    counts[..FEW]
                        .iter()
                        .all(|count| count.load(Ordering::Relaxed) == 1)
                };
                while !roots_ran() && start.elapsed() < Duration::from_secs(60) {
                    std::thread::yield_now();
                }
                if !cfg!(miri) {
                    // Time for the share to end.
                    std::thread::sleep(Duration::from_millis(2));
                }
                counts[place].fetch_add(1, Ordering::Relaxed);
            });
            builder.edge(root, late);
        }
    }
    let mut instance = builder.build().expect("no cycle").instance();
    let args = [(); if cfg!(miri) { 4 } else { 40 }].map(|()| counts(FEW + 2));
    instance.run_each(&pool, &args).expect("runs that end");
    assert!(args.iter().all(|counts| each_ran(counts, 1)));
}
