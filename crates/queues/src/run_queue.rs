//! The run queue of one worker: its owner pushes and pops at the *head*, any thread pushes, pops and peeks at the *tail*.
//!
//! These are the operations of paper 5 (section 3). A task that lies nearest to the tail is the next to be stolen and the last to be run
//! by the owner.
//!
//! The queue is a [deque](crate::deque()) with a *waiting line* and an *outer part* behind its old end. The line holds what the owner put
//! behind its own tasks ([`Head::push_last`]), the outer part what was pushed at the tail:
//!
//! ```text
//! head [ the deque, newest first ][ the line, oldest first ][ the outer part, under a lock ] tail
//! ```
//!
//! So the owner's own tasks cost what they cost in a deque, and only pushes at the tail take a lock. The line is a deque, too, of which
//! all take the oldest: tasks that let others go first take turns, at two locked instructions each, or one (`push_last_quietly`). A pop
//! at the tail takes from the outer part first, then from the line, then from the deque; the owner's pop the other way round. So an owner
//! that always finds a task in front never comes to those behind: [`Head::pop_waiting`], which it calls once in a while, takes one of
//! these.
//!
//! Each task is taken once, because each of the three parts ensures that. The order is exact as long as operations do not overlap. A pop at
//! the tail that overlaps a push at the tail may find the outer part empty and take the oldest of the deque, as if it had come earlier.

use std::collections::VecDeque;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, total_order};
use crate::{Owner, Ready, Steal, Stealer, deque};

/// Marks in [`Outer::tail`] that there is a task.
const SOME: u64 = 1 << 16;

/// What was pushed at the tail.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Outer {
    /// Length of `tasks`; written with the lock held.
    length: AtomicUsize,
    /// [`SOME`] and the digest of the task at the tail, or 0; written with the lock held.
    tail: AtomicU64,
    /// The front lies next to the deque, the back is the tail.
    tasks: Mutex<VecDeque<Ready>>,
}

impl Outer {
    /// Calls `change` with the tasks, and returns its result.
    fn with<R>(&self, change: impl FnOnce(&mut VecDeque<Ready>) -> R) -> R {
        let mut tasks = self.tasks.lock();
        let result = change(&mut tasks);
        let tail = tasks
            .back()
            .map_or(0, |task| SOME | u64::from(task.digest()));
        self.tail.store(tail, Ordering::Relaxed);
        self.length.store(tasks.len(), Ordering::SeqCst);
        drop(tasks);
        total_order();
        result
    }

    #[inline]
    fn is_empty(&self) -> bool {
        total_order();
        self.length.load(Ordering::SeqCst) == 0
    }
}

/// Returns an empty run queue: the side of its owner, of which there is one, and the side of all threads, which can be cloned.
///
/// ```
/// # use tanada_queues::{Ready, Steal, run_queue};
/// // SAFETY: no engine is involved; the handles are only read back.
/// let task = |n| unsafe { Ready::new(n, n as u16) };
/// let (mut head, tail) = run_queue();
/// head.push(task(2));
/// head.push(task(3));
/// tail.push(task(1));
/// assert_eq!(tail.peek(), Some(1));
/// assert!(matches!(tail.pop_if(|digest| digest == 7), Steal::Refused));
/// assert!(matches!(tail.pop(), Steal::Taken(oldest) if oldest.handle() == 1));
/// assert_eq!(head.pop().unwrap().handle(), 3);
/// ```
#[inline]
pub fn run_queue() -> (Head, Tail) {
    let ((owner, stealer), (line, waiting)) = (deque(), deque());
    let outer = Arc::new(Outer::default());
    let head = Head {
        owner,
        line,
        outer: Arc::clone(&outer),
        looks: 0,
    };
    let tail = Tail {
        stealer,
        waiting,
        outer,
    };
    (head, tail)
}

/// The owner's side of a run queue. It can move between threads but not be shared.
#[derive(Debug)]
pub struct Head {
    owner: Owner,
    line: Owner,
    outer: Arc<Outer>,
    /// Calls of [`Head::pop_waiting`].
    looks: u32,
}

impl Head {
    /// Puts a task at the head, as [`Owner::push`].
    #[inline]
    pub fn push(&mut self, task: Ready) {
        self.owner.push(task);
    }

    /// As [`Head::push`], without the promise, as [`Owner::push_quietly`].
    #[inline]
    pub fn push_quietly(&mut self, task: Ready) {
        self.owner.push_quietly(task);
    }

    /// Puts a task behind all that the owner has put into the queue: the owner takes it after those, and a thief before those that were
    /// put at the head.
    #[inline]
    pub fn push_last(&mut self, task: Ready) {
        self.line.push(task);
    }

    /// As [`Head::push_last`], without the promise, as [`Owner::push_quietly`].
    #[inline]
    pub fn push_last_quietly(&mut self, task: Ready) {
        self.line.push_quietly(task);
    }

    /// Takes and returns the task at the head.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready> {
        match self.owner.pop() {
            None => self.pop_behind(),
            task => task,
        }
    }

    /// Takes and returns the first task of the line, else of the outer part. As a call it is a tenth of a switch of threads.
    #[inline(always)]
    fn pop_behind(&mut self) -> Option<Ready> {
        match self.line.pop_oldest() {
            None => self.pop_outer(),
            task => task,
        }
    }

    /// Takes and returns the first task of the outer part.
    #[inline]
    fn pop_outer(&self) -> Option<Ready> {
        match self.outer.is_empty() {
            true => None,
            false => self.outer.with(VecDeque::pop_front),
        }
    }

    /// Takes and returns a task that has waited for long: the first of the outer part or of the line by turns, and once in
    /// [`Head::LOOKS`] calls the oldest of the owner's own. An owner that calls this once in a while takes each task at some time,
    /// whatever is put in front of it. May return `None` although there are tasks at the head.
    pub fn pop_waiting(&mut self) -> Option<Ready> {
        self.looks = self.looks.wrapping_add(1);
        match self.looks {
            // Seldom, because it breaks the order depth first, which keeps few tasks alive.
            looks if looks % Self::LOOKS == 0 => self.owner.pop_oldest(),
            looks if looks % 2 == 0 => self.pop_behind(),
            _ => self.pop_outer().or_else(|| self.line.pop_oldest()),
        }
    }

    /// See [`Head::pop_waiting`]. A power of two.
    pub const LOOKS: u32 = 32;

    /// As [`Head::pop`], if the task at the head is the newest that [`Head::push`] put there and has the handle `handle`.
    #[inline]
    pub fn pop_exactly(&mut self, handle: u64) -> Option<Ready> {
        self.owner.pop_exactly(handle)
    }

    /// Returns the number of tasks at some moment during the call.
    pub fn len(&self) -> usize {
        self.owner.len() + self.line.len() + self.outer.length.load(Ordering::SeqCst)
    }

    /// Returns whether there was no task at some moment during the call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.owner.is_empty() && self.line.is_empty() && self.outer.is_empty()
    }
}

/// The side of a run queue that all threads may use.
#[derive(Clone, Debug)]
pub struct Tail {
    stealer: Stealer,
    waiting: Stealer,
    outer: Arc<Outer>,
}

impl Tail {
    /// Puts a task at the tail: it is the next to be stolen, and the last that the owner pops.
    ///
    /// The task is visible to every `is_empty` that follows in the total order of `SeqCst` operations.
    pub fn push(&self, task: Ready) {
        self.outer.with(|tasks| tasks.push_back(task));
    }

    /// Tries once to take the task at the tail. [`Steal::Retry`] means that another thread took one.
    #[inline]
    pub fn pop(&self) -> Steal {
        self.pop_if(|_| true)
    }

    /// As [`Tail::pop`], but first calls `accept` with the digest of the task at the tail, and takes the task only if that returns true.
    #[inline]
    pub fn pop_if(&self, accept: impl FnOnce(u16) -> bool) -> Steal {
        if self.outer.is_empty() {
            // It is called once: a deque that is empty asks nothing.
            let mut accept = Some(accept);
            let mut ask = |digest| accept.take().is_some_and(|accept| accept(digest));
            return match self.waiting.steal_if(&mut ask) {
                Steal::Empty => self.stealer.steal_if(ask),
                other => other,
            };
        }
        self.outer.with(|tasks| match tasks.back() {
            // Another thread was faster.
            None => Steal::Retry,
            Some(task) if !accept(task.digest()) => Steal::Refused,
            Some(_) => Steal::Taken(tasks.pop_back().expect("there is one")),
        })
    }

    /// Returns the digest of the task at the tail, `None` if there is none. Takes no lock. The task may have been taken meanwhile; what
    /// [`Tail::pop_if`] is asked about is exact.
    #[inline]
    pub fn peek(&self) -> Option<u16> {
        match self.outer.tail.load(Ordering::Relaxed) {
            0 => {
                let look = |stealer: &Stealer| {
                    let mut seen = None;
                    let refused = stealer.steal_if(|digest| {
                        seen = Some(digest);
                        false
                    });
                    debug_assert!(!matches!(refused, Steal::Taken(_)));
                    seen
                };
                look(&self.waiting).or_else(|| look(&self.stealer))
            }
            tail => Some(tail as u16),
        }
    }

    /// Returns the number of tasks at some moment during the call.
    pub fn len(&self) -> usize {
        self.stealer.len() + self.waiting.len() + self.outer.length.load(Ordering::SeqCst)
    }

    /// Returns whether there was no task at some moment during the call. `SeqCst`: see the crate's promise to sleepers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.stealer.is_empty() && self.waiting.is_empty() && self.outer.is_empty()
    }
}
