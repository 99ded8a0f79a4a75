//! What a channel is made of.

use super::channel::{Channel, Settings};
use super::error::ChannelError;
use std::time::Duration;
use tanada_policy::DeliverySite;
use tanada_policy::deliveries::{self, DEFAULT_DELIVERY};

/// A channel that is being described.
#[derive(Clone, Debug)]
#[must_use = "a channel exists only once it is built"]
pub struct ChannelBuilder {
    capacity: u64,
    senders: usize,
    payload: u32,
    delivery: String,
    bound: Duration,
    headroom: Option<u64>,
    batch: Option<u64>,
    spin: u32,
}

impl Default for ChannelBuilder {
    fn default() -> Self {
        ChannelBuilder {
            capacity: 1024,
            senders: 1,
            payload: 0,
            delivery: DEFAULT_DELIVERY.to_owned(),
            bound: Duration::from_millis(1),
            headroom: None,
            batch: None,
            // Some microseconds of pauses and then four turns for other threads: the rule of crossbeam's channels.
            spin: 11,
        }
    }
}

impl ChannelBuilder {
    /// Sets the number of messages for which each lane has room, by default 1024. It is rounded up to a power of two.
    pub fn capacity(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    /// Sets how many senders there can be at once, by default 1.
    pub fn senders(mut self, senders: usize) -> Self {
        self.senders = senders;
        self
    }

    /// Sets the most bytes of a payload, by default 0. Each slot has room for them.
    pub fn payload(mut self, bytes: u32) -> Self {
        self.payload = bytes;
        self
    }

    /// Sets the delivery by name, by default `adaptive`: `tanada policies` lists them.
    pub fn delivery(mut self, name: &str) -> Self {
        name.clone_into(&mut self.delivery);
        self
    }

    /// Sets the longest time from a message to the moment at which the receiver is told, by default 1 ms. It is the period of `periodic`.
    pub fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Sets how many messages must still fit into a lane when the receiver is told: as many as its sender sends while the receiver wakes up
    /// and empties it. By default half of the capacity.
    pub fn headroom(mut self, messages: u64) -> Self {
        self.headroom = Some(messages);
        self
    }

    /// Sets how many messages of a lane `batched` waits for, by default a quarter of the capacity.
    pub fn batch(mut self, messages: u64) -> Self {
        self.batch = Some(messages);
        self
    }

    /// Sets how many rounds a receiver that has no timer looks before it sleeps: round n pauses 2^n times, from the eighth on it lets other
    /// threads run. By default 11. 0: it sleeps at once. `u32::MAX`: it never sleeps, whatever the delivery, and no sender that waits for
    /// room does. Nobody is told of anything then, so a message costs least.
    pub fn spin(mut self, rounds: u32) -> Self {
        self.spin = rounds;
        self
    }

    fn settings(&self) -> Result<Settings, ChannelError> {
        let bound =
            u64::try_from(self.bound.as_nanos()).map_err(|_| ChannelError::Limit("bound"))?;
        let capacity = self
            .capacity
            .checked_next_power_of_two()
            .ok_or(ChannelError::Limit("capacity"))?;
        let usual = DeliverySite::new(bound, capacity);
        let site = DeliverySite {
            headroom: self.headroom.unwrap_or(usual.headroom),
            batch: self.batch.unwrap_or(usual.batch),
            ..usual
        };
        // `DeliverySite::new` makes ones of zeros.
        if self.capacity == 0 {
            return Err(ChannelError::Limit("capacity"));
        }
        if bound == 0 {
            return Err(ChannelError::Limit("bound"));
        }
        let delivery = deliveries::find(&self.delivery).map_err(ChannelError::Delivery)?;
        Settings::new(delivery, site, self.payload, self.senders, self.spin)
    }

    /// Returns a channel for the threads of this process.
    ///
    /// # Errors
    /// If the delivery's name is wrong, or a number is 0 or too large.
    pub fn build(self) -> Result<Channel, ChannelError> {
        Ok(Channel::in_process(self.settings()?))
    }

    /// Returns a channel that other processes can open.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if the system has no memory or descriptors left.
    #[cfg(not(shuttle))]
    pub fn build_shared(self) -> Result<Channel, ChannelError> {
        Channel::shared(self.settings()?)
    }
}
