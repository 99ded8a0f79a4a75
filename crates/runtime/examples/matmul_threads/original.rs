//! Paper 5's *Original*: a thread for each fork down to the leaves, and a thief takes the oldest of any worker.

use crate::product::{Part, Product, Split};
use tanada_runtime::{Pool, fork, thread};

/// Returns a pool without a scheduler.
pub(crate) fn pool(workers: u32) -> Pool {
    Pool::builder().workers(workers).build().expect("a pool")
}

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    fork::install(pool, || {
        thread::scope(|scope| {
            scope.spawn(|| divide(product, &product.whole(), 0));
        });
    });
}

/// Runs a part; the depth of a thread in the recursion is its hint.
pub(crate) fn divide(product: &Product<'_>, part: &Part, depth: u16) {
    match product.split(part) {
        Split::Leaf => product.leaf(part),
        Split::Sequence(first, second) => {
            divide(product, &first, depth + 1);
            divide(product, &second, depth + 1);
        }
        Split::Parallel(first, second) => thread::scope(|scope| {
            let other = thread::Builder::new().hint(depth + 1);
            let body = || divide(product, &second, depth + 1);
            let other = other.spawn_scoped(scope, body).expect("a stack");
            divide(product, &first, depth + 1);
            other.join().expect("no panic");
        }),
    }
}
