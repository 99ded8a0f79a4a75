//! Every registered policy under real threads: no task is lost or run twice, and a policy with an exact rule keeps it exactly.
#![allow(unsafe_code, reason = "handles of tasks that real threads pass around")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tanada_laws::{Event, Graph, Log, Promises, check, model, replay_pool};
use tanada_policy::central::{Central, Logged, Rule};
use tanada_policy::registry::{self, Entry, RuleVisitor, Visitor};
use tanada_policy::{Dispatcher, Env, Hints, Placement, Ready, Site, Wake, WorkerId, draw};

const SEED: u64 = 7;
/// A run that takes longer has lost a task.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a dispatcher sees of a worker thread. Workers poll, so wake-ups go nowhere.
struct ThreadEnv<'a> {
    me: WorkerId,
    graph: &'a Graph,
    placement: &'a Placement,
    draws: u64,
}

impl Env for ThreadEnv<'_> {
    fn me(&self) -> WorkerId {
        self.me
    }
    fn workers(&self) -> u16 {
        self.placement.workers()
    }
    fn distance(&self, a: WorkerId, b: WorkerId) -> u8 {
        self.placement.distance(a, b)
    }
    fn hints(&self, task: &Ready) -> Hints {
        self.graph.tasks()[number(task)].hints
    }
    fn random(&mut self) -> u64 {
        self.draws += 1;
        draw(SEED, self.me, self.draws - 1)
    }
    fn wake(&mut self, _whom: Wake) {}
}

fn number(task: &Ready) -> usize {
    task.handle() as usize - 1
}

fn ready(graph: &Graph, task: usize) -> Ready {
    // SAFETY: the handle is an index into a table; each task's dependency count reaches zero once, and this is called then.
    unsafe { Ready::new(task as u64 + 1, graph.tasks()[task].hints.digest()) }
}

/// Runs the graph with one thread a worker, and returns the log: starts and ends in an order that agrees with what each thread saw.
fn run<D: Dispatcher>(
    graph: &Graph,
    dispatcher: &D,
    locals: Vec<D::Local>,
    placement: &Placement,
) -> Log {
    let unresolved: Vec<AtomicUsize> = graph
        .dependency_counts()
        .into_iter()
        .map(AtomicUsize::new)
        .collect();
    let left = AtomicUsize::new(graph.len());
    let events = Mutex::new(Vec::new());
    let mut outside = ThreadEnv {
        me: WorkerId::NONE,
        graph,
        placement,
        draws: 0,
    };
    for task in (0..graph.len()).filter(|&task| unresolved[task].load(Ordering::Relaxed) == 0) {
        dispatcher.inject(&mut outside, ready(graph, task));
    }
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let workers = placement.ids().zip(locals).map(|(worker, mut local)| {
            let (unresolved, left, events) = (&unresolved, &left, &events);
            scope.spawn(move || {
                let mut env = ThreadEnv {
                    me: worker,
                    graph,
                    placement,
                    draws: 0,
                };
                let mut released = Vec::new();
                let mut got = None;
                while left.load(Ordering::Acquire) > 0 {
                    got = got.or_else(|| dispatcher.next(&mut local, &mut env));
                    let Some((task, origin)) = got.take() else {
                        let left = left.load(Ordering::Relaxed);
                        assert!(
                            begin.elapsed() < PATIENCE,
                            "{left} tasks are left and no worker finds them"
                        );
                        std::thread::yield_now();
                        continue;
                    };
                    let task = number(&task);
                    events.lock().push(Event::Start {
                        task,
                        worker,
                        origin,
                    });
                    events.lock().push(Event::End { task, worker });
                    for &to in &graph.tasks()[task].successors {
                        if unresolved[to].fetch_sub(1, Ordering::AcqRel) == 1 {
                            released.push(ready(graph, to));
                        }
                    }
                    got = dispatcher.turn(&mut local, &mut env, &mut released);
                    left.fetch_sub(1, Ordering::Release);
                }
                assert!(got.is_none(), "a task came out after all had run");
            })
        });
        let workers: Vec<_> = workers.collect();
        // One by one: how a scope of threads waits for all of them ThreadSanitizer does not see.
        for worker in workers {
            worker.join().expect("no panic");
        }
    });
    assert!(
        !placement.ids().any(|worker| dispatcher.may_have(worker)),
        "something is left in the queues"
    );
    Log {
        workers: placement.workers(),
        events: events.into_inner(),
    }
}

/// A grid as in video decoding: each task waits for its left and its upper neighbour. Groups as in paper 1, some tasks without.
fn wavefront(side: usize) -> Graph {
    let mut graph = Graph::default();
    for row in 0..side {
        for column in 0..side {
            let t = if row % 5 == 4 { 0 } else { 1 + row as u32 / 2 };
            graph.add(Hints::groups(t, column as u32 % 11), 1);
            let task = row * side + column;
            if column > 0 {
                graph.edge(task - 1, task);
            }
            if row > 0 {
                graph.edge(task - side, task);
            }
        }
    }
    graph
}

/// A root that releases everything at once: all workers meet at one queue.
fn fan(width: usize) -> Graph {
    let mut graph = Graph::default();
    let root = graph.add(Hints::default(), 1);
    for i in 0..width {
        let leaf = graph.add(Hints::groups(i as u32 % 7, i as u32 % 3), 1);
        graph.edge(root, leaf);
    }
    graph
}

#[test]
fn every_policy_runs_everything_once() {
    #[derive(Clone, Copy)]
    struct Run<'a>(&'a Graph, u16);
    impl Visitor for Run<'_> {
        type Out = ();
        fn visit<D: Dispatcher>(self, entry: &'static Entry) {
            let (placement, prepared) = (Placement::flat(self.1), self.0.prepared());
            let site = Site::new(&placement, SEED).knowing(&prepared);
            let (dispatcher, locals) = D::build(&site);
            let log = run(self.0, &dispatcher, locals, &placement);
            // Threads that run at once cannot say in one order when one idles (see `Log`), so no promise of greed can be tested here.
            if let Err(violation) = check(self.0, &log, Promises { greedy: false }) {
                panic!("{} on {} workers: {violation}", entry.name, self.1);
            }
        }
    }
    for workers in [2, 4, 8, 64] {
        for graph in [wavefront(120), fan(20_000)] {
            registry::for_each(Run(&graph, workers));
        }
    }
}

/// The record with the numbers of tasks instead of their handles.
fn numbered(mut record: Vec<Logged>) -> Vec<Logged> {
    for event in &mut record {
        match event {
            Logged::Ready { task, .. } => *task -= 1,
            Logged::Next { answer, .. } => *answer = answer.map(|handle| handle - 1),
        }
    }
    record
}

#[test]
fn exact_rules_hold_exactly() {
    #[derive(Clone, Copy)]
    struct Replay<'a>(&'a Graph);
    impl RuleVisitor for Replay<'_> {
        type Out = ();
        fn visit<R: Rule>(self, entry: &'static Entry) {
            let (placement, prepared) = (Placement::flat(8), self.0.prepared());
            let site = Site::new(&placement, SEED).knowing(&prepared);
            let (pool, locals) = Central::<R, Vec<Logged>>::build(&site);
            run(self.0, &pool, locals, &placement);
            let record = numbered(pool.take_record());
            let given = record
                .iter()
                .filter(|event| {
                    matches!(
                        event,
                        Logged::Next {
                            answer: Some(_),
                            ..
                        }
                    )
                })
                .count();
            assert_eq!(
                given,
                self.0.len(),
                "{}: the record is not complete",
                entry.name
            );
            let mut model = model(entry.name, self.0, &placement, SEED)
                .expect("every registered policy has a model");
            if let Err(what) = replay_pool(&record, model.as_mut()) {
                panic!("{}: {what}", entry.name);
            }
        }
    }
    let graph = wavefront(60);
    for entry in registry::all() {
        let visited =
            registry::with_rule(entry.name, Replay(&graph)).expect("the name is registered");
        assert_eq!(
            visited.is_some(),
            entry.exact,
            "{} is exact, and so has a rule that can be replayed",
            entry.name
        );
    }
}
