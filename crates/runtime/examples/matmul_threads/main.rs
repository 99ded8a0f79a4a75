//! The product of two matrices under five schedulers of lightweight threads, as in paper 5 (figures 6 and 7): a recursion that halves the
//! longest of three sides, in parallel if it is one of the result's.
//!
//! ```text
//! cargo run --release -p tanada-runtime --example matmul_threads           # all hardware threads
//! cargo run --release -p tanada-runtime --example matmul_threads -- 2 1536 # workers, rows
//! ```

mod child_first;
mod cutoff;
mod original;
mod product;
mod shallowest;
mod spread;

use product::{Matrix, Product};
use std::time::Instant;
use tanada_runtime::Pool;

/// Computes a product on a pool.
type Run = fn(&Pool, &Product<'_>);

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let mut next = |usual| words.next().map_or(usual, |word| word.expect("a number"));
    let workers =
        next(std::thread::available_parallelism().map_or(2, |number| number.get() as u32));
    let rows = next(768) as usize;
    let (a, b) = (Matrix::counting(rows, 1), Matrix::counting(rows, 2));
    let expected = Product::of(&a, &b).serial();
    let schedulers: [(&str, Run, Pool); 5] = [
        ("original", original::run, original::pool(workers)),
        ("cutoff", cutoff::run, original::pool(workers)),
        ("child-first", child_first::run, child_first::pool(workers)),
        ("shallowest", shallowest::run, shallowest::pool(workers)),
        ("spread", spread::run, original::pool(workers)),
    ];
    let mut best = [f64::INFINITY; 5];
    for _ in 0..5 {
        for ((_, run, pool), best) in schedulers.iter().zip(&mut best) {
            let product = Product::of(&a, &b);
            let start = Instant::now();
            run(pool, &product);
            *best = best.min(start.elapsed().as_secs_f64());
            assert!(product.result() == expected, "another product");
        }
    }
    let operations = 2.0 * (rows as f64).powi(3);
    for ((name, ..), seconds) in schedulers.iter().zip(best) {
        println!(
            "{name:<12} {seconds:.4} s  {:.1} GFLOP/s",
            operations / seconds / 1e9
        );
    }
}
