//! Channels in one process: order, room, ends, and every kind of receiver under every delivery.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use tanada_policy::deliveries;
use tanada_runtime::Pool;
use tanada_runtime::messages::{
    Channel, ChannelBuilder, ChannelError, Receiver, RecvError, SendError, Sender,
};

const SENDERS: u64 = 3;
const MANY: u64 = 3_000;

/// Channels under every delivery, small, so that senders wait for room.
fn channels() -> impl Iterator<Item = (&'static str, ChannelBuilder)> {
    deliveries::all().iter().map(|entry| {
        let builder = Channel::builder()
            .delivery(entry.name)
            .senders(SENDERS as usize)
            .capacity(16)
            .payload(24)
            .bound(Duration::from_micros(300));
        (entry.name, builder)
    })
}

/// The same, each in this process and in shared memory.
fn both() -> impl Iterator<Item = (&'static str, Channel)> {
    channels().flat_map(|(name, builder)| {
        let built = [builder.clone().build(), builder.build_shared()];
        built.map(|channel| (name, channel.expect("it is well described")))
    })
}

/// Sends `MANY` messages from each of `SENDERS` threads, now and then with a pause in which the receiver sleeps, and closes all lanes.
fn sends(channel: &Channel) -> Vec<thread::JoinHandle<()>> {
    let send = |number: u64, mut sender: Sender| {
        for value in 0..MANY {
            let payload = [number, value].map(u64::to_le_bytes).concat();
            let length = (value % 17) as usize;
            let sent = sender.send(number as u32, value, &payload[..length]);
            sent.expect("the receiver is there");
            if value % 500 == number {
                thread::sleep(Duration::from_millis(2));
            }
        }
    };
    let senders: Vec<Sender> = (0..SENDERS)
        .map(|_| channel.sender().expect("a lane is free"))
        .collect();
    (0..SENDERS)
        .zip(senders)
        .map(|(number, sender)| thread::spawn(move || send(number, sender)))
        .collect()
}

/// What has come, held to what was sent.
#[derive(Default)]
struct Ledger([u64; SENDERS as usize]);

impl Ledger {
    fn enter(&mut self, to: u32, value: u64, payload: &[u8]) {
        let expected = &mut self.0[to as usize];
        assert_eq!(value, *expected, "in order, each once");
        let full = [u64::from(to), value].map(u64::to_le_bytes).concat();
        assert_eq!(payload, &full[..(value % 17) as usize]);
        *expected += 1;
    }

    /// Takes what is there; returns whether the channel is closed.
    fn drain(&mut self, receiver: &mut Receiver) -> bool {
        loop {
            match receiver.try_recv() {
                Ok(message) => self.enter(message.to(), message.value(), &message.to_vec()),
                Err(RecvError::Empty) => return false,
                Err(RecvError::Closed) => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn check(&self, name: &str) {
        assert_eq!(self.0, [MANY; SENDERS as usize], "{name}");
    }
}

#[test]
fn a_thread_receives_all_under_every_delivery() {
    for (name, builder) in channels() {
        let channel = builder.build().expect("it is well described");
        let mut receiver = channel.receiver().expect("there is none yet");
        let threads = sends(&channel);
        let mut ledger = Ledger::default();
        loop {
            match receiver.recv() {
                Ok(message) => ledger.enter(message.to(), message.value(), &message.to_vec()),
                Err(RecvError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        ledger.check(name);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_receiver_that_never_sleeps_and_one_that_sleeps_at_once() {
    for spin in [0, u32::MAX] {
        for (name, builder) in channels() {
            let channel = builder.spin(spin).build().expect("it is well described");
            let mut receiver = channel.receiver().expect("there is none yet");
            let threads = sends(&channel);
            let mut ledger = Ledger::default();
            while let Ok(message) = receiver.recv() {
                ledger.enter(message.to(), message.value(), &message.to_vec());
            }
            ledger.check(name);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    }
}

#[test]
fn an_event_loop_receives_all_under_every_delivery() {
    for shared in [false, true] {
        for (name, builder) in channels() {
            let channel = match shared {
                false => builder.build(),
                true => builder.build_shared(),
            };
            let channel = channel.expect("it is well described");
            let mut receiver = channel.receiver().expect("there is none yet");
            receiver.event().expect("the system has descriptors");
            let threads = sends(&channel);
            let mut ledger = Ledger::default();
            while !ledger.drain(&mut receiver) {
                if receiver.rest().expect("nothing is corrupt") {
                    let event = receiver.event().expect("it is there");
                    let mut polled = [PollFd::new(&event, PollFlags::IN)];
                    poll(&mut polled, None).expect("it can be polled");
                    assert!(polled[0].revents().contains(PollFlags::IN));
                }
            }
            ledger.check(name);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_future_receives_all_under_every_delivery() {
    for (name, channel) in both() {
        let mut receiver = channel.receiver().expect("there is none yet");
        let threads = sends(&channel);
        let mut ledger = Ledger::default();
        block_on(async {
            while receiver.ready().await.is_ok() {
                ledger.drain(&mut receiver);
            }
        });
        ledger.check(name);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn tasks_receive_all_under_every_delivery() {
    let pool = Pool::builder().workers(2).build().expect("two workers");
    for (name, channel) in both() {
        let receiver = channel.receiver().expect("there is none yet");
        let threads = sends(&channel);
        let mut ledger = Ledger::default();
        let entered = &mut ledger;
        pool.scope(|scope| {
            receiver.serve(scope, "receive", |message| {
                entered.enter(message.to(), message.value(), &message.to_vec());
            });
        })
        .expect("no task fails");
        ledger.check(name);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

/// Receivers that are awaited share the thread that waits for their descriptors; one that is dropped meanwhile leaves no waker behind.
#[test]
fn many_futures_of_shared_channels_at_once() {
    let threads: Vec<_> = (0..8)
        .map(|number| {
            thread::spawn(move || {
                for round in 0..20_u64 {
                    let channel = Channel::builder().delivery("immediate").build_shared();
                    let channel = channel.expect("it is well described");
                    let mut sender = channel.sender().expect("a lane is free");
                    let mut receiver = channel.receiver().expect("there is none yet");
                    let answer = thread::spawn(move || {
                        thread::sleep(Duration::from_micros(100 * (number + round) % 700));
                        sender.send(0, round, &[]).expect("the receiver is there");
                    });
                    block_on(receiver.ready()).expect("a message comes");
                    assert_eq!(receiver.try_recv().expect("it is there").value(), round);
                    answer.join().unwrap();
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    let mut context = Context::from_waker(&waker);
                    let sender = channel.sender().expect("the lane is free again");
                    assert!(receiver.poll_ready(&mut context).is_pending());
                    drop(receiver);
                    drop(sender);
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn room_and_deadlines() {
    let channel = Channel::builder()
        .capacity(2)
        .payload(3)
        .build()
        .expect("small");
    let mut sender = channel.sender().expect("a lane is free");
    let mut receiver = channel.receiver().expect("there is none yet");
    assert!(matches!(channel.sender(), Err(ChannelError::Taken)));
    assert!(matches!(channel.receiver(), Err(ChannelError::Taken)));
    assert!(matches!(receiver.try_recv(), Err(RecvError::Empty)));
    let soon = || Instant::now() + Duration::from_millis(5);
    assert!(matches!(
        receiver.recv_deadline(soon()),
        Err(RecvError::TimedOut)
    ));
    assert_eq!(sender.try_send(1, 2, b"four"), Err(SendError::TooLong));
    assert_eq!(sender.try_send(1, 2, b"two"), Ok(()));
    assert_eq!(sender.try_send(1, 3, b""), Ok(()));
    assert_eq!(sender.try_send(1, 4, b""), Err(SendError::Full));
    assert_eq!(
        sender.send_deadline(1, 4, b"", soon()),
        Err(SendError::TimedOut)
    );
    let message = receiver.recv().expect("it is there");
    assert_eq!(
        (message.len(), message.lane(), message.to_vec()),
        (3, 0, b"two".to_vec())
    );
    message.put_back();
    assert_eq!(receiver.recv().expect("it is there again").value(), 2);
    // A message in the hand still has its slot; dropped, as above, it has not.
    assert_eq!(sender.send(1, 4, b""), Ok(()));
    let waits = thread::spawn(move || {
        sender.send(1, 5, b"").expect("the receiver makes room");
        sender
    });
    for value in 3..=5 {
        assert_eq!(receiver.recv().expect("it comes").value(), value);
    }
    let mut sender = waits.join().unwrap();
    assert_eq!(sender.sent(), 4);
    // A closed channel: for the sender at once, and until there is another receiver.
    assert!(!sender.is_closed());
    assert_eq!(sender.send(1, 6, b""), Ok(()));
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(1, 7, b""), Err(SendError::Closed));
    let mut receiver = channel.receiver().expect("the place is free again");
    assert_eq!(receiver.recv().expect("it was not received").value(), 6);
    assert_eq!(sender.send(1, 8, b""), Ok(()));
    drop(sender);
    assert_eq!(
        receiver.recv().expect("it was sent before the end").value(),
        8
    );
    assert!(matches!(receiver.recv(), Err(RecvError::Closed)));
    // A sender that comes later opens it again.
    let mut sender = channel.sender().expect("a lane is free");
    assert!(matches!(receiver.try_recv(), Err(RecvError::Empty)));
    sender.send(0, 9, b"").expect("the receiver is there");
    assert_eq!(receiver.recv().expect("it is there").value(), 9);
}

#[test]
fn a_sender_that_waits_for_room_hears_that_the_receiver_has_gone() {
    for shared in [false, true] {
        let builder = Channel::builder().capacity(1);
        let channel = match shared {
            false => builder.build(),
            true => builder.build_shared(),
        };
        let channel = channel.expect("small");
        let mut sender = channel.sender().expect("a lane is free");
        let receiver = channel.receiver().expect("there is none yet");
        sender.send(0, 0, b"").expect("there is room");
        let waits = thread::spawn(move || sender.send(0, 1, b""));
        thread::sleep(Duration::from_millis(10));
        drop(receiver);
        assert_eq!(waits.join().unwrap(), Err(SendError::Closed));
    }
}

#[test]
fn wrong_descriptions_are_refused() {
    let build = |builder: ChannelBuilder| builder.build().map(|_| ()).unwrap_err().to_string();
    let usual = Channel::builder;
    assert!(build(usual().delivery("adaptiv")).contains("adaptive"));
    for wrong in [
        usual().capacity(0),
        usual().capacity(u64::MAX),
        usual().capacity(1 << 25),
        usual().senders(0),
        usual().senders(65),
        usual().payload(u32::MAX),
        usual().bound(Duration::ZERO),
        usual().bound(Duration::MAX),
        usual().headroom(0),
        usual().headroom(1025),
        usual().batch(0),
    ] {
        assert!(build(wrong).contains("0 or too large"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// What is written in place, in any order, is what is read, as in a vector.
    #[test]
    fn drafts_do_as_vectors(
        writes in proptest::collection::vec((0..40_u32, proptest::collection::vec(any::<u8>(), 0..30)), 0..8),
    ) {
        let channel = Channel::builder().capacity(1).payload(44).build().expect("small");
        let mut sender = channel.sender().expect("a lane is free");
        let mut receiver = channel.receiver().expect("there is none yet");
        let mut model = Vec::new();
        let mut draft = sender.draft().expect("there is room");
        for (at, bytes) in &writes {
            let end = *at as usize + bytes.len();
            let fits = end <= 44 || bytes.is_empty();
            prop_assert_eq!(draft.write(*at, bytes).is_ok(), fits);
            if fits && !bytes.is_empty() {
                model.resize(model.len().max(end), 0);
                model[*at as usize..end].copy_from_slice(bytes);
            }
        }
        draft.send(3, 4);
        let message = receiver.try_recv().expect("it was sent");
        prop_assert_eq!((message.to(), message.value(), message.to_vec()), (3, 4, model));
        let mut short = [0; 5];
        prop_assert_eq!(message.copy_to(&mut short), message.len().min(5));
    }
}
