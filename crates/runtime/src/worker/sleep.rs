//! The sleep protocol: how idle workers fall asleep and are woken, without losing a wake-up and without burning a core.
//!
//! # States
//! A worker is *busy* (it runs a task), *searching* (it has none and asks the dispatcher again and again) or *asleep*.
//! `searching` counts the second; a set bit in `asleep` says that the third was announced. Whoever wakes a worker claims its bit first
//! (`fetch_and`), so a sleeper is woken once, and counts it as searching on its behalf before it runs, so that a burst of new tasks
//! wakes one worker and not one system call a task.
//!
//! # Protocol
//! - Falling asleep ([`Sleep::doze`]): set the own bit; leave `searching`; ask `may_have`; if it says yes take the bit back and search
//!   again; else park until the bit is cleared by somebody else.
//! - Waking ([`Sleep::wake_anyone`]), after the task was made available: if `searching > 0` do nothing; else claim a bit, count that
//!   worker as searching, unpark it.
//! - Finding ([`Sleep::found`]): leave `searching`; the last one to leave wakes another worker, because there may be more tasks than
//!   the one that it found and the wakers relied on it.
//!
//! # Invariant
//! *If a task is available to all workers, then some worker is searching, or no worker is asleep, or some worker that will call
//! [`Sleep::found`], [`Sleep::doze`] or [`Sleep::wake_anyone`] has not yet done so.*
//!
//! Proof. All accesses below are sequentially consistent; `<` is their total order. Let P make a task available (a push that is a
//! sequentially consistent store or happens under a lock, as the queues promise) and then load `searching`.
//!
//! 1. *P sees 0.* Every worker W that was searching before has decremented `searching` before P's load. If W went by `doze`, it had set
//!    its bit before that, so P sees W's bit (or somebody claimed it: then W is searching again or will be). So P finds a sleeper and
//!    wakes it, or there is none.
//! 2. *P sees n > 0.* Let W be the last of the workers counted then to leave `searching`. If W leaves by `doze`, its decrement comes
//!    after P's load and so after P's push, and W asks `may_have` after the decrement: it sees the task (or the task is taken) and
//!    searches again. If W leaves by `found` and nobody joined meanwhile, it is the last and calls `wake_anyone`: the argument starts
//!    again with W in the place of P, and each time one more worker is awake, so it ends. If somebody joined meanwhile, that worker is
//!    the W of this argument. ∎
//!
//! [`Sleep::wake_this`] serves tasks that only one worker may take: it looks at that worker's bit only. If the bit is not set, the
//! worker is busy (it asks the dispatcher when its task ends), or searching (case 2 with W = that worker).
//!
//! The model test at `tests/model_sleep.rs` runs this file under shuttle, whose memory is sequentially consistent: what the proof
//! assumes.

use tanada_queues::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use tanada_queues::sync::thread;

const BITS: usize = u64::BITS as usize;

/// Who sleeps and who searches, for the workers of one pool.
#[derive(Debug)]
pub struct Sleep {
    asleep: Box<[AtomicU64]>,
    searching: AtomicUsize,
    threads: Box<[Parker]>,
    /// How often a worker found nothing and was told that there may be something: many of these while nobody works show lost tasks.
    disappointed: AtomicU64,
    closing: AtomicBool,
}

/// The handle by which one worker's thread is unparked.
#[derive(Debug, Default)]
struct Parker(std::sync::OnceLock<thread::Thread>);

/// What ended a worker's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woke {
    /// There may be a task: the worker is counted as searching.
    Search,
    /// The pool closes.
    Close,
}

impl Sleep {
    /// For `workers` workers, none of which sleeps or searches yet.
    pub fn new(workers: usize) -> Self {
        Sleep {
            asleep: (0..workers.div_ceil(BITS))
                .map(|_| AtomicU64::new(0))
                .collect(),
            searching: AtomicUsize::new(0),
            threads: (0..workers).map(|_| Parker::default()).collect(),
            closing: AtomicBool::new(false),
            disappointed: AtomicU64::new(0),
        }
    }

    /// Tells which thread is worker `me`: called once by that thread before all else.
    pub fn enter(&self, me: usize) {
        let first = self.threads[me].0.set(thread::current()).is_ok();
        assert!(first, "worker {me} entered twice");
    }

    /// This worker begins to search.
    #[inline]
    pub fn search(&self) {
        self.searching.fetch_add(1, SeqCst);
    }

    /// This searching worker found a task.
    #[inline]
    pub fn found(&self) {
        if self.searching.fetch_sub(1, SeqCst) == 1 {
            self.wake_anyone();
        }
    }

    /// This searching worker goes to sleep, unless `may_have` says that there may be a task after all.
    pub fn doze(&self, me: usize, may_have: impl Fn() -> bool) -> Woke {
        let (word, bit) = (&self.asleep[me / BITS], 1 << (me % BITS));
        word.fetch_or(bit, SeqCst);
        self.searching.fetch_sub(1, SeqCst);
        if may_have() || self.closing.load(SeqCst) {
            if word.fetch_and(!bit, SeqCst) & bit != 0 {
                self.searching.fetch_add(1, SeqCst);
            }
            // Else a waker claimed the bit and counted this worker as searching.
            self.disappointed.fetch_add(1, Relaxed);
        } else {
            while word.load(SeqCst) & bit != 0 {
                thread::park();
            }
        }
        if self.closing.load(SeqCst) {
            Woke::Close
        } else {
            Woke::Search
        }
    }

    /// A task became available that any worker may take.
    #[inline]
    pub fn wake_anyone(&self) {
        if self.searching.load(SeqCst) == 0 {
            self.claim_one();
        }
    }

    fn claim_one(&self) {
        for (index, word) in self.asleep.iter().enumerate() {
            let mut seen = word.load(SeqCst);
            while seen != 0 {
                let bit = seen.trailing_zeros() as usize;
                if self.claim(index * BITS + bit) {
                    return;
                }
                seen = word.load(SeqCst);
            }
        }
    }

    /// A task became available to worker `whom`, perhaps to nobody else.
    #[inline]
    pub fn wake_this(&self, whom: usize) {
        if self.asleep[whom / BITS].load(SeqCst) & (1 << (whom % BITS)) != 0 {
            self.claim(whom);
        }
    }

    fn claim(&self, whom: usize) -> bool {
        // Counted before the bit is cleared: else the sleeper could wake by itself, search, find and leave a count of -1.
        self.searching.fetch_add(1, SeqCst);
        let bit = 1 << (whom % BITS);
        if self.asleep[whom / BITS].fetch_and(!bit, SeqCst) & bit == 0 {
            // Somebody else was faster. Between the two lines a waker may have relied on this count: so pass its wish on.
            if self.searching.fetch_sub(1, SeqCst) == 1 {
                self.wake_anyone();
            }
            return false;
        }
        self.threads[whom]
            .0
            .get()
            .expect("only a worker that entered sleeps")
            .unpark();
        true
    }

    /// Whether no worker runs a task, as far as one look can tell: `None` where one does; else how often a search has ended in vain so
    /// far, while the policy said that there may be a task.
    pub fn vain_searches_if_idle(&self) -> Option<u64> {
        let asleep: u32 = self
            .asleep
            .iter()
            .map(|word| word.load(SeqCst).count_ones())
            .sum();
        let idle = asleep as usize + self.searching.load(SeqCst);
        (idle >= self.threads.len()).then(|| self.disappointed.load(Relaxed))
    }

    /// Whether every worker is asleep, as far as one look can tell.
    pub fn all_asleep(&self) -> bool {
        let asleep: u32 = self
            .asleep
            .iter()
            .map(|word| word.load(SeqCst).count_ones())
            .sum();
        asleep as usize == self.threads.len()
    }

    /// Wakes all workers for good: every [`Sleep::doze`] from now on answers [`Woke::Close`].
    pub fn close(&self) {
        self.closing.store(true, SeqCst);
        for whom in 0..self.threads.len() {
            self.wake_this(whom);
        }
    }
}
