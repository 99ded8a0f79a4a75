//! Dependencies in two flat arrays.

/// The successors of each node, in one array.
pub(super) struct Edges {
    /// Index of each node's first successor, and one more entry for the end of the last list.
    starts: Vec<u32>,
    successors: Vec<u32>,
}

/// The most successors of a node whose implied edges are looked for. The limit keeps the search linear.
const MOST: usize = 32;

impl Edges {
    /// Returns `pairs` of (earlier, later) sorted by the earlier node. Pairs of one node keep their order. Costs linear time.
    ///
    /// # Panics
    /// If there are 2^32 pairs or more, or a pair names a node that is not below `nodes`.
    pub(super) fn new(nodes: usize, pairs: &[(u32, u32)]) -> Self {
        assert!(
            u32::try_from(pairs.len()).is_ok(),
            "fewer than 2^32 dependencies"
        );
        let mut starts = vec![0_u32; nodes + 1];
        for &(earlier, _) in pairs {
            starts[earlier as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut successors = vec![0; pairs.len()];
        for &(earlier, later) in pairs {
            let place = &mut next[earlier as usize];
            successors[*place as usize] = later;
            *place += 1;
        }
        Edges { starts, successors }
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the successors of `node`.
    #[inline]
    pub(super) fn of(&self, node: usize) -> &[u32] {
        &self.successors[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Returns the number of predecessors of each node.
    pub(super) fn predecessors(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes()];
        for &later in &self.successors {
            counts[later as usize] += 1;
        }
        counts
    }
}

/// Returns the edges of an acyclic graph without those that change nothing: without A -> C, if A -> B and B -> C; and without all but one
/// of equal edges. Nodes with more than [`MOST`] successors keep theirs.
///
/// Reachability stays the same, because the longest path between two nodes of an acyclic graph contains no dropped edge.
pub(super) fn without_implied(edges: Edges) -> Edges {
    let mut starts = Vec::with_capacity(edges.starts.len());
    let mut successors = Vec::with_capacity(edges.successors.len());
    // For each node the last `node` of the loop below that reaches it in two steps, or by an edge that was kept.
    let mut reached = vec![u32::MAX; edges.nodes()];
    for node in 0..edges.nodes() {
        let me = node as u32;
        starts.push(successors.len() as u32);
        let list = edges.of(node);
        if list.len() < 2 || list.len() > MOST {
            successors.extend_from_slice(list);
            continue;
        }
        for &next in list {
            for &second in edges.of(next as usize).iter().take(MOST) {
                reached[second as usize] = me;
            }
        }
        for &next in list {
            // This also drops the next edge that is equal to this one.
            if std::mem::replace(&mut reached[next as usize], me) != me {
                successors.push(next);
            }
        }
    }
    starts.push(successors.len() as u32);
    Edges { starts, successors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn closure(edges: &Edges) -> Vec<Vec<bool>> {
        let nodes = edges.nodes();
        let mut reach = vec![vec![false; nodes]; nodes];
        for node in (0..nodes).rev() {
            for &next in edges.of(node) {
                reach[node][next as usize] = true;
                let (before, after) = reach.split_at_mut(next as usize);
                for (mine, theirs) in before[node].iter_mut().zip(&after[0]) {
                    *mine |= theirs;
                }
            }
        }
        reach
    }

    #[test]
    fn a_wavefront_keeps_two_of_three_edges() {
        let (columns, rows) = (6_u32, 5_u32);
        let mut pairs = Vec::new();
        for y in 0..rows {
            for x in 0..columns {
                let id = y * columns + x;
                if x > 0 {
                    pairs.push((id - 1, id));
                }
                if y > 0 {
                    pairs.push((id - columns, id));
                }
                if y > 0 && x + 1 < columns {
                    pairs.push((id - columns + 1, id));
                }
            }
        }
        let edges = Edges::new((columns * rows) as usize, &pairs);
        let reduced = without_implied(edges);
        let most = reduced.predecessors().into_iter().max();
        assert_eq!(most, Some(2));
    }

    proptest! {
        #[test]
        fn reachability_stays_and_no_implied_or_equal_edge_is_left(pairs in prop::collection::vec((0_u32..20, 0_u32..20), 0..120)) {
            let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a < b).collect();
            let edges = Edges::new(20, &pairs);
            let before = closure(&edges);
            let reduced = without_implied(edges);
            prop_assert_eq!(closure(&reduced), before);
            for node in 0..20 {
                let list = reduced.of(node);
                let different = list.iter().collect::<std::collections::BTreeSet<_>>();
                prop_assert_eq!(different.len(), list.len(), "{} has equal edges", node);
                for &next in list {
                    for &second in reduced.of(next as usize) {
                        prop_assert!(!reduced.of(node).contains(&second), "{} -> {} is implied", node, second);
                    }
                }
            }
        }
    }
}
