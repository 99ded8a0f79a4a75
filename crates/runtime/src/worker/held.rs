//! Countdowns that all workers share, counted by worker.
//!
//! The activities of a graph and the sinks of a room are each counted in one word, and the run ends when it reaches zero. If every end of a
//! task wrote that word, workers would take its cache line from each other at every task. So a worker *holds* the units of the tasks that
//! have ended on it, and gives them back at once ([`Held::settle`]) when it
//! - finds no further task: before it searches, sleeps or waits;
//! - is about to run anything that does not belong to the same run: another graph's task, a part of a call;
//! - holds many.
//!
//! A worker that makes tasks ready uses up units that it holds, and otherwise counts some in advance ([`Held::add`]).
//!
//! Meanwhile the shared word is higher than the number of units that are in use, by what all workers hold; it is never lower. So nothing
//! ends too early, and what ends has nothing held. And it ends: a worker that holds units runs tasks of the same run only, of which there
//! are finitely many, and settles before it does anything else.
//!
//! The test `tests/model_held.rs` runs this file under shuttle.

use std::cell::Cell;
use tanada_queues::Padded;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};

/// The number of units that are in use or held. On cache lines of its own: workers read what stands beside it.
#[derive(Debug, Default)]
pub struct Countdown(Padded<AtomicUsize>);

impl Countdown {
    /// Starts with `units` units, before any thread counts.
    pub fn start(&self, units: usize) {
        self.0.0.store(units, Ordering::Relaxed);
    }

    /// Adds units; the caller has one in use itself. Returns how many there were.
    #[inline]
    pub fn add(&self, units: usize) -> usize {
        self.0.0.fetch_add(units, Ordering::Relaxed)
    }

    /// Subtracts units. Returns whether they were the last. Then all that was done before any unit was subtracted is visible.
    #[inline]
    #[must_use]
    pub fn end(&self, units: usize) -> bool {
        self.0.0.fetch_sub(units, Ordering::AcqRel) == units
    }

    /// As [`Countdown::end`], if no other thread subtracts or adds any.
    #[inline]
    #[must_use]
    pub fn end_alone(&self, units: usize) -> bool {
        let left = self.0.0.load(Ordering::Relaxed) - units;
        self.0.0.store(left, Ordering::Relaxed);
        left == 0
    }

    /// Returns how many units there are.
    #[inline]
    pub fn left(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }
}

/// Gives so many units back to the countdown of what the pointer points to, and does what is to be done at the end. The last argument is
/// the worker.
///
/// # Safety
/// The pointer is the one that the units were held of, and these units have not been given back yet.
pub type Settle<W> = unsafe fn(*const (), usize, &W);

/// The most units that are counted in advance.
const MOST_AHEAD: usize = if cfg!(shuttle) { 1 } else { 64 };

/// Units that are not held any longer. A thread that waits for fewer activities of a graph sees them become fewer.
const MOST_HELD: usize = if cfg!(shuttle) { 2 } else { 256 };

/// What one worker, a `W`, holds back. Of one countdown at a time, which is named by a pointer to its owner.
#[derive(Debug)]
pub struct Held<W> {
    /// Null if nothing is held.
    of: Cell<*const ()>,
    units: Cell<usize>,
    settle: Cell<Option<Settle<W>>>,
    /// How many units were counted in advance the last time.
    ahead: Cell<usize>,
}

impl<W> Default for Held<W> {
    fn default() -> Self {
        Held {
            of: Cell::new(std::ptr::null()),
            units: Cell::new(0),
            settle: Cell::new(None),
            ahead: Cell::new(0),
        }
    }
}

impl<W> Held<W> {
    /// Adds `more` units to `countdown`, of which the worker has one in use. Uses up held ones, or counts further ones in advance, twice as
    /// many as the last time. Returns how many units there were if it has counted some: once in a while.
    ///
    /// # Safety
    /// `countdown` is that of `of`. `settle` may be called with `of` and units of it until the countdown ends. Nothing else gives these
    /// back.
    #[inline]
    pub unsafe fn add(
        &self,
        of: *const (),
        countdown: &Countdown,
        more: usize,
        settle: Settle<W>,
        worker: &W,
    ) -> Option<usize> {
        let held = self.units.get();
        if held >= more && std::ptr::eq(self.of.get(), of) {
            self.units.set(held - more);
            return None;
        }
        let last = match std::ptr::eq(self.of.get(), of) {
            true => self.ahead.get(),
            false => 0,
        };
        let ahead = (2 * last).clamp(1, MOST_AHEAD);
        let before = countdown.add(more + ahead);
        // SAFETY: the caller says so, and these units were counted just now.
        unsafe { self.hold(of, ahead, settle, worker) };
        self.ahead.set(ahead);
        Some(before)
    }

    /// Holds `units` units of `of` that are not in use any more. Gives back the units of another countdown before.
    ///
    /// # Safety
    /// As [`Held::add`].
    #[inline]
    pub unsafe fn hold(&self, of: *const (), units: usize, settle: Settle<W>, worker: &W) {
        if !std::ptr::eq(self.of.get(), of) {
            self.settle(worker);
            self.of.set(of);
            self.settle.set(Some(settle));
        }
        let held = self.units.get() + units;
        self.units.set(held);
        if held >= MOST_HELD {
            self.settle(worker);
        }
    }

    /// Returns whether units of another countdown than that of `of` are held.
    #[inline]
    pub fn is_of_another(&self, of: *const ()) -> bool {
        self.units.get() != 0 && !std::ptr::eq(self.of.get(), of)
    }

    /// Returns whether units are held.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.units.get() != 0
    }

    /// Gives back what is held.
    pub fn settle(&self, worker: &W) {
        let of = self.of.replace(std::ptr::null());
        let (units, settle) = (self.units.take(), self.settle.take());
        self.ahead.set(0);
        if units > 0
            && let Some(settle) = settle
        {
            // SAFETY: the units were held of `of` with this function, and are given back once.
            unsafe { settle(of, units, worker) };
        }
    }
}
