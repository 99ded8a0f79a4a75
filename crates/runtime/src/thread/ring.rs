//! The threads of one worker that are ready and stay with it.

use super::record::Header;
use std::cell::Cell;
use tanada_queues::Ready;

/// Threads of one worker, which alone touches them and is noted in them, in the order in which they became ready: a list through their
/// headers, of which the last one's word says nothing. They are tied to the worker, but for those that a waiting thread has found or
/// stolen and put first.
#[derive(Default)]
pub(super) struct Ring {
    pub(super) first: Cell<Option<&'static Header>>,
    /// Says nothing if there is no first one.
    last: Cell<Option<&'static Header>>,
    pub(super) len: Cell<usize>,
}

impl Ring {
    #[inline]
    pub(super) fn push_back(&self, right: Ready) {
        let thread = Header::of(&right);
        self.len.set(self.len.get() + 1);
        let last = self.last.replace(Some(thread));
        match (self.first.get(), last) {
            (Some(_), Some(last)) => last.next.set(Some(thread)),
            _ => self.first.set(Some(thread)),
        }
    }

    pub(super) fn push_front(&self, right: Ready) {
        let thread = Header::of(&right);
        self.len.set(self.len.get() + 1);
        let before = self.first.replace(Some(thread));
        thread.next.set(before);
        if before.is_none() {
            self.last.set(Some(thread));
        }
    }

    /// Puts `thread`, whose right is used up, behind all others, and takes the first of these, whose right is used up thereby. Returns
    /// `None`, and does nothing, if there is none.
    #[inline(always)]
    pub(super) fn take_turns(&self, thread: &'static Header) -> Option<&'static Header> {
        let next = self.first.get()?;
        match self.last.replace(Some(thread)) {
            Some(last) if !std::ptr::eq(last, next) => {
                last.next.set(Some(thread));
                self.first.set(next.next.get());
            }
            // Two threads take turns, and nothing has to be read that was just written.
            _ => self.first.set(Some(thread)),
        }
        Some(next)
    }

    #[inline]
    pub(super) fn pop_front(&self) -> Option<Ready> {
        let thread = self.first.get()?;
        self.len.set(self.len.get() - 1);
        let is_last = self
            .last
            .get()
            .is_some_and(|last| std::ptr::eq(last, thread));
        self.first
            .set(if is_last { None } else { thread.next.get() });
        // SAFETY: the right was used up when the thread was put here, and the thread is not parked.
        Some(unsafe { thread.ready() })
    }
}
