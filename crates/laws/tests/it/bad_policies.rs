//! Policies that are wrong on purpose: each must be refused, and for the right reason. The same policy without its fault must pass.
//!
//! What no policy can do in safe code is left out: it can neither copy a [`Ready`] nor make one of a task that is not ready.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Mutex;

use tanada_laws::toy::{self, Idleness};
use tanada_laws::{Case, Graph, Promises, Violation, check, conforms};
use tanada_policy::{
    Dispatcher, Env, Hints, Origin, Placement, Ready, Site, Wake, WorkerId, registry,
};

/// What is wrong with a policy that calls itself fcfs. Without an override: nothing.
trait Fault: Send + Sync + 'static {
    /// Whether a task that became ready on a worker requests a wake-up.
    const WAKES: bool = true;
    /// Whether the newest task is taken instead of the oldest.
    const NEWEST_FIRST: bool = false;
    /// Which task, counted from 0 in the order in which they become ready, is forgotten.
    const DROPS: Option<usize> = None;
    /// Whether this worker is given tasks at all.
    fn serves(_worker: WorkerId) -> bool {
        true
    }
    /// The origin that is reported of a task.
    fn origin(_worker: WorkerId) -> Origin {
        Origin::Pool
    }
    /// What is said of whether there is a task, when there is one or not.
    fn says(has: bool) -> bool {
        has
    }
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Ready>,
    /// How many tasks became ready.
    seen: usize,
}

/// A queue with a lock and a fault.
struct Faulty<F> {
    queue: Mutex<Queue>,
    fault: PhantomData<F>,
}

impl<F: Fault> Faulty<F> {
    fn push(&self, task: Ready) {
        let mut queue = self.queue.lock().unwrap();
        if F::DROPS != Some(queue.seen) {
            queue.tasks.push_back(task);
        }
        queue.seen += 1;
    }
}

impl<F: Fault> Dispatcher for Faulty<F> {
    type Local = ();

    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let shared = Faulty {
            queue: Mutex::default(),
            fault: PhantomData,
        };
        (shared, site.placement.ids().map(|_| ()).collect())
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        self.push(task);
        env.wake(Wake::Anyone);
    }

    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.push(task);
        if F::WAKES {
            env.wake(Wake::Anyone);
        }
    }

    fn next<E: Env>(&self, _local: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
        if !F::serves(env.me()) {
            return None;
        }
        let tasks = &mut self.queue.lock().unwrap().tasks;
        let task = if F::NEWEST_FIRST {
            tasks.pop_back()
        } else {
            tasks.pop_front()
        };
        task.map(|task| (task, F::origin(env.me())))
    }

    fn may_have(&self, worker: WorkerId) -> bool {
        F::says(F::serves(worker) && !self.queue.lock().unwrap().tasks.is_empty())
    }
}

const WORKERS: u16 = 2;

/// A root that releases two tasks: while worker 0 runs the first, worker 1 should run the second.
fn fork() -> Graph {
    let mut graph = Graph::default();
    for _ in 0..3 {
        graph.add(Hints::default(), 1);
    }
    graph.edge(0, 1);
    graph.edge(0, 2);
    graph
}

/// The law that the policy breaks on the fork, if any. (A broken rule is no broken law: only [`verdict`] sees it.)
fn broken_law<F: Fault>(idleness: Idleness) -> Option<Violation> {
    let graph = fork();
    toy::run::<Faulty<F>>(&graph, &Placement::flat(WORKERS), 0, idleness)
        .and_then(|log| check(&graph, &log, Promises { greedy: true }))
        .err()
}

/// What [`conforms`] says of the policy on the fork, taken for fcfs.
fn verdict<F: Fault>(idleness: Idleness) -> Result<(), String> {
    let case = Case {
        graph: &fork(),
        placement: &Placement::flat(WORKERS),
        seed: 0,
        idleness,
    };
    let fcfs = registry::find("fcfs").expect("it is registered");
    conforms::<Faulty<F>>(fcfs, case)
}

/// `conforms` refuses the policy, and names this violation.
#[track_caller]
fn refused<F: Fault>(idleness: Idleness, violation: Violation) {
    assert_eq!(broken_law::<F>(idleness), Some(violation));
    let said = verdict::<F>(idleness).expect_err("the policy is wrong");
    assert!(said.contains(&violation.to_string()), "{said}");
}

const SECOND_IS_LEFT_LYING: Violation = Violation::IdleWhileReady {
    worker: WorkerId(1),
    task: 2,
};

#[test]
fn without_a_fault_it_conforms() {
    struct None;
    impl Fault for None {}
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        assert_eq!(verdict::<None>(idleness), Ok(()));
    }
}

#[test]
fn a_lost_wake_up_is_found_if_workers_sleep() {
    struct LosesWakes;
    impl Fault for LosesWakes {
        const WAKES: bool = false;
    }
    refused::<LosesWakes>(Idleness::Sleep, SECOND_IS_LEFT_LYING);
    // A worker that polls needs no wake-up: this is why the laws are tried both ways.
    assert_eq!(verdict::<LosesWakes>(Idleness::Poll), Ok(()));
}

#[test]
fn a_worker_that_idles_although_a_task_is_ready_is_found() {
    struct StarvesOthers;
    impl Fault for StarvesOthers {
        fn serves(worker: WorkerId) -> bool {
            worker == WorkerId(0)
        }
    }
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        refused::<StarvesOthers>(idleness, SECOND_IS_LEFT_LYING);
    }
}

#[test]
fn a_broken_order_keeps_the_laws_and_is_found_by_the_model() {
    struct NewestFirst;
    impl Fault for NewestFirst {
        const NEWEST_FIRST: bool = true;
    }
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        assert_eq!(broken_law::<NewestFirst>(idleness), None);
        let said = verdict::<NewestFirst>(idleness).expect_err("lcfs is not fcfs");
        assert!(
            said.contains("was given Some(2), the rule says Some(1)"),
            "{said}"
        );
    }
}

#[test]
fn a_forgotten_task_is_found() {
    struct DropsTheLast;
    impl Fault for DropsTheLast {
        const DROPS: Option<usize> = Some(2);
    }
    for idleness in [Idleness::Poll, Idleness::Sleep] {
        refused::<DropsTheLast>(idleness, Violation::Lost { left: 1, first: 2 });
    }
}

#[test]
fn a_theft_from_oneself_is_found() {
    struct StealsFromItself;
    impl Fault for StealsFromItself {
        fn origin(worker: WorkerId) -> Origin {
            Origin::Stolen(worker)
        }
    }
    let violation = Violation::WrongOrigin {
        task: 0,
        worker: WorkerId(0),
        origin: Origin::Stolen(WorkerId(0)),
    };
    refused::<StealsFromItself>(Idleness::Poll, violation);
}

#[test]
fn a_may_have_that_says_too_little_or_too_much_is_found() {
    struct Denies;
    impl Fault for Denies {
        fn says(_has: bool) -> bool {
            false
        }
    }
    struct Promises;
    impl Fault for Promises {
        fn says(_has: bool) -> bool {
            true
        }
    }
    let overlooked = Violation::Overlooked {
        worker: WorkerId(0),
        task: 0,
    };
    refused::<Denies>(Idleness::Sleep, overlooked);
    let sleepless = Violation::Sleepless {
        worker: WorkerId(1),
    };
    refused::<Promises>(Idleness::Sleep, sleepless);
}
