//! Paper 5's *Cutoff*: threads only until there is one for each worker.

use crate::product::{Part, Product, Split};
use tanada_runtime::{Pool, fork, thread};

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    fork::install(pool, || {
        thread::scope(|scope| {
            scope.spawn(|| divide(product, &product.whole(), pool.workers()));
        });
    });
}

/// Runs a part on as many workers.
fn divide(product: &Product<'_>, part: &Part, workers: u16) {
    match product.split(part) {
        _ if workers <= 1 => product.run_serial(part),
        Split::Leaf => product.leaf(part),
        Split::Sequence(first, second) => {
            divide(product, &first, workers);
            divide(product, &second, workers);
        }
        Split::Parallel(first, second) => thread::scope(|scope| {
            let other = scope.spawn(|| divide(product, &second, workers / 2));
            divide(product, &first, workers - workers / 2);
            other.join().expect("no panic");
        }),
    }
}
