//! `periodic`: the receiver looks once a period, and is never told.

use crate::{ChannelState, Clock, Delivery, DeliverySite, Tell, Time};

/// The coarse-grain scheme of paper 3: a timer wakes the receiver at every multiple of the period, which is the site's bound.
///
/// A message waits for at most one period. The timer also fires when nothing was sent. The policy does not look at the queue: the period
/// has to be so short that the queue does not fill (paper 3: a double-buffered 2 ms at 14.4 Mbit/s needs 7.2 kB).
#[derive(Clone, Copy, Debug)]
pub(super) struct Periodic {
    period: Time,
}

impl Periodic {
    pub(super) fn new(site: &DeliverySite) -> Periodic {
        Periodic {
            period: site.bound.max(1),
        }
    }

    /// Returns the first multiple of the period after `now`.
    fn next(&self, now: Time) -> Time {
        (now / self.period + 1).saturating_mul(self.period)
    }
}

impl Delivery for Periodic {
    fn sent(&self, channel: &ChannelState, _: u64, clock: &dyn Clock) -> Tell {
        Tell::By(channel.armed().unwrap_or_else(|| self.next(clock.now())))
    }

    fn due(&self, _: &ChannelState, _: u64, now: Time) -> Option<Time> {
        Some(self.next(now))
    }
}
