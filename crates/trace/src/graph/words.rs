//! Interned words.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Distinct words by index, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) list: Vec<String>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Words {
    /// Returns the index of `word`, which is added if it is new.
    pub(crate) fn index(&mut self, word: &str) -> u32 {
        let code = self.hasher.hash_one(word);
        let same = |&index: &u32| self.list[index as usize] == word;
        if let Some(&index) = self.table.find(code, same) {
            return index;
        }
        let index = self.list.len() as u32;
        self.list.push(word.to_owned());
        self.table.insert_unique(code, index, |&index| {
            self.hasher.hash_one(&*self.list[index as usize])
        });
        index
    }
}
