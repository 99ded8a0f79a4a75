//! The clock of channels: nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine read alike.

use std::time::Instant;
use tanada_policy::Time;

/// Returns the present moment.
#[cfg(not(shuttle))]
pub(super) fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns a moment after that of every earlier call: time is what the model makes of it.
#[cfg(shuttle)]
pub(super) fn now() -> Time {
    static TICKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    TICKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Returns the moment of `deadline` on this clock.
pub(super) fn moment(deadline: Instant) -> Time {
    let left = deadline.saturating_duration_since(Instant::now());
    now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns `time` as the kernel takes it.
#[cfg(not(shuttle))]
pub(super) fn timespec(time: Time) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: (time / 1_000_000_000) as i64,
        tv_nsec: (time % 1_000_000_000) as _,
    }
}
