//! What goes wrong ends with a clear error within a second, on 1 and on 64 workers, under every policy.

mod twisted;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tanada_policy::central::{Arrival, Central, Rule};
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Site, Wake, WorkerId, registry};
use tanada_runtime::{
    BuildError, Cancel, GraphError, Pool, SGroup, TGroup, TemplateBuilder, TooLate,
};
use twisted::{Queue, Twist, Twisted};

fn within_a_second<R>(work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "took {:?}",
        start.elapsed()
    );
    result
}

fn for_all(check: impl Fn(&Pool)) {
    for entry in registry::native() {
        for workers in [1, 64] {
            let pool = Pool::builder()
                .workers(workers)
                .policy(entry.name)
                .build()
                .unwrap();
            within_a_second(|| check(&pool));
            // The pool is as good as before.
            let ran = AtomicUsize::new(0);
            pool.scope(|s| {
                (0..100).for_each(|_| {
                    s.task("after").register(|_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                })
            })
            .unwrap();
            assert_eq!(ran.into_inner(), 100);
        }
    }
}

#[test]
fn a_task_that_is_never_resolved_is_named() {
    for_all(|pool| {
        let error = pool
            .scope(|s| {
                let waits = s
                    .task("forgotten")
                    .index(3)
                    .count(2)
                    .register(|_| unreachable!("never resolved"));
                s.task("also")
                    .after([waits])
                    .register(|_| unreachable!("never resolved"));
                s.resolve(waits).unwrap();
            })
            .unwrap_err();
        let GraphError::Unresolved { tasks } = &error else {
            panic!("{error}")
        };
        assert_eq!(tasks.total(), 2);
        assert!(
            error.to_string().contains("forgotten[3]") && error.to_string().contains("also[0]"),
            "{error}"
        );
    });
}

#[test]
fn a_cycle_is_named() {
    for_all(|pool| {
        let error = pool
            .scope(|s| {
                let a = s
                    .task("hen")
                    .count(1)
                    .register(|_| unreachable!("waits for the egg"));
                let b = s
                    .task("egg")
                    .after([a])
                    .register(|_| unreachable!("waits for the hen"));
                s.depend(a, b).unwrap();
                s.resolve(a).unwrap();
            })
            .unwrap_err();
        assert!(
            matches!(&error, GraphError::Cycle { tasks } if tasks.total() == 2),
            "{error}"
        );
        assert!(
            error.to_string().contains("hen[0]") && error.to_string().contains("egg[0]"),
            "{error}"
        );
    });
    let mut builder = TemplateBuilder::<()>::new();
    let a = builder.task("hen", 0, |(), _| ());
    let b = builder.task("egg", 0, |(), _| ());
    builder.edge(a, b).edge(b, a);
    assert!(matches!(builder.build(), Err(GraphError::Cycle { .. })));
}

#[test]
fn a_resolve_too_many_is_an_error_of_the_call_and_of_the_graph() {
    for_all(|pool| {
        let error = pool
            .scope(|s| {
                let task = s.task("once").count(1).register(|_| ());
                s.resolve(task).unwrap();
                assert!(matches!(
                    s.resolve(task),
                    Err(GraphError::SurplusResolve { .. })
                ));
            })
            .unwrap_err();
        assert!(
            matches!(error, GraphError::SurplusResolve { .. }),
            "{error}"
        );
        // A count that stands for an edge is not to be had by `resolve`.
        let error = pool
            .scope(|s| {
                let first = s.task("first").count(1).register(|_| ());
                let second = s.task("second").after([first]).register(|_| ());
                assert!(s.resolve(second).is_err());
                s.resolve(first).unwrap();
            })
            .unwrap_err();
        assert!(error.to_string().contains("second[0]"), "{error}");
    });
}

#[test]
fn a_panic_reaches_the_thread_that_waits() {
    for_all(|pool| {
        let ran = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|s| {
                let bad = s.task("bad").register(|_| panic!("out of rice"));
                s.task("after").after([bad]).register(|_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
                s.task("held")
                    .count(1)
                    .register(|_| unreachable!("never resolved"));
            })
        }));
        assert_eq!(
            *result.unwrap_err().downcast_ref::<&str>().unwrap(),
            "out of rice"
        );
        assert_eq!(ran.into_inner(), 0);
    });
}

#[test]
fn a_panic_in_the_body_waits_for_the_tasks() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let (began, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.task("slow").register(|_| {
                began.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
                ended.fetch_add(1, Ordering::Relaxed);
            });
            while began.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            panic!("body");
        })
    }));
    assert_eq!(*result.unwrap_err().downcast_ref::<&str>().unwrap(), "body");
    assert_eq!(ended.into_inner(), 1);
}

#[test]
fn a_panic_in_a_nested_graph_passes_through_both() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let inner = &pool;
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.task("outer").register(move |_| {
                inner
                    .scope(|s| {
                        s.task("inner").register(|_| panic!("deep"));
                    })
                    .unwrap()
            });
        })
    }));
    assert_eq!(*result.unwrap_err().downcast_ref::<&str>().unwrap(), "deep");
}

#[test]
fn cancelling_drops_what_has_not_started() {
    for_all(|pool| {
        let cancel = Cancel::new();
        let ran = AtomicUsize::new(0);
        let (cancel_, ran_) = (&cancel, &ran);
        let error = pool
            .scope_with_cancel(&cancel, |s| {
                let mut before = s.task("first").register(move |_| cancel_.cancel());
                for _ in 0..100 {
                    before = s.task("chain").after([before]).register(move |_| {
                        ran_.fetch_add(1, Ordering::Relaxed);
                    });
                }
            })
            .unwrap_err();
        assert_eq!(error, GraphError::Cancelled);
        assert_eq!(ran.into_inner(), 0);
        let error = pool
            .scope(|s| {
                s.cancel();
                s.task("no").register(|_| unreachable!("cancelled"));
            })
            .unwrap_err();
        assert_eq!(error, GraphError::Cancelled);
    });
}

#[test]
fn a_template_passes_panics_on_and_runs_again() {
    let mut builder = TemplateBuilder::<bool>::new();
    let ran = AtomicUsize::new(0);
    let first = builder.task("first", 0, |&bad, _| assert!(!bad, "bad frame"));
    let second = builder.task("second", 0, |_, _| {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    builder.edge(first, second);
    let template = builder.build().unwrap();
    let mut instance = template.instance();
    for entry in registry::native() {
        let pool = Pool::builder()
            .workers(3)
            .policy(entry.name)
            .build()
            .unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| instance.run(&pool, &true))).is_err());
        assert_eq!(ran.swap(0, Ordering::Relaxed), 0);
        instance.run(&pool, &false).unwrap();
        assert_eq!(ran.swap(0, Ordering::Relaxed), 1);
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(
            instance.run_with_cancel(&pool, &false, &cancel),
            Err(GraphError::Cancelled)
        );
        instance.run(&pool, &false).unwrap();
        assert_eq!(ran.swap(0, Ordering::Relaxed), 1);
    }
}

/// Loses every task.
struct Lossy;

impl Dispatcher for Lossy {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        (Lossy, vec![(); usize::from(site.placement.workers())])
    }
    fn inject<E: Env>(&self, _env: &mut E, task: Ready) {
        drop(task);
    }
    fn ready<E: Env>(&self, _local: &mut (), _env: &mut E, task: Ready) {
        drop(task);
    }
    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        None
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        false
    }
}

#[test]
fn a_policy_that_loses_tasks_is_found_out() {
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Lossy>("lossy")
        .unwrap();
    let error = within_a_second(|| {
        pool.scope(|s| {
            s.task("lost").register(|_| ());
        })
        .unwrap_err()
    });
    assert!(
        matches!(&error, GraphError::PolicyLost { policy, .. } if policy == "lossy"),
        "{error}"
    );
    assert_eq!(pool.scope(|_| ()).unwrap_err(), error);
}

/// Hands tasks out in their order, but for those of T groups, which it keeps.
#[derive(Default)]
struct HoardsGroups(Vec<Ready>, std::collections::VecDeque<Ready>);

impl Rule for HoardsGroups {
    fn build(_site: &Site<'_>) -> Self {
        HoardsGroups::default()
    }
    fn ready(&mut self, task: Ready, arrival: Arrival) {
        match arrival.hints.t {
            0 => self.1.push_back(task),
            _ => self.0.push(task),
        }
    }
    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        self.1.pop_front()
    }
}

/// Workers that expect a task count as those that look for one whenever they come.
#[test]
fn tasks_that_were_lost_after_regular_ones_are_found_out() {
    for gap in [10, 100, 1_000].map(Duration::from_micros) {
        let pool = Pool::builder().workers(2);
        let pool = (pool.build_with::<Central<HoardsGroups>>("hoards-groups")).unwrap();
        for _ in 0..100 {
            let run = pool.scope(|s| _ = s.task("regular").register(|_| ()));
            run.expect("a graph that ends");
            tanada_testing::compute(gap);
        }
        let start = Instant::now();
        let lost = pool.scope(|s| {
            let kept = s.task("kept").groups(TGroup(1), SGroup(0));
            kept.register(|_| ());
        });
        let error = lost.unwrap_err();
        assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

/// Begins a graph on a pool when its thread ends.
struct AtExit(Pool, mpsc::Sender<Result<(), GraphError>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let done = self.0.scope(|s| {
            s.task("flush").register(|_| ());
        });
        self.1.send(done).expect("the test waits");
    }
}

thread_local! {
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// Loses the tasks whose user value is 1.
#[derive(Default)]
struct LosesOnes;

impl Twist for LosesOnes {
    fn inject(&self, queue: &Queue, env: &mut impl Env, task: Ready) {
        if env.hints(&task).user != 1 {
            queue.push(env, task);
        }
    }
}

#[test]
fn a_pool_that_ends_since_its_policy_loses_tasks_begins_no_graph() {
    let pool = Pool::builder().workers(2);
    let pool = pool.build_with::<Twisted<LosesOnes>>("loses-ones").unwrap();
    let (sender, receiver) = mpsc::channel();
    pool.scope(|s| {
        let pool = pool.clone();
        s.task("stays")
            .register(move |_| AT_EXIT.set(Some(AtExit(pool, sender))));
    })
    .expect("a graph that ends");
    let error = within_a_second(|| {
        pool.scope(|s| {
            let lost = s.task("lost").hints(Hints::default().with_user(1));
            lost.register(|_| ());
        })
        .unwrap_err()
    });
    assert_eq!(receiver.recv().expect("its thread has ended"), Err(error));
}

/// Takes tasks in and hands none out, and the pool around it goes on to say that it may have some.
struct Hoarder(Vec<Ready>);

impl Rule for Hoarder {
    fn build(_site: &Site<'_>) -> Self {
        Hoarder(Vec::new())
    }
    fn ready(&mut self, task: Ready, _arrival: Arrival) {
        self.0.push(task);
    }
    fn next(&mut self, _worker: WorkerId) -> Option<Ready> {
        None
    }
}

#[test]
fn a_policy_that_keeps_its_workers_searching_is_found_out() {
    for workers in [1, 4, 64] {
        let pool = Pool::builder()
            .workers(workers)
            .build_with::<Central<Hoarder>>("hoarder")
            .unwrap();
        let start = Instant::now();
        let error = pool
            .scope(|s| {
                s.task("kept").register(|_| ());
            })
            .unwrap_err();
        assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{workers} workers took {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn broadcasts_end_with_the_workers_of_a_pool_whose_tasks_were_lost() {
    let lossy = Pool::builder()
        .workers(2)
        .build_with::<Lossy>("lossy")
        .unwrap();
    let pool = &lossy;
    let parts = &AtomicUsize::new(0);
    let count = || parts.fetch_add(1, Ordering::Relaxed);
    std::thread::scope(|threads| {
        // Broadcasts keep the workers awake, but run no tasks. Pauses let the loss be found.
        let broadcasts = threads.spawn(move || {
            loop {
                let before = parts.load(Ordering::Relaxed);
                match pool.broadcast(|_| count()) {
                    Ok(_) => assert!(parts.load(Ordering::Relaxed) >= before + 2),
                    Err(error) => return error,
                }
                std::thread::sleep(Duration::from_millis(700));
            }
        });
        let error = pool.scope(|s| {
            s.task("lost").register(|_| ());
        });
        let error = error.unwrap_err();
        assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
        assert_eq!(broadcasts.join().unwrap(), error);
    });
    assert!(lossy.broadcast(|_| ()).is_err());
    assert!(lossy.region("lost").run(None, |_| ()).is_err());
}

#[test]
fn a_template_whose_tasks_were_lost_does_not_run_again() {
    let mut builder = TemplateBuilder::<()>::new();
    let first = builder.task("first", 0, |(), _| ());
    let second = builder.task("second", 0, |(), _| ());
    builder.edge(first, second);
    let mut instance = builder.build().unwrap().instance();
    let lossy = Pool::builder()
        .workers(1)
        .build_with::<Lossy>("lossy")
        .unwrap();
    let error = within_a_second(|| instance.run(&lossy, &()).unwrap_err());
    assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
    let good = Pool::builder().workers(1).build().unwrap();
    assert_eq!(instance.run(&good, &()), Err(error));
}

/// Takes the oldest task, and leaves half of the tasks that come together where they are.
struct Leaves(parking_lot::Mutex<std::collections::VecDeque<Ready>>);

impl Dispatcher for Leaves {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let locals = vec![(); usize::from(site.placement.workers())];
        (Leaves(Default::default()), locals)
    }
    const INJECTS_AT_ONCE: bool = true;
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.0.lock().push_back(task);
        env.wake(Wake::Anyone);
    }
    fn inject_all<E: Env>(&self, env: &mut E, tasks: &mut Vec<Ready>) {
        let half = tasks.len() / 2;
        for task in tasks.drain(half..) {
            self.inject(env, task);
        }
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        Some((self.0.lock().pop_front()?, Origin::Pool))
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.lock().is_empty()
    }
}

#[test]
fn a_policy_that_leaves_tasks_where_they_are_is_found_out() {
    for tasks in [2, 10_000] {
        let ran = AtomicUsize::new(0);
        let mut builder = TemplateBuilder::<()>::new();
        for at in 0..tasks {
            builder.task("task", at, |(), _| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut instance = builder.build().unwrap().instance();
        let leaves = Pool::builder()
            .workers(2)
            .build_with::<Leaves>("leaves")
            .unwrap();
        let error = within_a_second(|| instance.run(&leaves, &()).unwrap_err());
        assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
        assert_eq!(ran.load(Ordering::Relaxed) as u64, tasks / 2);
    }
}

/// Takes the oldest task, and loses those of T groups.
struct LosesGroups(parking_lot::Mutex<std::collections::VecDeque<Ready>>);

impl Dispatcher for LosesGroups {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let locals = vec![(); usize::from(site.placement.workers())];
        (LosesGroups(Default::default()), locals)
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        if env.hints(&task).t == 0 {
            self.0.lock().push_back(task);
            env.wake(Wake::Anyone);
        }
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        Some((self.0.lock().pop_front()?, Origin::Pool))
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.lock().is_empty()
    }
}

#[test]
fn a_run_that_failed_and_lost_tasks_as_well_does_not_run_again_either() {
    for panics in [true, false] {
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let mut builder = TemplateBuilder::<()>::new();
        let bad = builder.task("bad", 0, move |(), _| {
            assert!(!panics, "out of rice");
            stop.cancel();
        });
        let kept = builder.task("kept", 0, |(), _| ());
        builder.groups(kept, tanada_runtime::TGroup(1), tanada_runtime::SGroup(1));
        for earlier in [bad, kept] {
            let last = builder.task("last", 0, |(), _| ());
            builder.edge(earlier, last);
        }
        let mut instance = builder.build().unwrap().instance();
        let pool = Pool::builder()
            .workers(1)
            .build_with::<LosesGroups>("loses groups")
            .unwrap();
        let first = AssertUnwindSafe(|| instance.run_with_cancel(&pool, &(), &cancel));
        match catch_unwind(first) {
            Ok(outcome) => assert_eq!(outcome, Err(GraphError::Cancelled)),
            Err(payload) => assert_eq!(payload.downcast_ref(), Some(&"out of rice")),
        }
        let good = Pool::builder().workers(1).build().unwrap();
        let error = instance.run(&good, &()).unwrap_err();
        assert!(matches!(error, GraphError::PolicyLost { .. }), "{error}");
    }
}

#[test]
fn a_second_panic_whose_payload_panics_when_it_is_dropped_is_borne() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let pool = Pool::builder().workers(2).build().unwrap();
    let both = std::sync::Barrier::new(2);
    let run = AssertUnwindSafe(|| {
        pool.scope(|s| {
            for _ in 0..2 {
                s.task("bomb").register(|_| {
                    both.wait();
                    std::panic::panic_any(Bomb);
                });
            }
        })
    });
    std::mem::forget(catch_unwind(run).unwrap_err());
    pool.scope(|s| {
        s.task("after").register(|_| ());
    })
    .unwrap();
}

#[test]
fn a_token_of_a_pool_that_is_gone_is_a_surplus_resolve() {
    let gone = Pool::builder().workers(1).build().unwrap();
    let token = gone.scope(|s| s.task("gone").register(|_| ())).unwrap();
    drop(gone);
    let pool = Pool::builder().workers(1).build().unwrap();
    let error = pool.scope(|s| s.resolve(token).unwrap_err()).unwrap_err();
    assert!(error.to_string().contains("of another graph"), "{error}");
}

#[test]
fn a_count_too_large_is_refused_before_anything_is_registered() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let dropped = AtomicUsize::new(0);
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let counted = Counted(&dropped);
    let refused = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.task("too many")
                .count(u32::MAX)
                .register(move |_| drop(counted));
        })
    }));
    assert!(refused.is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    // Nothing of it is left for a later graph to stumble on.
    let error = pool
        .scope(|s| {
            s.task("waits").count(1).register(|_| ());
        })
        .unwrap_err();
    assert!(
        matches!(&error, GraphError::Unresolved { tasks } if tasks.total() == 1),
        "{error}"
    );
    assert_eq!(dropped.into_inner(), 1);
}

#[test]
fn a_closure_that_never_runs_is_dropped() {
    for_all(|pool| {
        let kept = std::sync::Arc::new(());
        // In the node, and in a box.
        let register = |s: &tanada_runtime::Scope<'_>, count| {
            let (small, large) = (kept.clone(), (kept.clone(), [0_u64; 20]));
            s.task("small").count(count).register(|_| drop(small));
            s.task("large").count(count).register(|_| drop(large));
        };
        let left = pool.scope(|s| register(s, 1)).unwrap_err();
        assert!(matches!(left, GraphError::Unresolved { .. }), "{left}");
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
        let cancelled = pool.scope(|s| {
            s.cancel();
            register(s, 0);
        });
        assert_eq!(cancelled, Err(GraphError::Cancelled));
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
    });
}

#[test]
fn it_is_too_late_to_wait_once_ready() {
    let pool = Pool::builder().workers(1).build().unwrap();
    pool.scope(|s| {
        let ready = s.task("ready").register(|_| ());
        let other = s.task("other").count(1).register(|_| ());
        assert_eq!(s.depend(ready, other), Err(TooLate));
        s.resolve(other).unwrap();
    })
    .unwrap();
}

#[test]
fn the_first_of_several_errors_is_reported() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let error = pool
        .scope(|s| {
            let task = s.task("once").register(|_| ());
            assert!(s.resolve(task).is_err());
            s.cancel();
        })
        .unwrap_err();
    assert!(
        matches!(error, GraphError::SurplusResolve { .. }),
        "{error}"
    );
}

#[test]
fn an_unresolved_nested_graph_is_the_task_s_error() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let inner = &pool;
    let error = AtomicUsize::new(0);
    pool.scope(|s| {
        s.task("outer").register(|_| {
            let result = inner.scope(|s| {
                s.task("inner").count(1).register(|_| ());
            });
            assert!(
                matches!(result, Err(GraphError::Unresolved { .. })),
                "{result:?}"
            );
            error.fetch_add(1, Ordering::Relaxed);
        });
    })
    .unwrap();
    assert_eq!(error.into_inner(), 1);
}

#[test]
#[should_panic(expected = "a token of another graph")]
fn a_token_of_another_graph_is_refused() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let token = pool.scope(|s| s.task("a").register(|_| ())).unwrap();
    let _ = pool.scope(|s| s.task("b").after([token]).register(|_| ()));
}

#[test]
fn a_policy_that_must_know_the_graph_is_refused_with_the_place_where_it_works() {
    let simulated = registry::all().iter().filter(|entry| entry.needs_prepared);
    for entry in simulated {
        let error = Pool::builder().policy(entry.name).build().unwrap_err();
        assert!(matches!(error, BuildError::NotNative(_)), "{error:?}");
        let place = format!("tanada sim TRACE --machine M --policy {}", entry.name);
        assert!(error.to_string().contains(&place), "{error}");
    }
}

#[test]
fn a_pool_that_makes_no_sense_is_refused_with_advice() {
    let refuse = |builder: tanada_runtime::PoolBuilder| builder.build().unwrap_err().to_string();
    assert!(refuse(Pool::builder().workers(0)).contains("1 to 1024"));
    assert!(refuse(Pool::builder().workers(100_000)).contains("1 to 1024"));
    let error = refuse(Pool::builder().policy("fastest"));
    for entry in registry::native() {
        assert!(error.contains(entry.name), "{error}");
    }
    assert!(matches!(
        Pool::builder().policy("fastest").build(),
        Err(BuildError::UnknownPolicy(_))
    ));
}

/// Panics while it is dropped, with a payload that panics while it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                panic!("the payload panics, too");
            }
        }
        std::panic::panic_any(Again);
    }
}

#[test]
fn tasks_that_never_ran_are_dropped_whatever_their_drops_do() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let pool = Pool::builder().workers(1).build().expect("a pool");
    let dropped = AtomicUsize::new(0);
    let (first, bomb, last) = (Counts(&dropped), Bomb, Counts(&dropped));
    let ending = pool.scope(|s| {
        s.task("first").count(1).register(move |_| drop(first));
        s.task("bomb").count(1).register(move |_| drop(bomb));
        s.task("last").count(1).register(move |_| drop(last));
    });
    assert!(matches!(&ending, Err(GraphError::Unresolved { tasks }) if tasks.total() == 3));
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    pool.scope(|s| _ = s.task("next").register(|_| ()))
        .expect("the pool goes on");
}

#[test]
fn a_main_that_returns_an_error_prints_its_message() {
    fn check(error: impl std::fmt::Debug + std::fmt::Display, words: &str) {
        let printed = format!("{error:?}");
        assert_eq!(printed, error.to_string());
        assert!(printed.contains(words), "{printed}");
    }
    const UNKNOWN: &str = "unknown policy \"fcsf\"; the policies are";
    let name = "fcsf".to_owned();
    check(tanada_policy::registry::UnknownPolicy { name }, UNKNOWN);
    check(
        tanada_policy::registry::NotNative::named("critical-path"),
        "critical-path",
    );
    check(GraphError::Cancelled, "the graph was cancelled");
    let failed = Pool::builder().policy("fcsf").build();
    let boxed: Box<dyn std::error::Error> = failed.expect_err("no such policy").into();
    check(boxed, UNKNOWN);
}
