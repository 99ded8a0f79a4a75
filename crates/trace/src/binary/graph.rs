//! Reading the graph of the binary form, task by task.

use super::Layout;
use crate::blocks::Store;
use crate::graph::{NONE, Words, unzigzag, varint_from};
use crate::sink::is_word;
use crate::text::LONGEST_LINE;
use crate::{Edge, Task, TraceError};

/// One task with everything that the file has about it; words are indices.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) task: Task,
    /// (name, T, S).
    pub(crate) groupings: Vec<(u32, u32, u32)>,
    /// (name, value).
    pub(crate) hints: Vec<(u32, u32)>,
    pub(crate) edges: Vec<Edge>,
}

/// Reads the blocks of the graph as one stream.
#[derive(Debug)]
pub(crate) struct GraphReader<'a> {
    store: &'a Store,
    layout: &'a Layout,
    next: usize,
    block: Vec<u8>,
    packed: Vec<u8>,
    at: usize,
    pub(crate) words: Words,
    /// Tasks read so far.
    read: u64,
    edges: u64,
    records: (u32, u32),
}

impl<'a> GraphReader<'a> {
    /// Reads and returns the words.
    ///
    /// # Errors
    /// The blocks cannot be read or their content is no list of distinct words.
    pub(crate) fn new(store: &'a Store, layout: &'a Layout) -> Result<Self, TraceError> {
        let (block, packed, words) = (Vec::new(), Vec::new(), Words::default());
        let mut reader = Self {
            store,
            layout,
            next: 0,
            block,
            packed,
            at: 0,
            words,
            read: 0,
            edges: 0,
            records: (0, 0),
        };
        for place in 0..reader.varint()? {
            let length = reader.varint()?;
            if length > LONGEST_LINE as u64 {
                return Err(invalid("a word is too long"));
            }
            let mut bytes = Vec::new();
            for _ in 0..length {
                bytes.push(reader.byte()?);
            }
            let word = String::from_utf8(bytes)
                .ok()
                .filter(|word| is_word(word, true));
            let word = word.ok_or_else(|| invalid("a name is not a word"))?;
            let index = reader.words.index(&word);
            if u64::from(index) != place {
                return Err(invalid("a word occurs twice"));
            }
        }
        Ok(reader)
    }

    fn byte(&mut self) -> Result<u8, TraceError> {
        while self.at == self.block.len() {
            let block = self.layout.graph.get(self.next);
            let block = *block.ok_or_else(|| invalid("it ends too early"))?;
            let (packed, bytes) = (&mut self.packed, &mut self.block);
            self.store.block(block, packed, bytes, 0)?;
            self.next += 1;
            self.at = 0;
        }
        self.at += 1;
        Ok(self.block[self.at - 1])
    }

    fn varint(&mut self) -> Result<u64, TraceError> {
        varint_from(|| self.byte(), || invalid("a number is too long"))
    }

    fn narrow(&mut self) -> Result<u32, TraceError> {
        u32::try_from(self.varint()?).map_err(|_| invalid("a number is too large"))
    }

    /// Reads and returns a number that is stored as its difference from `last`.
    fn delta(&mut self, last: i64) -> Result<u32, TraceError> {
        let value = last.checked_add(unzigzag(self.varint()?));
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| invalid("a number is out of range"))
    }

    fn word(&mut self) -> Result<u32, TraceError> {
        let word = self.narrow()?;
        match (word as usize) < self.words.list.len() {
            true => Ok(word),
            false => Err(invalid("it refers to a missing word")),
        }
    }

    /// Reads the next task into `entry`, which must still hold the task before it. Returns false at the end.
    pub(crate) fn next(&mut self, entry: &mut Entry) -> Result<bool, TraceError> {
        if self.read == self.layout.counts.tasks {
            let whole = self.edges == self.layout.counts.edges
                && self.next == self.layout.graph.len()
                && self.at == self.block.len();
            return match whole {
                true => Ok(false),
                false => Err(invalid("it continues after its end")),
            };
        }
        let last = &entry.task;
        let (t, s, depth) = (last.t.into(), last.s.into(), last.depth.into());
        let id = self.delta(i64::from(last.id) + 1)?;
        let (t, s, depth) = (self.delta(t)?, self.delta(s)?, self.delta(depth)?);
        let name = match self.narrow()? {
            0 => NONE,
            name if (name as usize) <= self.words.list.len() => name - 1,
            _ => return Err(invalid("a task refers to a missing name")),
        };
        let (block, offset) = self.records_position()?;
        entry.task = Task {
            id,
            t,
            s,
            depth,
            name,
            waits: 0,
            block,
            offset,
        };
        entry.groupings.clear();
        for _ in 0..self.narrow()? {
            let grouping = (self.word()?, self.narrow()?, self.narrow()?);
            entry.groupings.push(grouping);
        }
        entry.hints.clear();
        for _ in 0..self.narrow()? {
            let hint = (self.word()?, self.word()?);
            entry.hints.push(hint);
        }
        entry.edges.clear();
        for _ in 0..self.narrow()? {
            let edge = unzigzag(self.varint()?);
            let to = u32::try_from((edge >> 1) + self.read as i64).ok();
            let to = to.filter(|&to| u64::from(to) < self.layout.counts.tasks);
            let to = to.ok_or_else(|| invalid("a dependency refers to a missing task"))?;
            entry.edges.push(Edge::new(to, edge & 1 != 0));
        }
        self.edges += entry.edges.len() as u64;
        self.read += 1;
        Ok(true)
    }

    /// Reads and returns the block and the position at which the task's records begin.
    fn records_position(&mut self) -> Result<(u32, u32), TraceError> {
        let block_delta_plus_1 = self.narrow()?;
        if block_delta_plus_1 == 0 {
            return Ok((NONE, 0));
        }
        let (block, offset) = self.records;
        let from = if block_delta_plus_1 == 1 { offset } else { 0 };
        let block = block.checked_add(block_delta_plus_1 - 1);
        let place = block.zip(from.checked_add(self.narrow()?));
        let good = |&(block, offset): &(u32, u32)| {
            let block = self.layout.records.get(block as usize);
            block.is_some_and(|block| (offset & 0xffff) + (offset >> 16) < block.length)
        };
        let place = place.filter(good);
        self.records = place.ok_or_else(|| invalid("a task refers to missing records"))?;
        Ok(self.records)
    }
}

#[cold]
pub(crate) fn invalid(why: &str) -> TraceError {
    let what = format!("damaged: its task graph is invalid: {why}; make or copy the file again");
    TraceError::at(0, what)
}
