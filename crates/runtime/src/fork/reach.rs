//! How far below its base a worker keeps forks ([`demand`](super::demand)): as far as keeps them some microseconds apart, whatever the
//! closures do and however large their frames are.
//!
//! What is plain is out of a thief's reach until it ends. So the pieces that are plain shall be short, and kept forks, which cost some ten
//! nanoseconds, shall be rare. A worker looks at the clock when it keeps a fork near its base: if the last look was `LONG` ago, it keeps
//! forks twice as far below the base from now on; if they come closer than `SHORT` on average, half as far. A recursion whose leaves are
//! long keeps all of its forks after some such steps.

use super::demand::{FAR, NEAR};
use std::cell::Cell;

/// A time between two looks that is long, in microseconds.
const LONG: u64 = 20;

/// A mean time between kept forks that is short, in microseconds.
const SHORT: u64 = 1;

/// Forks over which the mean is taken.
const SOME: u32 = 64;

/// The stack address of a base and when it was made, or 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base(usize, u64);

/// What one worker knows of its recursion.
#[derive(Debug)]
pub struct Reach {
    /// Ticks a microsecond, or 0: then the clock decides nothing.
    rate: u64,
    /// The parts of the base: two words that are stored singly and loaded as one would stall the processor.
    base: (Cell<usize>, Cell<u64>),
    /// Bytes of stack below the base in which forks are kept.
    near: Cell<usize>,
    /// When the worker has looked at the clock last.
    last: Cell<u64>,
    /// When it has begun to count.
    since: Cell<u64>,
    /// Forks that it has kept since then.
    count: Cell<u32>,
}

impl Reach {
    /// Returns the state of a worker, which looks at the clock if `timed`.
    pub fn new(timed: bool) -> Self {
        Reach::at(if timed { ticks_a_microsecond() } else { 0 })
    }

    fn at(rate: u64) -> Self {
        Reach {
            rate,
            base: Default::default(),
            near: Cell::new(NEAR),
            last: Cell::new(0),
            since: Cell::new(0),
            count: Cell::new(0),
        }
    }

    /// The worker keeps a fork at the stack address `sp` as its base. Returns the one before.
    #[inline]
    pub(super) fn begin(&self, sp: usize) -> Base {
        self.begin_at(sp, self.now())
    }

    #[inline]
    fn begin_at(&self, sp: usize, now: u64) -> Base {
        self.last.set(now);
        self.replace(Base(sp, now))
    }

    /// The worker has the base `base` from now on. Returns the one before.
    #[inline]
    fn replace(&self, base: Base) -> Base {
        let (sp, begun) = &self.base;
        Base(sp.replace(base.0), begun.replace(base.1))
    }

    /// The worker has no base from now on. Returns the one before.
    #[inline]
    pub(super) fn forget(&self) -> Base {
        self.replace(Base::default())
    }

    /// As [`Reach::forget`], if the base is of no interest.
    #[inline]
    pub fn clear(&self) {
        self.restore(Base::default());
    }

    /// The worker has the base `before` again.
    #[inline]
    pub(super) fn restore(&self, before: Base) {
        self.replace(before);
    }

    /// The first closure of the base has returned, and the one `before` is the base again. Returns the limit that holds then; `None`: the
    /// next fork is to be the base.
    #[inline]
    pub(super) fn end(&self, before: Base) -> Option<usize> {
        let now = if self.rate == 0 || before.0 != 0 {
            0
        } else {
            ticks()
        };
        self.end_at(before, now)
    }

    #[inline]
    fn end_at(&self, before: Base, now: u64) -> Option<usize> {
        let Base(sp, begun) = self.replace(before);
        let was_short = now.wrapping_sub(begun) < SHORT * self.rate;
        match before.0 {
            0 => (sp != 0 && was_short).then_some(sp),
            _ => self.limit(),
        }
    }

    /// Returns the counter of ticks; 0 if the clock decides nothing.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        if self.rate == 0 { 0 } else { ticks() }
    }

    /// Returns whether the worker has a base.
    #[inline]
    pub(super) fn has_base(&self) -> bool {
        self.base.0.get() != 0
    }

    /// Returns the address down to which forks are kept; `None` without a base.
    #[inline]
    pub(super) fn limit(&self) -> Option<usize> {
        let sp = self.base.0.get();
        (sp != 0).then(|| sp.saturating_sub(self.near.get()).max(1))
    }

    /// The worker keeps a fork near its base. Returns the limit, if it is another one now.
    #[inline]
    pub(super) fn keep(&self) -> Option<usize> {
        match self.rate {
            0 => None,
            _ => self.keep_at(ticks()),
        }
    }

    #[inline]
    fn keep_at(&self, now: u64) -> Option<usize> {
        let (gap, near) = (now.wrapping_sub(self.last.replace(now)), self.near.get());
        let count = self.count.get() + 1;
        self.count.set(count);
        // Ticks of two processors may differ: what seems to lie in the future is no long time.
        if gap >= LONG * self.rate && gap < u64::MAX / 2 {
            return self.change(now, (near * 2).min(FAR));
        }
        if count < SOME {
            return None;
        }
        let all = now.wrapping_sub(self.since.get());
        let near = match all < u64::from(SOME) * SHORT * self.rate {
            true => (near / 2).max(NEAR),
            false => near,
        };
        self.change(now, near)
    }

    #[cold]
    fn change(&self, now: u64, near: usize) -> Option<usize> {
        self.count.set(0);
        self.since.set(now);
        match self.near.replace(near) == near {
            true => None,
            false => self.limit(),
        }
    }
}

/// Returns the number of ticks a microsecond, roughly; 0 if there is no counter that costs little.
fn ticks_a_microsecond() -> u64 {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let hertz: u64;
        // SAFETY: only reads a register that programs may read.
        unsafe {
            std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
        }
        (hertz / 1_000_000).max(1)
    }
    // Of the order of all processors.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        2_500
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

/// Returns the counter of ticks; 0 if there is none.
#[inline]
fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: the instruction has no precondition in programs, which may use it unless the system forbids them to.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: only reads a register that programs may read.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const SP: usize = 1 << 20;

    #[test]
    fn long_pieces_bring_all_forks_into_reach() {
        let reach = Reach::at(1_000);
        reach.begin(SP);
        let mut now = reach.last.get();
        let mut limits = Vec::new();
        for _ in 0..100 {
            now = now.wrapping_add(30_000);
            limits.extend(reach.keep_at(now));
        }
        assert_eq!(limits[0], SP - 2 * NEAR);
        assert_eq!(*limits.last().expect("some"), SP - FAR);
    }

    #[test]
    fn short_pieces_leave_few_forks_kept() {
        let reach = Reach::at(1_000);
        reach.begin(SP);
        reach.near.set(FAR);
        let mut now = reach.last.get();
        for _ in 0..100 * SOME {
            now = now.wrapping_add(100);
            reach.keep_at(now);
        }
        assert_eq!(reach.near.get(), NEAR);
    }

    #[test]
    fn pieces_of_a_middle_length_change_nothing() {
        let reach = Reach::at(1_000);
        reach.begin(SP);
        reach.near.set(4 * NEAR);
        let mut now = reach.last.get();
        for _ in 0..100 * SOME {
            now = now.wrapping_add(5_000);
            assert_eq!(reach.keep_at(now), None);
        }
    }

    #[test]
    fn a_clock_that_goes_back_is_no_long_time() {
        let reach = Reach::at(1_000);
        reach.begin(SP);
        reach.last.set(1_000_000);
        assert_eq!(reach.keep_at(10), None);
        assert_eq!(reach.near.get(), NEAR);
    }

    #[test]
    fn a_base_ends_with_the_one_before() {
        let reach = Reach::at(1_000);
        let none = reach.begin_at(SP, 0);
        let outer = reach.begin_at(SP / 2, 10);
        assert_eq!(reach.limit(), Some(SP / 2 - NEAR));
        assert_eq!(reach.end_at(outer, 0), Some(SP - NEAR));
        assert_eq!(reach.end_at(none, 5_000), None);
        assert!(!reach.has_base());
    }

    #[test]
    fn below_a_base_that_was_short_forks_are_plain() {
        let reach = Reach::at(1_000);
        let none = reach.begin_at(SP, 7_000);
        assert_eq!(reach.end_at(none, 7_500), Some(SP));
        assert!(!reach.has_base());
    }

    #[test]
    fn without_a_clock_nothing_changes() {
        let reach = Reach::new(false);
        let none = reach.begin(SP);
        assert_eq!(reach.limit(), Some(SP - NEAR));
        assert_eq!(reach.keep(), None);
        assert_eq!(reach.end(none), None);
    }
}
