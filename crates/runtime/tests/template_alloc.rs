//! Templates allocate nothing after their first run. A program of its own, because it counts the allocations of all threads.

mod wavefront;

use std::sync::atomic::{AtomicU64, Ordering};
use tanada_policy::registry;
use tanada_runtime::Pool;
use tanada_testing::allocator::Counting;
use wavefront::{COLUMNS, Grid, ROWS, expected, wavefront};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[test]
fn a_template_computes_the_same_run_after_run_and_then_allocates_nothing() {
    let template = wavefront();
    let expected = expected();
    for entry in registry::native() {
        for workers in [1, 2, 16] {
            let pool = Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .build()
                .expect("a pool");
            let mut instance = template.instance();
            let grid: Grid = (0..ROWS * COLUMNS).map(|_| AtomicU64::new(0)).collect();
            let mut run = || {
                grid.iter()
                    .for_each(|cell| cell.store(u64::MAX, Ordering::Relaxed));
                instance.run(&pool, &grid).expect("a run that ends");
                assert!(
                    grid.iter()
                        .zip(&expected)
                        .all(|(cell, &sum)| cell.load(Ordering::Relaxed) == sum)
                );
            };
            // Queues grow to what the worst order so far needed; orders differ from run to run, so the least of many is looked at.
            let least = (0..30)
                .map(|_| {
                    let before = ALLOCATOR.allocations();
                    run();
                    ALLOCATOR.allocations() - before
                })
                .skip(1)
                .min();
            assert_eq!(least, Some(0), "{} on {workers} workers", entry.name);
        }
    }
}
