//! The deque of one worker: its owner pushes and pops at the new end, thieves take from the old end.
//!
//! The algorithm is Chase and Lev's ("Dynamic circular work-stealing deque", SPAA 2005) in the C11 form of Lê, Pop, Cohen and Zappa
//! Nardelli ("Correct and efficient work-stealing for weak memory models", PPoPP 2013), with three differences:
//!
//! - it synchronises by ordered accesses and has no bare fence: the store of `bottom` and the load of `top` in `pop`, and the loads of
//!   `top` and `bottom` in `steal`, are `SeqCst`, which is enough for the argument below;
//! - a slot is one `AtomicU64` that holds a whole task, so a thief may read a slot while the owner overwrites it: the thief gets some
//!   word, and its exchange of `top` then fails. There is no data race, hence no volatile access;
//! - outgrown buffers are kept until the deque is dropped (together they are no larger than the last one), so a thief never reads
//!   freed memory and no count of readers is needed.
//!
//! **Why no task is taken twice.** Task `i` is taken by a thief that moves `top` from `i` to `i + 1`, which only one can. The owner takes
//! `i` without touching `top` only if it read `top < i` after it had stored `bottom = i`. Suppose that a thief moves `top` from `i` too: it
//! loaded `top = i`, then a `bottom > i`. It did not see the owner's store, so in the total order its load of `bottom` comes before that
//! store; its load of `top`, and the exchange that made `top = i`, come earlier still; so the owner's later load of `top` returns `i` or
//! more, which contradicts `top < i`. (Only the owner's store in `pop` needs a place in that order; that in `push_quietly` needs none.) For
//! the last task (`top = i`) the owner exchanges `top` as a thief does: if it sees at once that the task is the last one, it need not store
//! `bottom` before, as a thief does not. An owner that takes from the old end (`pop_oldest`) is a thief there.
//!
//! **Why the word is the right one.** If the exchange from `i` succeeds, `top` was `i` all the time since it was read. The owner
//! overwrites the slot of `i` only after it read `top > i` (acquire), thus after that exchange (release).

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::OnceLock;

use crate::ready::{digest_of, handle_of};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, total_order};
use crate::{Padded, Ready};

/// Slots of the first buffer; every next one has twice as many. loom explores growth with few operations.
const FIRST_CAPACITY: usize = if cfg!(loom) { 2 } else { 32 };

/// The most tasks that one exchange takes.
pub(crate) const MANY: usize = if cfg!(loom) { 2 } else { 64 };

/// The most buffers of one deque: the last one would have 2^30 slots.
const BUFFERS: usize = 26;

/// The owner holds the last one a second time, and so gets at a slot without a look at the others.
type Buffer = std::sync::Arc<[AtomicU64]>;

struct Shared {
    /// Index of the oldest task. Only grows.
    top: Padded<AtomicU64>,
    /// One more than the index of the newest task. Written by the owner only.
    bottom: Padded<AtomicU64>,
    /// Index of the buffer in use. Written by the owner only.
    current: AtomicUsize,
    /// The buffers made so far: the first, which the first task makes, since many deques never get one; and those after it, for which most
    /// never need room. A task's slot in a buffer is its index mod the buffer's length, a power of two.
    first: OnceLock<Buffer>,
    others: OnceLock<Box<[OnceLock<Buffer>; BUFFERS - 1]>>,
}

impl Shared {
    #[inline]
    fn slots(&self, buffer: usize) -> &[AtomicU64] {
        let made = match buffer {
            0 => self.first.get(),
            _ => (self.others.get()).and_then(|others| others[buffer - 1].get()),
        };
        made.expect("a buffer is made before its number and its tasks are stored")
    }

    fn len(&self) -> usize {
        total_order();
        let top = self.top.0.load(Ordering::SeqCst);
        let bottom = self.bottom.0.load(Ordering::SeqCst);
        bottom.saturating_sub(top) as usize
    }
}

#[inline]
fn slot(slots: &[AtomicU64], index: u64) -> &AtomicU64 {
    &slots[index as usize & (slots.len() - 1)]
}

fn new_buffer(capacity: usize) -> Buffer {
    (0..capacity).map(|_| AtomicU64::new(0)).collect()
}

/// Returns an empty deque: the side of its owner, of which there is one, and the side of thieves, which can be cloned.
///
/// ```
/// # use tanada_queues::{Ready, Steal, deque};
/// // SAFETY: no engine is involved; the handles are only read back.
/// let task = |n| unsafe { Ready::new(n, 0) };
/// let (mut owner, stealer) = deque();
/// (1..=3).for_each(|n| owner.push(task(n)));
/// assert_eq!(owner.pop().unwrap().handle(), 3);
/// assert!(matches!(stealer.steal(), Steal::Taken(oldest) if oldest.handle() == 1));
/// ```
#[inline]
pub fn deque() -> (Owner, Stealer) {
    let shared = Arc::new(Shared {
        top: Padded(AtomicU64::new(0)),
        bottom: Padded(AtomicU64::new(0)),
        current: AtomicUsize::new(0),
        first: OnceLock::new(),
        others: OnceLock::new(),
    });
    let owner = Owner {
        slots: Buffer::default(),
        shared: Arc::clone(&shared),
        buffer: 0,
        top_seen: 0,
        one_thread: PhantomData,
    };
    (owner, Stealer { shared })
}

/// The owner's side of a deque. There is one. It can move between threads but not be shared, and all functions that change the deque take
/// `&mut`: safe code cannot use it from two threads.
pub struct Owner {
    shared: Arc<Shared>,
    /// Index of the buffer in use, and the buffer: one without slots until there is a first one.
    buffer: usize,
    slots: Buffer,
    /// An earlier value of `top`, which is at least that now. Saves reading the thieves' cache line at every push.
    top_seen: u64,
    one_thread: PhantomData<Cell<()>>,
}

impl Owner {
    /// Puts a task at the new end. Wait-free but for the allocation when the buffer is full.
    ///
    /// The task is visible to every `is_empty` that follows in the total order of `SeqCst` operations.
    #[inline]
    pub fn push(&mut self, task: Ready) {
        let end = self.put(task);
        self.shared.bottom.0.store(end, Ordering::SeqCst);
        total_order();
    }

    /// As [`Owner::push`], without the promise: another thread may for a moment find the deque without the task. No locked instruction. For
    /// an owner that has nobody to wake.
    #[inline]
    pub fn push_quietly(&mut self, task: Ready) {
        let end = self.put(task);
        self.shared.bottom.0.store(end, Ordering::Release);
    }

    /// Stores a task in the slot of the next index, and returns the index after that.
    #[inline]
    fn put(&mut self, task: Ready) -> u64 {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        if bottom - self.top_seen >= self.slots.len() as u64 {
            self.top_seen = self.shared.top.0.load(Ordering::Acquire);
            if bottom - self.top_seen >= self.slots.len() as u64 {
                self.grow(bottom);
            }
        }
        slot(&self.slots, bottom).store(task.into_word().get(), Ordering::Relaxed);
        bottom + 1
    }

    /// As [`Owner::push`] for each of `tasks`, the first of them first. They become visible at once, by one store.
    pub fn push_all(&mut self, tasks: impl ExactSizeIterator<Item = Ready>) {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        let number = tasks.len() as u64;
        self.top_seen = self.shared.top.0.load(Ordering::Acquire);
        while bottom + number - self.top_seen > self.slots.len() as u64 {
            self.grow(bottom);
        }
        let mut end = bottom;
        // No more than there is room for, whatever the iterator says of its length.
        for (index, task) in (bottom..bottom + number).zip(tasks) {
            slot(&self.slots, index).store(task.into_word().get(), Ordering::Relaxed);
            end = index + 1;
        }
        self.shared.bottom.0.store(end, Ordering::SeqCst);
        total_order();
    }

    #[cold]
    fn grow(&mut self, bottom: u64) {
        let old = &self.slots;
        if old.is_empty() {
            self.slots = new_buffer(FIRST_CAPACITY);
            let first = Buffer::clone(&self.slots);
            (self.shared.first.set(first)).expect("only the owner makes buffers, each once");
            return;
        }
        let new = new_buffer(old.len() * 2);
        for index in self.top_seen..bottom {
            slot(&new, index).store(slot(old, index).load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.buffer += 1;
        self.slots = Buffer::clone(&new);
        let none = || Box::new([const { OnceLock::new() }; BUFFERS - 1]);
        let others = self.shared.others.get_or_init(none);
        others[self.buffer - 1]
            .set(new)
            .expect("only the owner makes buffers, each once");
        self.shared.current.store(self.buffer, Ordering::Release);
    }

    /// Takes and returns the newest task.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready> {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        // `top` only grows, so a deque that looks empty here is empty. An idle worker that asks again and again writes nothing.
        let seen = self.shared.top.0.load(Ordering::Relaxed);
        if seen >= bottom {
            return None;
        }
        if seen + 1 < bottom {
            return self.pop_one_of_many(bottom);
        }
        // The last task: the thread that moves `top` has it, and `bottom` may stay. One locked instruction instead of two.
        let word = self.word(seen);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let won = (self.shared.top.0).compare_exchange(seen, bottom, success, failure);
        // SAFETY: this has moved `top` past the index.
        won.is_ok().then(|| unsafe { Self::take(word) })
    }

    /// Returns the handle of the task in the last place, if it ever had one. It may have been taken.
    #[inline]
    pub fn newest(&self) -> Option<u64> {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        let newest = bottom.checked_sub(1)?;
        let word = slot(&self.slots, newest).load(Ordering::Relaxed);
        NonZeroU64::new(word).map(handle_of)
    }

    /// As [`Owner::pop`], of several tasks that there were.
    fn pop_one_of_many(&mut self, bottom: u64) -> Option<Ready> {
        let newest = bottom - 1;
        self.shared.bottom.0.store(newest, Ordering::SeqCst);
        total_order();
        let top = self.shared.top.0.load(Ordering::SeqCst);
        if top < newest {
            // SAFETY: `bottom` was stored before `top` was read.
            return Some(unsafe { Self::take(self.word(newest)) });
        }
        // The last task: the thread that moves `top` has it. The deque is empty afterwards in any case.
        let won = top == newest
            && self
                .shared
                .top
                .0
                .compare_exchange(newest, bottom, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        self.shared.bottom.0.store(bottom, Ordering::Release);
        // SAFETY: this has moved `top` past the index.
        won.then(|| unsafe { Self::take(self.word(newest)) })
    }

    /// Takes and returns the oldest task, as a thief does.
    #[inline]
    pub fn pop_oldest(&mut self) -> Option<Ready> {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        let mut top = self.shared.top.0.load(Ordering::Relaxed);
        loop {
            if top >= bottom {
                return None;
            }
            let word = self.word(top);
            let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
            match (self.shared.top.0).compare_exchange(top, top + 1, success, failure) {
                // SAFETY: this has moved `top` past the index.
                Ok(_) => return Some(unsafe { Self::take(word) }),
                // Another thread took one: this ends.
                Err(now) => top = now,
            }
        }
    }

    /// As [`Owner::pop`], but first calls `accept` with the digest of the newest task, and takes it only if that returns true.
    #[inline]
    pub fn pop_if(&mut self, accept: impl FnOnce(u16) -> bool) -> Option<Ready> {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        if self.shared.top.0.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        // The slot holds the newest task's word, or that of a task which a thief has taken since.
        let word = NonZeroU64::new(slot(&self.slots, bottom - 1).load(Ordering::Relaxed))?;
        if accept(digest_of(word)) {
            self.pop()
        } else {
            None
        }
    }

    /// As [`Owner::pop`], if the newest task has the handle `handle`.
    #[inline]
    pub fn pop_exactly(&mut self, handle: u64) -> Option<Ready> {
        let bottom = self.shared.bottom.0.load(Ordering::Relaxed);
        if self.shared.top.0.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        let word = NonZeroU64::new(slot(&self.slots, bottom - 1).load(Ordering::Relaxed))?;
        // The slot holds the newest task's word, or that of a task which a thief has taken since.
        if handle_of(word) == handle {
            self.pop()
        } else {
            None
        }
    }

    /// Returns what the slot of the index holds. Called before an exchange that takes the task: a processor lets later loads wait for it.
    #[inline]
    fn word(&self, index: u64) -> u64 {
        slot(&self.slots, index).load(Ordering::Relaxed)
    }

    /// Returns the task whose word was read at an index below `bottom`.
    ///
    /// # Safety
    /// The caller has got the index either by storing `bottom = index` and then reading `top < index`, or by moving `top` past it.
    #[inline]
    unsafe fn take(word: u64) -> Ready {
        let word =
            NonZeroU64::new(word).expect("the owner stored a task at every index below bottom");
        // SAFETY: the word was stored by `put` from `into_word`. It is turned back once: the module's argument shows that no thief has it
        // as well, and the owner pushes at that index anew only afterwards.
        unsafe { Ready::from_word(word) }
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether there is no task.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.len() == 0
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("len", &self.len()).finish()
    }
}

/// The result of an attempt to steal.
#[derive(Debug, PartialEq, Eq)]
pub enum Steal {
    /// There was nothing.
    Empty,
    /// Another thread was faster; there may be more.
    Retry,
    /// The oldest task is there, but [`Stealer::steal_if`]'s condition refused it.
    Refused,
    /// The task that was the oldest.
    Taken(Ready),
}

/// The thieves' side of a deque.
#[derive(Clone)]
pub struct Stealer {
    shared: Arc<Shared>,
}

impl Stealer {
    /// Tries once to take the oldest task and returns the outcome. Lock-free: a `Retry` means that another thread took one.
    #[inline]
    pub fn steal(&self) -> Steal {
        self.steal_if(|_| true)
    }

    /// Returns the digest of the oldest task, which stays where it is; `None`: there was none, or another thread took it meanwhile. (Paper
    /// 5's peek.) Wait-free. The digest is that of a task that was the oldest during the call; it need not be there any more.
    #[inline]
    pub fn peek(&self) -> Option<u16> {
        let top = self.shared.top.0.load(Ordering::SeqCst);
        let word = self.word_at(top)?;
        // If `top` has not moved, the word was that of the task at `top`.
        total_order();
        if self.shared.top.0.load(Ordering::SeqCst) != top {
            return None;
        }
        NonZeroU64::new(word).map(digest_of)
    }

    /// As [`Stealer::steal`], but first calls `accept` with the digest of the oldest task, and takes the task only if that returns true.
    /// The task that is taken is the one with that digest. (Paper 5's conditional take.)
    #[inline]
    pub fn steal_if(&self, accept: impl FnOnce(u16) -> bool) -> Steal {
        let top = self.shared.top.0.load(Ordering::SeqCst);
        let Some(word) = self.word_at(top) else {
            return Steal::Empty;
        };
        let Some(word) = NonZeroU64::new(word) else {
            return Steal::Retry;
        };
        if !accept(digest_of(word)) {
            return Steal::Refused;
        }
        match self
            .shared
            .top
            .0
            .compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed)
        {
            // SAFETY: the word was stored by `put` from `into_word`, and `top` did not move since before it was read, so it is the
            // word at index `top`. It is turned back once: only one exchange from `top` succeeds, and the module's argument shows that
            // the owner does not take that index without one.
            Ok(_) => Steal::Taken(unsafe { Ready::from_word(word) }),
            Err(_) => Steal::Retry,
        }
    }

    /// Tries once to take the oldest tasks, `most` at the most, and appends them to `into`, the oldest first. Returns false if another
    /// thread took one meanwhile. Only for a deque whose owner never pops: then, if the exchange from `top` succeeds, nobody else has
    /// any of the tasks behind it.
    pub(crate) fn steal_many(&self, most: usize, into: &mut Vec<Ready>) -> bool {
        let top = self.shared.top.0.load(Ordering::SeqCst);
        total_order();
        let bottom = self.shared.bottom.0.load(Ordering::SeqCst);
        let number = bottom.saturating_sub(top).min(most as u64).min(MANY as u64);
        if number == 0 {
            return true;
        }
        // After `bottom`, as in `word_at`.
        let slots = self
            .shared
            .slots(self.shared.current.load(Ordering::Acquire));
        let mut words = [0; MANY];
        let words = &mut words[..number as usize];
        for (word, index) in words.iter_mut().zip(top..) {
            *word = slot(slots, index).load(Ordering::Relaxed);
        }
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let took = self
            .shared
            .top
            .0
            .compare_exchange(top, top + number, success, failure);
        if took.is_err() {
            return false;
        }
        // SAFETY: as in `steal_if`, of each index: `top` did not move since before the words were read, so the owner has overwritten none
        // of them and they are the words at these indices, which `put` stored from `into_word`. They are turned back once: only one
        // exchange from `top` succeeds, and the owner, which does not pop, takes none.
        let tasks = words.iter().map(|&word| unsafe {
            Ready::from_word(NonZeroU64::new(word).expect("a task is no zero"))
        });
        into.extend(tasks);
        true
    }

    /// Returns the word in the slot of index `top`, which was just read, if there is a task at that index. It is that task's word unless
    /// `top` has moved meanwhile; then it can be any word, also zero (a newer buffer has no word for a task that was taken before).
    #[inline]
    fn word_at(&self, top: u64) -> Option<u64> {
        total_order();
        if top >= self.shared.bottom.0.load(Ordering::SeqCst) {
            return None;
        }
        // After `bottom`: the owner made this task's buffer before it pushed the task.
        let slots = self
            .shared
            .slots(self.shared.current.load(Ordering::Acquire));
        Some(slot(slots, top).load(Ordering::Relaxed))
    }

    /// Returns how many tasks have been taken from the old end so far, by a `SeqCst` load.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        total_order();
        self.shared.top.0.load(Ordering::SeqCst)
    }

    /// Returns the number of tasks at some moment during the call.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether there was no task at some moment during the call. `SeqCst`: see the crate's promise to sleepers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Stealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stealer").field("len", &self.len()).finish()
    }
}
