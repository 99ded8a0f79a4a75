//! What can be known of a whole graph before it runs.

use super::Closures;
use std::sync::Arc;

/// What a policy that looks at the graph is built from. An engine that knows the graph beforehand computes it and hands it over in
/// [`Site::prepared`](crate::Site::prepared). A clone shares what was computed: 8 bytes a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    first_handle: u64,
    bottom_levels: Arc<[u64]>,
    closures: Option<Arc<Closures>>,
}

impl Prepared {
    /// What is known of a graph whose tasks have the consecutive handles `first_handle`, `first_handle` + 1, ...
    ///
    /// `least_work` holds the least time of each task (in the simulator: its dispatch, its computation, and `hit_cycles` a line touch);
    /// `depth` returns its depth in the tree of forks, if closures are to be told apart; `successors` returns the tasks that wait for it.
    /// Tasks are numbered from 0. Linear in tasks and dependencies; 8 bytes a task beside `least_work` while it works, and 12 to 64 more
    /// with closures.
    ///
    /// # Panics
    /// If tasks wait for each other, `successors` returns a number that no task has, or there are 2^32 tasks or more.
    pub fn of_graph<I: IntoIterator<Item = usize>>(
        first_handle: u64,
        least_work: Vec<u64>,
        depth: Option<&dyn Fn(usize) -> u32>,
        successors: impl Fn(usize) -> I,
    ) -> Self {
        let order = topological_order(least_work.len(), &successors);
        let closures =
            depth.and_then(|depth| Closures::of_graph(&order, &least_work, depth, &successors));
        // From the end: each task that waits for this one has its level in the place of its work already.
        let mut levels = least_work;
        for task in order.into_iter().rev().map(|task| task as usize) {
            let behind = successors(task).into_iter().map(|to| levels[to]).max();
            levels[task] = levels[task].saturating_add(behind.unwrap_or(0));
        }
        Prepared {
            first_handle,
            bottom_levels: levels.into(),
            closures: closures.map(Arc::new),
        }
    }

    /// Returns the bottom level of a task: the most work on a way from its start to the end of the graph, its own included (at most
    /// 2^64-1).
    ///
    /// # Panics
    /// If no task of the graph has this handle.
    #[inline]
    pub fn bottom_level(&self, handle: u64) -> u64 {
        self.bottom_levels[self.task(handle)]
    }

    /// Returns the number of the task with the handle `handle`, which the graph has.
    #[inline]
    pub fn task(&self, handle: u64) -> usize {
        (handle - self.first_handle) as usize
    }

    /// Returns the closures whose pieces the tasks are; `None` if this is no graph of forks and joins.
    pub fn closures(&self) -> Option<&Arc<Closures>> {
        self.closures.as_ref()
    }

    /// Returns the longest way through the graph: no run is shorter.
    pub fn critical_path(&self) -> u64 {
        self.bottom_levels.iter().copied().max().unwrap_or(0)
    }
}

/// Returns the tasks, each before all that wait for it.
fn topological_order<I: IntoIterator<Item = usize>>(
    tasks: usize,
    successors: impl Fn(usize) -> I,
) -> Vec<u32> {
    assert!(u32::try_from(tasks).is_ok(), "2^32 tasks or more");
    let mut waits = vec![0_u32; tasks];
    for task in 0..tasks {
        successors(task).into_iter().for_each(|to| waits[to] += 1);
    }
    let mut order = Vec::with_capacity(tasks);
    order.extend((0..tasks as u32).filter(|&task| waits[task as usize] == 0));
    let mut next = 0;
    while let Some(&task) = order.get(next) {
        next += 1;
        for to in successors(task as usize) {
            waits[to] -= 1;
            if waits[to] == 0 {
                order.push(to as u32);
            }
        }
    }
    assert_eq!(order.len(), tasks, "tasks wait for each other");
    order
}

#[cfg(test)]
mod tests {
    use super::Prepared;

    #[test]
    fn a_bottom_level_is_the_longest_way_to_the_end() {
        // 0 -> 1 -> 3, 0 -> 2 -> 3; 4 stands alone; 5 -> 0 leads backwards.
        let successors: [&[usize]; 6] = [&[1, 2], &[3], &[3], &[], &[], &[0]];
        let prepared = Prepared::of_graph(10, vec![1, 20, 3, 4, 50, 6], None, |task| {
            successors[task].iter().copied()
        });
        let levels = (10..16).map(|handle| prepared.bottom_level(handle));
        assert_eq!(levels.collect::<Vec<_>>(), [25, 24, 7, 4, 50, 31]);
        assert_eq!(prepared.critical_path(), 50);
    }

    #[test]
    fn work_beyond_all_numbers_is_the_largest_number() {
        let prepared = Prepared::of_graph(1, vec![u64::MAX, u64::MAX], None, |task| {
            (task == 0).then_some(1)
        });
        assert_eq!(prepared.critical_path(), u64::MAX);
        assert_eq!(
            Prepared::of_graph(1, Vec::new(), None, |_| None).critical_path(),
            0
        );
    }

    #[test]
    #[should_panic(expected = "tasks wait for each other")]
    fn a_circle_is_refused() {
        Prepared::of_graph(1, vec![1, 1], None, |task| [1 - task]);
    }
}
