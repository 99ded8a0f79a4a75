//! What is left of an earlier task touches no later one: tokens of ended tasks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use tanada_runtime::{GraphError, Pool, TooLate};

/// More than a worker keeps: every node that is free is used again.
const MANY: usize = 2000;

#[test]
fn a_token_of_an_ended_task_cannot_resolve_or_hold_the_task_that_has_its_place() {
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let (looked, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (looked_, ran_) = (&looked, &ran);
    let result = pool.scope(|s| {
        let ended = s.task("ended").count(1).register(|_| ());
        s.task("looks").after([ended]).register(move |s| {
            let other = s.task("other").count(1).register(|_| ());
            for _ in 0..MANY {
                s.task("in its place").count(1).register(move |_| {
                    ran_.fetch_add(1, SeqCst);
                });
            }
            assert_eq!(s.depend(ended, other), Err(TooLate));
            let error = s.resolve(ended).expect_err("it has ended");
            assert!(error.to_string().contains("that has ended"), "{error}");
            looked_.store(true, SeqCst);
        });
        s.resolve(ended).expect("its count");
    });
    assert!(looked.into_inner());
    assert!(
        matches!(result, Err(GraphError::SurplusResolve { .. })),
        "{result:?}"
    );
    assert_eq!(ran.into_inner(), 0);
}
