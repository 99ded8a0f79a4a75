//! Tables by the number of a T or S group.
//!
//! A group's number is any `u32`: templates number groups densely, dynamic graphs take what the program says. A number below [`DIRECT`] is
//! an index of an array; a larger one is looked up in a search tree, which is slower and never wrong.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use crate::WorkerId;

/// Numbers below this are indices of an array, of at most 256 KiB.
const DIRECT: u32 = 1 << 16;

/// The most S groups from [`DIRECT`] on whose new owners are remembered.
const MOST: usize = 1 << 16;

/// No value, in the array of a [`Table`].
const NONE: u32 = u32::MAX;

/// A map from group numbers to values below 2^32 - 1.
///
/// Cost: O(1) for numbers below [`DIRECT`], else O(log entries). Memory: 4 bytes for each number up to the largest below [`DIRECT`] that
/// was ever set, and a node for each larger number that is set.
#[derive(Debug, Default)]
pub(super) struct Table {
    direct: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
}

impl Table {
    #[inline]
    pub(super) fn get(&self, group: u32) -> Option<u32> {
        match self.direct.get(group as usize) {
            Some(&NONE) => None,
            Some(&value) => Some(value),
            None if group < DIRECT => None,
            None => self.sparse.get(&group).copied(),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, group: u32, value: u32) {
        debug_assert_ne!(value, NONE);
        match self.direct.get_mut(group as usize) {
            Some(entry) => *entry = value,
            None => self.set_new(group, value),
        }
    }

    #[cold]
    fn set_new(&mut self, group: u32, value: u32) {
        if group < DIRECT {
            self.direct.resize(group as usize + 1, NONE);
            self.direct[group as usize] = value;
        } else {
            self.sparse.insert(group, value);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, group: u32) {
        match self.direct.get_mut(group as usize) {
            Some(entry) => *entry = NONE,
            None => drop(self.sparse.remove(&group)),
        }
    }
}

/// The worker that each S group but S0 is associated with: S group s >= 1 at first with worker (s - 1) mod workers, later with the worker
/// that took it over last (paper 1, section 3). S0 belongs to no worker.
#[derive(Debug)]
pub(super) struct Owners {
    workers: u16,
    /// S group -> worker. Holds the S groups that were taken over (from [`DIRECT`] on at most [`MOST`]), and those below [`DIRECT`] that
    /// were asked for.
    known: Table,
}

impl Owners {
    pub(super) fn new(workers: u16) -> Self {
        Owners {
            workers,
            known: Table::default(),
        }
    }

    /// Returns the owner of `s`, which is not 0.
    #[inline]
    pub(super) fn of(&mut self, s: u32) -> WorkerId {
        match self.known.get(s) {
            Some(worker) => WorkerId(worker as u16),
            None => self.at_first(s),
        }
    }

    /// Returns the first owner of `s`. It is stored if that costs no tree node.
    #[cold]
    fn at_first(&mut self, s: u32) -> WorkerId {
        let worker = (s - 1) % u32::from(self.workers);
        if s < DIRECT {
            self.known.set(s, worker);
        }
        WorkerId(worker as u16)
    }

    /// Sown += S': from now on `s` belongs to `worker`. If [`MOST`] groups from [`DIRECT`] on have been taken over, these go back to their
    /// first owners: a program may use a new number for each task.
    pub(super) fn associate(&mut self, s: u32, worker: WorkerId) {
        if self.known.sparse.len() == MOST {
            self.known.sparse.clear();
        }
        self.known.set(s, u32::from(worker.0));
    }
}

/// The tasks of T groups from which no worker takes for now: for each group one queue of `Task`s in the order of their arrival.
///
/// Cost: O(1) a task. Memory: in proportion to the largest numbers of groups and of tasks that waited at the same time.
#[derive(Debug)]
pub(super) struct Waiting<Task> {
    /// T group -> index of `queues`.
    slots: Table,
    queues: Vec<VecDeque<Task>>,
    /// Indices of empty queues.
    spare: Vec<u32>,
}

impl<Task> Waiting<Task> {
    pub(super) fn new() -> Self {
        Waiting {
            slots: Table::default(),
            queues: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds a task to T group `t`. Returns whether the group had none before.
    #[inline]
    pub(super) fn push(&mut self, t: u32, task: Task) -> bool {
        if let Some(slot) = self.slots.get(t) {
            self.queues[slot as usize].push_back(task);
            return false;
        }
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.queues.push(VecDeque::new());
            (self.queues.len() - 1) as u32
        });
        self.slots.set(t, slot);
        self.queues[slot as usize].push_back(task);
        true
    }

    /// Moves the tasks of T group `t`, which waits, into `to`, which is empty, in the order of their arrival. O(1).
    pub(super) fn take(&mut self, t: u32, to: &mut VecDeque<Task>) {
        debug_assert!(to.is_empty());
        let slot = self.slots.get(t).expect("the group waits");
        self.slots.remove(t);
        std::mem::swap(&mut self.queues[slot as usize], to);
        self.spare.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_numbers_of_any_size() {
        let numbers = [0, 1, 7, DIRECT - 1, DIRECT, DIRECT + 1, u32::MAX];
        let mut table = Table::default();
        for (value, &number) in (10..).zip(&numbers) {
            assert_eq!(table.get(number), None);
            table.remove(number);
            table.set(number, 1);
            table.set(number, value);
        }
        for (value, &number) in (10..).zip(&numbers) {
            assert_eq!(table.get(number), Some(value), "{number}");
        }
        assert_eq!(table.get(3), None, "between numbers that are set");
        assert_eq!(table.get(DIRECT + 2), None);
        for &number in &numbers {
            table.remove(number);
            assert_eq!(table.get(number), None);
        }
        assert!(table.sparse.is_empty(), "what is removed takes no memory");
    }

    #[test]
    fn an_s_group_belongs_to_the_worker_that_took_it_over_last() {
        let mut owners = Owners::new(3);
        for s in [1, 2, 3, 4, DIRECT, u32::MAX] {
            let first = WorkerId(((s - 1) % 3) as u16);
            assert_eq!((owners.of(s), owners.of(s)), (first, first), "{s}");
            for worker in [2, 0, 1].map(WorkerId) {
                owners.associate(s, worker);
                assert_eq!(owners.of(s), worker, "{s}");
            }
        }
        assert_eq!(owners.of(5), WorkerId(1), "not touched by the others");
    }

    #[test]
    fn owners_of_large_numbers_are_forgotten_when_there_are_many() {
        let mut owners = Owners::new(2);
        owners.associate(1, WorkerId(1));
        for s in DIRECT..DIRECT + 3 * MOST as u32 {
            owners.associate(s, WorkerId(0));
            assert_eq!(owners.of(s), WorkerId(0));
        }
        assert!(owners.known.sparse.len() <= MOST);
        let first = WorkerId((DIRECT % 2) as u16);
        assert_eq!(owners.of(DIRECT + 1), first, "its first owner again");
        assert_eq!(owners.of(1), WorkerId(1), "small numbers are kept");
    }

    #[test]
    fn waiting_groups_keep_their_order_and_reuse_their_queues() {
        let mut waiting = Waiting::new();
        let mut tasks = VecDeque::new();
        for round in 0..100 {
            let sparse = 1 << 20 | round;
            assert!(waiting.push(5, 1));
            assert!(waiting.push(sparse, 2));
            assert!(!waiting.push(5, 3));
            for (t, expected) in [(5, vec![1, 3]), (sparse, vec![2])] {
                waiting.take(t, &mut tasks);
                assert_eq!(Vec::from_iter(tasks.drain(..)), expected);
            }
        }
        assert_eq!(waiting.queues.len(), 2, "as many as ever waited at once");
    }
}
