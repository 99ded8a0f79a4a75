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

#[test]
fn a_pool_made_in_a_task_sees_the_mask_of_the_process() {
    let mask = || rustix::thread::sched_getaffinity(None).expect("an affinity mask");
    let (allowed, inner) = (mask(), Pool::builder);
    let workers = inner().build().expect("a pool").workers();
    let pool = inner().workers(2).bind(Bind::Cpu).build().expect("a pool");
    pool.scope(|s| {
        s.task("makes a pool").register(move |_| {
            let bound = mask();
            let pool = inner().build().expect("a pool");
            assert_eq!(pool.workers(), workers);
            let free = inner().workers(1).bind(Bind::Off).build();
            free.expect("a pool")
                .scope(|s| {
                    s.task("looks")
                        .register(move |_| assert_eq!(mask(), allowed));
                })
                .expect("a graph that ends");
            assert_eq!(mask(), bound, "the worker is bound as before");
        });
    })
    .expect("a graph that ends");
}
