//! The list of the tasks that wait for one task, in four words; if it is longer, in [blocks](Block).

use super::node::NodeRef;
use crate::executable::Block;
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The most tasks that are stored in place.
const FEW: usize = 3;

/// What [`Waiting::number`] is if all tasks are in blocks.
const MANY: u8 = FEW as u8 + 1;

/// Tasks in a block. Its last word is the node of the next block.
const IN_BLOCK: usize = size_of::<Block>() / size_of::<NodeRef>() - 1;

/// The tasks that wait for a task, and whether that has a body.
#[repr(C)]
pub(super) struct Waiting {
    /// How many are stored in place, or [`MANY`]. Its lock is that of `places`.
    number: Mutex<u8>,
    /// Whether the node holds a body that was not taken. Not read by two threads at the same time.
    body: AtomicBool,
    /// The first word is written by [`Waiting::set_first`] only: the worker that runs the task looks at it without the lock.
    places: UnsafeCell<Places>,
}

/// Where the places are in [`Waiting`].
pub(super) const PLACES_AT: usize = std::mem::offset_of!(Waiting, places);

// SAFETY: `places` is used under the lock of `number` only; or by the one thread that holds the node, if that is free or has ended.
unsafe impl Sync for Waiting {}
// SAFETY: a `NodeRef` is `Send`.
unsafe impl Send for Waiting {}

/// What [`Waiting::number`] says that it is.
#[repr(C)]
#[derive(Clone, Copy)]
union Places {
    /// As many as there are are written.
    few: [MaybeUninit<NodeRef>; FEW],
    many: Many,
}

/// A list in blocks.
#[repr(C)]
#[derive(Clone, Copy)]
struct Many {
    /// Whose blocks hold the first tasks and the last ones.
    first: NodeRef,
    last: NodeRef,
    /// How many tasks there are.
    number: usize,
}

const _: () = assert!(size_of::<Waiting>() == 8 + 8 * FEW && PLACES_AT == 8);

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            number: Mutex::new(0),
            body: AtomicBool::new(false),
            places: UnsafeCell::new(Places {
                few: [MaybeUninit::uninit(); FEW],
            }),
        }
    }
}

impl Waiting {
    /// A body was stored in the node.
    ///
    /// # Safety
    /// The node is free and this thread's.
    #[inline]
    pub(super) unsafe fn fill(&self) {
        self.body.store(true, Ordering::Relaxed);
        // SAFETY: no other thread uses the places of a free node (caller).
        unsafe { Self::set_first(&self.places, None) };
    }

    /// Stores the first word of the places: the first task, or the node of the first block.
    ///
    /// # Safety
    /// The list is locked, or its node is free and this thread's.
    #[inline]
    unsafe fn set_first(places: &UnsafeCell<Places>, first: Option<NodeRef>) {
        let first = first.map_or(std::ptr::null_mut(), |node| node.0.as_ptr());
        // SAFETY: the first word of both kinds of places; other threads load it as an atomic meanwhile, if at all (caller).
        unsafe { AtomicPtr::from_ptr(places.get().cast()).store(first, Ordering::Relaxed) };
    }

    /// Returns the first task, or the node of the first block, if there was one a moment ago: what the end of the task will touch first.
    ///
    /// # Safety
    /// The node is filled, and its task does not end during this call.
    #[inline]
    pub(super) unsafe fn first(&self) -> Option<NodeRef> {
        // SAFETY: `fill` has written the first word, and until the task ends it is written as an atomic only.
        let first =
            unsafe { AtomicPtr::from_ptr(self.places.get().cast()).load(Ordering::Relaxed) };
        NonNull::new(first).map(NodeRef)
    }

    /// Takes the body. Returns whether there was one.
    #[inline]
    pub(super) fn take_body(&self) -> bool {
        // No swap: one thread at a time does this, as the runs of the node's tasks follow each other.
        let there = self.body.load(Ordering::Relaxed);
        self.body.store(false, Ordering::Relaxed);
        there
    }

    /// Calls `each` with each task that was taken, in the order in which they began to wait, and `free` with the node of each block that
    /// the list had, which the list does not use any more.
    ///
    /// # Safety
    /// They were taken out of this list, and no thread has added any since.
    #[inline]
    pub(super) unsafe fn each(
        &self,
        Taken(number): Taken,
        mut each: impl FnMut(NodeRef),
        free: impl FnMut(NodeRef),
    ) {
        if number == 0 {
            return;
        }
        // SAFETY: nobody writes the places (caller): who looks at the list meanwhile finds it empty. They are what `number` says.
        unsafe {
            let places = self.places.get().cast_const();
            if number == MANY {
                return (*places).many.take(each, free);
            }
            let few = &(&(*places).few)[..usize::from(number)];
            // The first one is needed at once, or was prefetched.
            few.iter()
                .skip(1)
                .for_each(|task| task.assume_init().prefetch_count());
            few.iter().for_each(|task| each(task.assume_init()));
        }
    }

    /// Locks and returns the list.
    #[inline]
    pub(super) fn lock(&self) -> WaitingTasks<'_> {
        WaitingTasks {
            number: self.number.lock(),
            places: &self.places,
        }
    }
}

impl Many {
    /// Returns the place of task number `at` of a block, or, behind the last task, of the next block's node.
    ///
    /// # Safety
    /// `block` is the node of a block of a list, and `at` at most [`IN_BLOCK`].
    #[inline]
    unsafe fn place(block: NodeRef, at: usize) -> *mut NodeRef {
        // SAFETY: inside of the block.
        unsafe { block.block().as_ptr().cast::<NodeRef>().add(at) }
    }

    /// Adds a task. Does not touch the first word.
    ///
    /// # Safety
    /// `this` is of a list that is locked. A node that `take` returns is free and this thread's.
    unsafe fn push(this: *mut Self, task: NodeRef, take: impl FnOnce() -> NodeRef) {
        // SAFETY: these words and the blocks are the list's, which is locked (caller).
        unsafe {
            let (last, number) = (&raw mut (*this).last, &raw mut (*this).number);
            let at = *number % IN_BLOCK;
            if at == 0 && *number > 0 {
                let next = take();
                Self::place(*last, IN_BLOCK).write(next);
                *last = next;
            }
            Self::place(*last, at).write(task);
            *number += 1;
        }
    }

    /// Calls `each` with each task in their order, and `free` with each block's node behind its last use.
    ///
    /// # Safety
    /// No thread changes the list meanwhile, or uses what `free` has been called with.
    #[cold]
    unsafe fn take(self, mut each: impl FnMut(NodeRef), mut free: impl FnMut(NodeRef)) {
        let (mut block, mut left) = (self.first, self.number);
        loop {
            let here = left.min(IN_BLOCK);
            left -= here;
            // What is done with each task takes a locked instruction, which waits for all loads before it: without the prefetches, the
            // tasks and blocks would be loaded one by one.
            // SAFETY: so many places of the block are written, and the one of the next block if there are more tasks.
            let next = unsafe {
                let next = (left > 0).then(|| Self::place(block, IN_BLOCK).read());
                if let Some(next) = next {
                    next.prefetch();
                }
                (0..here).for_each(|at| Self::place(block, at).read().prefetch_count());
                (0..here).for_each(|at| each(Self::place(block, at).read()));
                next
            };
            free(block);
            match next {
                Some(next) => block = next,
                None => return,
            }
        }
    }
}

/// The locked list of the tasks that wait for a task.
pub(crate) struct WaitingTasks<'a> {
    number: MutexGuard<'a, u8>,
    places: &'a UnsafeCell<Places>,
}

impl WaitingTasks<'_> {
    /// Adds a task. Takes a node for the fourth, and one more for each eight.
    ///
    /// # Safety
    /// A node that `take` returns is free and this thread's.
    #[inline]
    pub(super) unsafe fn push(&mut self, task: NodeRef, take: impl FnOnce() -> NodeRef) {
        let number = usize::from(*self.number);
        if number < FEW {
            // SAFETY: the list is locked, and its places hold few tasks.
            unsafe {
                match number {
                    0 => Waiting::set_first(self.places, Some(task)),
                    _ => {
                        let place = self.places.get().cast::<NodeRef>().add(number);
                        place.write(task);
                    }
                }
            }
            *self.number += 1;
        } else {
            // SAFETY: as the caller says.
            unsafe { self.push_to_many(task, take) };
        }
    }

    /// As [`WaitingTasks::push`], if the places are full.
    #[cold]
    unsafe fn push_to_many(&mut self, task: NodeRef, take: impl FnOnce() -> NodeRef) {
        // SAFETY: the list is locked, and its places are what `number` says; else as the caller says.
        unsafe {
            let many = self.places.get().cast::<Many>();
            if *self.number == MANY {
                return Many::push(many, task, take);
            }
            let (few, block) = ((*self.places.get()).few, take());
            Waiting::set_first(self.places, Some(block));
            (&raw mut (*many).last).write(block);
            (&raw mut (*many).number).write(0);
            *self.number = MANY;
            for earlier in few {
                Many::push(many, earlier.assume_init(), || block);
            }
            Many::push(many, task, || block);
        }
    }

    /// Empties the list. What was in it stays where it is, for one call of [`Waiting::each`].
    #[inline]
    pub(super) fn take(&mut self) -> Taken {
        Taken(std::mem::take(&mut *self.number))
    }

    /// Returns a copy of the list.
    pub(crate) fn to_vec(&self) -> Vec<NodeRef> {
        let mut tasks = Vec::new();
        // SAFETY: the list is locked, and its places are what `number` says.
        unsafe {
            let places = self.places.get().cast_const();
            match *self.number {
                MANY => (*places).many.take(|task| tasks.push(task), |_| ()),
                few => {
                    let few = &(&(*places).few)[..usize::from(few)];
                    tasks.extend(few.iter().map(|task| task.assume_init()));
                }
            }
        }
        tasks
    }
}

/// The tasks that were taken out of a list.
#[must_use = "they wait for ever unless `Waiting::each` finds them"]
pub(super) struct Taken(u8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::slab::Slab;

    #[test]
    fn tasks_come_out_in_their_order_and_blocks_come_back() {
        let slab = Slab::default();
        let tasks: Vec<_> = (0..40).map(|_| slab.take_one()).collect();
        let waiting = Waiting::default();
        for number in 0..tasks.len() {
            let mut lent = Vec::new();
            for task in &tasks[..number] {
                let take = || {
                    lent.push(slab.take_one());
                    lent[lent.len() - 1]
                };
                // SAFETY: nobody else has the node.
                unsafe { waiting.lock().push(*task, take) };
            }
            let blocks = match number {
                0..=FEW => 0,
                many => many.div_ceil(IN_BLOCK),
            };
            assert_eq!(lent.len(), blocks, "{number} tasks");
            assert_eq!(waiting.lock().to_vec(), tasks[..number]);
            let (taken, mut seen, mut back) = (waiting.lock().take(), Vec::new(), Vec::new());
            // SAFETY: no other thread uses the list.
            unsafe { waiting.each(taken, |task| seen.push(task), |block| back.push(block)) };
            assert_eq!(seen, tasks[..number]);
            assert_eq!(back, lent);
            assert_eq!(waiting.lock().to_vec(), []);
            slab.give_back(&mut back, 0);
        }
    }

    #[test]
    fn a_body_is_taken_once() {
        let waiting = Waiting::default();
        assert!(!waiting.take_body());
        // SAFETY: no other thread uses it.
        unsafe { waiting.fill() };
        assert!(waiting.take_body() && !waiting.take_body());
    }
}
