//! What a run did in each interval of time. If there would be too many intervals, each two become one: memory is bounded whatever the
//! length of the run.

use super::params::TICKS;
use crate::counts::outcome::Count;
use crate::machine::Cycle;
use serde::Serialize;

/// The intervals of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Length of the first intervals; it doubles whenever there would be more than `most`.
    pub cycles: Cycle,
    /// The greatest number of intervals; an even one, at least 2. [`Intervals::ANY`]: the length never doubles.
    pub most: usize,
}

impl Intervals {
    /// As many intervals as the run has.
    pub const ANY: usize = usize::MAX - 1;
}

/// What happened in each interval. A step counts in the interval in which it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Length of an interval, in cycles; the last one ends with the run.
    pub interval: u64,
    /// Instructions of each interval.
    pub instructions: Vec<u64>,
    /// Of each level, in the order of [`ThreadsOutcome::levels`](super::ThreadsOutcome::levels), the misses of each interval.
    pub misses: Vec<Vec<u64>>,
    /// Accesses to stacks, in the order of time and thread; intervals without any are left out.
    pub stacks: Vec<StackUse>,
}

/// Accesses of one logical thread to its stack during one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StackUse {
    /// Number of the interval.
    pub interval: u64,
    /// The logical thread.
    pub thread: u32,
    /// Accesses.
    pub accesses: u64,
}

/// Sums since the begin of the run, or of one interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) instructions: u64,
    /// Of each table.
    pub(super) misses: Vec<u64>,
    /// Of each logical thread.
    pub(super) stacks: Vec<u64>,
}

impl Sums {
    pub(super) fn new(tables: usize, threads: usize) -> Sums {
        Sums {
            instructions: 0,
            misses: vec![0; tables],
            stacks: vec![0; threads],
        }
    }

    /// Adds the counts of one hardware thread, one for each table.
    pub(super) fn add(&mut self, instructions: u64, counts: &[Count]) {
        self.instructions += instructions;
        for (sum, count) in self.misses.iter_mut().zip(counts) {
            *sum += count.misses;
        }
    }
}

/// An interval: [`Sums`] without the zeros of threads, of which there may be many.
#[derive(Clone, Debug, Default)]
struct Sample {
    instructions: u64,
    misses: Vec<u64>,
    /// Thread and accesses, in the order of threads.
    stacks: Vec<(u32, u64)>,
}

impl Sample {
    /// Adds what happened in the next interval.
    fn join(&mut self, next: Sample) {
        self.instructions += next.instructions;
        for (sum, more) in self.misses.iter_mut().zip(next.misses) {
            *sum += more;
        }
        self.stacks.extend(next.stacks);
        self.stacks.sort_by_key(|one| one.0);
        self.stacks.dedup_by(|more, sum| {
            let same = more.0 == sum.0;
            sum.1 += if same { more.1 } else { 0 };
            same
        });
    }
}

/// Collects a [`Series`].
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    /// Ticks of an interval.
    length: u64,
    most: usize,
    samples: Vec<Sample>,
    /// The sums when the current interval began.
    before: Sums,
}

impl Recorder {
    pub(super) fn new(intervals: Intervals, tables: usize, threads: usize) -> Recorder {
        Recorder {
            length: intervals.cycles.clamp(1, 1 << 32) * TICKS,
            most: (intervals.most & !1).max(2),
            samples: Vec::new(),
            before: Sums::new(tables, threads),
        }
    }

    /// Returns the tick at which the current interval ends.
    pub(super) fn next(&self) -> u64 {
        (self.samples.len() as u64 + 1).saturating_mul(self.length)
    }

    /// Ends all intervals that end at or before `now`. The run has come to `sums`, all of it in the first of these intervals.
    pub(super) fn advance(&mut self, now: u64, sums: Sums) {
        while now >= self.next() {
            self.end_interval(&sums);
        }
    }

    fn end_interval(&mut self, sums: &Sums) {
        let less = |(now, before): (&u64, &u64)| now - before;
        let stacks = sums.stacks.iter().zip(&self.before.stacks).map(less);
        let sample = Sample {
            instructions: sums.instructions - self.before.instructions,
            misses: sums
                .misses
                .iter()
                .zip(&self.before.misses)
                .map(less)
                .collect(),
            stacks: (0..).zip(stacks).filter(|one| one.1 > 0).collect(),
        };
        self.before.clone_from(sums);
        self.samples.push(sample);
        if self.samples.len() == self.most {
            let mut halves = std::mem::take(&mut self.samples).into_iter();
            while let (Some(mut first), Some(second)) = (halves.next(), halves.next()) {
                first.join(second);
                self.samples.push(first);
            }
            self.length *= 2;
        }
    }

    /// Returns the series of a run that ended at tick `end` with these `sums`, with the tables in `order`.
    pub(super) fn finish(mut self, end: u64, sums: &Sums, order: &[usize]) -> Series {
        while end > self.next() {
            self.end_interval(sums);
        }
        let (length, at) = (self.length, self.samples.len());
        self.end_interval(sums);
        // A last interval that filled the list has joined the one before it, and the length has doubled.
        debug_assert!(self.length > length || self.samples.len() == at + 1);
        // The clock of the engine may have passed the end of the run, whose last threads blocked before: nothing happened there.
        while self.samples.len() > 1 && (self.samples.len() as u64 - 1) * self.length >= end {
            if let (Some(last), Some(previous)) = (self.samples.pop(), self.samples.last_mut()) {
                previous.join(last);
            }
        }
        let samples = &self.samples;
        let stacks = samples.iter().zip(0..).flat_map(|(sample, interval)| {
            let stacks = sample.stacks.iter();
            stacks.map(move |&(thread, accesses)| StackUse {
                interval,
                thread,
                accesses,
            })
        });
        Series {
            interval: self.length / TICKS,
            instructions: samples.iter().map(|one| one.instructions).collect(),
            misses: order
                .iter()
                .map(|&table| samples.iter().map(|one| one.misses[table]).collect())
                .collect(),
            stacks: stacks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(instructions: u64, stacks: [u64; 2]) -> Sums {
        Sums {
            instructions,
            misses: vec![instructions / 10],
            stacks: stacks.to_vec(),
        }
    }

    fn recorder(most: usize) -> Recorder {
        Recorder::new(Intervals { cycles: 1, most }, 1, 2)
    }

    #[test]
    fn intervals_double_when_there_would_be_too_many() {
        let mut recorder = recorder(4);
        recorder.advance(TICKS - 1, sums(7, [0, 0]));
        assert!(recorder.samples.is_empty(), "it has not ended");
        recorder.advance(TICKS, sums(10, [1, 0]));
        recorder.advance(2 * TICKS, sums(30, [1, 4]));
        // Nothing happens in the third and the fourth, so all that follows counts in the fifth.
        recorder.advance(4 * TICKS, sums(30, [1, 4]));
        assert_eq!(recorder.next(), 6 * TICKS);
        let series = recorder.finish(5 * TICKS, &sums(70, [3, 4]), &[0]);
        assert_eq!(series.interval, 2);
        assert_eq!(series.instructions, [30, 0, 40]);
        assert_eq!(series.misses, [[3, 0, 4]]);
        let stacks = series.stacks.iter();
        let stacks: Vec<_> = stacks
            .map(|one| (one.interval, one.thread, one.accesses))
            .collect();
        assert_eq!(stacks, [(0, 0, 1), (0, 1, 4), (2, 0, 2)]);
    }

    #[test]
    fn a_long_run_takes_no_more_intervals_than_it_may() {
        let mut long = recorder(8);
        for cycle in 1..=10_000 {
            long.advance(cycle * TICKS, sums(cycle * 3, [cycle, 0]));
        }
        let series = long.finish(10_001 * TICKS, &sums(30_003, [10_001, 0]), &[0]);
        assert!((4..=8).contains(&series.instructions.len()), "{series:?}");
        assert_eq!(series.instructions.iter().sum::<u64>(), 30_003);
        assert_eq!(series.instructions[0], 3 * series.interval);
        let fixed = recorder(Intervals::ANY).finish(3 * TICKS, &sums(9, [0, 0]), &[0]);
        assert_eq!(
            (fixed.interval, &fixed.instructions[..]),
            (1, &[9, 0, 0][..])
        );
    }
}
