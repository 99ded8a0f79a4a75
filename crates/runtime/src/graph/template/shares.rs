//! The roots of a run in shares: tasks that are ready at the same time go to the policy as a few items, each of which stands for many.
//!
//! A template may begin with thousands of tasks that wait for nothing. To hand each to the policy, and to ask the policy for each, costs
//! several times what running one does. If the policy treats tasks alike ([`Dispatcher::TREATS_ALIKE`](tanada_policy::Dispatcher)), it gets
//! one *share* for each worker instead. The worker that runs a share takes root after root from its part of the [`Ranges`], and half of
//! what another part has left when its own is empty. So no root waits behind a task that runs as long as a worker idles that could have a
//! share: any of them leads to all roots. A share ends when no part has a root.
//!
//! A share gives way: if a root makes tasks ready beside the one that its worker goes on with, or a worker has to look for something else,
//! the share goes back to the policy behind these tasks, and goes on later, on whichever worker gets it.

use super::room::{NodeKind, Room};
use crate::executable::{DESCRIPTION_AT, Description, Executable, Form, Header};
use crate::worker::WorkerCore;
use std::marker::PhantomData;
use std::ptr::NonNull;
use tanada_policy::{Hints, Ready};
use tanada_queues::Ranges;

/// The fewest roots of a share. With fewer for each worker, roots go to the policy one by one.
const FEWEST: usize = 16;

/// The shares of one room.
pub(super) struct Shares<'env, A> {
    shares: Box<[Share<'env, A>]>,
    ranges: Ranges,
}

/// What the policy holds instead of roots. In the header, `long` is the number of the part that it owns.
#[repr(C, align(64))]
struct Share<'env, A> {
    header: Header,
    room: NonNull<Room<'env, A>>,
    description: OwnLine<Description>,
}

/// A value on a cache line of its own.
#[repr(align(64))]
struct OwnLine<T>(T);

const _: () = assert!(std::mem::offset_of!(Share<'static, ()>, description) == DESCRIPTION_AT);

impl<A> Default for Shares<'_, A> {
    fn default() -> Self {
        Shares {
            shares: Box::default(),
            ranges: Ranges::default(),
        }
    }
}

impl<'env, A> Shares<'env, A> {
    /// Returns how many shares a run with `roots` roots on `workers` workers has; 0: its roots go to the policy one by one.
    pub(super) fn wanted(workers: usize, roots: usize) -> usize {
        workers.min(roots / FEWEST)
    }

    /// Returns `number` shares of the roots of `room`.
    pub(super) fn new(room: NonNull<Room<'env, A>>, number: usize) -> Self {
        let kind = &ShareKind::<A>::KIND;
        let share = |part| Share {
            header: Header::new(kind, Form::Beside, &Hints::default(), 0, part),
            room,
            description: OwnLine(Description {
                name: "roots",
                index: part.into(),
                hints: Hints::default(),
            }),
        };
        Shares {
            shares: (0..number as u32).map(share).collect(),
            ranges: Ranges::new(number),
        }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.shares.len()
    }

    /// Deals `roots` roots out to the first `number` shares, of which none is in use.
    pub(super) fn deal(&self, number: usize, roots: usize) {
        self.ranges.deal(number, roots as u32);
    }

    /// Calls `release` with the rights to run the first `number` shares. Touches nothing after the last call.
    ///
    /// # Safety
    /// The shares have been dealt out for a run that goes on until each has ended, and this is called once for that run.
    pub(super) unsafe fn release(&self, number: usize, mut release: impl FnMut(Ready)) {
        for share in &self.shares[..number] {
            // SAFETY: a pointer to the whole share, which stays until it has ended (caller); the only right for this run.
            release(unsafe { Header::ready(NonNull::from(share).cast()) });
        }
    }

    /// Takes and returns the place among the roots of the next root for the worker that runs share `part`.
    #[inline]
    fn take(&self, part: u32) -> Option<usize> {
        Some(self.ranges.take(part as usize)? as usize)
    }
}

/// The kind of the shares of instances whose runs take an `A`.
struct ShareKind<A>(PhantomData<A>);

impl<A> Executable for ShareKind<A> {
    /// There are none in a pool that is observed.
    const OBSERVED: bool = false;

    /// Runs roots, and ends the share if there are no more, or leaves it among the released tasks.
    unsafe fn run_body(header: NonNull<Header>, worker: &WorkerCore) {
        // SAFETY: the header is the first field of a share, whose room goes on with the share's run.
        let (this, part) = unsafe {
            (
                header.cast::<Share<'_, A>>().as_ref().room,
                header.as_ref().long,
            )
        };
        // SAFETY: as above.
        let (room, graph) = unsafe { (this.as_ref(), NodeKind::enter(this, worker)) };
        worker.graph.run(graph);
        let mut sinks = 0;
        loop {
            let Some(at) = room.shares.take(part) else {
                worker.graph.run(std::ptr::null());
                // SAFETY: these sinks have ended and were not counted, and the share ends here.
                return unsafe { Room::share_ended(this, sinks, worker) };
            };
            let root = NonNull::from(room.root(at));
            // SAFETY: a root is ready from the start, and taken once. The run is not over before this share has ended.
            let held = unsafe { NodeKind::run_chain::<false, false>(root, this, graph, worker) };
            sinks += usize::from(held);
            if !worker.released.borrow().is_empty() || worker.pool().is_disturbed() {
                break;
            }
        }
        worker.graph.run(std::ptr::null());
        // SAFETY: this right to run the share is used up, so the new one is the only one.
        worker
            .released
            .borrow_mut()
            .push(unsafe { Header::ready(header) });
        if sinks > 0 {
            // SAFETY: these sinks have ended and were not counted. The run goes on, since the share does.
            unsafe { Room::hold(this, sinks, worker) };
        }
    }

    unsafe fn finish(_header: NonNull<Header>, _worker: &WorkerCore) {}
}
