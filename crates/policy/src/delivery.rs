//! The third policy: when the receiver of a message is told of it (paper 3).

/// What a delivery may know of a channel. Times are the engine's, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// Messages that were sent and that the receiver was not told of.
    pub untold: u64,
    /// When the oldest of them was sent.
    pub oldest_sent: u64,
    /// When the message before the newest one was sent.
    pub previous_sent: Option<u64>,
    /// When the receiver was told last.
    pub last_told: Option<u64>,
}

/// What to do about a message that was just sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Tell the receiver now.
    Tell,
    /// Wait for [`Delivery::due`].
    Wait,
}

/// Decides when the receiver of a message is told of it. Holds constants only: all state is in the channel.
pub trait Delivery: Send + Sync {
    /// A message was sent at `now`.
    fn sent(&self, state: &ChannelState, now: u64) -> Notice;

    /// When the receiver is to be told of what waits, if of anything.
    fn due(&self, state: &ChannelState, now: u64) -> Option<u64>;
}
