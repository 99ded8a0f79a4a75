//! Channels under shuttle: no message is overlooked and no sender waits for ever, in any interleaving that was tried. The code is that
//! which runs, down to the futex, which a model replaces. (Exhaustive schedules would not end: the model's `park` may return for no reason
//! any number of times.)
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p tanada-runtime --release --test model_messages`.
#![cfg(shuttle)]

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};
use tanada_runtime::messages::{Channel, ChannelBuilder, RecvError};

/// What the receiver is.
#[derive(Clone, Copy)]
enum Kind {
    Thread,
    Future,
}

/// Every sender sends `each` messages, waits for room if need be, and closes its lane; the receiver gets them all, and the end. A lost
/// telling is a deadlock, which shuttle reports.
fn scenario(builder: ChannelBuilder, senders: u64, each: u64, kind: Kind) {
    let channel = builder.senders(senders as usize).build();
    let channel = channel.expect("it is well described");
    let mut receiver = channel.receiver().expect("there is none yet");
    let threads: Vec<_> = (0..senders)
        .map(|number| {
            let mut sender = channel.sender().expect("a lane is free");
            thread::spawn(move || {
                for value in 0..each {
                    let sent = sender.send(number as u32, value, b"");
                    sent.expect("the receiver is there");
                }
            })
        })
        .collect();
    let receives = thread::spawn(move || {
        let mut next = vec![0; senders as usize];
        loop {
            if let Kind::Future = kind
                && shuttle::future::block_on(receiver.ready()).is_err()
            {
                return next;
            }
            match receiver.recv() {
                Ok(message) => {
                    let expected = &mut next[message.to() as usize];
                    assert_eq!(message.value(), *expected);
                    *expected += 1;
                }
                Err(RecvError::Closed) => return next,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let next = receives.join().expect("a receiver that ends");
    assert_eq!(next, vec![each; senders as usize]);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a sender that ends"));
}

fn immediate() -> ChannelBuilder {
    Channel::builder().delivery("immediate").spin(0)
}

fn chosen_and_random(run: impl Fn() + Send + Sync + Clone + 'static) {
    let random = Runner::new(RandomScheduler::new(5_000), Default::default());
    random.run(run.clone());
    let chosen = Runner::new(PctScheduler::new(4, 5_000), Default::default());
    chosen.run(run);
}

#[test]
fn one_sender() {
    for kind in [Kind::Thread, Kind::Future] {
        chosen_and_random(move || scenario(immediate().capacity(1), 1, 1, kind));
        chosen_and_random(move || scenario(immediate().capacity(1), 1, 3, kind));
    }
}

#[test]
fn several_senders_with_and_without_room() {
    for kind in [Kind::Thread, Kind::Future] {
        chosen_and_random(move || scenario(immediate().capacity(1), 2, 3, kind));
        chosen_and_random(move || scenario(immediate().capacity(4), 3, 2, kind));
    }
}

#[test]
fn a_receiver_that_looks_before_it_sleeps() {
    chosen_and_random(|| scenario(immediate().capacity(2).spin(2), 2, 2, Kind::Thread));
}

/// Timers fire at any moment in the model, so what these runs can lose is a message for which neither a timer nor a telling comes, and a
/// sender that waits for room while the receiver sleeps.
#[test]
fn deliveries_with_timers() {
    for name in ["adaptive", "batched", "periodic"] {
        let bound = std::time::Duration::from_nanos(20);
        let of = move |capacity| {
            let builder = Channel::builder().delivery(name).spin(0).bound(bound);
            builder.capacity(capacity)
        };
        chosen_and_random(move || scenario(of(2), 1, 4, Kind::Thread));
        chosen_and_random(move || scenario(of(4), 2, 3, Kind::Thread));
    }
}
