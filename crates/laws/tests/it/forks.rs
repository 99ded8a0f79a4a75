//! The fork policies as dispatchers of tasks: the laws, on small graphs and on random ones.

use tanada_laws::toy::{self, Idleness};
use tanada_laws::{Graph, Promises, check};
use tanada_policy::forks;
use tanada_policy::registry::{Entry, Visitor};
use tanada_policy::{Dispatcher, Hints, Placement, draw};

struct Lawful<'a> {
    graph: &'a Graph,
    workers: u16,
    idleness: Idleness,
}

impl Visitor for Lawful<'_> {
    type Out = ();
    fn visit<D: Dispatcher>(self, entry: &'static Entry) {
        let Lawful {
            graph,
            workers,
            idleness,
        } = self;
        let blame = |what: String| {
            panic!(
                "{}, {workers} workers, {idleness:?}: {what}\n{graph:#?}",
                entry.name
            )
        };
        let log = toy::run::<D>(graph, &Placement::flat(workers), 3, idleness);
        let log = log.unwrap_or_else(|violation| blame(violation.to_string()));
        let promises = Promises {
            greedy: entry.greedy,
        };
        if let Err(violation) = check(graph, &log, promises) {
            blame(violation.to_string());
        }
    }
}

fn lawful(graph: &Graph) {
    for entry in forks::all() {
        for workers in [1, 2, 3] {
            for idleness in [Idleness::Poll, Idleness::Sleep] {
                let case = Lawful {
                    graph,
                    workers,
                    idleness,
                };
                forks::with(entry.name, case).expect("it is listed");
            }
        }
    }
}

#[test]
fn all_small_graphs() {
    for tasks in 0..=5 {
        for set in Graph::reduced_edge_sets(tasks) {
            let mut graph = Graph::default();
            for task in 0..tasks {
                // Some are below the depth at which `cutoff` ends.
                let hints = Hints::default().with_depth(3 * task as u32);
                graph.add(hints, 1 + task as u64 % 3);
            }
            graph.set_edges(set);
            lawful(&graph);
        }
    }
}

/// Returns a source of random numbers below the one that it is called with.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut draws = 0;
    move |most| {
        draws += 1;
        draw(seed, tanada_policy::WorkerId(0), draws) % most
    }
}

#[test]
fn random_graphs() {
    for seed in 0..60 {
        let mut below = numbers(seed);
        let mut graph = Graph::default();
        for task in 0..40 {
            let hints = Hints::default()
                .with_depth(below(12) as u32)
                .with_footprint(below(3) * 3000);
            graph.add(hints, below(9));
            for _ in 0..below(4).min(task) {
                graph.edge(below(task) as usize, task as usize);
            }
        }
        lawful(&graph);
    }
}

/// Adds a closure that the task `from` forks, at this depth, and returns its last task.
fn closure(
    graph: &mut Graph,
    below: &mut dyn FnMut(u64) -> u64,
    from: Option<usize>,
    depth: u32,
) -> usize {
    let piece = |graph: &mut Graph, below: &mut dyn FnMut(u64) -> u64| {
        graph.add(Hints::default().with_depth(depth), below(9))
    };
    let mut last = piece(graph, below);
    if let Some(from) = from {
        graph.edge(from, last);
    }
    for _ in 0..below(3) {
        if depth == 4 {
            break;
        }
        let forked = 1 + below(3);
        let ends: Vec<usize> = (0..forked)
            .map(|_| closure(graph, below, Some(last), depth + 1))
            .collect();
        last = piece(graph, below);
        for end in ends {
            graph.edge(end, last);
        }
    }
    last
}

#[test]
fn random_trees_of_forks() {
    for seed in 0..100 {
        let mut below = numbers(seed);
        let mut graph = Graph::default();
        for _ in 0..1 + seed % 3 {
            closure(&mut graph, &mut below, None, 0);
        }
        assert!(graph.prepared().closures().is_some());
        lawful(&graph);
    }
}
