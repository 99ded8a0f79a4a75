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
    /// Adds a task that waits for nothing yet, and returns its number.
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
    /// Unless `from < to < number of tasks`.
    pub fn edge(&mut self, from: usize, to: usize) {
        assert!(from < to && to < self.tasks.len(), "no edge {from} -> {to}");
        self.tasks[from].successors.push(to);
    }

    /// Returns the number of different sets of edges that `tasks` tasks can have.
    ///
    /// # Panics
    /// If `tasks` is more than [`Graph::MOST_ENUMERATED`].
    pub fn edge_sets(tasks: usize) -> u64 {
        assert!(tasks <= Self::MOST_ENUMERATED, "that is too many");
        1 << (tasks * tasks.saturating_sub(1) / 2)
    }

    /// The most tasks whose sets of edges have numbers.
    pub const MOST_ENUMERATED: usize = 8;

    /// Removes from edge set number `set` every edge that two or more others in a row imply, and returns the number of the set that is
    /// left: its transitive reduction.
    ///
    /// A policy sees no difference between the two. While `a -> b -> c`, the edge `a -> c` is never the last on which `c` waits, so it
    /// changes neither when `c` becomes ready nor which tasks become ready together, nor any longest way.
    ///
    /// ```
    /// # use tanada_laws::Graph;
    /// // The pairs (0,1), (0,2), (1,2) are bits 0, 1 and 2.
    /// assert_eq!(Graph::reduce_edges(3, 0b111), 0b101);
    /// assert_eq!(Graph::reduce_edges(3, 0b011), 0b011);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::edge_sets`].
    pub fn reduce_edges(tasks: usize, set: u64) -> u64 {
        let reached = Self::reachable(tasks, set);
        let implied = |&(from, to, bit): &(usize, usize, u32)| {
            let between = (from + 1..to).filter(|&via| reached[from] >> via & 1 == 1);
            set >> bit & 1 == 1 && between.into_iter().any(|via| reached[via] >> to & 1 == 1)
        };
        let implied = pairs(tasks).filter(implied);
        implied.fold(set, |left, (_, _, bit)| left & !(1 << bit))
    }

    /// Returns which tasks wait, directly or not, for each of `tasks` tasks with edge set number `set`: bit `to` of entry `from`.
    ///
    /// # Panics
    /// As [`Graph::edge_sets`].
    pub fn reachable(tasks: usize, set: u64) -> [u8; Self::MOST_ENUMERATED] {
        assert!(set < Self::edge_sets(tasks), "there is no such set");
        let mut reached = [0; Self::MOST_ENUMERATED];
        // From the last task to the first, so that what `to` reaches is known.
        for (from, to, bit) in Vec::from_iter(pairs(tasks)).into_iter().rev() {
            if set >> bit & 1 == 1 {
                reached[from] |= 1 << to | reached[to];
            }
        }
        reached
    }

    /// Returns the numbers of the edge sets that are their own transitive reduction: one for each partial order of `tasks` tasks that
    /// agrees with the order of their numbers.
    ///
    /// # Panics
    /// As [`Graph::edge_sets`].
    pub fn reduced_edge_sets(tasks: usize) -> Vec<u64> {
        let sets = 0..Self::edge_sets(tasks);
        sets.filter(|&set| Self::reduce_edges(tasks, set) == set)
            .collect()
    }

    /// Replaces the edges by set number `set`: one bit a pair, in the order (0,1), (0,2), ... (1,2), ... Running through all numbers
    /// below [`Graph::edge_sets`] makes every graph of that size (up to the numbering of its tasks).
    pub fn set_edges(&mut self, set: u64) {
        for task in &mut self.tasks {
            task.successors.clear();
        }
        for (from, to, bit) in pairs(self.tasks.len()) {
            if set >> bit & 1 == 1 {
                self.tasks[from].successors.push(to);
            }
        }
    }

    /// Returns the tasks in the order of their numbers.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns what a policy that looks at the graph is built from; handles are numbers plus one, as in [`toy`](crate::toy).
    pub fn prepared(&self) -> Prepared {
        let work = self.tasks.iter().map(|task| task.duration).collect();
        Prepared::of_graph(
            1,
            work,
            Some(&|task| self.tasks[task].hints.depth),
            |task| self.tasks[task].successors.iter().copied(),
        )
    }

    /// Returns the dependency count of every task before anything ran.
    pub fn dependency_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.tasks.len()];
        for task in &self.tasks {
            task.successors.iter().for_each(|&to| counts[to] += 1);
        }
        counts
    }
}

/// Returns all pairs of `tasks` tasks, the lower number first, each with its bit in the number of an edge set.
fn pairs(tasks: usize) -> impl Iterator<Item = (usize, usize, u32)> {
    let pairs = (0..tasks).flat_map(move |from| (from + 1..tasks).map(move |to| (from, to)));
    pairs.zip(0..).map(|((from, to), bit)| (from, to, bit))
}

/// How random edges are laid.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each pair has an edge with a probability of one in this number: sparse graphs have many roots, dense ones are almost chains.
    Pairs(u32),
    /// Each task waits for one of this number of tasks before it: wide trees, in which workers release many tasks at once.
    Tree(u32),
    /// As `Tree`, and for a second one.
    Mesh(u32),
}

/// Returns random graphs of up to `tasks` tasks, from chains to wide trees, with few or many groups (also far apart numbers), durations 0
/// to 9, few codes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_reduction_reaches_what_the_graph_reaches_and_no_edge_of_it_can_go() {
        for tasks in 0..=6 {
            let mut reductions = BTreeSet::new();
            for set in 0..Graph::edge_sets(tasks) {
                let reduced = Graph::reduce_edges(tasks, set);
                let reachable = Graph::reachable(tasks, set);
                assert_eq!(reduced & !set, 0, "no edge is added");
                assert_eq!(Graph::reachable(tasks, reduced), reachable, "{set}");
                for (from, to, bit) in pairs(tasks).filter(|(.., bit)| reduced >> bit & 1 == 1) {
                    let less = Graph::reachable(tasks, reduced & !(1 << bit));
                    assert_ne!(less, reachable, "{set}: {from} -> {to} is implied");
                }
                reductions.insert(reduced);
            }
            assert_eq!(
                Vec::from_iter(reductions),
                Graph::reduced_edge_sets(tasks),
                "{tasks} tasks"
            );
        }
    }

    /// Number of partial orders on n numbered elements that the order of the numbers extends: A006455 of the On-Line Encyclopedia of
    /// Integer Sequences.
    #[test]
    fn there_is_one_reduced_graph_for_each_partial_order() {
        let counts = (0..=7).map(|tasks| Graph::reduced_edge_sets(tasks).len());
        assert_eq!(Vec::from_iter(counts), [1, 1, 2, 7, 40, 357, 4824, 96_428]);
    }

    #[test]
    fn an_edge_set_is_what_its_bits_say() {
        let mut graph = Graph::default();
        (0..4).for_each(|_| _ = graph.add(Hints::default(), 1));
        graph.set_edges(0b10_0110); // (0,2), (0,3), (2,3)
        let successors = graph.tasks().iter().map(|task| &task.successors[..]);
        assert_eq!(Vec::from_iter(successors), [&[2, 3][..], &[], &[3], &[]]);
        graph.set_edges(1);
        assert_eq!(graph.dependency_counts(), [0, 1, 0, 0]);
    }
}
