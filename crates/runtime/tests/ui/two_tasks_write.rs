//! Two tasks must not write the same value.
use tanada_runtime::Pool;

fn main() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut value = 0;
    pool.scope(|s| {
        s.task("one").register(|_| value += 1);
        s.task("two").register(|_| value += 1);
    })
    .unwrap();
}
