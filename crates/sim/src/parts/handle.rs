//! Handles: the words that represent ready tasks.

use tanada_policy::Ready;

/// Returns the word for the task of this index, whose dependency count is zero.
///
/// Private to the crate and called in one place, [`Dispatching::becomes_ready`](crate::parts::dispatching::Dispatching), where a count
/// reaches zero or began with it.
pub(crate) fn ready(task: u32, digest: u16) -> Ready {
    // SAFETY: the handle is an index into a table: nothing is dereferenced through it. It names a task of this engine that is ready, and
    // only one word is made for it, since its dependency count reaches zero once. That each comes back once is the policy's duty, which
    // `Ready` being neither `Copy` nor `Clone` enforces.
    unsafe { Ready::new(u64::from(task) + 1, digest) }
}

/// Returns the index of the task of a handle; `None` for a handle of another engine that no task here can have.
pub(crate) fn index(ready: &Ready) -> Option<u32> {
    match ready.address() {
        None => u32::try_from(ready.handle() - 1).ok(),
        Some(_) => None,
    }
}
