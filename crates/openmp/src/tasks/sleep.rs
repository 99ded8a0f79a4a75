//! How threads of a team wait for tasks.

use super::futex;
use super::sync::{AtomicU32, Line, Ordering, total_order};

/// Rounds in which a thread that found nothing spins before it yields its processor, and rounds in which it yields before it sleeps: about
/// 20 us, and then 200 us if no other thread wants the processor.
const SPINS: u32 = 100;
const YIELDS: u32 = 400;

/// The longest that a thread sleeps without looking; at a barrier, times the threads that share a processor.
const NAP_NS: i64 = 500_000;

/// What a thread waits for that sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// At a barrier: for any task, and for the barrier to open.
    Barrier = 1,
    /// In a task: for children or predecessors to end, and for tasks below it.
    Children = 2,
}

/// The threads of a team that sleep.
pub(super) struct Sleep {
    /// How many of each kind.
    sleepers: Line<[AtomicU32; 2]>,
    /// Changes with each wake-up; what the threads sleep on.
    calls: AtomicU32,
    /// Whether a thread of each kind was woken and has not looked yet. (Only swapped: loom has no total order of stores and swaps.)
    waking: [AtomicU32; 2],
    crowded: bool,
    nap_ns: i64,
}

impl Sleep {
    /// Returns what `threads` threads need on so many processors.
    pub(super) fn new(threads: u16, processors: usize) -> Sleep {
        let threads = usize::from(threads);
        Sleep {
            sleepers: Line::default(),
            calls: AtomicU32::new(0),
            waking: Default::default(),
            crowded: threads > processors,
            nap_ns: NAP_NS * (threads / processors).max(1) as i64,
        }
    }

    /// Returns whether there are more threads than processors.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    fn spins(&self) -> (u32, u32) {
        if self.crowded {
            (4, 20)
        } else {
            (SPINS, YIELDS)
        }
    }

    /// Waits a while; longer the larger `idle` is, which counts the rounds in which nothing was found. A thread sleeps only if `nothing`
    /// still returns true after it said that it is about to.
    pub(super) fn pause(&self, idle: &mut u32, what: For, nothing: impl Fn() -> bool) {
        *idle += 1;
        let (spins, yields) = self.spins();
        if *idle < spins {
            for _ in 0..(*idle).min(12) {
                std::hint::spin_loop();
            }
        } else if *idle < spins + yields {
            std::thread::yield_now();
        } else {
            self.sleep(what, nothing);
        }
    }

    /// Returns whether a thread that found nothing `idle` times has slept.
    #[inline]
    pub(super) fn has_slept(&self, idle: u32) -> bool {
        let (spins, yields) = self.spins();
        idle >= spins + yields
    }

    #[cold]
    pub(super) fn sleep(&self, what: For, nothing: impl Fn() -> bool) {
        let kind = what as usize - 1;
        self.sleepers.0[kind].fetch_add(1, Ordering::SeqCst);
        total_order();
        let calls = self.calls.load(Ordering::SeqCst);
        // A thread that took the last sleeper, who was about to leave, for one to wake has left this behind, and nobody would be woken any
        // more. Who sets it after this calls after this, too, which ends the sleep that begins here.
        self.waking[kind].swap(0, Ordering::SeqCst);
        total_order();
        if nothing() {
            let nap = match what {
                For::Barrier => self.nap_ns,
                For::Children => NAP_NS,
            };
            futex::wait(&self.calls, calls, what as u32, nap);
        }
        self.waking[kind].swap(0, Ordering::SeqCst);
        self.sleepers.0[kind].fetch_sub(1, Ordering::SeqCst);
        total_order();
    }

    fn has(&self, what: For) -> bool {
        total_order();
        self.sleepers.0[what as usize - 1].load(Ordering::SeqCst) > 0
    }

    /// Wakes a thread, because a task became ready: one at a barrier, which may take any, if there is one.
    #[inline]
    pub(super) fn wake(&self) {
        if self.has(For::Barrier) {
            self.wake_one(For::Barrier);
        } else if self.has(For::Children) {
            self.wake_one(For::Children);
        }
    }

    #[cold]
    fn wake_one(&self, what: For) {
        if self.waking[what as usize - 1].swap(1, Ordering::SeqCst) == 0 {
            self.call(1, what as u32);
        }
    }

    /// Wakes the threads that wait in a task, because what one waits for may have come.
    #[inline]
    pub(super) fn wake_waiting(&self) {
        if self.has(For::Children) {
            self.call(i32::MAX, For::Children as u32);
        }
    }

    /// Wakes all threads.
    #[inline]
    pub(super) fn wake_all(&self) {
        if self.has(For::Barrier) || self.has(For::Children) {
            self.call(i32::MAX, For::Barrier as u32 | For::Children as u32);
        }
    }

    #[cold]
    fn call(&self, threads: i32, mask: u32) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.calls, threads, mask);
    }
}
