//! Ways to send messages of one word from one thread to another.

use crate::Fallible;
use std::time::Duration;
use tanada_runtime::messages::{Channel, Receiver, RecvError};

/// What a receiver does while nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It looks again and again, and never sleeps.
    Spin,
    /// It looks for some microseconds and then sleeps: the rule of crossbeam's channels.
    Backoff,
    /// It sleeps at once.
    Block,
}

/// Words that fit into every line.
pub(crate) const CAPACITY: usize = 16_384;

/// The bound of lines that have one.
pub(crate) const BOUND: Duration = Duration::from_millis(1);

/// Sends a word; waits for room.
pub(crate) type Send = Box<dyn FnMut(u64)>;

/// Waits for a word.
pub(crate) type Receive = Box<dyn FnMut() -> u64>;

/// Makes an end, in the thread that uses it.
pub(crate) type Open<End> = Box<dyn FnOnce() -> Fallible<End> + std::marker::Send>;

/// A line from one thread to another.
pub(crate) struct Line {
    pub(crate) send: Open<Send>,
    pub(crate) receive: Open<Receive>,
}

/// A kind of line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A channel of the runtime, with this delivery; and whether it is in shared memory.
    Tanada(&'static str, bool),
    Crossbeam,
    Rtrb,
    /// A ring, and an `eventfd` that is written for each message.
    RtrbEventfd,
    Pipe,
    Iceoryx,
}

/// Whether this build has iceoryx2.
pub(crate) const ICEORYX: bool = cfg!(feature = "iceoryx2");

impl Kind {
    /// Returns whether receivers can wait like that.
    pub(crate) fn can(self, wait: Wait) -> bool {
        match self {
            Kind::Tanada(..) => true,
            Kind::Crossbeam => wait != Wait::Block,
            Kind::Rtrb => wait == Wait::Spin,
            Kind::RtrbEventfd | Kind::Pipe => wait == Wait::Block,
            Kind::Iceoryx => wait != Wait::Backoff,
        }
    }

    /// Returns whether a message is told at once; otherwise a round trip measures the bound.
    pub(crate) fn is_immediate(self) -> bool {
        !matches!(self, Kind::Tanada(delivery, _) if delivery != "immediate")
    }

    /// Returns whether messages may be told later than at once, but not later than [`BOUND`].
    pub(crate) fn has_bound(self) -> bool {
        !self.is_immediate()
    }

    /// Returns the setting in which a receiver takes the least processor time.
    pub(crate) fn thriftiest(self) -> Wait {
        match self {
            Kind::Crossbeam => Wait::Backoff,
            Kind::Rtrb => Wait::Spin,
            _ => Wait::Block,
        }
    }

    /// Returns a new line.
    pub(crate) fn line(self, wait: Wait) -> Fallible<Line> {
        match self {
            Kind::Tanada(delivery, shared) => tanada(delivery, shared, wait),
            Kind::Crossbeam => Ok(crossbeam(wait)),
            Kind::Rtrb => Ok(rtrb()),
            Kind::RtrbEventfd => rtrb_eventfd(),
            Kind::Pipe => pipe(),
            Kind::Iceoryx => iceoryx::line(wait),
        }
    }
}

fn tanada(delivery: &str, shared: bool, wait: Wait) -> Fallible<Line> {
    let builder = Channel::builder()
        .capacity(CAPACITY as u64)
        .delivery(delivery)
        .bound(BOUND);
    let builder = match wait {
        Wait::Block => builder.spin(0),
        Wait::Spin => builder.spin(u32::MAX),
        Wait::Backoff => builder,
    };
    let channel = match shared {
        true => builder.build_shared()?,
        false => builder.build()?,
    };
    let (mut sender, mut receiver) = (channel.sender()?, channel.receiver()?);
    let spinning = |mut receiver: Receiver| -> Receive {
        Box::new(move || {
            loop {
                match receiver.try_recv() {
                    Ok(message) => return message.value(),
                    Err(RecvError::Empty) => std::hint::spin_loop(),
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    Ok(Line {
        send: Box::new(move || {
            Ok(Box::new(move |word| {
                sender.send(0, word, &[]).expect("the receiver is there");
            }))
        }),
        receive: Box::new(move || {
            Ok(match wait {
                Wait::Spin => spinning(receiver),
                Wait::Backoff | Wait::Block => {
                    Box::new(move || receiver.recv().expect("the sender is there").value())
                }
            })
        }),
    })
}

fn crossbeam(wait: Wait) -> Line {
    let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
    Line {
        send: Box::new(move || {
            Ok(Box::new(move |word| {
                sender.send(word).expect("the receiver is there");
            }))
        }),
        receive: Box::new(move || {
            Ok(match wait {
                Wait::Spin => Box::new(move || {
                    loop {
                        if let Ok(word) = receiver.try_recv() {
                            return word;
                        }
                        std::hint::spin_loop();
                    }
                }),
                Wait::Backoff | Wait::Block => {
                    Box::new(move || receiver.recv().expect("the sender is there"))
                }
            })
        }),
    }
}

fn rtrb() -> Line {
    let (mut sender, mut receiver) = rtrb::RingBuffer::new(CAPACITY);
    Line {
        send: Box::new(move || {
            Ok(Box::new(move |word| {
                while sender.push(word).is_err() {
                    std::hint::spin_loop();
                }
            }))
        }),
        receive: Box::new(move || {
            Ok(Box::new(move || {
                loop {
                    if let Ok(word) = receiver.pop() {
                        return word;
                    }
                    std::hint::spin_loop();
                }
            }))
        }),
    }
}

fn rtrb_eventfd() -> Fallible<Line> {
    let (mut sender, mut receiver) = rtrb::RingBuffer::new(CAPACITY);
    let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    let bell = std::sync::Arc::new(bell);
    let rung = std::sync::Arc::clone(&bell);
    Ok(Line {
        send: Box::new(move || {
            Ok(Box::new(move |word| {
                while sender.push(word).is_err() {
                    std::thread::yield_now();
                }
                rustix::io::write(&*bell, &1_u64.to_ne_bytes()).expect("it can be rung");
            }))
        }),
        receive: Box::new(move || {
            Ok(Box::new(move || {
                loop {
                    if let Ok(word) = receiver.pop() {
                        return word;
                    }
                    let mut count = [0_u8; 8];
                    rustix::io::read(&*rung, &mut count).expect("it can be read");
                }
            }))
        }),
    })
}

fn pipe() -> Fallible<Line> {
    /// A reader takes as many words at once as are there.
    const BUFFER: usize = 4096;
    let (mut reader, mut writer) = std::io::pipe()?;
    Ok(Line {
        send: Box::new(move || {
            Ok(Box::new(move |word: u64| {
                use std::io::Write;
                writer.write_all(&word.to_ne_bytes()).expect("it is open");
            }))
        }),
        receive: Box::new(move || {
            let mut buffer = [0_u8; BUFFER];
            let (mut at, mut end) = (0, 0);
            Ok(Box::new(move || {
                use std::io::Read;
                if at == end {
                    // Words are written whole, so they are read whole.
                    (at, end) = (0, reader.read(&mut buffer).expect("it is open"));
                }
                let word = buffer[at..at + 8].try_into().expect("eight bytes");
                at += 8;
                u64::from_ne_bytes(word)
            }))
        }),
    })
}

#[cfg(not(feature = "iceoryx2"))]
mod iceoryx {
    use super::{Fallible, Line, Wait};

    pub(super) fn line(_: Wait) -> Fallible<Line> {
        Err("built without the feature iceoryx2".into())
    }
}

/// A publish-subscribe service, and an event service for receivers that sleep.
#[cfg(feature = "iceoryx2")]
mod iceoryx {
    use super::{CAPACITY, Fallible, Line, Wait};
    use iceoryx2::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    type Node = iceoryx2::node::Node<ipc::Service>;
    type Words =
        iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, u64, ()>;
    type Bell = iceoryx2::service::port_factory::event::PortFactory<ipc::Service>;

    fn services(name: &str) -> Fallible<(Node, Words, Bell)> {
        set_log_level(LogLevel::Fatal);
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let words = node
            .service_builder(&format!("{name}/words").as_str().try_into()?)
            .publish_subscribe::<u64>()
            .subscriber_max_buffer_size(CAPACITY)
            .enable_safe_overflow(false)
            .open_or_create()?;
        let bell = node
            .service_builder(&format!("{name}/bell").as_str().try_into()?)
            .event()
            .open_or_create()?;
        Ok((node, words, bell))
    }

    pub(super) fn line(wait: Wait) -> Fallible<Line> {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let line = LINES.fetch_add(1, Ordering::Relaxed);
        let name = format!("tanada-peers/{}/{line}", std::process::id());
        let same = name.clone();
        // The services stay while either end lives. Both ends come before the first word.
        let both = std::sync::Arc::new(std::sync::Barrier::new(2));
        let other = std::sync::Arc::clone(&both);
        Ok(Line {
            send: Box::new(move || {
                let (node, words, bell) = services(&name)?;
                let publisher = words
                    .publisher_builder()
                    .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
                    .create()?;
                let notifier = bell.notifier_builder().create()?;
                both.wait();
                Ok(Box::new(move |word| {
                    let _ = &node;
                    publisher.send_copy(word).expect("the receiver is there");
                    if wait == Wait::Block {
                        notifier.notify().expect("the receiver listens");
                    }
                }))
            }),
            receive: Box::new(move || {
                let (node, words, bell) = services(&same)?;
                let subscriber = words.subscriber_builder().create()?;
                let listener = bell.listener_builder().create()?;
                other.wait();
                Ok(Box::new(move || {
                    let _ = &node;
                    loop {
                        if let Some(word) = subscriber.receive().expect("the sender is there") {
                            return *word;
                        }
                        match wait {
                            Wait::Block => {
                                listener
                                    .blocking_wait(|_| ())
                                    .expect("it can be waited for");
                            }
                            _ => std::hint::spin_loop(),
                        }
                    }
                }))
            }),
        })
    }
}
