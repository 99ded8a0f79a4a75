//! Tasks run on several threads: what is not `Sync` must not be shared with them.
use std::cell::Cell;
use tanada_runtime::Pool;

fn main() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let cell = Cell::new(0);
    pool.scope(|s| {
        s.task("races").register(|_| cell.set(1));
    })
    .unwrap();
}
