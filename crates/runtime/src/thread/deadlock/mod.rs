//! Threads that wait for each other: found, named, and the end of the process.
//!
//! A thread of the runtime looks at all threads, a tenth of a second after a worker has had nothing to do although lightweight threads are
//! alive, or a thread outside has begun to wait; and about once in a second while lightweight threads begin to wait for what others have.
//! It does so more seldom if its looks take long, because there are a million threads.
//! What waits in a function of [`thread`](super) is *dead* if
//! - lightweight threads and OS threads outside of pools wait for each other in a circle: for ends of threads, of scopes and of pools, for
//!   mutexes, closures that run once, and the only worker that a thread may run on, if that waits for the end of a pool. Two looks find
//!   each of them in one and the same wait, so none can have gone on between them, whatever others do;
//! - threads of all kinds wait for each other in a circle, while all workers sleep or wait; or
//! - nobody is left who could wake one: every OS thread of the process is a worker that sleeps or waits, waits in a function of this crate,
//!   or is one of the two that look after others.
//!
//! Otherwise an OS thread that this crate does not know may still send a message or unlock something, and nothing is reported until it has
//! ended: if only such threads are left, a look is made after a second, and after twice the time each time, half a minute at most.
//!
//! An OS thread that was woken need not run for long, on a machine that has other things to do. So nothing is reported of one that does not
//! sleep for the system.

mod circle;
mod look;
mod os_threads;
mod report;
mod waits;

pub(crate) use super::record::On;
use super::timer;
use crate::pool::PoolShared;
use crate::process::PerProcess;
pub(super) use circle::Label;
use look::Seen;
pub(super) use look::{Again, LOOKS, look, workers_of};
use os_threads::OsThread;
pub(super) use os_threads::context;
use parking_lot::Mutex;
pub(super) use report::append_lines;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Weak};
pub(super) use waits::Heavily;
use waits::Heavy;
pub(crate) use waits::{Outside, runs_on_top, waits_for_a_graph, waits_for_a_pool, waits_low};

/// Whether lightweight threads were ever made. Before, nothing is looked at.
static USED: AtomicBool = AtomicBool::new(false);

/// What is known of this process's threads.
#[derive(Default)]
struct Known {
    pools: Mutex<Vec<Weak<PoolShared>>>,
    /// OS threads that are no workers and wait in a function of this crate.
    outside: AtomicUsize,
    /// What waits in a function of [`thread`](super) and is no lightweight thread.
    heavy: Mutex<Vec<Heavy>>,
    /// The OS threads that have a [`context`], by it.
    os_threads: Mutex<BTreeMap<u64, Arc<OsThread>>>,
    /// The number of the next one.
    next: AtomicU64,
    /// Threads with lower numbers are the parent's of which this process is a forked child.
    first: u64,
    /// What was seen when threads seemed to wait for each other, and how often. They do if the next looks find the same.
    seen: Mutex<Option<(Seen, u32)>>,
}

#[inline]
fn known() -> &'static Known {
    static KNOWN: PerProcess<Known> = PerProcess::new();
    KNOWN.get(|| Known {
        // The first pool's place is made here: a list that grows does so by code elsewhere in the program.
        pools: Mutex::new(Vec::with_capacity(1)),
        first: super::shared::number(),
        ..Known::default()
    })
}

/// A pool was made.
#[inline]
pub(crate) fn add_pool(pool: Weak<PoolShared>) {
    let mut pools = known().pools.lock();
    pools.retain(|pool| pool.strong_count() > 0);
    pools.push(pool);
}

/// Lightweight threads are made.
#[inline]
pub(in crate::thread) fn used() {
    if !USED.load(Relaxed) {
        USED.store(true, SeqCst);
    }
}

/// Returns whether lightweight threads were ever made. A thread that makes one ready says so before, in the total order of `SeqCst`.
#[inline]
pub(in crate::thread) fn are_used() -> bool {
    USED.load(SeqCst)
}

/// A thread begins to wait: perhaps the last one that could wake others.
#[inline]
pub(crate) fn suspect() {
    if USED.load(Relaxed) {
        timer::look_soon();
    }
}

/// A lightweight thread begins to wait: if that is for another thread, perhaps as the last one of a circle, which nothing else would
/// notice as long as its worker has others to run.
#[inline]
pub(in crate::thread) fn may_close_a_circle(on: On) {
    if matches!(on, On::Join | On::Mutex | On::Once | On::Scope) {
        timer::look_later();
    }
}
