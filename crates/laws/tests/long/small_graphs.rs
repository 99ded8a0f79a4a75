//! Every registered policy on every graph of up to seven tasks: laws and model.
//!
//! Only graphs without implied edges are run ([`Graph::reduce_edges`]): any other graph behaves as its reduction does, and there are 22
//! times as many of them with seven tasks. (Random graphs, in `random_graphs.rs`, have implied edges too.)
//!
//! Up to five tasks the whole product of graphs, group assignments, durations, workers, places, seeds and kinds of idleness is run. With
//! six and seven tasks every graph meets every policy, and some combinations of the rest, which rotate with the graph's index.
//! `TANADA_FULL=1` runs the whole product there too (hours).

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

struct Sweep<'a> {
    tasks: u32,
    /// The numbers of the edge sets.
    sets: &'a [u64],
    /// Combinations that each graph meets.
    combinations: u32,
    /// Which part of the graphs is run here, and the number of parts.
    part: (usize, usize),
    runs: AtomicU64,
}

impl Sweep<'_> {
    /// Whether the graph of this index meets the combination.
    fn meets(&self, index: usize, combination: u32) -> bool {
        let (part, parts) = self.part;
        let first = (index as u64 * u64::from(self.combinations) % u64::from(COMBINATIONS)) as u32;
        index % parts == part
            && (combination + COMBINATIONS - first) % COMBINATIONS < self.combinations
    }
}

impl Visitor for &Sweep<'_> {
    type Out = ();

    fn visit<D: Dispatcher>(self, entry: &'static Entry) {
        let places = places();
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
            let sets = self.sets.iter().enumerate();
            for (_, &set) in sets.filter(|&(index, _)| self.meets(index, combination)) {
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

/// Runs every graph of `tasks` tasks in `combinations` combinations under every policy.
fn sweep(tasks: u32, combinations: u32) {
    let sets = &Graph::reduced_edge_sets(tasks as usize);
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let runs: u64 = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..parts)
            .map(|part| {
                scope.spawn(move || {
                    let sweep = Sweep {
                        tasks,
                        sets,
                        combinations,
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
    assert_eq!(
        runs,
        sets.len() as u64 * u64::from(combinations) * registry::all().len() as u64,
        "every graph meets every policy"
    );
}

/// `usually`, or all combinations if `TANADA_FULL=1`.
fn combinations(usually: u32) -> u32 {
    let full = std::env::var_os("TANADA_FULL").is_some_and(|value| value == "1");
    if full { COMBINATIONS } else { usually }
}

#[test]
fn up_to_five_tasks_in_every_combination() {
    (0..=5).for_each(|tasks| sweep(tasks, COMBINATIONS));
}

#[test]
fn six_tasks() {
    sweep(6, combinations(7)); // as many runs as one for each graph with implied edges
}

#[test]
fn seven_tasks() {
    sweep(7, combinations(1));
}
