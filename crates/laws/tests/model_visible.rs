//! Under shuttle: no registered dispatcher ever has a task that no worker can see, not for a moment, while it moves from one of its queues
//! to another. A worker that is about to sleep asks `may_have` at any time; a `false` that overlooks a task would lose a wake-up.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-laws --release --test model_visible`.
#![allow(
    unsafe_code,
    reason = "handles of tasks that threads under a model checker pass around"
)]
#![cfg(shuttle)]

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Arc;
use shuttle::{Runner, thread};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{
    Dispatcher, Env, Hints, Placement, Prepared, Ready, Site, Wake, WorkerId, draw,
};

const WORKERS: u16 = 4;

/// A worker that sees the tasks of [`hints`].
struct Here(WorkerId, u64);

impl Env for Here {
    fn me(&self) -> WorkerId {
        self.0
    }
    fn workers(&self) -> u16 {
        WORKERS
    }
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        u8::from(a != b)
    }
    fn hints(&self, task: &Ready) -> Hints {
        hints(task.handle())
    }
    fn random(&mut self) -> u64 {
        self.1 += 1;
        draw(0, self.0, self.1)
    }
    fn wake(&mut self, _whom: Wake) {}
}

/// Tasks 1 to 5 belong to worker 0, in two T groups and T0; task 6 to no worker.
fn hints(task: u64) -> Hints {
    match task {
        6 => Hints::groups(1, 0),
        _ => Hints::groups(task as u32 % 3, 1),
    }
}

fn ready(task: u64) -> Ready {
    // SAFETY: no engine is involved; the handle is only read back, and each number is used once a run.
    unsafe { Ready::new(task, hints(task).digest()) }
}

/// Four tasks are inside before anything else happens. Worker 1 sends one more to worker 0, which releases one and takes two; worker 2
/// takes one. So there is always one left, and `may_have` must say so to worker 3.
fn always_one_left<D: Dispatcher>() {
    let placement = Placement::flat(WORKERS);
    let prepared = Prepared::of_graph(1, vec![1; 6], None, |_| None);
    let (dispatcher, mut locals) = D::build(&Site::new(&placement, 0).knowing(&prepared));
    let dispatcher = Arc::new(dispatcher);
    let mut env = Here(WorkerId(1), 0);
    for task in 1..=4 {
        dispatcher.ready(&mut locals[1], &mut env, ready(task));
    }
    let mut locals = locals.into_iter();
    let mut local = || locals.next().expect("one a worker");
    let (mut local_0, mut local_1, mut local_2) = (local(), local(), local());

    let here = Arc::clone(&dispatcher);
    let owner = thread::spawn(move || {
        let mut env = Here(WorkerId(0), 0);
        let first = here.turn(&mut local_0, &mut env, &mut vec![ready(6)]);
        let second = here.next(&mut local_0, &mut env);
        (local_0, [first, second])
    });
    let here = Arc::clone(&dispatcher);
    let sender = thread::spawn(move || {
        here.ready(&mut local_1, &mut Here(WorkerId(1), 10), ready(5));
        local_1
    });
    let here = Arc::clone(&dispatcher);
    let thief = thread::spawn(move || here.next(&mut local_2, &mut Here(WorkerId(2), 0)));
    for _ in 0..4 {
        // Worker 0, because under some policies no other worker is given a task.
        assert!(
            dispatcher.may_have(WorkerId(0)),
            "a task is queued and no worker can see it"
        );
    }

    let (mut local_0, taken) = owner.join().expect("no panic");
    let mut local_1 = sender.join().expect("no panic");
    let stolen = thief.join().expect("no panic");
    let mut tasks: Vec<u64> = taken
        .into_iter()
        .chain([stolen])
        .flatten()
        .map(|(task, _)| task.handle())
        .collect();
    let rest = std::iter::from_fn(|| {
        let mine = dispatcher.next(&mut local_0, &mut Here(WorkerId(0), 0));
        mine.or_else(|| dispatcher.next(&mut local_1, &mut Here(WorkerId(1), 0)))
    });
    tasks.extend(rest.map(|(task, _)| task.handle()));
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2, 3, 4, 5, 6]);
    assert!(!dispatcher.may_have(WorkerId(0)), "nothing is left");
}

/// One task is queued, and no worker takes it: two workers send more to the same place, and it may have to be moved for that.
fn the_first_is_moved<D: Dispatcher>() {
    let placement = Placement::flat(WORKERS);
    let prepared = Prepared::of_graph(1, vec![1; 6], None, |_| None);
    let (dispatcher, mut locals) = D::build(&Site::new(&placement, 0).knowing(&prepared));
    let dispatcher = Arc::new(dispatcher);
    dispatcher.ready(&mut locals[1], &mut Here(WorkerId(1), 0), ready(1));
    let mut senders = Vec::new();
    for (task, worker) in [(2, 2), (3, 1)] {
        let (here, mut local) = (Arc::clone(&dispatcher), locals.remove(worker));
        let mut env = Here(WorkerId(worker as u16), 10);
        senders.push(thread::spawn(move || {
            here.ready(&mut local, &mut env, ready(task));
            local
        }));
    }
    for _ in 0..3 {
        assert!(
            dispatcher.may_have(WorkerId(0)),
            "a task is queued and no worker can see it"
        );
    }
    let ended = senders.into_iter().map(|sender| sender.join());
    locals.extend(ended.map(|local| local.expect("no panic")));
    let mut tasks = Vec::new();
    for (local, worker) in locals.iter_mut().zip([0, 3, 2, 1]) {
        let mut env = Here(WorkerId(worker), 20);
        tasks.extend(std::iter::from_fn(|| dispatcher.next(local, &mut env)));
    }
    let mut tasks: Vec<u64> = tasks.into_iter().map(|(task, _)| task.handle()).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2, 3]);
}

#[derive(Clone, Copy)]
struct Try;

impl Visitor for Try {
    type Out = ();
    fn visit<D: Dispatcher>(self, entry: &'static Entry) {
        println!("{}", entry.name);
        for scenario in [always_one_left::<D>, the_first_is_moved::<D>] {
            run(RandomScheduler::new(5_000), scenario);
            run(PctScheduler::new(3, 5_000), scenario);
        }
    }
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    Runner::new(scheduler, shuttle::Config::default()).run(scenario);
}

#[test]
fn a_task_is_always_in_sight() {
    registry::for_each(Try);
}
