//! Which times say something about a number of threads.

use crate::Period;

/// Work that a window holds at least: this for each thread that ran, and this once more. A task that began before the window and one that
/// ends after it are counted wrongly by less than one for each thread.
const ENOUGH: u64 = 8;

/// The part of the time without work above which a window belongs to no width.
const RAGGED: f64 = 0.1;

/// Returns whether `work` of `ran` threads is enough to be compared.
pub(super) fn is_enough(work: u64, ran: usize) -> bool {
    work >= ENOUGH * (ran as u64 + 1)
}

/// Returns whether the `ran` threads that may run had nothing to run for so long that the window belongs to no width.
pub(super) fn is_ragged(period: &Period<'_>, ran: usize) -> bool {
    let active = &period.threads[..ran.min(period.threads.len())];
    let idle: f64 = active.iter().map(|thread| thread.idle as f64).sum();
    idle > RAGGED * period.time as f64 * ran as f64
}
