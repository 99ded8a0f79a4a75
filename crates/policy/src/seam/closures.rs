//! The closures of a fork-join program whose tasks are the pieces between its forks and joins.

use std::ops::Range;

/// Which closure each task of a graph is a piece of, and which closure forked it.
///
/// Tasks are numbered from 0. A task belongs to the closure of the one before it at the same depth; it begins a new closure if the task
/// before it is less deep by one (a fork), and goes on with the closure that forked if those before it are deeper by one (a join).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closures {
    of_task: Vec<u32>,
    closures: Vec<Closure>,
}

/// A closure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closure {
    /// The closure that forked it; `None`: it is a root.
    pub parent: Option<u32>,
    /// The closures that were forked together with it, itself included.
    pub siblings: Range<u32>,
    /// Its first task.
    pub first: usize,
    /// Its last task.
    pub last: usize,
    /// The work of its tasks and of all closures below it.
    pub work: u64,
}

impl Closures {
    /// Returns the closures of a graph; `None` if it is no graph of forks and joins. `order` has all tasks, each before those that wait for
    /// it.
    pub(super) fn of_graph<I: IntoIterator<Item = usize>>(
        order: &[u32],
        work: &[u64],
        depth: impl Fn(usize) -> u32,
        successors: impl Fn(usize) -> I,
    ) -> Option<Self> {
        const NONE: u32 = u32::MAX;
        let mut this = Closures {
            of_task: vec![NONE; order.len()],
            closures: Vec::new(),
        };
        let mut waits = vec![0_u32; order.len()];
        for task in 0..order.len() {
            successors(task).into_iter().for_each(|to| waits[to] += 1);
        }
        let roots: Vec<usize> = (0..order.len()).filter(|task| waits[*task] == 0).collect();
        this.fork(None, &roots, work);
        for task in order.iter().map(|task| *task as usize) {
            let (closure, at) = (this.of_task[task], u64::from(depth(task)));
            let (mut forked, mut went_on) = (Vec::new(), false);
            for to in successors(task) {
                let behind = u64::from(depth(to));
                let of_to = match behind {
                    _ if behind == at + 1 => {
                        if waits[to] != 1 {
                            return None;
                        }
                        forked.push(to);
                        continue;
                    }
                    _ if behind == at && waits[to] == 1 && !went_on => closure,
                    _ if behind + 1 == at && !went_on => {
                        this.closures[closure as usize].parent.unwrap_or(NONE)
                    }
                    _ => return None,
                };
                went_on = true;
                if of_to == NONE || ![NONE, of_to].contains(&this.of_task[to]) {
                    return None;
                }
                if this.of_task[to] == NONE {
                    this.of_task[to] = of_to;
                    let into = &mut this.closures[of_to as usize];
                    into.last = to;
                    into.work = into.work.saturating_add(work[to]);
                }
            }
            if went_on && !forked.is_empty() {
                return None;
            }
            forked.sort_unstable();
            this.fork(Some(closure), &forked, work);
        }
        if !this.joins(&waits, &successors) {
            return None;
        }
        for closure in (0..this.closures.len()).rev() {
            let Closure { parent, work, .. } = this.closures[closure];
            if let Some(parent) = parent {
                let above = &mut this.closures[parent as usize].work;
                *above = above.saturating_add(work);
            }
        }
        Some(this)
    }

    /// Returns whether all closures of each fork end in one task of the closure that forked them, which waits for nothing else.
    fn joins<I: IntoIterator<Item = usize>>(
        &self,
        waits: &[u32],
        successors: impl Fn(usize) -> I,
    ) -> bool {
        let join = |closure: &Closure| {
            let mut behind = successors(closure.last).into_iter();
            behind.next().filter(|_| behind.next().is_none())
        };
        self.closures.iter().all(|closure| {
            let Some(parent) = closure.parent else {
                return true;
            };
            let first = &self.closures[closure.siblings.start as usize];
            join(closure).is_some_and(|to| {
                join(first) == Some(to)
                    && self.of_task[to] == parent
                    && waits[to] as usize == closure.siblings.len()
            })
        })
    }

    fn fork(&mut self, parent: Option<u32>, tasks: &[usize], work: &[u64]) {
        let begin = self.closures.len() as u32;
        let siblings = begin..begin + tasks.len() as u32;
        for (&task, closure) in tasks.iter().zip(begin..) {
            self.of_task[task] = closure;
            self.closures.push(Closure {
                parent,
                siblings: siblings.clone(),
                first: task,
                last: task,
                work: work[task],
            });
        }
    }

    /// Returns the number of the closure that `task` is a piece of.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn of(&self, task: usize) -> u32 {
        self.of_task[task]
    }

    /// Returns all closures; those that one forked come behind it.
    pub fn all(&self) -> &[Closure] {
        &self.closures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(depths: &[u32], successors: &[&[usize]]) -> Option<Closures> {
        let order: Vec<u32> = (0..depths.len() as u32).collect();
        let work = vec![1; depths.len()];
        Closures::of_graph(
            &order,
            &work,
            |task| depths[task],
            |task| successors[task].iter().copied(),
        )
    }

    #[test]
    fn pieces_of_a_closure_are_told_from_those_that_it_forked() {
        // 0 forks 1 and 2; 2 forks 3 and 4 and goes on as 5; all join in 6, which forks 7, 8 and goes on as 9.
        let depths = [0, 1, 1, 2, 2, 1, 0, 1, 1, 0];
        let successors: [&[usize]; 10] = [
            &[1, 2],
            &[6],
            &[3, 4],
            &[5],
            &[5],
            &[6],
            &[7, 8],
            &[9],
            &[9],
            &[],
        ];
        let closures = of(&depths, &successors).expect("forks and joins");
        let of: Vec<u32> = (0..10).map(|task| closures.of(task)).collect();
        assert_eq!(of, [0, 1, 2, 3, 4, 2, 0, 5, 6, 0]);
        let root = &closures.all()[0];
        assert_eq!((root.first, root.last, root.work), (0, 9, 10));
        let second = &closures.all()[2];
        assert_eq!((second.parent, second.siblings.clone()), (Some(0), 1..3));
        assert_eq!((second.first, second.last, second.work), (2, 5, 4));
    }

    #[test]
    fn other_graphs_have_no_closures() {
        assert!(of(&[0, 0, 0, 0], &[&[1, 2], &[3], &[3], &[]]).is_none());
        assert!(of(&[0, 2], &[&[1], &[]]).is_none());
        assert!(of(&[0, u32::MAX], &[&[1], &[]]).is_none());
        assert!(of(&[u32::MAX, 0], &[&[1], &[]]).is_none());
        // Closures that never come back, one of two that does, and two joins of one fork.
        assert!(of(&[0, 1, 1], &[&[1, 2], &[], &[]]).is_none());
        assert!(of(&[0, 1, 1, 0], &[&[1, 2], &[3], &[], &[]]).is_none());
        assert!(of(&[0, 1, 1, 0, 0], &[&[1, 2], &[3], &[4], &[], &[]]).is_none());
        assert!(of(&[0, 1, 0, 0], &[&[1], &[2], &[], &[2]]).is_none());
    }
}
