//! What a recorder costs a task: the same graphs without a recorder, with one that keeps sums, and with one that keeps every task and its
//! dependencies.
//!
//! `cargo run --release -p tanada-runtime --example record_cost -- [WORKERS] [ROUNDS]`
//!
//! For each graph the least time of all rounds, in nanoseconds of wall time a task, and what the recorder adds. Bodies are empty. The
//! rounds of the three take turns.

use std::time::Instant;
use tanada_runtime::{Observer, Pool, Recorder, TemplateBuilder};

const COLUMNS: u64 = 120;
const ROWS: u64 = 68;
const FRAMES: usize = 5;
const DYNAMIC: u64 = 20_000;

fn pool<O: Observer>(workers: u32, observer: O) -> Pool {
    let pool = Pool::builder().workers(workers).observer(observer);
    pool.build().expect("a pool")
}

/// Returns nanoseconds a task.
fn wavefront(pool: &Pool) -> f64 {
    let mut builder = TemplateBuilder::<()>::new();
    let ids: Vec<_> = (0..COLUMNS * ROWS)
        .map(|at| builder.task("wave", at, |(), _| ()))
        .collect();
    for at in 0..(COLUMNS * ROWS) as usize {
        let columns = COLUMNS as usize;
        if at % columns > 0 {
            builder.edge(ids[at - 1], ids[at]);
        }
        if at >= columns && (at + 1) % columns > 0 {
            builder.edge(ids[at - columns + 1], ids[at]);
        }
    }
    let mut instance = builder.build().expect("no cycle").instance();
    instance.run(pool, &()).expect("a run");
    let start = Instant::now();
    instance.run_each(pool, &[(); FRAMES]).expect("runs");
    start.elapsed().as_nanos() as f64 / (FRAMES as u64 * COLUMNS * ROWS) as f64
}

/// Returns nanoseconds a task of a graph that one task registers, each task of which waits for the one before.
fn dynamic(pool: &Pool) -> f64 {
    let start = Instant::now();
    pool.scope(|s| {
        s.task("all").register(|s| {
            let mut last = None;
            for at in 0..DYNAMIC {
                last = Some(s.task("one").index(at).after(last).register(|_| ()));
            }
        });
    })
    .expect("a graph");
    start.elapsed().as_nanos() as f64 / DYNAMIC as f64
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"));
    let workers = numbers.next().unwrap_or(1);
    let rounds = numbers.next().unwrap_or(20);
    let (sums, all) = (Recorder::sums(), Recorder::all());
    let pools = [
        pool(workers, ()),
        pool(workers, sums.clone()),
        pool(workers, all.clone()),
    ];
    let names = ["none", "sums", "all"];
    for (name, graph) in [
        ("template", wavefront as fn(&Pool) -> f64),
        ("dynamic", dynamic),
    ] {
        let mut least = [f64::INFINITY; 3];
        for _ in 0..rounds {
            for (least, pool) in least.iter_mut().zip(&pools) {
                sums.take();
                all.take();
                *least = least.min(graph(pool));
            }
        }
        let cells = names.iter().zip(least);
        let cells = cells.map(|(name, ns)| format!("{name} {ns:.1} (+{:.1})", ns - least[0]));
        println!(
            "{name}, {workers} worker(s): {}",
            cells.collect::<Vec<_>>().join(", ")
        );
    }
}
