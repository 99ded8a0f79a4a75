//! The slot of one task with real threads. (Interleavings are in `loom_slot.rs`.)
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::thread;

use common::{join, task};
use parking_lot::Mutex;
use proptest::prelude::*;
use tanada_queues::Slot;

const MANY: u64 = if cfg!(miri) { 100 } else { 20_000 };

/// Several senders and receivers: everything once, and each receiver sees each sender's tasks in order.
#[test]
fn stress() {
    const SENDERS: u64 = 3;
    let slot = Slot::new();
    let received = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for sender in 0..SENDERS {
            let slot = &slot;
            threads.push(scope.spawn(move || {
                for n in 1..=MANY {
                    let mut mine = task(sender << 32 | n);
                    while let Err(back) = slot.put(mine) {
                        assert_eq!(back.handle(), sender << 32 | n, "another task came back");
                        mine = back;
                        thread::yield_now();
                    }
                }
            }));
        }
        for _ in 0..2 {
            threads.push(scope.spawn(|| {
                let mut last = [0; SENDERS as usize];
                loop {
                    let Some(task) = slot.take() else {
                        if received.lock().len() as u64 == SENDERS * MANY {
                            break;
                        }
                        thread::yield_now();
                        continue;
                    };
                    let (sender, n) = (task.handle() >> 32, task.handle() & 0xffff_ffff);
                    assert!(
                        n > std::mem::replace(&mut last[sender as usize], n),
                        "out of order"
                    );
                    received.lock().push(task.handle());
                }
            }));
        }
        join(threads);
    });
    let mut received = received.into_inner();
    received.sort_unstable();
    let sent: Vec<u64> = (0..SENDERS)
        .flat_map(|sender| (1..=MANY).map(move |n| sender << 32 | n))
        .collect();
    assert_eq!(received, sent);
    assert!(slot.is_empty());
}

proptest! {
    /// It is an `Option` that is filled only while it is empty.
    #[test]
    fn agrees_with_an_option(steps in prop::collection::vec(0..4, 0..60)) {
        let slot = Slot::new();
        let mut model = None;
        for (n, step) in (1..).zip(steps) {
            match step {
                0 | 1 => {
                    let refused = slot.put(task(n)).err().map(|task| task.handle());
                    prop_assert_eq!(refused, model.is_some().then_some(n));
                    model = model.or(Some(n));
                }
                2 => prop_assert_eq!(slot.take().map(|task| task.handle()), model.take()),
                _ => {
                    let is_odd = |digest: u16| digest % 2 == 1;
                    let taken = slot.take_if(is_odd).map(|task| task.handle());
                    prop_assert_eq!(taken, model.take_if(|n| *n % 2 == 1));
                }
            }
            prop_assert_eq!(slot.digest(), model.map(|n| n as u16));
            prop_assert_eq!(slot.is_empty(), model.is_none());
        }
    }
}
