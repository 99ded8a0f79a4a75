//! The operation that paper 5's authors wished for: the parts are known before, and a set of threads is spread over all workers.

use crate::product::{Part, Product, Split};
use tanada_runtime::{Pool, fork, thread};

/// Threads for each worker.
const EACH: usize = 4;

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    fork::install(pool, || {
        thread::scope(|scope| {
            let create = |part: Part| {
                let body = move || product.run_serial(&part);
                thread::Builder::new()
                    .create_scoped(scope, body)
                    .expect("a stack")
            };
            let parts = parts(product, EACH * usize::from(pool.workers()));
            let (handles, threads): (Vec<_>, Vec<_>) = parts.into_iter().map(create).unzip();
            thread::spread(threads, 0..pool.workers());
            for handle in handles {
                handle.join().expect("no panic");
            }
        });
    });
}

/// Returns at least `number` parts that may run at the same time, or as many as there are; neighbours have much in common.
fn parts(product: &Product<'_>, number: usize) -> Vec<Part> {
    let mut parts = vec![product.whole()];
    while parts.len() < number {
        let before = parts.len();
        let halves = |part: Part| match product.split(&part) {
            Split::Parallel(first, second) => vec![first, second],
            Split::Sequence(..) | Split::Leaf => vec![part],
        };
        parts = parts.into_iter().flat_map(halves).collect();
        if parts.len() == before {
            break;
        }
    }
    parts
}
