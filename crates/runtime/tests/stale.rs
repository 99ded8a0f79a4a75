//! What is left of an earlier task or run touches no later one: tokens of ended tasks, and tickets of nested graphs that are over.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Site, WorkerId};
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

/// Bit n: worker 1 may take tasks whose `user` hint is n. Worker 0 takes the outer task only, whose number is [`OUTER`].
static OPEN: AtomicU64 = AtomicU64::new(0);
/// How many tasks worker 1 has taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// How often worker 1 has come for more.
static ASKED: AtomicUsize = AtomicUsize::new(0);

const OUTER: u64 = 63;

/// Keeps every task until it is told to give it out.
struct Holds(Mutex<Vec<(Ready, u64)>>);

impl Dispatcher for Holds {
    type Local = ();
    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let workers = usize::from(site.placement.workers());
        (Holds(Mutex::default()), vec![(); workers])
    }
    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        let user = env.hints(&task).user;
        self.0.lock().push((task, user));
        // `Anyone` may mean the worker that must not take it, which then searches in vain while the other one sleeps.
        let taker = WorkerId(u16::from(user != OUTER));
        env.wake(tanada_policy::Wake::This(taker));
    }
    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }
    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        let second = env.me() == WorkerId(1);
        let mut held = self.0.lock();
        let mine = |user: u64| match second {
            true => OPEN.load(SeqCst) >> user & 1 == 1,
            false => user == OUTER,
        };
        let at = held.iter().position(|&(_, user)| mine(user));
        if second {
            ASKED.fetch_add(1, SeqCst);
            TAKEN.fetch_add(usize::from(at.is_some()), SeqCst);
        }
        Some((held.remove(at?).0, Origin::Pool))
    }
    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.lock().is_empty()
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "waited for {what}"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_ticket_of_a_run_that_is_over_claims_no_task_of_the_next_run() {
    let hints = |user| Hints::default().with_user(user);
    let pool = Pool::builder()
        .workers(2)
        .build_with::<Holds>("holds")
        .expect("a pool");
    let (pool_, early) = (&pool, AtomicBool::new(false));
    let (early_, ran) = (&early, &AtomicBool::new(false));
    pool.scope(|s| {
        s.task("outer").hints(hints(OUTER)).register(move |_| {
            // Nobody else may take these: this worker runs them, and their tickets stay with the policy.
            let first = pool_.scope(|s| {
                for user in [10, 11] {
                    s.task("first run").hints(hints(user)).register(|_| ());
                }
            });
            first.expect("a graph that ends");
            let second = pool_.scope(|s| {
                s.task("holds the worker")
                    .hints(hints(20))
                    .register(move |_| {
                        // The tickets of the first run go to worker 1, which comes back when it is through with them.
                        OPEN.store(1 << 10 | 1 << 11, SeqCst);
                        wait_until("the old tickets", || TAKEN.load(SeqCst) == 2);
                        let asked = ASKED.load(SeqCst);
                        wait_until("worker 1", || ASKED.load(SeqCst) > asked + 1);
                        early_.store(ran.load(SeqCst), SeqCst);
                    });
                s.task("second run").hints(hints(21)).register(move |_| {
                    ran.store(true, SeqCst);
                });
            });
            second.expect("a graph that ends");
            // What is left of the second run may go.
            OPEN.store(u64::MAX >> 1, SeqCst);
            wait_until("the other tickets", || TAKEN.load(SeqCst) == 4);
        });
    })
    .expect("a graph that ends");
    assert!(ran.load(SeqCst));
    assert!(
        !early.into_inner(),
        "a ticket of the first run claimed a task of the second"
    );
}
