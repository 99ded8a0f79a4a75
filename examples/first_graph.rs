//! A task graph: each terrace is measured by a task of its own, and one more task waits for all of them.
//!
//! Run it with `cargo run -p tanada-examples --bin first_graph`.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use tanada_runtime::Pool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let terraces = [[3, 1, 4], [1, 5, 9], [2, 6, 5]]; // sheaves of rice on three fields each
    let harvest = [const { OnceLock::new() }; 3];
    let mut total = 0;

    let pool = Pool::builder().workers(2).build()?;
    pool.scope(|s| {
        let mut measured = Vec::new();
        for (terrace, sum) in terraces.iter().zip(&harvest) {
            let task = s.task("measure");
            measured.push(task.register(move |_| sum.set(terrace.iter().sum()).expect("set once")));
        }
        let add = s.task("add").after(measured);
        add.register(|_| total = harvest.iter().filter_map(OnceLock::get).sum::<u32>());
    })?;

    println!("the harvest is {total} sheaves");
    Ok(())
}
