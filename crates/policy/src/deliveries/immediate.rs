//! `immediate`: every message is told at once.

use crate::{ChannelState, Clock, Delivery, Tell, Time};

/// The fine-grain scheme of paper 3: one interrupt, or wake-up, for each message that finds the receiver asleep.
///
/// It has the least latency that a sleeping receiver can have. The price, in the paper a third of the receiver's time, is a handler, a
/// switch and the cache lines of both for each message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Immediate;

impl Delivery for Immediate {
    fn sent(&self, _: &ChannelState, _: u64, _: &dyn Clock) -> Tell {
        Tell::Now
    }

    fn due(&self, _: &ChannelState, _: u64, _: Time) -> Option<Time> {
        None
    }
}
