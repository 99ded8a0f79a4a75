//! Cycles in graphs.

use super::edges::Edges;

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Closed,
}

/// Returns the nodes of one cycle, in order, if there is a cycle. Costs time linear in nodes and edges; does not recurse.
pub(super) fn cycle(edges: &Edges) -> Option<Vec<usize>> {
    let mut marks = vec![Mark::New; edges.nodes()];
    for start in 0..edges.nodes() {
        if marks[start] == Mark::New
            && let Some(found) = cycle_from(start, edges, &mut marks)
        {
            return Some(found);
        }
    }
    None
}

fn cycle_from(start: usize, edges: &Edges, marks: &mut [Mark]) -> Option<Vec<usize>> {
    let mut path = vec![(start, 0)];
    marks[start] = Mark::Open;
    while let Some((node, next)) = path.last_mut() {
        let Some(&successor) = edges.of(*node).get(*next) else {
            marks[*node] = Mark::Closed;
            path.pop();
            continue;
        };
        *next += 1;
        let successor = successor as usize;
        match marks[successor] {
            Mark::Closed => {}
            Mark::New => {
                marks[successor] = Mark::Open;
                path.push((successor, 0));
            }
            Mark::Open => {
                let from = path
                    .iter()
                    .position(|&(node, _)| node == successor)
                    .expect("open nodes are on the path");
                return Some(path[from..].iter().map(|&(node, _)| node).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Edges, cycle};

    #[test]
    fn finds_a_cycle_and_only_a_cycle() {
        let of = |nodes, pairs: &[_]| cycle(&Edges::new(nodes, pairs));
        assert_eq!(of(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), None);
        assert_eq!(
            of(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]),
            Some(vec![1, 2, 3])
        );
        assert_eq!(of(1, &[(0, 0)]), Some(vec![0]));
    }
}
