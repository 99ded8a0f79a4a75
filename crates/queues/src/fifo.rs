//! A first-in first-out queue for any number of threads on both sides, which is short.

use std::collections::VecDeque;

use crate::Ready;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, total_order};

/// The queue of tasks that were sent to one worker. Other workers may take from it if the policy lets them, so that mail to a worker
/// which runs a long task does not wait while others are idle. That is why it is no single-receiver queue.
pub type Mailbox = Fifo;

/// A shared FIFO: a lock around a ring, with the length beside it in an atomic.
///
/// A lock is obviously right, and these queues are not on the hot path: work that a worker makes goes through its own deque. Only finding
/// the queue *empty* is hot, and that takes no lock.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Fifo {
    /// Length of `tasks`; written with the lock held.
    length: AtomicUsize,
    tasks: Mutex<VecDeque<Ready>>,
}

impl Fifo {
    /// Returns an empty queue.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a task at the new end.
    ///
    /// The task is visible to every `is_empty` that follows in the total order of `SeqCst` operations.
    pub fn push(&self, task: Ready) {
        let mut tasks = self.tasks.lock();
        tasks.push_back(task);
        self.length.store(tasks.len(), Ordering::SeqCst);
        drop(tasks);
        total_order();
    }

    /// Takes and returns the oldest task. Takes no lock if there is none.
    #[inline]
    pub fn pop(&self) -> Option<Ready> {
        if self.is_empty() {
            None
        } else {
            self.pop_locked()
        }
    }

    fn pop_locked(&self) -> Option<Ready> {
        let mut tasks = self.tasks.lock();
        let task = tasks.pop_front();
        self.length.store(tasks.len(), Ordering::SeqCst);
        task
    }

    /// Takes and returns the oldest task if `accept` returns true for its digest.
    pub fn pop_if(&self, accept: impl FnOnce(u16) -> bool) -> Option<Ready> {
        if self.is_empty() {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = match tasks.front() {
            Some(task) if accept(task.digest()) => tasks.pop_front(),
            _ => None,
        };
        self.length.store(tasks.len(), Ordering::SeqCst);
        task
    }

    /// Returns the number of tasks at some moment during the call. Takes no lock.
    #[inline]
    pub fn len(&self) -> usize {
        total_order();
        self.length.load(Ordering::SeqCst)
    }

    /// Returns whether there was no task at some moment during the call. `SeqCst`: see the crate's promise to sleepers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
