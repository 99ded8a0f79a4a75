//! The deliveries: a file each, and the list of names.
//!
//! A new delivery is one file and one entry of `ALL`.

mod adaptive;
mod batched;
mod immediate;
mod periodic;

use crate::{Delivery, DeliverySite};

/// The delivery of a channel whose user names none.
pub const DEFAULT_DELIVERY: &str = "adaptive";

/// What the registry says of a delivery.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name that every command knows.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether a sleeping receiver is told while there is still headroom in the queue, so that senders that keep their contract never
    /// find it full.
    pub keeps_room: bool,
    /// Whether the timer fires although nothing was ever sent.
    pub ticks_when_idle: bool,
    /// Returns the delivery for a channel.
    pub make: fn(&DeliverySite) -> Box<dyn Delivery>,
}

static ALL: &[Entry] = &[
    Entry {
        name: "immediate",
        summary: "every message is told at once (paper 3)",
        keeps_room: true,
        ticks_when_idle: false,
        make: |_| Box::new(immediate::Immediate),
    },
    Entry {
        name: "periodic",
        summary: "the receiver looks once a period (paper 3)",
        keeps_room: false,
        ticks_when_idle: true,
        make: |site| Box::new(periodic::Periodic::new(site)),
    },
    Entry {
        name: "batched",
        summary: "n messages are told together, or what has come after a time",
        keeps_room: false,
        ticks_when_idle: false,
        make: |site| Box::new(batched::Batched::new(site)),
    },
    Entry {
        name: "adaptive",
        summary: "told at once while messages are sparse, once a bound while they are dense",
        keeps_room: true,
        ticks_when_idle: false,
        make: |site| Box::new(adaptive::Adaptive::new(site)),
    },
];

/// Returns all deliveries; the one that tells every message first.
pub fn all() -> &'static [Entry] {
    ALL
}

/// No delivery has this name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownDelivery {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Debug for UnknownDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for UnknownDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
        let (name, names) = (&self.name, names.join(", "));
        write!(f, "unknown delivery \"{name}\"; the deliveries are {names}")
    }
}

impl std::error::Error for UnknownDelivery {}

/// Returns the delivery called `name`.
///
/// # Errors
/// If there is none; the error's text lists the registered names.
pub fn find(name: &str) -> Result<&'static Entry, UnknownDelivery> {
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownDelivery {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChannelState, Tell, Time};

    fn site(bound: Time, capacity: u64, sender_arms: bool) -> DeliverySite {
        DeliverySite {
            sender_arms,
            ..DeliverySite::new(bound, capacity)
        }
    }

    fn made(name: &str, site: &DeliverySite) -> Box<dyn Delivery> {
        (find(name).expect("it is there").make)(site)
    }

    #[test]
    fn names_are_unique_and_a_wrong_one_is_answered_with_them() {
        for (i, entry) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != entry.name));
            assert_eq!(find(entry.name).expect("it is there").name, entry.name);
        }
        assert!(find(DEFAULT_DELIVERY).is_ok());
        let text = find("adaptiv").unwrap_err().to_string();
        assert!(ALL.iter().all(|entry| text.contains(entry.name)), "{text}");
    }

    #[test]
    fn immediate_tells_each() {
        let (delivery, channel) = (made("immediate", &site(10, 4, true)), ChannelState::new());
        assert_eq!(delivery.sent(&channel, 1, &|| 5), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 1, 6), None);
    }

    #[test]
    fn periodic_looks_at_multiples_of_its_period() {
        let (delivery, channel) = (made("periodic", &site(10, 4, false)), ChannelState::new());
        assert_eq!(delivery.sent(&channel, 1, &|| 5), Tell::By(10));
        assert_eq!(channel.rest(&*delivery, 0, 10), Some(20));
        assert_eq!(delivery.sent(&channel, 4, &|| 15), Tell::By(20));
        let far = made("periodic", &site(Time::MAX / 2, 4, false));
        let late = far.sent(&ChannelState::new(), 1, &|| Time::MAX - 1);
        assert_eq!(late, Tell::By(Time::MAX), "no overflow");
    }

    #[test]
    fn batched_waits_for_the_batch_or_the_time() {
        let mut four = site(10, 16, true);
        let (delivery, channel) = (made("batched", &four), ChannelState::new());
        assert_eq!(delivery.sent(&channel, 1, &|| 5), Tell::By(15));
        channel.arm(Some(15));
        assert_eq!(delivery.sent(&channel, 3, &|| 9), Tell::By(15));
        assert_eq!(delivery.sent(&channel, 4, &|| 9), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 4, 11), None);
        four.sender_arms = false;
        let delivery = made("batched", &four);
        assert_eq!(channel.rest(&*delivery, 1, 11), Some(21));
        assert_eq!(channel.rest(&*delivery, 0, 21), None);
    }

    #[test]
    fn adaptive_changes_with_hysteresis() {
        let (delivery, channel) = (made("adaptive", &site(10, 8, false)), ChannelState::new());
        // The first message, and each that comes more than half a bound after the last, is told.
        assert_eq!(channel.rest(&*delivery, 0, 0), None);
        assert_eq!(delivery.sent(&channel, 1, &|| 1), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 1, 2), None);
        assert_eq!(delivery.sent(&channel, 1, &|| 8), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 1, 8), None);
        // Half a bound later: dense. A timer runs from now on, and nothing is told until half of the queue is full.
        assert_eq!(delivery.sent(&channel, 1, &|| 13), Tell::By(23));
        assert_eq!(channel.rest(&*delivery, 1, 13), Some(23));
        assert_eq!(delivery.sent(&channel, 3, &|| 14), Tell::By(23));
        assert_eq!(delivery.sent(&channel, 4, &|| 14), Tell::Now);
        // It stays dense at one message a bound, and becomes sparse when the timer fires in vain.
        assert_eq!(channel.rest(&*delivery, 1, 23), Some(33));
        assert_eq!(channel.rest(&*delivery, 0, 33), None);
        assert_eq!(delivery.sent(&channel, 1, &|| 34), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 1, 35), None);
    }

    #[test]
    fn adaptive_lets_the_sender_set_the_timer_if_it_can() {
        let (delivery, channel) = (made("adaptive", &site(10, 8, true)), ChannelState::new());
        assert_eq!(delivery.sent(&channel, 1, &|| 1), Tell::Now);
        assert_eq!(channel.rest(&*delivery, 1, 2), None);
        assert_eq!(delivery.sent(&channel, 1, &|| 5), Tell::By(15));
        channel.arm(Some(15));
        assert_eq!(delivery.sent(&channel, 2, &|| 14), Tell::By(15));
        assert_eq!(channel.rest(&*delivery, 3, 15), None);
        // Three messages in thirteen units are dense, until a gap is longer than the bound.
        assert_eq!(delivery.sent(&channel, 1, &|| 25), Tell::By(35));
        assert_eq!(delivery.sent(&channel, 1, &|| 26), Tell::Now);
    }
}
