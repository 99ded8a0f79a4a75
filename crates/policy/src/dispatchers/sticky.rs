//! What `ts-sticky` and `slifo` have in common: a pool of cells whose workers stay in their S group.
//!
//! A cell is the queue of one (T, S) pair. The exact rule, in which T' is the running T group (undefined at first) and each S group s >= 1
//! belongs to one worker (at first to worker (s - 1) mod workers; S0 belongs to no worker). An idle worker takes from one T group:
//!
//! - T', if it has tasks;
//! - else the lowest T >= 1 that has tasks, which thereby becomes T';
//! - else T0; T' stays what it is. If T0 has no task either the worker gets none, and nothing changes.
//!
//! In that group it takes from the first of these cells that has tasks:
//!
//! 1. the S group of the task that this worker took last (in whatever T group), unless that was S0 or there was none, whichever worker that
//!    S group belongs to by now. This does not change its owner;
//! 2. the lowest of the S groups that belong to this worker;
//! 3. S0;
//! 4. of the S groups of other workers the one with the most tasks in this T group; of equals the lowest. From now on it belongs to this
//!    worker.
//!
//! A cell is first in, first out, or last in, first out, as the policy says; both ends are by age.
//!
//! # How
//!
//! Only T' and T0 have cells (a `Row` each). No task leaves another T group before it becomes T', so until then its tasks are one queue,
//! which is sorted by S group when the group is selected; a heap of their numbers has the lowest first. In a row each worker has a heap of
//! its S groups, for step 2, and all cells are in one by length, for step 4. The cell from which a worker took last stays in its heap for
//! one more call even if it is empty, because what the task releases is often of the same S group.
//!
//! Cost: O(log cells of the T group) a task, O(1) for a worker that stays in its S group if it is the only worker; O(log T groups that
//! wait) for selecting one. With one worker there is no heap by length. T and S may be any numbers; those below 65,536 are looked up in
//! arrays, others in a search tree. Memory as under [`ts`](crate::dispatchers::ts).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::dispatchers::cells::{Cells, Heap, Places};
use crate::dispatchers::groups::{Owners, Waiting};
use crate::{Ready, WorkerId};

/// The cells of T' or of T0.
#[derive(Debug)]
struct Row<const NEWEST_FIRST: bool> {
    tasks: usize,
    /// The cell of S0.
    free: VecDeque<Ready>,
    /// The other cells: those that have tasks, and some that are in `last_here`.
    cells: Cells<Ready>,
    /// The S group that each worker took from last in this row; 0: none. Its cell stays in use, even if it is empty, until the worker takes
    /// from another one of this row or another worker comes across it.
    last_here: Vec<u32>,
    /// Of each worker its cells, by S group.
    own: Vec<Heap<u32>>,
    own_places: Places,
    /// All cells, the longest first, of equals that of the lowest S group. Empty with one worker, which has all S groups.
    by_length: Heap<(Reverse<usize>, u32)>,
    length_places: Places,
}

impl<const NEWEST_FIRST: bool> Row<NEWEST_FIRST> {
    fn new(workers: u16) -> Self {
        Row {
            tasks: 0,
            free: VecDeque::new(),
            cells: Cells::new(),
            last_here: vec![0; usize::from(workers)],
            own: (0..workers).map(|_| Heap::new()).collect(),
            own_places: Places::default(),
            by_length: Heap::new(),
            length_places: Places::default(),
        }
    }

    fn alone(&self) -> bool {
        self.own.len() == 1
    }

    #[inline]
    fn push(&mut self, task: Ready, s: u32, owners: &mut Owners) {
        self.tasks += 1;
        if s == 0 {
            return self.free.push_back(task);
        }
        let cell = match self.cells.find(s) {
            Some(cell) => cell,
            None => self.add(s, owners.of(s)),
        };
        self.cells[cell].tasks.push_back(task);
        self.length_changed(cell);
    }

    fn add(&mut self, s: u32, owner: WorkerId) -> u32 {
        let cell = self.cells.add(s);
        self.own[owner.index()].push(&mut self.own_places, s, cell);
        if !self.alone() {
            let places = &mut self.length_places;
            self.by_length.push(places, (Reverse(0), s), cell);
        }
        cell
    }

    /// Takes `cell`, which is empty, out of use.
    fn remove(&mut self, cell: u32, owner: WorkerId) {
        self.own[owner.index()].remove(&mut self.own_places, cell);
        if !self.alone() {
            self.by_length.remove(&mut self.length_places, cell);
        }
        self.cells.remove(cell);
    }

    #[inline]
    fn length_changed(&mut self, cell: u32) {
        if !self.alone() {
            let key = (Reverse(self.cells[cell].tasks.len()), self.cells[cell].s);
            let places = &mut self.length_places;
            self.by_length.change(places, key, cell);
        }
    }

    /// Takes a task; `last` is the S group that `worker` took from last, and becomes the one that it takes from now. An S group that
    /// changes hands by this is returned, with its former owner.
    #[inline]
    fn take(
        &mut self,
        worker: WorkerId,
        last: &mut u32,
        owners: &mut Owners,
    ) -> Option<(Ready, Option<(u32, WorkerId)>)> {
        if self.tasks == 0 {
            return None;
        }
        debug_assert!(self.cells.in_use() <= self.tasks + self.last_here.len());
        if *last != 0
            && let Some(cell) = self.cells.find(*last)
            && let Some(task) = self.pop(cell)
        {
            self.stay(worker, *last, owners);
            return Some((task, None)); // step 1
        }
        self.stay(worker, 0, owners);
        while let Some((s, cell)) = self.own[worker.index()].first() {
            if let Some(task) = self.pop(cell) {
                *last = s;
                self.stay(worker, s, owners);
                return Some((task, None)); // step 2
            }
            self.remove(cell, worker); // another worker's last one
        }
        if let Some(task) = self.pop_free() {
            *last = 0;
            return Some((task, None)); // step 3
        }
        // Step 4. The worker has no cell of its own here, so the longest of all is another's.
        let (_, cell) = self.by_length.first().expect("there is a task");
        let s = self.cells[cell].s;
        let owner = owners.of(s);
        owners.associate(s, worker);
        self.follow(s, owner, worker);
        *last = s;
        self.stay(worker, s, owners);
        let task = self.pop(cell).expect("the longest cell has a task");
        Some((task, Some((s, owner))))
    }

    /// `worker` takes from S group `s` now (0: from none yet): the cell that it took from before goes out of use if it is empty.
    #[inline]
    fn stay(&mut self, worker: WorkerId, s: u32, owners: &mut Owners) {
        let before = std::mem::replace(&mut self.last_here[worker.index()], s);
        if before != s && before != 0 {
            self.remove_if_empty(before, owners);
        }
    }

    fn remove_if_empty(&mut self, s: u32, owners: &mut Owners) {
        if let Some(cell) = self.cells.find(s)
            && self.cells[cell].tasks.is_empty()
        {
            self.remove(cell, owners.of(s));
        }
    }

    #[inline]
    fn pop(&mut self, cell: u32) -> Option<Ready> {
        let tasks = &mut self.cells[cell].tasks;
        let task = if NEWEST_FIRST {
            tasks.pop_back()
        } else {
            tasks.pop_front()
        }?;
        self.tasks -= 1;
        self.length_changed(cell);
        Some(task)
    }

    #[inline]
    fn pop_free(&mut self) -> Option<Ready> {
        let task = if NEWEST_FIRST {
            self.free.pop_back()
        } else {
            self.free.pop_front()
        }?;
        self.tasks -= 1;
        Some(task)
    }

    /// S group `s` was associated with worker `to`.
    fn follow(&mut self, s: u32, from: WorkerId, to: WorkerId) {
        if let Some(cell) = self.cells.find(s) {
            self.own[from.index()].remove(&mut self.own_places, cell);
            self.own[to.index()].push(&mut self.own_places, s, cell);
        }
    }

    /// Takes the cells, which are all empty, out of use.
    fn clear(&mut self) {
        debug_assert_eq!(self.tasks, 0);
        for owner in 0..self.own.len() {
            while let Some((_, cell)) = self.own[owner].first() {
                self.remove(cell, WorkerId(owner as u16));
            }
        }
        debug_assert_eq!(self.cells.in_use(), 0, "each cell is some worker's own");
        self.last_here.fill(0);
    }
}

/// The pool. `NEWEST_FIRST`: cells are last in, first out.
#[derive(Debug)]
pub(crate) struct Sticky<const NEWEST_FIRST: bool> {
    /// T'.
    running: Option<u32>,
    running_row: Row<NEWEST_FIRST>,
    /// T0.
    exception: Row<NEWEST_FIRST>,
    /// The tasks, with their S groups, of T groups other than T' and T0.
    waiting: Waiting<(u32, Ready)>,
    /// The numbers of those groups, the lowest first.
    order: BinaryHeap<Reverse<u32>>,
    /// The tasks of a group that is being selected.
    selected: VecDeque<(u32, Ready)>,
    owners: Owners,
    /// The S group of what each worker took last; 0: none to stay in.
    last: Vec<u32>,
}

impl<const NEWEST_FIRST: bool> Sticky<NEWEST_FIRST> {
    pub(crate) fn new(workers: u16) -> Self {
        Sticky {
            running: None,
            running_row: Row::new(workers),
            exception: Row::new(workers),
            waiting: Waiting::new(),
            order: BinaryHeap::new(),
            selected: VecDeque::new(),
            owners: Owners::new(workers),
            last: vec![0; usize::from(workers)],
        }
    }

    /// A task became ready; calls come in the order of age.
    #[inline]
    pub(crate) fn ready(&mut self, task: Ready, t: u32, s: u32) {
        if Some(t) == self.running {
            self.running_row.push(task, s, &mut self.owners);
        } else if t == 0 {
            self.exception.push(task, s, &mut self.owners);
        } else if self.waiting.push(t, (s, task)) {
            self.order.push(Reverse(t));
        }
    }

    /// Returns the task that `worker` takes.
    #[inline]
    pub(crate) fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        if self.running_row.tasks == 0 {
            self.select();
        }
        let in_running = self.running_row.tasks > 0;
        let (row, other) = if in_running {
            (&mut self.running_row, &mut self.exception)
        } else {
            (&mut self.exception, &mut self.running_row)
        };
        let last = &mut self.last[worker.index()];
        let (task, moved) = row.take(worker, last, &mut self.owners)?;
        if let Some((s, from)) = moved {
            other.follow(s, from, worker);
        }
        Some(task)
    }

    /// Makes the lowest T group that waits the running one, if there is one.
    fn select(&mut self) {
        let Some(Reverse(t)) = self.order.pop() else {
            return;
        };
        self.running_row.clear();
        self.running = Some(t);
        self.waiting.take(t, &mut self.selected);
        for (s, task) in self.selected.drain(..) {
            self.running_row.push(task, s, &mut self.owners);
        }
    }
}
