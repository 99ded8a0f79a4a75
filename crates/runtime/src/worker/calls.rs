//! Calls: how a closure gets to chosen workers, each of which is to run it once, and how the caller learns that all have.
//!
//! Every worker has an *inbox*. A caller puts a *part* into the inbox of each worker of its team ([`Calls::post`]) and wakes these workers.
//! A worker takes the parts out of its own inbox, the oldest first, whenever it runs no task: between two tasks, while it searches, and
//! whenever it waits inside of a task (for a nested graph or for a call of its own). A [`Latch`] counts the parts that have not ended.
//!
//! # Nothing else starves
//! A worker takes as many parts as it finds waiting ([`Calls::waiting`]), and then looks for a task, or whether its own wait has ended.
//! Callers that call again and again could keep its inbox filled for ever.
//!
//! # No wake-up is lost
//! A poster first counts the part in `waiting` and then looks at what the worker does ([`Sleep::call`]).
//! - A worker that is going to sleep first sets its bit, then loads `waiting`: one of the two threads sees what the other one wrote,
//!   because all of these accesses are sequentially consistent. So the worker does not sleep, or the poster claims its bit and unparks it.
//! - A worker that waits inside of a task has no bit set. The poster unparks its thread, and the token of `unpark` stays until the thread
//!   parks. The code of a part, or of the policy, may take the token. So the worker loads `waiting` between such code and each park, and
//!   looks there, too, for all else that it waits for.
//!
//! # No deadlock
//! Parts are posted under one lock. So if two calls have the same workers in their teams, all of these get the parts in the same order, and
//! parts of one call may wait for each other as long as none of them begins another call. The caller's own part, if it is a worker, goes
//! through its inbox like the others. Workers that call at the same time run each other's parts while they wait.
//!
//! The test `tests/model_calls.rs` runs this file and `sleep.rs` under shuttle.

use super::sleep::Sleep;
use crate::list::list;
use crate::parking;
use std::collections::VecDeque;
use tanada_queues::Padded;
use tanada_queues::sync::Mutex;
use tanada_queues::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};

/// [`Calls::state`] while a call is under way.
const CALLED: u64 = u64::MAX;

/// The inboxes of a pool's workers. `T` is a part.
#[derive(Debug)]
pub struct Calls<T> {
    inboxes: Vec<Padded<Inbox<T>>>,
    /// `quiet` while no call is under way, else [`CALLED`]: the one word that a worker reads after each task.
    state: Padded<AtomicU64>,
    quiet: u64,
    /// Number of calls that have begun and not ended. Locked while the parts of one call are posted.
    under_way: Mutex<usize>,
}

#[derive(Debug)]
struct Inbox<T> {
    /// Number of parts in `parts`.
    waiting: AtomicUsize,
    parts: Mutex<Parts<T>>,
}

#[derive(Debug)]
struct Parts<T> {
    queue: VecDeque<T>,
    /// Whether the worker has ended.
    closed: bool,
}

impl<T> Calls<T> {
    /// Returns the empty inboxes of `workers` workers. While no call is under way, [`Calls::state`] is `quiet`: `u64::MAX` if
    /// workers are to
    /// look for other things as well.
    #[inline]
    pub fn new(workers: usize, quiet: u64) -> Self {
        let inbox = |_| {
            Padded(Inbox {
                waiting: AtomicUsize::new(0),
                parts: Mutex::new(Parts {
                    queue: VecDeque::new(),
                    closed: false,
                }),
            })
        };
        Calls {
            inboxes: list(workers, inbox),
            state: Padded(AtomicU64::new(quiet)),
            quiet,
            under_way: Mutex::new(0),
        }
    }

    /// Puts a part, made by `part`, into the inbox of each worker of `team`, and wakes these workers. Calls `refused` with the parts of
    /// workers that have ended. Every call of `post` is followed by one of [`Calls::end`], once all parts have ended.
    pub fn post<I: Iterator<Item = usize> + Clone>(
        &self,
        sleep: &Sleep,
        team: I,
        mut part: impl FnMut() -> T,
        mut refused: impl FnMut(T),
    ) {
        let mut under_way = self.under_way.lock();
        *under_way += 1;
        self.state.0.store(CALLED, Relaxed);
        for whom in team.clone() {
            let inbox = &self.inboxes[whom].0;
            let mut parts = inbox.parts.lock();
            match parts.closed {
                true => refused(part()),
                false => {
                    parts.queue.push_back(part());
                    inbox.waiting.fetch_add(1, SeqCst);
                }
            }
        }
        drop(under_way);
        team.for_each(|whom| sleep.call(whom));
    }

    /// The parts of a call have ended.
    pub fn end(&self) {
        let mut under_way = self.under_way.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.state.0.store(self.quiet, Relaxed);
        }
    }

    /// Returns `quiet` unless a call is under way. May be late.
    #[inline]
    pub fn state(&self) -> u64 {
        self.state.0.load(Relaxed)
    }

    /// Returns the number of parts that worker `me` has to run.
    #[inline]
    pub fn waiting(&self, me: usize) -> usize {
        self.inboxes[me].0.waiting.load(SeqCst)
    }

    /// Takes and returns the oldest part of worker `me`, which calls this.
    pub fn take(&self, me: usize) -> Option<T> {
        let inbox = &self.inboxes[me].0;
        let part = inbox.parts.lock().queue.pop_front()?;
        inbox.waiting.fetch_sub(1, SeqCst);
        Some(part)
    }

    /// Worker `me` ends: returns the parts that it has not run, and lets further ones be refused.
    pub fn close(&self, me: usize) -> VecDeque<T> {
        let inbox = &self.inboxes[me].0;
        let mut parts = inbox.parts.lock();
        parts.closed = true;
        inbox.waiting.store(0, SeqCst);
        std::mem::take(&mut parts.queue)
    }
}

/// Opens when all parts of a call have ended, and wakes the thread that made it.
#[derive(Debug)]
pub struct Latch {
    left: AtomicUsize,
    waiter: parking::Thread,
}

impl Latch {
    /// Returns a latch for this thread, to be counted down by `parts` parts.
    pub fn new(parts: usize) -> Self {
        Latch {
            left: AtomicUsize::new(parts),
            waiter: parking::current(),
        }
    }

    /// Returns whether all parts have ended; what they wrote is visible then.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.left.load(Acquire) == 0
    }

    /// Counts a part that has ended. The caller keeps the latch alive, also after the last part.
    pub fn count_down(&self) {
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.waiter.unpark();
        }
    }
}
