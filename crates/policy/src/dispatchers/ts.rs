//! `ts`: the pool of cache groups (paper 1, section 3).
//!
//! The pool is a matrix of FIFO cells, one for each pair of a temporal group T and a spatial group S. Each S group but S0 is associated
//! with one worker; at most one T group, T', is in the running state. An idle worker whose associated S groups are `Sown` does what the
//! paper's pseudo-code says (numbered here as the comments below cite it):
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
//! What the paper leaves open: of several cells the one with the oldest head is taken, and `select` gives the T group that holds the
//! oldest head. T' is undefined at first, stays when its cells run empty, and is unchanged when the worker halts. S group s >= 1
//! belongs at first to worker (s - 1) mod workers; `Sown += S'` takes it from its owner; S0 belongs to nobody and is not in `~Sown`.
//!
//! Cost: O(log cells) a call, amortised: selecting a T group indexes its cells once, and each of them is emptied before the next
//! selection. T and S may be any numbers.

use std::collections::{BTreeMap, VecDeque};

use crate::dispatchers::central::Rule;
use crate::dispatchers::owners::Owners;
use crate::{Hints, Ready, Site, WorkerId};

/// A FIFO of tasks with their ages; never empty while it is in the matrix.
type Cell = VecDeque<(u64, Ready)>;

/// The heads of the cells of one T group, without that of S0.
#[derive(Debug, Default)]
struct Heads {
    /// Age of the head -> S group.
    all: BTreeMap<u64, u32>,
    /// The same for each worker, of the S groups associated with it.
    own: Vec<BTreeMap<u64, u32>>,
}

impl Heads {
    fn new(workers: u16) -> Self {
        Heads {
            all: BTreeMap::new(),
            own: (0..workers).map(|_| BTreeMap::new()).collect(),
        }
    }

    fn add(&mut self, head: u64, s: u32, owner: WorkerId) {
        self.all.insert(head, s);
        self.own[owner.index()].insert(head, s);
    }

    fn remove(&mut self, head: u64, owner: WorkerId) {
        self.all.remove(&head);
        self.own[owner.index()].remove(&head);
    }
}

/// The rule of `ts`.
#[derive(Debug)]
pub struct Ts {
    /// (T, S) -> cell. Holds no empty cell.
    matrix: BTreeMap<(u32, u32), Cell>,
    /// T'.
    running: Option<u32>,
    /// Heads of the cells of T'.
    running_heads: Heads,
    /// Heads of the cells of T0.
    exception_heads: Heads,
    /// T groups other than T' and T0 that have tasks: age of the oldest task -> T group. Nobody takes from these groups, so the age
    /// stays what it was when the group's first task came.
    waiting: BTreeMap<u64, u32>,
    owners: Owners,
    /// Emptied cells, kept for their storage.
    spare: Vec<Cell>,
}

impl Ts {
    fn owner(&self, s: u32) -> WorkerId {
        self.owners.of(s)
    }

    /// The index of group `t`'s heads, where it has one.
    fn heads(&mut self, t: u32) -> Option<&mut Heads> {
        if t == 0 {
            Some(&mut self.exception_heads)
        } else if Some(t) == self.running {
            Some(&mut self.running_heads)
        } else {
            None
        }
    }

    fn has_group(&self, t: u32) -> bool {
        self.matrix.range((t, 0)..=(t, u32::MAX)).next().is_some()
    }

    /// Lines 1 to 3 with T' = `t`; with `t` = 0 they are lines 5 to 7.
    fn take_in_group(&mut self, t: u32, worker: WorkerId) -> Option<Ready> {
        let heads = self.heads(t)?;
        let oldest = |heads: &BTreeMap<u64, u32>| heads.first_key_value().map(|(_, &s)| s);
        if let Some(s) = oldest(&heads.own[worker.index()]) {
            return Some(self.take(t, s)); // lines 1 and 5
        }
        let elsewhere = oldest(&heads.all);
        if self.matrix.contains_key(&(t, 0)) {
            return Some(self.take(t, 0)); // lines 2 and 6
        }
        // Lines 3 and 7. The worker has no cell of its own here, so the oldest of all is in ~Sown.
        elsewhere.map(|s| {
            self.associate(s, worker);
            self.take(t, s)
        })
    }

    /// Sown += S': the head of S' changes sides in both indexes that it may be in.
    fn associate(&mut self, s: u32, worker: WorkerId) {
        let owner = self.owner(s);
        for t in self.running.into_iter().chain([0]) {
            let Some(head) = self.matrix.get(&(t, s)).map(|cell| cell[0].0) else {
                continue;
            };
            let heads = self.heads(t).expect("T' and T0 have an index");
            heads.remove(head, owner);
            heads.add(head, s, worker);
        }
        self.owners.associate(s, worker);
    }

    /// Takes the head of a cell that is not empty.
    fn take(&mut self, t: u32, s: u32) -> Ready {
        let cell = self
            .matrix
            .get_mut(&(t, s))
            .expect("the heads name cells that are not empty");
        let (age, task) = cell.pop_front().expect("the matrix holds no empty cell");
        let new_head = cell.front().map(|&(age, _)| age);
        if new_head.is_none() {
            self.spare.extend(self.matrix.remove(&(t, s)));
        }
        if s != 0 {
            let owner = self.owner(s);
            let heads = self.heads(t).expect("tasks are taken from T' and T0 only");
            heads.remove(age, owner);
            if let Some(new_head) = new_head {
                heads.add(new_head, s, owner);
            }
        }
        task
    }

    /// Line 4: makes `t` the running group.
    fn select(&mut self, t: u32) {
        debug_assert!(
            self.running_heads.all.is_empty(),
            "T' is replaced only when its cells are empty"
        );
        self.running = Some(t);
        for (&(_, s), cell) in self.matrix.range((t, 1)..=(t, u32::MAX)) {
            self.running_heads.add(cell[0].0, s, self.owners.of(s));
        }
    }
}

impl Rule for Ts {
    const READS_GROUPS: bool = true;

    fn build(site: &Site<'_>) -> Self {
        let workers = site.placement.workers();
        Ts {
            matrix: BTreeMap::new(),
            running: None,
            running_heads: Heads::new(workers),
            exception_heads: Heads::new(workers),
            waiting: BTreeMap::new(),
            owners: Owners::new(workers),
            spare: Vec::new(),
        }
    }

    fn ready(&mut self, age: u64, task: Ready, Hints { t, s, .. }: Hints) {
        let waits = t != 0 && Some(t) != self.running;
        if waits && !self.has_group(t) {
            self.waiting.insert(age, t);
        }
        let spare = &mut self.spare;
        let cell = self
            .matrix
            .entry((t, s))
            .or_insert_with(|| spare.pop().unwrap_or_default());
        cell.push_back((age, task));
        if cell.len() == 1 && s != 0 {
            let owner = self.owner(s);
            if let Some(heads) = self.heads(t) {
                heads.add(age, s, owner);
            }
        }
    }

    fn next(&mut self, worker: WorkerId) -> Option<Ready> {
        if let Some(task) = self.running.and_then(|t| self.take_in_group(t, worker)) {
            return Some(task); // lines 1 to 3
        }
        if let Some((_, t)) = self.waiting.pop_first() {
            self.select(t); // line 4; the group has a task, so HEAD finds one
            return self.take_in_group(t, worker);
        }
        self.take_in_group(0, worker) // lines 5 to 8
    }
}
