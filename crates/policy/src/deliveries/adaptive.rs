//! `adaptive`: told at once while messages are sparse, once a bound while they are dense.

use crate::{ChannelState, Clock, Delivery, DeliverySite, Tell, Time};

/// The mark of a channel whose messages are dense; 0 means sparse.
const DENSE: u64 = 1;

/// Answers the question that paper 3 leaves open: immediate's latency when messages are sparse, periodic's cost when they are dense.
///
/// **Rule.** A *gap* is the time since the receiver last emptied the queue, divided by the number of messages since. Messages are dense
/// if the gap is at most half of the bound; once dense, they stay so while it is at most the bound (hysteresis). Above the bound a timer
/// could not put two messages together.
/// - A sender whose message is sparse tells the receiver now. If messages are dense, the receiver looks at the latest one bound after the
///   first message that it has not been told of: one timer for all that come until then.
/// - A sender also tells the receiver as soon as no more than `headroom` messages fit into the queue. So periods are as long as the bound
///   and the buffer allow.
/// - If senders cannot set the receiver's timer, the receiver sets it before it sleeps while messages are dense. One timer then fires in
///   vain after the last dense message, and the channel is sparse again. An engine whose timers are late may set it earlier, by less than
///   half of the bound ([leeway](Delivery::leeway)).
///
/// **Theorem.** Let the engine keep what [`Delivery`] says. A message's *time* is the moment at which its sender calls
/// [`sent`](Delivery::sent), or finds the receiver awake. A *reaction* lasts from a telling or a timer until the receiver has found the
/// queue empty and sleeps again.
/// 1. *Bound.* The receiver is told of each message, or looks by itself, at most `bound` after the message's time.
/// 2. *Room.* If senders send at most `headroom` messages during a reaction, the one that was answered [`Tell::Now`] among them (their
///    contract), the queue never holds more than `capacity` messages, so no message finds it full.
/// 3. *Cost.* The receiver wakes up at most once a message if senders set its timer, otherwise at most 3/2 times a message.
///
/// **Proof.**
/// 1. If the receiver is awake at the message's time, it looks before it sleeps. Otherwise `sent` answers one of three. `Now`: told at
///    once. `By(now + bound)`: at most `bound` later, which the engine keeps. `By(armed)`: the timer was set by `due` when the receiver
///    went to sleep, or by the `By` of an earlier message of this sleep. Both set it to at most `bound` after a moment that is not after
///    this message's time, whether or not an engine makes use of the leeway.
/// 2. Let F be `capacity - headroom`, but at least 1. The message with which a sleeping receiver's queue holds F messages is answered
///    `Now`. So if a timer begins the reaction, fewer than F messages are there, and at most `headroom` come. If a message begins it, F -
///    1 were there before it, and at most `headroom` come, this one among them. Both sums are at most `capacity`, and when the reaction
///    ends the queue is empty.
/// 3. If senders set the timer, each wake-up is caused by a message that is still in the queue, and takes it. Otherwise a *vain* wake-up,
///    which takes no message, is that of a timer that `due` set because messages were dense, and makes the channel sparse. Between two
///    vain wake-ups, and before the first, at least two messages are taken: let the channel become dense again by the wake-up W. If
///    another wake-up took messages since the vain one, those and W's are two. If none did, the time that W divides by its messages
///    reaches back across the vain wake-up and the timer before that, which even an engine that uses the leeway has set to more than half
///    of the bound. So it is longer than half of the bound, and W took two messages or more for a gap of at most that. Before the
///    first wake-up that takes messages no gap is known, and the channel is sparse. So there is at most one vain wake-up for two
///    messages.
///
/// Latency is that of the engine's timers and wake-ups: what the machine adds to them (its jitter) comes on top of the bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive {
    bound: Time,
    /// As many pending messages are told at once.
    full: u64,
    sender_arms: bool,
}

impl Adaptive {
    pub(super) fn new(site: &DeliverySite) -> Adaptive {
        Adaptive {
            bound: site.bound.max(1),
            full: site.capacity.saturating_sub(site.headroom).max(1),
            sender_arms: site.sender_arms,
        }
    }

    /// Returns whether `messages`, the last of them at `now`, are dense, after the receiver has last emptied the queue as `channel` says.
    fn is_dense(&self, channel: &ChannelState, messages: u64, now: Time) -> bool {
        let Some(rested) = channel.rested() else {
            return false;
        };
        let limit = match channel.mark() {
            DENSE => self.bound,
            _ => self.bound / 2,
        };
        now.saturating_sub(rested) <= limit.saturating_mul(messages)
    }
}

impl Delivery for Adaptive {
    fn sent(&self, channel: &ChannelState, pending: u64, clock: &dyn Clock) -> Tell {
        if pending >= self.full {
            return Tell::Now;
        }
        if let Some(armed) = channel.armed() {
            return Tell::By(armed);
        }
        let now = clock.now();
        match self.is_dense(channel, pending.max(1), now) {
            true => Tell::By(now.saturating_add(self.bound)),
            false => Tell::Now,
        }
    }

    fn due(&self, channel: &ChannelState, taken: u64, now: Time) -> Option<Time> {
        let dense = taken > 0 && self.is_dense(channel, taken, now);
        channel.set_mark(if dense { DENSE } else { 0 });
        (dense && !self.sender_arms).then(|| now.saturating_add(self.bound))
    }

    fn leeway(&self) -> Time {
        (self.bound - 1) / 2
    }
}
