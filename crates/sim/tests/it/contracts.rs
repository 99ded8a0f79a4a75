//! Dispatchers that break their contract, and runs that take long.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use tanada_policy::{Access, Dispatcher, Env, Op, Origin, Ready, Site, WorkerId};
use tanada_sim::{Options, Outcome, SimError, machines, simulate, simulate_with};
use tanada_trace::{Groups, Trace};

/// The machines of both models.
const MACHINES: [&str; 2] = ["toshiba", "toshiba-board"];

fn trace(text: &str) -> Trace {
    let text = format!("tanada-trace 1\n{text}");
    Trace::parse(text.as_bytes(), "t.tnt", &Groups::Plain).expect("a sound trace")
}

fn run<D: Dispatcher>(trace: &Trace, machine: &str) -> Result<Outcome, SimError> {
    let machine = machines::find(machine).expect("it is registered");
    simulate_with::<D>(trace, &machine, "ours", &Options::default(), &mut ())
}

/// Returns the message of the panic of a run.
fn panic_of<D: Dispatcher>(trace: &Trace, machine: &str) -> String {
    let run = catch_unwind(AssertUnwindSafe(|| run::<D>(trace, machine)));
    let message = run.expect_err("the run panics");
    let text = message.downcast_ref::<&str>().map(|&text| text.to_owned());
    let text = text.or_else(|| message.downcast_ref::<String>().cloned());
    text.expect("the message is a text")
}

/// The queue of a dispatcher with one pool.
type Pool = Mutex<Vec<Ready>>;

fn pop(pool: &Pool) -> Option<(Ready, Origin)> {
    let ready = pool.lock().expect("no panic").pop();
    ready.map(|ready| (ready, Origin::Own))
}

/// Defines a dispatcher with one pool, of which `$keep` stores a ready task and `$next` returns the next one.
macro_rules! dispatcher {
    ($name:ident, $keep:expr, $next:expr) => {
        struct $name(Pool);

        impl Dispatcher for $name {
            type Local = ();
            fn build(site: &Site<'_>) -> (Self, Vec<()>) {
                let workers = usize::from(site.placement.workers());
                ($name(Pool::default()), vec![(); workers])
            }
            fn inject<E: Env>(&self, env: &mut E, task: Ready) {
                self.ready(&mut (), env, task);
            }
            fn ready<E: Env>(&self, _: &mut (), _: &mut E, task: Ready) {
                let keep: fn(&Pool, Ready) = $keep;
                keep(&self.0, task);
            }
            fn next<E: Env>(&self, _: &mut (), env: &mut E) -> Option<(Ready, Origin)> {
                let next: fn(&Pool, &mut E) -> Option<(Ready, Origin)> = $next;
                next(&self.0, env)
            }
            fn may_have(&self, _: WorkerId) -> bool {
                !self.0.lock().expect("no panic").is_empty()
            }
        }
    };
}

/// Tasks of runs that have ended.
static KEPT: Pool = Mutex::new(Vec::new());

fn put(pool: &Pool, task: Ready) {
    pool.lock().expect("no panic").push(task);
}

dispatcher!(Keeper, |_, task| put(&KEPT, task), |_, _| None);
dispatcher!(Reuser, put, |pool, _| pop(&KEPT).or_else(|| pop(pool)));
dispatcher!(Far, put, |pool, env| {
    env.charge(Op::Seat(WorkerId(60000), Access::Put));
    env.charge(Op::Seat(WorkerId::NONE, Access::Take));
    pop(pool)
});

#[test]
fn a_task_of_another_run_is_refused() {
    let free = trace("task 1\nx 9\ntask 2\nx 8\ntask 3\nx 3\n");
    let chain = trace("task 4\nx 9\ntask 5\nx 1\ntask 6\nx 3\ndep 4 5\ndep 5 6\n");
    let single = trace("task 1\nx 9\n");
    for machine in MACHINES {
        for (other, what) in [(&chain, "it waits"), (&single, "it does not exist")] {
            let stuck = run::<Keeper>(&free, machine);
            assert!(matches!(stuck, Err(SimError::Stuck { .. })), "{stuck:?}");
            let message = panic_of::<Reuser>(other, machine);
            assert!(message.contains("ready in this run"), "{what}: {message}");
            KEPT.lock().expect("no panic").clear();
        }
        // The same task twice: the kept one and its own.
        run::<Keeper>(&single, machine).expect_err("no task was handed out");
        let two = trace("task 1\nx 9\ntask 2\nx 9\ndep 1 2\n");
        let message = panic_of::<Reuser>(&two, machine);
        assert!(message.contains("ready in this run"), "{message}");
    }
}

#[test]
fn a_seat_of_no_worker_has_no_lock() {
    let tasks = trace("task 1\nx 9\ntask 2\nx 8\ndep 1 2\n");
    for machine in MACHINES {
        assert_eq!(run::<Far>(&tasks, machine).expect("it ends").tasks, 2);
    }
}

#[test]
fn a_task_that_computes_for_long_can_be_stopped() {
    let long = trace("task 1\nx 10000000000000000000\n");
    let board = machines::find("toshiba-board").expect("it is registered");
    let calls = Cell::new(0);
    let watch = |ended| {
        assert_eq!(ended, 0, "no task has ended");
        calls.set(calls.get() + 1);
        calls.get() < 3
    };
    let options = Options {
        watch: Some(&watch),
        ..Options::default()
    };
    let stopped = simulate(&long, &board, "fcfs", &options, &mut ());
    assert!(matches!(stopped, Err(SimError::Cancelled)), "{stopped:?}");
    assert_eq!(calls.get(), 3);
}
