//! The shared FIFO (injector, mailbox) with real threads. (Interleavings are in `loom_fifo.rs`.)
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::thread;

use common::{join, task};
use parking_lot::Mutex;
use tanada_queues::{Injector, Mailbox};

const MANY: u64 = if cfg!(miri) { 200 } else { 50_000 };

#[test]
fn smoke() {
    let mail = Mailbox::new();
    assert_eq!((mail.pop(), mail.len(), mail.is_empty()), (None, 0, true));
    (1..=3).for_each(|n| mail.push(task(n)));
    assert_eq!((mail.len(), mail.is_empty()), (3, false));
    (1..=3).for_each(|n| assert_eq!(mail.pop(), Some(task(n))));
    assert_eq!((mail.pop(), mail.is_empty()), (None, true));
}

#[test]
fn tasks_that_come_together_stay_in_order() {
    let queue = Injector::new();
    let mut some = Vec::from_iter((1..=3).map(task));
    queue.push_all(&mut some);
    assert!(some.is_empty());
    assert_eq!(queue.pop(), Some(task(1)));
    queue.push(task(4));
    queue.push_all(&mut Vec::from_iter((5..=6).map(task)));
    assert_eq!((queue.len(), queue.is_empty()), (5, false));
    (2..=6).for_each(|n| assert_eq!(queue.pop(), Some(task(n))));
    assert_eq!((queue.pop(), queue.len()), (None, 0));
    queue.push_all(&mut Vec::new());
    assert!(queue.is_empty());
}

/// Several senders and receivers: everything once, and each receiver sees each sender's tasks in order.
#[test]
fn stress() {
    const SENDERS: u64 = 3;
    let queue = Injector::new();
    let received = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let senders = (0..SENDERS).map(|sender| {
            let queue = &queue;
            scope.spawn(move || (1..=MANY).for_each(|n| queue.push(task(sender << 32 | n))))
        });
        let senders: Vec<_> = senders.collect();
        let receivers = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut last = [0; SENDERS as usize];
                let mut mine = Vec::new();
                while mine.len() as u64 + received.lock().len() as u64 != SENDERS * MANY {
                    let Some(task) = queue.pop() else {
                        // What I have may be what the other one waits for.
                        received.lock().append(&mut mine);
                        thread::yield_now();
                        continue;
                    };
                    let (sender, n) = (task.handle() >> 32, task.handle() & 0xffff_ffff);
                    assert!(
                        n > std::mem::replace(&mut last[sender as usize], n),
                        "out of order"
                    );
                    mine.push(task.handle());
                }
                received.lock().append(&mut mine);
            })
        });
        join(senders);
        join(receivers);
    });
    let mut received = received.into_inner();
    received.sort_unstable();
    let sent: Vec<u64> = (0..SENDERS)
        .flat_map(|sender| (1..=MANY).map(move |n| sender << 32 | n))
        .collect();
    assert_eq!(received, sent);
    assert!(queue.is_empty());
}
