//! The clock of a recorder: the processor's counter of time, if the kernel itself keeps time by it.
//!
//! A reading of [`Instant`] takes three times as long as one of the counter, and a recorder reads twice a task. The kernel uses the counter
//! as its clock source only if it runs at one speed in all states of the processor and is the same on all processors. Elsewhere, and on
//! other kinds of processors, the clock is [`Instant`].
//!
//! Readings are *ticks*, which become nanoseconds when the recording is taken: by what the counter and [`Instant`] have gained since the
//! process first recorded. If the machine was suspended meanwhile, times are wrong.

use std::sync::OnceLock;
use std::time::Instant;

/// Reads ticks since it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The counter is read; otherwise a tick is a nanosecond.
    counts: bool,
    zero: u64,
}

/// What both clocks showed when the process first recorded.
struct Base {
    instant: Instant,
    counter: Option<u64>,
}

static BASE: OnceLock<Base> = OnceLock::new();

fn base() -> &'static Base {
    BASE.get_or_init(|| Base {
        counter: counter::is_kernels().then(counter::read),
        instant: Instant::now(),
    })
}

/// The ratio of ticks to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    ns: u64,
    ticks: u64,
}

impl Scale {
    /// Returns `ticks` in nanoseconds.
    pub(super) fn ns(self, ticks: u64) -> u64 {
        (u128::from(ticks) * u128::from(self.ns) / u128::from(self.ticks)) as u64
    }
}

impl Clock {
    /// Returns a clock that shows 0 now.
    pub(super) fn new() -> Clock {
        let counts = base().counter.is_some();
        let mut clock = Clock { counts, zero: 0 };
        clock.zero = clock.now();
        clock
    }

    /// Returns the ticks, read before whatever the caller writes afterwards is seen by others.
    #[inline]
    pub(super) fn now(self) -> u64 {
        let now = match self.counts {
            true => counter::read(),
            false => Self::nanoseconds(),
        };
        now.saturating_sub(self.zero)
    }

    /// Returns the ticks, read after whatever the caller has read before: later than another thread's [`Clock::now`], if the caller has
    /// seen what that thread wrote afterwards.
    #[inline]
    pub(super) fn now_in_order(self) -> u64 {
        let now = match self.counts {
            true => counter::read_in_order(),
            false => Self::nanoseconds(),
        };
        now.saturating_sub(self.zero)
    }

    #[cold]
    fn nanoseconds() -> u64 {
        // 64 bits are enough for 584 years.
        base().instant.elapsed().as_nanos() as u64
    }

    /// Returns the ratio by what both clocks have gained so far.
    pub(super) fn scale(self) -> Scale {
        let base = base();
        let (ns, ticks) = match base.counter {
            Some(first) if self.counts => {
                let ticks = counter::read().saturating_sub(first);
                (base.instant.elapsed().as_nanos() as u64, ticks)
            }
            _ => (1, 1),
        };
        match ticks {
            0 => Scale { ns: 1, ticks: 1 },
            _ => Scale { ns, ticks },
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, __rdtscp, _rdtsc};

    /// Returns whether the kernel keeps time by the counter.
    pub(super) fn is_kernels() -> bool {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(path).is_ok_and(|source| source.trim() == "tsc") && has_rdtscp()
    }

    /// Returns whether the processor, or what emulates it, has the instruction of [`read_in_order`].
    #[allow(unused_unsafe, reason = "later versions of Rust call it safe")]
    fn has_rdtscp() -> bool {
        const LAST: u32 = 0x8000_0000;
        const FEATURES: u32 = 0x8000_0001;
        const RDTSCP: u32 = 1 << 27;
        // SAFETY: every x86-64 processor has the instruction, which has no effect.
        unsafe { __cpuid(LAST).eax >= FEATURES && __cpuid(FEATURES).edx & RDTSCP != 0 }
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: the instruction has no effect. Every x86-64 processor has it, and where it is not allowed the kernel keeps no time by it.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn read_in_order() -> u64 {
        let mut processor = 0;
        // SAFETY: as above; `is_kernels` has found that this processor has the instruction, which writes its number to the variable.
        unsafe { __rdtscp(&raw mut processor) }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod counter {
    pub(super) fn is_kernels() -> bool {
        false
    }
    pub(super) fn read() -> u64 {
        0
    }
    pub(super) fn read_in_order() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_are_nanoseconds_once_they_are_scaled() {
        let clock = Clock::new();
        let (start, begin) = (Instant::now(), clock.now_in_order());
        std::thread::sleep(Duration::from_millis(50));
        let (end, least) = (clock.now(), start.elapsed());
        let scale = clock.scale();
        let (begin, end) = (scale.ns(begin), scale.ns(end));
        let most = start.elapsed().as_nanos() as u64;
        // The two clocks are read one after the other, so the bounds hold but for the error of the ratio.
        let passed = Duration::from_nanos(end - begin);
        assert!(
            passed >= least.mul_f64(0.98) - Duration::from_millis(1),
            "{passed:?} of {least:?}"
        );
        assert!(end - begin <= most + most / 50, "{passed:?} of {most} ns");
    }

    #[test]
    fn times_follow_each_other() {
        let clock = Clock::new();
        let mut last = 0;
        for _ in 0..1000 {
            for now in [clock.now_in_order(), clock.now()] {
                assert!(now >= last);
                last = now;
            }
        }
    }
}
