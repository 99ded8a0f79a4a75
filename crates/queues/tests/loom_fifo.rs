//! The shared FIFOs under loom: `RUSTFLAGS="--cfg loom" cargo test -p tanada-queues --release --test loom_fifo`.
#![cfg(loom)]

mod common;

use common::task;
use tanada_queues::sync::atomic::{AtomicUsize, Ordering};
use tanada_queues::sync::{Arc, thread};
use tanada_queues::{Injector, Mailbox};

/// The same tests for both queues.
macro_rules! of_queue {
    ($name:ident, $queue:ty) => {
        mod $name {
            use super::*;

            #[test]
            fn two_senders_one_receiver() {
                loom::model(|| {
                    let mail = Arc::new(<$queue>::new());
                    let senders = [1, 2].map(|n| {
                        let mail = Arc::clone(&mail);
                        thread::spawn(move || mail.push(task(n)))
                    });
                    let mut taken: Vec<u64> =
                        mail.pop().map(|task| task.handle()).into_iter().collect();
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
                    let mail = Arc::new(<$queue>::new());
                    mail.push(task(1));
                    let other = Arc::clone(&mail);
                    let receiver = thread::spawn(move || other.pop().is_some());
                    let mine = mail.pop().is_some();
                    assert!(receiver.join().unwrap() != mine, "one of them gets it");
                });
            }

            /// The promise to sleepers: either the thread that pushes sees the sleeper, or the sleeper sees the task. (The queues bring
            /// loom's fences along.)
            #[test]
            fn no_push_is_overlooked_by_a_sleeper() {
                loom::model(|| {
                    let mail = Arc::new(<$queue>::new());
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
        }
    };
}

of_queue!(mailbox, Mailbox);
of_queue!(injector, Injector);

/// Two tasks come together while a receiver exchanges the halves; each is taken once, the first one first.
#[test]
fn tasks_that_come_together_are_taken_in_order() {
    loom::model(|| {
        let queue = Arc::new(Injector::new());
        queue.push(task(1));
        let other = Arc::clone(&queue);
        let sender = thread::spawn(move || other.push_all(&mut vec![task(2), task(3)]));
        let mut taken = vec![];
        for _ in 0..2 {
            taken.extend(queue.pop().map(|task| task.handle()));
        }
        sender.join().unwrap();
        taken.extend(std::iter::from_fn(|| queue.pop()).map(|task| task.handle()));
        assert_eq!(taken, [1, 2, 3]);
        assert!(queue.is_empty());
    });
}

/// A queue that holds a task all the time never looks empty, while others put tasks in and take them out.
#[test]
fn a_task_that_stays_is_never_overlooked() {
    loom::model(|| {
        let queue = Arc::new(Injector::new());
        queue.push_all(&mut vec![task(1), task(2)]);
        let other = Arc::clone(&queue);
        let receiver = thread::spawn(move || {
            other.push(task(3));
            assert!(other.pop().is_some());
        });
        assert!(!queue.is_empty());
        receiver.join().unwrap();
        assert_eq!(queue.len(), 2);
    });
}

/// Two receivers take several tasks at once, while another one comes: each is taken once, and each receiver's are in order.
#[test]
fn several_tasks_are_taken_once_and_in_order() {
    loom::model(|| {
        let queue = Arc::new(Injector::new());
        queue.push_all(&mut vec![task(1), task(2), task(3)]);
        let other = Arc::clone(&queue);
        let some = |queue: &Injector| {
            let mut others = vec![];
            let first = queue.pop_some(2, &mut others);
            let taken = first.into_iter().chain(others);
            let taken = Vec::from_iter(taken.map(|task| task.handle()));
            assert!(taken.is_sorted(), "{taken:?}");
            taken
        };
        let receiver = thread::spawn(move || {
            other.push(task(4));
            some(&other)
        });
        let mut taken = some(&queue);
        taken.extend(receiver.join().unwrap());
        assert!(
            taken.len() >= 3,
            "there are two for each, or one is left: {taken:?}"
        );
        taken.extend(std::iter::from_fn(|| queue.pop()).map(|task| task.handle()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3, 4]);
    });
}
