//! Additions and look-ups in a hash table, with keys after Zipf's law: `kernels/hash.c` as tasks.
//!
//! The C program locks stripes of one table. Tasks take no locks: in every round a task sorts the operations of a chunk by shard of the
//! table, and a task does the operations of one shard, additions first. The order of additions does not show in the result. A T group is a
//! round; S groups are chunks and shards.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Phased, Pieces, Random, SEED, Tasks};
use crate::workload::{Description, RunError};
use std::array::from_fn;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        "N",
        Kind::Count(1, 1 << 24),
        "Additions, and look-ups, of a round",
    )
    .default("100000"),
    OptionSpec::new("rounds", "N", Kind::Count(1, 64), "Rounds").default("4"),
    OptionSpec::new(
        "keys",
        "N",
        Kind::Count(16, 1 << 26),
        "Keys are below this power of 2",
    )
    .default("32768"),
    OptionSpec::new(
        "chunk",
        "N",
        Kind::Count(1, 1 << 20),
        "Additions, and look-ups, of a task",
    )
    .default("2000"),
    SEED,
];

const SHARDS: usize = 64;

#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    /// The next entry of the chain, plus 1; 0: none.
    next: u32,
    count: u32,
    sum: u64,
}

/// The part of the table that one task changes: chains that are sorted by key.
struct Shard {
    /// The first entry of each chain, plus 1.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    /// What look-ups found: entries, and a sum over them.
    found: (u64, u64),
}

/// Operations of a chunk on one shard.
#[derive(Default)]
struct Operations {
    add: Vec<(u32, u64)>,
    look_up: Vec<u32>,
}

pub(crate) struct Hash {
    size: usize,
    rounds: usize,
    chunk: usize,
    levels: u32,
    random: Random,
    /// Of each chunk, in even and in odd rounds.
    sorted: Pieces<[Operations; SHARDS]>,
    shards: Pieces<Shard>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Sort(usize, usize),
    Apply(usize, usize),
}

fn shard_of(key: u32) -> usize {
    (key.wrapping_mul(0x9E37_79B1) >> 26) as usize
}

impl Shard {
    fn new(chains: usize) -> Shard {
        Shard {
            heads: vec![0; chains],
            entries: Vec::new(),
            found: (0, 0),
        }
    }

    /// Returns the chain of a key, the entry before it and the first that is not below it (plus 1; 0: none).
    fn find(&self, key: u32) -> (usize, u32, u32) {
        let chain = (key.wrapping_mul(0x85EB_CA6B) >> 8) as usize % self.heads.len();
        let (mut before, mut at) = (0, self.heads[chain]);
        while at != 0 && self.entries[at as usize - 1].key < key {
            (before, at) = (at, self.entries[at as usize - 1].next);
        }
        (chain, before, at)
    }

    fn get(&self, key: u32) -> Option<&Entry> {
        let (_, _, at) = self.find(key);
        let entry = self.entries.get((at as usize).checked_sub(1)?);
        entry.filter(|entry| entry.key == key)
    }

    fn add(&mut self, key: u32, number: u64) {
        let (chain, before, mut at) = self.find(key);
        if at == 0 || self.entries[at as usize - 1].key != key {
            self.entries.push(Entry {
                key,
                next: at,
                count: 0,
                sum: 0,
            });
            at = self.entries.len() as u32;
            match before {
                0 => self.heads[chain] = at,
                before => self.entries[before as usize - 1].next = at,
            }
        }
        let entry = &mut self.entries[at as usize - 1];
        entry.sum = entry.sum.wrapping_add(number);
        entry.count += 1;
    }

    fn look_up(&mut self, key: u32) {
        if let Some(entry) = self.get(key) {
            let word = entry.sum ^ u64::from(entry.count);
            self.found = (self.found.0 + 1, self.found.1.wrapping_add(word));
        }
    }
}

impl Hash {
    fn chunks(&self) -> usize {
        self.size.div_ceil(self.chunk)
    }

    /// Returns the key of an operation: each power of two begins an interval that is as frequent as all others.
    fn key_of(&self, random: u64) -> u32 {
        let level = ((random as u32 & 0xFFFF) * self.levels) >> 16;
        (1 << level) + ((random >> 16) as u32 & ((1 << level) - 1))
    }

    /// Returns the piece of `sorted` for a chunk of a round.
    fn place(&self, round: usize, chunk: usize) -> usize {
        round % 2 * self.chunks() + chunk
    }

    fn sort(&self, round: usize, chunk: usize) {
        let mut sorted = self.sorted.write(self.place(round, chunk));
        for operations in &mut *sorted {
            operations.add.clear();
            operations.look_up.clear();
        }
        for at in chunk * self.chunk..((chunk + 1) * self.chunk).min(self.size) {
            let [add, look_up] =
                [0, 1].map(|part| 2 * ((2 * round + part) * self.size + at) as u64);
            let key = self.key_of(self.random.at(add));
            let number = self.random.at(add + 1);
            sorted[shard_of(key)].add.push((key, number));
            let key = self.key_of(self.random.at(look_up));
            sorted[shard_of(key)].look_up.push(key);
        }
    }

    fn apply(&self, round: usize, number: usize) {
        let mut shard = self.shards.write(number);
        let chunks = (0..self.chunks()).map(|chunk| self.sorted.read(self.place(round, chunk)));
        let chunks: Vec<_> = chunks.collect();
        for operations in &chunks {
            for &(key, number) in &operations[number].add {
                shard.add(key, number);
            }
        }
        for operations in &chunks {
            for &key in &operations[number].look_up {
                shard.look_up(key);
            }
        }
    }
}

impl Phased for Hash {
    const DESCRIPTION: &'static Description = &Description {
        name: "hash",
        about: "Additions and look-ups in a hash table",
        details: "Keys follow Zipf's law, so a few entries are used most of the time. There is a program with POSIX \
        threads and striped locks too; tasks have shards instead.",
        options: OPTIONS,
        test_options: &[
            ("size", "2000"),
            ("chunk", "300"),
            ("rounds", "3"),
            ("keys", "1024"),
        ],
    };
    const RECORDED: bool = false;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        let chunks = values.count("size").div_ceil(values.count("chunk"));
        let graph = chunks * values.count("rounds") * SHARDS as u64 * 20;
        values.count("size") * 64 + values.count("keys") * 48 + chunks * 10_000 + graph
    }

    fn new(values: &Values, _workers: u16) -> Result<Self, RunError> {
        let [size, rounds, keys, chunk] =
            ["size", "rounds", "keys", "chunk"].map(|flag| values.count(flag) as usize);
        if !keys.is_power_of_two() {
            return Err(RunError::Input(format!("--keys {keys} is no power of 2")));
        }
        let pieces = 2 * size.div_ceil(chunk);
        Ok(Hash {
            size,
            rounds,
            chunk,
            levels: keys.ilog2(),
            random: Random::new(values.count(SEED.flag)),
            sorted: Pieces::new(pieces, |_| from_fn(|_| Operations::default())),
            shards: Pieces::new(SHARDS, |_| Shard::new((keys / 4 / SHARDS).max(1))),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let chunks = self.chunks();
        let sorted = tasks.array(self.sorted.len(), self.chunk as u64 * 20);
        let shards = tasks.array(SHARDS, 64);
        for round in 0..self.rounds {
            tasks.phase("sort");
            for chunk in 0..chunks {
                let task = tasks.task(Task::Sort(round, chunk), (round, chunk), self.chunk);
                task.write(sorted.piece(self.place(round, chunk)));
            }
            tasks.phase("apply");
            for shard in 0..SHARDS {
                let work = self.size / SHARDS;
                let task = tasks.task(Task::Apply(round, shard), (round, shard), work);
                let all = (0..chunks).map(|chunk| sorted.piece(self.place(round, chunk)));
                task.read_all(all).update(shards.piece(shard));
            }
        }
    }

    fn reset(&self) {
        for number in 0..SHARDS {
            let shard = &mut *self.shards.write(number);
            shard.heads.fill(0);
            shard.entries.clear();
            shard.found = (0, 0);
        }
    }

    fn run(&self, task: Task) {
        match task {
            Task::Sort(round, chunk) => self.sort(round, chunk),
            Task::Apply(round, shard) => self.apply(round, shard),
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        let shards: Vec<_> = (0..SHARDS).map(|shard| self.shards.read(shard)).collect();
        let found = shards.iter().map(|shard| shard.found);
        let found = found.fold((0, 0_u64), |all, one| {
            (all.0 + one.0, all.1.wrapping_add(one.1))
        });
        word(found.0);
        word(found.1);
        for key in 1..1 << self.levels {
            if let Some(entry) = shards[shard_of(key)].get(key) {
                word(key.into());
                word(entry.sum);
                word(entry.count.into());
            }
        }
    }
}
