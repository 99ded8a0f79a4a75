//! A scope must not be used by a task of another thread, nor kept.
use tanada_runtime::{Pool, Scope};

fn main() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut kept: Option<&Scope<'_>> = None;
    pool.scope(|s| {
        kept = Some(s);
    })
    .unwrap();
    drop(kept);
}
