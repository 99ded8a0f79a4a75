//! `ts`: the pool of cache groups (paper 1, section 3).
//!
//! The pool is a matrix of FIFO cells, one for each pair of a temporal group T and a spatial group S. Each S group but S0 is associated
//! with one worker; at most one T group, T', is in the running state. An idle worker whose associated S groups are `Sown` follows the
//! paper's pseudo-code; comments in the code cite the line numbers:
//!
//! ```text
//! HEAD:
//! 1   if   (T', Sown) not empty  -> take from (T', one of Sown)
//! 2   elif (T', S0) not empty    -> take from (T', S0)
//! 3   elif (T', ~Sown) not empty -> take from (T', S' in ~Sown); Sown += S'
//! 4   elif any T group other than T' (and T0) not empty -> T' = select(...); goto HEAD
//! 5   elif (T0, Sown) not empty  -> take from (T0, one of Sown)
//! 6   elif (T0, S0) not empty    -> take from (T0, S0)
//! 7   elif (T0, ~Sown) not empty -> take from (T0, S' in ~Sown); Sown += S'
//! 8   else halt
//! ```
//!
//! What the paper leaves open: of several cells the one with the oldest head is taken, and `select` returns the T group that holds the
//! oldest head. T' is undefined at first, stays when its cells run empty, and is unchanged when the worker halts. S group s >= 1
//! belongs at first to worker (s - 1) mod workers; `Sown += S'` takes it from its owner; S0 belongs to no worker and is not in `~Sown`.
//!
//! # How
//!
//! Workers take from T' and T0 only, and tasks arrive in the order of age. So simple structures suffice:
//!
//! - A T group *waits* if it is neither T' nor T0. No task leaves a waiting T group, so one queue holds all tasks of the group. The waiting
//!   groups themselves are in a queue, in the order of their first tasks. Line 4 takes the first of these groups and only then sorts the
//!   tasks of this group by S group.
//! - In T' and in T0 (a `Row` each) the oldest head of a worker's cells is the oldest task of the worker's S groups. So each worker has one
//!   queue, a *lane*, for all its S groups, as long as no S group of the row goes to another worker.
//! - When an S group goes to another worker, its tasks must be found among the others. From then on, and until the row has no task of an
//!   S group, each S group has a cell, and each worker has a heap of its cells by age of the head.
//!
//! Cost: O(1) a task in a T group in which no S group goes to another worker. In other T groups O(log cells) a task, and O(workers) for
//! each S group that goes to another worker, because the oldest head is searched for in the heap of every worker. Each task is moved at
//! most twice, from the waiting queue into a lane and from there into a cell. T and S may be any numbers; those below 65,536 are looked up
//! in arrays, others in a search tree. Memory: in proportion to the largest numbers of tasks and of cells that were in use at the same
//! time, at most 256 KiB for each of four arrays, and a tree node for each S group beyond 65,535 that went to another worker.

use std::collections::VecDeque;

use crate::dispatchers::cells::{Cells, Heap, Places};
use crate::dispatchers::central::{Arrival, Reads, Rule};
use crate::dispatchers::groups::{Owners, Waiting};
use crate::{Hints, Ready, Site, WorkerId};

/// A task with its S group, which may be S0. The T group is not stored, because all tasks of a queue or row have the same.
#[derive(Debug)]
struct Task {
    age: u64,
    s: u32,
    task: Ready,
}

/// The tasks of T' or of T0.
#[derive(Debug)]
struct Row {
    /// The cell of S0.
    free: VecDeque<Ready>,
    /// Number of tasks in S groups other than S0.
    spatial: usize,
    /// Of each worker the tasks of its S groups, oldest first. Empty if `split`.
    lanes: Vec<VecDeque<Task>>,
    /// Whether the tasks of S groups are in `cells` instead.
    split: bool,
    /// The tasks of S groups, with their ages.
    cells: Cells<(u64, Ready)>,
    /// For each worker a heap of its cells by the age of the head. No cell in a heap is empty.
    by_head: Vec<Heap<u64>>,
    places: Places,
}

impl Row {
    fn new(workers: u16) -> Self {
        Row {
            free: VecDeque::new(),
            spatial: 0,
            lanes: (0..workers).map(|_| VecDeque::new()).collect(),
            split: false,
            cells: Cells::new(),
            by_head: (0..workers).map(|_| Heap::new()).collect(),
            places: Places::default(),
        }
    }

    #[inline]
    fn push(&mut self, task: Task, owners: &mut Owners) {
        if task.s == 0 {
            return self.free.push_back(task.task);
        }
        let owner = owners.of(task.s);
        if self.spatial == 0 {
            debug_assert_eq!(self.cells.in_use(), 0);
            self.split = false;
        }
        self.spatial += 1;
        if self.split {
            self.push_into_cell(task, owner);
        } else {
            self.lanes[owner.index()].push_back(task);
        }
    }

    fn push_into_cell(&mut self, Task { age, s, task }: Task, owner: WorkerId) {
        let cell = self.cells.find(s).unwrap_or_else(|| {
            let cell = self.cells.add(s);
            self.by_head[owner.index()].push(&mut self.places, age, cell);
            cell
        });
        self.cells[cell].tasks.push_back((age, task));
    }

    /// Returns a task by lines 1 to 3, with this row as T', or by lines 5 to 7.
    #[inline]
    fn take(&mut self, worker: WorkerId, owners: &mut Owners) -> Option<(Ready, Option<Moved>)> {
        if let Some(task) = self.take_own(worker) {
            return Some((task, None)); // lines 1 and 5
        }
        if let Some(task) = self.free.pop_front() {
            return Some((task, None)); // lines 2 and 6
        }
        let moved = self.take_over(worker, owners)?; // lines 3 and 7
        let task = self.take_own(worker).expect("the cell has a task");
        Some((task, Some(moved)))
    }

    #[inline]
    fn take_own(&mut self, worker: WorkerId) -> Option<Ready> {
        let task = if self.split {
            self.take_from_cell(worker)?
        } else {
            self.lanes[worker.index()].pop_front()?.task
        };
        self.spatial -= 1;
        Some(task)
    }

    /// Takes and returns the oldest task of the worker's cells.
    fn take_from_cell(&mut self, worker: WorkerId) -> Option<Ready> {
        let heap = &mut self.by_head[worker.index()];
        let (_, cell) = heap.first()?;
        let tasks = &mut self.cells[cell].tasks;
        let (_, task) = tasks.pop_front().expect("heaps hold no empty cell");
        match tasks.front() {
            Some(&(head, _)) => heap.change(&mut self.places, head, cell),
            None => {
                heap.remove(&mut self.places, cell);
                self.cells.remove(cell);
            }
        }
        Some(task)
    }

    /// Takes the S group that has the oldest head of this row from its owner, associates it with `worker` and returns the change. `worker`
    /// has no cell in this row, so the oldest of all heads is in ~Sown.
    #[cold]
    fn take_over(&mut self, worker: WorkerId, owners: &mut Owners) -> Option<Moved> {
        if self.spatial == 0 {
            return None;
        }
        self.split_lanes();
        let heads = self.by_head.iter().zip(0..);
        let heads = heads.filter_map(|(heap, owner)| heap.first().map(|first| (first, owner)));
        let ((_, cell), owner) = heads.min().expect("there is a task");
        let moved = Moved {
            s: self.cells[cell].s,
            from: WorkerId(owner),
            to: worker,
        };
        owners.associate(moved.s, worker);
        self.follow(moved);
        Some(moved)
    }

    /// Moves the cell of an S group that was associated with another worker to the heap of that worker.
    fn follow(&mut self, Moved { s, from, to }: Moved) {
        if self.spatial == 0 {
            return;
        }
        self.split_lanes();
        let Some(cell) = self.cells.find(s) else {
            return;
        };
        let head = self.cells[cell].tasks.front().expect("no cell is empty").0;
        self.by_head[from.index()].remove(&mut self.places, cell);
        self.by_head[to.index()].push(&mut self.places, head, cell);
    }

    /// Puts the tasks of the lanes into cells.
    fn split_lanes(&mut self) {
        if self.split {
            return;
        }
        self.split = true;
        for owner in 0..self.lanes.len() {
            let mut lane = std::mem::take(&mut self.lanes[owner]);
            for task in lane.drain(..) {
                self.push_into_cell(task, WorkerId(owner as u16));
            }
            self.lanes[owner] = lane; // empty; put back so that its storage is used again
        }
    }
}

/// Sown += S': S group `s` went from one worker to another.
#[derive(Clone, Copy, Debug)]
struct Moved {
    s: u32,
    from: WorkerId,
    to: WorkerId,
}

/// The rule of `ts`.
#[derive(Debug)]
pub struct Ts {
    /// T'.
    running: Option<u32>,
    running_row: Row,
    /// T0.
    exception: Row,
    /// The tasks of the T groups other than T' and T0.
    waiting: Waiting<Task>,
    /// The numbers of the T groups in `waiting`, the one with the oldest task first.
    order: VecDeque<u32>,
    /// The tasks of a group that is being selected; else empty, kept for its storage.
    selected: VecDeque<Task>,
    owners: Owners,
}

impl Ts {
    #[inline]
    fn take_running(&mut self, worker: WorkerId) -> Option<Ready> {
        let (task, moved) = self.running_row.take(worker, &mut self.owners)?;
        if let Some(moved) = moved {
            self.exception.follow(moved);
        }
        Some(task)
    }

    /// Makes the T group with the oldest task the running one (line 4); returns `None` if there is none.
    fn select(&mut self) -> Option<()> {
        let t = self.order.pop_front()?;
        self.running = Some(t);
        self.waiting.take(t, &mut self.selected);
        for task in self.selected.drain(..) {
            self.running_row.push(task, &mut self.owners);
        }
        Some(())
    }
}

impl Rule for Ts {
    const READS: Reads = Reads::Groups;

    fn build(site: &Site<'_>) -> Self {
        let workers = site.placement.workers();
        Ts {
            running: None,
            running_row: Row::new(workers),
            exception: Row::new(workers),
            waiting: Waiting::new(),
            order: VecDeque::new(),
            selected: VecDeque::new(),
            owners: Owners::new(workers),
        }
    }

    #[inline]
    fn ready(&mut self, task: Ready, Arrival { age, hints, .. }: Arrival) {
        let Hints { t, s, .. } = hints;
        let task = Task { age, s, task };
        if Some(t) == self.running {
            self.running_row.push(task, &mut self.owners);
        } else if t == 0 {
            self.exception.push(task, &mut self.owners);
        } else if self.waiting.push(t, task) {
            self.order.push_back(t);
        }
    }

    #[inline]
    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        if let Some(task) = self.take_running(worker) {
            return Some(task); // lines 1 to 3
        }
        if self.select().is_some() {
            return self.take_running(worker); // line 4; the group has a task, so HEAD finds one
        }
        // Lines 5 to 8. If an S group is taken over, `running_row` need not follow: it is empty.
        let (task, _) = self.exception.take(worker, &mut self.owners)?;
        Some(task)
    }
}
