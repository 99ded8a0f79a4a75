//! Lulls: stretches of time in which only background streams act, because every core computes, sleeps or waits.
//!
//! A task may compute for 2^63 cycles, and a stream may access memory every few hundred of them. But the streams run through finite ranges,
//! and what they find depends only on the caches, the open rows, and on how long from now each resource is held. From a state that came
//! before, but for the time, everything goes on as it did then. So the engine keeps a copy of the state, waits for it to come again, and
//! from then on repeats the counts instead of the accesses: as many whole periods as end before the first event of a core.
//!
//! The copy is taken anew from time to time (Brent, "An improved Monte Carlo factorization algorithm", 1980), since the first states of a
//! lull may never come again: caches still hold lines of the cores. So a lull takes about three times as many accesses as its longest
//! period or its beginning has, however long it is. With random replacement a state comes again only if all accesses hit.

use super::background::Stream;
use super::levels::Levels;
use crate::machine::Cycle;

/// The state at the time of an access.
#[derive(Debug)]
struct Copy {
    at: Cycle,
    /// Accesses of the lull before it.
    accesses: u64,
    streams: Vec<Stream>,
    levels: Levels,
}

impl Copy {
    fn came_again(&self, now: Cycle, streams: &[Stream], levels: &Levels) -> bool {
        let mut pairs = streams.iter().zip(&self.streams);
        pairs.all(|(one, other)| one.is_like(now, other, self.at))
            && levels.is_like(now, &self.levels, self.at)
    }
}

/// What is known of the current lull.
#[derive(Debug)]
pub(super) struct Lull {
    /// Accesses since the last event of a core.
    accesses: u64,
    copy: Option<Box<Copy>>,
    /// The number of accesses after which the next copy is taken.
    next: u64,
    /// The first such number: the accesses take longer than to copy and compare the caches.
    first: u64,
    /// Accesses of the period that was found last, in this lull or an earlier one.
    period: u64,
}

/// The fewest accesses before a copy is taken.
const FEWEST: u64 = 32;

/// Lines that are copied and compared in the time of an access, at least.
const LINES_AN_ACCESS: u64 = 4;

/// From one copy to the next, accesses grow by this factor. Twice would find the period later if a lull begins with it.
const GROWTH: u64 = 4;

impl Lull {
    pub(super) fn new(levels: &Levels) -> Lull {
        let lines: usize = levels.caches.iter().map(|cache| cache.lines()).sum();
        let first = FEWEST.max(lines as u64 / LINES_AN_ACCESS);
        Lull {
            accesses: 0,
            copy: None,
            next: first,
            first,
            period: 0,
        }
    }

    /// Ends the lull: a core acts.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.accesses > 0 {
            self.accesses = 0;
            self.copy = None;
            self.next = self.first;
        }
    }

    /// Notes that a stream is about to access something at `now`, and no core acts before `end()`. If the state came before, moves streams
    /// and levels on by whole periods that end before that, and returns true.
    #[inline]
    pub(super) fn skips(
        &mut self,
        now: Cycle,
        end: impl FnOnce() -> Cycle,
        streams: &mut [Stream],
        levels: &mut Levels,
    ) -> bool {
        self.accesses += 1;
        if let Some(copy) = &self.copy
            && copy.came_again(now, streams, levels)
        {
            return self.skip(now, end(), streams, levels);
        }
        if self.accesses == self.next {
            self.keep(now, streams, levels);
        }
        false
    }

    #[cold]
    fn keep(&mut self, now: Cycle, streams: &[Stream], levels: &Levels) {
        let accesses = self.accesses;
        // A period of the same length is found before the copy is replaced.
        self.next = (GROWTH.saturating_mul(accesses)).max(accesses + self.period + 1);
        self.copy = Some(Box::new(Copy {
            at: now,
            accesses,
            streams: streams.to_vec(),
            levels: levels.clone(),
        }));
    }

    #[cold]
    fn skip(
        &mut self,
        now: Cycle,
        end: Cycle,
        streams: &mut [Stream],
        levels: &mut Levels,
    ) -> bool {
        // What is left of the lull is less than a period, or so near to the end of the clock that times may be cut off there.
        self.next = u64::MAX;
        let Some(copy) = self.copy.take() else {
            return false;
        };
        self.period = self.accesses - copy.accesses;
        let dues = streams.iter().map(Stream::due);
        let beyond = dues.fold(levels.beyond(), Cycle::max);
        let most = end.saturating_sub(now + 1).min(Cycle::MAX - beyond);
        let times = most / (now - copy.at);
        if times == 0 {
            return false;
        }
        let cycles = times * (now - copy.at);
        let pairs = streams.iter_mut().zip(&copy.streams);
        pairs.for_each(|(stream, before)| stream.repeat(before, cycles, times));
        levels.repeat(&copy.levels, cycles, times);
        true
    }
}
