//! The queue of tasks that became ready outside of any worker: first in, first out, for any number of threads on both sides.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, total_order};
use crate::{Owner, Padded, Ready, Steal, Stealer, deque};

/// A shared FIFO of two parts.
///
/// Tasks are put into the *input*, a list behind a lock. They are taken out of the *output*, a [deque](deque()) of which all threads are
/// thieves, by one exchange each or for several. A thread that finds the output empty moves the whole input there. So a thread that
/// puts in task after task and the workers that take them meet once in many tasks: neither waits for the other's lock, nor for the
/// line of what the other writes.
#[derive(Debug)]
pub struct Injector {
    input: Padded<Input>,
    /// Locked by the thread that moves the input. That lock is taken before the input's.
    mover: Padded<Mutex<Mover>>,
    output: Stealer,
}

#[derive(Debug, Default)]
struct Input {
    /// How many tasks have been put in so far. Written with the lock held.
    put: AtomicU64,
    tasks: Mutex<Vec<Ready>>,
}

#[derive(Debug)]
struct Mover {
    owner: Owner,
    /// An empty list, kept for its storage.
    spare: Vec<Ready>,
}

impl Default for Injector {
    fn default() -> Self {
        Self::new()
    }
}

impl Input {
    fn count(&self, number: usize) {
        let put = self.put.load(Ordering::Relaxed) + number as u64;
        self.put.store(put, Ordering::SeqCst);
    }
}

impl Injector {
    /// Returns an empty queue.
    #[inline]
    pub fn new() -> Self {
        let (owner, output) = deque();
        let spare = Vec::new();
        Injector {
            input: Padded::default(),
            mover: Padded(Mutex::new(Mover { owner, spare })),
            output,
        }
    }

    /// Puts a task at the new end.
    ///
    /// The task is visible to every `is_empty` that follows in the total order of `SeqCst` operations.
    pub fn push(&self, task: Ready) {
        let input = &self.input.0;
        let mut tasks = input.tasks.lock();
        tasks.push(task);
        input.count(1);
        drop(tasks);
        total_order();
    }

    /// Puts all of `new` at the new end, the first of them first, and leaves `new` empty. Visible as after [`Injector::push`].
    pub fn push_all(&self, new: &mut Vec<Ready>) {
        let input = &self.input.0;
        let mut tasks = input.tasks.lock();
        let number = new.len();
        tasks.append(new);
        input.count(number);
        drop(tasks);
        total_order();
    }

    /// Takes and returns the oldest task. Takes no lock if there is none, or if the output has one.
    #[inline]
    pub fn pop(&self) -> Option<Ready> {
        while !self.is_empty() {
            match self.output.steal() {
                Steal::Taken(task) => return Some(task),
                Steal::Empty => self.fill(),
                // Another thread took one: this ends.
                Steal::Retry | Steal::Refused => crate::sync::spin_loop(),
            }
        }
        None
    }

    /// As [`Injector::pop`], but takes up to `most` tasks (at least one, 64 at the most) by one exchange. Appends those behind the
    /// oldest to `others`, in their order.
    pub fn pop_some(&self, most: usize, others: &mut Vec<Ready>) -> Option<Ready> {
        if most <= 1 {
            return self.pop();
        }
        let before = others.len();
        while !self.is_empty() {
            if !self.output.steal_many(most, others) {
                crate::sync::spin_loop(); // another thread took one: this ends
            } else if others.len() > before {
                return Some(others.remove(before));
            } else {
                self.fill();
            }
        }
        None
    }

    /// Moves the input to the output, if that is empty.
    #[cold]
    fn fill(&self) {
        let mut mover = self.mover.0.lock();
        let Mover { owner, spare } = &mut *mover;
        // Only this thread puts tasks into the output now.
        if owner.is_empty() {
            std::mem::swap(spare, &mut *self.input.0.tasks.lock());
            owner.push_all(spare.drain(..));
        }
    }

    /// Returns the number of tasks at some moment during the call, or more if others put some in meanwhile. Takes no lock.
    #[inline]
    pub fn len(&self) -> usize {
        // What was taken first: of a task that is put in and taken out between the two loads, the second alone would be seen.
        let taken = self.output.taken();
        total_order();
        (self.input.0.put.load(Ordering::SeqCst) - taken) as usize
    }

    /// Returns whether there was no task at some moment during the call. `SeqCst`: see the crate's promise to sleepers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
