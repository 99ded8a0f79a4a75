//! `for_each`: a closure for each number of a range, perhaps at the same time.
//!
//! A worker runs the numbers one after the other, and looks every few microseconds whether another one is hungry
//! ([`demand`](super::demand)): then it forks the upper half of what is left. So a loop costs little more than a plain one. (Tzannes,
//! Caragea, Barua and Vishkin, "Lazy binary-splitting", PPoPP 2010, decide so by the length of the worker's deque.)
//!
//! What is left is not divided if it takes no longer than from one look to the next: a wake-up takes longer. The whole range is divided in
//! any case: before the first look nothing is known of the numbers. If a policy decides on each fork, or forks are measured, a range is
//! divided down to that length without a hungry worker.

use super::enter::on_worker;
use super::global;
use crate::worker;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most numbers that run without a look at who is hungry. Others may take much longer than those before them.
const MOST: usize = 256;

/// If a block of numbers would take less than this time in microseconds, the next ones are twice as long; if it would take more than four
/// times as much, half as long. A look costs some ten nanoseconds; a hungry worker waits for it.
const SHORT: u64 = 2;

/// A block is at most this part of what is left, so that no worker waits for long at the end.
const PART: usize = 8;

/// Calls `body` with each number of `numbers`, at the same time or one after the other. Returns when all calls have ended.
///
/// Costs about what a loop costs, however short the calls are: no number of calls for a task need be chosen. What is left of the range is
/// forked by halves when a worker is idle. A worker looks for idle ones every few microseconds: after each call if calls are long, and
/// after 256 at most. (Where time decides nothing, as in a [schedule](crate::Replay), after each call.) Calls must not wait for each
/// other.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tanada_runtime::fork;
///
/// let sum = AtomicU64::new(0);
/// fork::for_each(0..1_000, |number| _ = sum.fetch_add(number as u64, Ordering::Relaxed));
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
/// With the panic of a call, once all calls that had begun have ended. Others may have been left out.
pub fn for_each(numbers: Range<usize>, body: impl Fn(usize) + Sync) {
    let all = Loop {
        body,
        block: AtomicUsize::new(1),
    };
    match numbers.len() {
        0 => {}
        1 => on_worker(global, |_, _| (all.body)(numbers.start)),
        // A worker that is hungry in a moment finds the upper half.
        _ => on_worker(global, |_, _| all.divide(numbers)),
    }
}

struct Loop<F> {
    body: F,
    /// How many numbers run without a look.
    block: AtomicUsize,
}

impl<F: Fn(usize) + Sync> Loop<F> {
    /// Forks the upper half of `numbers`, and runs both.
    fn divide(&self, numbers: Range<usize>) {
        let (start, end) = (numbers.start, numbers.end);
        let middle = start + numbers.len() / 2;
        super::join(|| self.run(start..middle), || self.run(middle..end));
    }

    fn run(&self, mut numbers: Range<usize>) {
        let mut block = self.block.load(Relaxed);
        let mut since = now();
        while !numbers.is_empty() {
            let count = block.min(numbers.len() / PART).max(1);
            let end = numbers.start + count;
            (numbers.start..end).for_each(&self.body);
            numbers.start = end;
            let now = now();
            let next = next_block(block, count, since, now);
            if next != block {
                block = next;
                self.block.store(next, Relaxed);
            }
            since = now;
            if numbers.len() > block && shall_divide() {
                return self.divide(numbers);
            }
        }
    }
}

fn shall_divide() -> bool {
    worker::with_any(|worker| worker.is_some_and(|worker| worker.shall_divide()))
}

/// Returns the ticks of this worker's clock and how many of them a microsecond has; `None` if time decides nothing.
#[inline]
fn now() -> Option<(u64, u64)> {
    worker::with_any(|worker| worker?.forks.reach.clock())
}

/// Returns how many numbers run without a look from now on. So far they were `block`; the last `count` took from `since` to `now`.
#[inline]
fn next_block(
    block: usize,
    count: usize,
    since: Option<(u64, u64)>,
    now: Option<(u64, u64)>,
) -> usize {
    let (Some((since, _)), Some((now, rate))) = (since, now) else {
        return 1;
    };
    let ticks = now.wrapping_sub(since) / count as u64;
    let all = ticks.saturating_mul(block as u64);
    if all < SHORT * rate {
        (block * 2).min(MOST)
    } else if all > 4 * SHORT * rate {
        (block / 2).max(1)
    } else {
        block
    }
}
