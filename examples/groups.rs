//! Groups: hints by which tasks that share data meet in time or on one worker.
//!
//! Twelve tasks water four terraces of three fields. T groups say "run these close in time": here the fields of one day. S groups say "run
//! these on one worker": here the days of one terrace. The policy `ts` honours both as long as no worker would idle for it.
//!
//! Run it with `cargo run -p tanada-examples --bin groups`.
#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::time::Duration;
use tanada_runtime::{Pool, SGroup, TGroup};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let diary = Mutex::new(Vec::new());

    let pool = Pool::builder().workers(2).policy("ts").build()?;
    pool.scope(|s| {
        for terrace in 0..4 {
            for day in 0..3 {
                let task = s.task("water").groups(TGroup(1 + day), SGroup(1 + terrace));
                let diary = &diary;
                task.register(move |s| {
                    std::thread::sleep(Duration::from_millis(1)); // water takes its time
                    let worker = s.worker().expect("a task runs on a worker");
                    diary
                        .lock()
                        .expect("no task panics")
                        .push((worker, day, terrace));
                });
            }
        }
    })?;

    for (worker, day, terrace) in diary.into_inner()? {
        println!("worker {} on day {day}: terrace {terrace}", worker.index());
    }
    Ok(())
}
