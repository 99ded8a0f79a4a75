//! From parallel loops with a barrier behind each to tasks that wait for their neighbours.
//!
//! A ring of blocks is smoothed again and again. Each block of a sweep needs three blocks of the sweep before: so a barrier is more than it
//! has to wait for. The groups say that blocks of a few sweeps and neighbours share data.
//!
//! Run it with `cargo run -p tanada-examples --bin from_loops`.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use tanada_runtime::{Pool, SGroup, TGroup};

const BLOCKS: usize = 8;
const SWEEPS: usize = 16;

/// Returns the next values of the block `own` between two neighbours.
fn smooth(left: &[f64], own: &[f64], right: &[f64]) -> Vec<f64> {
    let at = |i: usize| match i {
        0 => left[left.len() - 1],
        i if i <= own.len() => own[i - 1],
        _ => right[0],
    };
    (1..=own.len())
        .map(|i| (at(i - 1) + at(i) + at(i + 1)) / 3.0)
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ring: [[OnceLock<Vec<f64>>; BLOCKS]; SWEEPS] = Default::default();
    for (b, block) in ring[0].iter().enumerate() {
        block.get_or_init(|| vec![b as f64; 10]);
    }

    let pool = Pool::builder().policy("ts-local").build()?;
    pool.scope(|s| {
        let mut before = Vec::new();
        for sweep in 1..SWEEPS {
            let (old, new) = (&ring[sweep - 1], &ring[sweep]);
            let blocks = (0..BLOCKS).map(|b| {
                let [left, right] = [b + BLOCKS - 1, b + 1].map(|b| b % BLOCKS);
                let near = [left, b, right].map(|b| before.get(b).copied());
                let task = s.task("smooth").after(near.into_iter().flatten());
                let task = task.groups(TGroup(1 + sweep as u32 / 4), SGroup(1 + b as u32));
                task.register(move |_| {
                    let block = |b: usize| old[b].get().expect("the task waited for it");
                    let values = smooth(block(left), block(b), block(right));
                    new[b].set(values).expect("set once");
                })
            });
            before = blocks.collect();
        }
    })?;

    let last = ring[SWEEPS - 1].iter().flat_map(OnceLock::get);
    let least = last.flatten().copied().fold(f64::INFINITY, f64::min);
    println!("the least value is {least:.6}");
    Ok(())
}
