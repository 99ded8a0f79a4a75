//! Child first: a new thread runs at once, and thieves take the rest of its parent, the oldest first.

use crate::product::{Part, Product, Split};
use tanada_runtime::thread::schedulers::ChildFirst;
use tanada_runtime::thread::{self, Builder, Scope, ScopedJoinHandle};
use tanada_runtime::{Pool, fork};

pub(crate) fn pool(workers: u32) -> Pool {
    let pool = Pool::builder().workers(workers);
    pool.thread_scheduler(ChildFirst).build().expect("a pool")
}

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    fork::install(pool, || {
        thread::scope(|scope| {
            let root = untied(scope, || divide(product, &product.whole()));
            root.join().expect("no panic");
        });
    });
}

/// Creates a thread that may go on with another worker: a parent moves when it is stolen.
#[allow(unsafe_code)]
fn untied<'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() + Send + 'scope,
) -> ScopedJoinHandle<'scope, ()> {
    // SAFETY: while a thread of `divide` waits, or creates another one, it holds references to the product and parts of it, which are
    // `Send`, and no lock; nothing on its stack refers to a variable of the OS thread.
    unsafe { Builder::new().spawn_scoped_untied(scope, body) }.expect("a stack")
}

fn divide(product: &Product<'_>, part: &Part) {
    match product.split(part) {
        Split::Leaf => product.leaf(part),
        Split::Sequence(first, second) => {
            divide(product, &first);
            divide(product, &second);
        }
        Split::Parallel(first, second) => thread::scope(|scope| {
            let child = untied(scope, || divide(product, &first));
            divide(product, &second);
            child.join().expect("no panic");
        }),
    }
}
