//! The lane under loom: `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_lane`.
#![cfg(loom)]

use tanada_queues::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tanada_queues::sync::{Arc, thread, total_order};
use tanada_queues::{LaneReceiver, LaneSender, LaneShape, LaneWords};

struct Lane {
    shape: LaneShape,
    words: LaneWords,
    slots: Vec<AtomicU64>,
    /// Of commits and releases.
    order: Ordering,
}

fn lane(capacity: u64) -> Arc<Lane> {
    lane_of(capacity, Ordering::SeqCst)
}

fn lane_of(capacity: u64, order: Ordering) -> Arc<Lane> {
    let shape = LaneShape::new(capacity, 8).expect("within the limits");
    Arc::new(Lane {
        shape,
        words: LaneWords::new(),
        slots: (0..shape.words()).map(|_| AtomicU64::new(0)).collect(),
        order,
    })
}

impl Lane {
    fn sender(&self) -> LaneSender {
        LaneSender::resume(self.shape, &self.words, &self.slots).expect("no garbage")
    }

    fn receiver(&self) -> LaneReceiver {
        LaneReceiver::resume(self.shape, &self.words).expect("no garbage")
    }

    fn send(&self, sender: &mut LaneSender, value: u64) -> bool {
        let room = sender.has_room(&self.words).expect("no garbage");
        if room {
            sender.payload(&self.slots)[0].store(!value, Ordering::Relaxed);
            sender.commit(&self.words, &self.slots, (0, 8, value), self.order);
        }
        room
    }

    fn take(&self, receiver: &mut LaneReceiver) -> Option<u64> {
        let found = receiver.peek(&self.slots).expect("no garbage")?;
        let payload = receiver.payload(&self.slots)[0].load(Ordering::Relaxed);
        assert_eq!(payload, !found.value, "the payload is that of the message");
        receiver.release(&self.words, self.order);
        Some(found.value)
    }
}

/// Three messages through two slots: each comes once, in order, with its own payload, and a slot is written again only when it was
/// released. Also if no end ever sleeps, so that commits and releases only release.
#[test]
fn messages_come_once_and_whole() {
    come_once_and_whole(Ordering::SeqCst);
}

#[test]
fn messages_come_once_and_whole_between_ends_that_never_sleep() {
    come_once_and_whole(Ordering::Release);
}

fn come_once_and_whole(order: Ordering) {
    loom::model(move || {
        let lane = lane_of(2, order);
        let other = Arc::clone(&lane);
        let sends = thread::spawn(move || {
            let mut sender = other.sender();
            let mut sent = 0;
            for _ in 0..4 {
                sent += u64::from(other.send(&mut sender, sent));
            }
            assert!(sent >= 2, "two slots were free");
            sent
        });
        let mut receiver = lane.receiver();
        let mut taken = 0;
        for _ in 0..2 {
            if let Some(value) = lane.take(&mut receiver) {
                assert_eq!(value, taken);
                taken += 1;
            }
        }
        let sent = sends.join().unwrap();
        while let Some(value) = lane.take(&mut receiver) {
            assert_eq!(value, taken);
            taken += 1;
        }
        assert_eq!(taken, sent);
    });
}

/// The promise to a receiver that sleeps: either the sender sees the announcement, or the receiver sees the message.
#[test]
fn no_message_is_overlooked_by_a_sleeper() {
    loom::model(|| {
        let lane = lane(1);
        let announced = Arc::new(AtomicBool::new(false));
        let (other, flag) = (Arc::clone(&lane), Arc::clone(&announced));
        let receives = thread::spawn(move || {
            flag.store(true, Ordering::SeqCst);
            total_order();
            other
                .receiver()
                .peek(&other.slots)
                .expect("no garbage")
                .is_some()
        });
        assert!(lane.send(&mut lane.sender(), 1));
        total_order();
        let tells = announced.load(Ordering::SeqCst);
        let sees = receives.join().unwrap();
        assert!(tells || sees, "the receiver sleeps and is not told");
    });
}

/// The same the other way round, for a sender that waits for room.
#[test]
fn no_room_is_overlooked_by_a_waiting_sender() {
    loom::model(|| {
        let lane = lane(1);
        let mut sender = lane.sender();
        assert!(lane.send(&mut sender, 1));
        let waits = Arc::new(AtomicBool::new(false));
        let (other, flag) = (Arc::clone(&lane), Arc::clone(&waits));
        let receives = thread::spawn(move || {
            assert_eq!(other.take(&mut other.receiver()), Some(1));
            total_order();
            flag.load(Ordering::SeqCst)
        });
        waits.store(true, Ordering::SeqCst);
        total_order();
        let sees = sender.has_room(&lane.words).expect("no garbage");
        let tells = receives.join().unwrap();
        assert!(tells || sees, "the sender waits and is not told");
    });
}

/// A sender that takes over finds where the one before it has stopped, also while the receiver takes messages.
#[test]
fn a_successor_continues_behind_the_last_message() {
    loom::model(|| {
        let lane = lane(2);
        assert!(lane.send(&mut lane.sender(), 0));
        let other = Arc::clone(&lane);
        let receives = thread::spawn(move || {
            let mut receiver = other.receiver();
            let first = other.take(&mut receiver);
            (first, other.take(&mut receiver), receiver)
        });
        let mut successor = lane.sender();
        assert_eq!(successor.sent(), 1);
        assert!(lane.send(&mut successor, 1));
        let (first, second, mut receiver) = receives.join().unwrap();
        assert_eq!(first, Some(0));
        let last = second.or_else(|| lane.take(&mut receiver));
        assert_eq!(last, Some(1));
    });
}
