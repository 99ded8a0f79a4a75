//! Every registered policy on every graph of up to seven tasks: laws and model.
//!
//! Up to five tasks the whole product of graphs, group assignments, durations, workers, places, seeds and kinds of idleness is run; at six
//! and seven every graph meets every policy, and the rest of the product rotates with the graph's number. `TANADA_FULL=1` runs the
//! whole product there too (hours).

use std::sync::atomic::{AtomicU64, Ordering};

use tanada_laws::toy::Idleness;
use tanada_laws::{Case, Graph, conforms};
use tanada_policy::registry::{self, Entry, Visitor};
use tanada_policy::{Dispatcher, Hints, Placement};
use tanada_topology::{Kind, Object, Topology};

/// Group assignments: none; T0 and S0 among others; pairs as in paper 1's pattern A; one S group a task, numbers far apart; T only;
/// S only.
const ASSIGNMENTS: u32 = 6;
const DURATIONS: u32 = 2;
const SEEDS: u32 = 2;
const PLACES: u32 = 5;

fn hints(assignment: u32, task: u32) -> Hints {
    groups(assignment, task).with_code(u64::from((assignment + task * 3) % 4))
}

fn groups(assignment: u32, task: u32) -> Hints {
    match assignment {
        0 => Hints::default(),
        1 => Hints::groups(task % 3, task * 5 % 4),
        2 => Hints::groups(1 + task / 2, 1 + task % 2),
        3 => Hints::groups(task * 3 % 2 * 0xffff_0001, task * 1_000_003),
        4 => Hints::groups(1 + task * 5 % 3, 0),
        _ => Hints::groups(0, 1 + task % 3),
    }
}

fn tasks(count: u32, assignment: u32, durations: u32) -> Graph {
    let mut graph = Graph::default();
    for task in 0..count {
        let duration = if durations == 0 { 1 } else { task * 7 % 4 };
        graph.add(hints(assignment, task), u64::from(duration));
    }
    graph
}

/// One to four workers that are equally near, and four of which one has another cache.
fn places() -> Vec<Placement> {
    let core = |cpu| Object::new(Kind::Core, vec![Object::hardware_thread(cpu, true)]);
    let cache = |cpus: std::ops::Range<u32>| Object::new(Kind::L3, cpus.map(core).collect());
    let machine = Object::new(Kind::Machine, vec![cache(0..3), cache(3..4)]);
    let uneven = Topology::new(machine, None)
        .expect("the tree is possible")
        .place(4);
    assert_ne!(
        uneven.distance(tanada_policy::WorkerId(0), tanada_policy::WorkerId(1)),
        uneven.distance(tanada_policy::WorkerId(0), tanada_policy::WorkerId(3)),
        "the last worker is further away than the others"
    );
    (1..=4).map(Placement::flat).chain([uneven]).collect()
}

/// Everything that a graph is combined with, as one number.
const COMBINATIONS: u32 = ASSIGNMENTS * DURATIONS * SEEDS * PLACES * 2;

struct Sweep {
    tasks: u32,
    /// Whether each graph meets all combinations, or one.
    whole_product: bool,
    /// Which part of the graphs, of how many.
    part: (u64, u64),
    runs: AtomicU64,
}

impl Visitor for &Sweep {
    type Out = ();

    fn visit<D: Dispatcher>(self, entry: &'static Entry) {
        let places = places();
        let sets = Graph::edge_sets(self.tasks as usize);
        let (part, parts) = self.part;
        for combination in 0..COMBINATIONS {
            let mut rest = combination;
            let mut digit = |base: u32| {
                let digit = rest % base;
                rest /= base;
                digit
            };
            let idleness = if digit(2) == 0 {
                Idleness::Poll
            } else {
                Idleness::Sleep
            };
            let placement = &places[digit(PLACES) as usize];
            let seed = u64::from(digit(SEEDS));
            let mut graph = tasks(self.tasks, digit(ASSIGNMENTS), digit(DURATIONS));
            let step = if self.whole_product {
                1
            } else {
                u64::from(COMBINATIONS)
            };
            let first = if self.whole_product {
                0
            } else {
                u64::from(combination)
            };
            for set in (first..sets)
                .step_by(step as usize)
                .filter(|set| set / 64 % parts == part)
            {
                graph.set_edges(set);
                let case = Case {
                    graph: &graph,
                    placement,
                    seed,
                    idleness,
                };
                if let Err(what) = conforms::<D>(entry, case) {
                    panic!(
                        "{} tasks, edge set {set}, combination {combination}: {what}",
                        self.tasks
                    );
                }
                self.runs.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn sweep(tasks: u32, whole_product: bool) {
    let parts = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let runs: u64 = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..parts)
            .map(|part| {
                scope.spawn(move || {
                    let sweep = Sweep {
                        tasks,
                        whole_product,
                        part: (part, parts),
                        runs: AtomicU64::new(0),
                    };
                    for entry in registry::all() {
                        registry::with(entry.name, &sweep).expect("the name is registered");
                    }
                    sweep.runs.into_inner()
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().expect("no case failed"))
            .sum()
    });
    let combinations = if whole_product {
        u64::from(COMBINATIONS)
    } else {
        1
    };
    let policies = registry::all().len() as u64;
    assert_eq!(
        runs,
        Graph::edge_sets(tasks as usize) * combinations * policies,
        "every graph meets every policy"
    );
}

fn full() -> bool {
    std::env::var_os("TANADA_FULL").is_some_and(|value| value == "1")
}

#[test]
fn up_to_five_tasks_in_every_combination() {
    (0..=5).for_each(|tasks| sweep(tasks, true));
}

#[test]
fn six_tasks() {
    sweep(6, full());
}

#[test]
fn seven_tasks() {
    sweep(7, full());
}
