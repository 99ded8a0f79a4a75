//! The closures of a template, packed one behind the other.

use super::template::TemplateTask;
use bumpalo::Bump;
use std::ptr::NonNull;

/// What a template's task does.
type DynBody<'env, A> = dyn Fn(&A, TemplateTask) + Send + Sync + 'env;

/// A closure that [`Bodies`] keep.
pub(super) struct Body<'env, A>(NonNull<DynBody<'env, A>>);

impl<A> Clone for Body<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Body<'_, A> {}

// SAFETY: stands for a `&` to a closure that is `Sync`; whoever drops it is `Bodies`, and it is `Send`.
unsafe impl<A> Send for Body<'_, A> {}
// SAFETY: as above.
unsafe impl<A> Sync for Body<'_, A> {}

impl<A> Body<'_, A> {
    /// Calls the closure.
    ///
    /// # Safety
    /// Its [`Bodies`] live.
    #[inline(always)]
    pub(super) unsafe fn call(self, arg: &A, task: TemplateTask) {
        // SAFETY: passed on.
        unsafe { self.0.as_ref()(arg, task) }
    }
}

/// Owns closures. They stay where they are, so a [`Body`] can be called for as long as this lives.
pub(super) struct Bodies<'env, A> {
    memory: Bump,
    /// Those that have something to drop.
    to_drop: Vec<Body<'env, A>>,
}

// SAFETY: the closures are `Send` and `Sync`; `memory` is touched only through `&mut self`.
unsafe impl<A> Send for Bodies<'_, A> {}
// SAFETY: as above: nothing can be done with `&Bodies`.
unsafe impl<A> Sync for Bodies<'_, A> {}

impl<A> Default for Bodies<'_, A> {
    fn default() -> Self {
        Bodies {
            memory: Bump::new(),
            to_drop: Vec::new(),
        }
    }
}

impl<'env, A> Bodies<'env, A> {
    /// Takes a closure in. The pointer is good until these `Bodies` are dropped.
    pub(super) fn add<F>(&mut self, body: F) -> Body<'env, A>
    where
        F: Fn(&A, TemplateTask) + Send + Sync + 'env,
    {
        let body = Body(NonNull::from(self.memory.alloc(body)));
        if std::mem::needs_drop::<F>() {
            self.to_drop.push(body);
        }
        body
    }
}

impl<A> Drop for Bodies<'_, A> {
    fn drop(&mut self) {
        for body in self.to_drop.drain(..) {
            // SAFETY: put there once, by `add`; nobody calls it any more (see the type).
            unsafe { body.0.drop_in_place() };
        }
    }
}
