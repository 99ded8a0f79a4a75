//! The cells of one T group, and heaps that order them.

use std::collections::VecDeque;

use super::groups::Table;

/// The queues of tasks of one T group, one an S group. A cell is named by its index.
///
/// Cost: O(1) a call, besides one access to a [`Table`] by the number of the S group. Memory: in proportion to the largest number of cells
/// that were in use at the same time.
#[derive(Debug)]
pub(super) struct Cells<Task> {
    /// S group -> cell.
    of_group: Table,
    cells: Vec<Cell<Task>>,
    /// Cells that are not in use, kept for their storage.
    spare: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Cell<Task> {
    pub(super) s: u32,
    pub(super) tasks: VecDeque<Task>,
}

impl<Task> Cells<Task> {
    pub(super) fn new() -> Self {
        Cells {
            of_group: Table::default(),
            cells: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Returns the cell of S group `s`, if it is in use.
    #[inline]
    pub(super) fn find(&self, s: u32) -> Option<u32> {
        self.of_group.get(s)
    }

    /// Takes a cell for S group `s`, which must have none, and returns the cell.
    pub(super) fn add(&mut self, s: u32) -> u32 {
        let cell = self.spare.pop().unwrap_or_else(|| {
            let tasks = VecDeque::new();
            self.cells.push(Cell { s, tasks });
            (self.cells.len() - 1) as u32
        });
        self.cells[cell as usize].s = s;
        self.of_group.set(s, cell);
        cell
    }

    /// Frees `cell`, which must be empty.
    pub(super) fn remove(&mut self, cell: u32) {
        let this = &self.cells[cell as usize];
        debug_assert!(this.tasks.is_empty());
        self.of_group.remove(this.s);
        self.spare.push(cell);
    }

    /// Returns the number of cells in use.
    pub(super) fn in_use(&self) -> usize {
        self.cells.len() - self.spare.len()
    }
}

impl<Task> std::ops::Index<u32> for Cells<Task> {
    type Output = Cell<Task>;
    #[inline]
    fn index(&self, cell: u32) -> &Cell<Task> {
        &self.cells[cell as usize]
    }
}

impl<Task> std::ops::IndexMut<u32> for Cells<Task> {
    #[inline]
    fn index_mut(&mut self, cell: u32) -> &mut Cell<Task> {
        &mut self.cells[cell as usize]
    }
}

/// For each cell its place in the [`Heap`] that holds it. Several heaps can share one table, if no cell is in two of them at the same time.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    #[inline]
    fn set(&mut self, cell: u32, place: usize) {
        let cell = cell as usize;
        if cell >= self.0.len() {
            self.0.resize(cell + 1, 0);
        }
        self.0[cell] = place as u32;
    }
}

/// A binary heap of cells, the least key first, from which any cell can be removed because its place is known.
///
/// Cost: O(log cells) a change; O(1) if the cell stays where it is, as with one cell.
#[derive(Debug)]
pub(super) struct Heap<Key>(Vec<(Key, u32)>);

impl<Key: Ord + Copy> Heap<Key> {
    pub(super) fn new() -> Self {
        Heap(Vec::new())
    }

    /// Returns the least key, and its cell.
    #[inline]
    pub(super) fn first(&self) -> Option<(Key, u32)> {
        self.0.first().copied()
    }

    #[inline]
    pub(super) fn push(&mut self, places: &mut Places, key: Key, cell: u32) {
        self.0.push((key, cell));
        self.rise(places, self.0.len() - 1);
    }

    /// Removes `cell`, which is in this heap.
    #[inline]
    pub(super) fn remove(&mut self, places: &mut Places, cell: u32) {
        let place = places.0[cell as usize] as usize;
        debug_assert_eq!(self.0[place].1, cell);
        self.0.swap_remove(place);
        if place < self.0.len() {
            self.settle(places, place);
        }
    }

    /// Changes the key of `cell`, which is in this heap.
    #[inline]
    pub(super) fn change(&mut self, places: &mut Places, key: Key, cell: u32) {
        let place = places.0[cell as usize] as usize;
        debug_assert_eq!(self.0[place].1, cell);
        self.0[place].0 = key;
        self.settle(places, place);
    }

    /// Restores the order around `place`, whose entry is new.
    #[inline]
    fn settle(&mut self, places: &mut Places, place: usize) {
        if place > 0 && self.0[place].0 < self.0[(place - 1) / 2].0 {
            self.rise(places, place);
        } else {
            self.sink(places, place);
        }
    }

    #[inline]
    fn rise(&mut self, places: &mut Places, mut place: usize) {
        let entry = self.0[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.0[parent].0 <= entry.0 {
                break;
            }
            self.put(places, place, self.0[parent]);
            place = parent;
        }
        self.put(places, place, entry);
    }

    #[inline]
    fn sink(&mut self, places: &mut Places, mut place: usize) {
        let entry = self.0[place];
        loop {
            let mut child = 2 * place + 1;
            if child + 1 < self.0.len() && self.0[child + 1].0 < self.0[child].0 {
                child += 1;
            }
            if child >= self.0.len() || entry.0 <= self.0[child].0 {
                break;
            }
            self.put(places, place, self.0[child]);
            place = child;
        }
        self.put(places, place, entry);
    }

    #[inline]
    fn put(&mut self, places: &mut Places, place: usize, entry: (Key, u32)) {
        self.0[place] = entry;
        places.set(entry.1, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WorkerId, draw};

    #[test]
    fn a_heap_agrees_with_a_sorted_list() {
        const CELLS: u64 = 40;
        let mut random = (0..).map(|call| draw(1, WorkerId(0), call));
        let mut random = |below: u64| random.next().expect("endless") % below;
        let (mut heap, mut places) = (Heap::new(), Places::default());
        let mut list: Vec<(u64, u32)> = Vec::new();
        for _ in 0..20_000 {
            // The range is so large that no two keys are equal: the order of cells with equal keys is not defined.
            let (cell, key) = (random(CELLS) as u32, random(1 << 40));
            match list.iter().position(|&(_, other)| other == cell) {
                None => {
                    heap.push(&mut places, key, cell);
                    list.push((key, cell));
                }
                Some(at) if random(2) == 0 => {
                    heap.change(&mut places, key, cell);
                    list[at].0 = key;
                }
                Some(at) => {
                    heap.remove(&mut places, cell);
                    list.remove(at);
                }
            }
            assert_eq!(heap.first(), list.iter().min().copied());
        }
    }

    #[test]
    fn a_cell_that_was_removed_is_used_again() {
        let mut cells: Cells<u8> = Cells::new();
        assert_eq!(cells.in_use(), 0);
        let (first, second) = (cells.add(7), cells.add(u32::MAX));
        assert_eq!(
            (cells.find(7), cells.find(u32::MAX)),
            (Some(first), Some(second))
        );
        cells.remove(first);
        assert_eq!((cells.find(7), cells.in_use()), (None, 1));
        assert_eq!((cells.add(9), cells[first].s), (first, 9));
    }
}
