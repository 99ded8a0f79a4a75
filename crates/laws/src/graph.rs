//! Task graphs to be run: all small ones, random ones.

use proptest::prelude::*;
use tanada_policy::{Hints, Prepared, WorkerId, draw};

/// One task of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it says of itself.
    pub hints: Hints,
    /// How long it runs, in units of virtual time (a native engine may ignore it).
    pub duration: u64,
    /// The tasks that wait for it, in the order in which their dependency counts fall.
    pub successors: Vec<usize>,
}

/// A task graph. Tasks are numbered from 0 in the order of their declaration; an edge leads from a lower to a higher number, so there
/// is no cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    tasks: Vec<Task>,
}

impl Graph {
    /// Adds a task that waits for nothing yet, and gives its number.
    pub fn add(&mut self, hints: Hints, duration: u64) -> usize {
        self.tasks.push(Task {
            hints,
            duration,
            successors: Vec::new(),
        });
        self.tasks.len() - 1
    }

    /// Makes `to` wait for `from`. At most once a pair.
    ///
    /// # Panics
    /// Where `from < to < number of tasks` does not hold.
    pub fn edge(&mut self, from: usize, to: usize) {
        assert!(from < to && to < self.tasks.len(), "no edge {from} -> {to}");
        self.tasks[from].successors.push(to);
    }

    /// How many different sets of edges `tasks` tasks can have.
    pub fn edge_sets(tasks: usize) -> u64 {
        1 << (tasks * tasks.saturating_sub(1) / 2)
    }

    /// Replaces the edges by set number `set`: one bit a pair, in the order (0,1), (0,2), ... (1,2), ... Running through all numbers
    /// below [`Graph::edge_sets`] gives every graph of that size (up to the numbering of its tasks).
    pub fn set_edges(&mut self, set: u64) {
        let mut bit = 0;
        for from in 0..self.tasks.len() {
            self.tasks[from].successors.clear();
            for to in from + 1..self.tasks.len() {
                if set >> bit & 1 == 1 {
                    self.tasks[from].successors.push(to);
                }
                bit += 1;
            }
        }
    }

    /// The tasks in the order of their numbers.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// What a policy that looks at the graph is built from; handles are numbers plus one, as in [`toy`](crate::toy).
    pub fn prepared(&self) -> Prepared {
        let work = self.tasks.iter().map(|task| task.duration).collect();
        Prepared::of_graph(1, work, |task| self.tasks[task].successors.iter().copied())
    }

    /// The dependency count of every task before anything ran.
    pub fn dependency_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.tasks.len()];
        for task in &self.tasks {
            task.successors.iter().for_each(|&to| counts[to] += 1);
        }
        counts
    }
}

/// How random edges are laid.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each pair with a probability of one in so many: sparse graphs have many roots, dense ones are almost chains.
    Pairs(u32),
    /// Each task waits for one earlier task, at most so far back: wide trees, in which workers release many tasks at once.
    Tree(u32),
    /// As `Tree`, and for a second one.
    Mesh(u32),
}

/// Random graphs of up to `tasks` tasks, from chains to wide trees, with few or many groups (also far apart numbers), durations 0 to 9,
/// few codes.
pub fn any_graph(tasks: usize) -> impl Strategy<Value = Graph> {
    let some_group =
        prop_oneof![4 => 0..4u32, 1 => 0..40u32, 1 => Just(u32::MAX), 1 => Just(0x0001_0002)];
    let t = some_group.clone();
    let s = prop_oneof![1 => Just(0), 1 => some_group];
    let task = (
        t,
        s,
        0..6u32,
        0..10u64,
        prop_oneof![0..4u64, Just(u64::MAX)],
    );
    let shape = prop_oneof![
        (1..40u32).prop_map(Shape::Pairs),
        (1..40u32).prop_map(Shape::Tree),
        (1..40u32).prop_map(Shape::Mesh)
    ];
    (prop::collection::vec(task, 0..=tasks), shape, any::<u64>()).prop_map(
        |(tasks, shape, seed)| {
            let mut graph = Graph::default();
            for (t, s, depth, duration, code) in tasks {
                let hints = Hints::groups(t, s).with_depth(depth).with_code(code);
                graph.add(hints, duration);
            }
            lay_edges(&mut graph, shape, seed);
            graph
        },
    )
}

fn lay_edges(graph: &mut Graph, shape: Shape, seed: u64) {
    let drawn =
        |first: usize, second: usize| draw(seed, WorkerId(0), (first << 32 | second) as u64);
    for to in 1..graph.len() {
        let back = |reach: u32, which: usize| {
            to - 1 - (drawn(to, which) % u64::from(reach).min(to as u64)) as usize
        };
        match shape {
            Shape::Pairs(sparse) => (0..to)
                .filter(|&from| drawn(from, to).is_multiple_of(u64::from(sparse)))
                .for_each(|from| graph.edge(from, to)),
            Shape::Tree(reach) => graph.edge(back(reach, 0), to),
            Shape::Mesh(reach) => {
                let (first, second) = (back(reach, 0), back(reach, 1));
                graph.edge(first, to);
                if second != first {
                    graph.edge(second, to);
                }
            }
        }
    }
}
