//! Results of a broadcast go from the workers to the caller, so they must be `Send`.
use std::rc::Rc;
use tanada_runtime::Pool;

fn main() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let parts = pool.broadcast(|_| Rc::new(1)).unwrap();
    drop(parts);
}
