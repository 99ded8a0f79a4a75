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
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A scheduler that returns no thread is reported after this time.
const LONG: Duration = Duration::from_secs(10);

/// A worker that has not been refused for this time does something else.
const PAUSE: Duration = Duration::from_secs(5);

/// A worker notes one of `SOME` refusals in a row.
const SOME: u32 = 16;

/// The refusals of a pool's scheduler.
#[derive(Default)]
pub(super) struct Refusals {
    /// Whether the scheduler has returned no thread since a refusal was noted last. Apart from the rest: all workers look at it.
    goes_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first and the last refusal that was noted, of those between which the scheduler has returned no thread.
    row: Option<(Instant, Instant)>,
    /// When a refusal of each worker was noted last, if one ever was.
    last: Vec<Option<Instant>>,
    reported: bool,
}

impl Refusals {
    /// Worker `me` of `pool` is refused. Returns whether all workers have been refused for long, if that is not reported yet.
    fn add(&self, pool: &PoolShared, me: usize) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let goes_on = self.goes_on.swap(true, Relaxed);
        let first = match state.row {
            Some((first, last)) if goes_on && now - last <= PAUSE => first,
            _ => now,
        };
        state.row = Some((first, now));
        state.last.resize(pool.threads.seats.len(), None);
        state.last[me] = Some(now);
        if state.reported || now - first < LONG {
            return false;
        }
        // Another worker may be busy, and take a thread afterwards.
        deadlock::workers_of(pool).all(|(worker, still)| {
            let is_refused = state.last[worker].is_some_and(|last| now - last <= PAUSE);
            is_refused || still.is_some()
        })
    }
}

impl WorkerCore {
    /// This worker has asked the scheduler for a thread, which has returned one if `found`.
    #[inline]
    pub(super) fn note_answer(&self, found: bool) {
        let refused = &self.threads.refused;
        if found {
            let goes_on = &self.pool().threads.refusals.goes_on;
            if goes_on.load(Relaxed) {
                goes_on.store(false, Relaxed);
            }
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
    let mut state = pool.threads.refusals.state.lock();
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
    deadlock::append_lines(&mut text, ready.iter(), Label::to_string);
    process::report(format_args!("{text}"));
}

/// Returns whether the thread, of which nothing is known to wait, may be in the hands of a scheduler.
fn lies_in_a_queue(header: &Header) -> bool {
    match header.blocked_on() {
        None => true,
        Some(wait) => wait.on == On::Work && !header.is_pinned(),
    }
}
