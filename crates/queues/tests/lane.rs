//! The lane: order, room, takeover by successors, garbage. (Interleavings are in `loom_lane.rs`.)
#![cfg(not(any(loom, shuttle)))]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tanada_queues::{Descriptor, Garbage, LaneReceiver, LaneSender, LaneShape, LaneWords};

struct Lane {
    shape: LaneShape,
    words: LaneWords,
    slots: Vec<AtomicU64>,
}

impl Lane {
    fn new(capacity: u64, payload: u32) -> Lane {
        let shape = LaneShape::new(capacity, payload).expect("within the limits");
        Lane {
            shape,
            words: LaneWords::new(),
            slots: (0..shape.words()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn sender(&self) -> Result<LaneSender, Garbage> {
        LaneSender::resume(self.shape, &self.words, &self.slots)
    }

    fn receiver(&self) -> Result<LaneReceiver, Garbage> {
        LaneReceiver::resume(self.shape, &self.words)
    }

    fn send(&self, sender: &mut LaneSender, value: u64) -> bool {
        let room = sender.has_room(&self.words).expect("no garbage");
        if room {
            if let Some(word) = sender.payload(&self.slots).first() {
                word.store(!value, Ordering::Relaxed);
            }
            let length = self.shape.payload().min(8);
            let message = (value as u32 ^ 7, length, value);
            sender.commit(&self.words, &self.slots, message, Ordering::SeqCst);
        }
        room
    }

    fn take(&self, receiver: &mut LaneReceiver) -> Option<u64> {
        let found = receiver.peek(&self.slots).expect("no garbage")?;
        assert_eq!(found.to, found.value as u32 ^ 7);
        if let Some(word) = receiver.payload(&self.slots).first() {
            assert_eq!(word.load(Ordering::Relaxed), !found.value);
        }
        receiver.release(&self.words, Ordering::SeqCst);
        Some(found.value)
    }
}

#[test]
fn shapes_have_limits() {
    assert_eq!(LaneShape::new(0, 0), None);
    assert_eq!(LaneShape::new(LaneShape::MAX_CAPACITY + 1, 0), None);
    assert_eq!(LaneShape::new(1, LaneShape::MAX_PAYLOAD + 1), None);
    let most = LaneShape::new(LaneShape::MAX_CAPACITY, LaneShape::MAX_PAYLOAD);
    assert!(most.is_some_and(|shape| shape.words() < 1 << 46));
    for (payload, words) in [(0, 4), (8, 4), (9, 8), (40, 8), (41, 16)] {
        assert_eq!(LaneShape::new(1, payload).expect("small").words(), words);
    }
    assert_eq!(LaneShape::new(5, 0).expect("small").capacity(), 8);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    Take,
    /// Another sender takes over; the one before was killed right after the stamp of a message.
    KilledSender,
    NewSender,
    NewReceiver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Send),
        8 => Just(Step::Take),
        1 => Just(Step::KilledSender),
        1 => Just(Step::NewSender),
        1 => Just(Step::NewReceiver),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "one thread and no unsafe code: the interpreter would only be slow")]
    fn does_as_a_bounded_list(capacity in 1..9_u64, payload in 0..20_u32, steps in steps()) {
        let lane = Lane::new(capacity, payload);
        let (mut sender, mut receiver) = (lane.sender().expect("new"), lane.receiver().expect("new"));
        let (mut model, mut next) = (VecDeque::new(), 0);
        let stride = (lane.shape.words() / lane.shape.capacity()) as usize;
        for step in steps {
            match step {
                Step::Send => {
                    let sent = lane.send(&mut sender, next);
                    prop_assert_eq!(sent, (model.len() as u64) < lane.shape.capacity());
                    if sent {
                        model.push_back(next);
                        next += 1;
                    }
                }
                Step::Take => prop_assert_eq!(lane.take(&mut receiver), model.pop_front()),
                Step::KilledSender => {
                    if sender.has_room(&lane.words).expect("no garbage") {
                        let at = (next % lane.shape.capacity()) as usize * stride;
                        let length = u64::from(payload.min(8));
                        let words = [next + 1, (next ^ 7) | length << 32, next, !next];
                        for word in [3, 2, 1, 0] {
                            lane.slots[at + word].store(words[word], Ordering::SeqCst);
                        }
                        model.push_back(next);
                        next += 1;
                    }
                    sender = lane.sender().expect("no garbage");
                }
                Step::NewSender => sender = lane.sender().expect("no garbage"),
                Step::NewReceiver => receiver = lane.receiver().expect("no garbage"),
            }
            prop_assert_eq!(sender.pending(&lane.words).expect("no garbage"), model.len() as u64);
            prop_assert_eq!(sender.sent(), next);
            prop_assert_eq!(receiver.released() + model.len() as u64, next);
        }
    }

    /// Whatever stands in the slots, a receiver takes what is stamped rightly and has a length that fits, or refuses it.
    #[test]
    fn garbage_in_a_slot_is_refused(stamp in any::<u64>(), word in any::<u64>(), value in any::<u64>()) {
        let lane = Lane::new(2, 16);
        let mut sender = lane.sender().expect("new");
        prop_assert!(lane.send(&mut sender, 1));
        for (at, garbage) in [(0, stamp % 4), (1, word), (2, value)] {
            lane.slots[at].store(garbage, Ordering::Relaxed);
        }
        let expected = match (stamp % 4, word >> 32) {
            (1, length @ ..=16) => {
                let (to, length) = (word as u32, length as u32);
                Ok(Some(Descriptor { to, length, value }))
            }
            (0, _) => Ok(None),
            _ => Err(Garbage),
        };
        prop_assert_eq!(lane.receiver().expect("new").peek(&lane.slots), expected);
    }
}

#[test]
fn a_message_is_sent_by_its_stamp_alone() {
    let lane = Lane::new(2, 8);
    let sender = lane.sender().expect("new");
    sender.payload(&lane.slots)[0].store(5, Ordering::Relaxed);
    lane.slots[1].store(8 << 32, Ordering::Relaxed);
    // Killed before the stamp: nothing was sent, and the next sender begins with the same slot.
    let mut receiver = lane.receiver().expect("new");
    assert_eq!(receiver.peek(&lane.slots), Ok(None));
    assert_eq!(lane.sender().expect("nothing is wrong").sent(), 0);
    // Killed after it: the message is there, and the next sender begins with the next slot, also if it was taken already.
    lane.slots[0].store(1, Ordering::SeqCst);
    assert_eq!(lane.sender().expect("nothing is wrong").sent(), 1);
    assert!(
        receiver
            .peek(&lane.slots)
            .is_ok_and(|found| found.is_some())
    );
    receiver.release(&lane.words, Ordering::SeqCst);
    let mut sender = lane.sender().expect("nothing is wrong");
    assert_eq!(sender.sent(), 1);
    assert!(lane.send(&mut sender, 9));
    assert_eq!(lane.take(&mut receiver), Some(9));
}

#[test]
fn a_receiver_that_takes_back_what_it_released_is_refused() {
    let lane = Lane::new(2, 0);
    let (mut sender, mut receiver) = (lane.sender().expect("new"), lane.receiver().expect("new"));
    assert!(lane.send(&mut sender, 0) && lane.send(&mut sender, 1));
    assert_eq!(lane.take(&mut receiver), Some(0));
    assert_eq!(sender.pending(&lane.words), Ok(1));
    // More than was sent: both by a sender at work and by one that comes later.
    receiver.release(&lane.words, Ordering::SeqCst);
    receiver.release(&lane.words, Ordering::SeqCst);
    receiver.release(&lane.words, Ordering::SeqCst);
    assert_eq!(sender.pending(&lane.words), Err(Garbage));
    assert!(lane.sender().is_err());
}

#[test]
fn stress() {
    const MANY: u64 = if cfg!(miri) { 300 } else { 200_000 };
    let lane = Lane::new(16, 8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = lane.sender().expect("new");
            for value in 0..MANY {
                while !lane.send(&mut sender, value) {
                    std::thread::yield_now();
                }
            }
        });
        let mut receiver = lane.receiver().expect("new");
        for value in 0..MANY {
            let taken = loop {
                match lane.take(&mut receiver) {
                    Some(taken) => break taken,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(taken, value);
        }
        assert_eq!(lane.take(&mut receiver), None);
    });
}
