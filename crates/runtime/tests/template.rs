//! Templates: several at a time, nested, empty.

mod wavefront;

use std::sync::atomic::{AtomicU64, Ordering};
use tanada_runtime::{Pool, Recorder, S, T, TemplateBuilder};
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
        for _ in 0..4 {
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
            });
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
        builder.groups(id, T(t), S(s));
    }
    let mut instance = builder.build().expect("no cycle").instance();
    let recorder = Recorder::all();
    let pool = Pool::builder()
        .workers(1)
        .observer(recorder.clone())
        .build()
        .expect("a pool");
    instance.run(&pool, &()).expect("a run that ends");
    let recorded = recorder.take("groups", "any", 1);
    let mut groups: Vec<_> = recorded
        .timeline
        .events
        .iter()
        .map(|event| (event.task, event.t, event.s))
        .collect();
    groups.sort_unstable();
    assert_eq!(groups, [(0, 2, 1), (1, 0, 0), (2, 1, 2), (3, 2, 2)]);
}
