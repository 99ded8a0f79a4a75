//! When the receiver of a message is told that it is there.

use std::fmt::Debug;

use tanada_queues::sync::atomic::{AtomicU64, Ordering};
use tanada_queues::sync::total_order;

/// A moment, in the engine's unit of time: nanoseconds of a monotonic clock, or cycles. Only the order of two moments and the distance
/// between them mean something.
pub type Time = u64;

/// Stands for no moment in the words of a [`ChannelState`].
const NEVER: Time = Time::MAX;

/// Where the engine's time comes from. A policy asks only if its answer depends on it, because reading a clock costs more than the rest
/// of a call.
pub trait Clock {
    /// Returns the present moment. It is not before any moment that the engine passed to the same channel earlier.
    fn now(&self) -> Time;
}

impl<F: Fn() -> Time> Clock for F {
    fn now(&self) -> Time {
        self()
    }
}

/// What a delivery is built from. Every sender of a channel and its receiver build the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverySite {
    /// The latest that a message is told after it was sent, in the engine's unit of time; at least 1. `periodic` has it as its period.
    pub bound: Time,
    /// Messages for which the queue has room; at least 1.
    pub capacity: u64,
    /// Messages for which there must still be room when the receiver is told, from 1 to `capacity`: as many as are sent while it wakes up
    /// and empties the queue.
    pub headroom: u64,
    /// The number of messages that `batched` waits for; at least 1.
    pub batch: u64,
    /// Whether a sender can set the timer that wakes the sleeping receiver, without waking it. If not, the receiver has to set its timer
    /// before it sleeps.
    pub sender_arms: bool,
}

impl DeliverySite {
    /// Returns the site of a channel of `capacity` messages that are told within `bound`: half of the room is headroom, a batch is a
    /// quarter, and the receiver sets its timer by itself. Zeros count as ones.
    #[must_use]
    pub fn new(bound: Time, capacity: u64) -> DeliverySite {
        let capacity = capacity.max(1);
        DeliverySite {
            bound: bound.max(1),
            capacity,
            headroom: capacity.div_ceil(2),
            batch: (capacity / 4).max(1),
            sender_arms: false,
        }
    }
}

/// What a sender does after it has sent a message to a receiver that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// It tells the receiver now.
    Now,
    /// Nothing, if the receiver looks into the queue by itself at this moment or before it. Otherwise the engine sets the receiver's
    /// timer to this moment, or tells the receiver now if it cannot do that.
    By(Time),
}

/// What senders and the receiver of a channel know of each other. Its words may lie in memory that several processes share; the
/// deliveries hold constants only.
///
/// The engine keeps the words up to date by these functions; a policy only reads them, except for [`mark`](Self::mark).
#[derive(Debug)]
#[repr(C)]
pub struct ChannelState {
    armed: AtomicU64,
    rested: AtomicU64,
    mark: AtomicU64,
}

impl Default for ChannelState {
    fn default() -> Self {
        ChannelState::new()
    }
}

impl ChannelState {
    /// Returns the state of a channel whose receiver has taken nothing yet and has no timer.
    pub fn new() -> ChannelState {
        ChannelState {
            armed: AtomicU64::new(NEVER),
            rested: AtomicU64::new(NEVER),
            mark: AtomicU64::new(0),
        }
    }

    /// Makes words that are all 0, as new memory is, those of a [`new`](Self::new) channel.
    pub fn reset(&self) {
        self.mark.store(0, Ordering::Relaxed);
        self.rested.store(NEVER, Ordering::Relaxed);
        self.arm(None);
    }

    /// Returns the moment at which the sleeping receiver looks into the queue even if it is not told; `None` if it sleeps until it is told.
    pub fn armed(&self) -> Option<Time> {
        total_order();
        Some(self.armed.load(Ordering::SeqCst)).filter(|time| *time != NEVER)
    }

    /// Returns the moment at which the receiver last found the queue empty after it had taken messages from it; `None` if it has taken
    /// none yet.
    pub fn rested(&self) -> Option<Time> {
        Some(self.rested.load(Ordering::Relaxed)).filter(|time| *time != NEVER)
    }

    /// Returns the policy's own word, at first 0.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Stores the policy's own word. Only [`Delivery::due`] may do this, because the receiver alone calls it.
    pub fn set_mark(&self, mark: u64) {
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// For a receiver that is about to sleep: it has found the queue empty at `now` and has taken `taken` messages since it last called
    /// this. Asks `delivery` when it has to look again, stores the answer for the senders and returns it.
    ///
    /// The receiver then announces that it sleeps, looks into the queue once more, and sleeps only if the queue is still empty.
    pub fn rest(&self, delivery: &dyn Delivery, taken: u64, now: Time) -> Option<Time> {
        self.rest_early(delivery, taken, now, 0)
    }

    /// As [`rest`](Self::rest), of an engine whose timers fire late, by `lateness` as a rule: the moment comes so much earlier, within the
    /// [leeway](Delivery::leeway) of the delivery.
    pub fn rest_early(
        &self,
        delivery: &dyn Delivery,
        taken: u64,
        now: Time,
        lateness: Time,
    ) -> Option<Time> {
        let early = lateness.min(delivery.leeway());
        let due = delivery.due(self, taken, now);
        let due = due.map(|due| due.saturating_sub(early));
        if taken > 0 {
            self.rested.store(now.min(NEVER - 1), Ordering::Relaxed);
        }
        self.arm(due);
        due
    }

    /// Stores when the receiver's timer wakes it: [`rest`](Self::rest) does this, and a sender that has set the timer after [`Tell::By`].
    pub fn arm(&self, due: Option<Time>) {
        self.armed.store(
            due.map_or(NEVER, |due| due.min(NEVER - 1)),
            Ordering::SeqCst,
        );
        total_order();
    }
}

/// Decides when the receiver of a channel is told of its messages.
///
/// A receiver that is awake is never told: it empties the queue before it sleeps. So an engine asks only while the receiver sleeps and
/// has not been told. What engines do for every delivery:
///
/// - *Sleep.* A receiver that has emptied the queue calls [`ChannelState::rest`] (or [`rest_early`](ChannelState::rest_early), if its
///   timers fire late), announces that it sleeps, looks into the queue again, and sleeps. It wakes up if it is told, and at the moment
///   that `rest` or a sender's [`Tell::By`] has set. After it has woken up it takes all messages.
/// - *Send.* A sender puts its message into the queue, and then, if the receiver has announced that it sleeps, calls
///   [`sent`](Self::sent). Of several senders that are answered [`Tell::Now`], the one that takes the receiver's announcement back tells
///   it.
/// - *Full.* A sender that finds the queue full tells a sleeping receiver whatever the policy answered.
pub trait Delivery: Debug + Send + Sync {
    /// Returns what a sender does that has just sent a message, while the receiver sleeps. `pending` counts the messages in the queue,
    /// this one among them. Cost: a few comparisons, at most one reading of the clock.
    fn sent(&self, channel: &ChannelState, pending: u64, clock: &dyn Clock) -> Tell;

    /// Returns when a receiver that is about to sleep has to look into the queue even if it is not told; `None` for never. It has found
    /// the queue empty at `now` and has taken `taken` messages since the last call. The receiver alone calls this, through
    /// [`ChannelState::rest`].
    fn due(&self, channel: &ChannelState, taken: u64, now: Time) -> Option<Time>;

    /// Returns by how much the receiver may look before the moment of [`due`](Self::due), in an engine whose timers fire late. 0, which
    /// is the default, if the moments themselves matter. Always the same.
    fn leeway(&self) -> Time {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Always(Option<Time>);

    impl Delivery for Always {
        fn sent(&self, _: &ChannelState, _: u64, clock: &dyn Clock) -> Tell {
            Tell::By(clock.now())
        }

        fn due(&self, _: &ChannelState, _: u64, _: Time) -> Option<Time> {
            self.0
        }
    }

    #[test]
    fn rest_stores_what_the_delivery_answers() {
        let channel = ChannelState::new();
        assert_eq!((channel.armed(), channel.rested()), (None, None));
        assert_eq!(channel.rest(&Always(Some(9)), 0, 4), Some(9));
        assert_eq!((channel.armed(), channel.rested()), (Some(9), None));
        assert_eq!(channel.rest(&Always(None), 2, 5), None);
        assert_eq!((channel.armed(), channel.rested()), (None, Some(5)));
        channel.rest(&Always(Some(Time::MAX)), 1, Time::MAX);
        assert_eq!(channel.armed(), Some(Time::MAX - 1));
        assert_eq!(channel.rested(), Some(Time::MAX - 1));
        assert_eq!(Always(None).sent(&channel, 1, &|| 7), Tell::By(7));
        // Without leeway no moment is early.
        assert_eq!(channel.rest_early(&Always(Some(9)), 1, 4, 3), Some(9));
    }

    #[test]
    fn a_site_has_room_whatever_it_is_made_of() {
        for capacity in 0..20 {
            let site = DeliverySite::new(0, capacity);
            assert!(site.bound == 1 && site.capacity == capacity.max(1));
            assert!((1..=site.capacity).contains(&site.headroom), "{site:?}");
            assert!((1..=site.capacity).contains(&site.batch), "{site:?}");
        }
    }
}
