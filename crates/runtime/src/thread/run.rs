//! How a worker runs threads, a slice each: until the thread ends, waits or lets others run.

use super::leave::{MORE_TURNS, TURNS};
use super::record::{Header, Left, parts};
use super::stack;
use super::switch::{Place, switch};
use crate::fork::reach::Base;
use crate::graph::GraphCore;
use crate::worker::WorkerCore;
use std::sync::atomic::Ordering::Relaxed;
use tanada_policy::Origin;
use tanada_queues::Ready;
use tanada_queues::sync::atomic::AtomicUsize;

/// After each `SLICES` slices a worker looks whether there is something else to do than threads.
pub(super) const SLICES: u32 = 64;

/// After `MOST_SLICES` slices a worker searches, even if there seemed to be nothing else.
pub(super) const MOST_SLICES: u32 = 1024;

/// What a worker runs threads on top of.
struct Around<'a> {
    base: Base,
    limit: &'a AtomicUsize,
    current: Option<&'static Header>,
    under: Place,
    graph: *const GraphCore,
}

impl WorkerCore {
    /// Runs a thread until it gives this worker back, and does what is to be done then. Returns whether it has ended.
    ///
    /// `owner` is whether the caller has the thread's handle.
    #[inline(always)]
    pub(super) fn run_thread(&self, right: Ready, owner: bool) -> bool {
        let around = self.begin_slices();
        // The caller waits for this thread only.
        let turns = self.threads.replace_turns((0, 0));
        let ended = self.run_slice(&around, right, owner);
        self.threads.replace_turns(turns);
        self.end_slices(around);
        ended
    }

    /// Puts away what this worker knows of the task or thread that it runs, because it is about to run threads on top of it.
    #[inline(always)]
    fn begin_slices(&self) -> Around<'_> {
        let (demand, reach) = (&self.pool().forks.demand, &self.forks.reach);
        let graph = self.graph.running();
        self.graph.run(std::ptr::null());
        Around {
            // Addresses of another stack say nothing of this one.
            base: demand.enter_job(self.id.index(), reach),
            limit: demand.limit(self.id.index()),
            current: self.threads.current.get(),
            under: self.threads.under.get(),
            graph,
        }
    }

    /// Undoes [`WorkerCore::begin_slices`].
    #[inline(always)]
    fn end_slices(&self, around: Around<'_>) {
        let (demand, reach) = (&self.pool().forks.demand, &self.forks.reach);
        self.graph.run(around.graph);
        self.threads.under.set(around.under);
        demand.leave_job(self.id.index(), around.base, reach);
    }

    /// As [`WorkerCore::run_thread`], of one of several, between [`WorkerCore::begin_slices`] and [`WorkerCore::end_slices`], and of those
    /// that it takes turns with.
    #[inline(always)]
    fn run_slice(&self, around: &Around<'_>, right: Ready, owner: bool) -> bool {
        let first = Header::of(&right);
        if self.graph.held.is_some() {
            self.settle();
        }
        first.goes_to(self);
        // SAFETY: the right is used up hereby.
        let (thread, left) = unsafe {
            let _ = right;
            match self.forks.sees_slices {
                false => self.resume(first),
                true => self.resume_seen(first),
            }
        };
        debug_assert!(
            !owner || std::ptr::eq(first, thread),
            "no turns are left to it"
        );
        // This worker is on top of what it was on top of before. Whatever forks the thread has left on its stack, nothing is known of them
        // here.
        self.threads.current.set(around.current);
        self.graph.run(std::ptr::null());
        around.limit.store(0, Relaxed);
        self.forks.reach.clear();
        self.has_left(thread, left, owner)
    }

    /// Goes on with a thread until one gives this worker back. Returns that one, and why it has left.
    ///
    /// # Safety
    /// The right to run the thread is used up hereby, and the thread is this worker's.
    #[inline(always)]
    unsafe fn resume(&self, thread: &'static Header) -> (&'static Header, Left) {
        self.threads.current.set(Some(thread));
        self.graph.run(thread.graph.get());
        #[cfg(sanitized)]
        let left = super::sanitized::leaves(thread.place.get());
        // SAFETY: the thread has left or is new, and nobody else goes on with it, since there was a right.
        let word = unsafe { switch(&raw const self.threads.under, thread.place.get(), 0) };
        #[cfg(sanitized)]
        left.comes_back();
        let (thread, why) = parts(word);
        thread.graph.set(self.graph.running());
        (thread, why)
    }

    /// As [`WorkerCore::resume`], if the fork layer [sees slices](crate::fork::ForkLocal::sees_slices). A profile of forks sees each slice
    /// as a job: what a suspended closure does later is not part of it. A fork policy sees how deep each fork of the thread is.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn resume_seen(&self, thread: &'static Header) -> (&'static Header, Left) {
        let lane = self.forks.lane.as_ref();
        let interrupted = lane.map(|lane| (lane, lane.job_begins(Origin::Own)));
        let around = self.forks.change_depth(u32::from(thread.depth.get()));
        // SAFETY: the caller's contract.
        let (thread, left) = unsafe { self.resume(thread) };
        let depth = self.forks.change_depth(around);
        thread.depth.set(depth.try_into().unwrap_or(u16::MAX));
        if let Some((lane, interrupted)) = interrupted {
            lane.job_ends(interrupted);
        }
        (thread, left)
    }

    /// Runs threads, `first` first, until this worker has none or has to look for something else.
    pub(crate) fn run_threads(&self, first: Ready) {
        self.run_threads_until(first, None::<fn() -> bool>);
    }

    /// As [`WorkerCore::run_threads`], or until `until` returns true.
    pub(super) fn run_threads_until(&self, first: Ready, until: Option<impl Fn() -> bool>) {
        if !self.threads.signals.replace(true) {
            stack::ensure_signal_stack();
        }
        let around = self.begin_slices();
        // What a task waits for, a profile and a fork policy see each slice. What a scheduler of the program's own has for this worker,
        // only the loop sees.
        let (turns, more) = match until.is_some() || self.forks.sees_slices {
            true => (0, 0),
            false if self.pool().threads.scheduler.is_some() => (TURNS, 0),
            false => (TURNS, MORE_TURNS),
        };
        let before = self.threads.replace_turns((turns, more));
        let (mut next, mut slices) = (Some(first), 0);
        while let Some(right) = next.take() {
            self.threads.replace_turns((turns, more));
            self.run_slice(&around, right, false);
            let (left, more_left) = self.threads.replace_turns((0, 0));
            let turn = (1 + turns - left + (more - more_left) * TURNS).cast_unsigned();
            let looked = slices / SLICES;
            slices += turn;
            let look = slices / SLICES != looked;
            if self.pool().is_disturbed()
                || until.as_ref().is_some_and(|until| until())
                || (look && (slices >= MOST_SLICES || self.may_have_other()))
            {
                self.end_if_forked();
                break;
            }
            next = self.own_thread_after(turn);
        }
        self.threads.replace_turns(before);
        self.end_slices(around);
    }

    /// Returns whether there may be something else to do for this worker than to run threads.
    pub(super) fn may_have_other(&self) -> bool {
        self.pool().forks.may_have(self.id.index()) || self.may_have_tasks()
    }
}
