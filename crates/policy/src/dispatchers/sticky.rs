//! What `ts-sticky` and `slifo` have in common: a pool of cells whose workers stay in their S group.
//!
//! A cell is the queue of one (T, S) pair. The exact rule, in which T' is the running T group (undefined at first) and each S group s >= 1
//! belongs to one worker (at first to worker (s - 1) mod workers; S0 belongs to nobody). An idle worker takes from one T group:
//!
//! - T', if it has tasks;
//! - else the lowest T >= 1 that has tasks, which thereby becomes T';
//! - else T0; T' stays what it is. Where T0 has no task either the worker gets none, and nothing changes.
//!
//! In that group it takes from the first of these cells that has tasks:
//!
//! 1. the S group of the task that this worker took last (in whatever T group), unless that was S0 or there was none, and whoever that S
//!    group belongs to by now. It does not change hands by this;
//! 2. the lowest of the S groups that belong to this worker;
//! 3. S0;
//! 4. of the S groups of other workers the one with the most tasks in this T group; of equals the lowest. From now on it belongs to this
//!    worker.
//!
//! A cell is first in, first out, or last in, first out, as the policy says; both ends are by age.
//!
//! Cost: O(log cells) a call, amortised: a T group's cells are indexed once, when it becomes T', and are empty when another does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::dispatchers::owners::Owners;
use crate::{Ready, WorkerId};

/// Tasks by age; never empty while it is in the matrix.
type Cell = VecDeque<Ready>;

/// The cells of one T group that have tasks, without that of S0.
#[derive(Debug)]
struct Index {
    /// (number of tasks, S group): the first is the longest, of equals the lowest.
    by_length: BTreeSet<(Reverse<usize>, u32)>,
    /// The S groups of each worker.
    own: Vec<BTreeSet<u32>>,
}

impl Index {
    fn new(workers: u16) -> Self {
        Index {
            by_length: BTreeSet::new(),
            own: (0..workers).map(|_| BTreeSet::new()).collect(),
        }
    }

    /// The cell of `s`, which belongs to `owner`, had `before` tasks and has `after`.
    fn change(&mut self, s: u32, owner: WorkerId, before: usize, after: usize) {
        if before == 0 {
            self.own[owner.index()].insert(s);
        } else {
            self.by_length.remove(&(Reverse(before), s));
        }
        if after == 0 {
            self.own[owner.index()].remove(&s);
        } else {
            self.by_length.insert((Reverse(after), s));
        }
    }

    /// `s` changes hands.
    fn associate(&mut self, s: u32, from: WorkerId, to: WorkerId) {
        if self.own[from.index()].remove(&s) {
            self.own[to.index()].insert(s);
        }
    }
}

/// The pool. `NEWEST_FIRST`: cells are last in, first out.
#[derive(Debug)]
pub(crate) struct Sticky<const NEWEST_FIRST: bool> {
    /// (T, S) -> cell. Holds no empty cell.
    matrix: BTreeMap<(u32, u32), Cell>,
    /// T'.
    running: Option<u32>,
    /// Of T'.
    running_index: Index,
    /// Of T0.
    exception_index: Index,
    owners: Owners,
    /// The S group of what each worker took last; 0: none to stay in.
    last: Vec<u32>,
    /// Emptied cells, kept for their storage.
    spare: Vec<Cell>,
}

impl<const NEWEST_FIRST: bool> Sticky<NEWEST_FIRST> {
    pub(crate) fn new(workers: u16) -> Self {
        Sticky {
            matrix: BTreeMap::new(),
            running: None,
            running_index: Index::new(workers),
            exception_index: Index::new(workers),
            owners: Owners::new(workers),
            last: vec![0; usize::from(workers)],
            spare: Vec::new(),
        }
    }

    /// A task became ready; calls come in the order of age.
    pub(crate) fn ready(&mut self, task: Ready, t: u32, s: u32) {
        let spare = &mut self.spare;
        let cell = self.matrix.entry((t, s));
        let cell = cell.or_insert_with(|| spare.pop().unwrap_or_default());
        cell.push_back(task);
        let length = cell.len();
        self.changed(t, s, length - 1, length);
    }

    /// The task that `worker` takes.
    pub(crate) fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        let t = self.group()?;
        let s = self.choose(t, worker);
        self.last[worker.index()] = s;
        Some(self.take(t, s))
    }

    /// The T group that is taken from; T' from now on, if it is not T0.
    fn group(&mut self) -> Option<u32> {
        if let Some(t) = self.running
            && self.has_tasks(t)
        {
            return Some(t);
        }
        let lowest = self.matrix.range((1, 0)..).next();
        let Some((&(t, _), _)) = lowest else {
            return self.has_tasks(0).then_some(0);
        };
        debug_assert!(self.running_index.by_length.is_empty(), "T' was empty");
        self.running = Some(t);
        for (&(_, s), cell) in self.matrix.range((t, 1)..=(t, u32::MAX)) {
            self.running_index
                .change(s, self.owners.of(s), 0, cell.len());
        }
        Some(t)
    }

    fn has_tasks(&self, t: u32) -> bool {
        self.matrix.range((t, 0)..=(t, u32::MAX)).next().is_some()
    }

    /// The S group that `worker` takes from in T group `t`, which has tasks.
    fn choose(&mut self, t: u32, worker: WorkerId) -> u32 {
        let last = self.last[worker.index()];
        if last != 0 && self.matrix.contains_key(&(t, last)) {
            return last; // step 1
        }
        let index = self.index(t).expect("T' and T0 have one");
        if let Some(&own) = index.own[worker.index()].first() {
            return own; // step 2
        }
        let longest = index.by_length.first().map(|&(_, s)| s);
        if self.matrix.contains_key(&(t, 0)) {
            return 0; // step 3
        }
        // Step 4. The worker has no cell of its own here, so the longest of all is another's.
        let s = longest.expect("the T group has tasks");
        let owner = self.owners.of(s);
        self.running_index.associate(s, owner, worker);
        self.exception_index.associate(s, owner, worker);
        self.owners.associate(s, worker);
        s
    }

    /// Takes from a cell that is not empty.
    fn take(&mut self, t: u32, s: u32) -> Ready {
        let cell = self.matrix.get_mut(&(t, s)).expect("it was chosen");
        let task = if NEWEST_FIRST {
            cell.pop_back()
        } else {
            cell.pop_front()
        };
        let length = cell.len();
        if length == 0 {
            self.spare.extend(self.matrix.remove(&(t, s)));
        }
        self.changed(t, s, length + 1, length);
        task.expect("the matrix holds no empty cell")
    }

    /// A cell had `before` tasks and has `after`.
    fn changed(&mut self, t: u32, s: u32, before: usize, after: usize) {
        if s != 0 {
            let owner = self.owners.of(s);
            if let Some(index) = self.index(t) {
                index.change(s, owner, before, after);
            }
        }
    }

    /// The index of group `t`, where it has one.
    fn index(&mut self, t: u32) -> Option<&mut Index> {
        if t == 0 {
            Some(&mut self.exception_index)
        } else if Some(t) == self.running {
            Some(&mut self.running_index)
        } else {
            None
        }
    }
}
