//! The policy that paper 5 tried: of four random victims, the one whose thread at the tail is the shallowest.

use crate::original;
use crate::product::Product;
use tanada_runtime::Pool;
use tanada_runtime::thread::schedulers::ShallowestOf;

/// Victims that a thief looks at.
const CANDIDATES: u32 = 4;

pub(crate) fn pool(workers: u32) -> Pool {
    let pool = Pool::builder().workers(workers);
    let scheduler = ShallowestOf::new(CANDIDATES);
    pool.thread_scheduler(scheduler).build().expect("a pool")
}

pub(crate) fn run(pool: &Pool, product: &Product<'_>) {
    original::run(pool, product);
}
