//! All workers run a broadcast's closure at the same time, so it must be `Sync`.
use std::cell::Cell;
use tanada_runtime::Pool;

fn main() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let count = Cell::new(0);
    pool.broadcast(|_| count.set(count.get() + 1)).unwrap();
}
