//! The shared FIFO under loom: `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_fifo`.
#![cfg(loom)]

mod common;

use common::task;
use tanada_queues::Mailbox;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Arc, thread};

#[test]
fn two_senders_one_receiver() {
    loom::model(|| {
        let mail = Arc::new(Mailbox::new());
        let senders = [1, 2].map(|n| {
            let mail = Arc::clone(&mail);
            thread::spawn(move || mail.push(task(n)))
        });
        let mut taken: Vec<u64> = mail.pop().map(|task| task.handle()).into_iter().collect();
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        taken.extend(std::iter::from_fn(|| mail.pop()).map(|task| task.handle()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
        assert!(mail.is_empty());
    });
}

#[test]
fn two_receivers_on_the_last_task() {
    loom::model(|| {
        let mail = Arc::new(Mailbox::new());
        mail.push(task(1));
        let other = Arc::clone(&mail);
        let receiver = thread::spawn(move || other.pop().is_some());
        let mine = mail.pop().is_some();
        assert!(receiver.join().unwrap() != mine, "one of them gets it");
    });
}

/// The promise to sleepers: either the thread that pushes sees the sleeper, or the sleeper sees the task. (The queues bring loom's fences
/// along.)
#[test]
fn no_push_is_overlooked_by_a_sleeper() {
    loom::model(|| {
        let mail = Arc::new(Mailbox::new());
        let sleepers = Arc::new(AtomicUsize::new(0));
        let (box_of_sleeper, announced) = (Arc::clone(&mail), Arc::clone(&sleepers));
        let sleeper = thread::spawn(move || {
            announced.fetch_add(1, Ordering::SeqCst);
            box_of_sleeper.is_empty()
        });
        mail.push(task(1));
        let wakes = sleepers.load(Ordering::SeqCst) > 0;
        let sleeps = sleeper.join().unwrap();
        assert!(wakes || !sleeps, "the worker sleeps and no thread wakes it");
    });
}
