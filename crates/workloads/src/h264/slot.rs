//! Where the tasks of a picture find its job, without a lock or a reference count a task.
//!
//! A slot is used in rounds. A round begins with [`Slot::set`], in the entropy task of a picture; the picture's reconstruction tasks
//! call [`Slot::job`]; it ends with [`Slot::clear`], in the picture's output task. The task graph orders them: reconstruction tasks are
//! registered by the build task, which waits for nothing that could come before `set`; the output task waits for all of them; and the
//! entropy task that uses the slot next waits for that output task. The graph layer makes writes of a task visible to whoever waits for
//! it. A flag, checked at each of the three, catches a graph that breaks this order before a reference could dangle.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tanada_h264::Job;

/// The job of the picture that is on its way in this slot.
#[derive(Default)]
pub(super) struct Slot {
    full: AtomicBool,
    job: UnsafeCell<Option<Arc<Job>>>,
}

// SAFETY: `set` and `clear` are ordered before and after all calls of `job` by the task graph, as the module says; `Arc<Job>` may go
// from thread to thread.
unsafe impl Sync for Slot {}

impl Slot {
    /// Begins a round.
    pub(super) fn set(&self, job: Arc<Job>) {
        assert!(
            !self.full.swap(true, Ordering::AcqRel),
            "the slot is in use"
        );
        // SAFETY: no task of the last round is left, and none of this round has begun (module).
        unsafe { *self.job.get() = Some(job) };
    }

    /// The job of this round.
    #[inline]
    pub(super) fn job(&self) -> &Job {
        assert!(self.full.load(Ordering::Relaxed), "the slot is empty");
        // SAFETY: nobody writes between `set` and `clear`, and this is between them (module).
        unsafe { (*self.job.get()).as_ref() }.expect("the slot is full")
    }

    /// Ends a round.
    pub(super) fn clear(&self) {
        // SAFETY: all tasks of the round that read have ended (module).
        unsafe { *self.job.get() = None };
        assert!(self.full.swap(false, Ordering::AcqRel), "the slot is empty");
    }
}
