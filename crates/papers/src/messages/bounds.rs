//! Whether a delivery keeps its bound and its room whatever is sent: a loop without cores, for billions of messages.

use tanada_policy::{ChannelState, Delivery, DeliverySite, Tell, Time, WorkerId, deliveries, draw};

/// What came of a delivery under an adversary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Messages that were sent.
    pub(super) messages: u64,
    /// Those that were told later than the bound.
    pub(super) late: u64,
    /// Those that found the ring full.
    pub(super) full: u64,
    /// The longest time until one was told.
    pub(super) longest: Time,
    /// How often the receiver was woken.
    pub(super) wakes: u64,
}

impl Kept {
    /// Returns all of them together.
    pub(super) fn sum(parts: &[Kept]) -> Kept {
        parts.iter().fold(Kept::default(), |sum, one| Kept {
            messages: sum.messages + one.messages,
            late: sum.late + one.late,
            full: sum.full + one.full,
            longest: sum.longest.max(one.longest),
            wakes: sum.wakes + one.wakes,
        })
    }

    /// Returns one JSON object.
    pub(super) fn json(&self, entry: &deliveries::Entry) -> String {
        format!(
            "{{\"delivery\":\"{}\",\"messages\":{},\"later_than_bound\":{},\"found_full\":{},\"keeps_room\":{},\"wakes\":{}}}",
            entry.name, self.messages, self.late, self.full, entry.keeps_room, self.wakes
        )
    }
}

/// The largest number of messages in the ring of one site.
const MOST_ROOM: u64 = 64;

/// Sends `messages` messages through `delivery` at times that are chosen against it: gaps around the bound and its half,
/// none, long ones; spells of each; up to
/// `headroom` messages while the receiver reacts, which is what senders promise. Sites change all the time; in half of them timers are set
/// early, as native receivers do. Everything follows from `seed`.
pub(super) fn adversary(delivery: &deliveries::Entry, messages: u64, seed: u64) -> Kept {
    let mut kept = Kept::default();
    let mut round = 0;
    while kept.messages < messages {
        let mut random = Random::new(seed, round);
        round += 1;
        let capacity = 2 + random.below(MOST_ROOM - 1);
        let longest = 1 << random.below(20);
        let site = DeliverySite {
            bound: 1 + random.below(longest),
            capacity,
            headroom: 1 + random.below(capacity),
            batch: 1 + random.below(capacity),
            sender_arms: random.below(2) == 0,
        };
        let some = (messages - kept.messages).min(1 << 16);
        one_site(delivery.make, &site, some, &mut random, &mut kept);
    }
    kept
}

/// Random numbers: a function of the seed and the round.
struct Random {
    seed: u64,
    call: u64,
}

impl Random {
    fn new(seed: u64, round: u64) -> Random {
        Random {
            seed: draw(seed, WorkerId::NONE, round),
            call: 0,
        }
    }

    /// Returns a number below `most`, which is at least 1.
    fn below(&mut self, most: u64) -> u64 {
        self.call += 1;
        ((u128::from(draw(self.seed, WorkerId::NONE, self.call)) * u128::from(most)) >> 64) as u64
    }
}

/// Makes a delivery.
type Make = fn(&DeliverySite) -> Box<dyn Delivery>;

fn one_site(make: Make, site: &DeliverySite, messages: u64, random: &mut Random, kept: &mut Kept) {
    let now = random.below(site.bound + 1);
    let early = random.below(2) * random.below(site.bound + 1);
    let mut receiver = Receiver {
        site,
        early,
        delivery: &*make(site),
        channel: ChannelState::new(),
        pending: 0,
        oldest: None,
        now,
        sent: 0,
        kept,
        random,
    };
    let delivery = receiver.delivery;
    receiver.channel.rest_early(delivery, 0, now, early);
    let (mut spell, mut way) = (0, 0);
    while receiver.sent < messages {
        if spell == 0 {
            spell = 1 + receiver.random.below(40);
            way = receiver.random.below(7);
        }
        spell -= 1;
        let next = receiver.now + gap(way, site.bound, receiver.random);
        // Timers that run out before that.
        while let Some(armed) = receiver.channel.armed().filter(|&armed| armed <= next) {
            receiver.now = receiver.now.max(armed);
            receiver.wake(armed, 0);
        }
        receiver.now = receiver.now.max(next);
        receiver.send();
    }
}

/// Returns the time to the next message in a spell of one way.
fn gap(way: u64, bound: Time, random: &mut Random) -> Time {
    match way {
        0 => 0,
        1 => 1,
        2 => bound / 2 + random.below(3),
        3 => (bound + random.below(3)).saturating_sub(1),
        4 => random.below(bound / 4 + 2),
        5 => bound * (1 + random.below(4)),
        _ => random.below(2 * bound + 1),
    }
}

/// A receiver, which sleeps between any two calls.
struct Receiver<'a> {
    site: &'a DeliverySite,
    /// By how much timers are set early, as far as the delivery allows.
    early: Time,
    delivery: &'a dyn Delivery,
    channel: ChannelState,
    pending: u64,
    /// When the oldest message was sent that it was not told of.
    oldest: Option<Time>,
    now: Time,
    sent: u64,
    kept: &'a mut Kept,
    random: &'a mut Random,
}

impl Receiver<'_> {
    /// A message is sent now.
    fn send(&mut self) {
        self.sent += 1;
        self.kept.messages += 1;
        if self.pending >= self.site.capacity {
            self.kept.full += 1;
            return;
        }
        self.pending += 1;
        let now = self.now;
        self.oldest.get_or_insert(now);
        match self.delivery.sent(&self.channel, self.pending, &|| now) {
            Tell::By(by) if self.channel.armed().is_some_and(|armed| armed <= by) => {}
            Tell::By(by) if self.site.sender_arms => self.channel.arm(Some(by)),
            Tell::By(_) | Tell::Now => self.wake(now, 1),
        }
    }

    /// The receiver is told at `at`, or its timer runs out. It wakes up and empties the ring, while up to `headroom` messages
    /// come (`already` of them has).
    fn wake(&mut self, at: Time, already: u64) {
        self.kept.wakes += 1;
        if let Some(oldest) = self.oldest.take() {
            let waited = at.saturating_sub(oldest);
            self.kept.longest = self.kept.longest.max(waited);
            self.kept.late += u64::from(waited > self.site.bound);
        }
        let left = self.site.headroom - already;
        let more = match self.random.below(3) {
            0 => 0,
            1 => left,
            _ => self.random.below(left + 1),
        };
        // The worst: all come before the first is taken.
        self.kept.messages += more;
        self.sent += more;
        self.pending += more;
        self.kept.full += self.pending.saturating_sub(self.site.capacity);
        let taken = std::mem::take(&mut self.pending).min(self.site.capacity);
        self.now += self.random.below(self.site.bound + 2);
        let (delivery, early) = (self.delivery, self.early);
        self.channel.rest_early(delivery, taken, self.now, early);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bound_is_broken_and_room_is_kept_by_those_that_keep_it() {
        for entry in deliveries::all() {
            let kept = adversary(entry, 3_000_000, 1);
            assert!(kept.messages >= 3_000_000);
            assert_eq!(kept.late, 0, "{}: {kept:?}", entry.name);
            assert_eq!(kept.full == 0, entry.keeps_room, "{}: {kept:?}", entry.name);
        }
    }

    #[test]
    fn a_delivery_that_is_late_is_seen() {
        #[derive(Debug)]
        struct Late;
        impl Delivery for Late {
            fn sent(
                &self,
                channel: &ChannelState,
                _: u64,
                clock: &dyn tanada_policy::Clock,
            ) -> Tell {
                Tell::By(channel.armed().unwrap_or_else(|| clock.now() + 500))
            }
            fn due(&self, _: &ChannelState, _: u64, _: Time) -> Option<Time> {
                None
            }
        }
        let (mut kept, mut random) = (Kept::default(), Random::new(1, 0));
        let site = DeliverySite {
            sender_arms: true,
            ..DeliverySite::new(400, 8)
        };
        let late: Make = |_| Box::new(Late);
        one_site(late, &site, 1000, &mut random, &mut kept);
        assert!(kept.late > 0 && kept.full > 0, "{kept:?}");
    }
}
