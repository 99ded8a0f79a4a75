//! Templates: several at a time, nested, empty.

mod wavefront;

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tanada_laws::{Graph, model};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Dispatcher, Hints, Origin, Placement, WorkerId};
use tanada_runtime::{
    Observer, Pool, Recorder, SGroup, TGroup, TaskView, TemplateBuilder, WorkerObserver,
};
use wavefront::{COLUMNS, Grid, ROWS, expected, wavefront};

#[test]
fn instances_run_at_the_same_time() {
    let template = wavefront();
    let expected = expected();
    let pool = Pool::builder()
        .workers(4)
        .policy("fcfs")
        .build()
        .expect("a pool");
    std::thread::scope(|threads| {
        let runs = [(); 4].map(|()| {
            threads.spawn(|| {
                let mut instance = template.instance();
                for _ in 0..10 {
                    let grid: Grid = (0..ROWS * COLUMNS).map(|_| AtomicU64::new(0)).collect();
                    instance.run(&pool, &grid).expect("a run that ends");
                    assert!(
                        grid.iter()
                            .zip(&expected)
                            .all(|(cell, &sum)| cell.load(Ordering::Relaxed) == sum)
                    );
                }
            })
        });
        // One by one: how a scope of threads waits for all of them ThreadSanitizer does not see.
        for run in runs {
            run.join().expect("no panic");
        }
    });
}

#[test]
fn a_template_runs_inside_a_task() {
    let template = wavefront();
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let (template, pool_) = (&template, &pool);
    pool.scope(|s| {
        for _ in 0..4 {
            s.task("outer").register(move |_| {
                let grid: Grid = (0..ROWS * COLUMNS).map(|_| AtomicU64::new(0)).collect();
                template
                    .instance()
                    .run(pool_, &grid)
                    .expect("a run that ends");
                assert_eq!(grid[COLUMNS + 1].load(Ordering::Relaxed), 2);
            });
        }
    })
    .expect("a graph that ends");
}

#[test]
fn an_empty_template_ends_at_once() {
    let template = TemplateBuilder::<()>::new().build().expect("no cycle");
    let pool = Pool::builder().workers(1).build().expect("a pool");
    template
        .instance()
        .run(&pool, &())
        .expect("a run that ends");
}

#[test]
fn groups_are_renumbered_densely_and_keep_their_order() {
    let mut builder = TemplateBuilder::<()>::new();
    for (index, (t, s)) in [(30, 9), (0, 0), (7, 500), (30, 500)]
        .into_iter()
        .enumerate()
    {
        let id = builder.task("task", index as u64, |(), _| ());
        builder.groups(id, TGroup(t), SGroup(s));
    }
    let mut instance = builder.build().expect("no cycle").instance();
    let recorder = Recorder::all();
    let pool = Pool::builder()
        .workers(1)
        .observer(recorder.clone())
        .build()
        .expect("a pool");
    instance.run(&pool, &()).expect("a run that ends");
    let recorded = recorder.take();
    let groups = recorded.tasks.iter();
    let mut groups: Vec<_> = groups.map(|task| (task.index, task.t, task.s)).collect();
    groups.sort_unstable();
    assert_eq!(groups, [(0, 2, 1), (1, 0, 0), (2, 1, 2), (3, 2, 2)]);
}

fn grids(number: usize) -> Vec<Grid> {
    let grid = |_| (0..ROWS * COLUMNS).map(|_| AtomicU64::new(0)).collect();
    (0..number).map(grid).collect()
}

#[test]
fn every_argument_gets_one_run_whatever_the_policy_and_the_room() {
    let template = wavefront();
    let expected = expected();
    for entry in registry::native() {
        for (workers, rooms, runs) in [(1, 1, 5), (2, 2, 0), (2, 2, 1), (3, 2, 9), (4, 7, 20)] {
            let pool = Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .build()
                .expect("a pool");
            let mut instance = template.instances(rooms);
            for _ in 0..3 {
                let grids = grids(runs);
                instance.run_each(&pool, &grids).expect("runs that end");
                for grid in &grids {
                    let right = (grid.iter().zip(&expected))
                        .all(|(cell, &sum)| cell.load(Ordering::Relaxed) == sum);
                    assert!(right, "{} with {rooms} rooms", entry.name);
                }
            }
        }
    }
}

#[test]
fn runs_in_one_room_keep_the_order_of_their_arguments() {
    let seen = Mutex::new(Vec::new());
    let mut builder = TemplateBuilder::<usize>::new();
    let first = builder.task("first", 0, |&run, _| seen.lock().push(run));
    for index in 0..10 {
        let next = builder.task("next", index, |&run, _| {
            seen.lock().push(run);
        });
        builder.edge(first, next);
    }
    let pool = Pool::builder().workers(4).build().expect("a pool");
    let args: Vec<usize> = (0..50).collect();
    let template = builder.build().expect("no cycle");
    template
        .instance()
        .run_each(&pool, &args)
        .expect("runs that end");
    let expected: Vec<usize> = args.iter().flat_map(|&run| [run; 11]).collect();
    assert_eq!(*seen.lock(), expected);
}

#[test]
fn a_panic_leaves_out_the_runs_that_had_not_begun() {
    let ran = AtomicU64::new(0);
    let mut builder = TemplateBuilder::<usize>::new();
    let body = |&run: &usize, _| {
        assert!(run != 3, "run three");
        ran.fetch_add(1, Ordering::Relaxed);
    };
    builder.task("task", 0, body);
    let template = builder.build().expect("no cycle");
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let mut instance = template.instance();
    let args: Vec<usize> = (0..10).collect();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        instance.run_each(&pool, &args)
    }));
    let payload = outcome.expect_err("the panic of the task");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"run three"));
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    // Nothing of the failed call is left.
    instance.run_each(&pool, &args[..3]).expect("runs that end");
    assert_eq!(ran.load(Ordering::Relaxed), 6);
}

#[test]
fn bodies_are_dropped_once_with_the_last_of_template_and_instances() {
    let body = std::sync::Arc::new(());
    let mut builder = TemplateBuilder::<()>::new();
    for index in 0..100 {
        let body = std::sync::Arc::clone(&body);
        builder.task("task", index, move |(), _| {
            std::hint::black_box(&body);
        });
    }
    let template = builder.build().expect("no cycle");
    let mut instance = template.instances(2);
    drop(template);
    let pool = Pool::builder().workers(2).build().expect("a pool");
    instance.run_each(&pool, &[(); 5]).expect("runs that end");
    assert_eq!(std::sync::Arc::strong_count(&body), 101);
    drop(instance);
    assert_eq!(std::sync::Arc::strong_count(&body), 1);
}

#[test]
fn a_body_that_panics_in_its_drop_keeps_no_other_from_being_dropped() {
    struct Counted<'a>(&'a AtomicU64, bool);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(!self.1, "dropped");
        }
    }
    let dropped = AtomicU64::new(0);
    let mut builder = TemplateBuilder::<()>::new();
    for index in 0..4 {
        let body = Counted(&dropped, index == 1);
        builder.task("task", index, move |(), _| {
            std::hint::black_box(&body);
        });
    }
    let template = builder.build().expect("no cycle");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(template)));
    assert!(caught.is_err());
    assert_eq!(dropped.into_inner(), 4);
}

#[test]
fn a_task_with_many_successors_and_implied_dependencies_releases_each_once() {
    for fan in [1, 3, 4, 40] {
        let mut builder = TemplateBuilder::<AtomicU64>::new();
        let first = builder.task("first", 0, |sum, _| sum.store(1, Ordering::Relaxed));
        let middle: Vec<_> = (0..fan)
            .map(|index| {
                let body = |sum: &AtomicU64, _| {
                    assert!(sum.fetch_add(1, Ordering::Relaxed) > 0, "too early");
                };
                builder.task("middle", index, body)
            })
            .collect();
        let last = builder.task("last", 0, move |sum, _| {
            assert_eq!(sum.fetch_add(1, Ordering::Relaxed), 1 + fan, "too early");
        });
        for &middle in &middle {
            builder.edge(first, middle).edge(middle, last);
        }
        // Implied by the way through the middle, and one of them twice.
        builder.edge(first, last).edge(first, last);
        let template = builder.build().expect("no cycle");
        assert_eq!(template.edges() as u64, 2 * fan + 2);
        let pool = Pool::builder().workers(3).build().expect("a pool");
        let mut instance = template.instance();
        for _ in 0..20 {
            let sum = AtomicU64::new(0);
            instance.run(&pool, &sum).expect("a run that ends");
            assert_eq!(sum.into_inner(), fan + 2);
        }
    }
}

#[test]
fn as_many_runs_go_on_at_a_time_as_there_is_room_for() {
    let barrier = std::sync::Barrier::new(2);
    let mut builder = TemplateBuilder::<()>::new();
    builder.task("meets the other run's", 0, |(), _| {
        barrier.wait();
    });
    let template = builder.build().expect("no cycle");
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let mut instance = template.instances(2);
    instance.run_each(&pool, &[(); 6]).expect("runs that end");
}

/// The order in which one worker runs tasks 1 to 4, which one task releases and which are declared in this order, by the policy's model.
/// A policy that takes the newest first is handed the last declared first (`Dispatcher::NEWEST_FIRST`).
fn order_of_four(policy: &'static str) -> Vec<u64> {
    struct NewestFirst;
    impl Visitor for NewestFirst {
        type Out = bool;
        fn visit<D: Dispatcher>(self, _entry: &'static Entry) -> bool {
            D::NEWEST_FIRST
        }
    }
    let newest_first = registry::with(policy, NewestFirst).expect("the name is registered");
    let one = Placement::flat(1);
    let mut model = model(policy, &Graph::default(), &one, 0).expect("every policy has a model");
    let mut released = [1, 2, 3, 4];
    if newest_first {
        released.reverse();
    }
    for task in released {
        model.ready(WorkerId(0), task, Hints::default());
    }
    std::iter::from_fn(|| model.next(WorkerId(0))).collect()
}

#[test]
fn released_tasks_run_in_the_order_that_the_policy_s_rule_says() {
    assert_eq!(order_of_four("random-steal"), [1, 2, 3, 4], "program order");
    assert_eq!(order_of_four("lcfs"), [4, 3, 2, 1], "its rule");
    for entry in registry::native() {
        let seen = Mutex::new(Vec::new());
        let mut builder = TemplateBuilder::<()>::new();
        let first = builder.task("first", 0, |(), _| ());
        for index in 1..=4 {
            let seen = &seen;
            let body = move |&(): &(), _| seen.lock().push(index);
            let id = builder.task("next", index, body);
            builder.edge(first, id);
        }
        let pool = Pool::builder()
            .workers(1)
            .policy(entry.name)
            .build()
            .expect("a pool");
        let mut instance = builder.build().expect("no cycle").instance();
        instance.run(&pool, &()).expect("a run that ends");
        assert_eq!(*seen.lock(), order_of_four(entry.name), "{}", entry.name);
    }
}

/// A grid in which each task waits for its left and its upper neighbour, none of which another edge implies: so counts of 2.
#[test]
fn counts_are_right_again_after_a_run_that_failed_half_way() {
    const SIDE: usize = 8;
    let failing = std::sync::atomic::AtomicBool::new(true);
    let ran = [const { AtomicU64::new(0) }; SIDE * SIDE];
    let mut builder = TemplateBuilder::<()>::new();
    let mut ids = Vec::new();
    for at in 0..SIDE * SIDE {
        let (failing, ran) = (&failing, &ran);
        let neighbours = [
            (!at.is_multiple_of(SIDE)).then(|| at - 1),
            at.checked_sub(SIDE),
        ];
        let earlier: Vec<usize> = neighbours.into_iter().flatten().collect();
        let waits_for = earlier.clone();
        let id = builder.task("task", at as u64, move |(), _| {
            let fails = failing.load(Ordering::Relaxed);
            for &earlier in &waits_for {
                let sooner = ran[earlier].load(Ordering::Relaxed);
                assert!(
                    fails || sooner > ran[at].load(Ordering::Relaxed),
                    "{at} before {earlier}"
                );
            }
            assert!(!fails || at != SIDE * SIDE / 2 + SIDE / 2, "half way");
            ran[at].fetch_add(1, Ordering::Relaxed);
        });
        for earlier in earlier {
            builder.edge(ids[earlier], id);
        }
        ids.push(id);
    }
    let template = builder.build().expect("no cycle");
    for workers in [1, 3] {
        let pool = Pool::builder().workers(workers).build().expect("a pool");
        let mut instance = template.instance();
        for _ in 0..10 {
            failing.store(true, Ordering::Relaxed);
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| instance.run(&pool, &())));
            let payload = outcome.expect_err("the panic of the task");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"half way"));
            failing.store(false, Ordering::Relaxed);
            ran.iter().for_each(|ran| ran.store(0, Ordering::Relaxed));
            instance.run(&pool, &()).expect("a run that ends");
            instance.run(&pool, &()).expect("a run that ends");
            assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 2));
        }
    }
}

#[test]
fn runs_stop_when_they_are_cancelled() {
    let mut builder = TemplateBuilder::<tanada_runtime::Cancel>::new();
    builder.task("stops all", 0, |cancel: &tanada_runtime::Cancel, _| {
        cancel.cancel()
    });
    let template = builder.build().expect("no cycle");
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let cancel = tanada_runtime::Cancel::new();
    let args = vec![cancel.clone(); 1000];
    let outcome = template
        .instance()
        .run_each_with_cancel(&pool, &args, &cancel);
    assert_eq!(outcome, Err(tanada_runtime::GraphError::Cancelled));
}

/// What was told, of which task, and where the worker got that from.
type Event = (&'static str, u64, Option<Origin>);

/// What an observer is told of a chain, which its worker runs without asking the policy: in the order in which it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Event>>>);

impl Observer for Told {
    type Worker = Told;

    fn worker(&self, _worker: WorkerId) -> Told {
        self.clone()
    }
}

impl WorkerObserver for Told {
    fn start(&mut self, task: &TaskView, origin: Origin) {
        self.0.lock().push(("start", task.index, Some(origin)));
    }

    fn end(&mut self, task: &TaskView) {
        self.0.lock().push(("end", task.index, None));
    }
}

/// Ten tasks in a row, of which the fifth releases two more that nothing waits for: each is started and ended once, a body runs between the
/// two, and no task starts before the end of the one that it waits for was told.
#[test]
fn an_observer_is_told_of_each_task_of_a_chain() {
    const ROW: u64 = 10;
    for (policy, workers) in [("random-steal", 1), ("random-steal", 2), ("fcfs", 1)] {
        let told = Told::default();
        let pool = Pool::builder()
            .workers(workers)
            .policy(policy)
            .observer(told.clone());
        let pool = pool.build().expect("a pool");
        let mut builder = TemplateBuilder::<()>::new();
        let mut tasks = Vec::new();
        for at in 0..ROW + 2 {
            let log = told.clone();
            let body = move |&(): &(), _| log.0.lock().push(("body", at, None));
            tasks.push(builder.task("one", at, body));
            match at {
                0 => {}
                ROW.. => _ = builder.edge(tasks[5], tasks[at as usize]),
                _ => _ = builder.edge(tasks[at as usize - 1], tasks[at as usize]),
            }
        }
        let mut instance = builder.build().expect("no cycle").instance();
        instance.run_each(&pool, &[(); 3]).expect("runs that end");
        let told = std::mem::take(&mut *told.0.lock());
        assert_eq!(told.len() as u64, 3 * 3 * (ROW + 2), "{policy}");
        let place = |run: usize, what: &str, at: u64| {
            let mut found = (0..told.len()).filter(|&place| {
                let (said, index, _) = told[place];
                (said, index) == (what, at)
            });
            found.nth(run).expect("told in each run")
        };
        for run in 0..3 {
            for at in 0..ROW + 2 {
                let [start, body, end] = ["start", "body", "end"].map(|what| place(run, what, at));
                assert!(start < body && body < end, "{policy}: {told:?}");
                let before = match at {
                    0 => continue,
                    ROW.. => 5,
                    _ => at - 1,
                };
                assert!(place(run, "end", before) < start, "{policy}: {told:?}");
                if workers == 1 && policy == "random-steal" && at < 5 {
                    assert_eq!(told[start].2, Some(Origin::Handed), "{told:?}");
                }
            }
        }
    }
}
