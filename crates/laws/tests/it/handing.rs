//! Where the policies without a shared pool get tasks from: what they would take anyway goes through no queue.
//!
//! A test that names a policy states the exact origins under its rule alone.

use tanada_laws::toy::{self, Idleness};
use tanada_laws::{Event, Graph, model};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Dispatcher, Hints, Origin, Placement, WorkerId};

/// The origins of all starts, in order.
struct Origins<'a>(&'a Graph, u16);

impl Visitor for Origins<'_> {
    type Out = Vec<(usize, Origin)>;
    fn visit<D: Dispatcher>(self, _entry: &'static Entry) -> Self::Out {
        let log = toy::run::<D>(self.0, &Placement::flat(self.1), 0, Idleness::Poll)
            .expect("the policy is lawful");
        let start = |event| match event {
            Event::Start { task, origin, .. } => Some((task, origin)),
            _ => None,
        };
        log.events.into_iter().filter_map(start).collect()
    }
}

fn origins(policy: &str, graph: &Graph, workers: u16) -> Vec<(usize, Origin)> {
    registry::with(policy, Origins(graph, workers)).expect("the name is registered")
}

/// Returns the order in which one worker runs a root and the tasks that it releases, by the model of `policy`.
fn order(policy: &str, graph: &Graph) -> Vec<usize> {
    let mut model = model(policy, graph, &Placement::flat(1), 0).expect("every policy has a model");
    let mut order = Vec::new();
    model.ready(WorkerId::NONE, 0, Hints::default());
    while let Some(task) = model.next(WorkerId(0)) {
        order.push(task as usize);
        for &next in &graph.tasks()[task as usize].successors {
            model.ready(WorkerId(0), next as u64, graph.tasks()[next].hints);
        }
    }
    order
}

/// A root that releases three tasks.
fn fork(hints: [Hints; 3]) -> Graph {
    let mut graph = Graph::default();
    graph.add(Hints::default(), 1);
    for hints in hints {
        let task = graph.add(hints, 1);
        graph.edge(0, task);
    }
    graph
}

#[test]
fn the_newest_released_task_is_handed_over_and_the_others_wait_in_the_deque() {
    let graph = fork([Hints::default(); 3]);
    let newest_first = |entry: &&Entry| order(entry.name, &graph) == [0, 3, 2, 1];
    let relaxed = registry::all().iter().filter(|entry| !entry.exact);
    let right = [
        (0, Origin::Pool),
        (3, Origin::Handed),
        (2, Origin::Own),
        (1, Origin::Own),
    ];
    let mut tested = 0;
    for policy in relaxed.filter(newest_first).map(|entry| entry.name) {
        assert_eq!(origins(policy, &graph, 1), right, "{policy}");
        tested += 1;
    }
    assert!(tested > 2, "only {tested} policies with deques");
}

#[test]
fn mail_to_oneself_is_handed_over_before_the_own_newest() {
    let graph = fork([Hints::groups(0, 1), Hints::groups(0, 1), Hints::default()]);
    let right = [
        (0, Origin::Pool),
        (1, Origin::Handed),
        (2, Origin::Mailbox),
        (3, Origin::Own),
    ];
    assert_eq!(origins("locality-steal", &graph, 1), right);
}

#[test]
fn mail_reaches_its_worker_and_the_rest_is_stolen() {
    // Worker 0 runs the root; tasks 1 and 2 are worker 1's, worker 2 finds only mail.
    let graph = fork([Hints::groups(0, 2), Hints::groups(0, 2), Hints::default()]);
    let right = [
        (0, Origin::Pool),
        (3, Origin::Handed),
        (1, Origin::Mailbox),
        (2, Origin::Stolen(WorkerId(1))),
    ];
    assert_eq!(origins("locality-steal", &graph, 3), right);
}

#[test]
fn with_cells_at_workers_the_first_of_the_same_groups_is_handed_over() {
    // Worker 0 runs the root, worker 1 a long task. S group 3 is worker 0's too; T group 2 has to wait.
    let mut graph = Graph::default();
    let root = graph.add(Hints::groups(1, 1), 1);
    graph.add(Hints::groups(1, 2), 100);
    for hints in [(2, 1), (1, 3), (1, 1)] {
        let task = graph.add(Hints::groups(hints.0, hints.1), 1);
        graph.edge(root, task);
    }
    let right = [
        (0, Origin::Own),
        (1, Origin::Own),
        (3, Origin::Handed),
        (4, Origin::Own),
        (2, Origin::Own),
    ];
    assert_eq!(origins("ts-local", &graph, 2), right);
}

#[test]
fn with_cells_at_workers_a_task_goes_to_its_s_group_s_worker() {
    let mut graph = Graph::default();
    let root = graph.add(Hints::groups(1, 1), 1);
    for (s, duration) in [(2, 1), (2, 1), (1, 10)] {
        let task = graph.add(Hints::groups(1, s), duration);
        graph.edge(root, task);
    }
    let right = [
        (0, Origin::Own),
        (3, Origin::Handed),
        (1, Origin::Own),
        (2, Origin::Own),
    ];
    assert_eq!(origins("ts-local", &graph, 2), right);
}

#[test]
fn an_s_group_that_was_taken_over_stays_with_its_thief() {
    // Worker 0 releases two tasks of its S group 1. Worker 1 has none and steals the second; what that one releases is of S group 1
    // too, and now worker 1's own.
    let mut graph = Graph::default();
    let root = graph.add(Hints::groups(1, 1), 1);
    for _ in 0..2 {
        let task = graph.add(Hints::groups(1, 1), 5);
        graph.edge(root, task);
    }
    let last = graph.add(Hints::groups(1, 1), 1);
    graph.edge(2, last);
    let right = [
        (0, Origin::Own),
        (1, Origin::Handed),
        (2, Origin::Stolen(WorkerId(0))),
        (3, Origin::Handed),
    ];
    assert_eq!(origins("ts-local", &graph, 2), right);
}
