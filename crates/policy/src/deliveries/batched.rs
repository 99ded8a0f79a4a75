//! `batched`: the receiver is told of `n` messages together, or after a time.

use crate::{ChannelState, Clock, Delivery, DeliverySite, Tell, Time};

/// Tells the receiver when a batch is complete, or when the oldest message of an incomplete one has waited for the bound: what network
/// interfaces call interrupt coalescing.
///
/// If senders cannot set the receiver's timer, the receiver sets it before it sleeps, as long as each wake-up found messages. The first
/// message after a silence is then told at once, because no timer runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batched {
    bound: Time,
    batch: u64,
    sender_arms: bool,
}

impl Batched {
    pub(super) fn new(site: &DeliverySite) -> Batched {
        Batched {
            bound: site.bound.max(1),
            batch: site.batch.clamp(1, site.capacity.max(1)),
            sender_arms: site.sender_arms,
        }
    }
}

impl Delivery for Batched {
    fn sent(&self, channel: &ChannelState, pending: u64, clock: &dyn Clock) -> Tell {
        if pending >= self.batch {
            return Tell::Now;
        }
        let armed = channel.armed();
        Tell::By(armed.unwrap_or_else(|| clock.now().saturating_add(self.bound)))
    }

    fn due(&self, _: &ChannelState, taken: u64, now: Time) -> Option<Time> {
        (taken > 0 && !self.sender_arms).then(|| now.saturating_add(self.bound))
    }
}
