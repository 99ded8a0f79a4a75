//! The list of the tasks that wait for one task, in four words.

use super::node::NodeRef;
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most tasks that are stored in place.
const FEW: usize = 3;

/// What [`Waiting::number`] is if the last place holds a list of all tasks from there on.
const MANY: u8 = FEW as u8 + 1;

/// The tasks that wait for a task, and whether that has a body.
pub(super) struct Waiting {
    /// How many are stored in place, or [`MANY`]. Its lock is that of `places`.
    number: Mutex<u8>,
    /// Whether the node holds a body that was not taken. Not read by two threads at the same time.
    body: AtomicBool,
    /// The first [`Waiting::number`] are written.
    places: UnsafeCell<[MaybeUninit<Place>; FEW]>,
}

// SAFETY: `places` is used under the lock of `number` only.
unsafe impl Sync for Waiting {}
// SAFETY: it owns its list, and a `NodeRef` is `Send`.
unsafe impl Send for Waiting {}

/// A place of the list.
#[derive(Clone, Copy)]
union Place {
    one: NodeRef,
    /// From `Box::into_raw`.
    rest: *mut Vec<NodeRef>,
}

const _: () = assert!(size_of::<Waiting>() == 8 + 8 * FEW);

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            number: Mutex::new(0),
            body: AtomicBool::new(false),
            places: UnsafeCell::new([MaybeUninit::uninit(); FEW]),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let taken = self.lock().take();
        // SAFETY: no other thread uses the list.
        unsafe { self.each(taken, |_| ()) };
    }
}

impl Waiting {
    /// A body was stored in the node.
    #[inline]
    pub(super) fn fill(&self) {
        self.body.store(true, Ordering::Relaxed);
    }

    /// Takes the body. Returns whether there was one.
    #[inline]
    pub(super) fn take_body(&self) -> bool {
        // No swap: one thread at a time does this, as the runs of the node's tasks follow each other.
        let there = self.body.load(Ordering::Relaxed);
        self.body.store(false, Ordering::Relaxed);
        there
    }

    /// Calls `each` with each task that was taken, in the order in which they began to wait.
    ///
    /// # Safety
    /// They were taken out of this list, and no thread has added any since.
    #[inline]
    pub(super) unsafe fn each(&self, Taken(number): Taken, mut each: impl FnMut(NodeRef)) {
        if number == 0 {
            return;
        }
        // SAFETY: so many places are written, and nobody writes them (caller); who looks at the list meanwhile finds it empty.
        let places = unsafe { &*self.places.get() };
        // SAFETY: as above; the last one is what `number` says.
        let one = |place: &MaybeUninit<Place>| unsafe { place.assume_init().one };
        if number < MANY {
            return (places[..usize::from(number)].iter()).for_each(|place| each(one(place)));
        }
        places[..FEW - 1].iter().for_each(|place| each(one(place)));
        // SAFETY: as above; from `Box::into_raw`, and freed once, since the list was taken once.
        let rest = unsafe { Box::from_raw(places[FEW - 1].assume_init().rest) };
        rest.into_iter().for_each(each);
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

/// The locked list of the tasks that wait for a task.
pub(crate) struct WaitingTasks<'a> {
    number: MutexGuard<'a, u8>,
    places: &'a UnsafeCell<[MaybeUninit<Place>; FEW]>,
}

impl WaitingTasks<'_> {
    /// Adds a task. Allocates if it is the fourth, and once in a while behind that.
    #[inline]
    pub(super) fn push(&mut self, task: NodeRef) {
        // SAFETY: the list is locked.
        let places = unsafe { &mut *self.places.get() };
        if let Some(place) = places.get_mut(usize::from(*self.number)) {
            place.write(Place { one: task });
            *self.number += 1;
            return;
        }
        self.push_to_many(task);
    }

    #[cold]
    fn push_to_many(&mut self, task: NodeRef) {
        // SAFETY: the list is locked, and all places are written. The last one is what `number` says.
        unsafe {
            let last = (*self.places.get())[FEW - 1].assume_init_mut();
            if *self.number == MANY {
                return (*last.rest).push(task);
            }
            let rest = Box::new(vec![last.one, task]);
            last.rest = Box::into_raw(rest);
        }
        *self.number = MANY;
    }

    /// Empties the list. What was in it stays where it is, for one call of [`Waiting::each`].
    #[inline]
    pub(super) fn take(&mut self) -> Taken {
        Taken(std::mem::take(&mut *self.number))
    }

    /// Returns a copy of the list.
    pub(crate) fn to_vec(&self) -> Vec<NodeRef> {
        let mut tasks = Vec::new();
        // SAFETY: the list is locked; so many places are written, and the last one is what `number` says.
        unsafe {
            let places = &*self.places.get();
            let few = usize::from(*self.number).min(FEW);
            let ones = few - usize::from(*self.number == MANY);
            tasks.extend(places[..ones].iter().map(|place| place.assume_init().one));
            if *self.number == MANY {
                tasks.extend(&*places[FEW - 1].assume_init().rest);
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
    fn tasks_come_out_in_their_order() {
        let slab = Slab::default();
        let tasks: Vec<_> = (0..20).map(|_| slab.take_one()).collect();
        let waiting = Waiting::default();
        for number in 0..tasks.len() {
            for task in &tasks[..number] {
                waiting.lock().push(*task);
            }
            assert_eq!(waiting.lock().to_vec(), tasks[..number]);
            let (taken, mut seen) = (waiting.lock().take(), Vec::new());
            // SAFETY: no other thread uses the list.
            unsafe { waiting.each(taken, |task| seen.push(task)) };
            assert_eq!(seen, tasks[..number]);
            assert_eq!(waiting.lock().to_vec(), []);
        }
        // What is left is freed with the list.
        tasks.iter().for_each(|task| waiting.lock().push(*task));
    }

    #[test]
    fn a_body_is_taken_once() {
        let waiting = Waiting::default();
        assert!(!waiting.take_body());
        waiting.fill();
        assert!(waiting.take_body() && !waiting.take_body());
    }
}
