//! The slot of one task under loom: `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_slot`.
#![cfg(loom)]

mod common;

use common::task;
use tanada_queues::Slot;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Arc, thread};

#[test]
fn two_senders_and_a_receiver() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let senders = [1, 2].map(|n| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.put(task(n)).err().map(|task| task.handle()))
        });
        let mut seen: Vec<u64> = slot.take().map(|task| task.handle()).into_iter().collect();
        let came_back = senders.map(|sender| sender.join().unwrap());
        assert!(came_back.contains(&None), "an empty slot takes one of them");
        seen.extend(came_back.into_iter().flatten());
        seen.extend(std::iter::from_fn(|| slot.take()).map(|task| task.handle()));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

/// What the sender wrote before is visible to the receiver that takes the task.
#[test]
fn two_receivers_on_one_task() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let written = Arc::new(AtomicUsize::new(0));
        let receivers = [0, 1].map(|n| {
            let (slot, written) = (Arc::clone(&slot), Arc::clone(&written));
            thread::spawn(move || {
                let taken = match n {
                    0 => slot.take(),
                    _ => slot.take_if(|digest| digest == 1),
                }?;
                assert_eq!(written.load(Ordering::Relaxed), 1);
                Some(taken.handle())
            })
        });
        written.store(1, Ordering::Relaxed);
        slot.put(task(1)).expect("the slot is empty");
        let taken = receivers.map(|receiver| receiver.join().unwrap());
        let taken = taken.into_iter().flatten();
        let taken: Vec<u64> = taken.chain(slot.take().map(|task| task.handle())).collect();
        assert_eq!(taken, [1]);
    });
}

/// The promise to sleepers: either the sender sees the sleeper, or the sleeper sees the task. (The slot brings loom's fences along.)
#[test]
fn no_task_is_overlooked_by_a_sleeper() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let sleepers = Arc::new(AtomicUsize::new(0));
        let (slot_of_sleeper, announced) = (Arc::clone(&slot), Arc::clone(&sleepers));
        let sleeper = thread::spawn(move || {
            announced.fetch_add(1, Ordering::SeqCst);
            slot_of_sleeper.is_empty()
        });
        slot.put(task(1)).expect("the slot is empty");
        let wakes = sleepers.load(Ordering::SeqCst) > 0;
        let sleeps = sleeper.join().unwrap();
        assert!(wakes || !sleeps, "the worker sleeps and no thread wakes it");
    });
}
