//! Why tasks of a graph never became ready.

use crate::error::{GraphError, TaskNames};
use crate::graph::edges::Edges;
use crate::graph::order;
use crate::graph::slab::NodeRef;
use std::collections::BTreeMap;

/// Returns why the tasks in `nodes` are left: all tasks of a graph whose run is over and that never became ready.
pub(super) fn why_left(nodes: &[NodeRef]) -> GraphError {
    // SAFETY: the run is over, so no thread fills or ends its nodes.
    let name = |node: &NodeRef| unsafe { node.view() }.to_string();
    match find_cycle(nodes) {
        Some(cycle) => GraphError::Cycle {
            tasks: TaskNames::collect(cycle.iter().map(name)),
        },
        None => GraphError::Unresolved {
            tasks: TaskNames::collect(nodes.iter().map(name)),
        },
    }
}

/// Returns the tasks of one cycle among `nodes`, in order, if there is a cycle.
fn find_cycle(nodes: &[NodeRef]) -> Option<Vec<NodeRef>> {
    let places: BTreeMap<usize, usize> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (node.address(), at))
        .collect();
    let mut pairs = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let waiting = node.waiting().to_vec();
        let waiting = waiting
            .iter()
            .filter_map(|next| places.get(&next.address()));
        pairs.extend(waiting.map(|&next| (at as u32, next as u32)));
    }
    let edges = Edges::new(nodes.len(), &pairs);
    order::cycle(&edges).map(|cycle| cycle.into_iter().map(|at| nodes[at]).collect())
}
