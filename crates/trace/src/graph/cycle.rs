//! The search for a cycle (topological order by dependency counts: Kahn 1962).

use super::NONE;
use crate::{Edge, Task};

/// Returns an edge (from, to) of some cycle, by index; `None` if there is none. Linear time, without recursion.
///
/// `marks` is reused as the array of dependency counts; 4 bytes a task more are allocated.
pub(crate) fn find(
    tasks: &[Task],
    first_edge: &[u32],
    edges: &[Edge],
    mut marks: Vec<u32>,
) -> Option<(u32, u32)> {
    let successors = |task: u32| {
        &edges[first_edge[task as usize] as usize..first_edge[task as usize + 1] as usize]
    };
    let waits = &mut marks;
    let mut ready = Vec::new();
    for (i, (mark, task)) in waits.iter_mut().zip(tasks).enumerate() {
        *mark = task.waits;
        if task.waits == 0 {
            ready.push(i as u32);
        }
    }
    let mut done = 0;
    while let Some(task) = ready.pop() {
        done += 1;
        for edge in successors(task) {
            let left = &mut waits[edge.to() as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(edge.to());
            }
        }
    }
    if done == tasks.len() {
        return None;
    }
    // Each task that is left is on a cycle or behind one, so it has a predecessor that is left. Following predecessors for as many steps as
    // there are tasks ends on a cycle.
    let mut before = ready;
    before.resize(tasks.len(), NONE);
    let mut at = NONE;
    for from in (0..tasks.len() as u32).filter(|&task| waits[task as usize] > 0) {
        let left = |edge: &&Edge| waits[edge.to() as usize] > 0;
        for edge in successors(from).iter().filter(left) {
            before[edge.to() as usize] = from;
            at = edge.to();
        }
    }
    for _ in 0..tasks.len() {
        at = before[at as usize];
    }
    Some((before[at as usize], at))
}
