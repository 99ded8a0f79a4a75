//! Radix sort of 32-bit keys: `kernels/radix.c` as tasks.
//!
//! In each of four passes a task counts the digits of one chunk of keys, one task turns all counts into places, and a task moves the
//! keys of a chunk to their places, which lie all over the other array. A T group is a pass, an S group a chunk.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Phased, Pieces, Random, SEED, Tasks};
use crate::workload::{Description, RunError};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("size", "N", Kind::Count(1, 1 << 28), "Keys").default("2000000"),
    OptionSpec::new("chunk", "N", Kind::Count(256, 1 << 24), "Keys of a task").default("8000"),
    SEED,
];

const RADIX: usize = 256;
const PASSES: usize = 4;

pub(crate) struct Radix {
    size: usize,
    chunk: usize,
    random: Random,
    /// Both arrays; an even pass moves keys from the first into the second. Places of different tasks share cache lines, but no place
    /// belongs to two tasks.
    keys: [Vec<AtomicU32>; 2],
    /// Of each chunk: counts of digits, then places.
    counts: Pieces<[u32; RADIX]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Count(usize, usize),
    Places,
    Move(usize, usize),
}

impl Radix {
    /// Returns the places of a chunk.
    fn range(&self, chunk: usize) -> Range<usize> {
        chunk * self.chunk..((chunk + 1) * self.chunk).min(self.size)
    }

    /// Returns the keys of a chunk at the begin of a pass, each with its digit.
    fn digits(&self, pass: usize, chunk: usize) -> impl Iterator<Item = (u32, usize)> {
        let keys = self.keys[pass % 2][self.range(chunk)].iter();
        keys.map(move |key| {
            let key = key.load(Relaxed);
            (key, (key >> (8 * pass)) as usize % RADIX)
        })
    }
}

impl Phased for Radix {
    const DESCRIPTION: &'static Description = &Description {
        name: "radix",
        about: "Radix sort of integers",
        details: "After SPLASH-2's kernel Radix, of which there is a program with POSIX threads too. Each pass moves all \
        keys to places all over memory.",
        options: OPTIONS,
        test_options: &[("size", "5000"), ("chunk", "500")],
    };
    const RECORDED: bool = false;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        let chunks = values.count("size").div_ceil(values.count("chunk"));
        values.count("size") * 8 + chunks * (1024 + chunks * 64)
    }

    fn new(values: &Values, _workers: u16) -> Result<Self, RunError> {
        let (size, chunk) = (values.count("size"), values.count("chunk"));
        let keys = || (0..size).map(|_| AtomicU32::new(0)).collect();
        Ok(Radix {
            size: size as usize,
            chunk: chunk as usize,
            random: Random::new(values.count(SEED.flag)),
            keys: [keys(), keys()],
            counts: Pieces::new(size.div_ceil(chunk) as usize, |_| [0; RADIX]),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let chunks = self.counts.len();
        let counts = tasks.array(chunks, 4 * RADIX as u64);
        // What the tasks of a pass have moved, by task: all of it is one chunk's input to the next pass.
        let moved = tasks.array(chunks, 4 * self.chunk as u64);
        for pass in 0..PASSES {
            tasks.phase("count");
            for chunk in 0..chunks {
                let task = tasks.task(Task::Count(pass, chunk), (pass, chunk), self.chunk);
                let all = (0..chunks).map(|chunk| moved.piece(chunk));
                task.read_all(all).write(counts.piece(chunk));
            }
            tasks.phase("places");
            let task = tasks.task(Task::Places, (pass, 0), chunks * RADIX);
            task.write_all((0..chunks).map(|chunk| counts.piece(chunk)));
            tasks.phase("move");
            for chunk in 0..chunks {
                let task = tasks.task(Task::Move(pass, chunk), (pass, chunk), self.chunk);
                task.update(counts.piece(chunk)).update(moved.piece(chunk));
            }
        }
    }

    fn reset(&self) {
        for (place, key) in (0..).zip(&self.keys[0]) {
            key.store((self.random.at(place) >> 32) as u32, Relaxed);
        }
    }

    fn run(&self, task: Task) {
        match task {
            Task::Count(pass, chunk) => {
                let mut counts = [0; RADIX];
                self.digits(pass, chunk)
                    .for_each(|(_, digit)| counts[digit] += 1);
                *self.counts.write(chunk) = counts;
            }
            Task::Places => {
                let chunks = 0..self.counts.len();
                let mut counts: Vec<_> = chunks.map(|chunk| self.counts.write(chunk)).collect();
                let mut sum = 0;
                for digit in 0..RADIX {
                    for counts in &mut counts {
                        sum += std::mem::replace(&mut counts[digit], sum);
                    }
                }
            }
            Task::Move(pass, chunk) => {
                let mut places = self.counts.write(chunk);
                let to = &self.keys[(pass + 1) % 2];
                for (key, digit) in self.digits(pass, chunk) {
                    to[places[digit] as usize].store(key, Relaxed);
                    places[digit] += 1;
                }
            }
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        let sorted = self.keys[PASSES % 2].iter();
        sorted.for_each(|key| word(key.load(Relaxed).into()));
    }
}
