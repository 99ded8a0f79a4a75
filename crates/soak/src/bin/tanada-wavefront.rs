//! A parallel program with a fixed amount of work, for measurements from outside: a wavefront as in video decoding, as a template that runs
//! again and again. `cargo xtask two-processes` starts it.

#![forbid(unsafe_code)]

use clap::Parser;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tanada_runtime::{Bind, Pool, SGroup, TGroup, TemplateBuilder};

/// Runs wavefronts of 120 x 68 tasks, each waiting for its left, its upper and its upper right neighbour.
#[derive(Parser)]
#[command(name = "tanada-wavefront")]
struct Arguments {
    /// Number of workers
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// How they are bound: auto, cpu, domain or off
    #[arg(long, default_value = "auto")]
    bind: Bind,
    /// The dispatcher
    #[arg(long, default_value = tanada_runtime::DEFAULT_POLICY)]
    policy: String,
    /// Number of wavefronts, one after the other
    #[arg(long, default_value_t = 200)]
    frames: u32,
    /// Rounds of arithmetic a task, about a nanosecond each
    #[arg(long, default_value_t = 500)]
    body: u32,
}

const COLUMNS: usize = 120;
const ROWS: usize = 68;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let body = arguments.body;
    let mut builder = TemplateBuilder::<()>::new();
    let mut ids = Vec::with_capacity(ROWS * COLUMNS);
    for at in 0..ROWS * COLUMNS {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let id = builder.task("macroblock", at as u64, move |(), _| {
            let sum = (0..u64::from(body)).fold(at as u64, |sum, round| black_box(sum ^ round));
            black_box(sum);
        });
        builder.groups(id, TGroup(1 + row as u32 / 2), SGroup(1 + row as u32));
        if column > 0 {
            builder.edge(ids[at - 1], id);
        }
        if row > 0 {
            builder.edge(ids[at - COLUMNS], id);
        }
        if row > 0 && column + 1 < COLUMNS {
            builder.edge(ids[at - COLUMNS + 1], id);
        }
        ids.push(id);
    }
    let pool = Pool::builder()
        .workers(arguments.workers)
        .bind(arguments.bind)
        .policy(&arguments.policy)
        .build()?;
    let mut instance = builder.build()?.instance();
    let mut best = Duration::MAX;
    for _ in 0..arguments.frames {
        let start = Instant::now();
        instance.run(&pool, &())?;
        best = best.min(start.elapsed());
    }
    println!("{} frames, the fastest in {best:?}", arguments.frames);
    Ok(())
}
