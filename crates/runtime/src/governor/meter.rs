//! What one worker counts for the governor.

use super::shared::Governed;
use std::cell::Cell;
use std::sync::Arc;

/// The most tasks from one look at the clock to the next. A look takes some 25 ns, so this makes it less than a nanosecond a task.
const STRIDE_MAX: u32 = 64;

/// The looks at the clock that a worker aims at in each period.
const LOOKS: u64 = 16;

/// What one worker counts. `()` counts nothing and costs nothing.
pub trait Meter: Send + 'static {
    /// Whether the worker can be inactive, and the other functions are called.
    const GOVERNS: bool;

    /// A task has ended on this worker. Returns the time if the governor is due.
    fn ended(&self) -> Option<u64>;

    /// The dispatcher had no task for this worker, or the worker is not active. Further calls until `found` change nothing.
    fn ran_out(&self);

    /// The worker is going to run a task.
    fn found(&self);
}

impl Meter for () {
    const GOVERNS: bool = false;

    #[inline(always)]
    fn ended(&self) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn ran_out(&self) {}

    #[inline(always)]
    fn found(&self) {}
}

/// The meter of a worker whose pool has a governor. Times are nanoseconds since the pool was made.
pub struct Metered {
    governed: Arc<Governed>,
    me: usize,
    /// Tasks that ended here.
    work: Cell<u64>,
    /// Tasks until the next look at the clock, at least 1.
    left: Cell<u32>,
    stride: Cell<u32>,
    /// The time of the last look.
    looked: Cell<u64>,
    /// Since when the worker has no task.
    idle_since: Cell<Option<u64>>,
    /// The sum of idle times that are over.
    idle: Cell<u64>,
}

impl Metered {
    pub(super) fn new(governed: Arc<Governed>, me: usize) -> Self {
        Metered {
            governed,
            me,
            work: Cell::new(0),
            left: Cell::new(1),
            stride: Cell::new(1),
            looked: Cell::new(0),
            idle_since: Cell::new(Some(0)),
            idle: Cell::new(0),
        }
    }

    #[inline(never)]
    fn look(&self) -> Option<u64> {
        let now = self.governed.now();
        let took = now.saturating_sub(self.looked.replace(now));
        let aim = self.governed.period() / LOOKS;
        let stride = next_stride(self.stride.get(), took, aim);
        self.stride.set(stride);
        self.left.set(stride);
        self.governed.is_due(now).then_some(now)
    }
}

/// Returns the number of tasks until the next look at the clock, if the last `stride` tasks took `took` and looks are to be `aim` apart.
fn next_stride(stride: u32, took: u64, aim: u64) -> u32 {
    if took > aim {
        let fewer = u128::from(stride) * u128::from(aim) / u128::from(took);
        (fewer as u32).max(1) // less than `stride`
    } else {
        (stride * 2).min(STRIDE_MAX)
    }
}

impl Meter for Metered {
    const GOVERNS: bool = true;

    #[inline]
    fn ended(&self) -> Option<u64> {
        let work = self.work.get() + 1;
        self.work.set(work);
        self.governed.publish_work(self.me, work);
        let left = self.left.get() - 1;
        if left > 0 {
            self.left.set(left);
            return None;
        }
        self.look()
    }

    fn ran_out(&self) {
        if self.idle_since.get().is_none() {
            let now = self.governed.now();
            self.idle_since.set(Some(now));
            self.governed.begin_idle(self.me, now);
        }
    }

    #[inline]
    fn found(&self) {
        if let Some(since) = self.idle_since.take() {
            let now = self.governed.now();
            let idle = self.idle.get() + now.saturating_sub(since);
            self.idle.set(idle);
            self.governed.end_idle(self.me, now, idle);
            self.looked.set(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_clock_follow_the_length_of_tasks() {
        let looks = |mut stride, task: u64| {
            for _ in 0..10 {
                stride = next_stride(stride, u64::from(stride) * task, 1000);
            }
            stride
        };
        assert_eq!(looks(1, 10), STRIDE_MAX);
        assert_eq!(looks(STRIDE_MAX, 5000), 1);
        assert!((5..=20).contains(&looks(1, 100)));
        assert_eq!(next_stride(STRIDE_MAX, u64::MAX, 1), 1);
        assert_eq!(next_stride(1, 0, 0), 2);
    }
}
