//! The sleep protocol: how idle workers fall asleep and are woken, without losing a wake-up and without burning a core.
//!
//! # States
//! A worker is *busy* (it runs a task), *searching* (it has no task and asks the dispatcher again and again) or *asleep*. The counter
//! `searching` is the number of searching workers. A set bit in `asleep` announces that its worker sleeps or is about to.
//!
//! A thread that wakes a worker first *claims* the worker's bit (`fetch_and`), so only one thread wakes each sleeper. It also counts the
//! worker as searching before the worker runs. So tasks that become available one by one wake one worker, instead of making one system
//! call for each task. Tasks that become available together wake as many workers, as far as fewer search: a chain in which each woken
//! worker wakes the next would take one wake-up after the other.
//!
//! The first `width` workers are *active*: all of them, unless a governor runs fewer. The others take no tasks and are not woken for any.
//! They are *parked*: asleep, with their bits set.
//!
//! # Protocol
//! - Falling asleep ([`Sleep::doze`]): set the worker's bit; leave `searching`; call `may_have`. If that returns true, take the bit back
//!   and search again; else park until another thread has cleared the bit.
//!   A worker that will look again by itself naps instead ([`Sleep::nap`]): it does the same, and takes the bit back after a time unless
//!   another thread has cleared it. What is said of `doze` below holds of `nap`.
//! - Waking ([`Sleep::wake_anyone`]), after the task was made available: if `searching > 0`, do nothing; else count one worker more as
//!   searching, claim a bit (or take the count back), and unpark its worker. [`Sleep::wake_some`], after several tasks: the same again and
//!   again, as long as fewer workers search than tasks were made available. It does all that `wake_anyone` does, and more workers search.
//! - Finding a task ([`Sleep::end_search`]): leave `searching`. The last worker to leave wakes another one. There may be more tasks than
//!   the one that was found, and the threads that published them woke no worker because they saw `searching > 0`.
//! - Parking ([`Sleep::park`], by a searching worker that is not active): set the worker's bit; leave `searching`; call `wake_anyone`;
//!   load `width`. If the worker is active again, take the bit back and search; else park until another thread has cleared the bit.
//! - Changing the width ([`Sleep::set_width`]): store it; then wake each worker that it makes active and whose bit is set.
//!
//! # Invariant
//! *If a task is available to all workers, then some active worker is searching, or no active worker is asleep, or some thread is going to
//! call [`Sleep::end_search`], [`Sleep::doze`], [`Sleep::park`], [`Sleep::set_width`] or [`Sleep::wake_anyone`].*
//!
//! Proof. All accesses below are sequentially consistent, so they have one order. Let the thread P make a task available (by a push that
//! is a sequentially consistent store or happens under a lock, as the queues promise) and then load `searching`.
//!
//! 1. *P loads 0.* Every worker W that was searching has left `searching` before P's load. If W left in `end_search`, W is busy. If W left
//!    in `doze`, W had set its bit before, so P sees the bit, unless W or another thread has cleared it. In that case W is counted as
//!    searching again: by itself after it cleared the bit, or by the other thread before that. This count comes after P's load, since P
//!    would have loaded more than 0 otherwise. So it comes after P's push: W's next search finds the task, or another worker has it. P
//!    wakes a sleeper, or none is needed.
//! 2. *P loads n > 0.* Of the workers that were counted then, let W be the last one to leave `searching`.
//!    - W leaves in `doze`: that is after P's load and so after P's push. W calls `may_have` after it has left, so the call returns true
//!      (or another worker has taken the task), and W searches again.
//!    - W leaves in `end_search`, and `searching` is then 0: W calls `wake_anyone`, as the invariant says, and the argument starts again
//!      with W in the place of P. A further round needs a worker that has taken a task since, so the rounds end when no worker takes one.
//!    - W leaves in `end_search`, and `searching` is not 0, because another worker has begun to search since P's load: the argument goes
//!      on with that worker in the place of W. ∎
//!
//! A thread that tries to claim a bit and comes too late (`claim_and_wake`) counts in `searching` for a moment, although it does not
//! search. It leaves as in `end_search`, so the proof holds with it in the place of W.
//!
//! *Changes of the width.* So far `width` was constant. What else can happen:
//!
//! 3. *W leaves in `park`*, because it is not active any more. It then calls `wake_anyone`: the argument starts again with W in the place
//!    of P, and with one active worker less. A further round of this kind needs a further change of the width, so the rounds end when the
//!    width does not change. This also covers a sleeper that was woken while it was active and finds itself inactive: it is counted as
//!    searching, so it comes to `park`.
//! 4. *P chooses among too few sleepers*, because it loads `width` before `set_width` stores a larger one. Then P's push comes before the
//!    store, and `set_width` wakes each worker that it has made active after the store: the worker's search finds the task. A worker whose
//!    bit `set_width` does not see is busy or searching, or sets its bit later and loads the new `width` after that: it takes the bit back.
//! 5. *A busy worker becomes inactive.* P may have woken no worker because this one and the other active workers were busy. The others are
//!    at least one, worker 0: each asks the dispatcher once more before it sleeps, as in case 2.
//!
//! [`Sleep::wake_this`] serves tasks that only one worker may take. It looks at that worker's bit only. If the bit is not set, the worker
//! is busy or searching. Whatever it runs or finds, it asks the dispatcher again afterwards; and if it goes to sleep, it sets its bit after
//! P has looked, so its call of `may_have` comes after P's push and returns true. If the worker is not active, `wake_this` is
//! `wake_anyone`; and a worker that parks calls `wake_anyone`, so another one looks for a task that was mailed to it while it was busy.
//! A task that really only a parked worker may take is the policy's to move (`Dispatcher::resized`, which is called after `set_width`).
//!
//! [`Sleep::call`] wakes a worker for a call ([`super::calls`]), also one that is not active. It is counted as searching like any other
//! that wakes up; it leaves in `end_search` to answer, and comes back to `doze` or `park`. A worker that answers calls is not counted as
//! searching: no task would wait for it.
//!
//! # Workers without a thread
//! A worker whose thread starts when it is first woken ([`Sleep::start_later`]) is asleep until then: its bit is set. The thread that
//! claims the bit starts the worker's thread instead of unparking it. The worker is counted as searching when it enters, like any other
//! that wakes up. If its thread cannot be started, the claiming thread has come too late, as far as `searching` is concerned, and the
//! worker is *missing* from then on: its bit stays clear.
//!
//! # Closing
//! [`Sleep::close_in_turn`] stores `closing` and wakes one sleeper; every worker whose `doze`, `nap` or `park` returns [`Woke::Close`]
//! wakes two more before that, as long as some sleep. So all end: a worker that sets its bit after the store loads `closing` afterwards
//! and takes the bit back. Those whose bits were set before are a set that only shrinks; each thread that takes one out of it by a wake-up
//! has made a worker return, which looks at the whole set again. If the first look finds no bit, no worker sleeps.
//!
//! # Standstills
//! A pool *stands still* if each worker is idle or waits inside of a task. A thread that waits for the end of a graph looks for faults then
//! (a policy that has lost a task, graphs that wait for each other), and only then: it registers ([`Sleep::watch`]), and parks unless
//! [`Sleep::stands_still`]. Whatever completes a standstill unparks the registered threads afterwards (`tell`): a worker that
//! becomes idle comes to `doze`, `nap` or `park`, and one that waits in a task, to [`Sleep::begin_wait`]. No such wake-up is lost: the
//! worker changes its state and then loads `watchers`, the thread counts itself there and then looks at all states, with a sequentially
//! consistent fence between the two in both. So one of them sees the other.
//!
//! The test `tests/model_sleep.rs` runs this file under shuttle, whose memory is sequentially consistent, as the proof assumes.

use crate::list::list;
use crate::{parking, process};
use std::fmt;
use std::time::Duration;
use tanada_queues::Padded;
use tanada_queues::sync::Mutex;
use tanada_queues::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

/// Workers that each worker of a closing pool wakes.
const FAN: usize = 2;

/// Workers in one word of `Sleep::asleep`.
const BITS: usize = u64::BITS as usize;

/// Which workers of a pool sleep and how many search.
#[derive(Debug)]
pub struct Sleep {
    /// One bit a worker; see the module's documentation. Each word is on a line of its own, apart from what every worker reads.
    asleep: Vec<Padded<AtomicU64>>,
    /// Number of searching workers. On a line of its own: all workers write it, and all read the pointers beside it.
    searching: Padded<AtomicUsize>,
    workers: Vec<Counts>,
    closing: AtomicBool,
    /// See [`Sleep::takes_late`].
    late: AtomicBool,
    /// Whether the last worker has entered, or a late one: hardly ever written, and apart from what workers write.
    begun: AtomicBool,
    /// Number of active workers. On a line of its own: governed workers load it after each task.
    width: Padded<AtomicUsize>,
    /// Number of workers that wait inside of a task.
    waiting: AtomicUsize,
    /// Number of `watching` threads.
    watchers: AtomicUsize,
    /// The threads that are unparked when the pool stands still, each with a number.
    watching: Mutex<Vec<(u64, parking::Thread)>>,
}

/// A thread that is unparked when all workers of a pool are idle or wait, until this is dropped.
#[derive(Debug)]
pub struct Watching<'a> {
    sleep: &'a Sleep,
    number: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut watching = self.sleep.watching.lock();
        watching.retain(|&(number, _)| number != self.number);
        self.sleep.watchers.fetch_sub(1, Relaxed);
    }
}

/// Starts the thread of a worker and returns whether it could, if the argument is true; else the pool closes, and the worker never begins.
pub type Start = Box<dyn FnOnce(bool) -> bool + Send>;

/// What one worker alone writes once it has begun, and those that wake it, on cache lines of its own.
#[repr(align(128))]
struct Counts {
    /// What starts the worker's thread, until the worker is first woken; see [`Sleep::start_later`].
    start: Mutex<Option<Start>>,
    /// Whether the worker's thread could not be started.
    missing: AtomicBool,
    /// The handle that unparks the worker's thread, once the worker has entered.
    parker: std::sync::OnceLock<parking::Thread>,
    /// Number of times that the worker has become idle or busy: even while it is busy, and before it first searches. A worker whose thread
    /// starts later is idle until then.
    turns: AtomicU64,
    /// Number of its calls of [`Sleep::doze`] and [`Sleep::nap`] that did not sleep, because `may_have` returned true or the pool closes.
    vain: AtomicU64,
    /// The hardware thread from which the worker was woken last, by the system's number, or `NOWHERE`. Read by the worker alone.
    woken_from: AtomicUsize,
    /// Whether it waits in [`Sleep::doze`] or [`Sleep::park`]. A worker whose bit is set, but not this, still asks `may_have`.
    waits: AtomicBool,
}

/// What an idle worker has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Grows whenever the worker finds a task, and when it has run the task.
    pub turns: u64,
    /// Number of searches without a task after which the worker did not sleep.
    pub vain: u64,
    /// Whether the worker waits for a wake-up: `may_have` has returned false, and no thread has claimed the worker since.
    pub asleep: bool,
}

/// What ended a worker's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woke {
    /// There may be a task: the worker is counted as searching.
    Search,
    /// The pool closes.
    Close,
}

impl Default for Counts {
    #[inline]
    fn default() -> Self {
        Counts {
            start: Mutex::default(),
            missing: AtomicBool::new(false),
            parker: std::sync::OnceLock::new(),
            turns: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            woken_from: AtomicUsize::new(NOWHERE),
            waits: AtomicBool::new(false),
        }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("turns", &self.turns)
            .field("vain", &self.vain)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}

impl Counts {
    /// Counts that the worker becomes idle or busy. Only that worker calls this, or what makes it, before.
    #[inline]
    fn turn(&self) {
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
    }

    /// Counts that the worker does not sleep although it has found nothing. Only that worker calls this.
    fn count_vain(&self) {
        self.vain.store(self.vain.load(Relaxed) + 1, Relaxed);
    }
}

impl Sleep {
    /// Returns the state of `workers` workers, none of which sleeps or searches yet.
    // Inlined where pools are made: code elsewhere would be another page fault of the first one.
    #[inline(always)]
    pub fn new(workers: usize) -> Self {
        Sleep {
            asleep: list(workers.div_ceil(BITS), |_| Padded::default()),
            searching: Padded(AtomicUsize::new(0)),
            workers: list(workers, |_| Counts::default()),
            closing: AtomicBool::new(false),
            late: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            width: Padded(AtomicUsize::new(workers)),
            waiting: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            // Room for some, so that waiting allocates nothing.
            watching: Mutex::new(Vec::with_capacity(8)),
        }
    }

    /// Counts a worker that runs a task as waiting in it.
    pub fn begin_wait(&self) {
        self.waiting.fetch_add(1, SeqCst);
        self.tell();
    }

    /// Counts a worker that waited in a task as running it.
    pub fn end_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Returns the number of workers that wait inside of tasks.
    pub fn count_waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Returns whether all workers are idle or wait inside of tasks, or the pool closes. Each is asked at another time.
    pub fn stands_still(&self) -> bool {
        self.count_idle() + self.count_waiting() >= self.workers.len() || self.closing.load(SeqCst)
    }

    /// Registers this thread: until the result is dropped, it is unparked when [`Sleep::stands_still`] becomes true, if that lasts.
    ///
    /// Returns `None` if the thread is part of a schedule: there it must not be woken for what depends on time.
    pub fn watch(&self) -> Option<Watching<'_>> {
        if parking::is_scheduled() {
            return None;
        }
        let mut watching = self.watching.lock();
        let number = watching.last().map_or(0, |&(last, _)| last + 1);
        watching.push((number, parking::current()));
        self.watchers.fetch_add(1, SeqCst);
        // Between the count and the caller's look at what workers do; see "Standstills".
        fence(SeqCst);
        Some(Watching {
            sleep: self,
            number,
        })
    }

    /// Unparks the registered threads if the pool stands still. Called after this worker has become idle, or waits in a task.
    fn tell(&self) {
        fence(SeqCst);
        if self.watchers.load(SeqCst) > 0 && self.stands_still() {
            self.unpark_watchers();
        }
    }

    #[cold]
    fn unpark_watchers(&self) {
        for (_, thread) in self.watching.lock().iter() {
            thread.unpark();
        }
    }

    /// Returns the number of active workers.
    #[inline]
    pub fn width(&self) -> usize {
        self.width.0.load(SeqCst)
    }

    /// Returns whether worker `me` is active.
    #[inline]
    pub fn is_active(&self, me: usize) -> bool {
        me < self.width()
    }

    /// Makes the first `width` workers active, from 1 to all. Wakes those of them that were parked. The others park once their tasks have
    /// ended.
    ///
    /// # Panics
    /// If `width` is 0 or more than there are workers.
    pub fn set_width(&self, width: usize) {
        assert!((1..=self.workers.len()).contains(&width), "{width} workers");
        let before = self.width.0.swap(width, SeqCst);
        for whom in before..width {
            self.wake_if_asleep(whom);
        }
    }

    /// Lets `start` start the thread of worker `me` when the worker is first woken: by [`Sleep::call`], or because there may be a task and
    /// no worker searches. Called before tasks are made available, in place of [`Sleep::enter`] on the worker's thread.
    pub fn start_later(&self, me: usize, start: Start) {
        let worker = &self.workers[me];
        *worker.start.lock() = Some(start);
        worker.turn();
        worker.waits.store(true, SeqCst);
        self.asleep[me / BITS].0.fetch_or(1 << (me % BITS), SeqCst);
    }

    /// Makes this thread worker `me`. Each worker's thread calls this once, before all other functions. Returns whether the worker is
    /// counted as searching already, since another thread has woken it.
    ///
    /// # Panics
    /// If it was called for `me` before.
    #[inline]
    pub fn enter(&self, me: usize) -> bool {
        let worker = &self.workers[me];
        let first = worker.parker.set(parking::current()).is_ok();
        assert!(first, "worker {me} entered twice");
        let is_late = worker.turns.load(Relaxed) % 2 == 1;
        if is_late {
            worker.waits.store(false, SeqCst);
        }
        if is_late || me + 1 == self.workers.len() {
            self.begun.store(true, Relaxed);
        }
        is_late
    }

    /// Returns whether the last worker has entered, or one whose thread starts when it is needed. Most often the others have, then: threads
    /// are started in their order.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// Counts worker `me`, which calls this and was busy, as searching.
    #[inline]
    pub fn begin_search(&self, me: usize) {
        self.workers[me].turn();
        self.searching.0.fetch_add(1, SeqCst);
    }

    /// Counts worker `me`, which calls this and was searching, as busy: it found a task.
    #[inline]
    pub fn end_search(&self, me: usize) {
        self.workers[me].turn();
        if self.searching.0.fetch_sub(1, SeqCst) == 1 {
            self.wake_anyone();
        }
    }

    /// Counts worker `me`, which calls this and was searching, as busy, and wakes nobody. Returns whether no worker searches now: then the
    /// caller looks whether there is more to do than what it found, and wakes a worker if there is.
    #[inline]
    pub fn leave_search(&self, me: usize) -> bool {
        self.workers[me].turn();
        self.searching.0.fetch_sub(1, SeqCst) == 1
    }

    /// Returns whether a worker searches.
    #[inline]
    pub fn is_anyone_searching(&self) -> bool {
        self.searching.0.load(SeqCst) > 0
    }

    /// Returns whether a worker searches, or an active worker sleeps.
    #[inline]
    pub fn is_anyone_idle(&self) -> bool {
        self.is_anyone_searching() || self.is_anyone_asleep()
    }

    /// Returns whether an active worker sleeps, or is about to.
    #[inline]
    pub fn is_anyone_asleep(&self) -> bool {
        self.sleeper().is_some()
    }

    /// Puts this searching worker to sleep, unless `may_have` ([`Dispatcher::may_have`](tanada_policy::Dispatcher::may_have)) returns true.
    /// Returns when there may be a task, or when the pool closes.
    pub fn doze(&self, me: usize, may_have: impl Fn() -> bool) -> Woke {
        let (word, bit) = (&self.asleep[me / BITS].0, 1 << (me % BITS));
        word.fetch_or(bit, SeqCst);
        self.searching.0.fetch_sub(1, SeqCst);
        self.tell();
        if may_have() || self.closing.load(SeqCst) {
            if word.fetch_and(!bit, SeqCst) & bit != 0 {
                self.searching.0.fetch_add(1, SeqCst);
            }
            // Otherwise another thread has claimed the bit and counted this worker as searching.
            self.workers[me].count_vain();
        } else {
            self.wait_for_wake(me);
        }
        self.woke()
    }

    /// As [`Sleep::doze`], for at most `time`, however often `may_have` would return true meanwhile: for a worker that will look again by
    /// itself. It does not count as asleep ([`Idle::asleep`]).
    pub fn nap(&self, me: usize, time: Duration, may_have: impl FnOnce() -> bool) -> Woke {
        let (word, bit) = (&self.asleep[me / BITS].0, 1 << (me % BITS));
        word.fetch_or(bit, SeqCst);
        self.searching.0.fetch_sub(1, SeqCst);
        self.tell();
        if may_have() || self.closing.load(SeqCst) {
            self.workers[me].count_vain();
        } else if word.load(SeqCst) & bit != 0 {
            // Whoever clears the bit unparks this thread, which may also wake up for no reason.
            parking::park_timeout(time);
        }
        if word.fetch_and(!bit, SeqCst) & bit != 0 {
            self.searching.0.fetch_add(1, SeqCst);
        }
        // Otherwise another thread has claimed the bit and counted this worker as searching.
        self.woke()
    }

    /// Puts this searching worker, which is not active, to sleep until it is active again, or until the pool closes; unless `called`
    /// returns true. May return early, too: after [`Sleep::call`].
    pub fn park(&self, me: usize, called: impl Fn() -> bool) -> Woke {
        let (word, bit) = (&self.asleep[me / BITS].0, 1 << (me % BITS));
        word.fetch_or(bit, SeqCst);
        self.searching.0.fetch_sub(1, SeqCst);
        self.tell();
        // Other threads may have woken no worker because this one was counted, or was busy.
        self.wake_anyone();
        if self.is_active(me) || called() || self.closing.load(SeqCst) {
            if word.fetch_and(!bit, SeqCst) & bit != 0 {
                self.searching.0.fetch_add(1, SeqCst);
            }
        } else {
            self.wait_for_wake(me);
        }
        self.woke()
    }

    /// Waits until another thread has cleared the bit of worker `me`, which calls this, and so has counted it as searching.
    fn wait_for_wake(&self, me: usize) {
        let (word, bit) = (&self.asleep[me / BITS].0, 1 << (me % BITS));
        self.workers[me].waits.store(true, SeqCst);
        while word.load(SeqCst) & bit != 0 {
            parking::park();
        }
        self.workers[me].waits.store(false, SeqCst);
    }

    fn woke(&self) -> Woke {
        if self.closing.load(SeqCst) {
            for _ in 0..FAN {
                self.wake_one_to_close();
            }
            Woke::Close
        } else {
            Woke::Search
        }
    }

    /// Wakes a worker if none searches, because a task became available that any worker may take.
    #[inline]
    pub fn wake_anyone(&self) {
        if self.searching.0.load(SeqCst) == 0 {
            self.wake_a_sleeper();
        }
    }

    /// Wakes workers until as many search as `tasks` tasks became available that any worker may take, or no active worker sleeps.
    #[inline]
    pub fn wake_some(&self, tasks: usize) {
        // Other workers may leave `searching` meanwhile: a wake-up for each task is enough.
        for _ in 0..tasks {
            if self.searching.0.load(SeqCst) >= tasks || !self.wake_a_sleeper() {
                return;
            }
        }
    }

    /// Wakes some active sleeper, if there is one. Returns whether there was.
    #[inline]
    pub fn wake_a_sleeper(&self) -> bool {
        // Each look loads the words again, and the width, which may have become smaller.
        while let Some(whom) = self.sleeper() {
            if self.claim_and_wake(whom).is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns an active worker whose bit is set.
    #[inline]
    fn sleeper(&self) -> Option<usize> {
        self.asleep.iter().enumerate().find_map(|(index, word)| {
            // Most often no bit is set, and the width need not be loaded.
            let bits = word.0.load(SeqCst);
            let below = |bits| first_below(bits, self.width().saturating_sub(index * BITS));
            (bits != 0)
                .then(|| below(bits))
                .flatten()
                .map(|bit| index * BITS + bit)
        })
    }

    /// Wakes worker `whom` if it sleeps, because a task became available that perhaps only that worker may take. If it is not active:
    /// as [`Sleep::wake_anyone`].
    #[inline]
    pub fn wake_this(&self, whom: usize) {
        if self.is_active(whom) {
            self.wake_if_asleep(whom);
        } else {
            self.wake_anyone();
        }
    }

    /// Wakes worker `whom`, active or not, if it sleeps. Returns whether it woke the worker.
    #[inline]
    pub fn wake_if_asleep(&self, whom: usize) -> bool {
        let asleep = self.asleep[whom / BITS].0.load(SeqCst) & (1 << (whom % BITS)) != 0;
        asleep
            && match self.claim_and_wake(whom) {
                Ok(()) => true,
                Err(is_last) => {
                    if is_last {
                        self.wake_anyone();
                    }
                    false
                }
            }
    }

    /// Wakes worker `whom`, active or not, because of a call that it alone can answer: from its sleep, or from a wait inside of a task.
    pub fn call(&self, whom: usize) {
        if self.wake_if_asleep(whom) {
            return;
        }
        match self.workers[whom].parker.get() {
            Some(thread) => thread.unpark(),
            None => self.check_missing(whom),
        }
    }

    /// Unparks the thread of worker `whom`, whatever it does.
    pub fn unpark(&self, whom: usize) {
        if let Some(thread) = self.workers[whom].parker.get() {
            thread.unpark();
        }
    }

    /// The thread of worker `whom` cannot be started. Ends the process if `called` returns true: if the worker has something to do that no
    /// other one may do.
    ///
    /// No call is overlooked: the caller posts it and then loads `missing`, or this thread stores that and then looks for calls.
    pub fn set_missing(&self, whom: usize, called: impl FnOnce() -> bool) {
        self.workers[whom].missing.store(true, SeqCst);
        if called() {
            self.check_missing(whom);
        }
    }

    /// Ends the process if worker `whom`, which is called, will never come.
    #[cold]
    fn check_missing(&self, whom: usize) {
        if self.workers[whom].missing.load(SeqCst) {
            process::report(format_args!(
                "worker {whom} is to run a closure that each worker runs, and its thread cannot be started (see above); \
                 the process cannot go on"
            ));
            std::process::abort();
        }
    }

    /// Wakes worker `whom`. An error if another thread has done so already, the worker itself has taken its bit back, or its thread does
    /// not start: whether no worker searches any more.
    fn claim_and_wake(&self, whom: usize) -> Result<(), bool> {
        // Before the bit is cleared: otherwise the sleeper could wake up by itself, call `end_search`, and leave a count of -1.
        self.searching.0.fetch_add(1, SeqCst);
        let bit = 1 << (whom % BITS);
        let claimed = self.asleep[whom / BITS].0.fetch_and(!bit, SeqCst) & bit != 0;
        let woken = claimed
            && match self.workers[whom].parker.get() {
                Some(thread) => {
                    self.workers[whom].woken_from.store(here(), Relaxed);
                    thread.unpark();
                    true
                }
                None => self.start(whom),
            };
        // Another thread was faster, or the worker's thread does not start. Until here `searching` was too high by one, and a third thread
        // may have woken no worker because of that: so the caller wakes a worker instead. (Not this function: it would call itself as
        // often as there are workers that have not begun.)
        if woken {
            return Ok(());
        }
        let is_last = self.searching.0.fetch_sub(1, SeqCst) == 1;
        if is_last {
            self.late.store(true, SeqCst);
        }
        Err(is_last)
    }

    /// Returns whether worker `me`, which calls this, runs on the hardware thread from which it was woken last: where the thread that woke
    /// it was at work.
    #[inline]
    pub fn is_where_woken(&self, me: usize) -> bool {
        self.workers[me].woken_from.load(Relaxed) == here()
    }

    /// Returns whether the pool closes.
    pub fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Starts the thread of worker `whom`, whose bit this thread has claimed, unless the pool closes. Returns whether the thread starts.
    #[cold]
    fn start(&self, whom: usize) -> bool {
        let start = self.workers[whom].start.lock().take();
        let start = start.expect("a worker that sleeps has entered or starts later");
        start(!self.closing.load(SeqCst))
    }

    /// Returns whether a thread has counted as searching for a moment, although it came too late to wake a worker, since this was asked
    /// last: another thread may have woken no worker for something that workers which do *not* sleep here take.
    #[inline]
    pub fn takes_late(&self) -> bool {
        self.late.load(Relaxed) && self.late.swap(false, SeqCst)
    }

    /// Returns what each worker has done so far; `None` of one that runs a task or has not begun to search. Each is asked at another time.
    /// But a worker whose turns have not changed between two calls found no task between the end of the first call and the beginning of the
    /// second one.
    pub fn idle(&self) -> impl Iterator<Item = Option<Idle>> {
        (0..self.workers.len()).map(|me| self.idle_worker(me))
    }

    /// Returns the number of workers that run no task and have begun to search. Each is asked at another time.
    pub fn count_idle(&self) -> usize {
        self.idle().flatten().count()
    }

    fn idle_worker(&self, me: usize) -> Option<Idle> {
        let worker = &self.workers[me];
        let turns = worker.turns.load(Relaxed);
        // The bit first: a worker that set it anew meanwhile has not waited since.
        let announced = self.asleep[me / BITS].0.load(SeqCst) & (1 << (me % BITS)) != 0;
        (turns % 2 == 1).then(|| Idle {
            turns,
            vain: worker.vain.load(Relaxed),
            asleep: announced && worker.waits.load(SeqCst),
        })
    }

    /// As [`Sleep::close`], but wakes one worker only, which wakes the next ones before it ends. A caller that ends the process soon does
    /// not pay for waking threads that then end beside it, and whose end would hold it up.
    pub fn close_in_turn(&self) {
        self.closing.store(true, SeqCst);
        self.wake_one_to_close();
        self.unpark_watchers();
    }

    /// Wakes a worker that sleeps, active or not, if there is one.
    fn wake_one_to_close(&self) {
        for whom in 0..self.workers.len() {
            if self.wake_if_asleep(whom) {
                return;
            }
        }
    }

    /// Wakes all workers for good: from now on every [`Sleep::doze`] returns [`Woke::Close`].
    pub fn close(&self) {
        self.closing.store(true, SeqCst);
        for whom in 0..self.workers.len() {
            self.wake_if_asleep(whom);
        }
        self.unpark_watchers();
    }
}

/// Where a worker was woken from that has not been.
const NOWHERE: usize = usize::MAX;

/// Returns the hardware thread on which this thread runs, by the system's number.
#[inline]
fn here() -> usize {
    // A model has none.
    if cfg!(any(shuttle, miri)) {
        0
    } else {
        rustix::thread::sched_getcpu()
    }
}

/// Returns the number of the lowest set bit of `word` below `limit`.
fn first_below(word: u64, limit: usize) -> Option<usize> {
    let bit = word.trailing_zeros() as usize;
    (bit < limit.min(BITS)).then_some(bit)
}
