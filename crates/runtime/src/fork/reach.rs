//! How far below its base a worker keeps forks ([`demand`](super::demand)): as far as keeps them some microseconds apart, whatever the
//! closures do and however large their frames are.
//!
//! What is plain is out of a thief's reach until it ends. So the pieces that are plain shall be short, and kept forks, which cost some ten
//! nanoseconds, shall be rare. A worker looks at the clock when it keeps a fork near its base: if the last look was `LONG` ago, it keeps
//! forks twice as far below the base from now on; if they come closer than `SHORT` on average, half as far. A recursion whose leaves are
//! long keeps all of its forks after some such steps.
//!
//! # A worker's own share
//! Under a policy that divides the workers, others come for a worker's forks only when they have ended their own shares, which end at about
//! the same time. Until then a kept fork is of no use. So inside of a branch of one worker forks are kept next to the base only, and the
//! time between them changes nothing. A worker that has ended its share asks as any hungry one does, and all forks are kept while it does.
//!
//! # Many kept forks
//! A recursion that is deep on one side has to keep all of its forks ([`demand`](super::demand)): they pile up in the deque while it goes
//! down. One that goes down and up again, deep in an unbalanced tree, keeps many as well, but the next ones *churn*: the worker takes them
//! back as fast as it makes them, and each costs ten times what a plain one does. So a worker looks at its deque once in `SOME` forks that
//! it keeps while many lie there. If the deque has not grown, and the forks were short, the next ones have bases as others do, until
//! the worker makes `DESCENT` bases one below the other.

use super::demand::{FAR, NEAR};
use std::cell::Cell;

/// A time between two looks that is long, in microseconds.
const LONG: u64 = 20;

/// A mean time between kept forks that is short, in microseconds.
const SHORT: u64 = 1;

/// Forks over which the mean is taken.
const SOME: u32 = 64;

/// Bases that a worker makes one below the other, after which its recursion counts as deep on one side.
const DESCENT: u32 = 4;

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
    /// Whether it is `NEAR` for now, whatever `near` says.
    narrow: Cell<bool>,
    /// When the worker has looked at the clock last.
    last: Cell<u64>,
    /// When it has begun to count.
    since: Cell<u64>,
    /// Forks that it has kept since then.
    count: Cell<u32>,
    many: Many,
}

/// What a worker knows of forks that it keeps while many lie in its deque.
#[derive(Debug, Default)]
struct Many {
    /// Whether such forks came and went, the last time that this was looked at.
    churn: Cell<bool>,
    /// Forks since then.
    count: Cell<u32>,
    /// Forks in the deque then, and the ticks.
    then: Cell<(usize, u64)>,
    /// Bases that were made since the last one ended.
    descent: Cell<u32>,
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
            narrow: Cell::new(false),
            last: Cell::new(0),
            since: Cell::new(0),
            count: Cell::new(0),
            many: Many::default(),
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
        let many = &self.many;
        many.descent.set(many.descent.get() + 1);
        if many.descent.get() > DESCENT {
            many.churn.set(false);
        }
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
        self.many.descent.set(0);
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

    /// Returns the counter of ticks, and how many there are in a microsecond; `None` if the clock decides nothing.
    #[inline]
    pub(super) fn clock(&self) -> Option<(u64, u64)> {
        (self.rate != 0).then(|| (ticks(), self.rate))
    }

    /// Returns the whole microseconds since the counter of ticks was `then`; `None` if the clock decides nothing.
    #[inline]
    pub(super) fn micros_since(&self, then: u64) -> Option<u64> {
        let ticks = self.now().wrapping_sub(then);
        ticks.checked_div(self.rate)
    }

    /// Returns whether the worker has a base.
    #[inline]
    pub(super) fn has_base(&self) -> bool {
        self.base.0.get() != 0
    }

    /// Returns the address down to which forks are kept; `None` without a base.
    #[inline]
    pub(super) fn limit(&self) -> Option<usize> {
        let (sp, near) = (self.base.0.get(), self.near.get());
        let near = if self.narrow.get() { NEAR } else { near };
        (sp != 0).then(|| sp.saturating_sub(near).max(1))
    }

    /// The worker begins a closure whose forks are [its own](self#a-workers-own-share) if `is_narrow`, else another one.
    #[inline]
    pub(super) fn set_narrow(&self, is_narrow: bool) {
        self.narrow.set(is_narrow);
    }

    /// The worker keeps a fork near its base. Returns the limit, if it is another one now.
    #[inline]
    pub(super) fn keep(&self) -> Option<usize> {
        match self.rate {
            0 => None,
            _ if self.narrow.get() => None,
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

    /// The worker keeps a fork while many lie in its deque: `kept`, this one among them. Returns whether it may be a base.
    #[inline]
    pub(super) fn churns(&self, kept: usize) -> bool {
        let many = &self.many;
        let count = many.count.get() + 1;
        many.count.set(count);
        if self.rate != 0 && count >= SOME {
            self.look_at_many(kept, ticks());
        }
        many.churn.get()
    }

    #[cold]
    fn look_at_many(&self, kept: usize, now: u64) {
        let many = &self.many;
        let (before, then) = many.then.replace((kept, now));
        let is_short = now.wrapping_sub(then) < u64::from(SOME) * SHORT * self.rate;
        let has_grown = kept > before + SOME as usize / 4;
        many.churn.set(is_short && !has_grown);
        many.count.set(0);
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

    /// Keeps `SOME` forks while many lie in the deque, each a tenth of a microsecond after the one before. `kept` is the deque's length.
    fn keep_many(reach: &Reach, now: &mut u64, kept: impl Fn(u32) -> usize) -> bool {
        for fork in 1..SOME {
            reach.churns(kept(fork));
        }
        *now += u64::from(SOME) * 100;
        reach.look_at_many(kept(SOME), *now);
        reach.many.churn.get()
    }

    #[test]
    fn forks_that_come_and_go_are_bases_though_many_are_kept() {
        // The clock of the real calls is out of reach.
        let (reach, mut now) = (Reach::at(u64::MAX >> 20), 1);
        reach.many.then.set((100, now));
        assert!(keep_many(&reach, &mut now, |fork| 100 + fork as usize % 8));
    }

    #[test]
    fn a_recursion_that_goes_down_keeps_its_forks() {
        let (reach, mut now) = (Reach::at(u64::MAX >> 20), 1);
        reach.many.then.set((100, now));
        assert!(!keep_many(&reach, &mut now, |fork| 100 + fork as usize));
        // It turns, and goes down once more.
        assert!(keep_many(&reach, &mut now, |_| 100 + SOME as usize));
        (0..DESCENT).for_each(|level| _ = reach.begin_at(SP - level as usize * NEAR, now));
        assert!(reach.many.churn.get());
        reach.begin_at(SP / 2, now);
        assert!(!reach.many.churn.get());
    }

    #[test]
    fn long_pieces_are_kept_though_they_come_and_go() {
        let reach = Reach::at(1_000);
        reach.many.then.set((100, 1));
        reach.look_at_many(100, 1 + u64::from(SOME) * SHORT * 1_000);
        assert!(!reach.many.churn.get());
        reach.look_at_many(100, 1 + u64::from(SOME) * SHORT * 1_000 + 10);
        assert!(reach.many.churn.get());
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
