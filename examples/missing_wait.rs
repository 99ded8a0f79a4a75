//! A missing wait, and how it is found: a task starts others, and reads their results without waiting for them.
//!
//! With the argument `faulty` the wait is missing, and `tanada explore -- missing_wait faulty` finds a seed under which it goes wrong;
//! without it no seed fails.
//!
//! Run it with `cargo run -p tanada-examples --bin missing_wait -- faulty`.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tanada_runtime::Pool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let faulty = std::env::args().nth(1).as_deref() == Some("faulty");
    let pool = &Pool::builder().workers(2).build()?;
    let (counted, total) = (&AtomicU32::new(0), &AtomicU32::new(0));
    pool.scope(|s| {
        s.task("village").register(move |s| {
            if faulty {
                // As a rule the other worker is quick enough.
                (0..3).for_each(|i| {
                    _ = s
                        .task("count")
                        .index(i)
                        .register(|_| _ = counted.fetch_add(5, Relaxed))
                });
                std::thread::sleep(std::time::Duration::from_millis(5));
            } else {
                // A graph of its own, which the call waits for.
                let counts = pool.scope(|s| {
                    (0..3).for_each(|i| {
                        _ = s
                            .task("count")
                            .index(i)
                            .register(|_| _ = counted.fetch_add(5, Relaxed))
                    })
                });
                counts.expect("the graph ends");
            }
            total.store(counted.load(Relaxed), Relaxed);
        });
    })?;
    assert_eq!(total.load(Relaxed), 15, "people in the village");
    println!("all are counted");
    Ok(())
}
