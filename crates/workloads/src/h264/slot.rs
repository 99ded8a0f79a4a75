//! Where the tasks of a picture find its job and the frames to show, without a lock, a reference count or an allocation a task.
//!
//! A slot is used in rounds. A round begins with [`Slot::set`], in the entropy task of a picture; the picture's reconstruction tasks call
//! [`Slot::job`], its output task [`Slot::frames`]; it ends with [`Slot::clear`], in the output task. The task graph orders them:
//! reconstruction tasks are registered by the build task, which waits for nothing that could come before `set`; the output task waits for
//! all of them, and for a count that the build task resolves when it needs the job no more; and the entropy task that uses the slot next
//! waits for that output task. The graph layer makes writes of a task visible to all tasks that wait for it. A flag, checked at each of the
//! four, catches most graphs that break this order; it cannot see a reference that is still held.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tanada_h264::{Frame, Job};

/// The job of the picture that is on its way in this slot.
#[derive(Default)]
pub(super) struct Slot {
    full: AtomicBool,
    job: UnsafeCell<Option<Arc<Job>>>,
    /// Shown by the output task; the memory is used again.
    frames: UnsafeCell<Vec<Arc<Frame>>>,
}

// SAFETY: `set` and `clear` are ordered before and after all calls of `job` and `frames` by the task graph, as the module says; `Arc`s of
// jobs and frames may go from thread to thread.
unsafe impl Sync for Slot {}

impl Slot {
    /// Begins a round, without a job when the stream has ended.
    pub(super) fn set(&self, job: Option<Arc<Job>>, frames: impl Iterator<Item = Arc<Frame>>) {
        assert!(
            !self.full.swap(true, Ordering::AcqRel),
            "the slot is in use"
        );
        // SAFETY: no task of the last round is left, and none of this round has begun (module).
        unsafe {
            *self.job.get() = job;
            (*self.frames.get()).extend(frames);
        }
    }

    /// Returns the job of this round.
    #[inline]
    pub(super) fn job(&self) -> &Job {
        assert!(self.full.load(Ordering::Relaxed), "the slot is empty");
        // SAFETY: no task writes between `set` and `clear`, and this is between them (module).
        unsafe { (*self.job.get()).as_ref() }.expect("the slot is full")
    }

    /// Returns the frames to show; for the output task, of which a round has one.
    pub(super) fn frames(&self) -> &[Arc<Frame>] {
        assert!(self.full.load(Ordering::Relaxed), "the slot is empty");
        // SAFETY: as in `job`.
        unsafe { &*self.frames.get() }
    }

    /// Ends a round.
    pub(super) fn clear(&self) {
        assert!(self.full.load(Ordering::Relaxed), "the slot is empty");
        // SAFETY: all tasks of the round that read have ended (module).
        unsafe {
            *self.job.get() = None;
            (*self.frames.get()).clear();
        }
        // Behind the changes, so that `set` does not begin before they are made.
        self.full.store(false, Ordering::Release);
    }
}
