//! What the deliveries promise, against adversarial arrivals, in a toy engine that keeps the contract of `Delivery` exactly.
#![cfg(not(any(loom, shuttle)))]

use proptest::collection::vec;
use proptest::prelude::*;
use tanada_policy::deliveries::{self, find};
use tanada_policy::{ChannelState, Clock, Delivery, DeliverySite, Tell, Time};

/// What a run of the toy engine has seen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Messages sent, and those that were taken in the end.
    sent: u64,
    taken: u64,
    /// Wake-ups, and those of them that took nothing.
    wakes: u64,
    vain: u64,
    /// The longest time from a message to the moment from which the receiver was awake.
    latest: Time,
    /// Messages that were late, that is after the bound.
    late: u64,
    /// The most messages that the queue held.
    most: u64,
}

struct Toy<'a> {
    delivery: &'a dyn Delivery,
    site: DeliverySite,
    /// By how much timers are set too early, as far as the delivery allows.
    early: Time,
    channel: ChannelState,
    /// When the sleeping receiver's timer fires.
    timer: Option<Time>,
    /// When the reaction that is under way ends, and how many messages were sent in it.
    reaction: Option<(Time, u64)>,
    /// Messages of which the sleeping receiver was not told.
    waiting: Vec<Time>,
    pending: u64,
    seen: Seen,
}

impl<'a> Toy<'a> {
    fn new(delivery: &'a dyn Delivery, site: DeliverySite, early: Time) -> Self {
        let channel = ChannelState::new();
        let timer = channel.rest_early(delivery, 0, 0, early);
        Toy {
            delivery,
            site,
            early,
            channel,
            timer,
            reaction: None,
            waiting: Vec::new(),
            pending: 0,
            seen: Seen::default(),
        }
    }

    fn wake(&mut self, now: Time, reaction: Time, begun_by: u64) {
        self.seen.wakes += 1;
        for time in self.waiting.drain(..) {
            self.seen.latest = self.seen.latest.max(now - time);
            self.seen.late += u64::from(now - time > self.site.bound);
        }
        self.timer = None;
        self.reaction = Some((now + reaction, begun_by));
    }

    /// Does what comes before `until`, or at it.
    fn advance(&mut self, until: Time, reaction: Time) {
        loop {
            match (self.reaction, self.timer) {
                (Some((end, _)), _) if end <= until => {
                    let taken = std::mem::take(&mut self.pending);
                    self.seen.taken += taken;
                    self.seen.vain += u64::from(taken == 0);
                    self.reaction = None;
                    let (delivery, early) = (self.delivery, self.early);
                    self.timer = self.channel.rest_early(delivery, taken, end, early);
                }
                (None, Some(due)) if due <= until => self.wake(due, reaction, 0),
                _ => return,
            }
        }
    }

    /// Sends a message at `now`, unless that would break the senders' contract; then it is sent when the reaction is over.
    fn send(&mut self, mut now: Time, reaction: Time) -> Time {
        self.advance(now, reaction);
        while let Some((end, _)) = self.reaction.filter(|one| one.1 >= self.site.headroom) {
            now = end;
            self.advance(now, reaction);
        }
        self.pending += 1;
        self.seen.sent += 1;
        self.seen.most = self.seen.most.max(self.pending);
        if let Some((_, sent)) = &mut self.reaction {
            *sent += 1;
            return now;
        }
        self.waiting.push(now);
        match self.delivery.sent(&self.channel, self.pending, &|| now) {
            Tell::Now => self.wake(now, reaction, 1),
            Tell::By(due) if self.timer.is_some_and(|timer| timer <= due) => {}
            Tell::By(due) if self.site.sender_arms => {
                self.timer = Some(due);
                self.channel.arm(self.timer);
            }
            Tell::By(_) => self.wake(now, reaction, 1),
        }
        now
    }

    /// Sends messages after the given gaps, with the given times of reaction, lets all end and returns what was seen.
    fn run(mut self, steps: impl IntoIterator<Item = (Time, Time)>) -> Seen {
        let (mut now, mut last) = (0, 0);
        for (gap, reaction) in steps {
            now = self.send(now + gap, reaction);
            last = reaction;
        }
        // Every reaction and, twice over, every timer is over by then.
        self.advance(now + 10 * (self.site.bound + last), last);
        self.seen
    }
}

fn run(name: &str, site: DeliverySite, steps: &[(Time, Time)]) -> Seen {
    run_early(name, site, 0, steps)
}

fn run_early(name: &str, site: DeliverySite, early: Time, steps: &[(Time, Time)]) -> Seen {
    let delivery = (find(name).expect("it is registered").make)(&site);
    Toy::new(&*delivery, site, early).run(steps.iter().copied())
}

/// Holds `seen` to what the delivery called `name` promises.
fn check(name: &str, site: DeliverySite, seen: &Seen) {
    let entry = find(name).expect("it is registered");
    assert_eq!(seen.sent, seen.taken, "{name}: lost, {seen:?}");
    assert_eq!(seen.late, 0, "{name}: late, {seen:?}");
    if entry.keeps_room {
        assert!(seen.most <= site.capacity, "{name}: {seen:?} in {site:?}");
    }
    match name {
        "immediate" => assert_eq!((seen.latest, seen.vain), (0, 0)),
        "adaptive" | "batched" if site.sender_arms => assert_eq!(seen.vain, 0, "{name}"),
        "adaptive" => assert!(seen.vain <= seen.sent / 2, "{seen:?} in {site:?}"),
        "batched" => assert!(seen.vain <= seen.wakes - seen.vain, "{seen:?}"),
        _ => {}
    }
}

fn sites() -> impl Strategy<Value = DeliverySite> {
    let headroom = (1..40_u64).prop_flat_map(|capacity| (Just(capacity), 1..=capacity));
    (1..200_u64, headroom, 1..40_u64, any::<bool>()).prop_map(
        |(bound, (capacity, headroom), batch, sender_arms)| DeliverySite {
            bound,
            capacity,
            headroom,
            batch,
            sender_arms,
        },
    )
}

/// Gaps that an adversary would choose: bursts, the borders of the hysteresis, and silences.
fn gaps(bound: Time) -> impl Strategy<Value = Time> {
    prop_oneof![
        4 => Just(0),
        4 => 0..=bound / 8 + 1,
        3 => bound / 2..=bound / 2 + 2,
        3 => bound..=bound + 2,
        1 => 0..=4 * bound,
    ]
}

fn cases() -> impl Strategy<Value = (DeliverySite, Vec<(Time, Time)>)> {
    sites().prop_flat_map(|site| {
        let reaction = prop_oneof![3 => 0..=3_u64, 1 => 0..=2 * site.bound];
        (Just(site), vec((gaps(site.bound), reaction), 0..120))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn promises_hold_for_adversarial_arrivals((site, steps) in cases()) {
        for entry in deliveries::all() {
            let seen = run(entry.name, site, &steps);
            prop_assert_eq!(seen.sent, steps.len() as u64);
            check(entry.name, site, &seen);
        }
    }

    /// An engine may set timers early by whatever it takes for their lateness.
    #[test]
    fn promises_hold_with_early_timers((site, steps) in cases(), early in 0..200_u64) {
        for entry in deliveries::all() {
            let seen = run_early(entry.name, site, early, &steps);
            prop_assert_eq!(seen.sent, steps.len() as u64);
            check(entry.name, site, &seen);
        }
    }
}

/// Every sequence of seven gaps from the borders of the rule, for short bounds and small buffers.
#[test]
fn promises_hold_for_all_short_sequences() {
    for (bound, capacity, headroom) in [(1, 2, 1), (4, 1, 1), (4, 3, 1), (6, 8, 4)] {
        for sender_arms in [false, true] {
            let site = DeliverySite {
                headroom,
                sender_arms,
                ..DeliverySite::new(bound, capacity)
            };
            let choices = [0, 1, bound / 2, bound / 2 + 1, bound, bound + 1];
            for number in 0..6_usize.pow(7) {
                let step = |i: u32| (choices[number / 6_usize.pow(i) % 6], u64::from(i % 3));
                let steps: Vec<_> = (0..7).map(step).collect();
                check("adaptive", site, &run("adaptive", site, &steps));
                check(
                    "adaptive",
                    site,
                    &run_early("adaptive", site, bound, &steps),
                );
            }
        }
    }
}

#[test]
fn dense_messages_cost_what_a_timer_costs_and_sparse_ones_are_told_at_once() {
    for sender_arms in [false, true] {
        let site = DeliverySite {
            sender_arms,
            ..DeliverySite::new(1_000, 1_024)
        };
        let dense = run("adaptive", site, &[(10, 1); 10_000]);
        let ticks = run("periodic", site, &[(10, 1); 10_000]);
        assert!(dense.wakes <= ticks.wakes + 2, "{dense:?}, {ticks:?}");
        let sparse = run("adaptive", site, &[(1_002, 1); 1_000]);
        assert_eq!((sparse.latest, sparse.wakes), (0, 1_000));
    }
}

#[test]
fn adaptive_tells_earlier_if_the_buffer_is_small() {
    let site = DeliverySite {
        headroom: 4,
        ..DeliverySite::new(1_000_000, 16)
    };
    let seen = run("adaptive", site, &[(10, 25); 12_000]);
    assert!((13..=16).contains(&seen.most), "{seen:?}");
    // The first two messages are told one by one, and after the last the timer fires in vain.
    assert!(seen.wakes <= 12_000 / 12 + 3, "{seen:?}");
}

#[derive(Debug)]
struct Late(Time);

impl Delivery for Late {
    fn sent(&self, _: &ChannelState, _: u64, clock: &dyn Clock) -> Tell {
        Tell::By(clock.now() + self.0)
    }

    fn due(&self, _: &ChannelState, _: u64, _: Time) -> Option<Time> {
        None
    }
}

/// The toy engine and its checks find what they are there for.
#[test]
fn a_delivery_that_breaks_its_promise_is_found() {
    let site = DeliverySite {
        headroom: 2,
        sender_arms: true,
        ..DeliverySite::new(10, 4)
    };
    let steps = [(1, 1); 30];
    let seen = Toy::new(&Late(10), site, 0).run(steps);
    assert!(seen.late == 0 && seen.most > site.capacity, "{seen:?}");
    let seen = Toy::new(&Late(11), site, 0).run(steps);
    assert!(seen.late > 0, "{seen:?}");
}
