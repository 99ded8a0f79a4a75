//! A task must not borrow what ends with the scope's body.
use tanada_runtime::Pool;

fn main() {
    let pool = Pool::builder().workers(1).build().unwrap();
    pool.scope(|s| {
        let local = 7;
        s.task("escapes").register(|_| assert_eq!(local, 7));
    })
    .unwrap();
}
