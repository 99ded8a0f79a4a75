//! Regions: loops that run on as many workers as pays, which the pool finds out while the program runs. The long loop is worth all workers;
//! the short one is done sooner by one thread than other threads are woken.
//!
//! Run it with `cargo run --release -p tanada-examples --bin regions`; standard error has what was decided, and why.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use tanada_runtime::{Pool, Schedule};

const CELLS: usize = 100_000;
const STEPS: u32 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder().region_governor("predict").build()?;
    // Data of a thread, not of a task: every worker makes its own, once.
    let places =
        pool.broadcast(|member| format!("worker {} of {}", member.index(), member.count()))?;
    eprintln!("{}", places.join(", "));

    let cells: Vec<AtomicU32> = (0..CELLS as u32).map(AtomicU32::new).collect();
    let (grow, harvest) = (pool.region("grow"), pool.region("harvest"));
    let total = AtomicU64::new(0);
    for _ in 0..STEPS {
        grow.for_each(0..CELLS, Schedule::Static, |at| {
            let cell = &cells[at];
            cell.store(cell.load(Relaxed) * 5 % 4093, Relaxed);
        })?;
        harvest.for_each(0..16, Schedule::Static, |at| {
            total.fetch_add(u64::from(cells[at * CELLS / 16].load(Relaxed)), Relaxed);
        })?;
    }
    println!("harvested {} in {STEPS} steps", total.into_inner());

    for decision in pool.region_decisions() {
        eprintln!("{decision}");
    }
    for region in [grow, harvest] {
        let (name, confidence) = (region.name(), region.confidence());
        eprintln!("{name}: {}; confidence {confidence:.2}", region.why());
    }
    Ok(())
}
