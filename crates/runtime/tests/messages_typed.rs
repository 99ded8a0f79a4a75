//! Channels of values: they come out as they went in, in order, and none is lost or kept; bytes that are no value are refused.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tanada_policy::deliveries;
use tanada_runtime::Pool;
use tanada_runtime::messages::{Channel, ChannelError, RecvError, SendError, Typed, Unsent};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// A number that is 0, 1 or 2, or it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, TryFromBytes, Immutable)]
#[repr(u32)]
enum Kind {
    Rain,
    Sun,
    Snow,
}

#[derive(Clone, Copy, Debug, PartialEq, IntoBytes, TryFromBytes, Immutable)]
#[repr(C)]
struct Weather {
    kind: Kind,
    field: u32,
    degrees: f64,
}

fn weather(number: u32) -> Weather {
    let kinds = [Kind::Rain, Kind::Sun, Kind::Snow];
    Weather {
        kind: kinds[number as usize % 3],
        field: number,
        degrees: f64::from(number) / 8.0,
    }
}

#[test]
fn values_that_own_memory_move_through_a_channel_of_this_process() {
    for entry in deliveries::all() {
        let builder = Channel::builder().delivery(entry.name).capacity(16);
        let builder = builder.senders(2).bound(Duration::from_micros(200));
        let channel = builder
            .build_typed::<(usize, String)>()
            .expect("it is well described");
        let threads: Vec<_> = (0..2)
            .map(|lane| {
                let mut sender = channel.sender().expect("a lane is free");
                thread::spawn(move || {
                    for number in 0..2_000 {
                        let value = (lane, format!("message {number}"));
                        sender.send(value).expect("the receiver is there");
                    }
                })
            })
            .collect();
        let mut next = [0; 2];
        for (lane, text) in channel.receiver().expect("there is none yet") {
            assert_eq!(text, format!("message {}", next[lane]));
            next[lane] += 1;
        }
        assert_eq!(next, [2_000; 2], "{}", entry.name);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn values_that_nobody_takes_are_dropped_with_the_channel_and_unsent_ones_come_back() {
    let value = Arc::new(());
    let channel = Channel::builder().capacity(4).build_typed::<Arc<()>>();
    let channel = channel.expect("it is well described");
    let mut sender = channel.sender().expect("a lane is free");
    let mut receiver = channel.receiver().expect("there is none yet");
    for _ in 0..4 {
        sender.try_send(value.clone()).expect("there is room");
    }
    let Err(Unsent { value: back, error }) = sender.try_send(value.clone()) else {
        panic!("there is no room")
    };
    assert_eq!(error, SendError::Full);
    let soon = Instant::now() + Duration::from_millis(2);
    let late = sender.send_deadline(back, soon).expect_err("no room comes");
    assert_eq!(late.error, SendError::TimedOut);
    drop(late);
    assert_eq!(Arc::strong_count(&value), 5);
    drop(receiver.recv().expect("it is there"));
    assert_eq!(Arc::strong_count(&value), 4);
    drop(receiver);
    let closed = sender.send(value.clone()).expect_err("nobody receives");
    assert_eq!(closed.error, SendError::Closed);
    drop((closed, sender, channel));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn plain_values_go_through_shared_memory_to_threads_futures_and_tasks() {
    let pool = Pool::builder().workers(2).build().expect("two workers");
    for entry in deliveries::all() {
        let builder = Channel::builder().delivery(entry.name).capacity(32);
        let builder = builder.bound(Duration::from_micros(200));
        for way in 0..3 {
            let channel = builder.clone().build_shared_typed::<Weather>();
            let channel = channel.expect("it is well described");
            // As another process would.
            let other = Typed::<Weather>::of(channel.channel().clone()).expect("it is the same");
            let mut sender = other.sender().expect("a lane is free");
            let mut receiver = channel.receiver().expect("there is none yet");
            let sends = thread::spawn(move || {
                for number in 0..500 {
                    sender.send(weather(number)).expect("the receiver is there");
                }
            });
            let mut found = Vec::new();
            match way {
                0 => found.extend(&mut receiver),
                1 => pollster(async {
                    while let Ok(value) = receiver.recv_async().await {
                        found.push(value);
                    }
                }),
                _ => pool
                    .scope(|scope| receiver.serve(scope, "weather", |value| found.push(value)))
                    .expect("no task fails"),
            }
            let all: Vec<Weather> = (0..500).map(weather).collect();
            assert_eq!(found, all, "{} {way}", entry.name);
            sends.join().unwrap();
        }
    }
}

/// The smallest executor.
fn pollster(future: impl Future<Output = ()>) {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    while future.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

#[test]
fn another_type_is_refused() {
    let channel = Channel::builder()
        .payload(12)
        .build_shared()
        .expect("small");
    assert!(matches!(
        Typed::<Weather>::of(channel),
        Err(ChannelError::Refused(_))
    ));
    let here = Channel::builder().payload(16).build().expect("small");
    assert!(matches!(
        Typed::<Weather>::of(here),
        Err(ChannelError::Refused(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A hostile sender's payloads are values or are refused, and then its lane is closed; the other lane goes on.
    #[test]
    fn bytes_that_are_no_value_are_refused(
        payloads in prop::collection::vec(prop::collection::vec(prop_oneof![0_u8..3, any::<u8>()], 0..17), 1..20)
    ) {
        let channel = Channel::builder().senders(2).capacity(64).build_shared_typed::<Weather>();
        let channel = channel.expect("it is well described");
        let mut honest = channel.sender().expect("a lane is free");
        let mut hostile = channel.channel().sender().expect("a lane is free");
        let mut receiver = channel.receiver().expect("there is none yet");
        for payload in &payloads {
            hostile.try_send(0, 0, payload).expect("there is room");
        }
        for number in 0..20 {
            honest.try_send(weather(number)).expect("there is room");
        }
        drop((honest, hostile));
        // The kind is read here by hand.
        let is_value = |payload: &Vec<u8>| payload.len() == 16
            && u32::from_ne_bytes(payload[..4].try_into().expect("four")) < 3;
        let good = payloads.iter().take_while(|payload| is_value(payload)).count();
        let (mut from_hostile, mut corrupt, mut expected) = (0, 0, 0);
        loop {
            match receiver.recv() {
                Ok(value) if expected < 20 && value == weather(expected) => expected += 1,
                Ok(_) => from_hostile += 1,
                Err(RecvError::Corrupt { lane }) => {
                    prop_assert_eq!(lane, 1);
                    corrupt += 1;
                }
                Err(RecvError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        prop_assert_eq!(expected, 20);
        prop_assert_eq!(from_hostile, good);
        prop_assert_eq!(corrupt, usize::from(good < payloads.len()));
    }
}
