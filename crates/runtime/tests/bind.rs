//! Workers run where `Bind` says.

use tanada_runtime::{Bind, Pool};

#[test]
fn workers_are_bound_as_asked() {
    let allowed = rustix::thread::sched_getaffinity(None)
        .expect("an affinity mask")
        .count();
    for (bind, bound) in [(Bind::Cpu, 1), (Bind::Off, allowed)] {
        let pool = Pool::builder()
            .workers(2)
            .bind(bind)
            .build()
            .expect("a pool");
        pool.scope(|s| {
            for _ in 0..20 {
                s.task("looks").register(move |_| {
                    let mask = rustix::thread::sched_getaffinity(None).expect("an affinity mask");
                    assert_eq!(mask.count(), bound, "{bind:?}");
                });
            }
        })
        .expect("a graph that ends");
    }
}
