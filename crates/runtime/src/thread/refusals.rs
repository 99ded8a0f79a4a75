//! Schedulers of a program's own that leave threads in their queues for a long time.
//!
//! A scheduler may return `None` for a while: it may want another worker, or another moment. One that never returns a thread keeps a pool
//! waiting for ever, and no thread waits for another one. So the pool's workers report it, once a pool, and ask on.

use super::deadlock::{self, Label};
use super::stack;
use crate::pool::PoolShared;
use crate::process;
use crate::worker::WorkerCore;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Refusals of all workers are reported after this time.
const LONG: Duration = Duration::from_secs(10);

/// A worker that has not been refused for this time does something else.
const PAUSE: Duration = Duration::from_secs(1);

/// The refusals of a pool's scheduler.
#[derive(Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those in a row of each worker that was ever refused.
    rows: Vec<Option<Row>>,
    reported: bool,
}

/// Refusals of one worker, without a thread in between.
#[derive(Clone, Copy)]
struct Row {
    first: Instant,
    last: Instant,
}

impl Refusals {
    /// Worker `me` has found a thread.
    fn end(&self, me: usize) {
        if let Some(row) = self.0.lock().rows.get_mut(me) {
            *row = None;
        }
    }

    /// Worker `me` is refused `now`. Returns whether all workers of the pool that run threads have been refused for long, if that is not
    /// reported yet. `runs` returns whether a worker runs threads.
    fn add(&self, me: usize, now: Instant, workers: usize, runs: impl Fn(usize) -> bool) -> bool {
        let mut state = self.0.lock();
        state.rows.resize(workers, None);
        let row = match state.rows[me] {
            Some(row) if now.duration_since(row.last) <= PAUSE => Row { last: now, ..row },
            _ => Row {
                first: now,
                last: now,
            },
        };
        state.rows[me] = Some(row);
        if state.reported || now.duration_since(row.first) < LONG {
            return false;
        }
        let is_long = |row: &Row| {
            now.saturating_duration_since(row.first) >= LONG
                && now.saturating_duration_since(row.last) <= PAUSE
        };
        let rows = state.rows.iter().enumerate();
        let all = rows
            .filter(|(worker, _)| runs(*worker))
            .all(|(_, row)| row.as_ref().is_some_and(is_long));
        state.reported = all;
        all
    }
}

impl WorkerCore {
    /// This worker has looked for a thread.
    #[cold]
    pub(super) fn looked_for_threads(&self, found: bool) {
        let pool = self.pool();
        let (threads, me) = (&pool.threads, self.id.index());
        let was_refused = &self.threads.refused;
        if found {
            if was_refused.replace(false) {
                threads.refusals.end(me);
            }
            return;
        }
        // In a schedule, time decides nothing.
        let may_refuse = threads.scheduler().is_some() && pool.schedule.is_none();
        if !may_refuse || !self.may_have_threads() {
            return;
        }
        was_refused.set(true);
        let runs =
            |worker: usize| pool.sleep.is_active(worker) && threads.looks_for_threads(worker);
        let workers = usize::from(pool.placement.workers());
        if threads.refusals.add(me, Instant::now(), workers, runs) {
            report(pool);
        }
    }
}

/// Writes which threads wait for the scheduler of `pool`. None of the workers runs a thread.
fn report(pool: &PoolShared) {
    let mut ready = Vec::new();
    stack::for_each(|header| {
        if let Some((number, name)) = header.label()
            && std::ptr::eq(header.pool_address(), pool)
            && !header.is_done()
            && header.blocked_on().is_none()
        {
            ready.push(Label::Light(number, name));
        }
    });
    let mut text = format!(
        "the scheduler of threads of pool {} has returned none for {} seconds, although some are ready, and is asked on:",
        pool.number,
        LONG.as_secs(),
    );
    deadlock::list(&mut text, ready.iter(), Label::to_string);
    process::report(format_args!("{text}"));
}
