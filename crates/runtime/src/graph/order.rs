//! Cycles of graphs given as lists of successors.

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Closed,
}

/// The nodes of one cycle, in order, if there is one. Linear in nodes and edges; no recursion.
pub(super) fn cycle(successors: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut marks = vec![Mark::New; successors.len()];
    for start in 0..successors.len() {
        if marks[start] == Mark::New
            && let Some(found) = cycle_from(start, successors, &mut marks)
        {
            return Some(found);
        }
    }
    None
}

fn cycle_from(start: usize, successors: &[Vec<usize>], marks: &mut [Mark]) -> Option<Vec<usize>> {
    let mut path = vec![(start, 0)];
    marks[start] = Mark::Open;
    while let Some((node, next)) = path.last_mut() {
        let Some(&successor) = successors[*node].get(*next) else {
            marks[*node] = Mark::Closed;
            path.pop();
            continue;
        };
        *next += 1;
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
    use super::cycle;

    #[test]
    fn finds_a_cycle_and_only_a_cycle() {
        assert_eq!(cycle(&[vec![1, 2], vec![3], vec![3], vec![]]), None);
        assert_eq!(
            cycle(&[vec![1], vec![2], vec![3], vec![1]]),
            Some(vec![1, 2, 3])
        );
        assert_eq!(cycle(&[vec![0]]), Some(vec![0]));
    }
}
