//! The map from IDs to task indices.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Task;

/// Finds tasks by ID.
///
/// While IDs ascend, as they do in recordings, the array of tasks itself is searched; otherwise a hash table takes 6 to 12 bytes a task.
#[derive(Debug, Default)]
pub(crate) struct IdMap {
    table: Option<HashTable<u32>>,
    hasher: DefaultHashBuilder,
}

impl IdMap {
    /// Adds the ID of the task that comes behind `tasks`. Returns false if the ID exists already. Amortised constant time.
    pub(crate) fn insert(&mut self, id: u32, tasks: &[Task]) -> bool {
        let hasher = &self.hasher;
        let hash =
            |&index: &u32| hasher.hash_one(tasks.get(index as usize).map_or(id, |task| task.id));
        if self.table.is_none() {
            if tasks.last().is_none_or(|last| last.id < id) {
                return true;
            }
            let mut table = HashTable::with_capacity(tasks.len() + 1);
            for index in 0..tasks.len() as u32 {
                table.insert_unique(hash(&index), index, hash);
            }
            self.table = Some(table);
        }
        let Some(table) = &mut self.table else {
            return true;
        };
        let code = hasher.hash_one(id);
        let same = |&index: &u32| tasks[index as usize].id == id;
        if table.find(code, same).is_some() {
            return false;
        }
        table.insert_unique(code, tasks.len() as u32, hash);
        true
    }

    /// Returns the index of the task with `id`.
    pub(crate) fn get(&self, id: u32, tasks: &[Task]) -> Option<u32> {
        if let Some(table) = &self.table {
            let same = |&index: &u32| tasks[index as usize].id == id;
            return table.find(self.hasher.hash_one(id), same).copied();
        }
        // IDs mostly have no gaps: then the index is the distance from the first ID.
        let guess = id.wrapping_sub(tasks.first()?.id) as usize;
        if tasks.get(guess).is_some_and(|task| task.id == id) {
            return Some(guess as u32);
        }
        let found = tasks.binary_search_by_key(&id, |task| task.id).ok();
        found.map(|index| index as u32)
    }
}
