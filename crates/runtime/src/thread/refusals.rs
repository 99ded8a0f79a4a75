//! Schedulers of a program's own that leave threads in their queues for a long time.
//!
//! A scheduler may return `None` for a while: it may want another worker, or another moment. One that never returns a thread keeps a pool
//! waiting for ever, and no thread waits for another one. So the pool's workers report it, once a pool, and ask on.

use super::deadlock::{self, Label, On};
use super::record::Header;
use super::stack;
use crate::pool::PoolShared;
use crate::process;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A scheduler that returns no thread is reported after this time.
const LONG: Duration = Duration::from_secs(10);

/// A worker that has not been refused for this time does something else.
const PAUSE: Duration = Duration::from_secs(1);

/// Of so many refusals in a row, a worker notes one.
const SOME: u32 = 16;

/// The refusals of a pool's scheduler.
#[derive(Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those in a row of all workers.
    row: Option<Row>,
    /// When each worker was refused last, if it ever was.
    last: Vec<Option<Instant>>,
    reported: bool,
}

/// Refusals between which the scheduler has returned no thread.
struct Row {
    first: Instant,
    last: Instant,
    /// How many threads the scheduler had returned before.
    returned: u64,
}

impl Refusals {
    /// Worker `me` of `pool` is refused. Returns whether all workers have been refused for long, if that is not reported yet.
    fn add(&self, pool: &PoolShared, me: usize) -> bool {
        let (threads, now) = (&pool.threads, Instant::now());
        let returned = threads.seats.iter().map(|seat| seat.returned.load(Relaxed));
        let returned = returned.sum();
        let mut state = self.0.lock();
        let first = match &state.row {
            Some(row) if row.returned == returned && now - row.last <= PAUSE => row.first,
            _ => now,
        };
        state.row = Some(Row {
            first,
            last: now,
            returned,
        });
        state.last.resize(threads.seats.len(), None);
        state.last[me] = Some(now);
        if state.reported || now - first < LONG {
            return false;
        }
        // Another worker may be busy, and take a thread afterwards.
        let mut workers = pool.sleep.idle().zip(&state.last).enumerate();
        workers.all(|(worker, (idle, last))| {
            let is_refused = last.is_some_and(|last| now - last <= PAUSE);
            let is_asleep = idle.is_some_and(|idle| idle.asleep);
            is_refused || is_asleep || !threads.looks_for_threads(worker)
        })
    }
}

impl WorkerCore {
    /// This worker has asked the scheduler for a thread, which has returned one if `found`.
    #[inline]
    pub(super) fn note_answer(&self, found: bool) {
        let refused = &self.threads.refused;
        if found {
            let returned = &self.pool().threads.seats[self.id.index()].returned;
            returned.store(returned.load(Relaxed) + 1, Relaxed);
            refused.set(0);
        } else {
            refused.set(refused.get().wrapping_add(1));
            if refused.get().is_multiple_of(SOME) {
                self.is_refused_again();
            }
        }
    }

    #[cold]
    fn is_refused_again(&self) {
        self.end_if_forked();
        let pool = self.pool();
        // In a schedule, time decides nothing.
        let may_refuse = pool.schedule.is_none() && self.may_have_threads();
        if may_refuse && pool.threads.refusals.add(pool, self.id.index()) {
            report(pool);
        }
    }
}

/// Writes which threads wait for the scheduler of `pool`.
fn report(pool: &PoolShared) {
    let mut ready = Vec::new();
    stack::for_each(|header| {
        if let Some((number, name)) = header.label()
            && std::ptr::eq(header.pool_address(), pool)
            && !header.is_done()
            && lies_in_a_queue(header)
        {
            ready.push(Label::Light(number, name));
        }
    });
    let mut state = pool.threads.refusals.0.lock();
    if ready.is_empty() {
        // All wait, and are woken once in a while: nothing is looked at for some time.
        state.row = None;
        return;
    }
    if std::mem::replace(&mut state.reported, true) {
        return;
    }
    drop(state);
    let mut text = format!(
        "the scheduler of threads of pool {} has returned none for {} seconds, although some are ready, and is asked on:",
        pool.number,
        LONG.as_secs(),
    );
    deadlock::list(&mut text, ready.iter(), Label::to_string);
    process::report(format_args!("{text}"));
}

/// Returns whether the thread, of which nothing is known to wait, may be in the hands of a scheduler.
fn lies_in_a_queue(header: &Header) -> bool {
    match header.blocked_on() {
        None => true,
        Some(wait) => wait.on == On::Work && !header.is_pinned(),
    }
}
