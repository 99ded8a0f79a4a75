//! Channels for messages between workers, threads and processes, with a delivery that decides when the receiver is told (paper 3).
//!
//! A channel has up to [`MAX_SENDERS`] senders and one receiver. Each sender has a *lane* of its own: a bounded queue whose slots hold the
//! message and, in place, its payload. So senders never wait for each other, and one that is killed leaves nothing half done. A message
//! has a destination and a value, two numbers whose meaning is the program's, and a payload of bytes.
//!
//! ```
//! use std::time::Duration;
//! use tanada_runtime::messages::{Channel, RecvError};
//!
//! let channel = Channel::builder()
//!     .capacity(256)
//!     .payload(64)
//!     .delivery("adaptive")
//!     .bound(Duration::from_millis(1))
//!     .build()?;
//! let (mut sender, mut receiver) = (channel.sender()?, channel.receiver()?);
//! let sends = std::thread::spawn(move || {
//!     for n in 0..1000 {
//!         sender.send(7, n, b"payload").expect("the receiver is there");
//!     }
//! });
//! let mut sum = 0;
//! loop {
//!     match receiver.recv() {
//!         Ok(message) => {
//!             assert_eq!((message.to(), message.to_vec().as_slice()), (7, &b"payload"[..]));
//!             sum += message.value();
//!         }
//!         Err(RecvError::Closed) => break,
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! sends.join().unwrap();
//! assert_eq!(sum, 999 * 1000 / 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A channel may also have a type ([`Typed`]): then values go in and come out.
//!
//! # Receivers
//! - an OS thread: [`Receiver::recv`], [`Receiver::recv_deadline`];
//! - an event loop: [`Receiver::event`] is a descriptor that any loop can poll, see [`Receiver::rest`];
//! - a future of any executor: [`Receiver::ready`], [`Receiver::poll_ready`];
//! - a task of a pool: [`Receiver::serve`]. A lightweight thread, or anything else that another thread can wake, is a waker in the same
//!   way.
//!
//! # Between processes
//! [`ChannelBuilder::build_shared`] puts the channel into a memory file without a name, which the kernel frees with its last user.
//! Another process gets the descriptor ([`Channel::send_to`], by inheritance, or through `/proc`) and opens it with [`Channel::open`].
//! What it reads there it checks before it uses it, because the other process may write whatever it likes at any time: bytes of a payload
//! are therefore copied out, and never handed out as a slice. A process that is killed loses its lock, by which others find out:
//!
//! - *A sender is killed*: what it has committed is received, what it has not was never sent. Its lane is free for another sender.
//! - *The receiver is killed*: senders that find the channel full get [`SendError::Closed`]. What was not received stays for the next
//!   receiver, which begins with the message that the last one had in its hands: that may have been handled already.
//!
//! Deaths are looked for when an end waits, every [`LOOK_FOR_DEATHS`], or by [`Receiver::bury`] and [`Sender::is_closed`].
//!
//! An end belongs to the process that made it: a child of `fork(2)` makes ends of its own.
//!
//! Linux only.

#[cfg(not(shuttle))]
#[allow(unsafe_code)]
mod bell;
mod builder;
mod channel;
mod clock;
mod doze;
mod error;
mod futex;
#[cfg(not(shuttle))]
mod keeper;
mod lateness;
#[cfg(not(shuttle))]
#[allow(unsafe_code)]
mod lock;
#[allow(unsafe_code)]
mod memory;
#[cfg(not(shuttle))]
mod pass;
mod receiver;
mod sender;
#[cfg(not(shuttle))]
mod task;
#[cfg(not(shuttle))]
mod typed;

pub use builder::ChannelBuilder;
pub use channel::Channel;
pub use error::{ChannelError, RecvError, SendError};
pub use memory::MAX_SENDERS;
pub use receiver::{Message, Receiver};
pub use sender::{Draft, Sender};
#[cfg(not(shuttle))]
pub use typed::{Plain, Typed, TypedReceiver, TypedSender, Unsent};

/// How often an end of a shared channel that waits looks whether the other end's process still lives.
pub const LOOK_FOR_DEATHS: std::time::Duration = std::time::Duration::from_millis(100);

/// Values of `presence`: no receiver yet, one is there, and it has closed the channel.
mod presence {
    pub(super) const NEVER: u32 = 0;
    pub(super) const HERE: u32 = 1;
    pub(super) const GONE: u32 = 2;
}
